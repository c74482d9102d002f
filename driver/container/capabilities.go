// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"slices"
	"strings"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// kernelCapabilities are the kernel's capabilities; the index is the number.
var kernelCapabilities = []string{
	"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid",
	"setpcap", "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw",
	"ipc_lock", "ipc_owner", "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct",
	"sys_admin", "sys_boot", "sys_nice", "sys_resource", "sys_time", "sys_tty_config", "mknod",
	"lease", "audit_write", "audit_control", "setfcap", "mac_override", "mac_admin", "syslog",
	"wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf", "checkpoint_restore",
}

// engineCapabilities are what the engine gives a container by default.
var engineCapabilities = []string{
	"audit_write", "chown", "dac_override", "fowner", "fsetid", "kill", "mknod",
	"net_bind_service", "net_raw", "setfcap", "setgid", "setpcap", "setuid", "sys_chroot",
}

// allCapabilities stands for every capability of the kernel.
const allCapabilities = "all"

// capabilities are what to add to and drop from the engine's default set, sorted,
// in lower case without prefix. What the operator does not allow is dropped, or
// refused when the task asks for it (task-driver CC-12).
func capabilities(in *Input) (add, drop []string, f findings) {
	allowed := expand(normal(in.Plugin.AllowCaps), in.Host.LastCapability)
	add, drop = normal(in.Options.CapAdd), normal(in.Options.CapDrop)
	if missing := without(expand(add, in.Host.LastCapability), allowed); len(missing) > 0 {
		f.option("cap_add", "driver does not allow the following capabilities: %s; remove them, or let the operator add them to allow_caps",
			strings.Join(missing, ", "))
	}
	return collapse(add), collapse(append(drop, without(engineCapabilities, allowed)...)), f
}

// normal spells each capability the one way in which they are compared.
func normal(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = config.NormalCapability(n)
	}
	return out
}

// expand replaces "all" by what the kernel supports.
func expand(names []string, last int) []string {
	if !slices.Contains(names, allCapabilities) {
		return names
	}
	if last <= 0 || last >= len(kernelCapabilities) {
		return kernelCapabilities
	}
	return kernelCapabilities[:last+1]
}

// collapse sorts a list and leaves out doubles; one with "all" is just that.
func collapse(names []string) []string {
	if slices.Contains(names, allCapabilities) {
		return []string{allCapabilities}
	}
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// without is names less the others, sorted.
func without(names, others []string) []string {
	var rest []string
	for _, n := range names {
		if !slices.Contains(others, n) {
			rest = append(rest, n)
		}
	}
	slices.Sort(rest)
	return rest
}
