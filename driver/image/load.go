// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// load feeds an archive of the task's local directory to the engine, then looks
// the wanted image up.
func (c *Coordinator) load(ctx context.Context, ref Ref, req Request, who Caller) (string, error) {
	archive, err := openBeneath(req.LoadDir, req.Load)
	if err != nil {
		return "", failure(KindArchive, false, err, "unable to open image archive: %v; load is relative to the task's local/ and must stay in it", err)
	}
	defer func() { _ = archive.Close() }() // only read
	if err := c.feed(ctx, archive); err != nil {
		return "", failure(KindArchive, true, err, "unable to load image archive %q: %v", req.Load, err)
	}
	id, err := c.find(ctx, ref, req.Platform, who, true)
	if err == nil && id == "" {
		err = failure(KindArchive, false, nil, "image archive %q does not hold image %q; set image to a name that \"docker save\" put into it", req.Load, ref.Familiar)
	}
	return id, err
}

// feed sends the archive and reads the answer, in which a status 200 may still
// carry an error (task-driver IM-6).
func (c *Coordinator) feed(ctx context.Context, archive *os.File) error {
	answer, err := c.engine().ImageLoad(ctx, archive)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // read to its end
	if !answer.JSON {
		return nil
	}
	return eachMessage(answer.Body, func(m message) {
		if m.Stream != "" {
			c.log.Debug("loading image archive", "message", m.Stream)
		}
	})
}

// openBeneath opens a regular file below dir. Neither ".." nor a link leads out
// of dir, not even while the task changes it.
func openBeneath(dir, rel string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // the opened file stays usable
	// A FIFO made by a task would block an open without a look first.
	info, err := root.Stat(filepath.Clean(rel))
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file", rel)
	}
	return root.Open(filepath.Clean(rel))
}
