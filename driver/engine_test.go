// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package driver

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/filters"
	dockerimage "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/client/allocdir"
	"github.com/hashicorp/nomad/client/logmon"
	"github.com/hashicorp/nomad/helper/uuid"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
)

// testLimit bounds every wait of a test.
const testLimit = 20 * time.Second

// testImage has busybox with all its applets and nothing else.
const testImage = "gpu-docker-driver-test:busybox"

func init() { afterAll = removeImages }

// removeImages removes the images of all tests.
func removeImages() {
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return
	}
	defer c.Close()
	ctx := context.Background()
	name, _, _ := strings.Cut(testImage, ":")
	found, err := c.ImageList(ctx, dockerimage.ListOptions{Filters: filters.NewArgs(filters.Arg("reference", name))})
	if err != nil {
		return
	}
	for _, img := range found {
		_, _ = c.ImageRemove(ctx, img.ID, dockerimage.RemoveOptions{Force: true, PruneChildren: true})
	}
}

// docker is a client of the machine's engine, for what tests look at themselves.
func docker(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	must.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// importImage makes an image of busybox under a name, with changes in
// Dockerfile words.
func importImage(t *testing.T, name string, changes ...string) {
	t.Helper()
	c := docker(t)
	if _, err := c.ImageInspect(t.Context(), name); err == nil {
		return
	}
	r, err := c.ImageImport(t.Context(), dockerimage.ImportSource{Source: busyboxTar(t), SourceName: "-"}, name,
		dockerimage.ImportOptions{Changes: append([]string{`ENV PATH=/bin`}, changes...)})
	must.NoError(t, err)
	_, err = io.Copy(io.Discard, r)
	must.NoError(t, err)
	must.NoError(t, r.Close())
}

// busyboxTar is a root file system around the machine's static busybox.
func busyboxTar(t *testing.T) io.Reader {
	t.Helper()
	binary, err := os.ReadFile("/usr/bin/busybox")
	must.NoError(t, err, must.Sprint("install the package busybox-static"))
	list, err := exec.Command("/usr/bin/busybox", "--list").Output()
	must.NoError(t, err)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, dir := range []string{"bin/", "tmp/", "etc/", "usr/", "proc/", "dev/", "sys/"} {
		must.NoError(t, w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o1777}))
	}
	must.NoError(t, w.WriteHeader(&tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(binary))}))
	_, err = w.Write(binary)
	must.NoError(t, err)
	for _, applet := range strings.Fields(string(list)) {
		if applet == "busybox" {
			continue
		}
		must.NoError(t, w.WriteHeader(&tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}))
	}
	must.NoError(t, w.Close())
	return &out
}

// site is a driver behind Nomad's plugin boundary.
type site struct {
	remote
	t      *testing.T
	driver *Driver
	// kill ends the plugin as an agent's shutdown does: tasks go on.
	kill func()
}

// newSite starts a driver with the plugin options that change gives. Its own
// directories and no fixed ports or sockets.
func newSite(t *testing.T, change func(*config.Plugin)) *site {
	t.Helper()
	importImage(t, testImage)
	return newSiteIn(t, t.TempDir(), change)
}

// newSiteIn is newSite with a given state directory, as after a restart.
func newSiteIn(t *testing.T, stateDir string, change func(*config.Plugin)) *site {
	t.Helper()
	d := newTestDriver(t, stateDir)
	cfg := config.DefaultPlugin()
	cfg.GPU.APIAddress = ""
	cfg.GPU.VolumeMode, cfg.GPU.VolumeSocketDir = config.VolumeModeBind, ""
	cfg.GPU.VolumesPath = filepath.Join(stateDir, "volumes")
	cfg.GPU.DriverRoot = filepath.Join(stateDir, "no-driver")
	cfg.GC.Image = false
	if change != nil {
		change(cfg)
	}
	var data []byte
	must.NoError(t, base.MsgPackEncode(&data, cfg))
	r, stop := dial(t, d)
	must.NoError(t, r.SetConfig(&base.Config{PluginConfig: data}))
	s := &site{remote: r, t: t, driver: d}
	s.kill = sync.OnceFunc(func() { stop(); d.Shutdown() })
	t.Cleanup(s.kill)
	return s
}

func newTestDriver(t *testing.T, stateDir string) *Driver {
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: testWriter{t}, DisableTime: true})
	d := NewPlugin(logger, "0.0.1")
	d.stateDir, d.runDir = stateDir, filepath.Join(stateDir, "run")
	return d
}

// testWriter puts log lines into the test's output as long as it runs.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Log(strings.TrimSpace(string(p)))
	}
	return len(p), nil
}

// task makes a task that runs a shell script.
func (s *site) task(script string, change func(*config.Task)) *drivers.TaskConfig {
	s.t.Helper()
	options := map[string]any{"image": testImage, "command": "/bin/sh", "args": []string{"-c", script}}
	alloc := uuid.Generate()
	cfg := &drivers.TaskConfig{
		ID: alloc + "/t/" + uuid.Short(), AllocID: alloc, Name: "t",
		JobName: "job", JobID: "job", TaskGroupName: "group", Namespace: "default",
		NodeID: "node-of-driver-tests", NodeName: "here",
		Resources: &drivers.Resources{
			NomadResources: &structs.AllocatedTaskResources{
				Memory: structs.AllocatedMemoryResources{MemoryMB: 128},
				Cpu:    structs.AllocatedCpuResources{CpuShares: 100},
			},
			LinuxResources: &drivers.LinuxResources{CPUShares: 100, MemoryLimitBytes: 128 << 20, PercentTicks: 0.02},
		},
	}
	encode(s.t, cfg, options, change)
	makeAllocDir(s.t, cfg)
	s.t.Cleanup(func() {
		_ = s.driver.DestroyTask(cfg.ID, true) // most tests did; its logs' holder goes with it
		removeContainers(s.t, cfg.AllocID)
	})
	return cfg
}

// makeAllocDir makes what the agent makes before it starts a task: directories,
// environment, and log pipes with a reader.
func makeAllocDir(t *testing.T, cfg *drivers.TaskConfig) {
	t.Helper()
	dir, err := os.MkdirTemp("", "gpu-docker-driver-") // t.TempDir is too long for log pipes' sockets
	must.NoError(t, err)
	alloc := allocdir.NewAllocDir(hclog.NewNullLogger(), dir, cfg.AllocID)
	must.NoError(t, alloc.Build())
	t.Cleanup(func() { _ = alloc.Destroy(); _ = os.RemoveAll(dir) })
	cfg.AllocDir = alloc.AllocDir
	task := alloc.NewTaskDir(cfg.Name)
	must.NoError(t, task.Build(false, nil))
	cfg.Env = map[string]string{
		"NOMAD_ALLOC_DIR": "/alloc", "NOMAD_TASK_DIR": "/local", "NOMAD_SECRETS_DIR": "/secrets",
	}
	cfg.StdoutPath = filepath.Join(task.LogDir, "."+cfg.Name+".stdout.fifo")
	cfg.StderrPath = filepath.Join(task.LogDir, "."+cfg.Name+".stderr.fifo")
	collector := logmon.NewLogMon(hclog.NewNullLogger())
	must.NoError(t, collector.Start(&logmon.LogConfig{
		LogDir: task.LogDir, StdoutLogFile: cfg.Name + ".stdout", StderrLogFile: cfg.Name + ".stderr",
		StdoutFifo: cfg.StdoutPath, StderrFifo: cfg.StderrPath, MaxFiles: 10, MaxFileSizeMB: 10,
	}))
	t.Cleanup(func() { _ = collector.Stop() })
}

// encode gives a task its options.
func encode(t *testing.T, cfg *drivers.TaskConfig, options map[string]any, change func(*config.Task)) {
	t.Helper()
	if change == nil {
		must.NoError(t, cfg.EncodeConcreteDriverConfig(options))
		return
	}
	args, _ := options["args"].([]string)
	command, _ := options["command"].(string)
	o := &config.Task{Image: testImage, Command: command, Args: args}
	change(o)
	must.NoError(t, cfg.EncodeConcreteDriverConfig(o))
}

// removeContainers removes what a failed test left.
func removeContainers(t *testing.T, allocID string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := newDockerEngine(endpoint{Timeout: time.Minute})
	must.NoError(t, err)
	left, err := e.List(ctx, true, container.LabelAllocID+"="+allocID)
	must.NoError(t, err)
	for _, c := range left {
		_ = e.Remove(ctx, c.ID)
	}
}

// start starts a task.
func (s *site) start(cfg *drivers.TaskConfig) *drivers.TaskHandle {
	s.t.Helper()
	h, _, err := s.StartTask(cfg)
	must.NoError(s.t, err)
	return h
}

// startAll starts tasks at the same time.
func (s *site) startAll(tasks []*drivers.TaskConfig) {
	s.t.Helper()
	started := make(chan error, len(tasks))
	for _, cfg := range tasks {
		go func() {
			_, _, err := s.StartTask(cfg)
			started <- err
		}()
	}
	for range tasks {
		must.NoError(s.t, <-started)
	}
}

// wait waits for a task's end.
func (s *site) wait(id string) *drivers.ExitResult {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testLimit)
	defer cancel()
	ch, err := s.WaitTask(ctx, id)
	must.NoError(s.t, err)
	select {
	case r := <-ch:
		must.NotNil(s.t, r)
		return r
	case <-ctx.Done():
		s.t.Fatal("task did not end in time")
		return nil
	}
}

// logFile waits until a log of a task has the wished content.
func (s *site) waitLog(cfg *drivers.TaskConfig, stream, want string) {
	s.t.Helper()
	file := filepath.Join(cfg.TaskDir().LogDir, fmt.Sprintf("%s.%s.0", cfg.Name, stream))
	eventually(s.t, testLimit, func() error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), want) {
			return fmt.Errorf("%q does not hold %q but %q", file, want, text)
		}
		return nil
	})
}

// eventually polls a condition until it holds.
func eventually(t *testing.T, limit time.Duration, f func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// heard are the task events of a site.
type heard struct {
	t   *testing.T
	mu  sync.Mutex // guards all
	all []string
}

// listen collects the events from now on, through the plugin boundary.
func (s *site) listen() *heard {
	s.t.Helper()
	h := &heard{t: s.t}
	events, err := s.TaskEvents(s.t.Context())
	must.NoError(s.t, err)
	eventually(s.t, testLimit, func() error { // the stream is open once the driver knows it
		s.driver.events.mu.Lock()
		defer s.driver.events.mu.Unlock()
		if len(s.driver.events.subs) == 0 {
			return fmt.Errorf("nobody listens to events")
		}
		return nil
	})
	go func() {
		for ev := range events {
			h.mu.Lock()
			h.all = append(h.all, ev.Message)
			h.mu.Unlock()
		}
	}()
	return h
}

// wait waits for an event that holds a text and returns it.
func (h *heard) wait(text string) (found string) {
	h.t.Helper()
	eventually(h.t, testLimit, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, message := range h.all {
			if strings.Contains(message, text) {
				found = message
				return nil
			}
		}
		return fmt.Errorf("no event with %q among %q", text, h.all)
	})
	return found
}
