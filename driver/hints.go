// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"strings"
)

// hints name the option that an engine's answer is about, and the cure. The first
// whose text the answer holds counts; texts are in lower case.
var hints = []struct{ text, hint string }{
	{"unable to find user", `the task's "user" must exist in the image; use a numeric id or another image`},
	{"unable to find group", `"group_add" must name groups of the image; use numeric ids or another image`},
	{"executable file not found", `"command" must be an executable of the image`},
	{`exec: "`, `"command" must be an executable of the image`},
	{"requested cpus are not available", `"cpuset_cpus" must name processors of this node`},
	{"storage-opt", `the engine's storage driver on this node does not support "storage_opt" so`},
	{"sysctl", `"sysctl" may only set what belongs to the container's own namespaces`},
	{"rlimit", `"ulimit" must name limits of the kernel, and none above the engine's own`},
	{"ulimit", `"ulimit" must name limits of the kernel, and none above the engine's own`},
	{"logging plugin", `"logging" must name a log driver of the engine; "docker info" lists them`},
	{"log opt", `the log driver does not take this option of "logging"`},
	{"--security-opt", `"security_opt" must be one that this engine knows`},
	{"unknown capability", `"cap_add" and "cap_drop" must name capabilities of the kernel`},
	{"invalid mode", `the mode of "volumes" must be of ro, rw, z, Z, nocopy and the propagation modes`},
	{"it is not a shared", `the "propagation" of a mount needs a shared mount on the node; use "private", or let the operator make one`},
	{"non-shareable", `the task that "ipc_mode" names must have ipc_mode = "shareable"`},
	{"bind source path does not exist", `the source of a "mount" must exist on the node; one of "volumes" is made when it does not`},
	{"could not select device driver", `the engine has no GPU runtime; use injection = "volume"`},
	{"error gathering device information", `"devices" must name device nodes of this host`},
	{"port is already allocated", "another container publishes this host port"},
	{"bind: " + addressInUse, "another process of the node has this host port"},
	{addressInUse, `another container of this network has the address of "ipv4_address" or "ipv6_address"`},
	{"user specified ip address is supported only", `"ipv4_address" and "ipv6_address" need a network that was created with a subnet`},
	{"it does not belong to any of this network's subnets", `"ipv4_address" and "ipv6_address" must lie in a subnet of the network`},
	{"no available ipv", "the network has no free address; use a larger subnet"},
	{"no available addresses", "the network has no free address; use a larger subnet"},
	{"volume name must be unique", "a volume of this name exists with another driver; remove it with \"docker volume rm\" or choose another name"},
	{"volume plugin nvidia-docker", `the driver volume's socket does not answer; see "gpu-docker doctor", or set volume_mode = "bind"`},
	{"volume plugin", `"volume_driver" and "driver_config" must name a volume driver of the engine`},
	{"unknown runtime", `add the runtime under "runtimes" in the engine's daemon.json and restart the engine`},
	{"no space left on device", "free space in the engine's data directory"},
}

// explain adds the cure, where one is known, to an engine's answer.
func explain(err error) error {
	text := strings.ToLower(err.Error())
	for _, h := range hints {
		if strings.Contains(text, h.text) {
			return fmt.Errorf("%w; %s", err, h.hint)
		}
	}
	return err
}
