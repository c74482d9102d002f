// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package imagemeta

import "sync"

// Bounds of the cache: images, and bytes of one image.
const (
	maxCached      = 256
	maxCachedBytes = 64 << 10
)

// cache remembers metadata by digest and platform. What a digest names never
// changes, so nothing in it grows stale; the oldest entry makes room. Safe for
// concurrent use. A nil cache remembers nothing.
type cache struct {
	mu     sync.Mutex // guards everything below
	images map[cacheKey]*Image
	order  []cacheKey
}

type cacheKey struct{ digest, platform string }

func newCache() *cache { return &cache{images: map[cacheKey]*Image{}} }

func (c *cache) get(digest, platform string) *Image {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if img := c.images[cacheKey{digest, platform}]; img != nil {
		return img.clone()
	}
	return nil
}

func (c *cache) put(digest, platform string, img *Image) {
	if c == nil || img.bytes() > maxCachedBytes {
		return
	}
	key := cacheKey{digest, platform}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.images[key] != nil {
		return
	}
	if len(c.order) == maxCached {
		delete(c.images, c.order[0])
		c.order = c.order[1:]
	}
	c.images[key] = img.clone()
	c.order = append(c.order, key)
}
