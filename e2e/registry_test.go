//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

const twoGB = 2_000_000_000

// hugeImage needs a newer driver than 352.39 and has a layer that nobody should fetch.
var hugeImage = harness.Image{Ref: "gpu-docker-e2e/huge:8.0", Labels: images[2].Labels}

// refusal is the line that people read on a node with driver 352.39.
func refusal(image string) string {
	return fmt.Sprintf("image %q needs CUDA 8.0; this node's driver 352.39 supports CUDA 7.5; use driver 367 or newer, or an image for CUDA 7.5 or older"+
		`; its label com.nvidia.cuda.version is "8.0"`+
		`; to start it all the same, set NVIDIA_DISABLE_REQUIRE=1 in the task's env, or requirements = "warn" in its gpu block`, image)
}

// TestImageInARegistry: what is asked of a registry, and when.
func TestImageInARegistry(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)
	r := s.newRegistry()
	s.nodeWithGPUs(4)
	for _, story := range []struct {
		name string
		tell func(*site, *harness.Registry)
	}{
		{"refused before a layer", (*site).refusedBeforeALayer},
		{"the engine has it", (*site).engineHasIt},
		{"the registry does not tell, but lets pull", (*site).registryDoesNotTell},
		{"a private registry", (*site).privateRegistry},
		{"a new driver, the same digest", (*site).newDriverSameDigest},
	} {
		t.Run(story.name, func(t *testing.T) { story.tell(s.under(t), r) })
	}
}

// refusedBeforeALayer: three small questions, and the reason. The time is the best
// of three images, since what else the machine does counts into each.
func (s *site) refusedBeforeALayer(r *harness.Registry) {
	t := s.T
	image := r.Host + "/" + hugeImage.Ref
	var digest string
	best := time.Hour
	for i := range 3 {
		var err error
		digest, err = r.PutHuge(s.ctx, hugeImage, twoGB+int64(i))
		must.NoError(t, err)
		r.Forget()
		alloc := s.failed(job{name: fmt.Sprintf("huge-%d", i), image: image, script: "true", gpus: 1})
		must.StrContains(t, eventsOf(s, alloc), refusal(image)+" | ")
		must.Eq(t, []string{"ping 200", "manifest 200", "config 200"}, kinds(r, ""))
		must.Less(t, 64<<10, r.Traffic())
		s.nothingCame(alloc, image)

		var answers time.Duration
		for _, q := range r.Requests() {
			answers += q.Took
		}
		ours := s.took("task did not start", alloc) - answers
		t.Logf("refused with %d bytes of traffic, in %s beyond the registry's %s", r.Traffic(), ours, answers)
		best = min(best, ours)
	}
	must.Less(t, 300*time.Millisecond, best)

	t.Run("remembered by its digest", func(t *testing.T) {
		r.Forget()
		s.failed(job{name: "again", image: image, script: "true", gpus: 1})
		must.Eq(t, []string{"ping 200", "manifest 200"}, kinds(r, ""))
		r.Forget()
		exact := r.Host + "/gpu-docker-e2e/huge@" + digest
		alloc := s.failed(job{name: "exact", image: exact, script: "true", gpus: 1})
		must.StrContains(t, eventsOf(s, alloc), refusal(exact))
		must.SliceEmpty(t, kinds(r, ""))
	})
}

// engineHasIt: no question, and hardly any time.
func (s *site) engineHasIt(r *harness.Registry) {
	t := s.T
	image := r.Host + "/gpu-docker-e2e/present:7.5"
	must.NoError(t, s.engine.Client.ImageTag(s.ctx, imageCUDA75, image))
	t.Cleanup(func() { s.engine.RemoveImages(context.Background(), image) })
	r.Forget()
	var times []time.Duration
	for i := range 4 {
		alloc := s.run(job{name: fmt.Sprintf("present-%d", i), image: image, script: "sleep 600", gpus: 1})
		times = append(times, s.took("image checked", alloc))
	}
	must.SliceEmpty(t, kinds(r, ""))
	slices.Sort(times)
	t.Logf("the check of an image that is there took %v", times)
	must.Less(t, 20*time.Millisecond, times[1])
	for i := range times {
		must.NoError(t, s.agent.StopJob(s.ctx, fmt.Sprintf("present-%d", i)))
	}
}

// registryDoesNotTell, but lets pull: the pulled image is checked.
func (s *site) registryDoesNotTell(r *harness.Registry) {
	t := s.T
	wrong, right := s.push(r, imageCUDA80), s.push(r, imageCUDA75)
	t.Cleanup(func() { r.Intercept(nil) })
	r.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		switch ours := harness.Asker(req) == "gpu-docker"; {
		case ours && strings.HasSuffix(req.URL.Path, "/manifests/7.5"):
			w.WriteHeader(http.StatusInternalServerError)
		case ours && strings.HasSuffix(req.URL.Path, "/manifests/8.0"):
			<-req.Context().Done() // it hangs
		default:
			return false
		}
		return true
	})
	alloc := s.failed(job{name: "hanging", image: wrong, script: "true", gpus: 1})
	must.StrContains(t, eventsOf(s, alloc), refusal(wrong))
	must.StrContains(t, eventsOf(s, alloc), "Docker image pull finished")
	must.SliceContains(t, kinds(r, "docker/"), "manifest 200")
	must.Eq(t, 0, s.created(alloc))
	must.Less(t, 11*time.Second, s.took("image metadata cannot be had", alloc))

	alloc = s.run(job{name: "failing", image: right, script: "sleep 600", gpus: 1})
	must.Eq(t, 1, s.created(alloc))
	must.NoError(t, s.agent.StopJob(s.ctx, "failing"))
}

// privateRegistry: both the questions and the pull show the task's credentials.
func (s *site) privateRegistry(*harness.Registry) {
	t, r := s.T, s.newRegistry()
	r.Protect("robot", "s3cret")
	right := s.push(r, imageCUDA75)
	hidden := harness.Image{Ref: "gpu-docker-e2e/hidden:8.0", Env: map[string]string{"CUDA_VERSION": "8.0"}}
	_, err := r.PutHuge(s.ctx, hidden, twoGB)
	must.NoError(t, err)
	r.Forget()

	alloc := s.failed(job{name: "anonymous", image: right, script: "true", gpus: 1})
	must.StrContains(t, eventsOf(s, alloc), "Failed to pull `"+right+"`")
	must.SliceNotContains(t, kinds(r, ""), "manifest 200")

	const auth = "auth {\n username = \"robot\"\n password = \"s3cret\"\n }"
	r.Forget()
	huge := r.Host + "/" + hidden.Ref
	alloc = s.failed(job{name: "private-huge", image: huge, script: "true", gpus: 1, config: auth})
	must.StrContains(t, eventsOf(s, alloc), fmt.Sprintf("image %q needs CUDA 8.0", huge))
	must.Eq(t, []string{"ping 401", "manifest 200", "config 200"}, kinds(r, ""))
	s.nothingCame(alloc, huge)

	r.Forget()
	s.run(job{name: "private", image: right, script: "sleep 600", gpus: 1, config: auth})
	for _, asker := range []string{"gpu-docker", "docker/"} {
		must.SliceContains(t, kinds(r, asker), "manifest 200")
	}
	for _, q := range r.Requests() {
		must.True(t, q.Status == http.StatusUnauthorized || q.User == "robot", must.Sprint(q))
	}
	must.NoError(t, s.agent.StopJob(s.ctx, "private"))
}

// newDriverSameDigest: what is remembered is decided anew.
func (s *site) newDriverSameDigest(r *harness.Registry) {
	t := s.T
	image := s.push(r, images[2].Ref)
	s.failed(job{name: "before", image: image, script: "true", gpus: 1})
	exact := r.Host + "/gpu-docker-e2e/cuda@" + s.digestOf(r, image)
	must.NoError(t, s.gpus.Upgrade("367.48"))
	must.NoError(t, harness.Eventually(s.ctx, time.Minute, func() error {
		node, err := s.agent.Node()
		if err == nil && node.Attributes["driver.gpu-docker.nvidia_driver"] != "367.48" {
			err = fmt.Errorf("the node still has driver %q", node.Attributes["driver.gpu-docker.nvidia_driver"])
		}
		return err
	}))
	r.Forget()
	s.Cleanup(func() { s.engine.RemoveImages(context.Background(), exact) })
	alloc := s.run(job{name: "after", image: exact, script: "sleep 600", gpus: 1})
	must.StrContains(t, eventsOf(s, alloc), "Docker image pull finished")
	must.SliceEmpty(t, kinds(r, "gpu-docker"))
	must.NoError(t, s.agent.StopJob(s.ctx, "after"))
}
