// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/restapi"
)

// goldenCall is one call of the wrapper and what it must do.
type goldenCall struct {
	Note       string
	Args       []string
	Env        map[string]string
	Volumes    []string
	DockerExit int `json:"docker_exit"`
	Want       struct {
		Exec   []string
		Exit   int
		Stdout *string
		Stderr *string
	}
}

// Every command line of the golden data.
func TestGoldenCommandLines(t *testing.T) {
	for _, host := range goldenHosts {
		fixture := filepath.Join("testdata", host, "fixture.json")
		h, err := openFixture(fixture)
		must.NoError(t, err)
		api := httptest.NewServer(restapi.Handler(restapi.Config{Host: h}))
		t.Cleanup(api.Close)
		for i, c := range goldenCalls(t, host) {
			t.Run(fmt.Sprintf("%s/%03d %s", host, i, c.Note), func(t *testing.T) {
				c.compare(t, callInProcess(t, c, h, api.Listener.Addr().String()))
			})
		}
	}
}

// Some of them again as real processes: how docker replaces the wrapper, and
// how its own output and exit code get through.
func TestGoldenCommandLinesAsProcesses(t *testing.T) {
	host := goldenHosts[0]
	seen := map[string]bool{}
	for _, c := range goldenCalls(t, host) {
		switch c.Note {
		case "GPU image", "version", "docker fails", "image pulled, GPU", "image cannot be pulled", "NV_DOCKER", "NV_DOCKER missing program", "newer CUDA", "no arguments":
			seen[c.Note] = true
			t.Run(c.Note, func(t *testing.T) {
				c.compare(t, callAsProcess(t, c, filepath.Join("testdata", host, "fixture.json")))
			})
		}
	}
	must.MapLen(t, 9, seen)
}

var goldenHosts = []string{"ecc2-375.26", "titanx4-361.48"}

func (c *goldenCall) compare(t *testing.T, got outcome) {
	t.Helper()
	must.Eq(t, c.Want.Exec, got.exec)
	must.Eq(t, c.Want.Exit, got.exit)
	if c.Want.Stdout != nil {
		must.Eq(t, *c.Want.Stdout, got.stdout)
	}
	if c.Want.Stderr != nil {
		must.Eq(t, *c.Want.Stderr, got.stderr)
	}
}

func goldenCalls(t *testing.T, host string) []goldenCall {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", host, "cli.jsonl"))
	must.NoError(t, err)
	defer file.Close()
	var calls []goldenCall
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var c goldenCall
		must.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		calls = append(calls, c)
	}
	must.Eq(t, 130, len(calls))
	return calls
}

type outcome struct {
	exec           []string // docker's argv if it replaced the wrapper
	exit           int
	stdout, stderr string
}

var timeStamp = regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d`)

// callInProcess runs the wrapper with a docker in memory; port 3476 is api.
func callInProcess(t *testing.T, c goldenCall, host *fixtureHost, api string) outcome {
	t.Helper()
	e := c.engine(t)
	var stdout, stderr bytes.Buffer
	programs := []string{"docker", "sudo"}
	env := map[string]string{"USER": "alice"}
	maps.Copy(env, c.Env)
	got := outcome{}
	code := Run(t.Context(), Config{
		Program:  "nvidia-docker",
		Args:     c.Args,
		Release:  "1.0.1",
		Getenv:   func(key string) string { return env[key] },
		Stdout:   &stdout,
		Stderr:   &stderr,
		OpenHost: func() (Host, error) { return host, nil },
		Run: func(_ context.Context, argv []string, stdout, stderr io.Writer) error {
			if !slices.Contains(programs, argv[0]) {
				return exec.ErrNotFound
			}
			if code := e.run(argv, stdout, stderr); code != 0 {
				return fmt.Errorf("exit status %d", code)
			}
			return nil
		},
		Exec: func(argv []string) error {
			got.exec, got.exit = argv, e.run(argv, &stdout, &stderr)
			return nil
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			must.StrHasSuffix(t, ":3476", address)
			return (&net.Dialer{}).DialContext(ctx, network, api)
		},
	})
	if got.exec == nil {
		got.exit = code
	}
	got.stdout, got.stderr = stdout.String(), timeStamp.ReplaceAllString(stderr.String(), "<time>")
	return got
}

// callAsProcess runs the wrapper with a stand-in for docker in its PATH.
func callAsProcess(t *testing.T, c goldenCall, fixture string) outcome {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	must.NoError(t, err)
	for _, name := range []string{"nvidia-docker", "docker", "sudo"} {
		must.NoError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	engine := filepath.Join(dir, "engine.json")
	c.engine(t).save(engine)

	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "nvidia-docker"))
	cmd.Args = append([]string{"nvidia-docker"}, c.Args...)
	cmd.Env = []string{"PATH=" + dir, "USER=alice", "HOME=" + dir, engineEnv + "=" + engine, fixtureEnv + "=" + fixture}
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	got := outcome{
		exit:   cmd.ProcessState.ExitCode(),
		stdout: stdout.String(),
		stderr: timeStamp.ReplaceAllString(stderr.String(), "<time>"),
	}
	if e := loadEngine(engine); e.RanPID == cmd.Process.Pid {
		got.exec = e.Ran
	}
	return got
}

// engine is docker as the call finds it.
func (c *goldenCall) engine(t *testing.T) *fakeEngine {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "cli-images.json"))
	must.NoError(t, err)
	e := &fakeEngine{Volumes: c.Volumes, Exit: c.DockerExit}
	must.NoError(t, json.Unmarshal(raw, e))
	return e
}
