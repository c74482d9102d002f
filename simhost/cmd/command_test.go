// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/simhost"
)

// run gives a command line to simhost; words are split at spaces.
func run(t *testing.T, root, line string) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd := rootCommand(&out)
	cmd.SetArgs(append([]string{"--root", root}, strings.Fields(line)...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func mustRun(t *testing.T, root, line string) string {
	t.Helper()
	out, err := run(t, root, line)
	must.NoError(t, err, must.Sprint(line))
	return out
}

// TestStory uses every command once.
func TestStory(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	must.StrContains(t, mustRun(t, root, "profiles"), "k80x4-352     352.39      4     Two dual-GPU Tesla K80 boards")
	must.StrHasPrefix(t, "{\n \"name\": \"k80x4-352\",", mustRun(t, root, "profiles k80x4-352"))
	must.StrHasSuffix(t, ": driver 352.39, GPUs: 4\n", mustRun(t, root, "up --profile k80x4-352"))
	for _, line := range []string{"set --gpu 1 temperature=91 power=100", "xid --gpu 0 79", "lose --gpu 2", "restore --gpu 2",
		"fail --call nvmlDeviceGetPowerUsage --code 999 --gpu 0", "slow --call nvmlDeviceGetName --ms 5", "unload", "load", "upgrade --to 375.66"} {
		must.Eq(t, "", mustRun(t, root, line))
	}
	state := filepath.Join(root, "var/lib/simhost/state")
	must.FileContains(t, state, "gpu.1.temperature_c=91\n")
	must.FileContains(t, state, "fail.nvmlDeviceGetPowerUsage.0=999\n")
	must.FileContains(t, state, "slow.nvmlDeviceGetName.all=5\n")
	must.FileContains(t, state, "driver_version=375.66\n")
	must.FileContains(t, filepath.Join(root, "var/lib/simhost/events"), "0 8 79 ")
	must.Eq(t, "{}\n", mustRun(t, root, "calls --json --reset"))
	must.Eq(t, "", mustRun(t, root, "down"))
	must.DirNotExists(t, root)
}

func TestMistakes(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	for _, tc := range []struct{ line, want string }{
		{"down", "no simulated host in"},
		{"lose", `required flag(s) "gpu" not set`},
		{"fail --call nvmlInit", `required flag(s) "code" not set`},
		{"up", `required flag(s) "profile" not set`},
		{"profiles k90", `profile "k90": no such profile`},
		{"fly", `unknown command "fly"`},
	} {
		_, err := run(t, root, tc.line)
		must.ErrorContains(t, err, tc.want)
	}
	_, err := run(t, "", "unload")
	must.ErrorContains(t, err, "name its directory with --root")
	mustRun(t, root, "up --profile k80x4-352")
	_, err = run(t, root, "set --gpu 0 temperature")
	must.ErrorContains(t, err, `"temperature" does not look like KEY=VALUE`)
	_, err = run(t, root, "xid --gpu 0 boom")
	must.ErrorContains(t, err, `XID "boom" is not a number`)
	h, err := simhost.Open(root)
	must.NoError(t, err)
	must.NoError(t, h.Down())
}
