// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package guard_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/guard"
)

func TestLog(t *testing.T) {
	var text bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Output: &text})
	func() {
		defer guard.Log(log, "a quiet test")
	}()
	must.Eq(t, "", text.String())
	func() {
		defer guard.Log(log, "a test")
		panic("boom")
	}()
	must.StrContains(t, text.String(), `in="a test" panic=boom`)
	must.StrContains(t, text.String(), "guard_test.go", must.Sprint("the stack tells where"))
}

func TestCatch(t *testing.T) {
	old := errors.New("as it was")
	for _, tc := range []struct {
		name string
		run  func()
		want string
	}{
		{"no panic", func() {}, "as it was"},
		{"panic", func() { panic("boom") }, "internal error in a test: boom; please report it, with the log of the plugin"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := old
			func() {
				defer guard.Catch(nil, "a test", &err)
				tc.run()
			}()
			must.EqError(t, err, tc.want)
		})
	}
}
