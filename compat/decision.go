// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package compat decides whether an image may run on a host's NVIDIA driver.
//
// It is pure: image metadata and host facts in, an answer with its reason out.
// The procedure is cuda-compat §5; where the metadata comes from is the
// imagemeta package's business, where the host facts come from is gpuhost's.
//
// Metadata is text that strangers wrote: it is bounded (MaxValueBytes), parsed
// whole before anything is evaluated, and quoted wherever a message shows it.
//
// "GOLDEN_UPDATE=1 go test ./compat" (make golden) rewrites the golden matrix of
// real images by driver branches, testdata/matrix.golden;
// "go test ./compat -fuzz FuzzDecide" fuzzes.
package compat

import (
	"maps"
	"slices"
)

// Metadata is what an image says about itself, with the task's environment laid
// over the image's. Both maps may be nil.
type Metadata struct {
	Labels map[string]string
	Env    map[string]string
}

// Host is what the host offers. An empty string means that the host does not
// report the value.
type Host struct {
	Driver string // "535.104.05"
	CUDA   string // newest CUDA version the driver supports, "12.2"
	GPUs   []GPU  // the GPUs the task would get; none: the task gets no GPU
}

// GPU is one GPU the task would get.
type GPU struct {
	ID    string // for messages, the UUID
	Arch  string // compute capability, "8.0"
	Brand string // as the driver prints it
}

// Verdict is the answer in one word.
type Verdict string

// The verdicts. Warn is an allowance with something the user should know.
const (
	VerdictAllow  Verdict = "allow"
	VerdictWarn   Verdict = "warn"
	VerdictRefuse Verdict = "refuse"
)

// Decision is the whole answer.
type Decision struct {
	Verdict Verdict
	// Reason is one line for people: why the image is refused, and what would
	// help; with VerdictWarn the most important warning; empty with VerdictAllow.
	Reason string
	// Warnings are the names of cuda-compat §5, sorted, each once; none with
	// VerdictRefuse. Two names are ours: "not-enforced" is a refusal that the
	// policy turned into a warning, "forward-compat" is an image that only its
	// forward compatibility libraries make run.
	Warnings []string
	// UseCompatLibraries: put /usr/local/cuda/compat before the driver volume's
	// libraries (CMP-06).
	UseCompatLibraries bool

	// Source is the label or variable that is not met, Need what it asks for
	// ("CUDA 9.0", "driver>=390"); empty when nothing is unmet.
	Source, Need string
	// Alternatives are the terms of Source, one of which would have to hold, the
	// decisive one first; empty when Source is no requirement of several terms.
	Alternatives []Alternative
	// UseDriver is the driver that would do, "384 or newer"; empty when none is
	// known, or when nothing is unmet.
	UseDriver string
	// Hints are lines for the user that change nothing: settings without effect.
	Hints []string
}

// Alternative is one term of a requirement that does not hold.
type Alternative struct {
	Term    string // as the image writes it, "brand=tesla,driver>=384,driver<385"
	Failing string // its first factor that does not hold, "driver<385"
	Host    string // what the host has instead, "driver 390.77"

	failed factor // Failing, parsed
	met    int    // factors before it, which hold
}

// Decide answers whether image (a name for messages only) may run on host.
func Decide(image string, md Metadata, host Host, policy Policy) Decision {
	if len(host.GPUs) == 0 {
		return Decision{Verdict: VerdictAllow}
	}
	m := message{image: image, policy: policy}
	reqs, malformed := collect(md.Env)
	c := check{reqs: reqs, image: cudaOfImage(md), hosts: hostFacts(host)}
	found := c.run()
	libraries := compatOfImage(md, reqs)
	help := libraries.helpAll(c.hosts, found.listedBranch)
	hints := hintsOf(md, policy)
	var d Decision
	switch {
	case policy.Requirements == Ignore:
		d = m.ignored()
	case policy.AllowOverride && isTrue(md.Env[EnvDisableRequire]):
		d = Decision{Verdict: VerdictWarn, Reason: m.disabled(), Warnings: []string{warnDisabled}, Hints: hints}
	case malformed != nil:
		d = m.refuse(Decision{Reason: m.malformed(malformed), Source: malformed.name, Hints: hints})
	default:
		d = c.decide(m, found, libraries, help, hints)
	}
	// Also an image that nobody checks runs only with its libraries (CMP-06).
	d.UseCompatLibraries = help && d.Verdict != VerdictRefuse
	return d
}

// check is one question: these requirements on these GPUs?
type check struct {
	reqs  []requirement
	image imageCUDA
	hosts []facts
}

// decide answers by the outcome o of the check, or by that of a second one with the
// CUDA version of the image's own compat libraries if it has them and they help
// (CMP-06).
func (c check) decide(m message, o outcome, libraries compatLibraries, help bool, hints []string) Decision {
	if len(o.unmet) > 0 && help && libraries.certain {
		if again := c.withCUDA(libraries.cuda).run(); len(again.unmet) == 0 {
			o = again
			o.warn(warnForward)
		}
	}
	if len(o.unmet) > 0 {
		first, driver := o.unmet[0], c.driverThatWouldDo()
		return m.refuse(Decision{
			Reason: m.unmet(o.unmet, driver, hints), Source: first.source, Need: first.need(),
			Alternatives: first.alternatives, UseDriver: driver, Hints: hints,
		})
	}
	d := Decision{Verdict: VerdictAllow, Hints: hints}
	if len(o.names) > 0 {
		d.Verdict, d.Warnings = VerdictWarn, slices.Sorted(maps.Keys(o.names))
		d.Reason = m.warning(o.names, c, libraries, help)
	}
	return d
}

// run evaluates everything up to the first GPU on which something is unmet.
func (c check) run() outcome {
	var o outcome
	for _, h := range c.hosts {
		for _, r := range c.reqs {
			o.evaluate(r, h)
		}
		if len(o.unmet) > 0 {
			break
		}
	}
	if !c.writesCUDA() {
		o.compareCUDA(c.image, c.hosts[0])
	}
	return o
}

// writesCUDA: NVIDIA_REQUIRE_CUDA is there, so CUDA_VERSION and the label do not
// count; stale ones are common.
func (c check) writesCUDA() bool {
	return slices.ContainsFunc(c.reqs, func(r requirement) bool { return r.name == EnvRequireCUDA })
}

// withCUDA is the same check on GPUs whose driver supports another CUDA version.
func (c check) withCUDA(cuda version) check {
	hosts := slices.Clone(c.hosts)
	for i := range hosts {
		hosts[i] = hosts[i].withDriver(hosts[i].driver, cuda)
	}
	c.hosts = hosts
	return c
}
