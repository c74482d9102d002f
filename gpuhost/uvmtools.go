// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const uvmToolsNode = "/dev/nvidia-uvm-tools"

// UVMTools tells whether the control node nvidia-uvm-tools, which older drivers
// lack, exists now. It fails when that cannot be told, for example because the
// node may not be looked at; the error names the node as a container sees it.
func (h *Host) UVMTools() (bool, error) {
	dir := "/dev"
	for _, node := range h.ControlNodes() {
		if node.ContainerPath == uvmToolsNode {
			return true, nil
		}
		dir = filepath.Dir(node.HostPath)
	}
	_, err := os.Stat(filepath.Join(dir, filepath.Base(uvmToolsNode)))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err == nil, nil
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return false, fmt.Errorf("stat %s: %w", uvmToolsNode, err)
}
