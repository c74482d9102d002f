// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package volume

import (
	"archive/tar"
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// Names of what these tests make in the engine.
const (
	engineImage     = "gpu-docker-volume-test:latest"
	engineContainer = "gpu-docker-volume-test"
	engineLabel     = "gpu-docker-volume-test"
)

// engineStore is a store on a directory of its own, served to the real engine
// under its real name.
func engineStore(t *testing.T, host Host) *Store {
	base, err := os.MkdirTemp("/var/tmp", "gpu-docker-volume-test-") // shared with the newer engine, and on a disk
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, os.RemoveAll(base)) })
	s := newStore(t, Config{Dir: filepath.Join(base, "volumes")}, host)
	serveEngine(t, s)
	return s
}

// serveEngine answers the engine until the test ends, when also the engine's
// record of our volumes is removed.
func serveEngine(t *testing.T, s *Store) {
	l, err := ListenSocket(DefaultSocketDir)
	must.NoError(t, err)
	srv := &http.Server{Handler: s.Handler()}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		must.NoError(t, srv.Close())
		must.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	t.Cleanup(func() {
		_, _ = tryDocker("rm", "-f", engineContainer)
		volumes, err := s.List()
		must.NoError(t, err)
		for _, v := range volumes {
			_, _ = tryDocker("volume", "rm", v.Name)
		}
	})
}

func tryDocker(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func docker(t *testing.T, args ...string) string {
	out, err := tryDocker(args...)
	must.NoError(t, err, must.Sprintf("docker %q: %s", args, out))
	return out
}

// importImage makes the test image: files (path in the image → path here).
func importImage(t *testing.T, name string, files map[string]string) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for inside, here := range files {
		content, err := os.ReadFile(here)
		must.NoError(t, err)
		must.NoError(t, w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(inside, "/"), Mode: 0o755, Size: int64(len(content))}))
		_, err = w.Write(content)
		must.NoError(t, err)
	}
	must.NoError(t, w.Close())
	cmd := exec.Command("docker", "import", "-", name)
	cmd.Stdin = &archive
	out, err := cmd.CombinedOutput()
	must.NoError(t, err, must.Sprintf("%s", out))
	t.Cleanup(func() { docker(t, "image", "rm", "-f", name) })
}

func busyboxImage(t *testing.T) {
	busybox, err := exec.LookPath("busybox")
	must.NoError(t, err, must.Sprint("install the package busybox-static"))
	importImage(t, engineImage, map[string]string{"/bin/busybox": busybox})
}

const insideTree = "/usr/local/nvidia"

// treeInside lists a mounted volume from inside a container as listTree does.
func treeInside(t *testing.T, mount ...string) []string {
	args := append([]string{"run", "--rm", "--network", "none"}, mount...)
	args = append(args, engineImage, "/bin/busybox", "find", insideTree, "-mindepth", "1")
	lines := strings.Split(docker(t, args...), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], insideTree+"/")
	}
	return lines
}

// TestEngineVolume is what people do with the volume, and what they see.
func TestEngineVolume(t *testing.T) {
	busyboxImage(t)
	s := engineStore(t, hostOf(t, t.TempDir(), k80, ""))
	name := Name(k80Version)

	docker(t, "volume", "create", "-d", DriverName, "--label", engineLabel, name)
	must.StrContains(t, docker(t, "volume", "ls", "--format", "{{.Driver}} {{.Name}}"), "nvidia-docker nvidia_driver_352.39")
	must.Eq(t, "nvidia_driver_352.39 nvidia-docker "+s.tree(k80Version), docker(t, "volume", "inspect", "-f", "{{.Name}} {{.Driver}} {{.Mountpoint}}", name))

	tree := plainTree(listTree(t, s.tree(k80Version)))
	must.SliceContainsAll(t, treeInside(t, "-v", name+":"+insideTree+":ro", "--volume-driver", DriverName), tree)
	_, err := tryDocker("run", "--rm", "--network", "none", "-v", name+":"+insideTree+":ro", engineImage, "/bin/busybox", "touch", insideTree+"/bin/x")
	must.Error(t, err)

	docker(t, "volume", "rm", name)
	must.False(t, s.exists(k80Version))
	must.StrNotContains(t, docker(t, "volume", "ls", "-q"), name)

	// run alone creates it
	must.SliceContainsAll(t, treeInside(t, "-v", name+":"+insideTree+":ro", "--volume-driver", DriverName), tree)
	docker(t, "volume", "rm", name)

	// The engine's own prune looks at volumes of its "local" driver only: the
	// driver volume survives it.
	docker(t, "volume", "create", "-d", DriverName, "--label", engineLabel, name)
	must.StrNotContains(t, docker(t, "volume", "prune", "-f", "--filter", "label="+engineLabel), name)
	must.True(t, s.exists(k80Version))
	docker(t, "volume", "rm", name)
	must.False(t, s.exists(k80Version))
}

func TestEngineRefusals(t *testing.T) {
	s := engineStore(t, hostOf(t, t.TempDir(), k80, ""))
	for name, want := range map[string]string{
		"nvidia_driver_999.99": "invalid volume version: nvidia_driver_999.99",
		"nvidia_driver_..":     "bad volume format: nvidia_driver_..",
		"foo_352.39":           "unsupported volume: foo_352.39",
	} {
		out, err := tryDocker("volume", "create", "-d", DriverName, name)
		must.Error(t, err)
		must.StrContains(t, out, want)
	}
	volumes, err := s.List()
	must.NoError(t, err)
	must.SliceEmpty(t, volumes)
}

// TestEngineUpgrade: a running container keeps its volume over a driver upgrade,
// and clean-up waits for it.
func TestEngineUpgrade(t *testing.T) {
	busyboxImage(t)
	root := t.TempDir()
	host := hostOf(t, filepath.Join(root, "old"), k80, "")
	s := engineStore(t, host)
	old := Name(k80Version)
	docker(t, "run", "-d", "--name", engineContainer, "--network", "none", "-v", old+":"+insideTree+":ro", "--volume-driver", DriverName, engineImage, "/bin/busybox", "sleep", "3600")
	tree := listTree(t, s.tree(k80Version))

	*host = *hostOf(t, filepath.Join(root, "new"), "titanx4-361.48", "")
	docker(t, "volume", "create", "-d", DriverName, Name("361.48"))
	names := docker(t, "volume", "ls", "-q", "--filter", "driver="+DriverName)
	must.StrContains(t, names, old)
	must.StrContains(t, names, Name("361.48"))

	must.ErrorIs(t, s.Remove(t.Context(), old), ErrInUse)
	removed, err := s.Prune(t.Context(), nil)
	must.NoError(t, err)
	must.SliceEmpty(t, removed)
	must.Eq(t, tree, listTree(t, s.tree(k80Version)))
	docker(t, "exec", engineContainer, "/bin/busybox", "test", "-f", insideTree+"/lib64/libcuda.so.1")

	docker(t, "rm", "-f", engineContainer)
	docker(t, "volume", "rm", old)
	must.False(t, s.exists(k80Version))
	must.True(t, s.exists("361.48"))
}

// TestEngineBindMode: a bind mount of the directory gives the same view without the socket.
func TestEngineBindMode(t *testing.T) {
	busyboxImage(t)
	s := newStore(t, Config{}, hostOf(t, t.TempDir(), k80, ""))
	v, err := s.Ensure(t.Context())
	must.NoError(t, err)
	must.SliceContainsAll(t, treeInside(t, "-v", v.Mountpoint+":"+insideTree+":ro"), plainTree(listTree(t, v.Mountpoint)))
}
