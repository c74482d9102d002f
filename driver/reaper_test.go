// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	engineapi "github.com/docker/docker/api/types/container"
	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
)

func TestReaper(t *testing.T) {
	old, young := time.Now().Add(-time.Hour), time.Now()
	ours := func(role string, more ...string) map[string]string {
		labels := map[string]string{
			container.LabelDriver: container.DriverName, container.LabelRole: role,
			container.LabelNodeID: "node", container.LabelAllocID: "gone", container.LabelTaskID: "gone/t/1",
			container.LabelTaskName: "t",
		}
		for i := 0; i < len(more); i += 2 {
			labels[more[i]] = more[i+1]
		}
		return labels
	}
	fill := func(b *bench) string {
		id, _ := b.start(b.task(nil))
		b.engine.containers[id].created = old
		b.engine.put("t_gone", ours(container.RoleTask), true, old)
		b.engine.put("young_gone", ours(container.RoleTask, container.LabelTaskName, "young"), true, young)
		b.engine.put("u_gone", ours(container.RoleTask, container.LabelTaskName, "u"), false, old) // never ran
		b.engine.put("stopped_gone", ours(container.RoleTask, container.LabelTaskName, "stopped"), false, old).state.Status = engineapi.StateExited
		b.engine.put("v_gone", ours(container.RoleTask, container.LabelNodeID, "other", container.LabelTaskName, "v"), true, old)
		b.engine.put("of a committed image", ours(container.RoleTask), true, old)
		b.engine.put("foreign", map[string]string{"com.hashicorp.nomad.alloc_id": "x"}, true, old)
		b.engine.put("pause of unknown origin", ours(container.RolePause), true, old)
		return id
	}
	t.Run("only dangling tasks of this node go", func(t *testing.T) {
		b := newBench(t, nil)
		id := fill(b)
		p, err := b.driver.ready()
		must.NoError(t, err)
		before := len(b.engine.names())
		must.NoError(t, b.driver.reapOnce(t.Context(), p, time.Now()))
		must.SliceNotContains(t, b.engine.names(), "t_gone")
		must.SliceNotContains(t, b.engine.names(), "u_gone")
		must.Len(t, before-2, b.engine.names())
		must.NotNil(t, b.engine.find(id))
	})
	t.Run("a dry run only tells", func(t *testing.T) {
		b := newBench(t, func(c *config.Plugin) { c.GC.Dangling.DryRun = true })
		fill(b)
		p, err := b.driver.ready()
		must.NoError(t, err)
		must.NoError(t, b.driver.reapOnce(t.Context(), p, time.Now()))
		must.Eq(t, 0, b.engine.called("remove"))
	})
	t.Run("nothing goes before the node is known", func(t *testing.T) {
		b := newBench(t, nil)
		b.engine.put("t_gone", ours(container.RoleTask), true, old)
		p, err := b.driver.ready()
		must.NoError(t, err)
		must.NoError(t, b.driver.reapOnce(t.Context(), p, time.Now()))
		must.Len(t, 1, b.engine.names())
	})
	t.Run("only if it is wanted and the engine answers", func(t *testing.T) {
		for _, tc := range []struct{ enabled, healthy, reaped bool }{
			{true, true, true}, {false, true, false}, {true, false, false},
		} {
			b := newBench(t, func(c *config.Plugin) { c.GC.Dangling.Enabled = tc.enabled })
			fill(b)
			p, err := b.driver.ready()
			must.NoError(t, err)
			b.driver.healthy.Store(tc.healthy)
			must.False(t, b.driver.reapIfWanted(t.Context(), p, false))
			must.Eq(t, tc.reaped, b.engine.find("t_gone") == nil)
		}
	})
	t.Run("the engine fails", func(t *testing.T) {
		b := newBench(t, nil)
		p, err := b.driver.ready()
		must.NoError(t, err)
		b.engine.fail("list", errAway, errAway)
		must.ErrorIs(t, b.driver.reapOnce(t.Context(), p, time.Now()), errAway)
		b.driver.healthy.Store(true)
		must.True(t, b.driver.reapIfWanted(t.Context(), p, false))
		must.False(t, b.driver.reapIfWanted(t.Context(), p, true))
	})
}

func TestLeakedPauseContainers(t *testing.T) {
	old := time.Now().Add(-time.Hour)
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, b *bench, p *parts, pauseID string)
		reaped  bool
	}{
		{"its allocation is gone", func(t *testing.T, b *bench, p *parts, id string) {
			p.state.KeepPause(id, filepath.Join(b.allocs, "gone"))
		}, true},
		{"its directory is not known", func(*testing.T, *bench, *parts, string) {}, false},
		{"its directory is not known, the agent's folder is", func(_ *testing.T, b *bench, p *parts, id string) {
			b.engine.find(id).labels[container.LabelNodeID] = "node"
			b.start(b.task(nil))
		}, true},
		{"it exists in the agent's folder", func(t *testing.T, b *bench, p *parts, id string) {
			b.engine.find(id).labels[container.LabelNodeID] = "node"
			b.start(b.task(nil))
			must.NoError(t, os.MkdirAll(filepath.Join(b.allocs, "a"), 0o755))
		}, false},
		{"another agent's", func(_ *testing.T, b *bench, p *parts, id string) {
			b.engine.find(id).labels[container.LabelNodeID] = "other"
			b.start(b.task(nil))
		}, false},
		{"it never ran", func(t *testing.T, b *bench, p *parts, id string) {
			b.engine.find(id).state = engineapi.State{Status: engineapi.StateCreated}
		}, true},
		{"another agent's never ran", func(_ *testing.T, b *bench, p *parts, id string) {
			b.engine.find(id).labels[container.LabelNodeID] = "other"
			b.engine.find(id).state = engineapi.State{Status: engineapi.StateCreated}
		}, false},
		{"its allocation exists", func(t *testing.T, b *bench, p *parts, id string) {
			p.state.KeepPause(id, b.allocs)
		}, false},
		{"somebody named it", func(t *testing.T, b *bench, p *parts, id string) {
			p.state.KeepPause(id, filepath.Join(b.allocs, "gone"))
			p.claimPause(id)
		}, false},
		{"a task uses it", func(t *testing.T, b *bench, p *parts, id string) {
			p.state.KeepPause(id, filepath.Join(b.allocs, "gone"))
			b.engine.put("task", map[string]string{
				container.LabelDriver: container.DriverName, container.LabelRole: container.RoleTask, container.LabelAllocID: "a",
			}, true, old)
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			p, err := b.driver.ready()
			must.NoError(t, err)
			pause := b.engine.put("pause", map[string]string{
				container.LabelDriver: container.DriverName, container.LabelRole: container.RolePause, container.LabelAllocID: "a",
			}, true, old)
			tc.prepare(t, b, p, pause.id)
			must.NoError(t, b.driver.reapOnce(t.Context(), p, time.Now()))
			must.Eq(t, tc.reaped, b.engine.find(pause.id) == nil)
		})
	}
}

// TestReap: the first look comes after the longer of period and grace, and only of a
// healthy driver whose operator wants it (task-driver DG-1).
func TestReap(t *testing.T) {
	const period, grace = 2 * time.Minute, 10 * time.Minute
	for _, tc := range []struct {
		name             string
		enabled, healthy bool
		reaped           bool
	}{
		{"on", true, true, true},
		{"off", false, true, false},
		{"not healthy", true, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{
					t: t, engine: newFakeEngine(), images: &fakeImages{uses: map[string][]string{}},
					host: twoGPUs(), meta: &fakeMeta{}, logs: &fakeLogs{}, allocs: t.TempDir(),
				}
				b.driver = NewPlugin(hclog.NewNullLogger(), "0.0.1")
				b.driver.stateDir = t.TempDir()
				cfg := config.DefaultPlugin()
				cfg.GC.Dangling.Enabled, cfg.GC.Dangling.Period, cfg.GC.Dangling.CreationGrace = tc.enabled, period, grace
				p, err := b.parts(cfg)
				must.NoError(t, err)
				b.driver.noteNode(b.task(nil))
				b.driver.healthy.Store(tc.healthy)
				b.engine.put("t_alloc", map[string]string{
					container.LabelDriver: container.DriverName, container.LabelRole: container.RoleTask, container.LabelNodeID: "node",
					container.LabelTaskName: "t", container.LabelAllocID: "alloc",
				}, true, time.Now().Add(-24*time.Hour))
				var ended sync.WaitGroup
				ended.Go(func() { b.driver.reap(p.ctx, p) })
				defer func() {
					b.driver.cancel()
					ended.Wait()
					p.state.Close()
				}()
				time.Sleep(grace - time.Second)
				synctest.Wait()
				must.Len(t, 1, b.engine.names(), must.Sprint("too early"))
				time.Sleep(2 * period)
				synctest.Wait()
				must.Eq(t, tc.reaped, len(b.engine.names()) == 0)
			})
		})
	}
}

// TestForgottenPauses: what is remembered of other drivers' pause containers does not
// grow with each allocation (task-driver PN-6).
func TestForgottenPauses(t *testing.T) {
	b := newBench(t, nil)
	p, err := b.driver.ready()
	must.NoError(t, err)
	gone := filepath.Join(b.allocs, "gone")
	ours := b.engine.put("ours", map[string]string{container.LabelRole: container.RolePause}, true, time.Now())
	foreign := b.engine.put("foreign", nil, true, time.Now())
	for id, dir := range map[string]string{
		ours.id: gone, foreign.id: gone, "removed": gone, "removed, but its allocation is there": b.allocs,
	} {
		p.state.KeepPause(id, dir)
		p.claimPause(id)
	}
	b.engine.setAway(true)
	p.forgetPauses(t.Context())
	must.MapLen(t, 4, p.state.Pauses(), must.Sprint("nothing on less evidence"))
	b.engine.setAway(false)
	p.forgetPauses(t.Context())
	must.Eq(t, map[string]string{ours.id: gone, "removed, but its allocation is there": b.allocs}, p.state.Pauses())
	must.True(t, p.pauseClaimed(ours.id))
	must.False(t, p.pauseClaimed(foreign.id))
}

// TestEndedAndNeverDestroyed: a process that dies between a task's end and its
// DestroyTask leaves the container to the next one.
func TestEndedAndNeverDestroyed(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(b *bench, p *parts) (id string)
		kept    bool
	}{
		{"stopped, nobody's", func(b *bench, p *parts) string {
			return b.engine.put("c", nil, false, time.Now()).id
		}, false},
		{"runs still", func(b *bench, p *parts) string {
			return b.engine.put("c", nil, true, time.Now()).id
		}, true},
		{"a task of this process", func(b *bench, p *parts) string {
			cfg := b.task(nil)
			id, _ := b.start(cfg)
			b.engine.end(id, 0, false)
			must.NotNil(b.t, b.wait(cfg.ID))
			return id
		}, true},
		{"containers are kept", func(b *bench, p *parts) string {
			p.config.GC.Container = false
			return b.engine.put("c", nil, false, time.Now()).id
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			p, err := b.driver.ready()
			must.NoError(t, err)
			id := tc.prepare(b, p)
			p.state.End(id)
			b.driver.buryEnded(t.Context(), p)
			must.Eq(t, tc.kept, b.engine.find(id) != nil)
			must.Eq(t, tc.kept, slices.Contains(p.state.Ended(), id))
		})
	}
	t.Run("an end is noted", func(t *testing.T) {
		b := newBench(t, nil)
		p, err := b.driver.ready()
		must.NoError(t, err)
		cfg := b.task(nil)
		id, _ := b.start(cfg)
		b.engine.end(id, 0, false)
		b.wait(cfg.ID)
		must.Eq(t, []string{id}, p.state.Ended())
		must.NoError(t, b.DestroyTask(cfg.ID, false))
		must.SliceEmpty(t, p.state.Ended())
	})
}

func TestStateFile(t *testing.T) {
	dir := t.TempDir()
	first := newStateFile(dir, hclog.NewNullLogger())
	must.True(t, first.Open())
	first.Doom("a")
	first.Doom("a")
	first.Doom("b")
	first.Buried("b")
	first.End("e")
	first.KeepPause("p", "/alloc/1")

	second := newStateFile(dir, hclog.NewNullLogger())
	must.False(t, second.Open(), must.Sprint("one process owns it"))
	second.Doom("in memory")
	must.Eq(t, []string{"in memory"}, second.Doomed())

	first.Close()
	third := newStateFile(dir, hclog.NewNullLogger())
	must.True(t, third.Open())
	defer third.Close()
	must.Eq(t, []string{"a"}, third.Doomed())
	must.Eq(t, []string{"e"}, third.Ended())
	must.Eq(t, map[string]string{"p": "/alloc/1"}, third.Pauses())
	third.DropPause("p")
	must.MapEmpty(t, third.Pauses())
}

func TestStateFileDamaged(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "driver.json"), []byte("{"), 0o600))
	s := newStateFile(dir, hclog.NewNullLogger())
	must.True(t, s.Open())
	defer s.Close()
	must.SliceEmpty(t, s.Doomed())
	s.Doom("a")
	must.Eq(t, []string{"a"}, s.Doomed())
}
