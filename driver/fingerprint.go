// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	pstructs "github.com/hashicorp/nomad/plugins/shared/structs"
)

const (
	fingerprintPeriod = 30 * time.Second
	// probeLimit bounds one probe: the agent waits for the first one before it
	// registers the node (task-driver FP-1).
	probeLimit = 10 * time.Second
	// minAPIVersion is the oldest engine API that this driver works with.
	minAPIVersion = "1.41"
)

// Fingerprint tells the agent what this driver offers: at once, every 30 s, and
// when the NVIDIA driver, what is served or the driver volume changes, until ctx or
// the plugin ends. The first call starts the servers and the background loops.
func (d *Driver) Fingerprint(ctx context.Context) (<-chan *drivers.Fingerprint, error) {
	if _, err := d.awake(); err != nil {
		return nil, err
	}
	ch := make(chan *drivers.Fingerprint)
	go func() {
		defer close(ch)
		defer d.guard("fingerprint")
		d.fingerprintLoop(ctx, ch)
	}()
	return ch, nil
}

func (d *Driver) fingerprintLoop(ctx context.Context, ch chan<- *drivers.Fingerprint) {
	sent := map[string]bool{}
	next := time.NewTimer(0)
	defer next.Stop()
	var changed <-chan struct{}
	for {
		select {
		case <-next.C:
		case <-changed:
		case <-ctx.Done():
			return
		case <-d.ctx.Done():
			return
		}
		changed = d.refresh.Wait() // before the probe, so that no change is missed
		fp := d.probe(ctx)
		fp.retract(sent)
		select {
		case ch <- fp.Fingerprint:
		case <-ctx.Done():
			return
		case <-d.ctx.Done():
			return
		}
		next.Reset(fingerprintPeriod)
	}
}

// retractable are the attributes whose end the agent must be told with an empty
// value, because it merges messages (task-driver FP-7).
var retractable = []string{"runtimes", "bridge_ip", "nvidia_driver", "cuda", "gpus", "volume", "api"}

// finding is what one probe found.
type finding struct {
	*drivers.Fingerprint
	// silent are the attributes, by name, whose question the engine did not answer:
	// they are not gone, so the agent keeps what it has (task-driver FP-5).
	silent []string
}

// retract empties attributes that were sent before and are gone now.
func (f *finding) retract(sent map[string]bool) {
	if f.Attributes == nil {
		return
	}
	for _, name := range retractable {
		key := attrPrefix + name
		if _, present := f.Attributes[key]; present {
			sent[key] = true
		} else if sent[key] && !slices.Contains(f.silent, name) {
			f.Attributes[key] = pstructs.NewStringAttribute("")
		}
	}
}

const attrPrefix = "driver.gpu-docker."

// probe asks the engine and the GPU host once.
func (d *Driver) probe(ctx context.Context) *finding {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	p, err := d.retryEngine()
	if err != nil {
		return undetected(err.Error())
	}
	fp := d.probeEngine(ctx, p)
	if fp.Health == drivers.HealthStateHealthy {
		inv := p.host.Inventory(ctx)
		maps.Copy(fp.Attributes, d.gpuAttributes(p, inv))
		fp.HealthDescription += d.usersOfOthers(inv.Driver.Version)
	}
	d.noteHealth(fp.Fingerprint)
	return fp
}

// retryEngine returns the parts, built anew as long as there is no engine client:
// its certificates may have come meanwhile.
func (d *Driver) retryEngine() (*parts, error) {
	p, err := d.awake()
	if err != nil || p.engineErr == nil {
		return p, err
	}
	fresh, err := d.build(p.config)
	if err != nil {
		return nil, err
	}
	if fresh.engineErr != nil {
		fresh.close()
		return p, nil
	}
	d.install(fresh)
	return d.awake()
}

// noteHealth logs transitions only (task-driver FP-9).
func (d *Driver) noteHealth(fp *drivers.Fingerprint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lastHealth == fp.HealthDescription {
		return
	}
	d.lastHealth = fp.HealthDescription
	d.healthy.Store(fp.Health == drivers.HealthStateHealthy)
	d.logger.Info("driver health changed", "health", fp.Health, "description", fp.HealthDescription)
}
