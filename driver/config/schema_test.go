// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/nomad/plugins/shared/hclspec"
	"github.com/shoenig/test/must"
)

// TestSchema_KeysAreTags compares each schema with its struct, block by block.
func TestSchema_KeysAreTags(t *testing.T) {
	t.Parallel()
	compareKeys(t, "plugin", pluginSchema, reflect.TypeFor[Plugin]())
	compareKeys(t, "task", taskSchema, reflect.TypeFor[Task]())
}

func compareKeys(t *testing.T, where string, schema keys, typ reflect.Type) {
	t.Helper()
	var tags []string
	for i := range typ.NumField() {
		field := typ.Field(i)
		tag := field.Tag.Get("codec")
		must.NotEq(t, "", tag, must.Sprintf("%s: field %s has no tag", where, field.Name))
		if tag == "-" {
			continue
		}
		tags = append(tags, tag)
		if nested := nestedKeys(schema[tag]); nested != nil {
			element := field.Type
			if element.Kind() == reflect.Slice {
				element = element.Elem()
			}
			compareKeys(t, where+"."+tag, nested, element)
		}
	}
	slices.Sort(tags)
	must.Eq(t, sortedKeys(schema), tags, must.Sprint(where))
}

// nestedKeys are the keys of a block; nil for an attribute.
func nestedKeys(spec *hclspec.Spec) keys {
	if d := spec.GetDefault(); d != nil {
		spec = d.Primary
	}
	switch {
	case spec.GetBlockValue() != nil:
		return spec.GetBlockValue().Nested.GetObject().Attributes
	case spec.GetBlockList() != nil:
		return spec.GetBlockList().Nested.GetObject().Attributes
	}
	return nil
}
