// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/system"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/compat"
	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/container"
	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// devicesInside are the device nodes of the only container, as it sees them.
func (b *bench) devicesInside() string {
	b.t.Helper()
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	must.MapLen(b.t, 1, b.engine.containers)
	var paths []string
	for _, c := range b.engine.containers {
		for _, d := range c.host.Devices {
			paths = append(paths, strings.TrimPrefix(d.PathInContainer, "/dev/"))
		}
	}
	return strings.Join(paths, " ")
}

func TestGrants(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ids   []string
		nodes string
		label string
	}{
		{"one GPU, by its minor number", []string{"GPU-a"}, "nvidia1 nvidiactl nvidia-uvm", "GPU-a"},
		{"two GPUs in reservation order", []string{"GPU-b", "GPU-a"}, "nvidia0 nvidia1 nvidiactl nvidia-uvm", "GPU-b,GPU-a"},
		{"several shares of a GPU are one GPU", []string{"GPU-a::0", "GPU-a::3"}, "nvidia1 nvidiactl nvidia-uvm", "GPU-a"},
		{"a MIG device with its capabilities", []string{"MIG-c"}, "nvidia0 nvidia-caps/nvidia-cap1 nvidia-caps/nvidia-cap2 nvidiactl nvidia-uvm", "MIG-c"},
		{"no GPU", nil, "", ""},
		{"explicitly none", []string{"void"}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			cfg := b.task(nil, tc.ids...)
			id, _ := b.start(cfg)
			must.Eq(t, tc.nodes, b.devicesInside())
			must.Eq(t, tc.label, b.engine.containers[id].labels[container.LabelGPUs])
		})
	}
}

// TestUVMNode: a task that cannot compute is told so before it starts; one that gets no
// CUDA from us needs no such node.
func TestUVMNode(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*config.Plugin)
		starts bool
	}{
		{"all capabilities", nil, false},
		{"compute", func(c *config.Plugin) { c.GPU.Capabilities = []string{"utility", "compute"} }, false},
		{"no compute", func(c *config.Plugin) { c.GPU.Capabilities = []string{"utility", "graphics"} }, true},
		{"the NVIDIA runtime", func(c *config.Plugin) { c.GPU.Injection = config.InjectionRuntime }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.change)
			b.engine.info.Runtimes["nvidia"] = system.RuntimeWithStatus{}
			b.host.lacks = "nvidia-uvm"
			_, _, err := b.StartTask(b.task(nil))
			must.NoError(t, err, must.Sprint("no GPU"))
			_, _, err = b.StartTask(b.task(nil, "GPU-a"))
			if tc.starts {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, `device node "/dev/nvidia-uvm" is missing, and CUDA does not work without it; run "nvidia-modprobe -u -c=0" as root`)
			must.True(t, structs.IsRecoverable(err))
		})
	}
}

func TestGPUsAreHeldOnce(t *testing.T) {
	for _, tc := range []struct {
		name          string
		first, second []string
		wantErr       string
	}{
		{"the same GPU", []string{"GPU-a"}, []string{"GPU-b", "GPU-a"}, `"GPU-a" is in use by task "t" of allocation`},
		{"another GPU", []string{"GPU-a"}, []string{"GPU-b"}, ""},
		{"two shares", []string{"GPU-a::0"}, []string{"GPU-a::1"}, ""},
		{"a share and the whole", []string{"GPU-a::0"}, []string{"GPU-a"}, "is in use"},
		{"the whole and a share", []string{"GPU-a"}, []string{"GPU-a::0"}, "is in use"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			first := b.task(nil, tc.first...)
			id, _ := b.start(first)
			second := b.task(nil, tc.second...)
			_, _, err := b.StartTask(second)
			if tc.wantErr == "" {
				must.NoError(t, err)
				return
			}
			must.ErrorContains(t, err, tc.wantErr)
			must.True(t, structs.IsRecoverable(err))
			b.engine.end(id, 0, false)
			b.wait(first.ID)
			b.start(second)
		})
	}
}

func TestGPUsOfUnknownContainers(t *testing.T) {
	other := map[string]string{
		container.LabelDriver: container.DriverName, container.LabelAllocID: "other-alloc",
		container.LabelTaskName: "train", container.LabelGPUs: "GPU-b,GPU-a", container.LabelTaskID: "x",
		labelRoot: "/",
	}
	b := newBench(t, nil)
	b.engine.put("train_other-alloc", other, true, time.Now())
	_, _, err := b.StartTask(b.task(nil, "GPU-a"))
	must.ErrorContains(t, err, `"GPU-a" is in use by task "train" of allocation other-alloc`)

	committed := newBench(t, nil)
	committed.engine.put("somebody's, of an image of that container", other, true, time.Now())
	committed.start(committed.task(nil, "GPU-a"))

	simulated := newBench(t, func(c *config.Plugin) { c.GPU.DriverRoot = "/elsewhere" })
	simulated.engine.put("train_other-alloc", other, true, time.Now())
	simulated.start(simulated.task(nil, "GPU-a"))
}

func TestSharesOfUnknownContainers(t *testing.T) {
	b := newBench(t, nil)
	cfg := b.task(nil, "GPU-a::0")
	b.start(cfg)
	b.driver.gpus.Release(cfg.ID) // as in a new process
	b.start(b.task(nil, "GPU-a::1"))
	_, _, err := b.StartTask(b.task(nil, "GPU-a"))
	must.ErrorContains(t, err, "is in use")
}

func TestSharesAreToldBesideBareUUIDs(t *testing.T) {
	b := newBench(t, nil)
	for _, share := range []string{"0", "1"} {
		cfg := b.task(nil, "GPU-a")
		cfg.DeviceEnv[reservedIDsVariable] = "GPU-a::" + share
		b.start(cfg)
	}
	must.Eq(t, "0", b.driver.Allocations()[0].Share)
}

func TestRestartOfATaskGetsItsGPUAgain(t *testing.T) {
	b := newBench(t, nil)
	cfg := b.task(nil, "GPU-a")
	b.start(cfg)
	again := cfg.Copy()
	again.ID += "2"
	b.start(again)
}

func TestReservedCount(t *testing.T) {
	zero, one, two := 0, 1, 2
	none, single := &grant{}, &grant{IDs: []string{"GPU-a"}, Devices: make([]grantedDevice, 1)}
	shares := &grant{IDs: []string{"GPU-a::0", "GPU-a::1"}, Devices: make([]grantedDevice, 1)}
	must.NoError(t, checkCount(nil, &grant{Devices: make([]grantedDevice, 3)}))
	must.NoError(t, checkCount(&one, single))
	must.NoError(t, checkCount(&one, shares))
	must.ErrorContains(t, checkCount(&one, none), "requested 1 GPU, got 0; check that the device block's count equals gpu.count")
	must.ErrorContains(t, checkCount(&two, single), "requested 2 GPUs, got 1; check")
	must.ErrorContains(t, checkCount(&two, shares), "requested 2 GPUs, got 1: the reservation has 2 shares, and shares of one GPU count once; set gpu.count to the number of GPUs")
	must.ErrorContains(t, checkCount(&zero, single), "requested 0 GPUs, got 1")
	must.ErrorIs(t, checkCount(&one, none), ErrGPUUnavailable)
}

func TestUnhealthyGPU(t *testing.T) {
	for _, tc := range []struct {
		setting string
		event   bool
		ended   bool
	}{
		{config.OnUnhealthyEvent, true, false},
		{config.OnUnhealthyFail, true, true},
		{config.OnUnhealthyIgnore, false, false},
	} {
		t.Run(tc.setting, func(t *testing.T) {
			b := newBench(t, nil)
			cfg := b.task(func(o *config.Task) { o.GPU.OnUnhealthy = tc.setting }, "GPU-a")
			b.start(cfg)
			p, err := b.driver.ready()
			must.NoError(t, err)
			events := b.driver.events.Subscribe(t.Context())
			b.host.change(func(h *fakeHost) { h.inv.GPUs[0].Unhealthy = "XID 79: fell off the bus" })
			watch := newGPUWatch()
			b.driver.checkGPUs(t.Context(), p, watch)
			b.driver.checkGPUs(t.Context(), p, watch)
			if tc.event {
				must.Eq(t, "GPU GPU-a is unhealthy: XID 79: fell off the bus", (<-events).Message)
			}
			select {
			case ev := <-events:
				must.StrHasPrefix(t, "Held 1 GPU for ", ev.Message, must.Sprint("told twice")) // the end of the task
			default:
			}
			if tc.ended {
				must.ErrorContains(t, b.wait(cfg.ID).Err, "XID 79: fell off the bus")
			}
			must.Eq(t, tc.ended, b.engine.called("stop") > 0)
		})
	}
}

func TestUnhealthyReasons(t *testing.T) {
	inv := twoGPUs().Inventory(t.Context())
	late := newGPUWatch()
	late.begun = time.Now().Add(-unseenGrace)
	must.Eq(t, "", late.reason(inv, "GPU-a"))
	must.Eq(t, "", late.reason(inv, "MIG-c"))
	must.StrContains(t, late.reason(inv, "GPU-x"), "not on this node any more")
	inv.GPUs[1].Unhealthy = "GPU is lost (code 15)"
	must.Eq(t, "GPU is lost (code 15)", late.reason(inv, "MIG-c"))
	inv.Reason = "driver unloaded"
	must.Eq(t, "driver unloaded", late.reason(inv, "GPU-x"))
}

// TestUnhealthyReasons_start: after a restart of the agent, a host that has not told
// of a GPU yet is no reason to end the task that has it; what it tells is.
func TestUnhealthyReasons_start(t *testing.T) {
	watch := newGPUWatch()
	must.Eq(t, "", watch.reason(&gpuhost.Inventory{Reason: "the driver has not answered yet"}, "GPU-a"))
	inv := twoGPUs().Inventory(t.Context())
	must.Eq(t, "", watch.reason(inv, "GPU-a"))
	must.Eq(t, "driver unloaded", watch.reason(&gpuhost.Inventory{Reason: "driver unloaded"}, "GPU-a"))
	inv.GPUs[1].Unhealthy = "GPU is lost (code 15)"
	must.Eq(t, "GPU is lost (code 15)", watch.reason(inv, "GPU-b"))
}

// linkBench is a driver whose GPU nodes are /dev/null and /dev/zero, which are
// NVIDIA's by the kernel's list, and the directory of its links.
func linkBench(t *testing.T) (b *bench, links string) {
	t.Helper()
	b = newBench(t, nil)
	p, err := b.driver.configured()
	must.NoError(t, err)
	links = filepath.Join(t.TempDir(), "char")
	must.NoError(t, os.Mkdir(links, 0o755))
	list := filepath.Join(t.TempDir(), "devices")
	must.NoError(t, os.WriteFile(list, []byte("Character devices:\n  1 nvidia\n"), 0o600))
	p.charLinks, p.procDevices = links, list

	root := t.TempDir() // as of a driver container
	for name, target := range map[string]string{"nvidia1": "/dev/null", "nvidiactl": "/dev/zero", "nvidia-uvm": "/dev/ptmx"} {
		must.NoError(t, os.Symlink(target, filepath.Join(root, name)))
	}
	b.host.dev = root
	return b, links
}

// TestDeviceLinks: systemd finds the nodes of a task by their numbers, whatever root
// they are in; devices that are not NVIDIA's by this kernel are left alone (cases DRV-06).
func TestDeviceLinks(t *testing.T) {
	b, links := linkBench(t)
	must.NoError(t, os.Symlink("nowhere", filepath.Join(links, "1:5"))) // of a root that is gone
	b.start(b.task(nil, "GPU-a"))
	entries, err := os.ReadDir(links)
	must.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	must.Eq(t, []string{"1:3", "1:5"}, names)
	for name, node := range map[string]string{"1:3": "nvidia1", "1:5": "nvidiactl"} {
		target, err := os.Readlink(filepath.Join(links, name))
		must.NoError(t, err)
		must.Eq(t, filepath.Join(b.host.dev, node), filepath.Join(links, target))
		info, err := os.Stat(filepath.Join(links, name))
		must.NoError(t, err)
		must.True(t, info.Mode()&os.ModeCharDevice != 0)
	}
	must.Eq(t, "Healthy", b.driver.probe(t.Context()).HealthDescription)
}

// TestMissingDeviceLinks: the operator is told where systemd would take devices away.
func TestMissingDeviceLinks(t *testing.T) {
	for driver, told := range map[string]bool{"systemd": true, "cgroupfs": false} {
		t.Run(driver, func(t *testing.T) {
			b, links := linkBench(t)
			b.engine.info.CgroupDriver = driver
			must.NoError(t, os.RemoveAll(links))
			first := b.task(nil, "GPU-a")
			b.start(first)
			b.start(b.task(nil))
			text := b.driver.probe(t.Context()).HealthDescription
			if !told {
				must.Eq(t, "Healthy", text)
				return
			}
			must.StrHasPrefix(t, "Healthy; a systemd reload may take GPUs from running tasks: symlink ", text)
			must.StrContains(t, text, "1:3")

			must.NoError(t, os.Mkdir(links, 0o755))
			b.start(b.task(nil, "GPU-b"))
			must.StrContains(t, b.driver.probe(t.Context()).HealthDescription, "1:3", must.Sprint("the first task still lacks its link"))
			must.NoError(t, b.DestroyTask(first.ID, true))
			b.start(b.task(nil, "GPU-a"))
			must.Eq(t, "Healthy", b.driver.probe(t.Context()).HealthDescription)
		})
	}
}

func TestTaskNumbers(t *testing.T) {
	memory := uint64(40 << 30)
	g := &grant{Devices: []grantedDevice{{UUID: "GPU-a", GPU: &gpuhost.GPU{UUID: "GPU-a", TotalBytes: &memory}}}}
	must.Eq(t, map[string]string{"GPU_COUNT": "1", "GPU_MEMORY_TOTAL_MIB": "40960"}, g.numbers())
	g.Devices = append(g.Devices, grantedDevice{UUID: "GPU-b", GPU: &gpuhost.GPU{UUID: "GPU-b"}})
	must.Eq(t, map[string]string{"GPU_COUNT": "2"}, g.numbers())
}

// TestTaskNumbersInside: they reach the container however its GPUs do, and over
// what the image says of other machines.
func TestTaskNumbersInside(t *testing.T) {
	for _, injection := range []string{config.InjectionVolume, config.InjectionRuntime, config.InjectionCDI} {
		t.Run(injection, func(t *testing.T) {
			b := newBench(t, func(c *config.Plugin) { c.GPU.Injection = injection })
			b.engine.api = "1.44" // for CDI
			b.engine.info.Runtimes["nvidia"] = system.RuntimeWithStatus{}
			memory := uint64(40 << 30)
			b.host.inv.GPUs[0].TotalBytes = &memory
			b.meta.md = compat.Metadata{Env: map[string]string{"GPU_COUNT": "8", "GPU_MEMORY_TOTAL_MIB": "1"}}
			id, _ := b.start(b.task(nil, "GPU-a"))
			env := b.engine.containers[id].env
			must.SliceContains(t, env, "GPU_COUNT=1")
			must.SliceContains(t, env, "GPU_MEMORY_TOTAL_MIB=40960")
		})
	}
}

func TestAllocations(t *testing.T) {
	b := newBench(t, nil)
	cfg := b.task(nil, "GPU-a::2", "GPU-b")
	id, _ := b.start(cfg)
	all := b.driver.Allocations()
	must.Len(t, 2, all)
	must.Eq(t, "GPU-a", all[0].UUID)
	must.Eq(t, "2", all[0].Share)
	must.Eq(t, "", all[1].Share)
	must.Eq(t, cfg.AllocID, all[1].AllocID)
	must.Eq(t, id, all[1].Container)
	b.engine.end(id, 0, false)
	b.wait(cfg.ID)
	must.SliceEmpty(t, b.driver.Allocations())
}

func TestVolumeSocketIsAskedFirst(t *testing.T) {
	b := newBench(t, func(c *config.Plugin) {
		c.GPU.VolumeMode = config.VolumeModePlugin
		c.GPU.VolumeSocketDir = filepath.Join(os.TempDir(), "gpu-docker-no-such-directory", "x")
		c.GPU.Injection = config.InjectionVolume
	})
	p, err := b.driver.configured()
	must.NoError(t, err)
	p.wakeOnce.Do(func() { p.images = b.images }) // nothing is served
	begun := time.Now()
	_, _, err = b.StartTask(b.task(nil, "GPU-a"))
	must.ErrorContains(t, err, "volume plugin not ready")
	must.True(t, structs.IsRecoverable(err))
	must.Less(t, time.Second, time.Since(begun))
	must.Eq(t, 0, b.engine.called("create"))
	_, _, err = b.StartTask(b.task(nil))
	must.NoError(t, err, must.Sprint("tasks without GPU need no volume"))
}
