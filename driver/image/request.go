// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import "time"

// Request says which image a task wants and how it may be fetched.
type Request struct {
	// Ref is the job's image option: a name, with a tag, a digest or both, or
	// the id of an image on this node ("sha256:…").
	Ref string
	// ForcePull skips the look at the engine's own images.
	ForcePull bool
	// Load is an archive made by "docker save", relative to LoadDir; empty means
	// pull.
	Load string
	// LoadDir is the task's local directory. Load cannot lead out of it.
	LoadDir string
	// Timeout limits the pull; 0 means no limit.
	Timeout time.Duration
	// ActivityTimeout limits how long the pull may be silent; 0 means no limit.
	ActivityTimeout time.Duration
	// Platform is "os/arch[/variant]"; empty means the engine's own.
	Platform string
	// Credentials are asked before each pull.
	Credentials CredentialSource
}

// Caller is who wants an image.
type Caller struct {
	// ID counts the use of the image; a task id, or an allocation id for the
	// pause container.
	ID string
	// Emit receives task events; nil for none. It must not block.
	Emit func(message string, annotations map[string]string)
}

// emit tells the caller something, if it listens.
func (c Caller) emit(message string, annotations map[string]string) {
	if c.Emit != nil {
		c.Emit(message, annotations)
	}
}
