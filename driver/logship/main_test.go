// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package logship

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"github.com/hashicorp/go-hclog"
)

// roleVariable makes the test binary play another process.
const roleVariable = "LOGSHIP_TEST_ROLE"

// roleConfig is the JSON configuration of the role.
const configVariable = "LOGSHIP_TEST_CONFIG"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "log-holder" { // its environment is emptied
		os.Exit(HolderMain(os.Args[2:]))
	}
	if os.Getenv(roleVariable) == "ship" {
		os.Exit(shipForever())
	}
	os.Exit(m.Run())
}

// holderCommand starts the test binary as a holder.
func holderCommand() []string { return []string{"/proc/self/exe", "log-holder", "--idle=200ms"} }

// shipConfig is what a shipping process needs.
type shipConfig struct {
	Container string
	TTY       bool
	Direct    bool // read the engine's files
	LogDir    string
	StateDir  string
	HolderDir string // empty: write files
	MaxFiles  int
	MaxSize   int // MiB
}

// watcher is nil where the engine's stream is to be read.
func (c shipConfig) watcher() (*Watcher, error) {
	if !c.Direct {
		return nil, nil
	}
	return NewWatcher(hclog.NewNullLogger())
}

// sink builds the sink that the configuration asks for.
func (c shipConfig) sink() Sink {
	if c.HolderDir == "" {
		return Files(FilesConfig{
			Dir: c.LogDir, Task: "task", MaxFiles: c.MaxFiles, MaxFileSizeMiB: c.MaxSize,
			Container: c.Container, StateDir: c.StateDir,
		})
	}
	return FIFOs(FIFOConfig{
		Stdout: c.LogDir + "/.task.stdout.fifo", Stderr: c.LogDir + "/.task.stderr.fifo",
		Container: c.Container, StateDir: c.StateDir,
		Holder: NewHolder(HolderConfig{Dir: c.HolderDir, Command: holderCommand()}),
	})
}

// shipForever is the role of a driver process that gets killed.
func shipForever() int {
	var cfg shipConfig
	if err := json.Unmarshal([]byte(os.Getenv(configVariable)), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	docker, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	watcher, err := cfg.watcher()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	Start(Config{Engine: func() Engine { return docker }, Container: cfg.Container, TTY: cfg.TTY, Watcher: watcher, Sink: cfg.sink()})
	for {
		time.Sleep(time.Hour) // until killed
	}
}

// eventually waits for a condition and fails the test when it does not come.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited for too long: %s", what)
		}
	}
}

// holderGone waits until the directory's holder has ended.
func holderGone(t *testing.T, dir string) {
	t.Helper()
	eventually(t, "end of the holder", func() bool {
		lock, err := lockDir(dir)
		if err != nil {
			return false
		}
		return lock.Close() == nil
	})
}
