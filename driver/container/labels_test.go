// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"regexp"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

// peerName is the naming by which the built-in driver's reaper finds its own.
var peerName = regexp.MustCompile(`-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

func TestName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, task, want, compat string }{
		{"plain", "web", "web_" + testAllocID, "web-" + testAllocID},
		{"slashes", "a/b/c", "a_b_c_" + testAllocID, "a_b_c-" + testAllocID},
		{"hyphen", "web-1", "web-1_" + testAllocID, "web-1-" + testAllocID},
		{"uuid in the task's name", "run-" + testAllocID, "run_" + testAllocID + "_" + testAllocID, "run-" + testAllocID + "-" + testAllocID},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := newInput(t, "")
			in.Task.Name = tc.task
			must.Eq(t, tc.want, assemble(t, in).Name)
			must.False(t, peerName.MatchString("/"+tc.want))
			in.Plugin.CompatLabels = true
			must.Eq(t, tc.compat, assemble(t, in).Name)
			labels := assemble(t, in).Config.Labels
			must.True(t, NamedAsLabelled(tc.want, labels))
			must.True(t, NamedAsLabelled(tc.compat, labels))
			must.False(t, NamedAsLabelled("somebody", labels))
		})
	}
}

func TestLabels_Own(t *testing.T) {
	t.Parallel()
	got := assemble(t, newInput(t, "")).Config.Labels
	must.MapContainsKey(t, got, LabelSpecHash)
	delete(got, LabelSpecHash)
	must.Eq(t, map[string]string{
		LabelDriver: "gpu-docker", LabelRole: "task", LabelAllocID: testAllocID, LabelTaskName: "web",
		LabelTaskID: testAllocID + "/web/12345678", LabelNodeID: "node-id",
	}, got)

	in := newInput(t, "")
	in.Plugin.CompatLabels = true
	must.Eq(t, testAllocID, assemble(t, in).Config.Labels["com.hashicorp.nomad.alloc_id"])

	got = assemble(t, grant(newInput(t, ""))).Config.Labels
	must.Eq(t, testUUID, got[LabelGPUs])
	must.Eq(t, "352.39", got[LabelNVIDIADriver])
}

func TestLabels_User(t *testing.T) {
	t.Parallel()
	got := assemble(t, newInput(t, "labels {\n a = \"b\"\n \"com.hashicorp.nomad.job_name\" = \"x\"\n}")).Config.Labels
	must.Eq(t, "b", got["a"])
	must.Eq(t, "x", got["com.hashicorp.nomad.job_name"])
	for _, reserved := range []string{"com.hashicorp.nomad.alloc_id", LabelAllocID, LabelGPUs, LabelPrefix + "x"} {
		r := assembleWarns(t, newInput(t, "labels {\n \""+reserved+"\" = \"forged\"\n}"), `label "`+reserved+`" is reserved`)
		for _, value := range r.Config.Labels {
			must.NotEq(t, "forged", value)
		}
	}
}

func TestLabels_Extra(t *testing.T) {
	t.Parallel()
	const prefix = "com.hashicorp.nomad."
	all := map[string]string{
		"job_name": "shop", "job_id": "shop", "task_group_name": "group", "task_name": "web",
		"namespace": "default", "node_name": "node-name", "node_id": "node-id",
	}
	choose := func(names ...string) map[string]string {
		chosen := make(map[string]string)
		for _, n := range names {
			chosen[prefix+n] = all[n]
		}
		return chosen
	}
	for _, tc := range []struct {
		name  string
		globs []string
		want  map[string]string
	}{
		{"none", nil, choose()},
		{"one", []string{"job_name"}, choose("job_name")},
		{"prefix", []string{"task*"}, choose("task_name", "task_group_name")},
		{"all", []string{"*"}, choose("job_name", "job_id", "task_group_name", "task_name", "namespace", "node_name", "node_id")},
		{"unknown", []string{"nothing", "["}, choose()},
		{"no parent", []string{"parent_job_id"}, choose()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := newInput(t, "")
			in.Task.TaskGroupName = "group"
			in.Plugin.ExtraLabels = tc.globs
			got := make(map[string]string)
			for name, value := range assemble(t, in).Config.Labels {
				if strings.HasPrefix(name, prefix) {
					got[name] = value
				}
			}
			must.Eq(t, tc.want, got)
		})
	}
}

func TestLabels_ParentJob(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ id, parent, want string }{
		{"etl/dispatch-1234-abcd", "", "etl"},
		{"etl/periodic-1234", "", "etl"},
		{"a/b", "", ""},
		{"etl/dispatch-1", "told", "told"},
	} {
		in := newInput(t, "")
		in.Plugin.ExtraLabels = []string{"parent_job_id"}
		in.Task.JobID, in.Task.ParentJobID = tc.id, tc.parent
		must.Eq(t, tc.want, assemble(t, in).Config.Labels["com.hashicorp.nomad.parent_job_id"])
	}
}

// TestLabels_UserBeforeExtra: what the operator asks for wins over the job's.
func TestLabels_UserBeforeExtra(t *testing.T) {
	t.Parallel()
	in := newInput(t, "labels {\n \"com.hashicorp.nomad.job_name\" = \"x\"\n}")
	in.Plugin.ExtraLabels = []string{"job_name"}
	must.Eq(t, "shop", assemble(t, in).Config.Labels["com.hashicorp.nomad.job_name"])
}

func TestSpecHash(t *testing.T) {
	t.Parallel()
	hash := func(in *Input) string { return assemble(t, in).Config.Labels[LabelSpecHash] }
	must.Eq(t, hash(newInput(t, "")), hash(newInput(t, "")))
	must.NotEq(t, hash(newInput(t, "")), hash(newInput(t, `shm_size = 1`)))
	must.NotEq(t, hash(newInput(t, "")), hash(grant(newInput(t, ""))))
}

func TestPause(t *testing.T) {
	t.Parallel()
	in := newInput(t, "")
	r := Pause(in.Plugin, testAllocID, "host", "node-id")
	must.Eq(t, "gpu-docker-init_"+testAllocID, r.Name)
	must.False(t, peerName.MatchString("/"+r.Name))
	must.Eq(t, in.Plugin.InfraImage, r.Config.Image)
	must.Eq(t, "host", r.Config.Hostname)
	must.Eq(t, "none", string(r.HostConfig.NetworkMode))
	must.Eq(t, "unless-stopped", string(r.HostConfig.RestartPolicy.Name))
	must.Eq(t, map[string]string{LabelDriver: "gpu-docker", LabelRole: "pause", LabelAllocID: testAllocID, LabelNodeID: "node-id"}, r.Config.Labels)

	in.Plugin.CompatLabels = true
	r = Pause(in.Plugin, testAllocID, "", "")
	must.Eq(t, "nomad_init_"+testAllocID, r.Name)
	must.Eq(t, "", r.Config.Hostname)
	must.Eq(t, testAllocID, r.Config.Labels["com.hashicorp.nomad.alloc_id"])
	must.MapNotContainsKey(t, r.Config.Labels, LabelNodeID)
}
