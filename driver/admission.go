// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers"

	"github.com/gpu-docker/gpu-docker/compat"
	"github.com/gpu-docker/gpu-docker/driver/image"
	"github.com/gpu-docker/gpu-docker/imagemeta"
	"github.com/gpu-docker/gpu-docker/restapi"
)

// metadataReader reads what an image says about itself, never a layer;
// *imagemeta.Reader satisfies it.
type metadataReader interface {
	// Local asks the engine; imagemeta.ErrNotFound if it has no such image.
	Local(ctx context.Context, image string) (*imagemeta.Image, error)
	// Remote asks the registry.
	Remote(ctx context.Context, req imagemeta.Request) (*imagemeta.Image, error)
}

// refused is an ErrRefused whose text is the reason alone.
type refused struct{ reason string }

func (e *refused) Error() string        { return e.reason }
func (e *refused) Is(target error) bool { return target == ErrRefused }

// admitEarly decides, before anything is pulled, whether the image may run on
// the reserved GPUs. When nobody can tell yet, admit decides later.
func (s *starting) admitEarly() error {
	if len(s.grant.Devices) == 0 {
		return nil
	}
	gpu := s.p.config.GPU
	var err error
	s.policy, err = compat.Policy{
		Requirements: compat.Mode(gpu.Requirements), AllowOverride: gpu.AllowOverride,
	}.ForTask(s.options.GPU.Requirements)
	if err != nil || s.options.Load != "" {
		return err
	}
	begun := time.Now()
	found, err := s.metadataBeforePull()
	if err != nil {
		s.d.logger.Warn("image metadata cannot be had before the pull; the image is checked after it",
			"task_id", s.cfg.ID, "image", s.options.Image, "took", elapsed(begun), "error", err)
		return nil
	}
	return s.judge(found, begun)
}

// metadataBeforePull reads the image that the pull would give: the engine's own
// unless a pull is certain, else the registry's.
func (s *starting) metadataBeforePull() (*imagemeta.Image, error) {
	ref, err := image.ParseRef(s.options.Image)
	if err != nil {
		return nil, err
	}
	if !s.options.ForcePull && !ref.Moving {
		found, err := s.p.meta.Local(s.ctx, s.options.Image)
		if err == nil || !errors.Is(err, imagemeta.ErrNotFound) {
			return found, err
		}
	}
	return s.p.meta.Remote(s.ctx, imagemeta.Request{
		Image: s.options.Image, SkipEngine: true,
		Keychain: s.credentials().Keychain(), Platform: platform(s.options),
	})
}

// admit decides on the image that is on the engine now, unless the same was
// decided before: a tag may have moved between question and pull. It also says
// what a task without a GPU should know.
func (s *starting) admit() error {
	if len(s.grant.Devices) == 0 {
		if source := compat.DeclaresGPU(s.local.Metadata); source != "" {
			s.tell(fmt.Sprintf("The image is made for GPUs (%s), but this task reserved none: it sees no GPU. Add a device block if it needs one", source))
		}
		return nil
	}
	if s.judged != nil && maps.Equal(s.judged.Labels, s.local.Labels) && maps.Equal(s.judged.Env, s.local.Env) {
		return nil
	}
	return s.judge(s.local, time.Now())
}

// judge asks compat and keeps its decision. A refusal is final: Nomad does not
// try again on this node. begun is when the search for the metadata began.
func (s *starting) judge(found *imagemeta.Image, begun time.Time) error {
	laid := compat.Metadata{Labels: found.Labels, Env: maps.Clone(found.Env)}
	if laid.Env == nil {
		laid.Env = map[string]string{}
	}
	maps.Copy(laid.Env, s.cfg.Env)
	decision := compat.Decide(s.options.Image, laid, s.grant.compatHost(), s.policy)
	s.judged, s.decision = found, &decision
	s.d.logger.Debug("image checked", "task_id", s.cfg.ID, "image", s.options.Image, "verdict", decision.Verdict,
		"metadata_from", found.Origin, "took", elapsed(begun))
	switch decision.Verdict {
	case compat.VerdictRefuse:
		s.d.refusals.note(s.cfg, s.options.Image, decision.Reason)
		return &refused{decision.Reason}
	case compat.VerdictWarn:
		s.tell(decision.Reason)
	}
	for _, hint := range decision.Hints {
		if !strings.Contains(decision.Reason, hint) {
			s.tell(hint)
		}
	}
	return nil
}

// elapsed is a duration for the log; as a number it would be in nanoseconds.
func elapsed(begun time.Time) string {
	return time.Since(begun).Round(100 * time.Microsecond).String()
}

// envList is an environment as sorted KEY=VALUE.
func envList(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// recentRefusals is how many refusals the status page shows.
const recentRefusals = 20

// refusalLog remembers which images were refused. Safe for concurrent use.
type refusalLog struct {
	mu     sync.Mutex // guards everything below
	recent []restapi.Refusal
	total  uint64
}

var _ restapi.Refusals = (*refusalLog)(nil)

func (l *refusalLog) note(cfg *drivers.TaskConfig, ref, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	l.recent = append([]restapi.Refusal{{
		Time: time.Now(), Namespace: cfg.Namespace, Job: cfg.JobName, Group: cfg.TaskGroupName, Task: cfg.Name,
		Image: ref, Reason: reason,
	}}, l.recent...)
	if len(l.recent) > recentRefusals {
		l.recent = l.recent[:recentRefusals]
	}
}

// Refusals gives the newest few, newest first, and the count since start.
func (l *refusalLog) Refusals() ([]restapi.Refusal, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.recent), l.total
}
