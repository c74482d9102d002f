//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// everyMillisecond prints a thousand numbered lines a second for ever, as far as
// the machine is fast enough.
const everyMillisecond = `i=0; while :; do n=$((i+10)); while [ $i -lt $n ]; do echo "line $i"; i=$((i+1)); done; usleep 10000; done`

// countsSignals prints each SIGTERM that it gets, and lives on.
const countsSignals = `n=0; trap 'n=$((n+1)); echo "signal $n"' TERM; echo ready; while :; do usleep 20000; done`

// TestLifeOfTasks: what happens to tasks while they run, and at their end.
func TestLifeOfTasks(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)
	for _, story := range []struct {
		name string
		tell func(*site)
	}{
		{"the plugin is killed", (*site).pluginKilled},
		{"stop", (*site).stops},
		{"exit codes", (*site).exitCodes},
		{"exec", (*site).execs},
		{"processes left on a GPU", (*site).leftovers},
	} {
		t.Run(story.name, func(t *testing.T) { story.tell(s.under(t)) })
	}
}

// process is one of the machine's.
type process struct {
	pid, parent int
	args        []string
}

// processes finds some. What ended while we looked has no arguments, and no parent.
func (s *site) processes(wanted func(process) bool) []process {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must.NoError(s, err)
	var found []process
	for _, dir := range dirs {
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		p := process{args: strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")}
		p.pid, err = strconv.Atoi(filepath.Base(dir))
		must.NoError(s, err)
		_, rest, _ := strings.Cut(string(stat), ") ") // after the name, which may have blanks
		if fields := strings.Fields(rest); len(fields) > 1 {
			p.parent, _ = strconv.Atoi(fields[1])
		}
		if wanted(p) {
			found = append(found, p)
		}
	}
	return found
}

// driverProcess is the process that serves the task driver to the agent; 0 when
// there is none. One that outlived an agent is init's child.
func (s *site) driverProcess() int {
	found := s.processes(func(p process) bool {
		return slices.Equal(p.args, []string{s.bin + "/plugins/gpu-docker"}) && (p.parent == s.agent.PID() || p.parent == 1)
	})
	if len(found) == 0 {
		return 0
	}
	return found[0].pid
}

// killPlugin kills the driver's process and waits until the agent has another.
func (s *site) killPlugin() {
	before := s.driverProcess()
	must.Positive(s, before)
	must.NoError(s, syscall.Kill(before, syscall.SIGKILL))
	must.NoError(s, harness.Eventually(s.ctx, 30*time.Second, func() error {
		if now := s.driverProcess(); now == 0 || now == before {
			return fmt.Errorf("the agent has not started the plugin again")
		}
		return nil
	}))
}

// grows waits until a task's log has so many lines more than before, and asserts
// that it is unbroken. It returns the number of lines.
func (s *site) grows(alloc *api.Allocation, before, more int) int {
	var n int
	_, err := s.agent.WaitLogs(s.ctx, alloc, "t", func(text string) error {
		var err error
		if n, err = unbroken(text); err != nil {
			return harness.Final(err)
		}
		if n < before+more {
			return fmt.Errorf("only %d lines after %d before", n, before)
		}
		return nil
	})
	must.NoError(s, err)
	return n
}

// pluginKilled: neither tasks nor their logs notice.
func (s *site) pluginKilled() {
	t := s.T
	gpu := s.run(job{name: "gpu", image: imageCUDA75, script: everyMillisecond, gpus: 1})
	plain := s.run(job{name: "plain", image: imagePlain, script: everyMillisecond})
	both := []*api.Allocation{gpu, plain}
	containers := map[string]string{gpu.ID: s.inspect(gpu.ID).ID, plain.ID: s.inspect(plain.ID).ID}
	lines := map[string]int{}
	var killed time.Time
	for range 2 {
		for _, alloc := range both {
			lines[alloc.ID] = s.grows(alloc, lines[alloc.ID], 500)
		}
		killed = time.Now()
		s.killPlugin()
		for _, alloc := range both {
			lines[alloc.ID] = s.grows(alloc, lines[alloc.ID], 1000)
			detail := s.inspect(alloc.ID)
			must.Eq(t, containers[alloc.ID], detail.ID)
			must.True(t, detail.State.Running)
		}
	}
	t.Logf("unbroken after two kills: %d and %d lines", lines[gpu.ID], lines[plain.ID])

	s.statsSince(gpu, killed)
	code, out, _ := s.exec(plain, false, "", "echo", "here")
	must.Eq(t, 0, code)
	must.Eq(t, "here\n", out)
	rest := s.run(job{name: "rest", image: imageCUDA75, script: gpuView, gpus: 3})
	must.SliceNotContains(t, reserved(rest), reserved(gpu)[0])
	must.Len(t, 3, s.view(rest).nodes)

	must.NoError(t, s.engine.Client.ContainerKill(s.ctx, containers[plain.ID], "KILL"))
	ended, err := s.agent.WaitAlloc(s.ctx, "plain", api.AllocClientStatusFailed)
	must.NoError(t, err)
	must.StrContains(t, harness.Events(ended), "Exit Code: 137")
	must.StrNotContains(t, harness.Events(ended), "OOM")
	s.grows(plain, lines[plain.ID], 0)
	for _, name := range []string{"gpu", "rest"} {
		must.NoError(t, s.agent.StopJob(s.ctx, name))
	}
}

// statsSince waits until a task's statistics are newer than that.
func (s *site) statsSince(alloc *api.Allocation, since time.Time) {
	must.NoError(s, harness.Eventually(s.ctx, 30*time.Second, func() error {
		usage, err := s.agent.API.Allocations().Stats(alloc, nil)
		if err != nil {
			return err
		}
		task := usage.Tasks["t"]
		if task == nil || task.Timestamp <= since.UnixNano() || task.ResourceUsage.CpuStats.Percent <= 0 {
			return fmt.Errorf("no statistics of task \"t\" since %s: %v", since, task)
		}
		return nil
	}))
}

// stops: one signal, kill_timeout, and only then a kill.
func (s *site) stops() {
	for _, tc := range []struct {
		name, script, more string
		log, event         string
		least, most        time.Duration
	}{
		{
			name: "ends-by-itself", script: `trap 'echo "signal 1"; exit 5' TERM; echo ready; while :; do usleep 20000; done`,
			log: "ready\nsignal 1\n", event: "Exit Code: 5", most: 1900 * time.Millisecond,
		},
		{
			name: "is-killed", script: countsSignals,
			log: "ready\nsignal 1\n", event: "Exit Code: 137", least: 2 * time.Second, most: 6 * time.Second,
		},
		{
			name: "has-its-own-signal", script: `trap 'echo "user 1"; exit 0' USR1; trap 'echo term' TERM; echo ready; while :; do usleep 20000; done`,
			more: `kill_signal = "SIGUSR1"`,
			log:  "ready\nuser 1\n", event: "Exit Code: 0", most: 1900 * time.Millisecond,
		},
	} {
		s.Run(tc.name, func(t *testing.T) {
			s := s.under(t)
			alloc := s.run(job{name: tc.name, image: imagePlain, script: tc.script, more: tc.more})
			s.prints(alloc, "ready\n")
			must.NoError(t, s.agent.StopJob(s.ctx, tc.name))
			s.prints(alloc, tc.log)
			must.StrContains(t, eventsOf(s, alloc), tc.event)
			took := s.between(alloc, api.TaskKilling, api.TaskTerminated)
			t.Logf("from the wish to the end: %s", took)
			must.Between(t, tc.least, took, tc.most)
		})
	}
}

// prints waits until a task has printed exactly that.
func (s *site) prints(alloc *api.Allocation, want string) {
	_, err := s.agent.WaitLogs(s.ctx, alloc, "t", func(text string) error {
		if text != want {
			return fmt.Errorf("the task printed %q, want %q", text, want)
		}
		return nil
	})
	must.NoError(s, err)
}

// between is the time between two kinds of task events.
func (s *site) between(alloc *api.Allocation, first, second string) time.Duration {
	fresh, _, err := s.agent.API.Allocations().Info(alloc.ID, nil)
	must.NoError(s, err)
	at := map[string]int64{}
	for _, e := range fresh.TaskStates["t"].Events {
		at[e.Type] = e.Time
	}
	must.MapContainsKeys(s, at, []string{first, second})
	return time.Duration(at[second] - at[first])
}

// exitCodes: the allocation tells what the process said, and a kill is no lack
// of memory.
func (s *site) exitCodes() {
	for name, tc := range map[string]struct{ script, status, event string }{
		"zero":    {"exit 0", api.AllocClientStatusComplete, "Exit Code: 0"},
		"three":   {"exit 3", api.AllocClientStatusFailed, "Exit Code: 3"},
		"killed":  {"kill -9 $$", api.AllocClientStatusFailed, "Exit Code: 137"},
		"missing": {"exec /no/such/program", api.AllocClientStatusFailed, "Exit Code: 127"},
	} {
		_, err := s.agent.Run(job{name: name, kind: "batch", image: imagePlain, script: tc.script}.hcl())
		must.NoError(s, err)
		alloc, err := s.agent.WaitAlloc(s.ctx, name, tc.status)
		must.NoError(s, err)
		must.StrContains(s, harness.Events(alloc), tc.event)
		must.StrNotContains(s, harness.Events(alloc), "OOM")
	}
}

// execs: as "nomad alloc exec" does, and by that command itself.
func (s *site) execs() {
	t := s.T
	alloc := s.run(job{name: "exec", image: imagePlain, script: "sleep 600"})
	code, out, errOut := s.exec(alloc, false, "", "sh", "-c", "echo out; echo err >&2; exit 43")
	must.Eq(t, []any{43, "out\n", "err\n"}, []any{code, out, errOut})

	input := strings.Repeat("0123456789\n", 20_000)
	code, out, errOut = s.exec(alloc, false, input, "cat")
	must.Eq(t, []any{0, ""}, []any{code, errOut})
	must.True(t, out == input, must.Sprintf("%d of %d bytes came back", len(out), len(input)))

	code, out, _ = s.exec(alloc, true, "", "sh", "-c", `while [ "$(stty size 2>/dev/null)" != "50 100" ]; do usleep 20000; done; tty; echo err >&2; exit 44`)
	must.Eq(t, 44, code)
	must.StrHasPrefix(t, "/dev/pts/", out)
	must.StrHasSuffix(t, "\r\nerr\r\n", out)

	code, _, _ = s.exec(alloc, false, "", "/no/such/program")
	must.NotEq(t, 0, code)

	command := exec.CommandContext(s.ctx, filepath.Join(s.bin, "nomad"), "alloc", "exec", "-t=false", "-task", "t", alloc.ID, "sh", "-c", "read a; echo got $a; exit 7")
	command.Env = append(os.Environ(), "NOMAD_ADDR="+s.agent.Address())
	command.Stdin = strings.NewReader("something\n")
	printed, _ := command.CombinedOutput()
	must.Eq(t, "got something\n", string(printed))
	must.Eq(t, 7, command.ProcessState.ExitCode())
	must.NoError(t, s.agent.StopJob(s.ctx, "exec"))
}

// exec runs a command in a task; a terminal has 50 lines of 100 characters.
func (s *site) exec(alloc *api.Allocation, tty bool, stdin string, command ...string) (code int, stdout, stderr string) {
	size := make(chan api.TerminalSize, 1)
	size <- api.TerminalSize{Height: 50, Width: 100}
	var in io.Reader = strings.NewReader(stdin)
	if tty && stdin == "" {
		r, w := io.Pipe() // a terminal stays open
		defer w.Close()
		in = r
	}
	var out, errOut bytes.Buffer
	code, err := s.agent.API.Allocations().Exec(s.ctx, alloc, "t", tty, command, in, &out, &errOut, size, nil)
	if err != nil {
		return -1, out.String(), err.Error()
	}
	return code, out.String(), errOut.String()
}

// leftovers: who still computes on a GPU after the task's end (cases DRV-28).
func (s *site) leftovers() {
	t := s.T
	alloc := s.run(job{name: "leaves", image: imageCUDA75, script: gpuView, gpus: 1})
	s.view(alloc)
	for i, uuid := range s.uuids() {
		if uuid == reserved(alloc)[0] {
			must.NoError(t, s.gpus.Set(i, map[string]string{"processes": "4711:512MiB:python"}))
			defer func() { must.NoError(t, s.gpus.Set(i, map[string]string{"processes": "none"})) }()
		}
	}
	must.NoError(t, s.agent.StopJob(s.ctx, "leaves"))
	want := fmt.Sprintf("Processes are left on the GPU after the end of the task: GPU %s: pid 4711 (512 MiB)", reserved(alloc)[0])
	must.NoError(t, harness.Eventually(s.ctx, 30*time.Second, func() error {
		if events := eventsOf(s, alloc); !strings.Contains(events, want) {
			return fmt.Errorf("no %q in %s", want, events)
		}
		return nil
	}))
	must.SliceEmpty(t, s.containersOf(alloc.ID))
}

// containersOf are the containers of an allocation, running or not.
func (s *site) containersOf(allocID string) []container.Summary {
	list, err := s.engine.Client.ContainerList(s.ctx, container.ListOptions{All: true, Filters: ownedBy(allocID)})
	must.NoError(s, err)
	return list
}

// ownedBy finds the containers of an allocation.
func ownedBy(allocID string) filters.Args {
	return filters.NewArgs(filters.Arg("label", ownerLabel+"="+allocID))
}
