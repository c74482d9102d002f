// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/gpu-docker/gpu-docker/compat"
	"github.com/gpu-docker/gpu-docker/imagemeta"
)

// maxMetadataBytes bounds a file for --metadata.
const maxMetadataBytes = 16 << 20

// readMetadata reads the file, the engine or the registry.
func (c *check) readMetadata(ctx context.Context, answer *checkAnswer) (compat.Metadata, error) {
	if c.metadata != "" {
		if answer.Image == "" {
			answer.Image = c.metadata
		}
		answer.Metadata.From = "file"
		return c.readFile()
	}
	cfg := imagemeta.Config{}
	if e, err := newEngine(); err == nil {
		defer e.close()
		cfg.Engine = e
	}
	img, err := imagemeta.NewReader(cfg).Read(ctx, imagemeta.Request{Image: answer.Image, Keychain: authn.DefaultKeychain})
	if err != nil {
		return compat.Metadata{}, err
	}
	answer.Metadata = metadataAnswer{From: string(img.Origin), ID: img.ID, Digest: img.Digest}
	return img.Metadata, nil
}

func (c *check) readFile() (compat.Metadata, error) {
	in := c.app.stdin
	if c.metadata != "-" {
		f, err := os.Open(c.metadata)
		if err != nil {
			return compat.Metadata{}, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxMetadataBytes))
	if err != nil {
		return compat.Metadata{}, err
	}
	var file struct {
		Labels map[string]string
		Env    environment
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return compat.Metadata{}, fmt.Errorf(`%q is not a JSON object like {"labels": {…}, "env": {…}}: %w`, c.metadata, err)
	}
	return compat.Metadata{Labels: file.Labels, Env: file.Env}, nil
}

// environment reads variables as an object or as a list of K=V.
type environment map[string]string

func (e *environment) UnmarshalJSON(data []byte) error {
	var list []string
	if json.Unmarshal(data, &list) == nil {
		*e = imagemeta.ParseEnv(list)
		return nil
	}
	return json.Unmarshal(data, (*map[string]string)(e))
}
