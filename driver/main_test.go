// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os"
	"testing"

	"github.com/gpu-docker/gpu-docker/driver/logship"
)

// TestMain makes the test program its own log holder, as the real binary is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == HolderCommand {
		os.Exit(logship.HolderMain(os.Args[2:]))
	}
	code := m.Run()
	if afterAll != nil {
		afterAll()
	}
	os.Exit(code)
}

// afterAll removes what tests with an engine share.
var afterAll func()
