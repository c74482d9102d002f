// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// stateVersion is that of the file's format.
const stateVersion = 1

// state is the file: the images that tasks of ours use or used. Users are not in
// it: running tasks come back through Adopt, and the others are over.
type state struct {
	Version int                   `json:"version"`
	Images  map[string]imageState `json:"images"`
}

// imageState is one image of the file.
type imageState struct {
	Managed bool      `json:"managed"`
	Due     time.Time `json:"due,omitzero"` // zero while it is used
}

// ready reads the file once, before the first change could overwrite it. Its
// failure is kept for load. u.mu is held.
func (u *uses) ready() {
	if u.loaded || u.file == "" {
		return
	}
	u.loaded = true
	s, err := readState(u.file)
	if err != nil {
		u.loadErr = fmt.Errorf("image state %q: %w; images of earlier tasks are not removed by themselves: use \"docker image prune\"", u.file, err)
		return
	}
	now := time.Now()
	for id, was := range s.Images {
		u.restore(id, was, now)
	}
	u.stir()
}

// load reads the file, if that was not done yet, and tells how it went.
func (u *uses) load() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ready()
	return u.loadErr
}

// readState decodes the file; a missing one is an empty one.
func readState(path string) (s state, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err == nil && s.Version != stateVersion {
		err = fmt.Errorf("version %d is unknown", s.Version)
	}
	return s, err
}

// restore takes one image of the file over. Images in use back then wait for
// their tasks; removals that were due keep their time. u.mu is held.
func (u *uses) restore(id string, was imageState, now time.Time) {
	if u.gc.ManagedOnly && !was.Managed {
		return
	}
	due := was.Due
	if due.IsZero() {
		due = now.Add(recoverGrace + u.gc.Delay)
	}
	u.images[id] = &usedImage{users: map[string]struct{}{}, managed: was.Managed, due: due}
}

// save writes the file beside itself and renames it. A failure costs no more
// than a removal that is forgotten at the next restart. u.mu is held.
func (u *uses) save() {
	if u.file == "" {
		return
	}
	s := state{Version: stateVersion, Images: map[string]imageState{}}
	for id, img := range u.images {
		s.Images[id] = imageState{Managed: img.managed, Due: img.due}
	}
	// Strings, booleans and times: encoding cannot fail.
	raw, _ := json.MarshalIndent(s, "", "  ")
	if err := os.MkdirAll(filepath.Dir(u.file), 0o700); err != nil {
		return
	}
	beside := u.file + ".new"
	if err := os.WriteFile(beside, raw, 0o600); err != nil {
		return
	}
	_ = os.Rename(beside, u.file) // see above
}
