// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// xidEvent is NVML's event type of a critical XID.
const xidEvent = 8

// XID reports a critical error of a GPU: the kernel's XID number. Event sets
// that wait for it wake at once.
func (h *Host) XID(gpu, code int) error {
	if code < 0 {
		return fmt.Errorf("XID %d is negative", code)
	}
	return h.Event(gpu, xidEvent, uint64(code))
}

// Event reports an event of NVML's type to the event sets that wished for it.
func (h *Host) Event(gpu int, kind, data uint64) error {
	unlock, err := lockRoot(h.root)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := readState(h.root)
	if err != nil {
		return err
	}
	if err := s.checkGPU(gpu); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(stateDir(h.root), "events"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("event log of the simulated host %q: %w", h.root, err)
	}
	const noInstance = 1<<32 - 1
	_, err = fmt.Fprintf(log, "%d %d %d %d %d\n", gpu, kind, data, noInstance, noInstance)
	return errors.Join(err, log.Close())
}

// Lose lets a GPU fall off the bus: everything asked about it is GPU_IS_LOST.
func (h *Host) Lose(gpu int) error { return h.mark(gpu, "lost", true) }

// Restore brings a lost GPU back.
func (h *Host) Restore(gpu int) error { return h.mark(gpu, "lost", false) }

func (h *Host) mark(gpu int, key string, on bool) error {
	return changeState(h.root, func(s state) error {
		if err := s.checkGPU(gpu); err != nil {
			return err
		}
		var value *string
		if on {
			value = new("1")
		}
		s.put(fmt.Sprintf("gpu.%d.%s", gpu, key), value)
		return nil
	})
}

// Unload takes the kernel module away: device nodes and /proc/driver/nvidia go,
// and NVML answers DRIVER_NOT_LOADED in every process.
func (h *Host) Unload() error {
	return changeState(h.root, func(s state) error {
		delete(s, "driver_loaded")
		return removeKernelFiles(h.root)
	})
}

// Load loads the kernel module of the installed version again.
func (h *Host) Load() error {
	p, err := h.Profile()
	if err != nil {
		return err
	}
	return changeState(h.root, func(s state) error {
		if v := s["libraries_version"]; v != "" {
			s["driver_version"] = v // a reload ends a half-finished upgrade
			delete(s, "libraries_version")
		}
		s["driver_loaded"] = "1"
		return kernelFiles(h.root, p, s)
	})
}

// Upgrade installs another driver version and loads its kernel module, as a
// package upgrade with a module reload does. Processes that still have the old
// library open get LIB_RM_VERSION_MISMATCH from it.
func (h *Host) Upgrade(version string) error {
	return h.upgrade(version, true)
}

// UpgradeLibraries installs another driver version without loading its kernel
// module, as an unattended package upgrade does: the new library does not fit
// the old module (LIB_RM_VERSION_MISMATCH) until Unload and Load.
func (h *Host) UpgradeLibraries(version string) error {
	return h.upgrade(version, false)
}

func (h *Host) upgrade(version string, module bool) error {
	if !versionForm.MatchString(version) {
		return fmt.Errorf("driver version %q must look like \"535.104.05\"", version)
	}
	p, err := h.Profile()
	if err != nil {
		return err
	}
	made, err := compiled(context.Background()) // in the cache since Up
	if err != nil {
		return err
	}
	return changeState(h.root, func(s state) error {
		module := module && s["driver_loaded"] != ""
		old := s["driver_version"]
		p.DriverVersion, p.NVMLVersion, p.CUDADriverVersion = version, "", cudaVersionOf(version, p.CUDADriverVersion)
		s["driver_version"], s["nvml_version"] = version, p.nvmlVersion()
		s["cuda_driver_version"] = strconv.Itoa(p.CUDADriverVersion)
		if err := replaceDriver(h.root, made, p, s); err != nil {
			return err
		}
		if module {
			return kernelFiles(h.root, p, s)
		}
		s["driver_version"], s["libraries_version"] = old, version
		return nil
	})
}

// cudaVersions are the newest CUDA versions of driver branches, by the first
// driver that has them.
var cudaVersions = []struct{ branch, cuda int }{
	{340, 6050}, {346, 7000}, {352, 7050}, {367, 8000}, {384, 9000}, {390, 9010}, {396, 9020}, {410, 10000}, {418, 10010},
	{440, 10020}, {450, 11000}, {455, 11010}, {460, 11020}, {465, 11030}, {470, 11040}, {495, 11050}, {510, 11060},
	{515, 11070}, {520, 11080}, {525, 12000}, {530, 12010}, {535, 12020}, {545, 12030}, {550, 12040}, {555, 12050},
	{560, 12060}, {565, 12070}, {570, 12080}, {575, 12090}, {580, 13000},
}

// cudaVersionOf is the CUDA version of a driver; the one given if it is older
// than all that are known.
func cudaVersionOf(version string, otherwise int) int {
	for _, v := range cudaVersions {
		if v.branch <= driverBranch(version) {
			otherwise = v.cuda
		}
	}
	return otherwise
}

// replaceDriver installs the state's version and removes the files that only the
// old one had.
func replaceDriver(root, made string, p *Profile, s state) error {
	manifest := filepath.Join(stateDir(root), "files.json")
	before, err := readManifest(manifest)
	if err != nil {
		return err
	}
	if err := installDriver(root, made, p, s); err != nil {
		return err
	}
	after, err := readManifest(manifest)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for _, path := range after {
		kept[path] = true
	}
	for _, path := range before {
		if !kept[path] {
			err = errors.Join(err, removeIfThere(filepath.Join(root, path)))
		}
	}
	return err
}

func readManifest(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var files []string
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("%q: %w", path, err)
	}
	return files, nil
}
