// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"
	"github.com/hashicorp/nomad/plugins/drivers"
	pstructs "github.com/hashicorp/nomad/plugins/shared/structs"
)

func (d *Driver) probeEngine(ctx context.Context, p *parts) *finding {
	if cgroupV2() && os.Geteuid() != 0 {
		return undetected(drivers.DriverRequiresRootMessage)
	}
	if p.engineErr != nil {
		d.logger.Debug("no engine client", "error", p.engineErr)
		return undetected("Failed to initialize docker client")
	}
	version, err := p.engine.Version(ctx)
	if err != nil {
		d.logger.Debug("engine does not answer", "error", err)
		if d.engineSeen.Load() {
			return without(drivers.HealthStateUnhealthy, "Failed to connect to docker daemon")
		}
		return undetected("Failed to connect to docker daemon")
	}
	d.engineSeen.Store(true)
	if versions.LessThan(version.APIVersion, minAPIVersion) {
		return without(drivers.HealthStateUnhealthy, fmt.Sprintf(
			"Docker Engine speaks API %s, this driver needs %s or newer; upgrade the engine", version.APIVersion, minAPIVersion))
	}
	attrs := map[string]*pstructs.Attribute{
		"driver.gpu-docker":    pstructs.NewBoolAttribute(true),
		attrPrefix + "version": pstructs.NewStringAttribute(version.Version),
	}
	silent := d.addEngineFacts(ctx, p, attrs)
	addOptions(p, attrs)
	return &finding{
		Fingerprint: &drivers.Fingerprint{Attributes: attrs, Health: drivers.HealthStateHealthy, HealthDescription: p.healthText()},
		silent:      silent,
	}
}

func undetected(why string) *finding { return without(drivers.HealthStateUndetected, why) }

// without is a fingerprint without attributes.
func without(health drivers.HealthState, why string) *finding {
	return &finding{Fingerprint: &drivers.Fingerprint{Health: health, HealthDescription: why}}
}

// addEngineFacts adds what further questions tell; one that fails only leaves its
// attributes out, and they are returned (task-driver FP-5).
func (d *Driver) addEngineFacts(ctx context.Context, p *parts, attrs map[string]*pstructs.Attribute) (silent []string) {
	if info, err := p.engine.Info(ctx); err != nil {
		d.logger.Debug("engine gives no info", "error", err)
		silent = append(silent, "runtimes")
	} else {
		attrs[attrPrefix+"os_type"] = pstructs.NewStringAttribute(info.OSType)
		if names := runtimeNames(info); names != "" {
			attrs[attrPrefix+"runtimes"] = pstructs.NewStringAttribute(names)
		}
		p.noteInfo(info)
	}
	if networks, err := p.engine.Networks(ctx); err != nil {
		d.logger.Debug("engine lists no networks", "error", err)
		silent = append(silent, "bridge_ip")
	} else if ip := bridgeIP(networks); ip != "" {
		attrs[attrPrefix+"bridge_ip"] = pstructs.NewStringAttribute(ip)
	}
	return silent
}

// addOptions adds what the operator allows.
func addOptions(p *parts, attrs map[string]*pstructs.Attribute) {
	if p.config.AllowPrivileged {
		attrs[attrPrefix+"privileged.enabled"] = pstructs.NewBoolAttribute(true)
	}
	if p.config.Volumes.Enabled {
		attrs[attrPrefix+"volumes.enabled"] = pstructs.NewBoolAttribute(true)
	}
	if p.config.PidsLimit > 0 {
		attrs[attrPrefix+"pids.limit"] = pstructs.NewIntAttribute(p.config.PidsLimit, "")
	}
}

// runtimeNames are the engine's runtimes, sorted.
func runtimeNames(info system.Info) string {
	return strings.Join(slices.Sorted(maps.Keys(info.Runtimes)), ",")
}

// bridgeIP is the gateway of the engine's default network.
func bridgeIP(networks []network.Summary) string {
	for _, n := range networks {
		if n.Name == "bridge" && len(n.IPAM.Config) > 0 {
			return n.IPAM.Config[0].Gateway
		}
	}
	return ""
}
