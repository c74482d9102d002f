// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package imagemeta

import (
	"context"
	"errors"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
)

// DefaultTimeout bounds the questions about one image to its registry.
const DefaultTimeout = 10 * time.Second

// Config of a Reader. The zero value of each field but Engine means its default.
type Config struct {
	// Engine has images and tells how it reaches registries. Nil: there is none,
	// and registries are asked with default settings.
	Engine Engine
	// Timeout bounds the questions to a registry; default DefaultTimeout.
	Timeout time.Duration
	// CertsDir holds the registries' certificates; default DefaultCertsDir.
	CertsDir string
}

// Reader reads metadata from an engine or a registry, and remembers by digest
// what registries told. Safe for concurrent use.
type Reader struct {
	cfg   Config
	cache *cache
	// start holds options that tests set.
	start RegistryOptions
}

// NewReader prepares a reader; it asks nobody yet.
func NewReader(cfg Config) *Reader {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	return &Reader{cfg: cfg, cache: newCache()}
}

// Request names an image.
type Request struct {
	// Image is the reference as a job gives it, or an image id.
	Image string
	// SkipEngine asks the registry although the engine may have an image of that
	// name, because a pull will replace it (force_pull, the tag "latest").
	SkipEngine bool
	// Keychain finds the credentials that the pull would use, when a registry has
	// to be asked at all; nil means none.
	Keychain authn.Keychain
	// Platform of the image, "linux/arm64"; empty means the engine's.
	Platform string
}

// Read asks the engine, and if it does not have the image the registry. The error
// is ErrUnavailable if neither can tell, or the context's.
func (r *Reader) Read(ctx context.Context, req Request) (*Image, error) {
	var engineErr error
	if r.cfg.Engine != nil && !req.SkipEngine {
		img, err := r.Local(ctx, req.Image)
		if err == nil {
			return img, nil
		}
		if !errors.Is(err, ErrNotFound) {
			engineErr = err
		}
	}
	img, err := r.Remote(ctx, req)
	if err != nil && engineErr != nil && ctx.Err() == nil {
		return nil, errors.Join(err, engineErr)
	}
	return img, err
}

// Local asks the engine only. The error is ErrNotFound if it does not have the image.
func (r *Reader) Local(ctx context.Context, image string) (*Image, error) {
	if r.cfg.Engine == nil {
		return nil, ErrNotFound
	}
	return FromEngine(ctx, r.cfg.Engine, image)
}

// Remote asks the registry only, for at most the configured time. The error is
// ErrUnavailable or the context's.
func (r *Reader) Remote(ctx context.Context, req Request) (*Image, error) {
	bounded, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	opts := r.start
	opts.Settings, opts.CertsDir = r.settings(bounded), r.cfg.CertsDir
	opts.Keychain, opts.Platform, opts.cache = req.Keychain, req.Platform, r.cache
	img, err := FromRegistry(bounded, req.Image, opts)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return img, err
}

// settings are the engine's of this moment, because it rereads its configuration
// when it is told to; default ones if it does not answer.
func (r *Reader) settings(ctx context.Context) Settings {
	if r.cfg.Engine == nil {
		return Settings{}
	}
	info, err := r.cfg.Engine.Info(ctx)
	if err != nil {
		return Settings{}
	}
	return SettingsOf(info)
}
