// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl"
	"github.com/hashicorp/nomad/helper/pluginutils/hclutils"
	"github.com/hashicorp/nomad/plugins/shared/hclspec"
	"github.com/shoenig/test/must"
)

// option is an option as the schema has it.
type option struct {
	path, kind, byDefault string
}

// noDefault is how the manual writes that an option has none.
const noDefault = "–"

// flatten lists the options of a schema. Blocks are in the given order at the
// top and sorted below; the manual may order the keys of one block as it likes.
func flatten(prefix string, schema keys) []option {
	var all []option
	for _, name := range sortedKeys(schema) {
		all = append(all, flattenOne(prefix+name, schema[name])...)
	}
	return all
}

func flattenOne(path string, spec *hclspec.Spec) []option {
	byDefault := noDefault
	if d := spec.GetDefault(); d != nil {
		byDefault, spec = manualLiteral(d.Default.GetLiteral().Value), d.Primary
	}
	switch {
	case spec.GetBlockValue() != nil:
		return flatten(path+".", spec.GetBlockValue().Nested.GetObject().Attributes)
	case spec.GetBlockList() != nil:
		return flatten(path+"[].", spec.GetBlockList().Nested.GetObject().Attributes)
	case spec.GetBlockAttrs() != nil:
		return []option{{path, "map", byDefault}}
	}
	kind := spec.GetAttr().Type
	if strings.HasPrefix(kind, "list(map(") {
		kind = "map"
	}
	return []option{{path, kind, byDefault}}
}

var stringLiteral = regexp.MustCompile(`"([^"]*)"`)

// manualLiteral turns an HCL literal into the manual's form: `a`, `b`.
func manualLiteral(literal string) string {
	words := stringLiteral.FindAllStringSubmatch(literal, -1)
	if words == nil {
		return "`" + literal + "`"
	}
	var quoted []string
	for _, w := range words {
		if w[1] == "" {
			return noDefault
		}
		quoted = append(quoted, "`"+strings.ReplaceAll(w[1], "-"+runtime.GOARCH+":", "-<arch>:")+"`")
	}
	return strings.Join(quoted, ", ")
}

var manualRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| (.*?) \\| (.*) \\|$")

// manualTable reads the options of one section of the manual.
func manualTable(t *testing.T, heading string) []option {
	t.Helper()
	text, err := os.ReadFile("../../docs/configuration.md")
	must.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	must.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []option
	for _, m := range manualRow.FindAllStringSubmatch(section, -1) {
		must.NotEq(t, "", m[4])
		rows = append(rows, option{m[1], m[2], m[3]})
	}
	return rows
}

func TestManual(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		heading string
		schema  keys
		order   []string
	}{
		{"Plugin options", pluginSchema, pluginKeys},
		{"Task options", taskSchema, taskKeys},
	} {
		t.Run(tc.heading, func(t *testing.T) {
			rows := manualTable(t, tc.heading)
			want := flatten("", tc.schema)
			// Validation knows what the schema cannot say: see Logging.fill.
			for i, o := range want {
				switch {
				case tc.heading == "Plugin options" && o.path == "logging.type":
					want[i].byDefault = "`" + defaultLoggingType + "`"
				case tc.heading == "Plugin options" && o.path == "logging.config":
					want[i].byDefault = fmt.Sprintf("`max-file = %q`, `max-size = %q`", defaultLoggingConfig["max-file"], defaultLoggingConfig["max-size"])
				}
			}
			for _, o := range want {
				i := slices.IndexFunc(rows, func(r option) bool { return r.path == o.path })
				must.NonNegative(t, i, must.Sprintf("the manual lacks %q", o.path))
				if rows[i].kind == "duration" {
					rows[i].kind = "string"
				}
				must.Eq(t, o, rows[i])
			}
			must.Len(t, len(want), rows)
			must.Eq(t, tc.order, blockOrder(rows))
		})
	}
}

// blockOrder is the order in which the top keys are listed.
func blockOrder(rows []option) []string {
	var order []string
	for _, r := range rows {
		top, _, _ := strings.Cut(r.path, ".")
		top = strings.TrimSuffix(top, "[]")
		if len(order) == 0 || order[len(order)-1] != top {
			order = append(order, top)
		}
	}
	return order
}

// TestManual_Durations: what the manual calls a duration is refused when it is none.
func TestManual_Durations(t *testing.T) {
	t.Parallel()
	for _, r := range manualTable(t, "Plugin options") {
		if r.kind != "duration" {
			continue
		}
		path := strings.Split(r.path, ".")
		text := path[len(path)-1] + ` = "1d"`
		for _, name := range slices.Backward(path[:len(path)-1]) {
			text = name + " { " + text + " }"
		}
		_, err := parsePlugin(t, text)
		must.ErrorContains(t, err, "plugin config: "+r.path+": failed to parse '"+path[len(path)-1]+"' duration")
	}
}

// TestManual_Examples: the blocks that the manual shows are right.
func TestManual_Examples(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/configuration.md")
	must.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	must.Len(t, 2, blocks)

	var agent struct {
		Plugin map[string][]struct {
			Config []map[string]any `hcl:"config"`
		} `hcl:"plugin"`
	}
	must.NoError(t, hcl.Decode(&agent, blocks[0][1]))
	_, err = decodePluginOptions(t, agent.Plugin["gpu-docker"][0].Config[0])
	must.NoError(t, err)

	_, err = DecodeTask(encodeTaskOptions(t, hclutils.HclConfigToInterface(t, blocks[1][1])))
	must.NoError(t, err)
}
