// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine || genuine

package volume

import "strings"

// plainTree takes the marks off a listing of listTree.
func plainTree(tree []string) []string {
	var plain []string
	for _, name := range tree {
		name, _, _ = strings.Cut(name, " -> ")
		plain = append(plain, strings.TrimSuffix(name, "/"))
	}
	return plain
}
