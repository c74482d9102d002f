// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package simhost_test

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// imageName is removed after the test.
const imageName = "simhost-test:latest"

// TestEngineContainer: in a container that has only the driver's files and some
// device nodes, nvidia-smi lists the GPUs of those nodes.
func TestEngineContainer(t *testing.T) {
	h := up(t, "titanx4-361") // minors run against the order of GPUs
	importImage(t)
	args := []string{"run", "--rm", "--network=none",
		"-v", filepath.Join(h.Root(), "usr/bin") + ":/usr/local/nvidia/bin:ro",
		"-v", filepath.Join(h.Root(), "usr/lib/x86_64-linux-gnu") + ":/usr/local/nvidia/lib64:ro"}
	node := func(name string) string { return filepath.Join(h.Root(), "dev", name) + ":/dev/" + name }
	devices := []string{"--device", node("nvidiactl"), "--device", node("nvidia3"), "--device", node("nvidia1")}
	command := []string{imageName, "/usr/local/nvidia/bin/nvidia-smi", "-L"}

	must.Eq(t, "GPU 0: GeForce GTX TITAN X (UUID: GPU-836c0c09-5b3a-77d4-90a5-1f4e3c2b6d70)\n"+
		"GPU 1: GeForce GTX TITAN X (UUID: GPU-b78a60a7-fd42-9b11-03c6-4ad7e1f08b25)\n", docker(t, append(append(args, devices...), command...)...))

	output, err := exec.CommandContext(t.Context(), "docker", append(args, command...)...).CombinedOutput()
	must.Error(t, err)
	must.StrContains(t, string(output), "couldn't communicate with the NVIDIA driver")
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput()
	must.NoError(t, err, must.Sprint(string(output)))
	return string(output)
}

// importImage makes an image of the C library alone.
func importImage(t *testing.T) {
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
	cmd := exec.CommandContext(t.Context(), "docker", "import", "-", imageName)
	cmd.Stdin = &archive
	output, err := cmd.CombinedOutput()
	must.NoError(t, err, must.Sprint(string(output)))
	t.Cleanup(func() {
		if output, err := exec.Command("docker", "rmi", imageName).CombinedOutput(); err != nil {
			t.Error(string(output))
		}
	})
}
