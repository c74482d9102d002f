// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
)

// joinedIdle: the container that another one is to join exists and does not run,
// as that of a task of the same group which is just being started.
func joinedIdle(err error) bool {
	text := strings.ToLower(err.Error())
	return errdefs.IsConflict(err) && (strings.Contains(text, "non running container") ||
		strings.Contains(text, "is not running") || strings.Contains(text, "is restarting"))
}

// joinedGone: the network or the container that a new one is to join is not there.
// Engines tell it with 404, or as a fault of the join with 400 or 500.
func joinedGone(err error) bool {
	text := strings.ToLower(err.Error())
	missing := strings.Contains(text, "no such container")
	if errdefs.IsNotFound(err) {
		return missing || strings.Contains(text, "network")
	}
	return missing && strings.Contains(text, "join")
}

// join is what one container has of another, or the network of the engine that it
// is in.
type join struct {
	option, value string // of the job; empty for the group's network
	target        string // name or id of the container or network
	container     bool   // target is a container
	words         []string
}

// joins are those of the request.
func (s *starting) joins() []join {
	h := s.request.HostConfig
	network := join{"network_mode", s.options.NetworkMode, string(h.NetworkMode), false, []string{"join network", "joining network"}}
	if h.NetworkMode.IsContainer() {
		network.target, network.container = h.NetworkMode.ConnectedContainer(), true
	}
	if network.value == "" {
		network.option = ""
	}
	var all []join
	if network.container || h.NetworkMode.IsUserDefined() {
		all = append(all, network)
	}
	for _, j := range []join{
		{"ipc_mode", s.options.IPCMode, h.IpcMode.Container(), true, []string{"join ipc"}},
		{"pid_mode", s.options.PidMode, h.PidMode.Container(), true, []string{"join pid"}},
	} {
		if j.target != "" {
			all = append(all, j)
		}
	}
	return all
}

// joinOf finds what an engine's answer is about: by the namespace that it speaks
// of, else by what it names, else the only one there is.
func (s *starting) joinOf(err error) (join, bool) {
	text := strings.ToLower(err.Error())
	if s.id != "" && strings.Contains(text, "no such container: "+s.id) {
		return join{}, false // our own was removed
	}
	all := s.joins()
	for _, is := range []func(join) bool{
		func(j join) bool {
			return slices.ContainsFunc(j.words, func(w string) bool { return strings.Contains(text, w) })
		},
		func(j join) bool { return strings.Contains(text, strings.ToLower(j.target)) },
		func(join) bool { return len(all) == 1 },
	} {
		if i := slices.IndexFunc(all, is); i >= 0 {
			return all[i], true
		}
	}
	return join{}, false
}

// joinFault explains an answer of 404 or one about what the container is to join;
// engines tell at its creation or at its start (task-driver AN-5). What is joined
// may come, so another try may do.
func (s *starting) joinFault(answer, failed error) error {
	j, found := s.joinOf(answer)
	switch {
	case !found:
		return recoverable(failed)
	case j.option == "":
		return recoverable(fmt.Errorf("%w; the group's network container is gone or does not run", failed))
	case j.container:
		return recoverable(fmt.Errorf("%w; %q %q must name a container or task that runs already; start that task first, as a prestart sidecar", failed, j.option, j.value))
	default:
		return recoverable(fmt.Errorf("%w; %q %q must name a network of the engine or a running task", failed, j.option, j.value))
	}
}
