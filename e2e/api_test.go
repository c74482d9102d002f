//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// gpuDocker is the built program.
func gpuDocker() string { return filepath.Join(os.Getenv("GPU_DOCKER_BIN"), "gpu-docker") }

// serve starts "gpu-docker serve" and ends it with the test.
func serve(t *testing.T, driverRoot, address string) *harness.Process {
	t.Helper()
	p, err := harness.StartProcess(filepath.Join(t.TempDir(), "serve.log"), nil, gpuDocker(), "--driver-root", driverRoot, "serve", "-l", address)
	must.NoError(t, err)
	t.Cleanup(func() { p.Stop(syscall.SIGTERM, 20*time.Second) })
	return p
}

// answers waits until an API says something that satisfies the check.
func answers(t *testing.T, address, path string, check func(body string) error) {
	t.Helper()
	must.NoError(t, harness.Eventually(t.Context(), 30*time.Second, func() error {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		return check(string(body))
	}))
}

// standalone is a GPU host without Nomad.
type standalone struct {
	engine  *harness.Engine
	gpus    *simhost.Host
	root    string
	address string // of the API
}

func newStandalone(t *testing.T, profile string) *standalone {
	t.Helper()
	engine, err := harness.EnsureEngine(t.Context(), t.Logf)
	must.NoError(t, err)
	t.Cleanup(engine.Close)
	for _, img := range images {
		must.NoError(t, engine.MakeImage(t.Context(), img))
		t.Cleanup(func() { engine.RemoveImages(context.Background(), img.Ref) })
	}
	s := &standalone{engine: engine, root: filepath.Join(t.TempDir(), "gpus"), address: freeAddress(t)}
	s.gpus, err = simhost.Up(t.Context(), simhost.Options{Root: s.root, Profile: profile})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, s.gpus.Down()) })
	serve(t, s.root, s.address)
	t.Cleanup(func() { // while the volume driver answers
		out, err := exec.Command(gpuDocker(), "uninstall").CombinedOutput()
		must.NoError(t, err, must.Sprint(string(out)))
	})
	answers(t, s.address, "/v1.0/gpu/info", func(string) error { return nil })
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// movedNodes is a docker for a simulated host whose device nodes are not in
// /dev: it says where they are, and changes nothing else.
const movedNodes = `#!/bin/sh
for a; do
	shift
	case $a in --device=/dev/nvidia*) a="--device=ROOT${a#--device=}:${a#--device=}" ;; esac
	set -- "$@" "$a"
done
exec docker "$@"
`

// TestWrapper: docker run with GPUs, without Nomad, on a real engine; with the
// GPUs of this machine, and with those of another one over HTTP and SSH.
func TestWrapper(t *testing.T) {
	s := newStandalone(t, "k80x4-352")
	dir := t.TempDir()
	docker := filepath.Join(dir, "docker-moved")
	must.NoError(t, os.WriteFile(docker, []byte(strings.ReplaceAll(movedNodes, "ROOT", s.root)), 0o755))
	sshDir := t.TempDir()
	sshd, err := harness.StartSSHD(t.Context(), t.Logf, sshDir)
	must.NoError(t, err)
	t.Cleanup(sshd.Close)
	known, unknown := home(t, sshd.KnownHosts), home(t, "")
	_, apiPort, err := net.SplitHostPort(s.address)
	must.NoError(t, err)
	overSSH := fmt.Sprintf("NV_HOST=ssh://root@127.0.0.1:%d:%s", sshd.Port, apiPort)

	const twoGPUs = "GPU 0: Tesla K80 (UUID: GPU-1ab7d8d0-6f1e-2b2c-f8e4-5c1f6c0d9a11)\nGPU 1: Tesla K80 (UUID: GPU-e5c4402b-93df-4f60-b7de-08f3b9a1c6d3)\n"
	list := []string{"run", "--rm", "--network=none", imageCUDA75, "/usr/local/nvidia/bin/nvidia-smi", "-L"}
	for _, tc := range []struct {
		name    string
		env     []string
		args    []string
		want    string
		wantErr string
	}{
		{"here", []string{"NV_GPU=2,0", "GPU_DOCKER_DRIVER_ROOT=" + s.root}, list, twoGPUs, ""},
		{"over HTTP", []string{"NV_GPU=2,0", "NV_DOCKER=" + docker, "NV_HOST=http://" + s.address}, list, twoGPUs, ""},
		{"over SSH", []string{"NV_GPU=2,0", "NV_DOCKER=" + docker, overSSH, "SSH_AUTH_SOCK=" + sshd.Agent, "HOME=" + known}, list, twoGPUs, ""},
		{"over SSH to a stranger", []string{overSSH, "SSH_AUTH_SOCK=" + sshd.Agent, "HOME=" + unknown}, list, "", "is not in known_hosts; connect once with ssh and check its key"},
		{"over SSH without a key", []string{overSSH, "SSH_AUTH_SOCK=", "HOME=" + known}, list, "", "ssh to 127.0.0.1:"},
		{"nobody there", []string{"NV_HOST=http://" + freeAddress(t)}, list, "", "remote host: "},
		{"no such GPU", []string{"NV_GPU=9", "NV_HOST=http://" + s.address}, list, "", "invalid device: 9"},
		{"image for a newer CUDA", []string{"NV_HOST=http://" + s.address}, []string{"run", "--rm", imageCUDA80, "true"}, "", "unsupported CUDA version: driver 7.5 < image 8.0"},
		{"no GPU image", []string{"NV_HOST=http://" + s.address}, []string{"run", "--rm", "--network=none", imagePlain, "sh", "-c", "ls /dev | grep -c nvidia; ls /usr/local 2>/dev/null"}, "0\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), gpuDocker(), tc.args...)
			cmd.Env = append(os.Environ(), append(tc.env, "DOCKER_HOST="+s.engine.Host())...)
			// A terminal of its own session: nobody can be asked for a password.
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if tc.wantErr != "" {
				must.True(t, errors.As(err, &exit), must.Sprint(string(out)))
				must.Eq(t, 1, exit.ExitCode())
				must.StrContains(t, string(out), tc.wantErr)
				return
			}
			if tc.name != "no GPU image" { // whose grep finds nothing
				must.NoError(t, err, must.Sprint(string(out)))
			}
			must.Eq(t, tc.want, string(out))
		})
	}
}

// home is a home directory with a known_hosts.
func home(t *testing.T, knownHosts string) string {
	t.Helper()
	dir := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(dir, ".ssh"), 0o700))
	must.NoError(t, os.WriteFile(filepath.Join(dir, ".ssh", "known_hosts"), []byte(knownHosts), 0o600))
	return dir
}

// TestDriverTakesOver: a serve that was there first keeps port and socket; the
// driver says so in its attribute, and takes over when serve ends.
func TestDriverTakesOver(t *testing.T) {
	root := filepath.Join(t.TempDir(), "other")
	other, err := simhost.Up(t.Context(), simhost.Options{Root: root, Profile: "titanx4-361"})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, other.Down()) })
	const address = "127.0.0.1:3476"
	first := serve(t, root, address)
	isFirst := func(body string) error {
		if !strings.Contains(body, "361.48") {
			return fmt.Errorf("answered by another: %.80q", body)
		}
		return nil
	}
	answers(t, address, "/v1.0/gpu/info/json", isFirst)

	s := newSite(t, "k80x4-352", nil)
	s.nodeWithGPUs(4)
	must.NoError(t, harness.Eventually(s.ctx, 30*time.Second, func() error {
		node, err := s.agent.Node()
		if err != nil {
			return err
		}
		want := fmt.Sprintf("127.0.0.1:3476 is taken by process %d (gpu-docker)", first.PID())
		if got := node.Attributes["driver.gpu-docker.api"]; got != want {
			return fmt.Errorf("attribute is %q, want %q", got, want)
		}
		return nil
	}))
	answers(t, address, "/v1.0/gpu/info/json", isFirst)

	first.Stop(syscall.SIGTERM, 20*time.Second)
	answers(t, address, "/v1.0/gpu/info/json", func(body string) error {
		if !strings.Contains(body, "352.39") {
			return fmt.Errorf("not taken over: %.80q", body)
		}
		return nil
	})
	alloc := s.run(job{name: "after", image: imageCUDA75, script: gpuView, gpus: 1})
	must.Len(t, 1, s.view(alloc).nodes)
}

// TestManualExample: the example of the manual, as it stands there, makes the
// container that the driver makes for the same GPU (cases RST-07).
func TestManualExample(t *testing.T) {
	must.NoError(t, harness.EnsurePrograms(t.Context(), t.Logf,
		harness.Program{Name: "curl", Packages: []string{"curl"}}, harness.Program{Name: "jq", Packages: []string{"jq"}}))
	manual, err := os.ReadFile("../docs/rest-api.md")
	must.NoError(t, err)
	example := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(manual)
	must.SliceNotEmpty(t, example)

	s := newSite(t, "k80x4-352", func(c *harness.AgentConfig) { c.DriverGPU = "volume_mode = \"plugin\"" })
	alloc := s.run(job{name: "same", image: imageCUDA75, script: gpuView, gpus: 1})
	ours := s.inspect(alloc.ID)
	uuid := reserved(alloc)[0]

	script := strings.NewReplacer("dev=0", "dev="+uuid, "nvidia/cuda:7.5-runtime", imageCUDA75).Replace(string(example[1]))
	out, err := exec.CommandContext(t.Context(), "bash", "-ec", "set -o pipefail\n"+script).Output()
	must.NoError(t, err)
	var made struct{ ID, Message string }
	must.NoError(t, json.Unmarshal(out, &made))
	must.NotEq(t, "", made.ID, must.Sprint(made.Message))
	t.Cleanup(func() {
		must.NoError(t, s.engine.Client.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true}))
	})
	theirs, err := s.engine.Client.ContainerInspect(t.Context(), made.ID)
	must.NoError(t, err)
	must.Eq(t, devicesOf(ours), devicesOf(theirs))
	must.Eq(t, driverMount(ours), driverMount(theirs))
}

// devicesOf are the devices as the container sees them; where a simulated host
// keeps them outside is its own affair.
func devicesOf(c container.InspectResponse) []string {
	var all []string
	for _, d := range c.HostConfig.Devices {
		all = append(all, d.PathInContainer+" "+d.CgroupPermissions)
	}
	slices.Sort(all)
	return all
}

func driverMount(c container.InspectResponse) string {
	for _, m := range c.Mounts {
		if m.Destination == "/usr/local/nvidia" {
			return fmt.Sprintf("%s %s %s rw=%v", m.Type, m.Driver, m.Name, m.RW)
		}
	}
	return "none"
}
