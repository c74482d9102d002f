// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// errDockerFailed is v1's text when docker fails without a word.
var errDockerFailed = errors.New("failed to run docker command")

// Runner runs a program to its end.
type Runner func(ctx context.Context, argv []string, stdout, stderr io.Writer) error

// docker asks the docker command that the user chose.
type docker struct {
	argv   []string // program and leading arguments
	run    Runner
	stderr io.Writer
}

// newDocker reads NV_DOCKER, "docker" when it is empty.
func newDocker(command string, run Runner, stderr io.Writer) *docker {
	argv := strings.Fields(command)
	if len(argv) == 0 {
		argv = []string{"docker"}
	}
	return &docker{argv: argv, run: run, stderr: stderr}
}

// runProcess is the Runner of real life.
func runProcess(ctx context.Context, argv []string, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd.Run()
}

// line is docker's argv for some arguments.
func (d *docker) line(args ...string) []string { return slices.Concat(d.argv, args) }

// labels reads the labels of an image; an image that is not here is pulled.
func (d *docker) labels(ctx context.Context, image string) (map[string]string, error) {
	labels, err := d.inspect(ctx, image)
	if err == nil {
		return labels, nil
	}
	if err := d.pull(ctx, image); err != nil {
		return nil, err
	}
	return d.inspect(ctx, image)
}

// inspect looks at images only: a container may have the same name (D18).
func (d *docker) inspect(ctx context.Context, image string) (map[string]string, error) {
	out, err := d.output(ctx, "inspect", "--type=image", image)
	if err != nil {
		return nil, err
	}
	var found []struct {
		Config struct{ Labels map[string]string }
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return nil, fmt.Errorf("image %q: docker inspect answered no JSON: %w", image, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("image %q: docker inspect answered nothing", image)
	}
	return found[0].Config.Labels, nil
}

// hasVolume asks whether docker knows a volume.
func (d *docker) hasVolume(ctx context.Context, name string) bool {
	_, err := d.output(ctx, "volume", "inspect", name)
	return err == nil
}

// pull shows docker's progress on stderr.
func (d *docker) pull(ctx context.Context, image string) error {
	return d.ask(ctx, d.stderr, "pull", image)
}

func (d *docker) output(ctx context.Context, args ...string) ([]byte, error) {
	var out bytes.Buffer
	err := d.ask(ctx, &out, args...)
	return out.Bytes(), err
}

// ask gives docker's own message as the error.
func (d *docker) ask(ctx context.Context, stdout io.Writer, args ...string) error {
	var message bytes.Buffer
	if err := d.run(ctx, d.line(args...), stdout, &message); err == nil {
		return nil
	}
	text := strings.TrimSpace(strings.TrimPrefix(message.String(), "Error: "))
	if text == "" {
		return errDockerFailed
	}
	return errors.New(text)
}
