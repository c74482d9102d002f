// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// pingTimeout is how long an answer of the volume driver may take; the engine
// itself would try for half a minute.
const pingTimeout = time.Second

// Ping asks whether somebody serves the volume driver's socket in dir, as the
// engine will when a container with the volume is created. It takes at most one
// second; the error names the socket.
func Ping(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", SocketPath(dir))
		},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+DriverName+"/Plugin.Activate", nil)
	if err != nil {
		return fmt.Errorf("ask the volume driver: %w", err)
	}
	req.Header.Set("Accept", acceptV12)
	resp, err := transport.RoundTrip(req)
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		err = fmt.Errorf("it answers %q", resp.Status)
	}
	return fmt.Errorf(`volume plugin not ready at %q: %w; see why "gpu-docker serve" or the task driver does not serve it, or set volume_mode = "bind"`, SocketPath(dir), err)
}
