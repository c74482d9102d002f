// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/shoenig/test/must"
)

// task-driver IM-13. The texts are those of engines and registries.
func TestPullFailure(t *testing.T) {
	for _, tc := range []struct {
		answer string
		kind   Kind
		words  string
	}{
		{"manifest for 127.0.0.1:5000/a:b not found: manifest unknown: manifest unknown", KindNotFound, "no such image or tag"},
		{"pull access denied for a/b, repository does not exist or may require 'docker login': denied: requested access to the resource is denied", KindAuth, "refused access"},
		{"Head \"http://127.0.0.1:5000/v2/a/manifests/b\": no basic auth credentials", KindAuth, "credentials"},
		{"Get \"https://nowhere.invalid/v2/\": dial tcp: lookup nowhere.invalid: no such host", KindDNS, "does not resolve"},
		{"Get \"https://h/v2/\": x509: certificate signed by unknown authority", KindTLS, "CA"},
		{"Get \"https://h:5000/v2/\": http: server gave HTTP response to HTTPS client", KindTLS, "insecure-registries"},
		{"write /var/lib/docker/tmp/GetImageBlob1: no space left on device", KindDiskFull, "disk is full"},
		{"toomanyrequests: You have reached your pull rate limit.", KindRateLimit, "limits how often"},
		{"Get \"http://127.0.0.1:1/v2/\": dial tcp 127.0.0.1:1: connect: connection refused", KindUnreachable, "cannot be reached"},
		{"no matching manifest for linux/arm64/v8 in the manifest list entries", KindPlatform, "no variant"},
		{`unknown: {"errors":[{"code":"NAME_UNKNOWN","message":"Unknown name"}]}`, KindNotFound, "for spelling"},
		{"error parsing HTTP 403 response body: unexpected end of JSON input: \"\"", KindAuth, "does not exist"},
		{"something new", KindOther, "something new"},
	} {
		t.Run(string(tc.kind)+" "+tc.words, func(t *testing.T) {
			err := pullFailure("a:b", errors.New(tc.answer))
			must.Eq(t, tc.kind, err.Kind)
			must.StrHasPrefix(t, "Failed to pull `a:b`: ", err.Error())
			must.StrContains(t, err.Error(), tc.words)
			must.StrContains(t, err.Error(), tc.answer)
			must.True(t, structs.IsRecoverable(err))
		})
	}
	must.False(t, structs.IsRecoverable(pullFailure("a:b", errors.New("Error: image a:b not found"))))
	must.True(t, structs.IsRecoverable(pullFailure("a:b", context.Canceled)))
	inner := failure(KindStalled, true, nil, "stood still")
	must.Eq(t, inner, pullFailure("a:b", fmt.Errorf("outer: %w", inner)))
}
