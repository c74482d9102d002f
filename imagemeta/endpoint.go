// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package imagemeta

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"
)

// Docker Hub's names: in references, and of its registry.
const (
	hubDomain   = "docker.io"
	hubRegistry = "index.docker.io"
)

// parse reads a reference as Docker does: "busybox" is
// docker.io/library/busybox:latest; a digest beats a tag.
func parse(ref string) (reference.Named, error) {
	named, err := reference.ParseNormalizedNamed(strings.TrimPrefix(ref, "https://"))
	if err != nil {
		return nil, fmt.Errorf("not a reference to a registry: %w", err)
	}
	return reference.TagNameOnly(named), nil
}

// endpoint is one place to read an image from.
type endpoint struct {
	registry string // "host[:port]"
	insecure bool
	// mirror: it is asked without credentials, which belong to Docker Hub.
	mirror bool
}

// endpoints are where the engine would pull from, in its order.
func (s Settings) endpoints(ctx context.Context, named reference.Named) []endpoint {
	domain := reference.Domain(named)
	if domain != hubDomain {
		return []endpoint{{registry: domain, insecure: s.allowsInsecure(ctx, domain)}}
	}
	var all []endpoint
	for _, m := range s.Mirrors {
		u, err := url.Parse(m)
		if err != nil || u.Host == "" {
			continue // the engine does not start with such a mirror
		}
		all = append(all, endpoint{registry: u.Host, insecure: u.Scheme == "http" || s.allowsInsecure(ctx, u.Host), mirror: true})
	}
	return append(all, endpoint{registry: hubRegistry})
}

// reference is the image at this endpoint.
func (e endpoint) reference(named reference.Named) (name.Reference, error) {
	var opts []name.Option
	if e.insecure {
		opts = append(opts, name.Insecure)
	}
	repo, err := name.NewRepository(e.registry+"/"+reference.Path(named), opts...)
	if err != nil {
		return nil, err
	}
	if digested, ok := named.(reference.Digested); ok {
		return repo.Digest(digested.Digest().String()), nil
	}
	if tagged, ok := named.(reference.Tagged); ok {
		return repo.Tag(tagged.Tag()), nil
	}
	return nil, fmt.Errorf("image %q has neither tag nor digest", named)
}
