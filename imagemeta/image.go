// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

// Package imagemeta reads what an image says about itself, its labels and its
// environment, without its layers: from the Docker Engine if it has the image,
// else from the registry's manifest and configuration.
//
// A registry is asked as the engine would ask it: with the same credentials, the
// same certificates, plain HTTP only where the engine allows it, through the same
// mirrors and proxy. It gets a bounded time and answers of bounded size count;
// whatever goes wrong there is ErrUnavailable, with which a pull can still go on
// and the check be made on the pulled image.
//
// The tests in engine_live_test.go need a Docker Engine: go test -tags engine ./imagemeta
package imagemeta

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/gpu-docker/gpu-docker/compat"
)

// Kinds of errors.
var (
	// ErrNotFound: the engine does not have the image.
	ErrNotFound = errors.New("the engine does not have the image")
	// ErrUnavailable: nobody could tell the metadata; the pull may still work.
	ErrUnavailable = errors.New("image metadata is not available")
)

// Origin says who told the metadata.
type Origin string

// The origins.
const (
	FromTheEngine   Origin = "engine"
	FromTheRegistry Origin = "registry"
)

// Image is what an image says about itself.
type Image struct {
	// Metadata are the image's labels and environment, without any task's.
	compat.Metadata
	// ID is the image's id on an engine, "sha256:…".
	ID string
	// Digest is the digest of the manifest or index that the name stands for;
	// empty from an engine that does not know it.
	Digest string
	Origin Origin
}

// clone keeps callers from changing each other's maps.
func (i *Image) clone() *Image {
	c := *i
	c.Labels, c.Env = maps.Clone(i.Labels), maps.Clone(i.Env)
	return &c
}

// bytes is about how much memory the metadata takes.
func (i *Image) bytes() int {
	n := 0
	for _, m := range []map[string]string{i.Labels, i.Env} {
		for k, v := range m {
			n += len(k) + len(v)
		}
	}
	return n
}

// ParseEnv reads an environment in the form K=V, as images and engines have it;
// the last of several values counts, and an entry without "=" has an empty one.
func ParseEnv(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, e := range list {
		k, v, _ := strings.Cut(e, "=")
		env[k] = v
	}
	return env
}

// unavailableError is an ErrUnavailable with its cause.
type unavailableError struct {
	image string
	cause error
}

func (e *unavailableError) Error() string {
	return fmt.Sprintf("cannot read the metadata of image %q from its registry: %v", e.image, e.cause)
}

func (e *unavailableError) Unwrap() error { return e.cause }

func (e *unavailableError) Is(target error) bool { return target == ErrUnavailable }
