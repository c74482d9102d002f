//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"
)

// limits prints a container's limits as the container itself sees them, one
// "name value" a line, on either version of cgroups.
const limits = `
first() { for f in "$@"; do test -r $f && { cat $f; return; }; done; echo absent; }
cd /sys/fs/cgroup
echo "memory $(first memory/memory.limit_in_bytes memory.max)"
echo "reservation $(first memory/memory.soft_limit_in_bytes memory.low)"
echo "swappiness $(first memory/memory.swappiness)"
echo "shares $(first cpu/cpu.shares cpu.weight)"
echo "quota $(first cpu/cpu.cfs_quota_us cpu.max)"
echo "period $(first cpu/cpu.cfs_period_us cpu.max)"
echo "pids $(first pids/pids.max pids.max)"
echo "cpus $(grep Cpus_allowed_list /proc/self/status | cut -f 2)"
echo "files $(ulimit -Sn):$(ulimit -Hn)"
echo "shm $(df -k /dev/shm | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2)"
echo "oom $(cat /proc/self/oom_score_adj)"
echo "swap $(cat memory/memory.memsw.limit_in_bytes 2>/dev/null || echo absent)"
`

// withResources replaces what a job asks of the node.
func withResources(hcl, resources string) string {
	return strings.Replace(hcl, "cpu    = 20\n        memory = 32", resources, 1)
}

// limitsOf runs a job that prints its limits.
func (s *site) limitsOf(j job, resources string) (*api.Allocation, map[string]string) {
	j.image, j.script = imagePlain, limits+j.script+"\necho done\nexec sleep 3600"
	alloc := s.runHCL(j.name, withResources(j.hcl(), resources))
	text, err := s.agent.WaitLogs(s.ctx, alloc, "t", func(text string) error {
		if !strings.Contains(text, "\ndone\n") {
			return fmt.Errorf("not done yet: %q", text)
		}
		return nil
	})
	must.NoError(s, err)
	found := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		name, value, _ := strings.Cut(line, " ")
		found[name] = value
	}
	return alloc, found
}

// cgroupV1 says which of two wordings the machine's kernel uses.
func cgroupV1() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err != nil
}

// TestLimits: what a job asks for is what the kernel enforces, seen from inside.
func TestLimits(t *testing.T) {
	s := newSite(t, "none", nil)
	_, _, err := s.agent.API.Operator().SchedulerSetConfiguration(&api.SchedulerConfiguration{MemoryOversubscriptionEnabled: true}, nil)
	must.NoError(t, err)
	const mib = 1 << 20
	bytes := func(n int) string { return fmt.Sprint(n * mib) }
	// The agent has 8000 MHz, so 800 MHz are a tenth of every processor.
	quota := fmt.Sprint(10000 * runtime.NumCPU())
	allCPUs := fmt.Sprintf("0-%d", runtime.NumCPU()-1)

	for _, tc := range []struct {
		name, resources, config, script string
		v1, v2                          map[string]string
		both                            map[string]string
	}{
		{
			name: "plain", resources: "cpu = 100\nmemory = 48",
			both: map[string]string{"memory": bytes(48), "pids": "max", "oom": "0", "shm": "65536", "cpus": allCPUs},
			v1:   map[string]string{"shares": "100", "quota": "-1", "swappiness": "0"},
			v2:   map[string]string{"quota": "max 100000", "period": "max 100000", "reservation": "0"},
		},
		{
			name: "memory-max", resources: "cpu = 20\nmemory = 48\nmemory_max = 96",
			both: map[string]string{"memory": bytes(96), "reservation": bytes(48)},
		},
		{
			name: "memory-hard-limit", resources: "cpu = 20\nmemory = 48\nmemory_max = 64", config: "memory_hard_limit = 80",
			both: map[string]string{"memory": bytes(80), "reservation": bytes(48)},
		},
		{
			name: "cpu-hard-limit", resources: "cpu = 800\nmemory = 32", config: "cpu_hard_limit = true",
			v1: map[string]string{"shares": "800", "quota": quota, "period": "100000"},
			v2: map[string]string{"quota": quota + " 100000"},
		},
		{
			name: "cpu-period", resources: "cpu = 800\nmemory = 32", config: "cpu_hard_limit = true\ncpu_cfs_period = 20000",
			v1: map[string]string{"quota": fmt.Sprint(2000 * runtime.NumCPU()), "period": "20000"},
			v2: map[string]string{"quota": fmt.Sprintf("%d 20000", 2000*runtime.NumCPU())},
		},
		{name: "cpuset", resources: "cpu = 20\nmemory = 32", config: `cpuset_cpus = "0"`, both: map[string]string{"cpus": "0"}},
		{
			name: "pids", resources: "cpu = 20\nmemory = 32", config: "pids_limit = 12",
			script: "(n=0; while [ $n -lt 40 ]; do sleep 60 & n=$((n+1)); done) 2>/dev/null && echo \"forks 40\" || echo \"forks fewer\"",
			both:   map[string]string{"pids": "12", "forks": "fewer"},
		},
		{
			name: "sizes", resources: "cpu = 20\nmemory = 32", config: "shm_size = 8388608\noom_score_adj = 100\nulimit {\n nofile = \"1000:2000\"\n }",
			both: map[string]string{"files": "1000:2000", "shm": "8192", "oom": "100"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := s.under(t)
			_, found := s.limitsOf(job{name: tc.name, config: tc.config, script: tc.script}, tc.resources)
			want := tc.v2
			if cgroupV1() {
				want = tc.v1
			}
			for _, part := range []map[string]string{want, tc.both} {
				for name, value := range part {
					must.Eq(t, value, found[name], must.Sprintf("%s of %v", name, found))
				}
			}
			must.NoError(t, s.agent.StopJob(s.ctx, tc.name))
		})
	}

	t.Run("reserved cores", func(t *testing.T) {
		s := s.under(t)
		alloc, found := s.limitsOf(job{name: "cores"}, "cores = 1\nmemory = 32")
		must.Eq(t, "0", found["cpus"], must.Sprintf("allocated %v", alloc.AllocatedResources.Tasks["t"].Cpu))
		must.NoError(t, s.agent.StopJob(s.ctx, "cores"))
	})
	t.Run("too much memory", func(t *testing.T) {
		s := s.under(t)
		alloc := s.failed(job{name: "oom", image: imagePlain, script: "tail /dev/zero"})
		must.StrContains(t, eventsOf(s, alloc), "OOM Killed")
	})
}
