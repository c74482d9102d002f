// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Major numbers as the driver uses them; those of uvm and caps are dynamic on a
// real machine and are told by /proc/devices.
const (
	majorNVIDIA = 195
	majorCaps   = 509
	majorUVM    = 510
)

// kernelFiles makes what a loaded kernel module shows: device nodes and files
// below /proc. It is removed by removeKernelFiles.
func kernelFiles(root string, p *Profile, s state) error {
	err := errors.Join(deviceNodes(root, p, s), capabilityFiles(root, s))
	for path, content := range procFiles(p, s) {
		err = errors.Join(err, writeFile(root, path, content))
	}
	return err
}

func removeKernelFiles(root string) error {
	var err error
	for _, path := range []string{"proc/driver", "proc/devices", "sys/module/nvidia", "dev/nvidia-caps"} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(root, path)))
	}
	nodes, _ := filepath.Glob(filepath.Join(root, "dev/nvidia*")) // the pattern is right
	for _, node := range nodes {
		err = errors.Join(err, os.Remove(node))
	}
	return err
}

func writeFile(root, path, content string) error {
	full := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return err
	}
	return replaceFile(full, []byte(content), 0o644)
}

func deviceNodes(root string, p *Profile, s state) error {
	type node struct {
		name         string
		major, minor int
	}
	nodes := []node{{"nvidiactl", majorNVIDIA, 255}, {"nvidia-uvm", majorUVM, 0}}
	if p.UVMTools {
		nodes = append(nodes, node{"nvidia-uvm-tools", majorUVM, 1})
	}
	if p.Modeset {
		nodes = append(nodes, node{"nvidia-modeset", majorNVIDIA, 254})
	}
	for i := range p.Devices {
		minor, err := strconv.Atoi(s[fmt.Sprintf("gpu.%d.minor", i)])
		if err != nil || s[fmt.Sprintf("gpu.%d.absent", i)] != "" {
			continue
		}
		nodes = append(nodes, node{fmt.Sprintf("nvidia%d", minor), majorNVIDIA, minor})
	}
	var err error
	for _, n := range nodes {
		err = errors.Join(err, makeNode(filepath.Join(root, "dev", n.name), n.major, n.minor))
	}
	if p.Fail["uvm_tools_stat"] != "" {
		// Root may stat anything; a link to itself is what fails for everyone.
		path := filepath.Join(root, "dev/nvidia-uvm-tools")
		err = errors.Join(err, removeIfThere(path), os.Symlink("nvidia-uvm-tools", path))
	}
	return err
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// makeNode makes a character device, or an empty file where that is not allowed.
func makeNode(path string, major, minor int) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := removeIfThere(path); err != nil {
		return err
	}
	err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(uint32(major), uint32(minor))))
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		err = os.WriteFile(path, nil, 0o666)
	}
	if err == nil {
		err = os.Chmod(path, 0o666) // past the umask
	}
	if err != nil {
		return fmt.Errorf("device node %q: %w", path, err)
	}
	return nil
}

func procFiles(p *Profile, s state) map[string]string {
	kind := "NVIDIA UNIX x86_64 Kernel Module"
	if p.OpenKernelModule {
		kind = "NVIDIA UNIX Open Kernel Module for x86_64"
	}
	version := s["driver_version"]
	files := map[string]string{
		"proc/driver/nvidia/version": fmt.Sprintf("NVRM version: %s  %s  Simulated\nGCC version:  simulated host\n", kind, version),
		"proc/driver/nvidia/params":  "ModifyDeviceFiles: 0\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n",
		"proc/devices": fmt.Sprintf("Character devices:\n  1 mem\n%d nvidia-frontend\n%d nvidia-caps\n%d nvidia-uvm\n\nBlock devices:\n",
			majorNVIDIA, majorCaps, majorUVM),
		"sys/module/nvidia/version": version + "\n",
	}
	for i := range p.Devices {
		busID := strings.ToLower(s[fmt.Sprintf("gpu.%d.pci_bus_id", i)])
		if busID == "" || s[fmt.Sprintf("gpu.%d.absent", i)] != "" {
			continue
		}
		files["proc/driver/nvidia/gpus/"+busID+"/information"] = fmt.Sprintf("Model: \t\t %s\nGPU UUID: \t %s\nBus Location: \t %s\nDevice Minor: \t %s\n",
			s[fmt.Sprintf("gpu.%d.name", i)], s[fmt.Sprintf("gpu.%d.uuid", i)], busID, s[fmt.Sprintf("gpu.%d.minor", i)])
	}
	return files
}

// capabilityFiles makes the nodes of MIG devices and the file that numbers them,
// for exactly the partitions of now.
func capabilityFiles(root string, s state) error {
	err := os.RemoveAll(filepath.Join(root, "dev/nvidia-caps"))
	var lines []string
	for key, value := range s {
		var gpu, slot int
		if n, _ := fmt.Sscanf(key, "gpu.%d.mig.%d.gi_cap", &gpu, &slot); n != 2 || !strings.HasSuffix(key, ".gi_cap") {
			continue
		}
		minor, _ := strconv.Atoi(value)
		prefix := fmt.Sprintf("gpu%s/gi%s", s[fmt.Sprintf("gpu.%d.minor", gpu)], s[fmt.Sprintf("gpu.%d.mig.%d.gi", gpu, slot)])
		lines = append(lines, fmt.Sprintf("%s/access %d\n", prefix, minor), fmt.Sprintf("%s/ci0/access %d\n", prefix, minor+1))
		for _, m := range []int{minor, minor + 1} {
			err = errors.Join(err, makeNode(filepath.Join(root, "dev/nvidia-caps", fmt.Sprintf("nvidia-cap%d", m)), majorCaps, m))
		}
	}
	if !hasMIG(s) {
		return err
	}
	for name, m := range map[string]int{"config": 1, "monitor": 2} {
		lines = append(lines, fmt.Sprintf("%s %d\n", name, m))
		err = errors.Join(err, makeNode(filepath.Join(root, "dev/nvidia-caps", fmt.Sprintf("nvidia-cap%d", m)), majorCaps, m))
	}
	sort.Strings(lines)
	return errors.Join(err, writeFile(root, "proc/driver/nvidia-caps/mig-minors", strings.Join(lines, "")))
}

// hasMIG says whether any GPU is capable of MIG.
func hasMIG(s state) bool {
	for key := range s {
		if strings.HasSuffix(key, ".mig_max") {
			return true
		}
	}
	return false
}

// pciFiles makes the PCI functions of the GPUs, which are there with or without
// a driver.
func pciFiles(root string, p *Profile, s state) error {
	var err error
	for i := range p.Devices {
		busID := strings.ToLower(s[fmt.Sprintf("gpu.%d.pci_bus_id", i)])
		if busID == "" {
			continue
		}
		dir := "sys/bus/pci/devices/" + busID + "/"
		err = errors.Join(err, writeFile(root, dir+"vendor", "0x10de\n"), writeFile(root, dir+"class", "0x030200\n"),
			writeFile(root, dir+"device", pciDevice(s[fmt.Sprintf("gpu.%d.pci_device_id", i)])))
		if node, ok := merged(p.Defaults.NVML, p.Devices[i].NVML)["numa_node"].(string); ok {
			err = errors.Join(err, writeFile(root, dir+"numa_node", node))
		}
		link := filepath.Join(root, dir, "driver")
		err = errors.Join(err, os.MkdirAll(filepath.Join(root, "sys/bus/pci/drivers/nvidia"), 0o755),
			removeIfThere(link), os.Symlink("../../drivers/nvidia", link))
	}
	return err
}

// pciDevice is the device half of NVML's PCI id as sysfs writes it.
func pciDevice(id string) string {
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return "0x102d\n"
	}
	return fmt.Sprintf("0x%04x\n", n>>16)
}
