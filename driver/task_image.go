// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gpu-docker/gpu-docker/driver/config"
	"github.com/gpu-docker/gpu-docker/driver/image"
	"github.com/gpu-docker/gpu-docker/imagemeta"
)

// resolveImage gets the image onto the engine and counts it under the task.
func (s *starting) resolveImage() error {
	id, err := s.p.images.Resolve(s.ctx, image.Request{
		Ref: s.options.Image, ForcePull: s.options.ForcePull,
		Load: s.options.Load, LoadDir: s.cfg.TaskDir().LocalDir,
		Timeout: s.options.ImagePullTimeout, ActivityTimeout: s.p.config.PullActivityTimeout,
		Platform: platform(s.options), Credentials: s.credentials(),
	}, image.Caller{ID: s.cfg.ID, Emit: func(message string, annotations map[string]string) {
		s.d.events.Emit(s.cfg, message, annotations)
	}})
	if err != nil {
		return err
	}
	s.imageID = id
	s.undo(func() { s.p.images.Release(id, s.cfg.ID) })
	return nil
}

// credentials says where to look for those of the image's registry.
func (s *starting) credentials() image.CredentialSource {
	auth := s.options.Auth
	return image.CredentialSource{
		Task: image.Auth{
			Username: auth.Username, Password: auth.Password,
			Email: auth.Email, ServerAddress: auth.ServerAddress,
		},
		ConfigFile: s.p.config.Auth.Config, Helper: s.p.config.Auth.Helper,
		SoftFail: s.options.AuthSoftFail, Logger: s.p.logger,
	}
}

// platform is the wished platform as "os/arch[/variant]"; empty for the engine's.
func platform(o *config.Task) string {
	if o.Arch == "" {
		return o.OS
	}
	os := o.OS
	if os == "" {
		os = "linux"
	}
	return strings.TrimSuffix(os+"/"+o.Arch+"/"+o.Variant, "/")
}

// readImage reads the environment and labels of the image on the engine.
func (s *starting) readImage() error {
	found, err := s.p.meta.Local(s.ctx, s.imageID)
	if errors.Is(err, imagemeta.ErrNotFound) {
		err = fmt.Errorf("%w: %w", errImageVanished, err)
	}
	if err != nil {
		return recoverable(fmt.Errorf("failed to inspect image %q: %w", s.options.Image, err))
	}
	s.local = found
	s.imageEnv = envList(found.Env)
	return nil
}
