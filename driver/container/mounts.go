// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/mount"
	"github.com/hashicorp/nomad/plugins/drivers"
)

// mountSet is all that a container has mounted.
type mountSet struct {
	binds        []string
	volumeDriver string
	mounts       []mount.Mount
	tmpfs        map[string]string
	files        []File
}

func (m *mountSet) apply(r *Request) {
	r.HostConfig.Binds, r.HostConfig.VolumeDriver = m.binds, m.volumeDriver
	r.HostConfig.Mounts, r.HostConfig.Tmpfs = m.mounts, m.tmpfs
	r.Files = m.files
}

// mountPart collects the mounts: as Binds the task's directories, then volumes;
// as Mounts those of mount, mounts, the group's hosts and resolv.conf, Nomad's,
// the driver volume, and its libraries where the task wants them singly.
func mountPart(in *Input) (mountSet, findings) {
	m := mountSet{binds: standardBinds(in), volumeDriver: in.Options.VolumeDriver, tmpfs: tmpfs(in.Options.Tmpfs)}
	volumes, f := volumeBinds(in)
	m.binds = append(m.binds, volumes...)
	mounts, more := taskMounts(in)
	m.mounts = append(m.mounts, mounts...)
	f.merge(more)
	for _, plan := range []func(*Input) (*groupFile, findings){hostsFile, resolvFile} {
		file, more := plan(in)
		f.merge(more)
		if file != nil {
			m.mounts = append(m.mounts, file.mount)
			m.files = append(m.files, file.files...)
		}
	}
	m.mounts = append(m.mounts, nomadMounts(in.Task.Mounts)...)
	if v := driverVolume(in); v != nil && !m.holds(in.GPU.Volume.Name, v.Target) {
		m.mounts = append(m.mounts, *v)
	}
	libraries, more := libraryMounts(in)
	for _, l := range libraries {
		if !m.mountsAt(l.Target) { // the job has its own there
			m.mounts = append(m.mounts, l)
		}
	}
	f.merge(more)
	f.merge(m.checkTargets())
	return m, f
}

// standardBinds are the task's own directories (task-driver CC-4).
func standardBinds(in *Input) []string {
	dir := in.Task.TaskDir()
	return []string{
		bind(in, dir.SharedAllocDir, containerDir(in.Task, "NOMAD_ALLOC_DIR", "/alloc"), ""),
		bind(in, dir.LocalDir, containerDir(in.Task, "NOMAD_TASK_DIR", "/local"), ""),
		bind(in, dir.SecretsDir, containerDir(in.Task, "NOMAD_SECRETS_DIR", "/secrets"), ""),
	}
}

// containerDir is where a task finds one of its directories, as Nomad tells it.
func containerDir(task *drivers.TaskConfig, variable, byDefault string) string {
	if dir := task.Env[variable]; dir != "" {
		return dir
	}
	return byDefault
}

// bind writes an entry of Binds. The operator's SELinux label joins the mode, unless
// the job chose one: engines take only one.
func bind(in *Input, source, target, mode string) string {
	var modes []string
	if mode != "" {
		modes = strings.Split(mode, ",")
	}
	if label := in.Plugin.Volumes.SELinuxLabel; label != "" && !slices.Contains(modes, "z") && !slices.Contains(modes, "Z") {
		modes = append(modes, label)
	}
	return plainBind(source, target, strings.Join(modes, ","))
}

// plainBind is an entry of Binds as it is asked for.
func plainBind(source, target, mode string) string {
	if mode == "" {
		return source + ":" + target
	}
	return source + ":" + target + ":" + mode
}

// nomadMounts are host volumes, CSI volumes and device mounts (task-driver CC-18).
func nomadMounts(mounts []*drivers.MountConfig) []mount.Mount {
	all := make([]mount.Mount, 0, len(mounts))
	for _, m := range mounts {
		all = append(all, mount.Mount{
			Type:        mount.TypeBind,
			Source:      m.HostPath,
			Target:      m.TaskPath,
			ReadOnly:    m.Readonly,
			BindOptions: &mount.BindOptions{Propagation: nomadPropagation(m.PropagationMode)},
		})
	}
	return all
}

// nomadPropagation translates the word of a volume_mount; unknown ones go to the
// engine, which names them in its refusal.
func nomadPropagation(mode string) mount.Propagation {
	switch mode {
	case "", "private":
		return mount.PropagationRPrivate
	case "host-to-task":
		return mount.PropagationRSlave
	case "bidirectional":
		return mount.PropagationRShared
	default:
		return mount.Propagation(mode)
	}
}

// tmpfs reads "target[:options]" entries.
func tmpfs(entries []string) map[string]string {
	if len(entries) == 0 {
		return nil
	}
	all := make(map[string]string, len(entries))
	for _, e := range entries {
		target, options, _ := strings.Cut(e, ":")
		all[target] = options
	}
	return all
}

// holds says whether the task itself mounts a named volume read-only at target, as
// jobs for nvidia-docker do.
func (m *mountSet) holds(name, target string) bool {
	if slices.ContainsFunc(m.mounts, func(o mount.Mount) bool {
		return o.Type == mount.TypeVolume && o.Source == name && o.ReadOnly && path.Clean(o.Target) == target
	}) {
		return true
	}
	return m.volumeDriver == VolumeDriverName && slices.ContainsFunc(m.binds, func(b string) bool {
		f := strings.Split(b, ":")
		return len(f) == 3 && f[0] == name && path.Clean(f[1]) == target && slices.Contains(strings.Split(f[2], ","), "ro")
	})
}

// mountsAt says whether something is mounted at target already.
func (m *mountSet) mountsAt(target string) bool {
	return slices.ContainsFunc(m.mounts, func(o mount.Mount) bool { return path.Clean(o.Target) == target }) ||
		slices.ContainsFunc(m.binds, func(b string) bool { return path.Clean(strings.Split(b, ":")[1]) == target })
}

// checkTargets refuses two mounts on one place, as the engine would after the pull.
func (m *mountSet) checkTargets() (f findings) {
	seen := make(map[string]bool)
	visit := func(target string) {
		target = filepath.Clean(target)
		if seen[target] {
			f.option("mount", "Duplicate mount point: %s; give each mount its own target", target)
		}
		seen[target] = true
	}
	for _, b := range m.binds {
		visit(strings.Split(b, ":")[1])
	}
	for _, o := range m.mounts {
		visit(o.Target)
	}
	for target := range m.tmpfs {
		visit(target)
	}
	return f
}
