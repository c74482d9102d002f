// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"fmt"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
)

// DefaultDir is where nvidia-docker v1 kept its volumes.
const DefaultDir = "/var/lib/nvidia-docker/volumes"

// Files says how a volume's files come to be.
type Files string

// The settings of the option "volume_files".
const (
	// FilesAuto: hard link, else reflink, else copy; with SELinux enforcing
	// never a hard link, because the label belongs to the host's file.
	FilesAuto Files = "auto"
	FilesLink Files = "link" // hard link or fail
	FilesCopy Files = "copy" // every byte is written anew
)

// Config of a store. The zero value of each field means its default.
type Config struct {
	// Dir holds the volumes; default DefaultDir. Volumes are at <Dir>/nvidia_driver/<version>.
	// Manifests and the lock are kept in a hidden directory beside it.
	Dir          string
	Files        Files        // default FilesAuto
	Capabilities []string     // what the volume holds; default ["all"]
	Logger       hclog.Logger // default: no log

	enforceFile string // tells whether SELinux is enforcing; default defaultEnforceFile
}

// withDefaults fills what is not set.
func (c Config) withDefaults() Config {
	if c.Dir == "" {
		c.Dir = DefaultDir
	}
	if c.Files == "" {
		c.Files = FilesAuto
	}
	if len(c.Capabilities) == 0 {
		c.Capabilities = []string{capabilityAll}
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.enforceFile == "" {
		c.enforceFile = defaultEnforceFile
	}
	return c
}

// validate reports the first setting that cannot be meant.
func (c Config) validate() error {
	if !filepath.IsAbs(c.Dir) || filepath.Clean(c.Dir) == "/" {
		return fmt.Errorf("volumes_path %q must be an absolute path below the root; use for example %q", c.Dir, DefaultDir)
	}
	switch c.Files {
	case FilesAuto, FilesLink, FilesCopy:
		return nil
	}
	return fmt.Errorf("volume_files %q is not known; use %q, %q or %q", c.Files, FilesAuto, FilesLink, FilesCopy)
}
