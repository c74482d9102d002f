// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gpu-docker/gpu-docker/gpuhost"
)

const (
	driverName = "NVIDIA driver"
	nodesName  = "device nodes"
	filesName  = "driver files"
)

// driver looks at the NVIDIA driver and its NVML library.
func (e *Examination) driver(ctx context.Context) []Finding {
	inv := e.Host.Inventory(ctx)
	d := inv.Driver
	switch {
	case d.VersionErr != nil:
		return []Finding{broken(driverName, "see the kernel's log for lines with NVRM; reload the nvidia modules or reboot", "its version cannot be read: %v", d.VersionErr)}
	case d.Version == "":
		cure := "nothing if this machine shall run CPU tasks only; else install the NVIDIA driver, or name its place with --driver-root"
		return []Finding{warning(driverName, cure, "%s", inv.Reason)}
	case d.KernelVersion != "" && d.KernelVersion != d.Version:
		return []Finding{broken(driverName, "reboot, or reload the nvidia modules", "the library is of %s, the loaded kernel module of %s", d.Version, d.KernelVersion)}
	}
	cuda := d.CUDA.String()
	if cuda == "" {
		cuda = "an unknown version"
	}
	return []Finding{ok(driverName, "%s, supports CUDA up to %s, library %s", d.Version, cuda, d.Library)}
}

// gpus looks at each GPU.
func (e *Examination) gpus(ctx context.Context) []Finding {
	inv := e.Host.Inventory(ctx)
	var out []Finding
	for i := range inv.GPUs {
		out = append(out, gpu(&inv.GPUs[i]))
	}
	for _, line := range inv.Skipped {
		out = append(out, broken("GPU", "see the kernel's log for lines with NVRM", "%s", line))
	}
	if inv.Driver.Version != "" && len(inv.GPUs) == 0 && len(inv.Skipped) == 0 {
		out = append(out, warning("GPU", "check with lspci that the card is there and bound to the driver nvidia", "%s", inv.Reason))
	}
	return out
}

func gpu(g *gpuhost.GPU) Finding {
	name := fmt.Sprintf("GPU %d", g.Index)
	model := "unknown model"
	if g.Model != nil {
		model = *g.Model
	}
	if g.Unhealthy != "" {
		return broken(name, "drain the node; reset the GPU with nvidia-smi --gpu-reset, or reboot", "%s %s: %s", model, g.UUID, g.Unhealthy)
	}
	return ok(name, "%s %s", model, g.UUID)
}

// nodes looks at the device nodes that containers get.
func (e *Examination) nodes(ctx context.Context) []Finding {
	inv := e.Host.Inventory(ctx)
	if inv.Driver.Version == "" {
		return nil
	}
	found := map[string]string{}
	for _, n := range e.Host.ControlNodes() {
		found[n.ContainerPath] = n.HostPath
	}
	var out []Finding
	for _, needed := range []struct{ path, cure string }{
		{"/dev/nvidiactl", "run nvidia-modprobe, or nvidia-smi once, as root"},
		{"/dev/nvidia-uvm", "run nvidia-modprobe -u -c=0 as root; CUDA needs it"},
	} {
		if found[needed.path] == "" {
			out = append(out, broken(nodesName, needed.cure, "%s is missing", needed.path))
		}
	}
	for i := range inv.GPUs {
		node, err := e.Host.GPUNode(&inv.GPUs[i])
		if err != nil {
			out = append(out, broken(nodesName, "run nvidia-modprobe -c="+fmt.Sprint(inv.GPUs[i].Minor)+" as root", "%v", err))
			continue
		}
		found[node.ContainerPath] = node.HostPath
		out = append(out, e.migNodes(&inv.GPUs[i])...)
	}
	if len(out) > 0 {
		return out
	}
	return []Finding{describeNodes(found)}
}

// migNodes tells what is missing of the capability nodes of a GPU's MIG devices: a
// container cannot use its MIG device without them. Who may open them is the
// driver's affair: they are for reading only.
func (e *Examination) migNodes(g *gpuhost.GPU) []Finding {
	var out []Finding
	for i := range g.MIGDevices {
		if _, err := e.Host.MIGNodes(g, &g.MIGDevices[i]); err != nil {
			out = append(out, broken(nodesName, `run the command that is named; "nvidia-smi mig -lci" lists the instances`, "%v", err))
		}
	}
	return out
}

// describeNodes warns of nodes that only root may open: programs in containers
// often run as somebody else.
func describeNodes(found map[string]string) Finding {
	var closed []string
	for _, path := range slices.Sorted(maps.Keys(found)) {
		info, err := os.Stat(found[path])
		if err == nil && info.Mode().Perm()&0o006 != 0o006 {
			closed = append(closed, fmt.Sprintf("%s is %v", path, info.Mode()))
		}
	}
	if len(closed) > 0 {
		return warning(nodesName, "set NVreg_DeviceFileMode=0666 for the module nvidia unless only root shall compute", "%s", strings.Join(closed, ", "))
	}
	return ok(nodesName, "all %d are there", len(found))
}

// files looks at the driver's libraries and tools.
func (e *Examination) files(ctx context.Context) []Finding {
	if e.Host.Inventory(ctx).Driver.Version == "" {
		return nil
	}
	files, err := e.Host.DriverFiles(ctx)
	if err != nil {
		return []Finding{broken(filesName, "install the driver's libraries and run ldconfig", "%v", err)}
	}
	for _, needed := range []string{"libcuda.so", "libnvidia-ml.so"} {
		if !has(files.Libraries, needed) {
			return []Finding{broken(filesName, "install all of the driver's packages and run ldconfig", "no 64-bit %s among %d libraries", needed, len(files.Libraries))}
		}
	}
	return []Finding{ok(filesName, "%d libraries, %d tools of %s", len(files.Libraries), len(files.Binaries), files.Version)}
}

func has(libraries []gpuhost.Library, prefix string) bool {
	for _, l := range libraries {
		if l.Bits == 64 && strings.HasPrefix(l.Name, prefix) {
			return true
		}
	}
	return false
}
