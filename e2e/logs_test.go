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
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// TestTaskLogs: both collectors keep every byte.
func TestTaskLogs(t *testing.T) {
	for _, collector := range []string{"nomad", "driver"} {
		t.Run(collector, func(t *testing.T) {
			s := newSite(t, "none", func(cfg *harness.AgentConfig) {
				cfg.ClientConfig = "gc_max_allocs = 5000" // what has ended is still read
				cfg.DriverConfig = fmt.Sprintf("logs {\n collector = %q\n max_files = 4\n max_file_size = 1\n}", collector)
			})
			t.Run("short tasks", func(t *testing.T) { s.under(t).shortTasks() })
			t.Run("rotation", func(t *testing.T) { s.under(t).rotation(collector) })
			t.Run("follow", func(t *testing.T) { s.under(t).follow() })
			t.Run("kills", func(t *testing.T) { s.under(t).killedWhileLogging() })
			t.Run("processes", func(t *testing.T) { s.under(t).logProcesses(collector) })
		})
	}
}

// rotating are a job's limits of log files, the same as the plugin's above.
const rotating = "logs {\n max_files = 4\n max_file_size = 1\n}"

// The bytes that the first and the last of the short tasks print. Nomad starts as
// many at once as find room on the node.
const (
	shortLeast = 10 << 10
	shortMost  = 1 << 20
)

// shortTasksVariable asks for another number of short tasks; 1000 take half an hour.
const shortTasksVariable = "GPU_DOCKER_SHORT_TASKS"

// shortCount is how many short tasks there are.
func (s *site) shortCount() int {
	text := os.Getenv(shortTasksVariable)
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	must.NoError(s, err)
	return n
}

// shortTasks: each prints from 10 KB to 1 MB and exits at once. With the default
// settings the engine keeps less than half of what the longest print.
func (s *site) shortTasks() {
	t := s.T
	count := s.shortCount()
	step := (lastNumber(shortMost) - lastNumber(shortLeast)) / (count - 1)
	begun := time.Now()
	hcl := job{name: "short", kind: "batch", image: imagePlain, script: `exec seq 1 $((LAST))`, more: rotating}.hcl()
	hcl = strings.Replace(hcl, "LAST", fmt.Sprintf("%d+NOMAD_ALLOC_INDEX*%d", lastNumber(shortLeast), step), 1)
	hcl = strings.Replace(hcl, `group "g" {`, fmt.Sprintf("group \"g\" {\n count = %d\n ephemeral_disk {\n size = 20\n }", count), 1)
	_, err := s.agent.Run(withResources(hcl, "cpu = 1900\n memory = 32"))
	must.NoError(t, err)
	allocs := s.allEnded("short", count)
	t.Logf("%d tasks ended after %s", len(allocs), time.Since(begun).Round(time.Second/10))
	bytes := 0
	for _, stub := range allocs {
		must.Eq(t, api.AllocClientStatusComplete, stub.ClientStatus)
		alloc := &api.Allocation{ID: stub.ID, NodeID: stub.NodeID}
		last := lastNumber(shortLeast) + step*indexOf(stub.Name)
		// Nomad's collector writes its files some time after it has read the pipe.
		text, err := s.agent.WaitLogs(s.ctx, alloc, "t", func(text string) error { return counted(text, 1, last) })
		must.NoError(t, err, must.Sprint(stub.Name))
		bytes += len(text)
	}
	t.Logf("%d bytes, none lost", bytes)
	must.NoError(t, s.agent.StopJob(s.ctx, "short"))
}

// lastNumber is the last one of those that "seq" prints into so many bytes.
func lastNumber(bytes int) int {
	n := 0
	for width, count := 1, 9; ; width, count = width+1, count*10 {
		if bytes < count*(width+1) {
			return n + bytes/(width+1)
		}
		bytes -= count * (width + 1)
		n += count
	}
}

// allEnded waits until so many allocations of a job have ended.
func (s *site) allEnded(jobID string, count int) []*api.AllocationListStub {
	var stubs []*api.AllocationListStub
	must.NoError(s, harness.Eventually(s.ctx, time.Minute+time.Duration(count)*3*time.Second, func() (err error) {
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

// rotation: the oldest files go, the rest is whole. Nomad's collector now and then
// goes on with a line in the next file; ours does not.
func (s *site) rotation(collector string) {
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
		if collector == "driver" {
			must.True(t, strings.HasSuffix(string(content), "\n"), must.Sprintf("%s ends in the middle of a line", name))
		}
		text.Write(content)
	}
	kept := text.String()
	if collector == "nomad" {
		_, kept, _ = strings.Cut(kept, "\n") // may be the end of a line
	}
	line, _, _ := strings.Cut(kept, "\n")
	first, err := strconv.Atoi(line)
	must.NoError(t, err)
	must.NoError(t, counted(kept, first, last))
	// Nomad's collector begins a new file rather than split what it has in hand.
	must.GreaterEq(t, 3<<20-64<<10, text.Len(), must.Sprint("more than one file's worth was removed too early"))
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

// killedWhileLogging: the driver, the agent, and both are killed under a task that
// prints a line every millisecond.
func (s *site) killedWhileLogging() {
	t := s.T
	alloc := s.run(job{name: "kills", image: imagePlain, script: everyMillisecond, more: rotating})
	lines := s.grows(alloc, 0, 500)
	for _, victim := range []string{plugin, agent, both} {
		if victim == plugin {
			s.killPlugin()
		} else {
			process := s.driverProcess()
			must.Positive(t, process)
			s.agent.Stop(syscall.SIGKILL)
			if victim == both {
				must.NoError(t, syscall.Kill(process, syscall.SIGKILL))
			}
			must.NoError(t, s.agent.Start(s.ctx))
		}
		lines = s.grows(alloc, lines, 1000)
	}
	must.Len(t, 0, s.failures(alloc))
	t.Logf("unbroken after three kills: %d lines", lines)
	must.NoError(t, s.agent.StopJob(s.ctx, "kills"))
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
	want := []int{1, 1}
	if collector == "driver" {
		want = []int{0, 0}
	}
	must.Eq(t, want, []int{
		len(s.processes(func(p process) bool { return p.parent == s.agent.PID() && slices.Contains(p.args, "logmon") })),
		len(s.processes(func(p process) bool { return slices.Contains(p.args, "log-holder") })),
	})
	must.NoError(t, s.agent.StopJob(s.ctx, "idle"))
}
