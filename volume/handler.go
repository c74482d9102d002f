// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

const (
	pluginContentType = "application/vnd.docker.plugins.v1+json"
	acceptV11         = "application/vnd.docker.plugins.v1.1+json"
	acceptV12         = "application/vnd.docker.plugins.v1.2+json"
	// internalError is the whole body of a status 500 (nvidia-docker-v1 §2).
	internalError = "internal error, check logs for details"
	// maxRequestBytes bounds a request; the engine's have a few hundred bytes.
	maxRequestBytes = 1 << 20
)

// Handler serves Docker's volume-plugin protocol.
//
// docker/go-plugins-helpers is not used: it answers any Accept header, leaves
// out an Err of null and a Volumes of null, and turns every failure into status
// 500, where clients of nvidia-docker v1 see 406, nulls and status 200
// (nvidia-docker-v1 VP-1 to VP-9).
func (s *Store) Handler() http.Handler {
	calls := map[string]http.HandlerFunc{
		"/Plugin.Activate":           s.activate,
		"/VolumeDriver.Capabilities": s.scope,
		"/VolumeDriver.List":         s.list,
		"/VolumeDriver.Create":       s.named(s.create),
		"/VolumeDriver.Remove":       s.named(s.drop),
		"/VolumeDriver.Mount":        s.named(s.mount),
		"/VolumeDriver.Path":         s.named(s.path),
		"/VolumeDriver.Unmount":      s.named(s.unmount),
		"/VolumeDriver.Get":          s.named(s.get),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !accepts(r) {
			w.WriteHeader(http.StatusNotAcceptable)
			return
		}
		call, ok := calls[r.URL.Path]
		if !ok || r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		call(w, r)
	})
}

// accepts says whether the client understands the protocol's versions 1.1 or 1.2.
func accepts(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept") {
		for kind := range strings.SplitSeq(header, ",") {
			if kind = strings.TrimSpace(kind); kind == acceptV11 || kind == acceptV12 {
				return true
			}
		}
	}
	return false
}

// named reads the volume's name out of a request and writes the answer. A
// client that goes away does not end a build: it will ask again.
func (s *Store) named(call func(ctx context.Context, name string) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req nameRequest
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBytes)).Decode(&req); err != nil {
			s.log.Error("volume plugin request is not understood", "path", r.URL.Path, "error", err)
			http.Error(w, internalError, http.StatusInternalServerError)
			return
		}
		s.answer(w, call(context.WithoutCancel(r.Context()), req.Name))
	}
}

func (s *Store) answer(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", pluginContentType)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.log.Debug("volume plugin answer was not read", "error", err)
	}
}

func (s *Store) activate(w http.ResponseWriter, _ *http.Request) {
	s.answer(w, activateAnswer{Implements: []string{"VolumeDriver"}})
}

func (s *Store) scope(w http.ResponseWriter, _ *http.Request) {
	var a capabilitiesAnswer
	a.Capabilities.Scope = "local"
	s.answer(w, a)
}

func (s *Store) list(w http.ResponseWriter, _ *http.Request) {
	volumes, err := s.List()
	a := listAnswer{Err: errText(err)}
	for i := range volumes {
		a.Volumes = append(a.Volumes, *entryOf(&volumes[i]))
	}
	s.answer(w, a)
}

func (s *Store) create(ctx context.Context, name string) any {
	return errAnswer{errText(s.make(ctx, name))}
}

// make builds the volume of the loaded driver unless it is there and whole; no
// other version can be made (VP-4).
func (s *Store) make(ctx context.Context, name string) error {
	version, err := ParseName(name)
	if err != nil {
		return err
	}
	loaded, err := s.loadedVersion(ctx)
	if err == nil && loaded != version {
		err = &NameError{Reason: reasonVersion, Name: name}
	}
	if err == nil {
		_, err = s.ensure(ctx, version)
	}
	if err != nil {
		s.log.Error("driver volume was not made", "volume", name, "error", err)
	}
	return err
}

func (s *Store) drop(ctx context.Context, name string) any {
	return errAnswer{errText(s.Remove(ctx, name))}
}

// mount hands out the directory, of any version that is whole (VP-5).
func (s *Store) mount(ctx context.Context, name string) any {
	v, err := s.Get(name)
	if err != nil {
		return mountAnswer{Err: errText(err)}
	}
	if err := s.repair(ctx, v); err != nil {
		return mountAnswer{Err: errText(err)}
	}
	return mountAnswer{Mountpoint: &v.Mountpoint}
}

// repair rebuilds a damaged tree of the loaded driver. That of another version
// cannot be made again, and is refused: containers would load libraries that
// somebody has changed, or miss some. A tree without a manifest is v1's, of which
// nobody knows what it should be.
func (s *Store) repair(ctx context.Context, v *Volume) error {
	m, err := s.Manifest(v.Version)
	if err != nil {
		return nil
	}
	damage := m.verify(v.Mountpoint)
	if damage == nil {
		return nil
	}
	err = s.make(ctx, v.Name)
	var name *NameError
	if errors.As(err, &name) || errors.Is(err, ErrNoDriver) {
		return fmt.Errorf("%w; driver %s must be loaded to build it again: load it, or create the container anew with the loaded driver's volume", damage, v.Version)
	}
	return err
}

func (s *Store) path(_ context.Context, name string) any {
	v, err := s.Get(name)
	if err != nil {
		return mountAnswer{Err: errText(err)}
	}
	return mountAnswer{Mountpoint: &v.Mountpoint}
}

func (s *Store) unmount(_ context.Context, name string) any {
	_, err := ParseName(name)
	return errAnswer{errText(err)}
}

func (s *Store) get(_ context.Context, name string) any {
	v, err := s.Get(name)
	return getAnswer{Volume: entryOf(v), Err: errText(err)}
}
