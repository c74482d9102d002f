// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	defaultEnforceFile = "/sys/fs/selinux/enforce"
	selinuxAttribute   = "security.selinux"
	// containerLabel lets every container read and execute a file.
	containerLabel = "system_u:object_r:container_file_t:s0"
)

// selinuxEnforcing says whether the label of a file decides who may read it.
// Then volumes are copied and labelled: a hard link shares the label of the
// host's driver file, which containers may not read and we may not change (VOL-11).
func selinuxEnforcing(enforceFile string) bool {
	state, err := os.ReadFile(enforceFile)
	return err == nil && bytes.Equal(bytes.TrimSpace(state), []byte("1"))
}

// labelForContainers sets the label of a file or directory of ours.
func labelForContainers(f *os.File) error {
	if err := unix.Fsetxattr(int(f.Fd()), selinuxAttribute, []byte(containerLabel), 0); err != nil {
		return fmt.Errorf("label %q for containers: %w", f.Name(), err)
	}
	return nil
}
