// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/volume"
)

// lookPeriod is how often serve looks at the host unasked: a driver that was loaded
// meanwhile is noticed, and its XID events are waited for from then on.
const lookPeriod = 10 * time.Second

// buildAhead builds the volume of each driver that is loaded until ctx ends, so that
// no container waits for it (cases VOL-13). It looks at once, after each change of the
// host's GPUs, and once in a period; what goes wrong is told once. A volume that was
// built and is removed on purpose stays away until somebody asks for it.
func buildAhead(ctx context.Context, host *gpuhost.Host, store *volume.Store, changed <-chan struct{}, log hclog.Logger) {
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	built, told := "", ""
	for {
		if loaded := host.Inventory(ctx).Driver.Version; loaded != built {
			v, err := store.Ensure(ctx)
			switch {
			case err == nil:
				built, told = v.Version, ""
			case errors.Is(err, volume.ErrNoDriver):
				built, told = "", ""
			case ctx.Err() == nil && err.Error() != told:
				told = err.Error()
				log.Warn("driver volume cannot be built now", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}
