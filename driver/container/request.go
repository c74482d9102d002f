// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// ErrNoResources is returned for a task without resources (task-driver CC-3).
var ErrNoResources = errors.New("task.Resources is empty")

// Request is a create request, ready for the engine but for its files.
type Request struct {
	Name       string
	Config     *container.Config
	HostConfig *container.HostConfig
	Networking *network.NetworkingConfig
	// Platform is nil for the engine's own.
	Platform *ocispec.Platform
	// Files must lie on the host before the container is created; see WriteFiles.
	Files []File
}

// Assemble builds the create request of a task. The error joins every fault, each
// with its option; all of them are permanent. Warnings are for the user, also
// beside an error.
func Assemble(in *Input) (*Request, []Warning, error) {
	if err := checkResources(in); err != nil {
		return nil, nil, err
	}
	r := &Request{
		Name:       Name(in.Plugin, in.Task),
		Config:     process(in),
		HostConfig: &container.HostConfig{Init: initProcess(in), LogConfig: logging(in)},
		Platform:   platform(in.Options),
	}
	var all findings
	for _, area := range []func(*Request, *Input) findings{
		(*Request).setEnvironment,
		(*Request).setLabels,
		(*Request).setSecurity,
		(*Request).setResources,
		(*Request).setDevices,
		(*Request).setMounts,
		(*Request).setNetwork,
	} {
		all.merge(area(r, in))
	}
	if err := all.err(); err != nil {
		return nil, all.warnings, err
	}
	hash, err := r.hash()
	if err != nil {
		return nil, all.warnings, err
	}
	r.Config.Labels[LabelSpecHash] = hash
	return r, all.warnings, nil
}

func (r *Request) setEnvironment(in *Input) (f findings) {
	r.Config.Env, f = environment(in)
	return f
}

func (r *Request) setLabels(in *Input) (f findings) {
	r.Config.Labels, f = labels(in)
	return f
}

func (r *Request) setSecurity(in *Input) findings {
	s, f := securityPart(in)
	s.apply(r.HostConfig)
	return f
}

// setResources comes before setDevices, which adds to the same part.
func (r *Request) setResources(in *Input) (f findings) {
	r.HostConfig.Resources, f = resources(in)
	r.HostConfig.OomScoreAdj = in.Options.OOMScoreAdj
	r.HostConfig.ShmSize = shmSize(in)
	r.HostConfig.StorageOpt = maps.Clone(in.Options.StorageOpt)
	r.HostConfig.Sysctls = maps.Clone(in.Options.Sysctl)
	return f
}

func (r *Request) setDevices(in *Input) findings {
	nodes, f := devices(in)
	requests, more := deviceRequests(in)
	r.HostConfig.Devices, r.HostConfig.DeviceRequests = nodes, requests
	f.merge(more)
	return f
}

func (r *Request) setMounts(in *Input) findings {
	m, f := mountPart(in)
	m.apply(r)
	return f
}

func (r *Request) setNetwork(in *Input) findings {
	n, f := networkPart(in)
	n.apply(r)
	return f
}

// hash identifies what a request asks for. A container of the same name is
// adopted only if its hash is the same (task-driver CC-22).
func (r *Request) hash() (string, error) {
	text, err := json.Marshal(struct {
		Config     *container.Config
		Host       *container.HostConfig
		Networking *network.NetworkingConfig
		Platform   *ocispec.Platform
	}{r.Config, r.HostConfig, r.Networking, r.Platform})
	if err != nil {
		return "", fmt.Errorf("hash of the create request: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}
