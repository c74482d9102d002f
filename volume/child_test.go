// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// Tests that kill a process, change its umask or user, or mount something do so
// in a child: this test binary again, running TestChild with a role.
const (
	childRole = "GPU_DOCKER_VOLUME_CHILD"
	childRoot = "GPU_DOCKER_VOLUME_ROOT" // driver files of smallHost
	childDir  = "GPU_DOCKER_VOLUME_DIR"  // volumes
	childStep = "GPU_DOCKER_VOLUME_STEP"
)

var childRoles = map[string]func(t *testing.T, root, dir string){
	"killed":       childKilled,
	"ensure":       childEnsure,
	"umask":        childUmask,
	"disk full":    childDiskFull,
	"in use":       childInUse,
	"unprivileged": childUnprivileged,
}

// TestChild plays the role of a child; on its own it does nothing.
func TestChild(t *testing.T) {
	if role := os.Getenv(childRole); role != "" {
		childRoles[role](t, os.Getenv(childRoot), os.Getenv(childDir))
	}
}

// child prepares a command that plays a role.
func child(t *testing.T, role, root, dir string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childRole+"="+role, childRoot+"="+root, childDir+"="+dir)
	return cmd
}

// mustRun fails with the child's own words.
func mustRun(t *testing.T, cmd *exec.Cmd) {
	out, err := cmd.CombinedOutput()
	must.NoError(t, err, must.Sprintf("%s", out))
}

// inNamespaces gives the child mounts of its own, without being root.
func inNamespaces(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return cmd
}

// smallHost makes a driver of few files below root, unless they are there.
func smallHost(t testing.TB, root string) *fakeHost {
	h := &fakeHost{driver: gpuhost.Driver{Version: v550}, files: core550()}
	for i := range h.files.Libraries {
		l := &h.files.Libraries[i]
		l.Path = filepath.Join(root, l.Name)
		makeOnce(t, l.Path, elfSpec{bits: 64, soname: l.SONAME, needed: l.Needed}.bytes())
	}
	h.files.Binaries[0].Path = filepath.Join(root, "nvidia-smi")
	makeOnce(t, h.files.Binaries[0].Path, []byte("#!/bin/sh\n"))
	return h
}

func makeOnce(t testing.TB, name string, content []byte) {
	if _, err := os.Lstat(name); err == nil {
		return
	}
	must.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.NoError(t, os.WriteFile(name, content, 0o755))
}

// smallTree is the listing of smallHost's volume.
var smallTree = []string{
	"bin/", "bin/nvidia-smi", "lib/", "lib64/",
	"lib64/libcuda.so -> libcuda.so." + v550, "lib64/libcuda.so.1 -> libcuda.so." + v550, "lib64/libcuda.so." + v550,
	"lib64/libnvidia-ml.so.1 -> libnvidia-ml.so." + v550, "lib64/libnvidia-ml.so." + v550,
}

func childEnsure(t *testing.T, root, dir string) {
	_, err := newStore(t, Config{Dir: dir}, smallHost(t, root)).Ensure(t.Context())
	must.NoError(t, err)
}

// childKilled builds with SIGKILL at one step.
func childKilled(t *testing.T, root, dir string) {
	left, err := strconv.Atoi(os.Getenv(childStep))
	must.NoError(t, err)
	s := newStore(t, Config{Dir: dir, Files: FilesCopy}, smallHost(t, root))
	s.step = func(string) error {
		left--
		if left == 0 {
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}
	_, err = s.Ensure(t.Context())
	must.NoError(t, err)
}
