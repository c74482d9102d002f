// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers"
	pstructs "github.com/hashicorp/nomad/plugins/shared/structs"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/gpuhost"
)

// healthText is "Healthy", with what the operator should know of the engine.
func (p *parts) healthText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.info == nil {
		return drivers.DriverHealthy
	}
	return drivers.DriverHealthy + p.info.givesAway() + p.losesNodes()
}

// givesAway continues the health text where tasks of other drivers get GPUs that
// nobody reserved (cases SEC-02); empty where they do not.
func (i *engineInfo) givesAway() string {
	const depends = "; isolation depends on other runtime settings: "
	switch {
	case slices.Contains(i.nvidiaRuntimes, i.defaultRuntime):
		return fmt.Sprintf(depends+"the engine's default runtime %q gives GPUs to containers of other drivers", i.defaultRuntime)
	case len(i.nvidiaRuntimes) > 0:
		return fmt.Sprintf(depends+"the engine gives GPUs to containers of other drivers that name the runtime \"%s\"", strings.Join(i.nvidiaRuntimes, `" or "`))
	}
	return ""
}

// losesNodes continues the health text where a systemd reload takes GPUs from
// running containers (cases DRV-06); empty where it does not. The caller has the lock.
func (p *parts) losesNodes() string {
	if len(p.unlinked) == 0 || p.info.cgroupDriver != "systemd" {
		return ""
	}
	first := slices.Sorted(maps.Keys(p.unlinked))[0]
	return fmt.Sprintf("; a systemd reload may take GPUs from running tasks: %v", p.unlinked[first])
}

// nvidiaFacts are what an inventory brings into the fingerprint; zero without a driver.
type nvidiaFacts struct {
	driver, cuda string
	gpus         int
}

func nvidiaFactsOf(inv *gpuhost.Inventory) nvidiaFacts {
	if inv.Driver.Version == "" {
		return nvidiaFacts{}
	}
	return nvidiaFacts{inv.Driver.Version, inv.Driver.CUDA.String(), len(inv.GPUs)}
}

// lastNVIDIA is what the last probe of a healthy engine found.
func (d *Driver) lastNVIDIA() nvidiaFacts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nvidia
}

func (d *Driver) noteNVIDIA(found nvidiaFacts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nvidia = found
}

// gpuAttributes tell what jobs may constrain on; absent without an NVIDIA driver.
func (d *Driver) gpuAttributes(p *parts, inv *gpuhost.Inventory) map[string]*pstructs.Attribute {
	attrs := map[string]*pstructs.Attribute{}
	found := nvidiaFactsOf(inv)
	d.noteNVIDIA(found)
	if found == (nvidiaFacts{}) {
		return attrs
	}
	attrs[attrPrefix+"nvidia_driver"] = pstructs.NewStringAttribute(found.driver)
	if found.cuda != "" {
		attrs[attrPrefix+"cuda"] = pstructs.NewStringAttribute(found.cuda)
	}
	attrs[attrPrefix+"gpus"] = pstructs.NewStringAttribute(strconv.Itoa(found.gpus))
	if name := d.presentVolume(p, found.driver); name != "" {
		attrs[attrPrefix+"volume"] = pstructs.NewStringAttribute(name)
	} else {
		d.prebuildVolume(p)
	}
	if at := p.serving(); at != "" {
		attrs[attrPrefix+"api"] = pstructs.NewStringAttribute(at)
	}
	return attrs
}

// usersOfOthers continues the health text with how many tasks run with the files of
// another driver than the loaded one (cases DRV-21); empty for none.
func (d *Driver) usersOfOthers(loaded string) string {
	count := map[string]int{}
	for _, t := range d.tasks.All() {
		if version := t.state.NVIDIADriver; version != "" && loaded != "" && version != loaded && !t.exited() {
			count[version]++
		}
	}
	var text strings.Builder
	for _, version := range slices.Sorted(maps.Keys(count)) {
		noun := "tasks use"
		if count[version] == 1 {
			noun = "task uses"
		}
		fmt.Fprintf(&text, "; %d %s old driver %s", count[version], noun, version)
	}
	if text.Len() > 0 {
		text.WriteString("; gpu-docker doctor lists them")
	}
	return text.String()
}

// presentVolume is the name of the loaded driver's volume if it is built.
func (d *Driver) presentVolume(p *parts, version string) string {
	all, err := p.volumes.List()
	if err != nil {
		d.logger.Debug("driver volumes cannot be listed", "error", err)
		return ""
	}
	for _, v := range all {
		if v.Version == version {
			return v.Name
		}
	}
	return ""
}

// prebuildVolume builds the loaded driver's volume in the background, so that the
// first task does not wait for it (cases VOL-13), and then tells that it is there.
// One build at a time.
func (d *Driver) prebuildVolume(p *parts) {
	if p.config.GPU.Injection != config.InjectionVolume || !p.prebuilding.TryLock() {
		return
	}
	begun := p.loop(d, "building the driver volume ahead", func() {
		defer p.prebuilding.Unlock()
		built, err := p.volumes.Ensure(p.ctx)
		switch {
		case err == nil && d.presentVolume(p, built.Version) != "":
			d.refresh.Now()
		case err != nil && p.ctx.Err() == nil:
			p.logger.Warn("driver volume cannot be built now", "error", err)
		}
	})
	if !begun {
		p.prebuilding.Unlock()
	}
}
