//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// gpuView prints what a task sees of GPUs and of the driver volume, then waits.
const gpuView = `
for n in /dev/nvidia[0-9]*; do test -e "$n" && echo "node $n"; done
echo "visible $NVIDIA_VISIBLE_DEVICES"
nvidia-smi -L || echo "no nvidia-smi"
test -r /usr/local/nvidia/lib64/libcuda.so.1 && echo "volume readable"
touch /usr/local/nvidia/bin/new 2>/dev/null && echo "volume writable"
echo done
sleep 3600`

// view is gpuView's output, taken apart.
type view struct {
	nodes, smi []string
	visible    string
	lines      map[string]bool
}

func (s *site) view(alloc *api.Allocation) view {
	text, err := s.agent.WaitLogs(s.ctx, alloc, "t", func(text string) error {
		if !strings.Contains(text, "\ndone\n") {
			return fmt.Errorf("not done yet: %q", text)
		}
		return nil
	})
	must.NoError(s, err)
	v := view{lines: map[string]bool{}}
	for _, line := range strings.Split(text, "\n") {
		v.lines[line] = true
		if node, ok := strings.CutPrefix(line, "node "); ok {
			v.nodes = append(v.nodes, node)
		}
		if uuids, ok := strings.CutPrefix(line, "visible "); ok {
			v.visible = uuids
		}
		if strings.HasPrefix(line, "GPU ") {
			v.smi = append(v.smi, line)
		}
	}
	return v
}

// run submits a job and waits until it runs.
func (s *site) run(j job) *api.Allocation {
	_, err := s.agent.Run(j.hcl())
	must.NoError(s, err)
	alloc, err := s.agent.WaitAlloc(s.ctx, j.name, api.AllocClientStatusRunning)
	must.NoError(s, err)
	return alloc
}

// reserved are the UUIDs that the scheduler gave to the task.
func reserved(alloc *api.Allocation) []string {
	var ids []string
	for _, d := range alloc.AllocatedResources.Tasks["t"].Devices {
		ids = append(ids, d.DeviceIDs...)
	}
	return ids
}

func TestOneOfFourGPUs(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)

	t.Run("a task sees its GPU and no other", func(t *testing.T) {
		alloc := s.run(job{name: "one", image: imageCUDA75, script: gpuView, gpus: 1})
		uuids := reserved(alloc)
		must.Len(t, 1, uuids)
		v := s.view(alloc)
		must.Len(t, 1, v.nodes)
		must.Eq(t, uuids[0], v.visible)
		must.Len(t, 1, v.smi)
		must.StrContains(t, v.smi[0], uuids[0])
		must.True(t, v.lines["volume readable"])
		must.False(t, v.lines["volume writable"])

		detail := s.inspect(alloc.ID)
		var gpus []string
		for _, d := range detail.HostConfig.Devices {
			if strings.HasPrefix(d.PathInContainer, "/dev/nvidia") && strings.ContainsAny(d.PathInContainer[len("/dev/nvidia"):], "0123456789") {
				gpus = append(gpus, d.PathInContainer)
			}
		}
		must.Eq(t, v.nodes, gpus)
		must.Eq(t, []string{"bind  /var/lib/nvidia-docker/volumes/nvidia_driver/352.39 rw=false"}, volumeMounts(detail))
	})

	t.Run("each library stands where a job wants it", func(t *testing.T) { // cases CMP-09
		alloc := s.run(job{name: "singly", image: imageCUDA75, script: "sleep 600", gpus: 1,
			config: `gpu { extra_library_targets = ["/usr/lib/x86_64-linux-gnu", "/lib"] }`})
		const compare = `cd /usr/local/nvidia/lib64; for l in *.so*; do
			for d in /usr/lib/x86_64-linux-gnu /lib; do cmp $l $d/$l && echo same; ! touch $d/$l 2>/dev/null || echo writable; done
		done; ls libcuda.so.1`
		code, out, trouble := s.exec(alloc, false, "", "/bin/sh", "-c", compare)
		must.Eq(t, "", trouble)
		must.Zero(t, code)
		must.StrContains(t, out, "libcuda.so.1")
		must.StrNotContains(t, out, "writable")
		must.Greater(t, 20, strings.Count(out, "same"))
		must.NoError(t, s.agent.StopJob(s.ctx, "singly"))
	})

	t.Run("two jobs hold different GPUs and a fifth waits", func(t *testing.T) {
		held := map[string]bool{}
		for _, name := range []string{"two", "three", "four"} {
			alloc := s.run(job{name: name, image: imageCUDA75, script: gpuView, gpus: 1})
			v := s.view(alloc)
			must.Len(t, 1, v.nodes)
			must.False(t, held[v.nodes[0]], must.Sprintf("%s is held twice", v.nodes[0]))
			held[v.nodes[0]] = true
		}
		_, err := s.agent.Run(job{name: "five", image: imageCUDA75, script: gpuView, gpus: 1}.hcl())
		must.NoError(t, err)
		must.NoError(t, s.waitBlocked("five"))
		must.NoError(t, s.agent.StopJob(s.ctx, "two"))
		_, err = s.agent.WaitAlloc(s.ctx, "five", api.AllocClientStatusRunning)
		must.NoError(t, err)
	})
}

// volumeMounts describes what a container has at /usr/local/nvidia.
func volumeMounts(detail container.InspectResponse) []string {
	var found []string
	for _, m := range detail.Mounts {
		if m.Destination == "/usr/local/nvidia" {
			found = append(found, fmt.Sprintf("%s %s %s rw=%v", m.Type, m.Name, m.Source, m.RW))
		}
	}
	return found
}

// TestNamedVolume: with volume_mode = "plugin" the task has the named volume of
// nvidia-docker's volume driver, and sees the same.
func TestNamedVolume(t *testing.T) {
	s := newSite(t, "k80x4-352", func(cfg *harness.AgentConfig) { cfg.DriverGPU = `volume_mode = "plugin"` })
	alloc := s.run(job{name: "named", image: imageCUDA75, script: gpuView, gpus: 1})
	v := s.view(alloc)
	must.Len(t, 1, v.smi)
	must.False(t, v.lines["volume writable"])
	must.Eq(t, []string{"volume nvidia_driver_352.39 /var/lib/nvidia-docker/volumes/nvidia_driver/352.39 rw=false"}, volumeMounts(s.inspect(alloc.ID)))
}

func TestNoReservationNoGPU(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)
	alloc := s.run(job{name: "none", image: imageWantAll, script: gpuView})
	v := s.view(alloc)
	must.SliceEmpty(t, v.nodes)
	must.SliceEmpty(t, v.smi)
	must.Eq(t, "void", v.visible)
	must.False(t, v.lines["volume readable"])
	must.StrContains(t, eventsOf(s, alloc), "sees no GPU")
	for _, d := range s.inspect(alloc.ID).HostConfig.Devices {
		must.False(t, strings.Contains(d.PathInContainer, "nvidia"))
	}
}

// TestJobSetsVisibleDevices: what a job says itself never widens its reservation. An
// agent lays the reservation over the env block, and templates over both (cases
// DRV-04).
func TestJobSetsVisibleDevices(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)
	const template = "template {\n destination = \"local/gpus.env\"\n env = true\n data = <<EOT\n%s\nEOT\n}"
	const visibleEvent = "NVIDIA_VISIBLE_DEVICES=\"all\" was ignored"
	// The first GPU of a reservation of two, by the variable that the agent set.
	const first = `NVIDIA_VISIBLE_DEVICES={{ index (env "NVIDIA_VISIBLE_DEVICES" | split ",") 0 }}`
	for _, tc := range []struct {
		name, more string
		gpus       int // that the task reserved
		sees       int // of them, by the variable
		told       string
	}{
		{"env-all", "env {\n NVIDIA_VISIBLE_DEVICES = \"all\"\n}", 2, 2, ""},
		{"template-all", fmt.Sprintf(template, "NVIDIA_VISIBLE_DEVICES=all"), 2, 2, visibleEvent},
		{"template-first", fmt.Sprintf(template, first), 2, 1, ""},
		{"nothing-reserved", "env {\n NVIDIA_VISIBLE_DEVICES = \"all\"\n}", 0, 0, visibleEvent},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := s.under(t)
			alloc := s.run(job{name: tc.name, image: imageCUDA75, script: gpuView, gpus: tc.gpus, more: tc.more})
			v := s.view(alloc)
			want := "void"
			if tc.gpus > 0 {
				want = strings.Join(reserved(alloc)[:tc.sees], ",")
			}
			must.Eq(t, want, v.visible)
			must.Len(t, tc.gpus, v.smi, must.Sprint("the device nodes are those of the reservation"))
			if tc.told == "" {
				must.StrNotContains(t, eventsOf(s, alloc), visibleEvent)
			} else {
				must.NoError(t, harness.Eventually(s.ctx, 20*time.Second, func() error {
					if events := eventsOf(s, alloc); !strings.Contains(events, tc.told) {
						return fmt.Errorf("no %q in %s", tc.told, events)
					}
					return nil
				}))
			}
			must.NoError(t, s.agent.StopJob(s.ctx, tc.name))
		})
	}
}

func TestImageForNewerDriverIsRefused(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)
	_, err := s.agent.Run(job{name: "newer", image: imageCUDA80, script: "true", gpus: 1}.hcl())
	must.NoError(t, err)
	alloc, err := s.agent.WaitAlloc(s.ctx, "newer", api.AllocClientStatusFailed)
	must.NoError(t, err)
	must.StrContains(t, eventsOf(s, alloc), `image "gpu-docker-e2e/cuda:8.0" needs CUDA 8.0; this node's driver 352.39 supports CUDA 7.5; use driver 367 or newer, or an image for CUDA 7.5 or older`)
	must.NoError(t, s.nothingLeft("containers", func() []string { return s.containers(s.ctx) }))
}
