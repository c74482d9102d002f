// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package imagemeta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/gpu-docker/gpu-docker/compat"
)

// RegistryOptions say how to ask a registry. The zero value asks anonymously.
type RegistryOptions struct {
	// Settings are the engine's.
	Settings Settings
	// Keychain finds credentials for a registry; nil means none.
	Keychain authn.Keychain
	// Platform of the image, "linux/arm64"; empty means the engine's.
	Platform string
	// CertsDir holds the registries' certificates; empty means DefaultCertsDir.
	CertsDir string

	cache *cache
	// wrap, in tests, sees each request.
	wrap func(http.RoundTripper) http.RoundTripper
}

// userAgent names us in the logs of registries.
const userAgent = "gpu-docker"

// retry asks once more after an error that may pass; the pull that follows is
// the real retry.
var retry = remote.Backoff{Duration: 200 * time.Millisecond, Factor: 1, Steps: 2}

// FromRegistry reads manifest and configuration of an image, never a layer. All
// errors are ErrUnavailable. The caller's context bounds the time.
func FromRegistry(ctx context.Context, ref string, opts RegistryOptions) (*Image, error) {
	img, err := opts.read(ctx, ref)
	if err != nil {
		return nil, &unavailableError{image: ref, cause: err}
	}
	return img, nil
}

// read asks the endpoints in turn.
func (o RegistryOptions) read(ctx context.Context, ref string) (*Image, error) {
	named, err := parse(ref)
	if err != nil {
		return nil, err
	}
	if o.Platform == "" {
		o.Platform = o.Settings.platform()
	}
	platform, err := v1.ParsePlatform(o.Platform)
	if err != nil {
		return nil, fmt.Errorf("platform %q: %w", o.Platform, err)
	}
	if digested, ok := named.(reference.Digested); ok {
		if img := o.cache.get(digested.Digest().String(), o.Platform); img != nil {
			return img, nil
		}
	}
	var errs []error
	for _, e := range o.Settings.endpoints(ctx, named) {
		img, err := o.readFrom(ctx, e, named, *platform)
		if err == nil {
			return img, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// readFrom reads from one endpoint: the manifest, for an index that of the
// platform too, and the configuration unless the digest is known already.
func (o RegistryOptions) readFrom(ctx context.Context, e endpoint, named reference.Named, platform v1.Platform) (*Image, error) {
	ref, err := e.reference(named)
	if err != nil {
		return nil, err
	}
	base, err := o.transport(e)
	if err != nil {
		return nil, err
	}
	defer base.CloseIdleConnections()
	desc, err := remote.Get(ref, o.remoteOptions(ctx, e, base, platform)...)
	if err != nil {
		return nil, err
	}
	digest := desc.Digest.String()
	if img := o.cache.get(digest, o.Platform); img != nil {
		return img, nil
	}
	image, err := desc.Image()
	if err != nil {
		return nil, err
	}
	img, err := describe(image)
	if err != nil {
		return nil, err
	}
	img.Digest = digest
	o.cache.put(digest, o.Platform, img)
	return img, nil
}

func (o RegistryOptions) transport(e endpoint) (*http.Transport, error) {
	dir := o.CertsDir
	if dir == "" {
		dir = DefaultCertsDir
	}
	tlsCfg, err := tlsConfig(dir, e.registry, e.insecure)
	if err != nil {
		return nil, err
	}
	return newHTTP(o.Settings, tlsCfg), nil
}

func (o RegistryOptions) remoteOptions(ctx context.Context, e endpoint, base http.RoundTripper, platform v1.Platform) []remote.Option {
	if o.wrap != nil {
		base = o.wrap(base)
	}
	opts := []remote.Option{
		remote.WithContext(ctx),
		remote.WithTransport(&boundedTransport{inner: base, allowHTTP: e.insecure}),
		remote.WithPlatform(platform),
		remote.WithRetryBackoff(retry),
		remote.WithUserAgent(userAgent),
	}
	if o.Keychain != nil && !e.mirror {
		opts = append(opts, remote.WithAuthFromKeychain(o.Keychain))
	}
	return opts
}

// imageConfig is the part of an image's configuration that we read.
type imageConfig struct {
	Config struct {
		Labels map[string]string
		Env    []string
	} `json:"config"`
}

// describe fetches and reads the configuration; its digest has been verified.
func describe(image v1.Image) (*Image, error) {
	raw, err := image.RawConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	id, err := image.ConfigName()
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	var c imageConfig
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("configuration %s is not valid JSON: %w", id, err)
	}
	return &Image{
		Metadata: compat.Metadata{Labels: c.Config.Labels, Env: ParseEnv(c.Config.Env)},
		ID:       id.String(), Origin: FromTheRegistry,
	}, nil
}
