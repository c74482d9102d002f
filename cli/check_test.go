// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/compat"
	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// runCheck runs the command without an engine, on a host without a driver.
func runCheck(t *testing.T, stdin string, args ...string) (out string, code int, err error) {
	t.Helper()
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "no-engine.sock"))
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	var stdout bytes.Buffer
	a := &app{stdin: strings.NewReader(stdin), stdout: &stdout, stderr: io.Discard, driverRoot: t.TempDir()}
	cmd := newCheckCommand(a)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	var exit *exitError
	switch {
	case errors.As(err, &exit):
		code, err = exit.code, exit.err
	case err != nil:
		code = exitFailed
	}
	return stdout.String(), code, err
}

func TestCheck_cases(t *testing.T) {
	data, err := os.ReadFile("../compat/testdata/compat-cases.jsonl")
	must.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c struct{ ID, Driver, CUDA, Arch, Brand, Expect string }
		var warn struct{ Warn []string }
		must.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		must.NoError(t, json.Unmarshal(lines.Bytes(), &warn))
		t.Run(c.ID, func(t *testing.T) {
			args := []string{"--json", "--metadata", "-", "--driver", c.Driver, "--arch", c.Arch, "--brand", c.Brand}
			if c.CUDA != "" {
				args = append(args, "--cuda", c.CUDA)
			}
			out, code, err := runCheck(t, lines.Text(), args...)
			must.NoError(t, err)
			var answer struct {
				Decision, Reason string
				Warnings         []string
			}
			must.NoError(t, json.Unmarshal([]byte(out), &answer))
			want, wantCode := c.Expect, 0
			if want == "allow" && len(warn.Warn) > 0 {
				want = "warn"
			}
			if want == "refuse" {
				wantCode = exitNo
			}
			must.Eq(t, want, answer.Decision)
			must.Eq(t, wantCode, code)
			must.True(t, slices.Equal(warn.Warn, answer.Warnings), must.Sprint(answer.Warnings))
			must.NotNil(t, answer.Warnings)
		})
	}
}

func TestCheck_text(t *testing.T) {
	const cuda9 = `{"labels":{"com.nvidia.cuda.version":"9.0.176"},"env":["NVIDIA_VISIBLE_DEVICES=all"]}`
	for _, tc := range []struct {
		name, stdin string
		args        []string
		want        string // of standard output, or its beginning
		code        int
		wantErr     string
	}{
		{"yes", cuda9, []string{"img", "--metadata", "-", "--driver", "384.81"}, "yes, with a warning: image \"img\" was compared with CUDA 9.0, taken from the table", 0, ""},
		{"yes without a warning", cuda9, []string{"img", "--metadata", "-", "--driver", "384.81", "--cuda", "9.0"}, "yes: image \"img\" may run here\n", 0, ""},
		{"no", cuda9, []string{"nvidia/cuda:9.0-base", "--metadata", "-", "--driver", "375.66"}, `no: image "nvidia/cuda:9.0-base" needs CUDA 9.0; this node's driver 375.66 supports CUDA 8.0; use driver 384 or newer, or an image for CUDA 8.0 or older`, exitNo, ""},
		{"hint", `{"env":{"NVIDIA_DISABLE_REQUIRES":"1"}}`, []string{"img", "--metadata", "-", "--driver", "375.66"}, "yes: image \"img\" may run here\nnote: NVIDIA_DISABLE_REQUIRES has no effect", 0, ""},
		{"no driver here, GPU image", cuda9, []string{"img", "--metadata", "-"}, `no: image "img" is made for GPUs (NVIDIA_VISIBLE_DEVICES), and this host has no NVIDIA driver: `, exitNo, ""},
		{"no driver here, CUDA inside", `{"env":{"CUDA_VERSION":"9.0"}}`, []string{"img", "--metadata", "-"}, `no: image "img" is made for GPUs (CUDA_VERSION), and this host has no NVIDIA driver: `, exitNo, ""},
		{"no driver here, plain image", `{}`, []string{"img", "--metadata", "-"}, "yes: image \"img\" may run here\n", 0, ""},
		{"CUDA given, driver not known", cuda9, []string{"img", "--metadata", "-", "--cuda", "8.0"}, `no: image "img" needs CUDA 9.0; this node supports CUDA 8.0`, exitNo, ""},
		{"bad file", "[]", []string{"--metadata", "-"}, "", exitCannotTell, `cannot tell: "-" is not a JSON object`},
		{"missing file", "", []string{"--metadata", "/nonexistent/file"}, "", exitCannotTell, "cannot tell: open /nonexistent/file"},
		{"no image", "", nil, "", exitUsage, "takes one image"},
		{"two images", "", []string{"a", "b"}, "", exitUsage, "takes one image"},
		{"not a version", cuda9, []string{"img", "--metadata", "-", "--driver", "latest"}, "", exitUsage, `--driver "latest" is not a version`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, code, err := runCheck(t, tc.stdin, tc.args...)
			must.Eq(t, tc.code, code)
			must.StrHasPrefix(t, tc.want, out)
			if tc.wantErr != "" {
				must.StrContains(t, err.Error(), tc.wantErr)
				return
			}
			must.NoError(t, err)
		})
	}
}

// TestCheck_registry: an image that only a registry has, and one that nobody has.
func TestCheck_registry(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	img, err := mutate.Config(empty.Image, v1.Config{Labels: map[string]string{compat.LabelCUDAVersion: "9.0.176"}})
	must.NoError(t, err)
	ref, err := name.ParseReference(host + "/cuda:9.0")
	must.NoError(t, err)
	must.NoError(t, remote.Write(ref, img))

	out, code, err := runCheck(t, "", "--json", "--driver", "375.66", "--cuda", "8.0", host+"/cuda:9.0")
	must.NoError(t, err)
	must.Eq(t, exitNo, code)
	must.StrContains(t, out, `"from": "registry"`)
	must.StrContains(t, out, `"use_driver": "384 or newer"`)
	must.StrContains(t, out, `"source": "com.nvidia.cuda.version"`)

	out, code, err = runCheck(t, "", "--json", "--driver", "375.66", host+"/cuda:none")
	must.NoError(t, err)
	must.Eq(t, exitCannotTell, code)
	must.StrContains(t, out, `"decision": "unknown"`)
	must.StrContains(t, out, "MANIFEST_UNKNOWN")
	_, code, err = runCheck(t, "", "--driver", "375.66", host+"/cuda:none")
	must.Eq(t, exitCannotTell, code)
	must.StrHasPrefix(t, "cannot tell: cannot read the metadata of image", err.Error())
}

// TestDecideOnAny: a task need not get all GPUs of a host.
func TestDecideOnAny(t *testing.T) {
	md := compat.Metadata{Env: map[string]string{"NVIDIA_REQUIRE_ARCH": "arch>=8.0"}}
	host := compat.Host{Driver: "535.54.03", CUDA: "12.2", GPUs: []compat.GPU{{ID: "GPU-a", Arch: "7.0"}, {ID: "GPU-b", Arch: "8.0"}}}
	d := decideOnAny("img", md, host)
	must.Eq(t, compat.VerdictWarn, d.Verdict)
	must.StrHasPrefix(t, `only on 1 of 2 GPUs here (GPU-b): image "img" needs arch>=8.0`, d.Reason)
	host.GPUs = host.GPUs[:1]
	must.Eq(t, compat.VerdictRefuse, decideOnAny("img", md, host).Verdict)
}

func TestHostOf(t *testing.T) {
	brand := "tesla"
	inv := &gpuhost.Inventory{
		Driver: gpuhost.Driver{Version: "352.39", CUDA: gpuhost.CUDAVersion{Major: 7, Minor: 5}},
		GPUs:   []gpuhost.GPU{{UUID: "GPU-a", Brand: &brand, ComputeCapability: &gpuhost.ComputeCapability{Major: 3, Minor: 7}}, {UUID: "GPU-b"}},
	}
	host, missing := hostOf(inv)
	must.Eq(t, "", missing)
	must.Eq(t, compat.Host{Driver: "352.39", CUDA: "7.5", GPUs: []compat.GPU{{ID: "GPU-a", Arch: "3.7", Brand: "tesla"}, {ID: "GPU-b"}}}, host)
	inv.Driver.CUDAFromTable = true
	host, _ = hostOf(inv)
	must.Eq(t, "", host.CUDA, must.Sprint("compat says itself that it takes it from the table"))
	_, missing = hostOf(&gpuhost.Inventory{Reason: "no driver is loaded"})
	must.Eq(t, "no driver is loaded", missing)
	_, missing = hostOf(&gpuhost.Inventory{})
	must.Eq(t, "the driver does not tell its version", missing)
}
