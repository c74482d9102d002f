// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/shared/hclspec"
)

// keys is the schema of one block, by key.
type keys map[string]*hclspec.Spec

// attr is an attribute without a default; absent and null are the zero value.
func attr(name, kind string) *hclspec.Spec { return hclspec.NewAttr(name, kind, false) }

// attrOr is an attribute with a default, written as an HCL literal.
func attrOr(name, kind, literal string) *hclspec.Spec {
	return hclspec.NewDefault(attr(name, kind), hclspec.NewLiteral(literal))
}

// block is a block in which every key has its default, however much of the
// block is given: none of it, an empty one, a part.
func block(name string, nested keys) *hclspec.Spec {
	return hclspec.NewDefault(
		hclspec.NewBlock(name, false, hclspec.NewObject(nested)),
		hclspec.NewLiteral(nested.defaults()),
	)
}

// blockList is a block that may be given any number of times.
func blockList(name string, nested keys) *hclspec.Spec {
	return hclspec.NewBlockList(name, hclspec.NewObject(nested))
}

// optionalBlock is a block whose absence means something of its own.
func optionalBlock(name string, nested keys) *hclspec.Spec {
	return hclspec.NewBlock(name, false, hclspec.NewObject(nested))
}

// defaults writes the defaults of a block as one HCL object. Keys without a
// default are left out.
func (k keys) defaults() string {
	var b strings.Builder
	b.WriteString("{")
	for _, name := range slices.Sorted(maps.Keys(k)) {
		if d := k[name].GetDefault(); d != nil {
			b.WriteString("\n" + name + " = " + d.Default.GetLiteral().Value)
		}
	}
	b.WriteString("\n}")
	return b.String()
}
