// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package gpuhost

// DriverFiles are the user-space files of the installed driver, found under the
// driver root by driver-files rule §7; which of them a volume holds is the
// volume package's choice.
type DriverFiles struct {
	Version string // the loaded driver's
	// Libraries are in search order (loader cache first). A name can occur twice
	// (two builds of libnvidia-tls). The OpenGL loaders that the loader cache
	// names (libGL, libGLX, libOpenGL, libEGL, libGLES*, libGLdispatch) are
	// among them whoever made them.
	Libraries []Library
	Binaries  []Binary
	// Data are the driver's configuration and data files; absent ones are not an error.
	Data []DataFile
}

// DataFile is a file of the driver that is neither library nor tool.
type DataFile struct {
	Path string // real path, links resolved
	// Name is the path below the data directory (/etc, /usr/share) that the
	// file was found in, "vulkan/icd.d/nvidia_icd.json", "OpenCL/vendors/nvidia.icd",
	// "nvidia/nvoptix.bin".
	Name string
}

// Library is one real (not symbolic link) shared object of the driver.
type Library struct {
	Path   string // real path on this machine, with all links resolved
	Name   string // base name, "libcuda.so.352.39"
	SONAME string // empty when the file has none
	Bits   int    // 32 or 64
	Needed []string
	// ABITag is the OS and version of the .note.ABI-tag section, nil without one.
	ABITag *[4]uint32
	// Links are names of host links to this file beside its SONAME, "libcuda.so".
	Links []string
}

// Binary is one tool of the driver.
type Binary struct {
	Path string // real path, links resolved
	Name string // the plain name, "nvidia-smi"
}
