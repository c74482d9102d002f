// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"maps"

	"github.com/hashicorp/go-msgpack/codec"
)

// stringMapType and numberMapType are the schema types of map-like task options.
// A list, because a block, an attribute, a repeated block and a JSON array of
// objects all arrive as a list of maps (task-driver CF-3).
const (
	stringMapType = "list(map(string))"
	numberMapType = "list(map(number))"
)

// StringMap is a map-like task option; of several entries with one key the last wins.
type StringMap map[string]string

// CodecEncodeSelf writes the map as the list that the schema declares.
func (m *StringMap) CodecEncodeSelf(e *codec.Encoder) {
	e.MustEncode([]map[string]string{*m})
}

// CodecDecodeSelf merges the list of maps.
func (m *StringMap) CodecDecodeSelf(d *codec.Decoder) { *m = mergeMaps[string](d) }

// NumberMap is a map-like task option with whole numbers as values.
type NumberMap map[string]int

// CodecEncodeSelf writes the map as the list that the schema declares.
func (m *NumberMap) CodecEncodeSelf(e *codec.Encoder) {
	e.MustEncode([]map[string]int{*m})
}

// CodecDecodeSelf merges the list of maps.
func (m *NumberMap) CodecDecodeSelf(d *codec.Decoder) { *m = mergeMaps[int](d) }

// mergeMaps decodes a list of maps into one; nil when there is no entry.
func mergeMaps[V any](d *codec.Decoder) map[string]V {
	var list []map[string]V
	d.MustDecode(&list)
	var merged map[string]V
	for _, m := range list {
		if merged == nil {
			merged = make(map[string]V, len(m))
		}
		maps.Copy(merged, m)
	}
	return merged
}
