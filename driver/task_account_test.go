// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"
)

// What a GPU task used is told once, however it ended, and written down; a task
// without GPUs has no account (cases MET-09).
func TestAccountOfTask(t *testing.T) {
	b := newBench(t, nil)
	plain, gpu := b.task(nil), b.task(nil, "GPU-a")
	b.start(plain)
	b.start(gpu)
	p, err := b.driver.ready()
	must.NoError(t, err)
	must.Len(t, 1, p.ledger.Usage())
	events := b.driver.events.Subscribe(t.Context())
	for _, cfg := range []string{plain.ID, gpu.ID} {
		must.NoError(t, b.driver.StopTask(cfg, time.Second, ""))
		b.wait(cfg)
		must.NoError(t, b.driver.DestroyTask(cfg, true))
	}
	ev := <-events
	must.Eq(t, gpu.ID, ev.TaskID)
	must.StrHasPrefix(t, "Held 1 GPU for ", ev.Message)
	must.Eq(t, 1, p.ledger.Usage()[0].Tasks)
	text, err := os.ReadFile(filepath.Join(b.driver.stateDir, "accounting.jsonl"))
	must.NoError(t, err)
	must.Eq(t, 1, strings.Count(string(text), "\n"))
	must.StrContains(t, string(text), `"alloc_id":"`+gpu.AllocID+`"`)
}
