// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"testing"

	"github.com/hashicorp/hcl"
	"github.com/hashicorp/nomad/helper/pluginutils/hclspecutils"
	"github.com/hashicorp/nomad/helper/pluginutils/hclutils"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
	"github.com/zclconf/go-cty/cty/msgpack"
)

// parsePlugin takes an HCL text of options the way of an agent's configuration
// file: HCL 1, then the plugin's schema, then MessagePack.
func parsePlugin(t *testing.T, text string) (*Plugin, error) {
	t.Helper()
	var options map[string]any
	must.NoError(t, hcl.Decode(&options, text))
	return decodePluginOptions(t, options)
}

func decodePluginOptions(t *testing.T, options map[string]any) (*Plugin, error) {
	t.Helper()
	if options == nil {
		options = map[string]any{}
	}
	schema, diags := hclspecutils.Convert(PluginSpec)
	must.False(t, diags.HasErrors(), must.Sprint(diags))
	value, diags, errs := hclutils.ParseHclInterface(options, schema, nil)
	must.False(t, diags.HasErrors(), must.Sprint(errs))
	data, err := msgpack.Marshal(value, value.Type())
	must.NoError(t, err)
	return DecodePlugin(data)
}

// taskConfig takes an HCL text of options the way of a job file.
func taskConfig(t *testing.T, text string) *drivers.TaskConfig {
	t.Helper()
	return encodeTaskOptions(t, hclutils.HclConfigToInterface(t, "config {\n"+text+"\n}"))
}

func encodeTaskOptions(t *testing.T, options any) *drivers.TaskConfig {
	t.Helper()
	schema, diags := hclspecutils.Convert(TaskSpec)
	must.False(t, diags.HasErrors(), must.Sprint(diags))
	value, diags, errs := hclutils.ParseHclInterface(options, schema, nil)
	must.False(t, diags.HasErrors(), must.Sprint(errs))
	tc := &drivers.TaskConfig{}
	must.NoError(t, tc.EncodeDriverConfig(value))
	return tc
}

func parseTask(t *testing.T, text string) (*Task, error) {
	t.Helper()
	return DecodeTask(taskConfig(t, text))
}
