// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Remove deletes a volume of any version; that it is not there is no error. A
// tree that a mount uses stays: ErrInUse. Names that cannot be served are a
// *NameError.
func (s *Store) Remove(ctx context.Context, name string) error {
	version, err := ParseName(name)
	if err != nil {
		return err
	}
	if !s.exists(version) {
		return nil
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.remove(version)
}

// remove takes the tree away by one rename, then deletes it. The caller has the lock.
func (s *Store) remove(version string) error {
	tree := s.tree(version)
	aside, err := os.MkdirTemp(s.parent(), besidePrefix+version+"-")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove driver volume: %w", err)
	}
	gone := filepath.Join(aside, version)
	if err := os.Rename(tree, gone); err != nil {
		err = errors.Join(err, os.Remove(aside))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // somebody else removed it
		}
		return fmt.Errorf("remove driver volume: %w", err)
	}
	// Asked after the rename, so that no mount can come between.
	used, err := mounted(gone)
	if err != nil || used {
		err = errors.Join(err, os.Rename(gone, tree), os.Remove(aside))
		if err != nil {
			return fmt.Errorf("remove driver volume: %w", err)
		}
		return fmt.Errorf("%w: %q is mounted; stop the containers that use it", ErrInUse, tree)
	}
	if err := os.RemoveAll(aside); err != nil {
		return fmt.Errorf("remove driver volume: %w", err)
	}
	if err := os.Remove(s.manifestPath(version)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove driver volume: %w", err)
	}
	s.log.Info("driver volume removed", "volume", Name(version))
	return syncDir(s.parent())
}

// Prune removes the volumes that are neither the loaded driver's, nor in use as
// inUse tells (a container refers to it; nil: nobody knows of one), nor mounted.
// It returns what it removed, also beside an error. Without a driver it removes
// nothing, because any version may be loaded next.
func (s *Store) Prune(ctx context.Context, inUse func(version string) bool) ([]Volume, error) {
	loaded, err := s.loadedVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("prune driver volumes: cannot tell which one is current: %w", err)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s.sweep()
	volumes, err := s.List()
	if err != nil {
		return nil, err
	}
	var removed []Volume
	var failed error
	for _, v := range volumes {
		if v.Version == loaded || inUse != nil && inUse(v.Version) {
			continue
		}
		switch err := s.remove(v.Version); {
		case err == nil:
			removed = append(removed, v)
		case !errors.Is(err, ErrInUse):
			failed = errors.Join(failed, err)
		}
	}
	return removed, failed
}
