// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

import (
	"strings"
	"unsafe"
)

// initialise starts NVML and asks what does not change while it runs.
func initialise(c *caller, now stamp) (Driver, error) {
	driver := Driver{KernelVersion: now.kernel}
	if err := c.call(fnInit); err != nil {
		return driver, err
	}
	return driver, askVersions(c, &driver)
}

// askVersions asks for the versions of the driver. One that cannot be told is not
// worth refusing a driver that works: the reason is kept beside it. The error is
// that of a call that hangs.
func askVersions(c *caller, driver *Driver) error {
	driver.Version, driver.VersionErr = c.systemText(fnDriverVersion, 80)
	if notTold(driver.VersionErr) {
		driver.Version, driver.VersionErr = driver.KernelVersion, nil
	}
	if version, err := c.systemText(fnNVMLVersion, 80); err == nil {
		driver.NVMLVersion = version
	}
	var cuda int32
	driver.CUDAErr = c.call(fnCUDAVersion, uintptr(unsafe.Pointer(&cuda)))
	if driver.CUDAErr == nil {
		driver.CUDA = cudaVersionOf(int(cuda))
	}
	if notTold(driver.CUDAErr) {
		driver.CUDAErr = nil
	}
	return c.fault
}

// askAgain repeats the questions for versions that failed when the session began.
func (h *Host) askAgain(s *session) {
	if s.driver.VersionErr == nil && s.driver.CUDAErr == nil {
		return
	}
	was := s.driver
	now, err := onLane(h.hostLane, s.nvml, func(c *caller) (Driver, error) {
		driver := Driver{KernelVersion: was.KernelVersion, Library: was.Library}
		err := askVersions(c, &driver)
		return driver, err
	})
	if err == nil {
		s.driver = now
	}
}

// reportSymbols tells once which calls this driver's library does not have.
func (h *Host) reportSymbols(n *nvml, version string) {
	if missing := n.missing(); len(missing) > 0 {
		h.once("symbols "+version, func() {
			h.log.Warn("the driver's NVML library lacks functions; what they tell is left out",
				"driver", version, "functions", strings.Join(missing, " "))
		})
	}
}
