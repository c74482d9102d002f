// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpu-docker/gpu-docker/compat"
	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// decide asks compat about the host that is meant.
func (c *check) decide(ctx context.Context, md compat.Metadata, answer *checkAnswer) error {
	host, missing, err := c.host(ctx)
	if err != nil {
		return err
	}
	if missing != "" {
		answer.fill(withoutDriver(answer.Image, md, missing), host)
		return nil
	}
	answer.fill(decideOnAny(answer.Image, md, host), host)
	return nil
}

// host is this one, or what the flags say. missing tells why there is no driver.
func (c *check) host(ctx context.Context) (host compat.Host, missing string, err error) {
	if !c.changed("driver") {
		h, err := c.app.openHost()
		if err != nil {
			return host, "", err
		}
		defer h.Close()
		host, missing = hostOf(h.Inventory(ctx))
	}
	for flag, set := range map[string]func(*compat.GPU){
		"arch":  func(g *compat.GPU) { g.Arch = c.asked.Arch },
		"brand": func(g *compat.GPU) { g.Brand = c.asked.Brand },
	} {
		for i := range host.GPUs {
			if c.changed(flag) {
				set(&host.GPUs[i])
			}
		}
	}
	if c.changed("driver") {
		host.Driver = c.driver
	}
	if c.changed("cuda") {
		host.CUDA, missing = c.cuda, ""
	}
	if len(host.GPUs) == 0 {
		host.GPUs = []compat.GPU{c.asked}
	}
	return host, missing, nil
}

// hostOf takes from an inventory what decides.
func hostOf(inv *gpuhost.Inventory) (host compat.Host, missing string) {
	host = compat.Host{Driver: inv.Driver.Version, CUDA: inv.Driver.ReportedCUDA()}
	for i := range inv.GPUs {
		g := compat.GPU{ID: inv.GPUs[i].UUID}
		if cc := inv.GPUs[i].ComputeCapability; cc != nil {
			g.Arch = cc.String()
		}
		if brand := inv.GPUs[i].Brand; brand != nil {
			g.Brand = *brand
		}
		host.GPUs = append(host.GPUs, g)
	}
	if host.Driver != "" {
		return host, ""
	}
	if missing = inv.Reason; missing == "" {
		missing = "the driver does not tell its version"
	}
	return host, missing
}

// defaultPolicy is the one of a driver that is not configured otherwise.
var defaultPolicy = compat.Policy{Requirements: compat.Enforce, AllowOverride: true}

// decideOnAny says yes if the image may run on one of the host's GPUs, because a
// task need not get all of them; with a warning if it may not run on each.
func decideOnAny(image string, md compat.Metadata, host compat.Host) compat.Decision {
	all := compat.Decide(image, md, host, defaultPolicy)
	if all.Verdict != compat.VerdictRefuse || len(host.GPUs) < 2 {
		return all
	}
	var fit []string
	var best compat.Decision
	for _, g := range host.GPUs {
		single := compat.Host{Driver: host.Driver, CUDA: host.CUDA, GPUs: []compat.GPU{g}}
		if d := compat.Decide(image, md, single, defaultPolicy); d.Verdict != compat.VerdictRefuse {
			fit, best = append(fit, g.ID), d
		}
	}
	if len(fit) == 0 {
		return all
	}
	best.Verdict = compat.VerdictWarn
	best.Reason = fmt.Sprintf("only on %d of %d GPUs here (%s): %s", len(fit), len(host.GPUs), strings.Join(fit, ", "), all.Reason)
	return best
}

// withoutDriver decides on a host without an NVIDIA driver: only an image that
// asks for nothing may run.
func withoutDriver(image string, md compat.Metadata, missing string) compat.Decision {
	unknown := compat.Host{GPUs: []compat.GPU{{}}}
	d := compat.Decide(image, md, unknown, defaultPolicy)
	source := compat.DeclaresGPU(md)
	if d.Verdict == compat.VerdictRefuse || (d.Verdict == compat.VerdictAllow && source == "") {
		return d
	}
	if source == "" {
		source = compat.EnvCUDAVersion
	}
	return compat.Decision{
		Verdict: compat.VerdictRefuse, Source: source,
		Reason: fmt.Sprintf("image %q is made for GPUs (%s), and this host has no NVIDIA driver: %s; ask for another host with --driver", image, source, missing),
	}
}
