// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// nvidiaMajor is the fixed device major of GPUs and nvidiactl; the other NVIDIA
// devices have dynamic ones.
const nvidiaMajor = 195

// runtimeDeviceDir is where an NVIDIA runtime takes mounts for requests of GPUs.
const runtimeDeviceDir = "/run/nvidia-container-devices"

// maxDeviceEntries is how much of a directory is searched for devices.
const maxDeviceEntries = 4096

// wayAround records a way to a GPU that is no reservation: a fault, or with the
// operator's allow_privileged a warning.
func wayAround(in *Input, f *findings, option, format string, args ...any) {
	if in.Plugin.AllowPrivileged {
		f.warn("%s: "+format+"; GPUs are not isolated from this task", append([]any{option}, args...)...)
		return
	}
	f.option(option, format+"; reserve GPUs with a device block, or let the operator set allow_privileged", args...)
}

// checkGPUPath looks for a volume or mount that shows GPU device nodes.
func checkGPUPath(in *Input, f *findings, option string, h hostPath) {
	for _, p := range []string{h.source, h.real} {
		if isGPUPath(in, p) {
			wayAround(in, f, option, "%q shows GPUs of this node beside the reservation", p)
			return
		}
	}
}

// checkTarget looks for a mount by which a job asks an NVIDIA runtime for GPUs.
func checkTarget(in *Input, f *findings, option, target string) {
	clean := path.Clean(target)
	if within(runtimeDeviceDir, clean) || within("/var"+runtimeDeviceDir, clean) {
		wayAround(in, f, option, "the target %q asks an NVIDIA runtime for GPUs beside the reservation", target)
	}
}

// checkDevice looks for a device of the job that is a GPU's, by its path or,
// however it is called, by its number; also for a directory that holds one,
// because the engine takes all devices below it.
func checkDevice(in *Input, f *findings, option, name string) {
	real, err := realPath(name)
	if err != nil {
		f.option(option, "%w", err)
		return
	}
	if isGPUPath(in, path.Clean(name)) || isGPUPath(in, real) || holdsGPUDirectory(in, real) {
		wayAround(in, f, option, "%q gives GPUs of this node beside the reservation", name)
		return
	}
	node, err := findNVIDIANode(real, nvidiaMajors(in.Host.ProcDevices))
	if err != nil {
		f.option(option, "%w", err)
	}
	if node != "" {
		wayAround(in, f, option, "%q is an NVIDIA device and gives GPUs beside the reservation", node)
	}
}

// findNVIDIANode looks for a device with one of some majors at or below a path;
// empty when there is none. What cannot be read is left to the engine, which
// names it.
func findNVIDIANode(name string, majors map[uint32]bool) (string, error) {
	found, seen := "", 0
	err := filepath.WalkDir(name, func(p string, _ fs.DirEntry, err error) error {
		if seen++; seen > maxDeviceEntries {
			return fmt.Errorf("%q holds more than %d entries; name the devices one by one", name, maxDeviceEntries)
		}
		if err == nil && majors[deviceMajor(p)] {
			found = p
			return fs.SkipAll
		}
		return nil
	})
	return found, err
}

// deviceDirectories are where GPU device nodes can be.
func deviceDirectories(in *Input) []string {
	dirs := []string{"/dev"}
	if root := path.Clean(in.Plugin.GPU.DriverRoot); root != "/" && root != "." {
		dirs = append(dirs, path.Join(root, "dev"))
	}
	return dirs
}

// isGPUPath says whether a clean path is a device directory as a whole or one of
// the NVIDIA entries in it.
func isGPUPath(in *Input, name string) bool {
	for _, dir := range deviceDirectories(in) {
		if name == dir || strings.HasPrefix(name, dir+"/nvidia") {
			return true
		}
	}
	return false
}

// holdsGPUDirectory says whether a directory has a device directory below it.
func holdsGPUDirectory(in *Input, name string) bool {
	for _, dir := range deviceDirectories(in) {
		if within(name, dir) {
			return true
		}
	}
	return false
}

// deviceMajor is the major number of a character device; 0 for anything else.
func deviceMajor(name string) uint32 {
	var st unix.Stat_t
	if unix.Lstat(name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return 0
	}
	return unix.Major(uint64(st.Rdev))
}

// nvidiaMajors are the majors of NVIDIA's character devices: the fixed one and
// what the kernel lists. Without the list, the fixed one alone.
func nvidiaMajors(procDevices string) map[uint32]bool {
	if procDevices == "" {
		procDevices = "/proc/devices"
	}
	majors := KernelMajors(procDevices)
	majors[nvidiaMajor] = true
	return majors
}

// KernelMajors are the majors of the NVIDIA character devices that the kernel lists in
// a file such as /proc/devices; empty without a driver, or without the file.
func KernelMajors(procDevices string) map[uint32]bool {
	majors := map[uint32]bool{}
	f, err := os.Open(procDevices)
	if err != nil {
		return majors
	}
	defer func() { _ = f.Close() }() // only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 2 && fields[0] == "Block" {
			break
		}
		if len(fields) != 2 || !strings.HasPrefix(fields[1], "nvidia") {
			continue
		}
		if n, err := strconv.ParseUint(fields[0], 10, 32); err == nil {
			majors[uint32(n)] = true
		}
	}
	return majors
}
