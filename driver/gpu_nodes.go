// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// charLinks is where systemd and runc look for the path of a device number.
const charLinks = "/dev/char"

// linkNodes makes sure that systemd can name the device nodes of a container: it
// drops device rules without such a link at its next reload, and the container
// loses its GPU (cases DRV-06). Nodes of another root than /dev need none.
func (p *parts) linkNodes(nodes []gpuhost.DeviceNode) {
	for _, n := range nodes {
		if !strings.HasPrefix(n.HostPath, "/dev/") {
			continue
		}
		if err := linkNode(charLinks, n.HostPath); err != nil {
			p.logger.Warn("a systemd reload may take this device from its container", "device", n.HostPath, "error", err)
		}
	}
}

// linkNode makes the link <dir>/<major>:<minor> to a device node unless something
// of that name is there.
func linkNode(dir, node string) error {
	var st unix.Stat_t
	if err := unix.Stat(node, &st); err != nil {
		return fmt.Errorf("device number of %q: %w", node, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return fmt.Errorf("%q is not a character device", node)
	}
	link := filepath.Join(dir, fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)))
	target, err := filepath.Rel(dir, node)
	if err != nil {
		return err
	}
	err = os.Symlink(target, link)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
