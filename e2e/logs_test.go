//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// ownedBy finds the containers of an allocation.
func ownedBy(allocID string) filters.Args {
	return filters.NewArgs(filters.Arg("label", ownerLabel+"="+allocID))
}

// TestTaskLogs: both collectors keep every byte.
func TestTaskLogs(t *testing.T) {
	for _, collector := range []string{"nomad", "driver"} {
		t.Run(collector, func(t *testing.T) {
			s := newSite(t, "none", func(cfg *harness.AgentConfig) {
				cfg.DriverConfig = fmt.Sprintf("logs {\n collector = %q\n max_files = 4\n max_file_size = 1\n}", collector)
			})
			t.Run("short tasks", func(t *testing.T) { s.under(t).shortTasks() })
			t.Run("rotation", func(t *testing.T) { s.under(t).rotation() })
			t.Run("follow", func(t *testing.T) { s.under(t).follow() })
			t.Run("processes", func(t *testing.T) { s.under(t).logProcesses(collector) })
		})
	}
}

// rotating are a job's limits of log files, the same as the plugin's above.
const rotating = "logs {\n max_files = 4\n max_file_size = 1\n}"

// short is how many tasks print and exit, eight at a time: an engine that has more
// to do than it can closes its own log before a task's last lines are in it.
const short = 50

// shortTasks: each prints from 10 KB to 150 KB and exits at once. More would not
// be certain to arrive under such a load: with the default settings the engine
// keeps 2 files of 2 MB, every short line costs some 75 bytes there, and a task
// may be over before its log is first opened (docs/logs.md tells the cure).
func (s *site) shortTasks() {
	t := s.T
	begun := time.Now()
	// The last number of the first task is 2,000, of the last one 26,500.
	hcl := job{name: "short", kind: "batch", image: imagePlain, script: `exec seq 1 $((2000+NOMAD_ALLOC_INDEX*500))`, more: rotating}.hcl()
	hcl = strings.Replace(hcl, `group "g" {`, fmt.Sprintf("group \"g\" {\n count = %d\n ephemeral_disk {\n size = 20\n }", short), 1)
	_, err := s.agent.Run(withResources(hcl, "cpu = 1000\n memory = 32"))
	must.NoError(t, err)
	allocs := s.allEnded("short", short)
	t.Logf("%d tasks ended after %s", len(allocs), time.Since(begun).Round(time.Second/10))
	bytes := 0
	for _, stub := range allocs {
		must.Eq(t, api.AllocClientStatusComplete, stub.ClientStatus)
		alloc := &api.Allocation{ID: stub.ID, NodeID: stub.NodeID}
		last := 2000 + 500*indexOf(stub.Name)
		text, err := s.agent.Logs(alloc, "t", "stdout")
		must.NoError(t, err)
		must.NoError(t, counted(text, 1, last), must.Sprint(stub.Name))
		bytes += len(text)
	}
	t.Logf("%d bytes, none lost", bytes)
	must.NoError(t, s.agent.StopJob(s.ctx, "short"))
}

// allEnded waits until so many allocations of a job have ended.
func (s *site) allEnded(jobID string, count int) []*api.AllocationListStub {
	var stubs []*api.AllocationListStub
	must.NoError(s, harness.Eventually(s.ctx, 3*time.Minute, func() (err error) {
		stubs, _, err = s.agent.API.Jobs().Allocations(jobID, true, nil)
		ended := 0
		for _, stub := range stubs {
			if stub.ClientStatus == api.AllocClientStatusComplete || stub.ClientStatus == api.AllocClientStatusFailed {
				ended++
			}
		}
		if err == nil && ended < count {
			err = fmt.Errorf("%d of %d allocations have ended", ended, count)
		}
		return err
	}))
	return stubs
}

// indexOf reads an allocation's index from its name, "job.group[7]".
func indexOf(name string) int {
	_, rest, _ := strings.Cut(name, "[")
	n, _ := strconv.Atoi(strings.TrimSuffix(rest, "]"))
	return n
}

// counted checks that a text is the numbers first … last, each on its line.
func counted(text string, first, last int) error {
	n := first
	for line := range strings.Lines(text) {
		if line != strconv.Itoa(n)+"\n" {
			return fmt.Errorf("line %q where %d belongs", line, n)
		}
		n++
	}
	if n != last+1 {
		return fmt.Errorf("the last line is %d, want %d", n-1, last)
	}
	return nil
}

// rotation: the oldest files go, the rest is whole.
func (s *site) rotation() {
	t := s.T
	const last = 900_000 // 6.2 MB
	_, err := s.agent.Run(job{name: "rotation", kind: "batch", image: imagePlain, script: fmt.Sprintf("exec seq 1 %d", last), more: rotating}.hcl())
	must.NoError(t, err)
	stub := s.allEnded("rotation", 1)[0]
	files, err := filepath.Glob(filepath.Join(s.agent.DataDir(), "alloc", stub.ID, "alloc", "logs", "t.stdout.[0-9]*"))
	must.NoError(t, err)
	slices.SortFunc(files, func(a, b string) int { return fileNumber(a) - fileNumber(b) })
	must.Len(t, 4, files)
	var text strings.Builder
	for i, name := range files {
		must.Eq(t, fileNumber(files[0])+i, fileNumber(name))
		content, err := os.ReadFile(name)
		must.NoError(t, err)
		must.LessEq(t, 1<<20, len(content))
		must.True(t, strings.HasSuffix(string(content), "\n"), must.Sprintf("%s ends in the middle of a line", name))
		text.Write(content)
	}
	line, _, _ := strings.Cut(text.String(), "\n")
	first, err := strconv.Atoi(line)
	must.NoError(t, err)
	must.NoError(t, counted(text.String(), first, last))
	must.GreaterEq(t, 3<<20-100, text.Len(), must.Sprint("more than one file's worth was removed too early"))
	t.Logf("kept %d … %d in %d bytes", first, last, text.Len())
}

// fileNumber is the last part of a log file's name.
func fileNumber(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(filepath.Ext(name), "."))
	return n
}

// follow: a reader that follows gets all lines, also over file borders.
func (s *site) follow() {
	t := s.T
	// 2.7 MB in some seconds: three files, none removed.
	const last = 400_000
	alloc := s.run(job{name: "follow", image: imagePlain, more: rotating, script: fmt.Sprintf(
		`i=1; while [ $i -lt %d ]; do seq $i $((i+9999)); i=$((i+10000)); usleep 50000; done; sleep 600`, last)})
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	frames, errs := s.agent.API.AllocFS().Logs(alloc, true, "t", "stdout", api.OriginStart, 0, ctx.Done(), nil)
	var text strings.Builder
	for end := fmt.Sprintf("\n%d\n", last); !strings.HasSuffix(text.String(), end); {
		select {
		case frame, open := <-frames:
			must.True(t, open, must.Sprintf("the stream ended after %d bytes", text.Len()))
			text.Write(frame.Data)
		case err := <-errs:
			must.NoError(t, err, must.Sprintf("after %d bytes", text.Len()))
		}
	}
	must.NoError(t, counted(text.String(), 1, last))
	must.Len(t, 0, s.failures(alloc))
	must.NoError(t, s.agent.StopJob(s.ctx, "follow"))
}

// failures are the task events that tell of lost lines.
func (s *site) failures(alloc *api.Allocation) []string {
	var found []string
	for _, event := range strings.Split(eventsOf(s, alloc), " | ") {
		if strings.Contains(event, "may be missing") || strings.Contains(event, "not collected") {
			found = append(found, event)
		}
	}
	return found
}

// logProcesses: with the collector "driver" no process of a task's own, and no
// log holder, runs on the host.
func (s *site) logProcesses(collector string) {
	t := s.T
	alloc := s.run(job{name: "idle", image: imagePlain, script: "echo ready; sleep 600"})
	s.prints(alloc, "ready\n")
	loggers, holders := s.count("logmon"), s.count("log-holder")
	if collector == "driver" {
		must.Eq(t, []int{0, 0}, []int{loggers, holders})
	} else {
		must.Eq(t, []int{1, 1}, []int{loggers, holders})
	}
	must.NoError(t, s.agent.StopJob(s.ctx, "idle"))
}

// count counts the processes of the site's programs in a role.
func (s *site) count(role string) int {
	found, err := filepath.Glob("/proc/[0-9]*/exe")
	must.NoError(s, err)
	nomad, err := filepath.EvalSymlinks(filepath.Join(s.bin, "nomad"))
	must.NoError(s, err)
	n := 0
	for _, exe := range found {
		target, err := os.Readlink(exe)
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(exe), "cmdline"))
		ours := target == nomad || strings.HasPrefix(target, s.bin+"/plugins/")
		if err == nil && ours && slices.Contains(strings.Split(string(cmdline), "\x00"), role) {
			n++
		}
	}
	return n
}
