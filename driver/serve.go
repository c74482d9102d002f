// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gpu-docker/gpu-docker/guard"
	"github.com/gpu-docker/gpu-docker/orphan"
)

// Serve speaks Nomad's plugin protocol on stdin and stdout until the agent ends
// the process. Started by hand it explains itself and exits with 1.
func Serve(version string) {
	// A write to the stderr of an agent that crashed must not kill the tasks'
	// driver (task-driver PL-11).
	signal.Ignore(syscall.SIGPIPE)
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, JSONFormat: true})
	d := NewPlugin(logger, version)
	defer d.Shutdown()
	orphan.EndUnlessUsed(d.used.Load)
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: base.Handshake,
		Plugins: map[string]plugin.Plugin{
			base.PluginTypeBase:   &base.PluginBase{Impl: d},
			base.PluginTypeDriver: drivers.NewDriverPlugin(d, logger),
		},
		GRPCServer: d.grpcServer,
		Logger:     logger,
	})
}

// grpcServer adds what Nomad's own serving leaves out.
func (d *Driver) grpcServer(opts []grpc.ServerOption) *grpc.Server {
	return plugin.DefaultGRPCServer(append(opts,
		grpc.ChainUnaryInterceptor(d.catchPanic, d.completeCapabilities),
		grpc.ChainStreamInterceptor(d.catchStreamPanic),
	))
}

// completeCapabilities tells whether the agent should collect logs: Nomad's
// plugin server forgets that field (task-driver GR-1).
func (d *Driver) completeCapabilities(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	resp, err := next(ctx, req)
	if answer, ok := resp.(*proto.CapabilitiesResponse); ok && err == nil && answer.GetCapabilities() != nil {
		caps, capsErr := d.Capabilities()
		if capsErr != nil {
			return nil, capsErr
		}
		answer.Capabilities.DisableLogCollection = caps.DisableLogCollection
	}
	return resp, err
}

// catchPanic turns a panic in one call into that call's error (task-driver PL-15).
func (d *Driver) catchPanic(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if r := recover(); r != nil {
			resp, err = nil, d.panicError(info.FullMethod, r)
		}
	}()
	return next(ctx, req)
}

// catchStreamPanic is catchPanic for streams.
func (d *Driver) catchStreamPanic(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = d.panicError(info.FullMethod, r)
		}
	}()
	return next(srv, stream)
}

func (d *Driver) panicError(method string, cause any) error {
	guard.Tell(d.logger, method, cause)
	return status.Error(codes.Internal, fmt.Sprintf("internal error in driver gpu-docker: %v; see the agent's log", cause))
}
