// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// Config of one call.
type Config struct {
	Program string   // as called, for messages
	Args    []string // docker's arguments
	// Release is what "version" tells, the release of nvidia-docker we speak like.
	Release string
	Getenv  func(string) string
	Stdout  io.Writer
	Stderr  io.Writer
	// OpenHost opens this machine's GPU host; called only when it is needed.
	OpenHost func() (Host, error)
	// Run runs docker for a question; nil means as a process.
	Run Runner
	// Exec becomes docker; nil means to replace this process.
	Exec func(argv []string) error
	// Dial connects to another machine; nil means net.Dialer's way.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Patience is how long another machine may take for one answer; 0 means ten seconds.
	Patience time.Duration
}

// call is one call of the wrapper.
type call struct {
	cfg    Config
	docker *docker
	target *Target
}

// Run does one docker command. It returns only when docker was not started, or
// when Exec returns; the result is the exit code.
func Run(ctx context.Context, cfg Config) int {
	cfg.setDefaults()
	w := &call{cfg: cfg, docker: newDocker(cfg.Getenv("NV_DOCKER"), cfg.Run, cfg.Stderr)}
	argv, err := w.commandLine(ctx)
	if err == nil {
		err = cfg.Exec(argv)
	}
	if err == nil {
		return 0
	}
	w.log("Error: " + err.Error())
	if cfg.Getenv("NV_DEBUG") != "" {
		say(cfg.Stderr, "%s", debug.Stack())
	}
	return 1
}

func (c *Config) setDefaults() {
	if c.Run == nil {
		c.Run = runProcess
	}
	if c.Exec == nil {
		c.Exec = replaceProcess
	}
	if c.Patience == 0 {
		c.Patience = remotePatience
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: c.Patience}).DialContext
	}
}

// say writes to a stream whose end nobody can be told of.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// log writes a line as v1 did.
func (w *call) log(text string) {
	say(w.cfg.Stderr, "%s | %s %s\n", w.cfg.Program, time.Now().Format("2006/01/02 15:04:05"), text)
}

// commandLine gives the docker command to run instead of this process.
func (w *call) commandLine(ctx context.Context) ([]string, error) {
	if err := w.parseHost(); err != nil {
		return nil, err
	}
	in := parseArguments(w.cfg.Args)
	if in.command == "version" {
		say(w.cfg.Stdout, "NVIDIA Docker: %s\n\n", w.cfg.Release)
	}
	if in.image == "" {
		return w.docker.line(w.cfg.Args...), nil
	}
	more, err := w.gpuArguments(ctx, in.image)
	if err != nil {
		return nil, err
	}
	return w.docker.line(in.inserted(w.cfg.Args, more)...), nil
}

// parseHost finds out where the GPUs are; an error stops even "ps".
func (w *call) parseHost() error {
	nvHost, dockerHost := w.cfg.Getenv("NV_HOST"), w.cfg.Getenv("DOCKER_HOST")
	if nvHost != "" && dockerHost == "" {
		w.log("Warning: NV_HOST is set but DOCKER_HOST is not")
	}
	target, err := ParseTarget(nvHost, dockerHost, w.cfg.Getenv("USER"))
	w.target = target
	return err
}

// gpuArguments are the options for an image; none when it is not a GPU image.
func (w *call) gpuArguments(ctx context.Context, image string) ([]string, error) {
	labels, err := w.docker.labels(ctx, image)
	if err != nil {
		return nil, err
	}
	switch {
	case len(volumesNeeded(labels)) == 0:
		return nil, nil
	case w.target != nil:
		return w.remoteArguments(ctx, labels)
	default:
		return w.localArguments(ctx, labels)
	}
}

// gpuIDs are the GPUs that the user asked for; none means all.
func (w *call) gpuIDs() []string {
	return strings.FieldsFunc(w.cfg.Getenv("NV_GPU"), func(r rune) bool { return r == ',' || r == ' ' })
}

// replaceProcess becomes docker; it returns only on failure.
func replaceProcess(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("%w: %w", errDockerFailed, err)
	}
	if err := syscall.Exec(path, argv, os.Environ()); err != nil {
		return fmt.Errorf("%w: %w", errDockerFailed, err)
	}
	return nil
}
