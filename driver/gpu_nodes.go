// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/gpu-docker/gpu-docker/driver/container"
	"github.com/gpu-docker/gpu-docker/gpuhost"
)

const (
	// charLinks is where systemd and runc look for the path of a device number.
	charLinks = "/dev/char"
	// procDevices lists the majors of the running kernel's drivers.
	procDevices = "/proc/devices"
)

// linkNodes makes sure that systemd can name the device nodes of a container: it
// drops device rules without such a link at its next reload, and the container
// loses its GPU (cases DRV-06). The link goes by number alone, so that the nodes of any
// driver root need one; udev makes none for them. The nodes of a simulated host have
// numbers that no driver of a kernel without GPUs has, and get none.
func (p *parts) linkNodes(nodes []gpuhost.DeviceNode) {
	if len(nodes) == 0 {
		return
	}
	majors := container.KernelMajors(p.procDevices)
	for _, n := range nodes {
		var st unix.Stat_t
		if unix.Stat(n.HostPath, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || !majors[unix.Major(st.Rdev)] {
			continue // the engine names a node that is none
		}
		err := linkNode(p.charLinks, n.HostPath, st.Rdev)
		if err != nil {
			p.logger.Warn("a systemd reload may take this device from its container", "device", n.HostPath, "error", err)
		}
		p.noteLink(n.HostPath, err)
	}
}

// noteLink keeps why a device node lacks its link; nil when it has it.
func (p *parts) noteLink(node string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.unlinked, node)
		return
	}
	p.unlinked[node] = err
}

// linkNode makes the link <dir>/<major>:<minor> to a device node unless one that leads
// somewhere is there: a driver container that came again may have its root elsewhere.
func linkNode(dir, node string, number uint64) error {
	link := filepath.Join(dir, fmt.Sprintf("%d:%d", unix.Major(number), unix.Minor(number)))
	if _, err := os.Stat(link); err == nil {
		return nil
	}
	target, err := filepath.Rel(dir, node)
	if err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = os.Symlink(target, link)
	if errors.Is(err, fs.ErrExist) { // another process was first
		return nil
	}
	return err
}
