// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

// origin tells how the number in a library's file name proves whose it is.
type origin int

const (
	ofDriver origin = iota // the file name ends in the driver's version
	ofItself               // the library has a version of its own
)

// libraryRule says which capabilities need a library.
type libraryRule struct {
	caps   capSet
	origin origin
}

// libraryRules has the driver's libraries by file name up to ".so". What is not
// here but carries the driver's version and an NVIDIA name counts as compute,
// because new drivers add libraries.
var libraryRules = map[string]libraryRule{
	"libcuda":                   {compute, ofDriver},            // the CUDA driver API
	"libnvidia-ptxjitcompiler":  {compute, ofDriver},            // compiles PTX when a kernel is loaded; dlopened by libcuda
	"libnvidia-nvvm":            {compute, ofItself},            // NVVM for the PTX compiler and OpenCL; 470 calls it libnvidia-nvvm.so.4.0.0
	"libnvidia-nvvm70":          {compute, ofItself},            // NVVM of the newest branches; never has the driver's version
	"libnvidia-pkcs11":          {compute, ofDriver},            // confidential computing, OpenSSL 1.1
	"libnvidia-pkcs11-openssl3": {compute, ofDriver},            // confidential computing, OpenSSL 3
	"libcudadebugger":           {compute, ofDriver},            // cuda-gdb's back end; dlopened by libcuda
	"libnvidia-gpucomp":         {compute | graphics, ofDriver}, // shader compiler; the OpenGL cores link against it from 550 on
	"libnvidia-tileiras":        {compute, ofDriver},            // tile compiler of the newest branches
	"libnvidia-fatbinaryloader": {compute, ofDriver},            // libcuda links against it in branches 361 to 418
	"libnvidia-allocator":       {compute | graphics, ofDriver}, // buffer allocation; also the GBM back end
	"libnvidia-opencl":          {compute, ofDriver},            // OpenCL driver
	"libnvidia-compiler":        {compute, ofDriver},            // OpenCL compiler before 535
	"libnvidia-ml":              {utility, ofDriver},            // NVML; nvidia-smi is built on it
	"libnvidia-cfg":             {utility, ofDriver},            // GPU configuration; nvidia-persistenced loads it
	"libnvidia-nscq":            {utility, ofDriver},            // NVSwitch queries
	"libnvcuvid":                {video, ofDriver},              // video decoding
	"libnvidia-encode":          {video, ofDriver},              // video encoding
	"libnvidia-opticalflow":     {video, ofDriver},              // optical flow engine
	"libvdpau_nvidia":           {video, ofDriver},              // VDPAU driver
	"libnvidia-glcore":          {graphics, ofDriver},           // OpenGL core for GLX
	"libnvidia-eglcore":         {graphics, ofDriver},           // OpenGL core for EGL and OpenGL ES
	"libnvidia-glsi":            {graphics, ofDriver},           // interaction of the two cores
	"libnvidia-tls":             {graphics, ofDriver},           // thread-local storage of the cores; two builds in old drivers
	"libGLX_nvidia":             {graphics, ofDriver},           // GLX vendor library; also the Vulkan driver
	"libEGL_nvidia":             {graphics, ofDriver},           // EGL vendor library
	"libGLESv1_CM_nvidia":       {graphics, ofDriver},           // OpenGL ES 1 vendor library
	"libGLESv2_nvidia":          {graphics, ofDriver},           // OpenGL ES 2 and 3 vendor library
	"libnvidia-glvkspirv":       {graphics, ofDriver},           // SPIR-V compiler of Vulkan and OpenGL
	"libnvidia-rtcore":          {graphics, ofDriver},           // ray tracing
	"libnvoptix":                {graphics, ofDriver},           // OptiX
	"libnvidia-cbl":             {graphics, ofDriver},           // Vulkan ray tracing in branches 418 to 470
	"libnvidia-vulkan-producer": {graphics, ofDriver},           // Vulkan direct to display
	"libnvidia-fbc":             {graphics, ofDriver},           // frame buffer capture
	"libnvidia-ifr":             {graphics, ofDriver},           // in-band frame readback, up to 470
	"libnvidia-egl-gbm":         {graphics, ofItself},           // EGL on GBM
	"libnvidia-egl-wayland":     {graphics, ofItself},           // EGL on Wayland
	"libnvidia-egl-wayland2":    {graphics, ofItself},           // EGL on Wayland, second generation
	"libnvidia-egl-xcb":         {graphics, ofItself},           // EGL on X11 over XCB
	"libnvidia-egl-xlib":        {graphics, ofItself},           // EGL on X11 over Xlib
	"libnvidia-ngx":             {ngx, ofDriver},                // deep-learning features of games (DLSS)
}

// expectedLibraries are 64-bit libraries of every whole driver since a branch. They
// are opened by name when a program needs them, so that nothing tells their absence
// before it fails (cases VOL-10).
var expectedLibraries = []struct {
	stem  string
	since int
}{
	{"libnvidia-ml", 0},
	{"libnvidia-ptxjitcompiler", 361}, // without it no kernel in PTX can be loaded
	{"libnvidia-opencl", 0},
	{"libnvcuvid", 0},
	{"libnvidia-encode", 0},
}

// configsSince is the branch from which on configuration files are expected; images
// for older drivers bring their own, as they did with nvidia-docker v1.
const configsSince = 375

// expectedConfigs are configuration files by which a loader finds a library of the
// driver (cases VOL-06).
var expectedConfigs = []struct{ library, name string }{
	{"libGLX_nvidia", "vulkan/icd.d/nvidia_icd.json"},
	{"libEGL_nvidia", "glvnd/egl_vendor.d/10_nvidia.json"},
	{"libnvidia-opencl", "OpenCL/vendors/nvidia.icd"},
}

// neverLibraries belong to the host's X server or its configuration tools.
var neverLibraries = map[string]bool{
	"libglx":                   true, // X server module before 410
	"libglxserver_nvidia":      true, // X server module
	"nvidia_drv":               true, // X server driver
	"libnvidia-wfb":            true, // X server frame buffer
	"libnvidia-gtk2":           true, // window of nvidia-settings
	"libnvidia-gtk3":           true, // the same
	"libnvidia-wayland-client": true, // window of nvidia-settings
}

// loaders are the OpenGL libraries that programs link against. True: several
// vendors make one under this name, so what the file needs has to prove that
// it is NVIDIA's or GLVND's (VF-5).
var loaders = map[string]bool{
	"libGL":         true,
	"libEGL":        true,
	"libGLESv1_CM":  true,
	"libGLESv2":     true,
	"libGLX":        false,
	"libOpenGL":     false,
	"libGLdispatch": false,
}

// binaryRules has the tools that a container can use.
var binaryRules = map[string]capSet{
	"nvidia-smi":              utility, // the view of the GPUs
	"nvidia-debugdump":        utility, // dump for NVIDIA's support
	"nvidia-persistenced":     utility, // keeps GPUs initialised
	"nvidia-cuda-mps-control": compute, // control of the multi-process service
	"nvidia-cuda-mps-server":  compute, // its server
}
