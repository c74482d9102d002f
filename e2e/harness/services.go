// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"context"
	"errors"
	"os"
)

// servicePolicy is asked by Debian's packages before they start a service.
const servicePolicy = "/usr/sbin/policy-rc.d"

// forbidServices answers every service with "not now".
const forbidServices = "#!/bin/sh\nexit 101\n"

// EnsureQuietPrograms is EnsurePrograms for packages that bring a service, such
// as openssh-server: it is not started, for the tests want the program alone.
func EnsureQuietPrograms(ctx context.Context, say func(format string, args ...any), needed ...Program) (err error) {
	if _, statErr := os.Stat(servicePolicy); errors.Is(statErr, os.ErrNotExist) && os.Geteuid() == 0 {
		if err := os.WriteFile(servicePolicy, []byte(forbidServices), 0o755); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.Remove(servicePolicy)) }()
	}
	return EnsurePrograms(ctx, say, needed...)
}
