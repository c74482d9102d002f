// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"errors"
	"fmt"
	"net"
)

// tellReady tells the service manager, if one started this program, that it serves
// now; a systemd unit of Type=notify holds up the engine until then (cases VOL-12).
func (a *app) tellReady() error {
	socket := a.env("NOTIFY_SOCKET", "")
	if socket == "" {
		return nil
	}
	manager, err := net.Dial("unixgram", socket)
	if err != nil {
		return fmt.Errorf("service manager at NOTIFY_SOCKET %q: %w", socket, err)
	}
	_, err = manager.Write([]byte("READY=1"))
	return errors.Join(err, manager.Close())
}
