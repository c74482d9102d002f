// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"fmt"
	"net"
	"os/exec"
)

// RemoveLink removes a network interface of the machine; one that is not there
// is no error.
func RemoveLink(name string) error {
	if _, err := net.InterfaceByName(name); err != nil {
		return nil
	}
	if out, err := exec.Command("ip", "link", "delete", name).CombinedOutput(); err != nil {
		return fmt.Errorf("remove the interface %q: %w: %s", name, err, lastLines(string(out), 1))
	}
	return nil
}
