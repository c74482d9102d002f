// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/shoenig/test/must"
)

func TestRecoverableMark(t *testing.T) {
	plain := errors.New("plain")
	must.NoError(t, forNomad(nil))
	must.False(t, structs.IsRecoverable(forNomad(plain)))
	wrapped := fmt.Errorf("outer: %w", recoverable(fmt.Errorf("inner: %w", plain)))
	must.False(t, structs.IsRecoverable(wrapped), must.Sprint("Nomad looks at the outside only"))
	must.True(t, structs.IsRecoverable(forNomad(wrapped)))
	must.EqError(t, forNomad(wrapped), "outer: inner: plain")
	must.ErrorIs(t, forNomad(wrapped), plain)
	byNomad := fmt.Errorf("outer: %w", structs.NewRecoverableError(plain, false))
	must.False(t, structs.IsRecoverable(forNomad(byNomad)))
	must.NoError(t, recoverable(nil))
}

func TestClassification(t *testing.T) {
	for _, tc := range []struct {
		name        string
		err         error
		away, retry bool
	}{
		{"none", nil, false, false},
		{"cut off", fmt.Errorf("error during connect: %w", io.ErrUnexpectedEOF), true, true},
		{"refused", fmt.Errorf("dial: %w", syscall.ECONNREFUSED), true, true},
		{"timeout", context.DeadlineExceeded, true, true},
		{"we gave up", context.Canceled, false, false},
		{"not found", errNoSuch, false, false},
		{"a bad request", fmt.Errorf("x: %w", errdefs.ErrInvalidArgument), false, false},
		{"some internal error", internal("database is locked"), false, true},
		{"unavailable", fmt.Errorf("x: %w", errdefs.ErrUnavailable), false, true},
		{"port of another container", internal("driver failed programming external connectivity on endpoint t: Bind for 0.0.0.0:8080 failed: port is already allocated"), false, true},
		{"port of another process", internal("listen tcp4 0.0.0.0:8080: bind: address already in use"), false, true},
		{"address of another container", fmt.Errorf("Address already in use: %w", errdefs.ErrPermissionDenied), false, true},
		{"forbidden otherwise", fmt.Errorf("x: %w", errdefs.ErrPermissionDenied), false, false},
		{"unknown user", internal("unable to find user x: no matching entries in passwd file"), false, false},
		{"bad ulimit", internal(`OCI runtime create failed: error setting rlimit type 7`), false, false},
		{"missing device", internal(`error gathering device information while adding custom device "/dev/x"`), false, false},
		{"no GPU runtime", internal(`could not select device driver "nvidia" with capabilities: [[gpu]]`), false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			must.Eq(t, tc.away, engineAway(tc.err))
			if tc.err != nil {
				must.Eq(t, tc.retry, worthRetrying(tc.err))
			}
		})
	}
	must.True(t, imageGone(errNoImage))
	must.False(t, imageGone(errNoSuch))
	must.True(t, nameTaken(errNameTaken))
	must.True(t, nameTaken(fmt.Errorf("Conflict. The name: %w", errdefs.ErrInvalidArgument)))
	must.False(t, nameTaken(errNoSuch))
	must.False(t, nameTaken(errVolumeTaken))
	must.True(t, volumeElsewhere(errors.New("volume is attached on another node")))
}

// TestExplain_Addresses: each answer names the option or the thing that it is about.
func TestExplain_Addresses(t *testing.T) {
	for _, tc := range []struct{ answer, want string }{
		{"Bind for 0.0.0.0:80 failed: port is already allocated", "another container publishes this host port"},
		{"listen tcp4 0.0.0.0:80: bind: address already in use", "another process of the node has this host port"},
		{"Address already in use", `has the address of "ipv4_address"`},
		{"user specified IP address is supported only when connecting to networks with user configured subnets", "created with a subnet"},
		{"invalid address 10.9.0.1: It does not belong to any of this network's subnets", "must lie in a subnet"},
		{"no available IPv4 addresses on this network's address pools: lan (4f)", "no free address"},
		{errVolumeTaken.Error(), "exists with another driver"},
	} {
		must.StrContains(t, explain(internal(tc.answer)).Error(), tc.want)
	}
}

func TestExplain(t *testing.T) {
	err := internal("unable to find user bob")
	must.ErrorIs(t, explain(err), err)
	must.StrContains(t, explain(err).Error(), `"user" must exist in the image`)
	unshared := internal("path /alloc/local is mounted on / but it is not a shared or slave mount")
	must.StrContains(t, explain(unshared).Error(), `the "propagation" of a mount`)
	must.False(t, worthRetrying(unshared))
	other := errors.New("something else")
	must.Eq(t, other, explain(other))
}

func TestParseSignal(t *testing.T) {
	for _, tc := range []struct{ in, want, wantErr string }{
		{"SIGTERM", "SIGTERM", ""},
		{"term", "SIGTERM", ""},
		{" SIGUSR1 ", "SIGUSR1", ""},
		{"9", "9", ""},
		{"64", "64", ""},
		{"0", "", "numbers go from 1 to 64"},
		{"65", "", "numbers go from 1 to 64"},
		{"SIGNOPE", "", "failed to parse signal"},
		{"", "", "failed to parse signal"},
	} {
		got, err := parseSignal(tc.in)
		must.Eq(t, tc.want, got)
		if tc.wantErr != "" {
			must.ErrorContains(t, err, tc.wantErr)
		}
	}
}
