// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	"github.com/docker/docker/api/types/image"
)

// Image is a container image to make on the spot: a busybox and the C library,
// which is what the driver's tools need, with labels and environment on top.
type Image struct {
	Ref    string // "repository:tag"
	Labels map[string]string
	Env    map[string]string
}

// libraries are the parts of the C library that dynamically linked tools load.
var libraries = []string{"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}

// loader is the dynamic loader's place, fixed by the x86-64 ABI.
const loader = "/lib64/ld-linux-x86-64.so.2"

// MakeImage imports the image into the engine.
func (e *Engine) MakeImage(ctx context.Context, img Image) error {
	rootfs, err := rootFileSystem()
	if err != nil {
		return fmt.Errorf("make image %q: %w", img.Ref, err)
	}
	changes := []string{"CMD [\"/bin/sh\"]"}
	for _, k := range sortedKeys(img.Labels) {
		changes = append(changes, fmt.Sprintf("LABEL %s=%q", k, img.Labels[k]))
	}
	for _, k := range sortedKeys(img.Env) {
		changes = append(changes, fmt.Sprintf("ENV %s=%q", k, img.Env[k]))
	}
	source := image.ImportSource{Source: rootfs, SourceName: "-"}
	answer, err := e.Client.ImageImport(ctx, source, img.Ref, image.ImportOptions{Changes: changes})
	if err != nil {
		return fmt.Errorf("make image %q: %w", img.Ref, err)
	}
	defer answer.Close()
	_, err = io.Copy(io.Discard, answer)
	return err
}

// RemoveImages removes images by reference; one that is gone already is no error.
func (e *Engine) RemoveImages(ctx context.Context, refs ...string) {
	for _, ref := range refs {
		_, _ = e.Client.ImageRemove(ctx, ref, image.RemoveOptions{Force: true})
	}
}

// rootFileSystem is the tar archive of the smallest root that runs a shell and
// dynamically linked programs.
func rootFileSystem() (io.Reader, error) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the commands of %q: %w", busybox, err)
	}
	var buf bytes.Buffer
	w := &rootWriter{tar: tar.NewWriter(&buf)}
	for _, dir := range []string{"bin", "etc", "tmp", "lib64", "usr", "usr/lib"} {
		w.dir(dir)
	}
	w.text("etc/passwd", "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
	w.text("etc/group", "root:x:0:\nnogroup:x:65534:\n")
	w.file("bin/busybox", busybox)
	for _, applet := range strings.Fields(string(applets)) {
		if applet != "busybox" {
			w.link("bin/"+applet, "busybox")
		}
	}
	w.file(strings.TrimPrefix(loader, "/"), loader)
	for _, name := range libraries {
		if path := findLibrary(name); path != "" {
			w.file("usr/lib/"+name, path)
			w.link("lib64/"+name, "../usr/lib/"+name)
		}
	}
	if w.err == nil {
		w.err = w.tar.Close()
	}
	return &buf, w.err
}

func findLibrary(name string) string {
	for _, dir := range []string{"/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// rootWriter keeps the first error, so that its callers read as a list.
type rootWriter struct {
	tar *tar.Writer
	err error
}

func (w *rootWriter) put(h *tar.Header, content []byte) {
	if w.err != nil {
		return
	}
	h.Size = int64(len(content))
	if w.err = w.tar.WriteHeader(h); w.err == nil {
		_, w.err = w.tar.Write(content)
	}
}

func (w *rootWriter) dir(name string) {
	w.put(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, nil)
}

func (w *rootWriter) link(name, target string) {
	w.put(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

func (w *rootWriter) text(name, content string) {
	w.put(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, []byte(content))
}

func (w *rootWriter) file(name, source string) {
	content, err := os.ReadFile(source)
	if err != nil {
		if w.err == nil {
			w.err = err
		}
		return
	}
	w.put(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, content)
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
