// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Libraries are the files of the volume's 64-bit libraries on this host, by each
// name that a program may load them by; a link's file is the one that it leads to.
// Those in directories of their own (back ends of GBM, VDPAU) are left out.
func (v *Volume) Libraries() (map[string]string, error) {
	dir := filepath.Join(v.Mountpoint, "lib64")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, v.damaged(err)
	}
	libraries := map[string]string{}
	for _, e := range entries {
		if !strings.Contains(e.Name(), ".so") {
			continue
		}
		file, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, v.damaged(err)
		}
		libraries[e.Name()] = file
	}
	return libraries, nil
}

func (v *Volume) damaged(err error) error {
	return fmt.Errorf("driver volume %q is damaged: %w; remove %q, and it is built anew", v.Name, err, v.Mountpoint)
}
