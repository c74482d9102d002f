// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Command gpu-docker is one binary with several roles: Nomad's task driver
// gpu-docker, Nomad's device plugin nvidia-gpu, the wrapper nvidia-docker, and a
// command line. Package cli tells the roles apart.
package main

import (
	"os"

	"github.com/hashicorp/nomad/plugins/base"

	"github.com/gpu-docker/gpu-docker/cli"
	"github.com/gpu-docker/gpu-docker/device"
	"github.com/gpu-docker/gpu-docker/driver"
	"github.com/gpu-docker/gpu-docker/driver/logship"
	"github.com/gpu-docker/gpu-docker/gpuhost"
)

func main() {
	gpuhost.CUDAProbeMain()
	cookie := os.Getenv(base.Handshake.MagicCookieKey)
	switch cli.RoleOf(os.Args, cookie == base.Handshake.MagicCookieValue) {
	case cli.RoleDriver:
		driver.Serve(cli.Version)
	case cli.RoleDevice:
		device.Serve(cli.Version)
	case cli.RoleLogHolder:
		os.Exit(logship.HolderMain(os.Args[2:]))
	case cli.RoleWrapper:
		os.Exit(cli.NVIDIADocker(os.Args))
	default:
		os.Exit(cli.Main(os.Args[1:]))
	}
}
