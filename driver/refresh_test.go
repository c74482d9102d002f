// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/volume"
)

// lateVolumes has its volume only after Ensure built it.
type lateVolumes struct {
	fakeVolumes
	mu    sync.Mutex // guards built
	built *volume.Volume
}

func (v *lateVolumes) Ensure(context.Context) (*volume.Volume, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.built = &volume.Volume{Name: volume.Name("535.104.05"), Version: "535.104.05"}
	return v.built, nil
}

func (v *lateVolumes) List() ([]volume.Volume, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.built == nil {
		return nil, nil
	}
	return []volume.Volume{*v.built}, nil
}

// TestFingerprintAtOnce: what a driver serves and the volume that it built are
// told when they change, not at the next period.
func TestFingerprintAtOnce(t *testing.T) {
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	address := holder.Addr().String()
	b := newBench(t, func(c *config.Plugin) { c.GPU.APIAddress = address })
	p, err := b.driver.configured()
	must.NoError(t, err)
	p.volumes, p.api = &lateVolumes{}, http.NotFoundHandler()

	ctx, cancel := context.WithTimeout(t.Context(), fingerprintPeriod/2)
	defer cancel()
	fingerprints, err := b.driver.Fingerprint(ctx)
	must.NoError(t, err)
	first := <-fingerprints
	must.StrContains(t, attribute(first, "api"), "is taken by process")
	must.Eq(t, "", attribute(first, "volume"))

	awaitAttribute(t, fingerprints, "volume", "nvidia_driver_535.104.05")
	must.NoError(t, holder.Close())
	awaitAttribute(t, fingerprints, "api", address)
}

// TestFingerprintAtOnce_driver: another NVIDIA driver is told when the host tells of
// a change, and a change that jobs cannot constrain on is not.
func TestFingerprintAtOnce_driver(t *testing.T) {
	b := newBench(t, nil)
	b.host.changed = make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), fingerprintPeriod/2)
	defer cancel()
	fingerprints, err := b.driver.Fingerprint(ctx)
	must.NoError(t, err)
	awaitAttribute(t, fingerprints, "nvidia_driver", "535.104.05")

	b.host.change(func(h *fakeHost) { h.inv.GPUs[0].Unhealthy = "XID 79" })
	b.host.changed <- struct{}{}
	b.host.change(func(h *fakeHost) { h.inv.Driver.Version = "550.54.14" })
	b.host.changed <- struct{}{} // taken only after the first was dealt with
	must.Eq(t, "550.54.14", attribute(<-fingerprints, "nvidia_driver"))

	b.host.change(func(h *fakeHost) { h.inv.GPUs = h.inv.GPUs[:1] })
	b.host.changed <- struct{}{}
	awaitAttribute(t, fingerprints, "gpus", "1")
}

// attribute is the text of one attribute; empty when it is absent.
func attribute(fp *drivers.Fingerprint, name string) string {
	a, found := fp.Attributes[attrPrefix+name]
	if !found {
		return ""
	}
	text, _ := a.GetString()
	return text
}

// awaitAttribute waits for a message with the attribute, or for the stream's end.
func awaitAttribute(t *testing.T, fingerprints <-chan *drivers.Fingerprint, name, want string) {
	t.Helper()
	for fp := range fingerprints {
		if attribute(fp, name) == want {
			return
		}
	}
	t.Fatalf("attribute %q was not told to be %q in time", name, want)
}

func TestRefresh(t *testing.T) {
	var r refresh
	r.Now() // nobody waits
	first, second := r.Wait(), r.Wait()
	r.Now()
	for _, woken := range []<-chan struct{}{first, second} {
		select {
		case <-woken:
		case <-time.After(time.Second):
			t.Fatal("a waiter was not woken")
		}
	}
	select {
	case <-r.Wait():
		t.Fatal("woken by what was before")
	default:
	}
}

// TestUsed: only what an agent asks of a live plugin counts as use.
func TestUsed(t *testing.T) {
	b := newBench(t, nil)
	_, err := b.Capabilities()
	must.NoError(t, err)
	_, err = b.TaskEvents(t.Context())
	must.NoError(t, err)
	must.False(t, b.driver.used.Load())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fingerprints, err := b.driver.Fingerprint(ctx)
	must.NoError(t, err)
	<-fingerprints
	must.True(t, b.driver.used.Load())
}
