// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package driver

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// TestEngineBurst: tasks that print, at once, several times what the engine
// keeps of a log, and exit; some are over before StartTask is.
func TestEngineBurst(t *testing.T) {
	const last = 150_000 // 0.9 MB, 12 MB in the engine's log
	var want strings.Builder
	for i := range last {
		want.WriteString(strconv.Itoa(i+1) + "\n")
	}
	s := newSite(t, func(c *config.Plugin) {
		c.Logs.Collector = config.CollectorDriver
		c.Logging.Config = map[string]string{"max-size": "2m", "max-file": "2"}
	})
	var tasks []*drivers.TaskConfig
	for range 2 {
		tasks = append(tasks, s.task("exec seq 1 "+strconv.Itoa(last), nil))
	}
	s.startAll(tasks)
	for _, cfg := range tasks {
		must.Eq(t, 0, s.wait(cfg.ID).ExitCode)
		text, err := os.ReadFile(filepath.Join(filepath.Dir(cfg.StdoutPath), cfg.Name+".stdout.0"))
		must.NoError(t, err)
		line, _, _ := strings.Cut(string(text), "\n")
		must.True(t, want.String() == string(text), must.Sprintf("%d of %d bytes, the first line is %q", len(text), want.Len(), line))
		must.NoError(t, s.DestroyTask(cfg.ID, false))
	}
}
