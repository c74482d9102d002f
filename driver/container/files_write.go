// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/hashicorp/nomad/helper/uuid"
)

// fileMode lets every user of the container read a file.
const fileMode = 0o644

// WriteFiles puts the request's files into place. A task can write to those
// directories, so a file is made beside its place, never opened through a link,
// and no path leaves the allocation's directory.
func (r *Request) WriteFiles() error {
	for _, f := range r.Files {
		if err := f.write(); err != nil {
			return fmt.Errorf("file %q of the allocation: %w", f.Name, err)
		}
	}
	return nil
}

func (f *File) write() (err error) {
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	temporary := path.Join(path.Dir(f.Name), ".gpu-docker-"+uuid.Short())
	if err := writeNew(root, temporary, f.Content); err != nil {
		return err
	}
	if !f.Keep {
		return root.Rename(temporary, f.Name)
	}
	return errors.Join(f.linkOnce(root, temporary), root.Remove(temporary))
}

// linkOnce gives the new file its name unless a plain file has it already;
// whatever else has it is removed.
func (f *File) linkOnce(root *os.Root, temporary string) error {
	err := root.Link(temporary, f.Name)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := root.Lstat(f.Name)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		return nil
	}
	if err := root.RemoveAll(f.Name); err != nil {
		return err
	}
	return root.Link(temporary, f.Name)
}

func writeNew(root *os.Root, name, content string) (err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Chmod(fileMode); err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return err
}

// isPlainFile says whether a path is a file itself. A symbolic link could lead to
// any file of the host; hard links to files beyond the allocation cannot be made
// from within a container's mounts.
func isPlainFile(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}
