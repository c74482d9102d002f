// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Method tells how a file of a volume came to be.
type Method string

// The methods, from cheap to dear.
const (
	MethodLink    Method = "link"    // hard link: the host's own inode
	MethodReflink Method = "reflink" // own inode, shared blocks
	MethodCopy    Method = "copy"    // own inode, own blocks
	MethodWrite   Method = "write"   // content of ours, a rewritten configuration file
)

// copyBufferBytes is the memory one copy takes.
const copyBufferBytes = 256 << 10

// cloner puts host files into a tree. It never opens an existing name for
// writing, so a host file cannot be written to through a hard link (D17).
type cloner struct {
	files Files
	// link is false when hard links are ruled out beforehand (SELinux).
	link bool
	// label, when not nil, makes an own inode readable for containers.
	label func(f *os.File) error
}

// links says whether a file of a tree may be the host's own inode.
func (c cloner) links() bool { return c.link && c.files != FilesCopy }

// place makes dst, which must not exist, from src.
func (c cloner) place(src, dst string) (Method, error) {
	fi, err := os.Lstat(src)
	if err != nil {
		return "", fmt.Errorf("driver file: %w", err)
	}
	if !fi.Mode().IsRegular() {
		return "", fmt.Errorf("driver file %q is %v, not a regular file; reinstall the driver", src, fi.Mode())
	}
	if c.links() {
		err := linkable(fi)
		if err == nil {
			err = os.Link(src, dst)
		}
		if err == nil {
			return MethodLink, nil
		}
		if c.files == FilesLink {
			return "", fmt.Errorf(`cannot hard-link driver file %q: %w; set volume_files = "auto"`, src, err)
		}
		if !copyInstead(err) {
			return "", fmt.Errorf("link driver file: %w", err)
		}
	}
	return c.copy(src, dst)
}

// errUnfit is why a file's own inode must not be handed to containers.
var errUnfit = errors.New("it has set-id bits or is not readable by everybody")

// linkable refuses modes that a container must not get and that cannot be
// changed on the host's inode.
func linkable(fi fs.FileInfo) error {
	if fi.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 || fi.Mode().Perm()&0o004 == 0 {
		return errUnfit
	}
	return nil
}

// copyInstead says whether a failed link leaves the way of copying: another
// file system, links not permitted (protected_hardlinks, immutable files, file
// systems without them), or too many links.
func copyInstead(err error) bool {
	for _, e := range []error{errUnfit, unix.EXDEV, unix.EPERM, unix.EACCES, unix.EMLINK, unix.EOPNOTSUPP, unix.ENOSYS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// copy makes an inode of its own with src's content and time, and a mode that
// containers can use.
func (c cloner) copy(src, dst string) (method Method, err error) {
	in, err := os.OpenFile(src, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", fmt.Errorf("driver file: %w", err)
	}
	defer in.Close()
	before, err := in.Stat()
	if err != nil {
		return "", fmt.Errorf("driver file: %w", err)
	}
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	method, err = c.fill(out, in)
	if err == nil {
		err = c.finish(out, before)
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return "", fmt.Errorf("copy driver file %q: %w", src, err)
	}
	after, err := in.Stat()
	if err != nil || after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return "", fmt.Errorf("driver file %q changed while it was copied; try again when the driver's installation has ended", src)
	}
	return method, nil
}

// fill shares the blocks where the file system can, else copies them.
func (c cloner) fill(out, in *os.File) (Method, error) {
	if c.files == FilesAuto && unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) == nil {
		return MethodReflink, nil
	}
	// The wrapped writer keeps io from handing the whole copy to the kernel,
	// which could share blocks where own ones were asked for.
	_, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, make([]byte, copyBufferBytes))
	return MethodCopy, err
}

// finish sets mode, label and time, and makes the file durable.
func (c cloner) finish(out *os.File, like fs.FileInfo) error {
	if c.label != nil {
		if err := c.label(out); err != nil {
			return err
		}
	}
	if err := out.Chmod(containerMode(like.Mode())); err != nil {
		return err
	}
	stamp := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(like.ModTime().UnixNano())}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, out.Name(), stamp, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set time of %q: %w", out.Name(), err)
	}
	return out.Sync()
}

// containerMode is a host file's mode without set-id bits, readable for all and
// executable for all or nobody; the process's umask has no say.
func containerMode(mode fs.FileMode) fs.FileMode {
	if mode&0o111 != 0 {
		return mode.Perm() | 0o555
	}
	return mode.Perm() | 0o444
}

// write makes a file of our own content.
func (c cloner) write(dst string, content []byte) (Method, error) {
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = out.Write(content)
	if err == nil && c.label != nil {
		err = c.label(out)
	}
	return MethodWrite, errors.Join(err, out.Chmod(0o644), out.Sync(), out.Close())
}
