// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package imagemeta

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// DefaultCertsDir is where Docker keeps certificates of registries: a folder a
// registry, named "host[:port]", with *.crt (authorities) and pairs of *.cert
// and *.key (ours).
const DefaultCertsDir = "/etc/docker/certs.d"

// tlsConfig is the TLS configuration for one registry.
func tlsConfig(certsDir, registry string, insecure bool) (*tls.Config, error) {
	// An insecure registry may show any certificate: the engine's operator said so.
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure}
	if registry != filepath.Base(registry) {
		return cfg, nil // a path element is no registry's name
	}
	dir := filepath.Join(certsDir, registry)
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return cfg, nil
	}
	if err != nil {
		return nil, fmt.Errorf("certificates of registry %q cannot be read: %w", registry, err)
	}
	for _, f := range files {
		if err := addCertificate(cfg, filepath.Join(dir, f.Name())); err != nil {
			return nil, fmt.Errorf("certificates of registry %q: %w", registry, err)
		}
	}
	return cfg, nil
}

// addCertificate adds one file, if its name says that it is a certificate.
func addCertificate(cfg *tls.Config, path string) error {
	switch filepath.Ext(path) {
	case ".crt":
		return addAuthority(cfg, path)
	case ".cert":
		pair, err := tls.LoadX509KeyPair(path, strings.TrimSuffix(path, ".cert")+".key")
		if err != nil {
			return fmt.Errorf("client certificate %q: %w", path, err)
		}
		cfg.Certificates = append(cfg.Certificates, pair)
	}
	return nil
}

func addAuthority(cfg *tls.Config, path string) error {
	pem, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if cfg.RootCAs == nil {
		if cfg.RootCAs, err = x509.SystemCertPool(); err != nil {
			return err
		}
	}
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%q holds no PEM certificate", path)
	}
	return nil
}
