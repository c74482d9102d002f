//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// checked is what a call of "gpu-docker check" answers.
type checked struct {
	code           int
	stdout, stderr string
}

// check calls the command as people do; stdin is what it may read.
func (s *site) check(stdin string, env []string, args ...string) checked {
	cmd := exec.CommandContext(s.ctx, filepath.Join(s.bin, "gpu-docker"), append([]string{"check"}, args...)...)
	cmd.Env = append(append(os.Environ(), "GPU_DOCKER_DRIVER_ROOT="+s.driverRoot()), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewBufferString(stdin), &stdout, &stderr
	err := cmd.Run()
	must.NotNil(s, cmd.ProcessState, must.Sprint(err))
	return checked{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// checkJSON is the part of the JSON answer that the stories look at.
type checkJSON struct {
	Decision, Reason, Source, Need string
	UseDriver                      string `json:"use_driver"`
	Warnings                       []string
	Metadata                       struct{ From, Digest string }
	Host                           *struct{ Driver, CUDA string }
}

// TestCheckCommand: the question without a job.
func TestCheckCommand(t *testing.T) {
	s := newGround(t, "k80x4-352")
	r := s.newRegistry()
	digest, err := r.PutHuge(s.ctx, hugeImage, twoGB)
	must.NoError(t, err)
	private := s.newRegistry()
	private.Protect("robot", "s3cret")
	_, err = private.PutHuge(s.ctx, hugeImage, twoGB)
	must.NoError(t, err)
	remote, secret := r.Host+"/"+hugeImage.Ref, private.Host+"/"+hugeImage.Ref

	dir := t.TempDir()
	login := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, private.Host, base64.StdEncoding.EncodeToString([]byte("robot:s3cret")))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(login), 0o600))
	file := filepath.Join(dir, "metadata.json")
	const arch = `{"env": ["NVIDIA_REQUIRE_ARCH=arch>=6.0", "NVIDIA_REQUIRE_BRAND=brand=geforce brand=tesla"]}`
	must.NoError(t, os.WriteFile(file, []byte(arch), 0o644))

	for _, tc := range []struct {
		name, stdin string
		env         []string
		args        []string
		code        int
		out         string // part of stdout, or of stderr with code 2
	}{
		{name: "in the engine, runs", args: []string{imageCUDA75}, out: `yes: image "` + imageCUDA75 + `" may run here`},
		{name: "in the engine, refused", args: []string{imageCUDA80}, code: 1, out: "no: " + refusal(imageCUDA80)},
		{name: "in the registry", args: []string{remote}, code: 1, out: "no: " + refusal(remote)},
		{name: "in the registry, another host", args: []string{"--driver", "367.48", "--cuda", "8.0", remote}, out: "yes: "},
		{name: "in the registry, a host that tells less", args: []string{"--driver", "375.66", remote}, out: "yes, with a warning: "},
		{name: "private, nobody logged in", env: []string{"DOCKER_CONFIG=/nonexistent"}, args: []string{secret}, code: 2, out: "cannot tell: "},
		{name: "private, logged in", env: []string{"DOCKER_CONFIG=" + dir}, args: []string{secret}, code: 1, out: "no: " + refusal(secret)},
		{name: "no such registry", args: []string{"127.0.0.1:1/no/such:image"}, code: 2, out: "cannot tell: "},
		{name: "a file", args: []string{"--metadata", file}, code: 1, out: "needs arch>=6.0"},
		{name: "a file, another card", args: []string{"--metadata", file, "--arch", "6.1", "--brand", "GeForce"}, out: "yes: "},
		{name: "a file, the wrong brand", args: []string{"--metadata", file, "--driver", "390.77", "--cuda", "9.1", "--arch", "6.1", "--brand", "Quadro"}, code: 1, out: "brand=geforce"},
		{name: "the standard input", stdin: `{"labels":{"com.nvidia.cuda.version":"7.0"}}`, args: []string{"--metadata", "-"}, out: "yes: "},
		{name: "a requirement that cannot be read", stdin: `{"env":{"NVIDIA_REQUIRE_CUDA":"cuda==7.0"}}`, args: []string{"--metadata", "-"}, code: 1, out: `(at character 1: "==" is not an operator`},
		{
			name: "a requirement of a megabyte", stdin: `{"env":{"NVIDIA_REQUIRE_CUDA":"` + strings.Repeat("cuda>=7.0 ", 100_000) + `"}}`,
			args: []string{"--metadata", "-"}, code: 1, out: "65536",
		},
		{name: "no file", args: []string{"--metadata", file + ".missing"}, code: 2, out: "no such file"},
		{name: "wrong use", args: []string{"--driver", "new", imageCUDA75}, code: 2, out: `--driver "new" is not a version`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := s.under(t).check(tc.stdin, tc.env, tc.args...)
			must.Eq(t, tc.code, got.code, must.Sprint(got))
			text := got.stdout
			if tc.code == 2 {
				text = got.stderr
			}
			must.StrContains(t, text, tc.out)
		})
	}
	for _, from := range kinds(r, "") {
		must.NotEq(t, "layer 200", from)
	}

	t.Run("JSON", func(t *testing.T) {
		s := s.under(t)
		r.Forget()
		got := s.check("", nil, "--json", remote)
		must.Eq(t, 1, got.code)
		var answer checkJSON
		must.NoError(t, json.Unmarshal([]byte(got.stdout), &answer))
		must.Eq(t, "refuse", answer.Decision)
		must.Eq(t, refusal(remote), answer.Reason)
		must.Eq(t, "com.nvidia.cuda.version", answer.Source)
		must.Eq(t, "CUDA 8.0", answer.Need)
		must.Eq(t, "367 or newer", answer.UseDriver)
		must.Eq(t, "registry", answer.Metadata.From)
		must.Eq(t, digest, answer.Metadata.Digest)
		must.Eq(t, "352.39", answer.Host.Driver)
		must.Eq(t, "7.5", answer.Host.CUDA)
		must.Eq(t, []string{"ping 200", "manifest 200", "config 200"}, kinds(r, ""))

		r.Forget()
		got = s.check("", nil, "--json", "127.0.0.1:1/no/such:image")
		must.Eq(t, 2, got.code)
		must.NoError(t, json.Unmarshal([]byte(got.stdout), &answer))
		must.Eq(t, "unknown", answer.Decision)

		got = s.check("", nil, "--json", imageCUDA75)
		must.Eq(t, 0, got.code)
		answer = checkJSON{}
		must.NoError(t, json.Unmarshal([]byte(got.stdout), &answer))
		must.Eq(t, "allow", answer.Decision)
		must.Eq(t, "engine", answer.Metadata.From)
		must.NotNil(t, answer.Warnings)
		must.SliceEmpty(t, kinds(r, ""))
	})
}
