// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed nvml/*.c nvml/*.h nvml/*.def
var sources embed.FS

// ErrNoCompiler is wrapped by the error of Up when the machine has no C compiler.
var ErrNoCompiler = errors.New("no C compiler")

// product is one file made from the C sources.
type product struct {
	name    string
	sources []string
	flags   []string
}

var sharedFlags = []string{"-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-pthread"}

var (
	nvmlProduct = product{
		name: "libnvidia-ml.so",
		sources: []string{"state.c", "calls.c", "nvml_system.c", "nvml_errors.c", "nvml_handles.c", "nvml_readings.c", "nvml_topology.c",
			"nvml_structs.c", "nvml_ecc.c", "nvml_processes.c", "nvml_mig.c", "nvml_fields.c", "nvml_events.c"},
		flags: append([]string{"-Wl,-soname,libnvidia-ml.so.1"}, sharedFlags...),
	}
	cudaProduct = product{
		name:    "libcuda.so",
		sources: []string{"state.c", "calls.c", "cuda.c"},
		flags:   append([]string{"-Wl,-soname,libcuda.so.1"}, sharedFlags...),
	}
	smiProduct = product{name: "nvidia-smi", sources: []string{"smi.c"}, flags: []string{"-O2", "-ldl"}}
	products   = []product{nvmlProduct, cudaProduct, smiProduct}
)

// compiled returns the directory of the products, made from the sources if this
// machine has not made them yet. Several processes may do so at once.
func compiled(ctx context.Context) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = filepath.Join(os.TempDir(), fmt.Sprintf("gpu-docker-cache-%d", os.Getuid()))
	}
	key, err := sourceKey()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "gpu-docker", "simhost", key)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("cache for the simulated libraries: %w; set XDG_CACHE_HOME to a directory that can be written", err)
	}
	temporary, err := os.MkdirTemp(filepath.Dir(dir), ".making-*")
	if err != nil {
		return "", fmt.Errorf("cache for the simulated libraries: %w; set XDG_CACHE_HOME to a directory that can be written", err)
	}
	defer func() { _ = os.RemoveAll(temporary) }() // gone after the rename
	if err := compileInto(ctx, temporary); err != nil {
		return "", err
	}
	if err := os.Rename(temporary, dir); err != nil {
		if _, other := os.Stat(dir); other == nil {
			return dir, nil // another process was faster
		}
		return "", fmt.Errorf("cache for the simulated libraries: %w", err)
	}
	return dir, nil
}

// sourceKey names one state of sources and flags.
func sourceKey() (string, error) {
	var all strings.Builder
	err := fs.WalkDir(sources, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := sources.ReadFile(path)
		fmt.Fprintf(&all, "%s %d\n%s", path, len(text), text)
		return err
	})
	fmt.Fprint(&all, products)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(all.String()))), err
}

func compileInto(ctx context.Context, dir string) error {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return fmt.Errorf("simulated libraries cannot be made: %w %q in PATH: %w; install it, on Debian and Ubuntu with \"apt-get install gcc libc6-dev\"", ErrNoCompiler, "cc", err)
	}
	src := filepath.Join(dir, "src")
	if err := os.Mkdir(src, 0o755); err != nil {
		return err
	}
	entries, err := sources.ReadDir("nvml")
	if err != nil {
		return err
	}
	for _, e := range entries {
		text, err := sources.ReadFile("nvml/" + e.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(src, e.Name()), text, 0o644); err != nil {
			return err
		}
	}
	for _, p := range products {
		args := append([]string{"-o", filepath.Join(dir, p.name)}, p.sources...)
		cmd := exec.CommandContext(ctx, compiler, append(args, p.flags...)...)
		cmd.Dir = src
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("simulated %s cannot be made with %q: %w: %s; it needs the headers of the C library, on Debian and Ubuntu package libc6-dev",
				p.name, compiler, err, strings.TrimSpace(string(output)))
		}
	}
	return nil
}
