// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/strslice"
)

// security is the part of a request that widens or narrows what the task may do.
type security struct {
	privileged, readonlyRootfs bool
	capAdd, capDrop            []string
	securityOpt, groupAdd      []string
	pid                        container.PidMode
	uts                        container.UTSMode
	userns                     container.UsernsMode
	ipc                        container.IpcMode
	cgroupns                   container.CgroupnsMode
	runtime                    string
}

func (s *security) apply(h *container.HostConfig) {
	h.Privileged, h.ReadonlyRootfs = s.privileged, s.readonlyRootfs
	h.CapAdd, h.CapDrop = strslice.StrSlice(s.capAdd), strslice.StrSlice(s.capDrop)
	h.SecurityOpt, h.GroupAdd = s.securityOpt, s.groupAdd
	h.PidMode, h.UTSMode, h.UsernsMode, h.IpcMode = s.pid, s.uts, s.userns, s.ipc
	h.CgroupnsMode, h.Runtime = s.cgroupns, s.runtime
}

func securityPart(in *Input) (security, findings) {
	var f findings
	o := in.Options
	s := security{
		privileged:     o.Privileged,
		readonlyRootfs: o.ReadonlyRootfs,
		groupAdd:       slices.Clone(o.GroupAdd),
		pid:            container.PidMode(o.PidMode),
		uts:            container.UTSMode(o.UTSMode),
		userns:         container.UsernsMode(o.UsernsMode),
		ipc:            ipcMode(in),
		cgroupns:       container.CgroupnsMode(o.CgroupNS),
	}
	if o.Privileged {
		if !in.Plugin.AllowPrivileged {
			f.option("privileged", "Docker privileged mode is disabled on this Nomad agent; remove the option, or let the operator set allow_privileged")
		}
		f.warn("a privileged task can use every GPU of this node, reserved or not")
	}
	checkNamespaces(in, &f)
	var more [3]findings
	s.capAdd, s.capDrop, more[0] = capabilities(in)
	s.securityOpt, more[1] = securityOpts(o)
	s.runtime, more[2] = runtimeName(in)
	for _, m := range more {
		f.merge(m)
	}
	return s, f
}

// ipcMode is the task's choice, else the operator's for GPU tasks.
func ipcMode(in *Input) container.IpcMode {
	if in.Options.IPCMode == "" && in.GPU != nil {
		return container.IpcMode(in.Plugin.GPU.Defaults.IPCMode)
	}
	return container.IpcMode(joinedMode(in, in.Options.IPCMode))
}

// checkNamespaces refuses to share the host's or a foreign container's namespaces
// with a task, unless the operator allows privileged tasks.
func checkNamespaces(in *Input, f *findings) {
	if in.Plugin.AllowPrivileged {
		return
	}
	o := in.Options
	for _, n := range []struct{ option, mode string }{
		{"pid_mode", o.PidMode},
		{"uts_mode", o.UTSMode},
		{"userns_mode", o.UsernsMode},
		{"ipc_mode", o.IPCMode},
		{"cgroupns", o.CgroupNS},
	} {
		if n.mode == "host" || strings.HasPrefix(n.mode, containerModePrefix) {
			f.option(n.option, "%q shares a namespace that is not the task's own and is disabled on this Nomad agent; remove the option, or let the operator set allow_privileged", n.mode)
		}
	}
}
