// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"fmt"
	"strings"
)

// facts are what one GPU of a host offers, in comparable form. Empty is unknown.
type facts struct {
	driver, cuda, arch version
	brand              string
	// cudaFromTable: the driver did not report cuda.
	cudaFromTable bool
	// gpu is the GPU's id; empty when the task gets only one.
	gpu string
}

// hostFacts normalises what the host reports, one entry a GPU.
func hostFacts(h Host) []facts {
	base := facts{driver: leadingVersion(h.Driver), cuda: leadingVersion(h.CUDA)}
	if base.cuda == "" {
		base.cuda = cudaOfDriver(base.driver)
		base.cudaFromTable = base.cuda != ""
	}
	all := make([]facts, len(h.GPUs))
	for i, g := range h.GPUs {
		f := base
		f.arch, f.brand = leadingVersion(g.Arch), hostBrand(g.Brand)
		if len(h.GPUs) > 1 {
			f.gpu = g.ID
		}
		all[i] = f
	}
	return all
}

// withDriver is the same GPU under another driver.
func (f facts) withDriver(driver, cuda version) facts {
	f.driver, f.cuda, f.cudaFromTable = driver, cuda, false
	return f
}

// String lists the facts for a message.
func (f facts) String() string {
	return fmt.Sprintf("cuda %s, driver %s, arch %s, brand %s",
		orUnknown(string(f.cuda)), orUnknown(string(f.driver)), orUnknown(string(f.arch)), orUnknown(f.brand))
}

func orUnknown(s string) string {
	if s == "" {
		return "not reported"
	}
	return s
}

// longBrands are the forms that nvidia-smi prints, normalised, and their names
// in requirements.
var longBrands = map[string]string{
	"nvidiavirtualapplications":   "vapps",
	"nvidiavirtualpc":             "vpc",
	"nvidiavirtualcomputeserver":  "vcs",
	"nvidiartxvirtualworkstation": "vws",
	"nvidiacloudgaming":           "cloudgaming",
}

var brandSeparators = strings.NewReplacer(" ", "", "\t", "", "-", "", "_", "")

// normalBrand gives a brand the form in which requirements write it.
func normalBrand(s string) string {
	b := brandSeparators.Replace(strings.ToLower(s))
	if short, ok := longBrands[b]; ok {
		return short
	}
	return b
}

// hostBrand is a host's brand; text that is no brand ("[N/A]") is unknown. The
// driver's own word "Unknown" is a brand that images list.
func hostBrand(s string) string {
	b := normalBrand(s)
	if strings.Trim(b, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return ""
	}
	return b
}

// isDataCentre says whether forward compatibility libraries work on a brand.
func isDataCentre(brand string) bool { return brand == "tesla" || brand == "nvidia" }
