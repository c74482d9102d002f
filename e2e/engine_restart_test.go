//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
	"github.com/gpu-docker/gpu-docker/simhost"
)

// newEngineSite is a site whose engine is its own and can be restarted.
func newEngineSite(t *testing.T, liveRestore bool, change func(*harness.AgentConfig)) (*site, *harness.OwnEngine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	s := &site{T: t, ctx: ctx, bin: os.Getenv("GPU_DOCKER_BIN"), dir: t.TempDir()}
	must.NotEq(t, "", s.bin, must.Sprint("GPU_DOCKER_BIN must name the folder with the built programs"))
	engine, err := harness.StartOwnEngine(ctx, t.Logf, liveRestore)
	must.NoError(t, err)
	t.Cleanup(engine.Close)
	s.engine = engine.Engine
	for _, img := range images {
		must.NoError(t, s.engine.MakeImage(ctx, img))
	}
	s.gpus, err = simhost.Up(ctx, simhost.Options{Root: s.driverRoot(), Profile: "k80x4-352"})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, s.gpus.Down()) })
	cfg := s.agentConfig(s.driverRoot())
	cfg.DriverConfig = fmt.Sprintf("endpoint = %q\n", engine.Host())
	if change != nil {
		change(&cfg)
	}
	s.agent, err = harness.StartAgent(ctx, cfg)
	must.NoError(t, err)
	t.Cleanup(s.end)
	return s, engine
}

// TestEngineRestartWithLiveRestore: tasks and logs go on, whichever way the
// engine went.
func TestEngineRestartWithLiveRestore(t *testing.T) {
	s, engine := newEngineSite(t, true, nil)
	alloc := s.run(job{name: "lives", image: imageCUDA75, script: everyMillisecond, gpus: 1})
	before := s.inspect(alloc.ID)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		seen := s.lastLine(alloc, 0)
		must.NoError(t, engine.Stop(s.ctx, sig))
		must.NoError(t, engine.Start(s.ctx))
		back := time.Now()
		now := s.lastLine(alloc, seen+2000)
		detail := s.inspect(alloc.ID)
		must.Eq(t, before.ID, detail.ID)
		must.Eq(t, before.State.Pid, detail.State.Pid)
		text, err := s.agent.Logs(alloc, "t", "stdout")
		must.NoError(t, err)
		// What the engine itself lost with its death nobody can bring back.
		must.True(t, strings.HasPrefix(s.engineLog(detail.ID), text), must.Sprint("the task's log is not what the engine has"))
		lost, err := gaps(text)
		must.NoError(t, err)
		t.Logf("after %v: lines up to %d, %s after the engine was back; the engine lost %d", sig, now, time.Since(back).Round(time.Second/100), lost)
		must.LessEq(t, 200, lost)

		code, out, _ := s.exec(alloc, false, "", "echo", "here")
		must.Eq(t, []any{0, "here\n"}, []any{code, out})
		s.statsSince(alloc, back)
	}
	fresh, _, err := s.agent.API.Allocations().Info(alloc.ID, nil)
	must.NoError(t, err)
	must.Eq(t, api.AllocClientStatusRunning, fresh.ClientStatus)
	must.Eq(t, 0, fresh.TaskStates["t"].Restarts, must.Sprint(harness.Events(fresh)))
	must.NoError(t, s.agent.StopJob(s.ctx, "lives"))
}

// TestEngineRestartWithoutLiveRestore: the engine ends its containers; the task
// is told dead and Nomad's policy starts it again, with the same GPU.
func TestEngineRestartWithoutLiveRestore(t *testing.T) {
	s, engine := newEngineSite(t, false, nil)
	hcl := job{name: "again", image: imageCUDA75, script: gpuView, gpus: 1}.hcl()
	hcl = strings.Replace(hcl, "attempts = 0\n      mode     = \"fail\"", "attempts = 60\n      delay = \"1s\"\n      mode     = \"fail\"", 1)
	alloc := s.runHCL("again", hcl)
	s.view(alloc)
	restarts := 0
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		before := s.inspect(alloc.ID)
		must.NoError(t, engine.Stop(s.ctx, sig))
		must.NoError(t, engine.Start(s.ctx))
		must.NoError(t, harness.Eventually(s.ctx, time.Minute, func() (err error) {
			restarts, err = s.restarted(alloc, restarts)
			return err
		}))
		detail := s.inspect(alloc.ID)
		must.NotEq(t, before.ID, detail.ID)
		must.True(t, detail.State.Running)
		must.Eq(t, gpuNodes(before), gpuNodes(detail))
		t.Logf("after %v: %s", sig, eventsOf(s, alloc))
	}
	must.NoError(t, s.agent.StopJob(s.ctx, "again"))
}

// TestEngineRestartUnderABridgeGroup: the engine brings the network container back
// with a bare namespace; no task starts in there, and the group gets a new network.
func TestEngineRestartUnderABridgeGroup(t *testing.T) {
	must.NoError(t, harness.EnsurePrograms(t.Context(), t.Logf, cniPlugins))
	s, engine := newEngineSite(t, false, func(cfg *harness.AgentConfig) {
		cfg.ClientConfig = bridgeClient
		cfg.DriverConfig += fmt.Sprintf("infra_image = %q\n", imagePause)
	})
	t.Cleanup(func() { must.NoError(t, harness.RemoveLink(testBridge)) })
	s.makePauseImage()
	hcl := job{name: "bridge", image: imagePlain, script: "sleep 600"}.hcl()
	hcl = strings.Replace(hcl, `group "g" {`, "group \"g\" {\n network {\n mode = \"bridge\"\n }", 1)
	hcl = strings.Replace(hcl, "attempts = 0\n      mode     = \"fail\"", "attempts = 4\n      delay = \"3s\"\n      mode     = \"fail\"", 1)
	hcl = strings.Replace(hcl, "attempts  = 0\n      unlimited = false", "unlimited = true\n      delay = \"5s\"\n      delay_function = \"constant\"", 1)
	alloc := s.runHCL("bridge", hcl)
	s.hasNetwork("bridge")

	must.NoError(t, engine.Stop(s.ctx, syscall.SIGKILL))
	must.NoError(t, engine.Start(s.ctx))
	must.NoError(t, harness.Eventually(s.ctx, 90*time.Second, func() error {
		stubs, _, err := s.agent.API.Jobs().Allocations("bridge", true, nil)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(stubs, func(stub *api.AllocationListStub) bool {
			return stub.ID != alloc.ID && stub.ClientStatus == api.AllocClientStatusRunning
		}) {
			return fmt.Errorf("no other allocation runs: %v", describe(stubs))
		}
		return nil
	}))
	must.StrContains(t, eventsOf(s, alloc), "the allocation must be rescheduled")
	s.hasNetwork("bridge")

	// As after a reboot: an agent that asks for the network anew finds the container
	// running and its namespace bare.
	s.agent.Stop(syscall.SIGKILL)
	must.NoError(t, engine.Stop(s.ctx, syscall.SIGKILL))
	must.NoError(t, engine.Start(s.ctx))
	must.NoError(t, s.agent.Start(s.ctx))
	s.hasNetwork("bridge")
	must.NoError(t, s.agent.StopJob(s.ctx, "bridge"))
	must.NoError(t, s.nothingLeft("containers", func() []string { return s.containers(s.ctx) }))
}

// restarted gives the number of a task's restarts once it runs again with more of
// them than before. How many more depends on the engine: each attempt made while
// it is still away counts as one.
func (s *site) restarted(alloc *api.Allocation, before int) (int, error) {
	fresh, _, err := s.agent.API.Allocations().Info(alloc.ID, nil)
	if err != nil {
		return before, err
	}
	state := fresh.TaskStates["t"]
	if int(state.Restarts) <= before || state.State != "running" || state.Events[len(state.Events)-1].Type != api.TaskStarted {
		return before, fmt.Errorf("task is %s after %d restarts: %s", state.State, state.Restarts, harness.Events(fresh))
	}
	return int(state.Restarts), nil
}

// gpuNodes are the device nodes that a container has.
func gpuNodes(detail container.InspectResponse) []string {
	var nodes []string
	for _, d := range detail.HostConfig.Devices {
		nodes = append(nodes, d.PathInContainer)
	}
	return nodes
}

// lastLine waits until a log has come to a line of at least that number.
func (s *site) lastLine(alloc *api.Allocation, least int) int {
	var n int
	_, err := s.agent.WaitLogs(s.ctx, alloc, "t", func(text string) error {
		whole := text[:strings.LastIndexByte(text, '\n')+1]
		last := whole[strings.LastIndexByte(strings.TrimSuffix(whole, "\n"), '\n')+1:]
		if _, err := fmt.Sscanf(last, "line %d\n", &n); err != nil || n < least || n < 500 {
			return fmt.Errorf("the last line is %q, want %d", last, least)
		}
		return nil
	})
	must.NoError(s, err)
	return n
}

// gaps counts the lines that are missing; doubled, unordered or cut ones are errors.
func gaps(text string) (int, error) {
	next, lost := 0, 0
	for line := range strings.Lines(text) {
		var n int
		if _, err := fmt.Sscanf(line, "line %d\n", &n); err != nil || line != fmt.Sprintf("line %d\n", n) {
			if !strings.HasSuffix(line, "\n") {
				break // the last one, not complete yet
			}
			return 0, fmt.Errorf("line %q after %d", line, next-1)
		}
		if n < next {
			return 0, fmt.Errorf("line %d comes after line %d", n, next-1)
		}
		lost += n - next
		next = n + 1
	}
	return lost, nil
}

// engineLog is what the engine has of a container's standard output.
func (s *site) engineLog(id string) string {
	stream, err := s.engine.Client.ContainerLogs(s.ctx, id, container.LogsOptions{ShowStdout: true})
	must.NoError(s, err)
	defer stream.Close()
	var out, errOut bytes.Buffer
	_, err = stdcopy.StdCopy(&out, &errOut, stream)
	must.NoError(s, err)
	return out.String()
}
