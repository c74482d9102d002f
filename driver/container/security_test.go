// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docker/docker/api/types/system"
	"github.com/shoenig/test/must"
	"golang.org/x/sys/unix"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

func TestSecurity_Privileged(t *testing.T) {
	t.Parallel()
	in := newInput(t, "privileged = true")
	assembleError(t, in, "privileged: Docker privileged mode is disabled on this Nomad agent")
	assembleError(t, grant(in), "privileged: Docker privileged mode is disabled on this Nomad agent")
	in.Plugin.AllowPrivileged = true
	must.True(t, assembleWarns(t, in, "can use every GPU of this node").HostConfig.Privileged)
	must.False(t, assemble(t, newInput(t, "")).HostConfig.Privileged)
}

func TestSecurity_Namespaces(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		option, mode string
		free         bool // needs no privilege
	}{
		{"pid_mode", "host", false},
		{"pid_mode", "container:x", false},
		{"uts_mode", "host", false},
		{"userns_mode", "host", false},
		{"ipc_mode", "host", false},
		{"ipc_mode", "container:x", false},
		{"cgroupns", "host", false},
		{"cgroupns", "private", true},
		{"ipc_mode", "shareable", true},
		{"ipc_mode", "none", true},
		{"ipc_mode", "task:db", true},
	} {
		t.Run(tc.option+" "+tc.mode, func(t *testing.T) {
			in := newInput(t, tc.option+` = "`+tc.mode+`"`)
			if !tc.free {
				assembleError(t, in, tc.option+`: "`+tc.mode+`" shares a namespace that is not the task's own`)
				in.Plugin.AllowPrivileged = true
			}
			h := assemble(t, in).HostConfig
			want := tc.mode
			if want == "task:db" {
				want = "container:db_" + testAllocID
			}
			must.SliceContains(t, []string{string(h.PidMode), string(h.UTSMode), string(h.UsernsMode), string(h.IpcMode), string(h.CgroupnsMode)}, want)
		})
	}
}

func TestSecurity_Capabilities(t *testing.T) {
	t.Parallel()
	all := []string{"all"}
	for _, tc := range []struct {
		name               string
		allow, add, drop   []string
		wantAdd, wantDrop  []string
		wantError          string
		lastCapability     int
		defaultAllowedCaps bool
	}{
		{name: "default", defaultAllowedCaps: true, wantDrop: []string{"net_raw"}},
		{name: "add allowed", defaultAllowedCaps: true, add: []string{"CAP_FOWNER", "mknod"}, drop: all, wantAdd: []string{"fowner", "mknod"}, wantDrop: all},
		{name: "add forbidden", defaultAllowedCaps: true, add: []string{"sys_time", "NET_ADMIN", "kill"},
			wantError: "cap_add: driver does not allow the following capabilities: net_admin, sys_time"},
		{name: "drop", defaultAllowedCaps: true, drop: []string{"fowner", "Mknod", "net_raw"}, wantDrop: []string{"fowner", "mknod", "net_raw"}},
		{name: "restricted, drop all", allow: []string{"fowner", "mknod"}, drop: all, wantDrop: all},
		{name: "restricted", allow: []string{"FOWNER", "cap_mknod"},
			wantDrop: []string{"audit_write", "chown", "dac_override", "fsetid", "kill", "net_bind_service", "net_raw", "setfcap", "setgid", "setpcap", "setuid", "sys_chroot"}},
		{name: "restricted, add forbidden", allow: []string{"fowner"}, add: []string{"mknod", "fowner"}, wantError: "capabilities: mknod;"},
		{name: "everything allowed", allow: []string{"ALL"}, add: []string{"sys_admin"}, wantAdd: []string{"sys_admin"}},
		{name: "add all", allow: all, add: all, wantAdd: all},
		{name: "add all forbidden", allow: slices.DeleteFunc(slices.Clone(kernelCapabilities), func(c string) bool { return c == "bpf" }), add: all,
			wantError: "capabilities: bpf;"},
		{name: "add all on an old kernel", allow: slices.DeleteFunc(slices.Clone(kernelCapabilities), func(c string) bool { return c == "bpf" }), add: all,
			lastCapability: 38, wantAdd: all},
		{name: "nothing allowed", allow: []string{}, wantDrop: engineCapabilities},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := newInput(t, "")
			if !tc.defaultAllowedCaps {
				in.Plugin.AllowCaps = tc.allow
			}
			if tc.lastCapability > 0 {
				in.Host.LastCapability = tc.lastCapability
			}
			in.Options.CapAdd, in.Options.CapDrop = tc.add, tc.drop
			if tc.wantError != "" {
				assembleError(t, in, tc.wantError)
				return
			}
			h := assemble(t, in).HostConfig
			must.True(t, slices.Equal(tc.wantAdd, h.CapAdd), must.Sprint(h.CapAdd))
			must.True(t, slices.Equal(tc.wantDrop, h.CapDrop), must.Sprint(h.CapDrop))
		})
	}
}

func TestSecurity_Runtime(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, runtime   string
		allowed, engine []string
		engineDefault   string
		api             string // of the engine
		gpu             bool
		injection       string
		injecting       string // a runtime that gives GPUs away by its program
		want, wantError string
		wantVolume      bool
	}{
		{name: "none", want: ""},
		{name: "allowed", runtime: "runc", want: "runc"},
		{name: "not allowed", runtime: "kata", wantError: `runtime: requested runtime "kata" is not allowed; use one of ["runc" "nvidia"]`},
		{name: "not registered", runtime: "nvidia", wantError: `runtime: requested docker runtime "nvidia" was not found`},
		{name: "registered", runtime: "nvidia", engine: []string{"nvidia"}, want: "nvidia"},
		{name: "a shim that the engine finds itself", runtime: "io.containerd.kata.v2", allowed: []string{"io.containerd.kata.v2"}, api: "1.42", want: "io.containerd.kata.v2"},
		{name: "a shim, older engine", runtime: "io.containerd.kata.v2", allowed: []string{"io.containerd.kata.v2"}, wantError: `requested docker runtime "io.containerd.kata.v2" was not found`},
		{name: "a shim that is not allowed", runtime: "io.containerd.kata.v2", api: "1.42", wantError: `requested runtime "io.containerd.kata.v2" is not allowed`},
		{name: "a path", runtime: "/opt/kata.v2", allowed: []string{"/opt/kata.v2"}, api: "1.42", wantError: `requested docker runtime "/opt/kata.v2" was not found`},
		{name: "a GPU needs none", gpu: true, want: "", wantVolume: true},
		{name: "a GPU and the NVIDIA runtime by choice", gpu: true, runtime: "nvidia", engine: []string{"nvidia"}, want: "nvidia"},
		{name: "injection", gpu: true, injection: "runtime", engine: []string{"nvidia"}, want: "nvidia"},
		{name: "injection, no GPU", injection: "runtime", want: ""},
		{name: "injection, not registered", gpu: true, injection: "runtime", wantError: `requested docker runtime "nvidia" was not found; add it under "runtimes"`},
		{name: "injection, not allowed", gpu: true, injection: "runtime", allowed: []string{"runc"}, engine: []string{"nvidia"}, wantError: `requested runtime "nvidia" is not allowed`},
		{name: "injection and the same choice", gpu: true, injection: "runtime", runtime: "nvidia", engine: []string{"nvidia"}, want: "nvidia"},
		{name: "injection and another choice", gpu: true, injection: "runtime", runtime: "runc", engine: []string{"nvidia"},
			wantError: `conflicting runtime requests: gpu runtime "nvidia" conflicts with task runtime "runc"`},
		{name: "default runtime injects", engineDefault: "nvidia", want: "runc"},
		{name: "default runtime injects, with a GPU", engineDefault: "nvidia", gpu: true, want: "runc", wantVolume: true},
		{name: "default runtime injects, by its program", engineDefault: "gpu", injecting: "gpu", want: "runc"},
		{name: "choice injects, by its program", runtime: "gpu", injecting: "gpu", gpu: true, allowed: []string{"gpu"}, engine: []string{"gpu"}, want: "gpu"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := newInput(t, "")
			in.Options.Runtime = tc.runtime
			if tc.gpu {
				grant(in)
			}
			if tc.allowed != nil {
				in.Plugin.AllowRuntimes = tc.allowed
			}
			if tc.injection != "" {
				in.Plugin.GPU.Injection = tc.injection
			}
			if tc.engineDefault != "" {
				in.Engine.DefaultRuntime = tc.engineDefault
			}
			if tc.api != "" {
				in.Engine.APIVersion = tc.api
			}
			if tc.injecting != "" {
				in.Engine.NVIDIARuntimes = []string{tc.injecting}
			}
			in.Engine.Runtimes = append(in.Engine.Runtimes, tc.engine...)
			if tc.wantError != "" {
				assembleError(t, in, tc.wantError)
				return
			}
			h := assemble(t, in).HostConfig
			must.Eq(t, tc.want, h.Runtime)
			must.Eq(t, tc.wantVolume, len(h.Mounts) == 1)
		})
	}
}

// TestIsNVIDIARuntime: what gives GPUs away is known by name or by program (cases SEC-02).
func TestIsNVIDIARuntime(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		told system.Runtime
		want bool
	}{
		{"nvidia", system.Runtime{}, true},
		{"nvidia-cdi", system.Runtime{Path: "runc"}, true},
		{"of-the-operator", system.Runtime{Path: "runc"}, true},
		{"gpu", system.Runtime{Path: "/usr/bin/nvidia-container-runtime"}, true},
		{"gpu", system.Runtime{Type: "io.containerd.runc.v2", Options: map[string]any{"BinaryName": "/usr/bin/nvidia-container-runtime.legacy"}}, true},
		{"runc", system.Runtime{Path: "runc"}, false},
		{"own", system.Runtime{Path: "/opt/nvidia/bin/runc"}, false},
		{"kata", system.Runtime{Type: "io.containerd.kata.v2", Options: map[string]any{"BinaryName": 1}}, false},
		{"", system.Runtime{}, false},
	} {
		p := config.DefaultPlugin()
		p.NVIDIARuntime = "of-the-operator"
		must.Eq(t, tc.want, IsNVIDIARuntime(p, tc.name, tc.told), must.Sprint(tc))
	}
}

func TestSecurity_Options(t *testing.T) {
	t.Parallel()
	profile := filepath.Join(t.TempDir(), "seccomp.json")
	must.NoError(t, os.WriteFile(profile, []byte("{\n  \"defaultAction\": \"SCMP_ACT_ALLOW\"\n}\n"), 0o600))
	in := newInput(t, `security_opt = ["no-new-privileges", "seccomp=unconfined", "seccomp=builtin", "label:disable", "apparmor=x", "seccomp=`+profile+`"]
		apparmor_profile = "mine"`)
	must.Eq(t, []string{
		"no-new-privileges", "seccomp=unconfined", "seccomp=builtin", "label:disable", "apparmor=x",
		`seccomp={"defaultAction":"SCMP_ACT_ALLOW"}`, "apparmor=mine",
	}, assemble(t, in).HostConfig.SecurityOpt)
	must.Nil(t, assemble(t, newInput(t, "")).HostConfig.SecurityOpt)
}

func TestSecurity_SeccompFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken, large, pipe := filepath.Join(dir, "broken"), filepath.Join(dir, "large"), filepath.Join(dir, "pipe")
	must.NoError(t, os.WriteFile(broken, []byte("{"), 0o600))
	must.NoError(t, os.WriteFile(large, make([]byte, maxSeccompProfile+1), 0o600))
	must.NoError(t, unix.Mkfifo(pipe, 0o600))
	for _, tc := range []struct{ name, opt, want string }{
		{"missing", "seccomp=/nonexistent", "security_opt[0]: opening seccomp profile (/nonexistent) failed"},
		{"missing, colon", "seccomp:/nonexistent", "opening seccomp profile (/nonexistent) failed"},
		{"broken", "seccomp=" + broken, "compacting json for seccomp profile (" + broken + ") failed"},
		{"large", "seccomp=" + large, "failed: larger than 1048576 bytes"},
		{"pipe", "seccomp=" + pipe, "failed: not a regular file"},
		{"endless", "seccomp=/dev/zero", "failed: not a regular file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assembleError(t, newInput(t, `security_opt = ["`+tc.opt+`"]`), tc.want)
		})
	}
}

func TestSecurity_AllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	_, _, err := Assemble(newInput(t, "privileged = true\npid_mode = \"host\"\ncap_add = [\"bpf\"]\nruntime = \"x\"\nvolumes = [\"/etc:/e\"]\nports = [\"p\"]\noom_score_adj = -1"))
	for _, option := range []string{"privileged", "pid_mode", "cap_add", "runtime", "volumes[0]", "ports[0]", "oom_score_adj"} {
		must.ErrorContains(t, err, "task config: "+option+": ")
	}
}
