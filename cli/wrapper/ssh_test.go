// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/gpu-docker/gpu-docker/restapi"
)

const bobsPassword = "open sesame"

// sshHost is an SSH server that lets user bob in, with a key or a password, and
// forwards every connection to the API.
type sshHost struct {
	address string
	hostKey ssh.PublicKey
	agent   string // socket of an agent that has bob's key
	seen    chan string
}

func newKey(t *testing.T) (ed25519.PrivateKey, ssh.Signer) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	must.NoError(t, err)
	return private, signer
}

func startSSH(t *testing.T, api string) *sshHost {
	t.Helper()
	userKey, user := newKey(t)
	_, host := newKey(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if c.User() == "bob" && bytes.Equal(key.Marshal(), user.PublicKey().Marshal()) {
			return nil, nil
		}
		return nil, errors.New("not bob")
	}}
	config.PasswordCallback = func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		if c.User() == "bob" && string(password) == bobsPassword {
			return nil, nil
		}
		return nil, errors.New("not bob")
	}
	config.AddHostKey(host)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, listener.Close()) })
	h := &sshHost{address: listener.Addr().String(), hostKey: host.PublicKey(), seen: make(chan string, 16)}
	go h.accept(listener, config, api)
	h.agent = startAgent(t, userKey)
	return h
}

func (h *sshHost) accept(listener net.Listener, config *ssh.ServerConfig, api string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_, channels, requests, err := ssh.NewServerConn(conn, config)
			if err != nil {
				return
			}
			go ssh.DiscardRequests(requests)
			for c := range channels {
				var target struct {
					Host       string
					Port       uint32
					OriginHost string
					OriginPort uint32
				}
				if err := ssh.Unmarshal(c.ExtraData(), &target); err != nil {
					return
				}
				h.seen <- fmt.Sprintf("%s:%d", target.Host, target.Port)
				go forward(c, api)
			}
		}()
	}
}

func forward(c ssh.NewChannel, api string) {
	channel, requests, err := c.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	go ssh.DiscardRequests(requests)
	conn, err := net.Dial("tcp", api)
	if err != nil {
		return
	}
	defer conn.Close()
	go func() { _, _ = io.Copy(conn, channel) }()
	_, _ = io.Copy(channel, conn)
}

func startAgent(t *testing.T, key ed25519.PrivateKey) string {
	t.Helper()
	keyring := agent.NewKeyring()
	must.NoError(t, keyring.Add(agent.AddedKey{PrivateKey: key}))
	path := filepath.Join(t.TempDir(), "agent")
	listener, err := net.Listen("unix", path)
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, listener.Close()) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); _ = agent.ServeAgent(keyring, conn) }()
		}
	}()
	return path
}

// knownHost writes a home whose known_hosts has a key for the host; nil: none.
func knownHost(t *testing.T, address string, key ssh.PublicKey) string {
	t.Helper()
	home := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(home, ".ssh"), 0o700))
	line := ""
	if key != nil {
		line = knownhosts.Line([]string{address}, key) + "\n"
	}
	must.NoError(t, os.WriteFile(filepath.Join(home, ".ssh", "known_hosts"), []byte(line), 0o600))
	return home
}

// Through SSH: keys of the agent, a checked host key, the API behind it (EN-5, D15).
func TestSSH(t *testing.T) {
	fixture, err := openFixture("testdata/ecc2-375.26/fixture.json")
	must.NoError(t, err)
	api := httptest.NewServer(restapi.Handler(restapi.Config{Host: fixture}))
	t.Cleanup(api.Close)
	host := startSSH(t, api.Listener.Addr().String())
	_, stranger := newKey(t)
	for _, tc := range []struct {
		name    string
		key     ssh.PublicKey // in known_hosts
		agent   string
		wantErr string
	}{
		{"known", host.hostKey, host.agent, ""},
		{"unknown host", nil, host.agent, "is not in known_hosts; connect once with ssh and check its key"},
		{"another key", stranger.PublicKey(), host.agent, "is not the one in known_hosts"},
		{"no agent", host.hostKey, "/no/such/agent", "Warning: failed to contact the local SSH agent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, port, err := net.SplitHostPort(host.address)
			must.NoError(t, err)
			env := map[string]string{
				"NV_HOST": "ssh://bob@127.0.0.1:" + port + ":", "DOCKER_HOST": "tcp://127.0.0.1:2375", "NV_GPU": "1",
				"SSH_AUTH_SOCK": tc.agent, "HOME": knownHost(t, host.address, tc.key),
			}
			e := &fakeEngine{Images: map[string]map[string]string{"cuda": {volumesLabel: "nvidia_driver"}}}
			var stderr bytes.Buffer
			var ran []string
			code := Run(t.Context(), Config{
				Program: "nvidia-docker", Args: []string{"run", "cuda"},
				Getenv: func(key string) string { return env[key] },
				Stdout: io.Discard, Stderr: &stderr,
				Run: func(_ context.Context, argv []string, stdout, stderr io.Writer) error {
					if code := e.run(argv, stdout, stderr); code != 0 {
						return errors.New("failed")
					}
					return nil
				},
				Exec: func(argv []string) error { ran = argv; return nil },
			})
			if tc.wantErr != "" {
				must.Eq(t, 1, code)
				must.StrContains(t, stderr.String(), tc.wantErr)
				return
			}
			must.Eq(t, 0, code, must.Sprint(stderr.String()))
			must.SliceContains(t, ran, "--device=/dev/nvidia5")
			must.SliceNotContains(t, ran, "--device=/dev/nvidia0")
			must.Eq(t, "localhost:3476", <-host.seen)
		})
	}
}

// A machine that takes the connection and then says nothing, at whatever point,
// ends the wrapper with an error (EN-5, CL-9).
func TestSilentMachine(t *testing.T) {
	_, hostKey := newKey(t)
	for _, tc := range []struct {
		name, scheme string
		serve        func(context.Context, net.Conn)
		wantErr      string
	}{
		{"no HTTP", "http", func(context.Context, net.Conn) {}, "remote host: Get "},
		{"no SSH", "ssh", func(context.Context, net.Conn) {}, "no answer in time"},
		{"no key exchange", "ssh", func(_ context.Context, c net.Conn) { say(c, "SSH-2.0-silent\r\n") }, "no answer in time"},
		{"no login", "ssh", func(ctx context.Context, c net.Conn) {
			config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
				<-ctx.Done()
				return nil, errors.New("nobody is let in")
			}}
			config.AddHostKey(hostKey)
			_, _, _, _ = ssh.NewServerConn(c, config)
		}, "no answer in time"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := startMachine(t, tc.serve)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			env := map[string]string{
				"NV_HOST": "http://" + server, "DOCKER_HOST": "tcp://127.0.0.1:2375",
				"HOME": knownHost(t, server, hostKey.PublicKey()),
			}
			if tc.scheme == "ssh" {
				key, _ := newKey(t)
				env["NV_HOST"], env["SSH_AUTH_SOCK"] = "ssh://bob@"+server+":", startAgent(t, key)
			}
			e := &fakeEngine{Images: map[string]map[string]string{"cuda": {volumesLabel: "nvidia_driver"}}}
			var stderr bytes.Buffer
			must.Eq(t, 1, Run(ctx, Config{
				Program: "nvidia-docker", Args: []string{"run", "cuda"}, Patience: 100 * time.Millisecond,
				Getenv: func(key string) string { return env[key] },
				Stdout: io.Discard, Stderr: &stderr,
				Run: func(_ context.Context, argv []string, stdout, stderr io.Writer) error {
					e.run(argv, stdout, stderr)
					return nil
				},
				Dial: (&net.Dialer{}).DialContext,
			}))
			must.StrContains(t, stderr.String(), tc.wantErr)
			must.NoError(t, ctx.Err())
		})
	}
}

// The wait for a silent machine can be broken off.
func TestBreakOff(t *testing.T) {
	arrived := make(chan struct{})
	conn, err := net.Dial("tcp", startMachine(t, func(context.Context, net.Conn) { close(arrived) }))
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	w := &call{cfg: Config{Patience: time.Hour}, target: &Target{Address: "silent:22"}}
	_, err = w.shakeHands(ctx, conn, &ssh.ClientConfig{HostKeyCallback: func(string, net.Addr, ssh.PublicKey) error { return nil }})
	must.ErrorIs(t, err, net.ErrClosed)
}

// startMachine takes connections, lets serve say something on each, and then holds
// them until the test ends.
func startMachine(t *testing.T, serve func(context.Context, net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	var held sync.WaitGroup
	t.Cleanup(func() {
		must.NoError(t, listener.Close())
		held.Wait()
	})
	held.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			held.Go(func() {
				defer conn.Close()
				serve(t.Context(), conn)
				_, _ = io.Copy(io.Discard, conn) // until the wrapper hangs up
			})
		}
	})
	return listener.Addr().String()
}
