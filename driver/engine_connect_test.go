// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	engineapi "github.com/docker/docker/api/types/container"
	"github.com/shoenig/test/must"
)

// serveTCP serves a daemon on a port of the loopback, with TLS when change is
// given, and returns its address.
func serveTCP(t *testing.T, change func(*tls.Config)) (address string, certificate *x509.Certificate) {
	t.Helper()
	d := &fakeDaemon{api: "1.41", min: "1.12", hang: make(chan struct{})}
	server := httptest.NewUnstartedServer(d)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are to fail
	if change == nil {
		server.Start()
	} else {
		server.TLS = &tls.Config{}
		change(server.TLS)
		server.StartTLS()
	}
	t.Cleanup(func() { close(d.hang); server.Close() })
	return server.Listener.Addr().String(), server.Certificate()
}

// hears makes an ordinary call and one that takes the connection over, as exec
// does, and returns the first error.
func hears(t *testing.T, at endpoint) error {
	t.Helper()
	at.Timeout = time.Minute
	e, err := newDockerEngine(at)
	if err != nil {
		return err
	}
	defer e.Close()
	if _, err := e.Version(t.Context()); err != nil {
		return err
	}
	process, err := e.ExecAttach(t.Context(), "x", engineapi.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer process.Close()
	said, err := io.ReadAll(process.Reader)
	if err == nil {
		must.Eq(t, "hello", string(said))
	}
	return err
}

// TestEndpointSchemes: each way of writing an address serves every kind of call.
func TestEndpointSchemes(t *testing.T) {
	address, _ := serveTCP(t, nil)
	for _, host := range []string{"tcp://" + address, "tcp://" + address + "/", "http://" + address, "http://" + address + "/", address} {
		t.Run(strings.TrimSuffix(host, address), func(t *testing.T) {
			must.NoError(t, hears(t, endpoint{Host: host}))
			t.Setenv("DOCKER_HOST", host)
			must.NoError(t, hears(t, endpoint{}))
		})
	}
}

// TestEndpointTLS: certificates of the options or of the environment, whichever
// says where the engine is (table of task-driver 2, cases DRV-25).
func TestEndpointTLS(t *testing.T) {
	dir := t.TempDir()
	client := writeClientCertificate(t, dir)
	address, server := serveTCP(t, func(c *tls.Config) {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		c.ClientCAs.AddCert(client)
	})
	ca, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(t, ca, "CERTIFICATE", server.Raw)

	t.Run("options", func(t *testing.T) {
		t.Setenv("DOCKER_HOST", "tcp://nowhere.invalid:1") // counts only without an endpoint
		t.Setenv("DOCKER_CERT_PATH", "/nowhere")
		for _, scheme := range []string{"tcp://", "https://", "http://", ""} {
			must.NoError(t, hears(t, endpoint{Host: scheme + address, CAFile: ca, CertFile: cert, KeyFile: key}))
		}
	})
	t.Run("environment", func(t *testing.T) {
		t.Setenv("DOCKER_CERT_PATH", dir)
		t.Setenv("DOCKER_TLS_VERIFY", "1")
		for _, scheme := range []string{"tcp://", "https://"} {
			t.Setenv("DOCKER_HOST", scheme+address)
			must.NoError(t, hears(t, endpoint{}))
		}
	})
	t.Run("no client certificate", func(t *testing.T) {
		must.Error(t, hears(t, endpoint{Host: "tcp://" + address, CAFile: ca}))
	})
	t.Run("swapped files", func(t *testing.T) {
		must.ErrorContains(t, hears(t, endpoint{Host: "tcp://" + address, CAFile: ca, CertFile: key, KeyFile: cert}), "check the options endpoint and tls")
	})
	t.Run("another authority", func(t *testing.T) {
		must.ErrorContains(t, hears(t, endpoint{Host: "tcp://" + address, CAFile: cert, CertFile: cert, KeyFile: key}), "certificate signed by unknown authority")
	})
	t.Run("https without files asks the system's authorities", func(t *testing.T) {
		must.ErrorContains(t, hears(t, endpoint{Host: "https://" + address}), "certificate signed by unknown authority")
		t.Setenv("DOCKER_HOST", "https://"+address)
		must.ErrorContains(t, hears(t, endpoint{}), "certificate signed by unknown authority")
	})
}

func TestTLSOptionsOfASocket(t *testing.T) {
	d := &fakeDaemon{api: "1.41", min: "1.12"}
	must.NoError(t, hears(t, endpoint{Host: serveDaemon(t, d), CAFile: "/nowhere/ca.pem"}), must.Sprint("a socket has no TLS"))
}

func TestBadEndpoints(t *testing.T) {
	for _, at := range []endpoint{
		{Host: "nonsense"},
		{Host: "fd://3"},
		{Host: "tcp://127.0.0.1:1", CAFile: "/nowhere/ca.pem"},
		{Host: "tcp://127.0.0.1:1", CertFile: "/nowhere/cert.pem", KeyFile: "/nowhere/key.pem"},
	} {
		_, err := newDockerEngine(at)
		must.ErrorContains(t, err, "check the options endpoint and tls")
	}
	t.Setenv("DOCKER_HOST", "fd://3")
	_, err := newDockerEngine(endpoint{})
	must.ErrorContains(t, err, `DOCKER_HOST "fd://3": the scheme "fd"`)
}

// writeClientCertificate makes cert.pem and key.pem.
func writeClientCertificate(t *testing.T, dir string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must.NoError(t, err)
	writePEM(t, filepath.Join(dir, "cert.pem"), "CERTIFICATE", raw)
	encoded, err := x509.MarshalECPrivateKey(key)
	must.NoError(t, err)
	writePEM(t, filepath.Join(dir, "key.pem"), "EC PRIVATE KEY", encoded)
	certificate, err := x509.ParseCertificate(raw)
	must.NoError(t, err)
	return certificate
}

func writePEM(t *testing.T, path, kind string, raw []byte) {
	t.Helper()
	must.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600))
}
