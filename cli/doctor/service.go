// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/gpu-docker/gpu-docker/volume"
)

const (
	socketName  = "volume driver"
	apiName     = "REST API"
	volumesName = "driver volumes"
)

// startServer is the cure when nothing serves.
const startServer = "start the Nomad agent with the plugin gpu-docker, or gpu-docker serve"

// socket looks at the volume driver's socket: a dead one makes the engine wait
// for many seconds (cases VOL-12).
func (e *Examination) socket(ctx context.Context) []Finding {
	if e.SocketDir == "" {
		return nil
	}
	path := volume.SocketPath(e.SocketDir)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []Finding{warning(socketName, startServer, "no socket at %s", path)}
	case err != nil:
		return []Finding{broken(socketName, "run as root", "%v", err)}
	}
	answer, err := get(ctx, "unix", path, http.MethodPost, "/Plugin.Activate")
	if err != nil {
		return []Finding{broken(socketName, "remove "+path+", or "+startServer, "nobody answers on %s: %v", path, err)}
	}
	if !strings.Contains(answer, "VolumeDriver") {
		return []Finding{broken(socketName, "find out who serves "+path+" and end it", "%s is not a volume driver's", path)}
	}
	if uid, foreign := foreignOwner(info); foreign {
		return []Finding{warning(socketName, "end the process that made it, and "+startServer+" as root", "%s is of user %d, who decides what containers get as the driver's files", path, uid)}
	}
	return []Finding{ok(socketName, "answers at %s", path)}
}

// api looks at the port of the REST API.
func (e *Examination) api(ctx context.Context) []Finding {
	if e.APIAddress == "" {
		return nil
	}
	answer, err := get(ctx, "tcp", e.APIAddress, http.MethodGet, "/v1.0/docker/cli/json")
	switch {
	case err != nil:
		return []Finding{warning(apiName, startServer, "nobody answers at %s", e.APIAddress)}
	case !strings.Contains(answer, `"VolumeDriver"`) && !strings.Contains(answer, "nvml"):
		return []Finding{warning(apiName, "end what listens there, or choose another api_address", "%s is served by another program", e.APIAddress)}
	}
	return []Finding{ok(apiName, "answers at %s", e.APIAddress)}
}

// volumes looks at the driver volumes on disk.
func (e *Examination) volumes(ctx context.Context) []Finding {
	list, err := e.Volumes.List()
	if err != nil {
		return []Finding{broken(volumesName, "run as root", "%v", err)}
	}
	loaded := e.Host.Inventory(ctx).Driver.Version
	var others []string
	for _, v := range list {
		if v.Version != loaded {
			others = append(others, v.Name)
		}
	}
	if len(others) > 0 {
		return []Finding{warning(volumesName, "gpu-docker volume prune removes those that no container uses", "not of the loaded driver: %s", strings.Join(others, ", "))}
	}
	return []Finding{ok(volumesName, "%d", len(list))}
}

// get asks one question over a connection of its own and gives the start of the
// answer's body.
func get(ctx context.Context, network, address, method, path string) (string, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, limited := ctx.Deadline(); limited {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Accept", "application/vnd.docker.plugins.v1.2+json")
	request.Close = true
	if err := request.Write(conn); err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return "", fmt.Errorf("no HTTP answer: %w", err)
	}
	defer answer.Body.Close()
	start := make([]byte, 4096)
	n, err := answer.Body.Read(start)
	if n > 0 {
		return string(start[:n]), nil
	}
	return "", err
}
