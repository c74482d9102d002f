//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// made are the ids of the images that this run has made, by reference. Stories run
// one after the other.
var made = map[string]string{}

// makeImages makes the images of the stories that are not there: at first all, and
// later what a driver has removed as unused.
func makeImages(ctx context.Context, engine *harness.Engine) error {
	for _, img := range images {
		if found, err := engine.Client.ImageInspect(ctx, img.Ref); err == nil && found.ID == made[img.Ref] {
			continue
		}
		if err := engine.MakeImage(ctx, img); err != nil {
			return err
		}
		found, err := engine.Client.ImageInspect(ctx, img.Ref)
		if err != nil {
			return err
		}
		made[img.Ref] = found.ID
	}
	return nil
}

// TestMain removes the images after the last story.
func TestMain(m *testing.M) {
	code := m.Run()
	if err := removeImages(); err != nil {
		fmt.Fprintln(os.Stderr, "images of the stories are left behind:", err)
		code = 1
	}
	os.Exit(code)
}

func removeImages() error {
	if len(made) == 0 {
		return nil
	}
	engine, err := harness.EnsureEngine(context.Background(), func(string, ...any) {})
	if err != nil {
		return err
	}
	defer engine.Close()
	var left []string
	for ref := range made {
		engine.RemoveImages(context.Background(), ref)
		if _, err := engine.Client.ImageInspect(context.Background(), ref); err == nil {
			left = append(left, ref)
		}
	}
	if left != nil {
		return fmt.Errorf("%q; is a container left that uses them?", left)
	}
	return nil
}
