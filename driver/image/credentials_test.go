// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
)

// helpers puts credential helpers on PATH. Each writes what it was asked to
// <dir>/asked.
func helpers(t *testing.T, scripts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for suffix, script := range scripts {
		text := fmt.Sprintf("#!/bin/sh\nread -r server\necho \"%s $1 $server\" >> %s/asked\n%s\n", suffix, dir, script)
		must.NoError(t, os.WriteFile(filepath.Join(dir, "docker-credential-"+suffix), []byte(text), 0o700))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// asked lists the calls of helpers.
func asked(t *testing.T, dir string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "asked"))
	if os.IsNotExist(err) {
		return nil
	}
	must.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// configFile writes a Docker configuration file.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func basic(userAndPassword string) string {
	return base64.StdEncoding.EncodeToString([]byte(userAndPassword))
}

const (
	yields   = `echo '{"ServerURL":"x","Username":"helped","Secret":"s"}'`
	hasNone  = `echo "credentials not found in native keychain"; exit 1`
	breaks   = `echo "cannot unlock the store"; exit 3`
	hasToken = `echo '{"Username":"<token>","Secret":"tok"}'`
)

// cases DRV-17, task-driver IM-4: the order, and who ends the search.
func TestCredentialOrder(t *testing.T) {
	all := `{"credHelpers":{"r:5000":"perhost"},"auths":{"r:5000":{"auth":"` + basic("filed:p:w") + `"}},"credsStore":"store"}`
	for _, tc := range []struct {
		name, config, helper string
		task                 Auth
		scripts              map[string]string
		wantUser             string
		wantErr              string
		wantAsked            []string
	}{
		{name: "nothing configured"},
		{name: "the task first", config: all, helper: "global", task: Auth{Username: "t", Password: "p"}, wantUser: "t"},
		{name: "then credHelpers", config: all, helper: "global", scripts: map[string]string{"perhost": yields},
			wantUser: "helped", wantAsked: []string{"perhost get r:5000"}},
		{name: "then auths", config: all, helper: "global", scripts: map[string]string{"perhost": hasNone},
			wantUser: "filed", wantAsked: []string{"perhost get r:5000"}},
		{name: "then credsStore", config: `{"auths":{"r:5000":{}},"credsStore":"store"}`, helper: "global", scripts: map[string]string{"store": yields},
			wantUser: "helped", wantAsked: []string{"store get r:5000"}},
		{name: "then the global helper", config: `{"credsStore":"store"}`, helper: "global", scripts: map[string]string{"store": hasNone, "global": yields},
			wantUser: "helped", wantAsked: []string{"store get r:5000", "global get r:5000"}},
		{name: "none at all", config: `{"auths":{"other":{"auth":"` + basic("a:b") + `"}}}`, helper: "global", scripts: map[string]string{"global": hasNone},
			wantAsked: []string{"global get r:5000"}},
		{name: "an error ends the search", config: all, helper: "global", scripts: map[string]string{"perhost": breaks},
			wantErr: `credential helper "docker-credential-perhost" failed for registry "r:5000": exit status 3: cannot unlock the store`, wantAsked: []string{"perhost get r:5000"}},
		{name: "missing helper", helper: "absent", wantErr: `credential helper "docker-credential-absent" was not found in PATH "`},
		{name: "no JSON", helper: "global", scripts: map[string]string{"global": "echo secret-text"}, wantErr: "something else than JSON", wantAsked: []string{"global get r:5000"}},
		{name: "missing file", config: "-", wantErr: "auth.config: open "},
		{name: "broken file", config: "{", wantErr: "is not a Docker configuration file"},
		{name: "broken entry", config: `{"auths":{"r:5000":{"auth":"%%%"}}}`, wantErr: "must be base64 of user:password"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := helpers(t, tc.scripts)
			source := CredentialSource{Task: tc.task, Helper: tc.helper}
			switch tc.config {
			case "":
			case "-":
				source.ConfigFile = filepath.Join(dir, "none.json")
			default:
				source.ConfigFile = configFile(t, tc.config)
			}
			auth, err := source.Find(t.Context(), "r:5000")
			must.Eq(t, tc.wantAsked, asked(t, dir))
			if tc.wantErr != "" {
				must.ErrorContains(t, err, tc.wantErr)
				must.StrNotContains(t, err.Error(), "secret-text")
				return
			}
			must.NoError(t, err)
			must.Eq(t, tc.wantUser, auth.Username)
			if tc.wantUser == "filed" {
				must.Eq(t, "p:w", auth.Password)
			}
		})
	}
}

// task-driver IM-5, IM-4: keys of registries, old and new.
func TestStoredKeys(t *testing.T) {
	entry := `{"auth":"` + basic("u:p") + `"}`
	for _, tc := range []struct {
		key, host string
		want      bool
	}{
		{"r:5000", "r:5000", true},
		{"https://r:5000", "r:5000", true},
		{"https://r:5000/v1/", "r:5000", true},
		{"http://r:5000/v2/", "r:5000", true},
		{"r", "r:5000", false},
		{"r:5000.evil.example", "r:5000", false},
		{"https://index.docker.io/v1/", "docker.io", true},
		{"docker.io", "docker.io", true},
		{"index.docker.io", "docker.io", true},
		{"https://index.docker.io/v1/", "index.docker.io", true},
		{"https://index.docker.io/v1/", "r:5000", false},
	} {
		t.Run(tc.key+" for "+tc.host, func(t *testing.T) {
			source := CredentialSource{ConfigFile: configFile(t, `{"auths":{"`+tc.key+`":`+entry+`}}`)}
			auth, err := source.Find(t.Context(), tc.host)
			must.NoError(t, err)
			must.Eq(t, tc.want, auth.Username == "u")
		})
	}
}

// Docker Hub is asked for under both names; others by host only.
func TestHelperForHub(t *testing.T) {
	dir := helpers(t, map[string]string{"global": `[ "$server" = docker.io ] && ` + yields + ` || { ` + hasNone + `; }`})
	auth, err := CredentialSource{Helper: "global"}.Find(t.Context(), "docker.io")
	must.NoError(t, err)
	must.Eq(t, "helped", auth.Username)
	must.Eq(t, []string{"global get https://index.docker.io/v1/", "global get docker.io"}, asked(t, dir))
}

func TestIdentityToken(t *testing.T) {
	helpers(t, map[string]string{"global": hasToken})
	auth, err := CredentialSource{Helper: "global"}.Find(t.Context(), "r")
	must.NoError(t, err)
	must.Eq(t, Auth{IdentityToken: "tok", ServerAddress: "r"}, auth)

	source := CredentialSource{ConfigFile: configFile(t, `{"auths":{"r":{"identitytoken":"idt"}}}`)}
	auth, err = source.Find(t.Context(), "r")
	must.NoError(t, err)
	must.Eq(t, "idt", auth.IdentityToken)
}

// cases DRV-17: the log tells helper, registry and exit code, never the secret.
func TestHelperLog(t *testing.T) {
	helpers(t, map[string]string{"global": `echo '{"Username":"u","Secret":"very-secret"}'`})
	var text bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &text})
	_, err := CredentialSource{Helper: "global", Logger: log}.Find(t.Context(), "r:1")
	must.NoError(t, err)
	must.StrContains(t, text.String(), "helper=docker-credential-global registry=r:1 exit_code=0")
	must.StrNotContains(t, text.String(), "very-secret")
}

// A helper that hangs ends with its caller, children included.
func TestHelperIsCancelled(t *testing.T) {
	dir := helpers(t, map[string]string{"global": "echo started > \"$0.started\"; exec sleep 1000"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := CredentialSource{Helper: "global"}.Find(ctx, "r")
		done <- err
	}()
	for _, err := os.Stat(filepath.Join(dir, "docker-credential-global.started")); err != nil; {
		_, err = os.Stat(filepath.Join(dir, "docker-credential-global.started"))
	}
	cancel()
	must.ErrorIs(t, <-done, context.Canceled)
}

// task-driver IM-4: what a failed search does, with and without auth_soft_fail.
func TestSoftFail(t *testing.T) {
	helpers(t, map[string]string{"global": breaks})
	f := newFakeEngine()
	f.remote["r:5000/x:1"] = "id1"
	c := coordinator(t, f)
	req := Request{Ref: "r:5000/x:1", Credentials: CredentialSource{Helper: "global"}}
	_, err := c.Resolve(t.Context(), req, Caller{ID: "a"})
	must.Eq(t, KindCredentials, kindOf(t, err))
	must.ErrorContains(t, err, `Failed to find docker auth for repo "r:5000/x:1"`)
	must.Eq(t, 0, f.pullCount())

	var told events
	req.Credentials.SoftFail = true
	_, err = c.Resolve(t.Context(), req, Caller{ID: "a", Emit: told.emit})
	must.NoError(t, err)
	must.Eq(t, "", f.pulls[0].RegistryAuth)
	must.StrContains(t, told.all()[1], "Pulling without credentials")
}

func TestKeychain(t *testing.T) {
	hub, err := name.NewRegistry("docker.io")
	must.NoError(t, err)
	source := CredentialSource{ConfigFile: configFile(t, `{"auths":{"https://index.docker.io/v1/":{"auth":"`+basic("u:p")+`"}}}`)}
	authenticator, err := source.Keychain().Resolve(hub)
	must.NoError(t, err)
	config, err := authenticator.Authorization()
	must.NoError(t, err)
	must.Eq(t, authn.AuthConfig{Username: "u", Password: "p"}, *config)

	authenticator, err = CredentialSource{}.Keychain().Resolve(hub)
	must.NoError(t, err)
	must.Eq(t, authn.Anonymous, authenticator)

	source = CredentialSource{Helper: "absent"}
	_, err = source.Keychain().Resolve(hub)
	must.Error(t, err)
	source.SoftFail = true
	authenticator, err = source.Keychain().Resolve(hub)
	must.NoError(t, err)
	must.Eq(t, authn.Anonymous, authenticator)
}
