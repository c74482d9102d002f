// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// recoverGrace is how long, after a restart, an image of the state file waits
// for its task to be recovered before it counts as unused.
const recoverGrace = 5 * time.Minute

// uses counts who uses which image and knows which images are due for removal
// (task-driver GC-1, GC-2). With GC off it counts nothing.
type uses struct {
	gc   GC
	file string

	wake chan struct{} // one token: look at the due times again

	mu      sync.Mutex // guards everything below
	loaded  bool       // the state file was read
	loadErr error
	images  map[string]*usedImage
}

// usedImage is one image that tasks of ours use or used.
type usedImage struct {
	users   map[string]struct{}
	managed bool      // we brought it
	due     time.Time // when to remove; zero while it is used
	refused int       // how often the engine refused the removal
	// removing is open while the engine is asked to remove the image; nil
	// otherwise.
	removing chan struct{}
}

func newUses(gc GC, file string) *uses {
	return &uses{gc: gc, file: file, wake: make(chan struct{}, 1), images: map[string]*usedImage{}}
}

// add counts a use and calls a pending removal off. It is false when the
// removal is under way: then the image is as good as gone.
func (u *uses) add(id, user string, managed bool) bool {
	if !u.gc.Enabled {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ready()
	img := u.images[id]
	if img == nil {
		img = &usedImage{users: map[string]struct{}{}}
		u.images[id] = img
	}
	if img.removing != nil {
		return false
	}
	img.users[user] = struct{}{}
	img.managed = img.managed || managed
	img.due, img.refused = time.Time{}, 0
	u.save()
	return true
}

// settled waits until the image is not being removed.
func (u *uses) settled(ctx context.Context, id string) error {
	u.mu.Lock()
	var removing chan struct{}
	if img := u.images[id]; img != nil {
		removing = img.removing
	}
	u.mu.Unlock()
	if removing == nil {
		return nil
	}
	select {
	case <-removing:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drop takes one use back; the last one starts the delay. It is false when the
// use was not counted.
func (u *uses) drop(id, user string) bool {
	if !u.gc.Enabled {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ready()
	img := u.images[id]
	if img == nil {
		return false
	}
	if _, counted := img.users[user]; !counted {
		return false
	}
	delete(img.users, user)
	if len(img.users) == 0 {
		u.unused(id, img)
	}
	u.save()
	return true
}

// unused plans the removal of an image, or forgets one that is not ours to
// remove. u.mu is held.
func (u *uses) unused(id string, img *usedImage) {
	if u.gc.ManagedOnly && !img.managed {
		delete(u.images, id)
		return
	}
	img.due = time.Now().Add(u.gc.Delay)
	u.stir()
}

// stir makes the collector look again.
func (u *uses) stir() {
	select {
	case u.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// next is when the earliest removal is due; zero for none.
func (u *uses) next() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	var first time.Time
	for _, img := range u.images {
		if img.due.IsZero() || img.removing != nil {
			continue
		}
		if first.IsZero() || img.due.Before(first) {
			first = img.due
		}
	}
	return first
}

// take marks one image that is due as being removed; "" when none is.
func (u *uses) take(now time.Time) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(u.images)) {
		img := u.images[id]
		if !img.due.IsZero() && !img.due.After(now) && img.removing == nil {
			img.removing = make(chan struct{})
			return id
		}
	}
	return ""
}

// removed ends a removal: the image is forgotten, or tried again at later.
func (u *uses) removed(id string, later time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	img := u.images[id]
	close(img.removing)
	img.removing = nil
	if later.IsZero() {
		delete(u.images, id)
	} else {
		img.due, img.refused = later, img.refused+1
	}
	u.save()
}

// refusals is how often the engine refused to remove the image.
func (u *uses) refusals(id string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.images[id].refused
}
