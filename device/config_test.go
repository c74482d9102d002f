// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/helper/pluginutils/hclspecutils"
	"github.com/hashicorp/nomad/helper/pluginutils/hclutils"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/shared/hclspec"
	"github.com/shoenig/test/must"
)

// parse reads a config block as Nomad does.
func parse(t *testing.T, block string) Config {
	t.Helper()
	var config Config
	hclutils.NewConfigParser(configSpec).ParseHCL(t, block, &config)
	return config
}

func TestConfig_everyKey(t *testing.T) {
	must.Eq(t, Config{
		Enabled: false, IgnoredGPUIDs: []string{"GPU-fef8089b"}, FingerprintPeriod: "30s",
		DriverRoot: "/run/nvidia/driver", NVMLLibrary: "/opt/libnvidia-ml.so.1", GroupBy: "instance",
		AllocationPolicy: "distributed", MIG: "off", InjectHealth: []string{"GPU-1:79"},
		Sharing: &SharingConfig{Strategy: "time-slicing", Replicas: 4, RenameByDefault: true, FailRequestsGreaterThanOne: true},
		Health:  &HealthConfig{XIDIgnore: []string{"13", "all"}, XIDFatal: []string{"45", "48"}},
	}, parse(t, `config {
		enabled            = false
		ignored_gpu_ids    = ["GPU-fef8089b"]
		fingerprint_period = "30s"
		driver_root        = "/run/nvidia/driver"
		nvml_library       = "/opt/libnvidia-ml.so.1"
		group_by           = "instance"
		allocation_policy  = "distributed"
		mig                = "off"
		inject_health      = ["GPU-1:79"]
		sharing {
			strategy                       = "time-slicing"
			replicas                       = 4
			rename_by_default              = true
			fail_requests_greater_than_one = true
		}
		health  { xid_ignore = [13, "all"] xid_fatal = [45, 48] }
	}`))
}

func TestConfig_empty(t *testing.T) {
	want := defaultConfig()
	want.IgnoredGPUIDs = []string{}
	must.Eq(t, want, parse(t, `config {}`))
	must.Eq(t, &SharingConfig{Strategy: "none", Replicas: 1}, parse(t, `config { sharing {} }`).Sharing)
	settings, err := decodeConfig(nil)
	must.NoError(t, err)
	must.Eq(t, defaultConfig(), settings.Config)
}

// TestConfig_keys: schema and struct have the same keys, and the manual names each.
func TestConfig_keys(t *testing.T) {
	manual, err := os.ReadFile("../docs/device-plugin.md")
	must.NoError(t, err)
	compareKeys(t, "", configSpec.GetObject(), reflect.TypeFor[Config](), string(manual))
	for key, value := range map[string]string{
		"enabled": "true", "ignored_gpu_ids": "[]", "fingerprint_period": defaultFingerprintPeriod, "driver_root": defaultDriverRoot,
		"group_by": groupByModel, "allocation_policy": policyPacked, "mig": migAuto,
		"sharing.strategy": sharingNone, "sharing.replicas": strconv.Itoa(defaultReplicas),
		"sharing.rename_by_default": "false", "sharing.fail_requests_greater_than_one": "false",
	} {
		row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(key) + "` \\| [a-z()]+ \\| `" + regexp.QuoteMeta(value) + "` \\|")
		must.True(t, row.Match(manual), must.Sprintf("the manual's default of %s is not %s", key, value))
	}
}

func compareKeys(t *testing.T, path string, spec *hclspec.Object, config reflect.Type, manual string) {
	t.Helper()
	var tags []string
	for i := range config.NumField() {
		field := config.Field(i)
		tag := field.Tag.Get("codec")
		tags = append(tags, tag)
		if field.Type.Kind() != reflect.Pointer {
			must.True(t, strings.Contains(manual, "\n| `"+path+tag+"` |"), must.Sprintf("the manual lacks %s%s", path, tag))
		} else {
			block := spec.Attributes[tag].GetBlockValue().GetNested().GetObject()
			compareKeys(t, path+tag+".", block, field.Type.Elem(), manual)
		}
	}
	var keys []string
	for key := range spec.Attributes {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	slices.Sort(tags)
	must.Eq(t, keys, tags)
}

func TestConfig_unknownKey(t *testing.T) {
	spec, diags := hclspecutils.Convert(configSpec)
	must.SliceEmpty(t, diags)
	_, _, errs := hclutils.ParseHclInterface(hclutils.HclConfigToInterface(t, `config { ignored_gpus = ["x"] }`), spec, nil)
	must.SliceNotEmpty(t, errs)
	must.StrContains(t, errs[0].Error(), "ignored_gpus")
}

func TestConfig_rules(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string // empty: valid
	}{
		{"defaults", func(*Config) {}, ""},
		{"whole UUID", func(c *Config) { c.IgnoredGPUIDs = []string{"GPU-1ab7d8d0-6f1e-2b2c-f8e4-5c1f6c0d9a11"} }, ""},
		{"short UUID", func(c *Config) { c.IgnoredGPUIDs = []string{"GPU-1ab7d8d0"} }, ""},
		{"too short UUID", func(c *Config) { c.IgnoredGPUIDs = []string{"GPU-1ab7"} },
			`plugin config: ignored_gpu_ids[0] "GPU-1ab7" is too short; give a UUID or at least its first 8 hex digits`},
		{"short old MIG UUID", func(c *Config) { c.IgnoredGPUIDs = []string{"MIG-GPU-1ab7d8d0"} }, ""},
		{"too short old MIG UUID", func(c *Config) { c.IgnoredGPUIDs = []string{"MIG-GPU-1ab7d"} },
			`plugin config: ignored_gpu_ids[0] "MIG-GPU-1ab7d" is too short; give a UUID or at least its first 8 hex digits`},
		{"period", func(c *Config) { c.FingerprintPeriod = "1s" }, ""},
		{"no period", func(c *Config) { c.FingerprintPeriod = "often" }, `fingerprint_period "often" is no duration`},
		{"short period", func(c *Config) { c.FingerprintPeriod = "10ms" }, `fingerprint_period "10ms" must be at least "1s"`},
		{"root", func(c *Config) { c.DriverRoot = "/run/nvidia/driver" }, ""},
		{"relative root", func(c *Config) { c.DriverRoot = "driver" }, `driver_root "driver" must be an absolute path`},
		{"relative library", func(c *Config) { c.NVMLLibrary = "libnvidia-ml.so.1" }, `nvml_library "libnvidia-ml.so.1" must be an absolute path`},
		{"group by instance", func(c *Config) { c.GroupBy = "instance" }, ""},
		{"group by node", func(c *Config) { c.GroupBy = "node" }, ""},
		{"group by uuid", func(c *Config) { c.GroupBy = "uuid" }, `group_by "uuid" must be "model", "instance" or "node"`},
		{"distributed", func(c *Config) { c.AllocationPolicy = "distributed" }, ""},
		{"spread", func(c *Config) { c.AllocationPolicy = "spread" }, `allocation_policy "spread" must be "packed" or "distributed"`},
		{"mig off", func(c *Config) { c.MIG = "off" }, ""},
		{"mig mixed", func(c *Config) { c.MIG = "mixed" }, `mig "mixed" must be "auto" or "off"`},
		{"shared", func(c *Config) { c.Sharing = &SharingConfig{Strategy: "mps", Replicas: 8} }, ""},
		{"shared by one", func(c *Config) { c.Sharing = &SharingConfig{Strategy: "time-slicing", Replicas: 1} }, `sharing.replicas 1 must be 2 to 64`},
		{"shared by too many", func(c *Config) { c.Sharing = &SharingConfig{Strategy: "mps", Replicas: 65} }, `sharing.replicas 65 must be 2 to 64`},
		{"replicas without sharing", func(c *Config) { c.Sharing = &SharingConfig{Strategy: "none", Replicas: 4} }, `sharing.replicas 4 has no effect with sharing.strategy "none"`},
		{"one share a task", func(c *Config) {
			c.Sharing = &SharingConfig{Strategy: "mps", Replicas: 2, RenameByDefault: true, FailRequestsGreaterThanOne: true}
		}, ""},
		{"renamed without sharing", func(c *Config) { c.Sharing = &SharingConfig{Strategy: "none", Replicas: 1, RenameByDefault: true} },
			`sharing.rename_by_default has no effect with sharing.strategy "none"`},
		{"one share without sharing", func(c *Config) {
			c.Sharing = &SharingConfig{Strategy: "none", Replicas: 1, FailRequestsGreaterThanOne: true}
		}, `sharing.fail_requests_greater_than_one has no effect with sharing.strategy "none"`},
		{"both strategies", func(c *Config) { c.Sharing = &SharingConfig{Strategy: "mps,time-slicing", Replicas: 4} },
			`sharing.strategy "mps,time-slicing" must be "none", "time-slicing" or "mps"`},
		{"xids", func(c *Config) { c.Health = &HealthConfig{XIDIgnore: []string{"all"}, XIDFatal: []string{"48"}} }, ""},
		{"no injection", func(c *Config) { c.InjectHealth = []string{"79"} }, `inject_health: "79" is not "<GPU UUID>:<XID>", such as "GPU-`},
		{"no xid", func(c *Config) { c.Health = &HealthConfig{XIDFatal: []string{"ecc"}} }, `health.xid_fatal: "ecc" is neither an XID number nor "all"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := defaultConfig()
			tc.change(&config)
			_, err := config.validate()
			if tc.want == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, tc.want)
			must.StrHasPrefix(t, "plugin config: ", err.Error())
		})
	}
}

// TestConfig_allFaults: one answer names every fault.
func TestConfig_allFaults(t *testing.T) {
	config := Config{FingerprintPeriod: "x", DriverRoot: "y", GroupBy: "z", AllocationPolicy: "v", MIG: "w"}
	_, err := config.validate()
	must.Eq(t, 5, len(strings.Split(err.Error(), "\n")))
}

func TestSetConfig_keepsOldOnError(t *testing.T) {
	p := testPlugin(t, nil)
	good := defaultConfig()
	good.GroupBy = groupByInstance
	must.NoError(t, p.SetConfig(&base.Config{PluginConfig: encode(t, good)}))
	bad := good
	bad.MIG = "maybe"
	must.Error(t, p.SetConfig(&base.Config{PluginConfig: encode(t, bad)}))
	must.Eq(t, groupByInstance, p.settings.GroupBy)
	must.NoError(t, p.SetConfig(&base.Config{}))
	must.Nil(t, p.host)
}
