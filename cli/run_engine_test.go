// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package cli

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/gpu-docker/gpu-docker/volume"
)

const engineImage = "gpu-docker-cli-test:gpu"

// TestEngineRun: docker run with GPUs on a real engine, with the volume from a
// serve that stands beside it; and prune leaves what a container refers to.
func TestEngineRun(t *testing.T) {
	root, volumes := simulated(t), filepath.Join(t.TempDir(), "volumes")
	importGPUImage(t)
	serveForEngine(t, root, volumes)
	t.Cleanup(func() { _, _ = program(nil, "docker", "volume", "rm", "nvidia_driver_352.39") })

	env := []string{"GPU_DOCKER_DRIVER_ROOT=" + root, "NV_GPU=2,0"}
	out, err := program(env, "gpu-docker", "run", "--rm", "--network=none", engineImage, "/usr/local/nvidia/bin/nvidia-smi", "-L")
	must.NoError(t, err, must.Sprint(out))
	must.Eq(t, "GPU 0: Tesla K80 (UUID: GPU-1ab7d8d0-6f1e-2b2c-f8e4-5c1f6c0d9a11)\n"+
		"GPU 1: Tesla K80 (UUID: GPU-e5c4402b-93df-4f60-b7de-08f3b9a1c6d3)\n", out)

	out, err = program(env, "nvidia-docker", "create", "--name", "gpu-docker-cli-test", "--network=none", engineImage, "/none")
	must.NoError(t, err, must.Sprint(out))
	t.Cleanup(func() { _, _ = program(nil, "docker", "rm", "-f", "gpu-docker-cli-test") })
	must.Eq(t, result{}, command(t, "--driver-root", root, "volume", "prune", "-d", volumes))
	must.DirExists(t, filepath.Join(volumes, "nvidia_driver/352.39"))

	out, err = program(env, "gpu-docker", "run", "--rm", "--network=none", engineImage, "/no/such/program")
	var exit *exec.ExitError
	must.True(t, errors.As(err, &exit), must.Sprint(out))
	must.Eq(t, 127, exit.ExitCode())
}

// TestEngineUninstall: it refuses while containers refer to the volume, by name or
// by a bind mount, and leaves the engine without a trace (cases CLI-02).
func TestEngineUninstall(t *testing.T) {
	root, volumes := simulated(t), filepath.Join(t.TempDir(), "volumes")
	importGPUImage(t)
	serveForEngine(t, root, volumes)
	t.Cleanup(func() { _, _ = program(nil, "docker", "volume", "rm", "nvidia_driver_352.39") })
	env := []string{"GPU_DOCKER_DRIVER_ROOT=" + root, "NV_GPU=0"}
	const name = "gpu-docker-cli-uninstall"
	out, err := program(env, "nvidia-docker", "create", "--name", name, "--network=none", engineImage, "/none")
	must.NoError(t, err, must.Sprint(out))
	t.Cleanup(func() { _, _ = program(nil, "docker", "rm", "-f", name) })
	const bound = name + "-bound"
	tree := filepath.Join(volumes, "nvidia_driver/352.39")
	out, err = program(nil, "docker", "create", "--name", bound, "--network=none", "--volume="+tree+":/usr/local/nvidia:ro", engineImage, "/none")
	must.NoError(t, err, must.Sprint(out))
	t.Cleanup(func() { _, _ = program(nil, "docker", "rm", "-f", bound) })

	check := command(t, "uninstall", "--check")
	must.Eq(t, 1, check.code)
	must.StrContains(t, check.stdout, "volume     nvidia_driver_352.39\n")
	must.StrContains(t, check.stdout, "  created  "+name+"\n")
	must.StrContains(t, check.stdout, "  created  "+bound+"\n")
	refused := command(t, "uninstall")
	must.Eq(t, 1, refused.code)
	must.StrContains(t, refused.stderr, `container "`+name+`" has ended and refers to a driver volume; remove it, or use --remove-containers`)
	must.Eq(t, result{stdout: name + "\n" + bound + "\nnvidia_driver_352.39\n"}, command(t, "uninstall", "--remove-containers"))
	must.Eq(t, result{}, command(t, "uninstall", "--check"))
	out, err = program(nil, "docker", "volume", "ls", "-q", "--filter", "driver=nvidia-docker")
	must.NoError(t, err)
	must.Eq(t, "", out)
}

// program runs this test binary, or docker, under a name.
func program(env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	if name != "docker" {
		cmd = exec.Command("/proc/self/exe", args...)
		cmd.Args[0] = name
		cmd.Env = append(os.Environ(), append(env, programEnv+"=1")...)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// serveForEngine runs serve where the engine looks for it, until the test ends.
func serveForEngine(t *testing.T, root, volumes string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var log bytes.Buffer
	a := &app{stdout: &log, stderr: &log, getenv: os.Getenv}
	done := make(chan int, 1)
	go func() {
		done <- a.run(ctx, []string{"--driver-root", root, "serve", "-l", "127.0.0.1:0", "-d", volumes})
	}()
	t.Cleanup(func() {
		cancel()
		must.Eq(t, 0, <-done, must.Sprint(log.String()))
	})
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		_, err := os.Stat(volume.SocketPath(volume.DefaultSocketDir))
		return err == nil
	}), wait.Timeout(30*time.Second), wait.Gap(10*time.Millisecond)))
}

// importGPUImage makes an image of the C library alone that calls itself a GPU image.
func importGPUImage(t *testing.T) {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, path := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"} {
		content, err := os.ReadFile(path)
		must.NoError(t, err)
		must.NoError(t, w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(path, "/"), Mode: 0o755, Size: int64(len(content))}))
		_, err = w.Write(content)
		must.NoError(t, err)
	}
	must.NoError(t, w.Close())
	cmd := exec.Command("docker", "import", "--change", "LABEL com.nvidia.volumes.needed=nvidia_driver", "--change", "LABEL com.nvidia.cuda.version=7.5", "-", engineImage)
	cmd.Stdin = &archive
	out, err := cmd.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(out)))
	t.Cleanup(func() {
		if out, err := exec.Command("docker", "rmi", engineImage).CombinedOutput(); err != nil {
			t.Error(string(out))
		}
	})
}
