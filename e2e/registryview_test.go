//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// under is the same site in a subtest.
func (s *site) under(t *testing.T) *site {
	inner := *s
	inner.T = t
	return &inner
}

// newRegistry starts a registry that ends with the story.
func (s *site) newRegistry() *harness.Registry {
	r, err := harness.StartRegistry()
	must.NoError(s, err)
	s.Cleanup(func() { must.NoError(s, r.Close()) })
	return r
}

// push brings an image of the engine into the registry, from where only a pull
// brings it back.
func (s *site) push(r *harness.Registry, ref string) string {
	name, err := s.engine.Push(s.ctx, ref, r)
	must.NoError(s, err)
	s.Cleanup(func() { s.engine.RemoveImages(context.Background(), name) })
	r.Forget()
	return name
}

// failed submits a job and waits until it has failed.
func (s *site) failed(j job) *api.Allocation {
	_, err := s.agent.Run(j.hcl())
	must.NoError(s, err)
	alloc, err := s.agent.WaitAlloc(s.ctx, j.name, api.AllocClientStatusFailed)
	must.NoError(s, err)
	return alloc
}

// created counts the containers that an allocation ever had.
func (s *site) created(alloc *api.Allocation) int {
	list, errs := s.engine.Client.Events(s.ctx, events.ListOptions{
		Since: "10m", Until: fmt.Sprint(time.Now().Unix() + 1),
		Filters: filters.NewArgs(filters.Arg("event", "create"), filters.Arg("label", ownerLabel+"="+alloc.ID)),
	})
	count := 0
	for {
		select {
		case <-list:
			count++
		case err := <-errs:
			must.ErrorIs(s, err, io.EOF)
			return count
		}
	}
}

var tookField = regexp.MustCompile(`took="?([0-9.a-zµ]+)`)

// took is the time that the agent's log gives with a message about an allocation.
func (s *site) took(message string, alloc *api.Allocation) time.Duration {
	var found time.Duration
	must.NoError(s, harness.Eventually(s.ctx, 10*time.Second, func() error {
		text, err := os.ReadFile(s.agent.LogFile())
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if field := tookField.FindStringSubmatch(line); field != nil && strings.Contains(line, message) && strings.Contains(line, alloc.ID) {
				found, err = time.ParseDuration(field[1])
				return err
			}
		}
		return fmt.Errorf("no %q about %s in %q", message, alloc.ID, s.agent.LogFile())
	}))
	return found
}

// kinds are the questions of one asker, as "kind status".
func kinds(r *harness.Registry, asker string) []string {
	var list []string
	for _, q := range r.Requests() {
		if strings.HasPrefix(q.Asker, asker) {
			list = append(list, fmt.Sprintf("%s %d", q.Kind, q.Status))
		}
	}
	return list
}

// nothingCame asserts that a refused image left neither container nor layer.
func (s *site) nothingCame(alloc *api.Allocation, image string) {
	must.Eq(s, 0, s.created(alloc))
	_, err := s.engine.Client.ImageInspect(s.ctx, image)
	must.ErrorContains(s, err, "No such image")
	must.StrNotContains(s, eventsOf(s, alloc), "Downloading image")
}

// digestOf asks a registry for the digest of an image with a tag.
func (s *site) digestOf(r *harness.Registry, image string) string {
	repo, tag, _ := strings.Cut(strings.TrimPrefix(image, r.Host+"/"), ":")
	answer, err := http.Head("http://" + r.Host + "/v2/" + repo + "/manifests/" + tag)
	must.NoError(s, err)
	must.NoError(s, answer.Body.Close())
	return answer.Header.Get("Docker-Content-Digest")
}
