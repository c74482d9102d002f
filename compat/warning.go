// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import "fmt"

// warning is the line for the most important of several warnings; help tells
// whether the image's compat libraries are used.
func (m message) warning(names map[string]bool, c check, libraries compatLibraries, help bool) string {
	h := c.hosts[0]
	driver := fmt.Sprintf("this node's driver %s supports CUDA %s", orUnknown(string(h.driver)), orUnknown(string(h.cuda)))
	text := ""
	switch {
	case names[warnForward]:
		text = fmt.Sprintf("needs CUDA %s; %s; it runs with the image's own libraries in /usr/local/cuda/compat", libraries.cuda, driver)
	case names[warnBranchClause] && help:
		text = fmt.Sprintf("is made for a newer CUDA; %s; the image lists this driver, so it runs with its own libraries in /usr/local/cuda/compat", driver)
	case names[warnBranchClause]:
		text = fmt.Sprintf("is made for a newer CUDA; %s; the image lists this driver, so it runs by forward or minor-version compatibility", driver)
	case names[warnMinorVersion]:
		text = fmt.Sprintf("is made for CUDA %s; %s and runs it by minor-version compatibility, without features that are new in %s", c.image.version, driver, c.image.version)
	case names[warnUnknownValue] && h.cuda == "":
		text = fmt.Sprintf("could not be compared: cannot determine the CUDA version of driver %s; what is not known counts as met", orUnknown(string(h.driver)))
	case names[warnUnknownValue]:
		text = fmt.Sprintf("could not be compared in full (host: %s); what is not known counts as met", h)
	case names[warnFromTable]:
		text = fmt.Sprintf("was compared with CUDA %s, taken from the table of drivers, because driver %s does not report its CUDA version", h.cuda, h.driver)
	case names[warnBadMetadata]:
		text = "has an unreadable CUDA_VERSION or label " + LabelCUDAVersion + ", which was left out"
	default:
		text = "has a requirement about an unknown property, which was left out; known are cuda, driver, arch and brand"
	}
	return m.subject() + " " + text
}
