// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/distribution/reference"
)

// imageID is a whole image id as the engine prints it.
var imageID = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Ref is an image reference, taken apart (task-driver IM-1).
type Ref struct {
	// Name is the whole normalised reference, with exactly one of tag and
	// digest: "docker.io/library/busybox:1". For an image id it is that id.
	Name string
	// Familiar is the short form that the engine's users know: "busybox:1".
	Familiar string
	// Host is the registry, "docker.io" or "host[:port]"; empty for an image id.
	Host string
	// Moving is true for the tag "latest", whether written or implied: a local
	// image of that name says nothing about the registry's.
	Moving bool
}

// ByID reports whether the reference is the id of an image on this node, which
// cannot be pulled.
func (r Ref) ByID() bool { return r.Host == "" }

// ParseRef takes a reference apart. A leading "https://" is dropped; a digest
// beats a tag. The error names the reference and the right form.
func ParseRef(s string) (Ref, error) {
	s = strings.TrimPrefix(s, "https://")
	if imageID.MatchString(s) {
		return Ref{Name: s, Familiar: s}, nil
	}
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return Ref{}, fmt.Errorf("image %q is not a valid reference: %w; write it as [host[:port]/]name[:tag|@digest]", s, err)
	}
	named, err = onePin(named)
	if err != nil {
		return Ref{}, fmt.Errorf("image %q is not a valid reference: %w", s, err)
	}
	tagged, isTagged := named.(reference.Tagged)
	return Ref{
		Name:     named.String(),
		Familiar: reference.FamiliarString(named),
		Host:     reference.Domain(named),
		Moving:   isTagged && tagged.Tag() == "latest",
	}, nil
}

// onePin leaves the digest or the tag, and adds the tag "latest" if there is
// neither.
func onePin(named reference.Named) (reference.Named, error) {
	if digested, ok := named.(reference.Digested); ok {
		return reference.WithDigest(reference.TrimNamed(named), digested.Digest())
	}
	return reference.TagNameOnly(named), nil
}

// samePlatform compares what an image is for with what is wanted; wanted parts
// that are not given match anything.
func samePlatform(wanted, os, arch, variant string) bool {
	parts := strings.Split(strings.ToLower(wanted), "/")
	for i, have := range []string{os, arch, variant} {
		if i < len(parts) && parts[i] != "" && have != "" && !strings.EqualFold(parts[i], have) {
			return false
		}
	}
	return true
}
