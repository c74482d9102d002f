// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gpu-docker/gpu-docker/compat"
)

// checkAnswer is the JSON answer.
type checkAnswer struct {
	Image        string              `json:"image"`
	Decision     string              `json:"decision"` // allow, warn, refuse; unknown with exit code 2
	Reason       string              `json:"reason"`
	Warnings     []string            `json:"warnings"`
	Hints        []string            `json:"hints,omitempty"`
	Source       string              `json:"source,omitempty"`
	Need         string              `json:"need,omitempty"`
	UseDriver    string              `json:"use_driver,omitempty"`
	Alternatives []alternativeAnswer `json:"alternatives,omitempty"`
	CompatFirst  bool                `json:"use_compat_libraries"`
	Metadata     metadataAnswer      `json:"metadata"`
	Host         *hostAnswer         `json:"host,omitempty"`
}

type alternativeAnswer struct {
	Term    string `json:"term"`
	Failing string `json:"failing"`
	Host    string `json:"host"`
}

type metadataAnswer struct {
	From   string `json:"from,omitempty"` // engine, registry or file
	ID     string `json:"id,omitempty"`
	Digest string `json:"digest,omitempty"`
}

type hostAnswer struct {
	Driver string      `json:"driver"`
	CUDA   string      `json:"cuda"`
	GPUs   []gpuAnswer `json:"gpus"`
}

type gpuAnswer struct {
	ID    string `json:"id,omitempty"`
	Arch  string `json:"arch"`
	Brand string `json:"brand"`
}

func (a *checkAnswer) fill(d compat.Decision, host compat.Host) {
	a.Decision, a.Reason, a.Hints, a.Source, a.Need = string(d.Verdict), d.Reason, d.Hints, d.Source, d.Need
	a.UseDriver, a.CompatFirst = d.UseDriver, d.UseCompatLibraries
	a.Warnings = append(a.Warnings, d.Warnings...)
	for _, alt := range d.Alternatives {
		a.Alternatives = append(a.Alternatives, alternativeAnswer{alt.Term, alt.Failing, alt.Host})
	}
	a.Host = &hostAnswer{Driver: host.Driver, CUDA: host.CUDA, GPUs: []gpuAnswer{}}
	for _, g := range host.GPUs {
		a.Host.GPUs = append(a.Host.GPUs, gpuAnswer(g))
	}
}

// print writes the answer and chooses the exit code.
func (c *check) print(a *checkAnswer) error {
	if err := c.write(a); err != nil {
		return err
	}
	if a.Decision == string(compat.VerdictRefuse) {
		return &exitError{code: exitNo}
	}
	return nil
}

func (c *check) write(a *checkAnswer) error {
	if c.asJSON {
		if a.Warnings == nil {
			a.Warnings = []string{}
		}
		out := json.NewEncoder(c.app.stdout)
		out.SetEscapeHTML(false) // requirements are full of < and >
		out.SetIndent("", "  ")
		return out.Encode(a)
	}
	lines := []string{fmt.Sprintf("yes: image %q may run here", a.Image)}
	switch a.Decision {
	case string(compat.VerdictRefuse):
		lines[0] = "no: " + a.Reason
	case string(compat.VerdictWarn):
		lines[0] = "yes, with a warning: " + a.Reason
	}
	for _, h := range a.Hints {
		if !strings.Contains(a.Reason, h) {
			lines = append(lines, "note: "+h)
		}
	}
	_, err := fmt.Fprintln(c.app.stdout, strings.Join(lines, "\n"))
	return err
}

// cannotTell ends with exit code 2; in JSON the answer says so too.
func (c *check) cannotTell(a *checkAnswer, cause error) error {
	var wrong *exitError
	if errors.As(cause, &wrong) {
		return cause
	}
	if c.asJSON {
		a.Decision, a.Reason = "unknown", cause.Error()
		if err := c.write(a); err != nil {
			return err
		}
		return &exitError{code: exitCannotTell}
	}
	return &exitError{code: exitCannotTell, err: fmt.Errorf("cannot tell: %w", cause)}
}
