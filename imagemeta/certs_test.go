// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package imagemeta

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/shoenig/test/must"
)

// writeAuthority puts a server's certificate where Docker looks for it.
func writeAuthority(t *testing.T, certsDir string, r *testRegistry) {
	t.Helper()
	dir := filepath.Join(certsDir, r.host)
	must.NoError(t, os.MkdirAll(dir, 0o755))
	block := &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}
	must.NoError(t, os.WriteFile(filepath.Join(dir, "ca.crt"), pem.EncodeToMemory(block), 0o644))
}

func TestTLSConfig(t *testing.T) {
	certs := t.TempDir()
	write := func(registry, file, text string) {
		must.NoError(t, os.MkdirAll(filepath.Join(certs, registry), 0o755))
		must.NoError(t, os.WriteFile(filepath.Join(certs, registry, file), []byte(text), 0o644))
	}
	write("broken:5000", "ca.crt", "nonsense")
	write("half:5000", "client.cert", "nonsense")
	write("other", "README", "not a certificate")

	cfg, err := tlsConfig(certs, "absent:5000", false)
	must.NoError(t, err)
	must.False(t, cfg.InsecureSkipVerify)
	must.Nil(t, cfg.RootCAs)
	cfg, err = tlsConfig(certs, "other", true)
	must.NoError(t, err)
	must.True(t, cfg.InsecureSkipVerify)
	_, err = tlsConfig(certs, "broken:5000", false)
	must.ErrorContains(t, err, `certificates of registry "broken:5000": "`+filepath.Join(certs, "broken:5000/ca.crt")+`" holds no PEM certificate`)
	_, err = tlsConfig(certs, "half:5000", false)
	must.ErrorContains(t, err, "client certificate")
	cfg, err = tlsConfig(certs, "../half:5000", false)
	must.NoError(t, err)
	must.SliceEmpty(t, cfg.Certificates)
}
