// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/plugins/base"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// remote is a driver as an agent sees it: behind the gRPC boundary that Serve
// makes.
type remote struct {
	drivers.DriverPlugin
	streaming drivers.ExecTaskStreamingRawDriver
	networks  drivers.DriverNetworkManager
}

// dial serves a driver on a socket and connects to it. stop cuts the connection.
func dial(t *testing.T, d *Driver) (r remote, stop func()) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	must.NoError(t, err)
	server := d.grpcServer(nil)
	plugin := drivers.NewDriverPlugin(d, hclog.NewNullLogger())
	must.NoError(t, plugin.GRPCServer(nil, server))
	must.NoError(t, (&base.PluginBase{Impl: d}).GRPCServer(nil, server))
	go func() { _ = server.Serve(listener) }() // ends with Stop
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	raw, err := plugin.GRPCClient(ctx, nil, conn)
	must.NoError(t, err)
	return remote{
			DriverPlugin: raw.(drivers.DriverPlugin),
			streaming:    raw.(drivers.ExecTaskStreamingRawDriver),
			networks:     raw.(drivers.DriverNetworkManager),
		}, func() {
			cancel()
			_ = conn.Close()
			server.Stop()
		}
}
