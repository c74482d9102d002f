// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"slices"
	"strings"
)

// compatLibraries is what an image's metadata tells about its forward
// compatibility libraries, the directory /usr/local/cuda/compat.
type compatLibraries struct {
	cuda   version // CUDA version of the image
	driver version // driver version of the libraries
	// certain: the image says that it holds them.
	certain bool
}

// compatOfImage finds the compat libraries that an image has or may have.
func compatOfImage(md Metadata, reqs []requirement) compatLibraries {
	c := compatLibraries{cuda: cudaOfImage(md).version}
	if c.cuda == "" {
		c.cuda = requiredCUDA(reqs)
	}
	c.driver = driverOfCUDA(c.cuda)
	if told := md.Env["CUDA_DRIVER_VERSION"]; len(told) <= MaxValueBytes {
		if v := leadingVersion(told); v != "" {
			c.driver, c.certain = v, true
		}
	}
	if pkg := md.Env["NV_CUDA_COMPAT_PACKAGE"]; strings.HasPrefix(pkg, "cuda-compat-") {
		c.certain = true
	}
	return c
}

// requiredCUDA is the version of the first "cuda>=" in NVIDIA_REQUIRE_CUDA.
func requiredCUDA(reqs []requirement) version {
	for _, r := range reqs {
		if r.name != EnvRequireCUDA || len(r.terms) == 0 {
			continue
		}
		for _, f := range r.terms[0] {
			if f.property == "cuda" && f.operator == ">=" {
				return f.version
			}
		}
	}
	return ""
}

// help says whether the libraries make an image run, or run better, on a GPU
// (CMP-06): only on data-centre boards (elsewhere CUDA fails with error 804),
// only if they are newer than the driver (else 803), only if the driver cannot
// run the image's CUDA by itself, and only on a driver branch that NVIDIA's
// table or the image itself lists.
func (c compatLibraries) help(host facts, listedByImage bool) bool {
	if c.cuda == "" || host.cuda == "" || host.driver == "" || !isDataCentre(host.brand) {
		return false
	}
	if c.driver != "" && c.driver.compare(host.driver) <= 0 {
		return false
	}
	if c.cuda.compare(host.cuda) <= 0 || runsByMinorVersion(c.cuda, host) {
		return false
	}
	return listedByImage || listedByTable(c.cuda, host.driver.branch())
}

// listedByTable says whether compat packages for a CUDA version run on a branch.
func listedByTable(cuda version, branch string) bool {
	return slices.ContainsFunc(forwardTargets, func(t forwardTarget) bool {
		return cuda.compare(t.from) >= 0 && slices.Contains(t.branches, branch)
	})
}

// helpAll says whether the libraries help on every GPU of the task: a library
// path is one for the whole container.
func (c compatLibraries) helpAll(hosts []facts, listedByImage bool) bool {
	for _, h := range hosts {
		if !c.help(h, listedByImage) {
			return false
		}
	}
	return len(hosts) > 0
}
