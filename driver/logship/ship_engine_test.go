// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package logship

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
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
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/client/logmon"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"
)

const testImage = "logship-test/busybox:1"

// docker connects to the engine and makes the test image, which is removed at the
// end.
func docker(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, c.Close()) })
	t.Cleanup(func() {
		_, err := c.ImageRemove(context.Background(), testImage, image.RemoveOptions{Force: true})
		must.NoError(t, err)
	})
	busybox, err := os.ReadFile("/usr/bin/busybox")
	must.NoError(t, err)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	must.NoError(t, w.WriteHeader(&tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(busybox))}))
	_, err = w.Write(busybox)
	must.NoError(t, err)
	must.NoError(t, w.WriteHeader(&tar.Header{Name: "bin/sh", Linkname: "busybox", Typeflag: tar.TypeSymlink}))
	must.NoError(t, w.WriteHeader(&tar.Header{Name: "tmp/", Mode: 0o777, Typeflag: tar.TypeDir}))
	must.NoError(t, w.Close())
	r, err := c.ImageImport(t.Context(), image.ImportSource{Source: &archive, SourceName: "-"}, testImage, image.ImportOptions{})
	must.NoError(t, err)
	_, err = io.Copy(io.Discard, r)
	must.NoError(t, err)
	must.NoError(t, r.Close())
	return c
}

// rig is one container, its log directory and what ships into it.
type rig struct {
	t      *testing.T
	docker *client.Client
	cfg    shipConfig
	logmon logmon.LogMon // nil with the collector "driver"
}

// newRig prepares directories for a way: the collector, "nomad" or "driver", and
// perhaps "direct" for reading the engine's files.
func newRig(t *testing.T, way string) *rig {
	t.Helper()
	root, err := os.MkdirTemp("", "logship") // short: a socket lies below
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, os.RemoveAll(root)) })
	r := &rig{t: t, docker: docker(t), cfg: shipConfig{
		Direct: strings.Contains(way, "direct"),
		LogDir: root + "/alloc/logs", StateDir: root + "/state", MaxFiles: 100, MaxSize: 1,
	}}
	must.NoError(t, os.MkdirAll(r.cfg.LogDir, 0o777))
	if strings.Contains(way, "nomad") {
		r.cfg.HolderDir = root + "/h"
		t.Cleanup(func() { holderGone(t, r.cfg.HolderDir) })
		r.logmon = logmon.NewLogMon(hclog.NewNullLogger())
		r.startLogmon()
	}
	return r
}

// startLogmon does what the agent's prestart hook does.
func (r *rig) startLogmon() {
	r.t.Helper()
	must.NoError(r.t, r.logmon.Start(&logmon.LogConfig{
		LogDir: r.cfg.LogDir, StdoutLogFile: "task.stdout", StderrLogFile: "task.stderr",
		StdoutFifo: r.cfg.LogDir + "/.task.stdout.fifo", StderrFifo: r.cfg.LogDir + "/.task.stderr.fifo",
		MaxFiles: r.cfg.MaxFiles, MaxFileSizeMB: r.cfg.MaxSize,
	}))
}

// run starts a container with a shell script.
func (r *rig) run(script string, change func(*container.Config, *container.HostConfig)) {
	r.t.Helper()
	cfg := &container.Config{Image: testImage, Entrypoint: []string{"/bin/busybox", "sh", "-c", script}}
	host := &container.HostConfig{NetworkMode: "none"}
	if change != nil {
		change(cfg, host)
	}
	r.cfg.TTY = cfg.Tty
	name := "logship-test-" + strconv.FormatUint(rand.Uint64(), 36)
	made, err := r.docker.ContainerCreate(r.t.Context(), cfg, host, nil, nil, name)
	must.NoError(r.t, err)
	r.cfg.Container = made.ID
	r.t.Cleanup(func() {
		must.NoError(r.t, r.docker.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true}))
	})
	must.NoError(r.t, r.docker.ContainerStart(r.t.Context(), made.ID, container.StartOptions{}))
}

// exited waits for the container.
func (r *rig) exited() {
	r.t.Helper()
	results, errs := r.docker.ContainerWait(r.t.Context(), r.cfg.Container, container.WaitConditionNotRunning)
	select {
	case <-results:
	case err := <-errs:
		must.NoError(r.t, err)
	}
}

// ship starts a shipper in this process.
func (r *rig) ship() *Shipper {
	watcher, err := r.cfg.watcher()
	must.NoError(r.t, err)
	if watcher != nil {
		r.t.Cleanup(func() { must.NoError(r.t, watcher.Close()) })
	}
	return Start(Config{
		Engine: func() Engine { return r.docker }, Container: r.cfg.Container, TTY: r.cfg.TTY, Watcher: watcher, Sink: r.cfg.sink(),
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: r.t.Output()}),
		Emit:   func(m string) { r.t.Log("event:", m) },
	})
}

// finish drains and closes a shipper as the driver does at the end of a task.
func (r *rig) finish(s *Shipper) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 60*time.Second)
	defer cancel()
	must.NoError(r.t, s.Drain(ctx))
	s.Close()
	if r.logmon != nil {
		must.NoError(r.t, r.logmon.Stop())
	}
}

// logs reads all of a stream's rotated files.
func (r *rig) logs(stream string) []byte {
	r.t.Helper()
	prefix := filepath.Join(r.cfg.LogDir, "task."+stream+".")
	paths, err := filepath.Glob(prefix + "*")
	must.NoError(r.t, err)
	byIndex := map[int][]byte{}
	for _, path := range paths {
		n, err := strconv.Atoi(strings.TrimPrefix(path, prefix))
		must.NoError(r.t, err)
		byIndex[n], err = os.ReadFile(path)
		must.NoError(r.t, err)
	}
	var all []byte
	for _, n := range slices.Sorted(maps.Keys(byIndex)) {
		all = append(all, byIndex[n]...)
	}
	return all
}

// engineLog is what the engine kept, which is the truth.
func (r *rig) engineLog() []byte {
	r.t.Helper()
	stream, err := r.docker.ContainerLogs(r.t.Context(), r.cfg.Container, container.LogsOptions{ShowStdout: true})
	must.NoError(r.t, err)
	defer func() { must.NoError(r.t, stream.Close()) }()
	raw, err := io.ReadAll(stream)
	must.NoError(r.t, err)
	return raw
}

// numbered are the lines 1 to n, as "seq" prints them.
func numbered(n int) []byte {
	var b bytes.Buffer
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.Bytes()
}

// same compares long outputs and shows where they differ.
func same(t *testing.T, want, got []byte) {
	t.Helper()
	if bytes.Equal(want, got) {
		return
	}
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	show := func(b []byte) []byte { return b[max(0, min(i-40, len(b))):min(len(b), i+40)] }
	t.Fatalf("want %d bytes, got %d; they differ at %d: want …%q…, got …%q…", len(want), len(got), i, show(want), show(got))
}

// padding makes lines of about 100 bytes.
const padding = " 0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

// padded is a script that prints n numbered lines at once.
func padded(n int) string {
	return fmt.Sprintf(`busybox awk 'BEGIN { for (i = 1; i <= %d; i++) print i "%s" }'`, n, padding)
}

// checkPadded counts the lines that padded prints and fails at the first that is
// out of order.
func checkPadded(t *testing.T, got []byte) int {
	t.Helper()
	n := 0
	for line := range bytes.Lines(got) {
		n++
		must.Eq(t, strconv.Itoa(n)+padding+"\n", string(line))
	}
	return n
}

// ways are the ways from the engine to the log files.
var ways = []string{"nomad", "driver", "nomad direct", "driver direct"}

// unlimited keeps the engine from rotating its log away.
func unlimited(_ *container.Config, h *container.HostConfig) {
	h.LogConfig = container.LogConfig{Type: "json-file"}
}

// task-driver W2, WT-5: a task that prints 5 MB and exits at once.
func TestEngineShortTaskLosesNothing(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			r := newRig(t, way)
			r.run(padded(50000), unlimited)
			s := r.ship()
			r.exited()
			r.finish(s)
			must.Eq(t, 50000, checkPadded(t, r.logs("stdout")))
		})
	}
}

func TestEngineStreamsStayApart(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			r := newRig(t, way)
			r.run("i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo $i; echo $i >&2; done", unlimited)
			s := r.ship()
			r.exited()
			r.finish(s)
			same(t, numbered(5000), r.logs("stdout"))
			same(t, numbered(5000), r.logs("stderr"))
		})
	}
}

func TestEngineLongLine(t *testing.T) {
	for _, tty := range []bool{false, true} {
		for _, way := range ways {
			t.Run(fmt.Sprintf("%s tty=%v", way, tty), func(t *testing.T) {
				r := newRig(t, way)
				r.cfg.MaxSize = 10
				script := "echo begin; busybox yes 0123456789abcde | busybox head -c 1048576 | busybox tr -d '\\n'; echo; echo end"
				r.run(script, func(c *container.Config, h *container.HostConfig) { unlimited(c, h); c.Tty = tty })
				s := r.ship()
				r.exited()
				r.finish(s)
				end := "\n"
				if tty {
					end = "\r\n"
				}
				long := strings.Repeat("0123456789abcde", 1048576/16)
				same(t, []byte("begin"+end+long+end+"end"+end), r.logs("stdout"))
			})
		}
	}
}

// The engine's json-file replaces what is not UTF-8; the log driver "local"
// keeps every byte.
func TestEngineBinary(t *testing.T) {
	for _, logDriver := range []string{"json-file", "local"} {
		for _, way := range ways {
			t.Run(way+" "+logDriver, func(t *testing.T) {
				r := newRig(t, way)
				r.run("busybox head -c 300000 /dev/urandom; printf 'no end'", func(_ *container.Config, h *container.HostConfig) {
					h.LogConfig = container.LogConfig{Type: logDriver}
				})
				s := r.ship()
				r.exited()
				r.finish(s)
				want := demultiplexed(t, r.engineLog())
				same(t, want, r.logs("stdout"))
				if logDriver == "local" {
					must.Eq(t, 300000+len("no end"), len(r.logs("stdout")))
				}
			})
		}
	}
}

// demultiplexed takes the frames off a log without timestamps.
func demultiplexed(t *testing.T, raw []byte) []byte {
	t.Helper()
	var out []byte
	for len(raw) > 0 {
		n := int(raw[4])<<24 | int(raw[5])<<16 | int(raw[6])<<8 | int(raw[7])
		out = append(out, raw[8:8+n]...)
		raw = raw[8+n:]
	}
	return out
}

// task-driver LG-6, PL-12: the process that ships is killed again and again.
func TestEngineKilledShipperIsExact(t *testing.T) {
	for _, way := range ways {
		for _, tty := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s tty=%v", way, tty), func(t *testing.T) {
				r := newRig(t, way)
				// Bursts with short rests, so that kills meet both.
				script := "i=0; while [ $i -lt 40 ]; do i=$((i+1)); busybox seq $(((i-1)*500+1)) $((i*500)); busybox usleep 60000; done"
				r.run(script, func(c *container.Config, h *container.HostConfig) { unlimited(c, h); c.Tty = tty })
				kills := r.killUntilExit()
				s := r.ship()
				r.exited()
				r.finish(s)
				want := numbered(20000)
				if tty {
					want = bytes.ReplaceAll(want, []byte("\n"), []byte("\r\n"))
				}
				same(t, want, r.logs("stdout"))
				t.Logf("%d kills", kills)
				must.Positive(t, kills)
			})
		}
	}
}

// killUntilExit runs shipping processes and kills each after a short time.
func (r *rig) killUntilExit() int {
	r.t.Helper()
	raw, err := json.Marshal(r.cfg)
	must.NoError(r.t, err)
	kills := 0
	for ; ; kills++ {
		info, err := r.docker.ContainerInspect(r.t.Context(), r.cfg.Container)
		must.NoError(r.t, err)
		if !info.State.Running {
			return kills
		}
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), roleVariable+"=ship", configVariable+"="+string(raw))
		child.Stderr = r.t.Output()
		child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		must.NoError(r.t, child.Start())
		life := time.NewTimer(time.Duration(50+rand.IntN(350)) * time.Millisecond)
		<-life.C
		must.NoError(r.t, child.Process.Kill())
		must.Error(r.t, child.Wait())
	}
}

// task-driver LG-7 with the default limits of the engine's log, 2 x 2 MB: read
// directly, nothing is lost at any speed.
func TestEngineRotationLosesNothing(t *testing.T) {
	for _, way := range []string{"nomad direct", "driver direct"} {
		t.Run(way, func(t *testing.T) {
			r := newRig(t, way)
			r.run("busybox sleep 1; "+padded(300000), func(_ *container.Config, h *container.HostConfig) {
				h.LogConfig = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "2m", "max-file": "2"}}
			})
			s := r.ship()
			r.exited()
			r.finish(s)
			must.Eq(t, 300000, checkPadded(t, r.logs("stdout")))
		})
	}
}

// A shipper that is stopped and one that follows it in the same process.
func TestEngineStopAndResume(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			r := newRig(t, way)
			r.run("i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo $i; busybox usleep 5000; done", unlimited)
			for n := 50; n <= 350; n += 50 {
				s := r.ship()
				last := []byte("\n" + strconv.Itoa(n) + "\n")
				eventually(t, "line "+strconv.Itoa(n), func() bool { return bytes.Contains(r.logs("stdout"), last) })
				s.Stop()
			}
			s := r.ship()
			r.exited()
			r.finish(s)
			same(t, numbered(400), r.logs("stdout"))
		})
	}
}

// task-driver LG-7: logmon is away for a while; nothing is lost and nothing spins.
func TestEngineReaderAway(t *testing.T) {
	r := newRig(t, "nomad direct")
	r.run("trap 'busybox seq 20001 40000; exit' USR1; busybox seq 1 20000; while :; do busybox usleep 50000; done", unlimited)
	s := r.ship()
	eventually(t, "first lines", func() bool { return bytes.HasSuffix(r.logs("stdout"), []byte("\n20000\n")) })
	must.NoError(t, r.logmon.Stop())
	must.NoError(t, r.docker.ContainerKill(t.Context(), r.cfg.Container, "USR1"))
	r.exited()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	must.ErrorIs(t, s.Drain(ctx), context.DeadlineExceeded)
	r.startLogmon()
	r.finish(s)
	same(t, numbered(40000), r.logs("stdout"))
}

// A full disk on the side of the logs: the position is held until there is room.
func TestEngineFullDisk(t *testing.T) {
	r := newRig(t, "driver direct")
	must.NoError(t, unix.Mount("tmpfs", r.cfg.LogDir, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { must.NoError(t, unix.Unmount(r.cfg.LogDir, 0)) })
	r.run(padded(5000), unlimited)
	s := r.ship()
	eventually(t, "a full disk", func() bool {
		var stat unix.Statfs_t
		must.NoError(t, unix.Statfs(r.cfg.LogDir, &stat))
		return stat.Bfree == 0
	})
	r.exited()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	must.ErrorIs(t, s.Drain(ctx), context.DeadlineExceeded)
	must.NoError(t, unix.Mount("", r.cfg.LogDir, "", unix.MS_REMOUNT, "size=20m"))
	r.finish(s)
	must.Eq(t, 5000, checkPadded(t, r.logs("stdout")))
}

// task-driver LG-4: nothing to read, the task is told and runs on.
func TestEngineLogDriverNone(t *testing.T) {
	r := newRig(t, "driver")
	r.run("echo hello", func(_ *container.Config, h *container.HostConfig) {
		h.LogConfig = container.LogConfig{Type: "none"}
	})
	s := r.ship()
	r.exited()
	r.finish(s)
	must.Eq(t, "", string(r.logs("stdout")))
}

// BenchmarkEngineThroughput ships 100 MB that the engine has already.
func BenchmarkEngineThroughput(b *testing.B) {
	c := docker(b)
	script := "busybox yes 0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789 | busybox head -c 100000000"
	made, err := c.ContainerCreate(b.Context(), &container.Config{Image: testImage, Entrypoint: []string{"/bin/busybox", "sh", "-c", script}}, nil, nil, nil, "")
	must.NoError(b, err)
	b.Cleanup(func() {
		must.NoError(b, c.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true}))
	})
	must.NoError(b, c.ContainerStart(b.Context(), made.ID, container.StartOptions{}))
	results, _ := c.ContainerWait(b.Context(), made.ID, container.WaitConditionNotRunning)
	<-results
	for _, direct := range []bool{false, true} {
		b.Run(fmt.Sprintf("direct=%v", direct), func(b *testing.B) {
			b.SetBytes(100_000_000)
			for b.Loop() {
				root := b.TempDir()
				must.NoError(b, os.MkdirAll(root+"/alloc/logs", 0o700))
				cfg := shipConfig{Container: made.ID, Direct: direct, LogDir: root + "/alloc/logs", StateDir: root + "/state", MaxFiles: 10, MaxSize: 10}
				watcher, err := cfg.watcher()
				must.NoError(b, err)
				s := Start(Config{Engine: func() Engine { return c }, Container: made.ID, Watcher: watcher, Sink: cfg.sink()})
				must.NoError(b, s.Drain(b.Context()))
				s.Close()
			}
		})
	}
}
