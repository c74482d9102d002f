// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hashicorp/nomad/plugins/drivers"
)

// maxLinks is how many symbolic links one path may lead through, as in the kernel.
const maxLinks = 40

// hostPath is a path of the host that a job names.
type hostPath struct {
	// source is what the engine gets.
	source string
	// real is the same with every link resolved.
	real string
	// inAlloc says whether real lies in the allocation's directory.
	inAlloc bool
}

// resolveHostPath finds out where a job's path leads. A relative one starts in
// the task's directory.
//
// Real paths are compared, because a task can make links in its directories that
// lead anywhere (task-driver CC-5). Where a link stays within the allocation, the
// engine is given the path behind it, so that a later change of the link does not
// move the mount.
func resolveHostPath(task *drivers.TaskConfig, name string) (hostPath, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(task.TaskDir().Dir, name)
	}
	name = filepath.Clean(name)
	real, err := realPath(name)
	if err != nil {
		return hostPath{}, err
	}
	alloc, err := realPath(task.AllocDir)
	if err != nil {
		return hostPath{}, err
	}
	h := hostPath{source: name, real: real, inAlloc: within(alloc, real)}
	if !h.inAlloc {
		return h, nil
	}
	inside, err := filepath.Rel(alloc, real)
	if err != nil {
		return hostPath{}, fmt.Errorf("path %q in the allocation's directory: %w", real, err)
	}
	h.source = filepath.Join(task.AllocDir, inside)
	return h, nil
}

// realPath resolves every link of an absolute path. What does not exist is kept
// as it is, for the engine may make it.
func realPath(name string) (string, error) {
	done, rest := "/", elements(name)
	for links := 0; len(rest) > 0; {
		next := filepath.Join(done, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			done = next
			continue
		case err != nil:
			return "", fmt.Errorf("path %q: %w", name, err)
		case info.Mode()&fs.ModeSymlink == 0:
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("path %q: %w", name, syscall.ELOOP)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", fmt.Errorf("path %q: %w", name, err)
		}
		if filepath.IsAbs(target) {
			done = "/"
		}
		rest = append(elements(target), rest...)
	}
	return done, nil
}

// elements splits a path; "..", which counts after links are resolved, is kept.
func elements(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return r == '/' })
}

// within says whether a clean path is a directory or lies below it.
func within(dir, name string) bool {
	rel, err := filepath.Rel(dir, name)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
