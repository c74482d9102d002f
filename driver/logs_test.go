// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os"
	"testing"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// TestNoLogCollection: where operator or job want no logs, nothing is shipped.
func TestNoLogCollection(t *testing.T) {
	off := config.DefaultPlugin()
	off.DisableLogCollection = true
	for _, tc := range []struct {
		name   string
		config *config.Plugin
		path   string
	}{
		{"the operator's option", off, "/alloc/logs/t.stdout.fifo"},
		{"the job's logs.disabled", config.DefaultPlugin(), os.DevNull},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &shippers{config: tc.config}
			shipping, err := s.Ship(&drivers.TaskConfig{StdoutPath: tc.path, StderrPath: tc.path}, &taskState{})
			must.NoError(t, err)
			must.Nil(t, shipping)
		})
	}
}
