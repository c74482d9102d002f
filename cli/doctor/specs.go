// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpu-docker/gpu-docker/volume"
)

const specsName = "plugin files"

// EngineSpecDirs are where the engine looks for files that tell the address of a
// plugin, behind its directory of sockets.
var EngineSpecDirs = []string{"/etc/docker/plugins", "/usr/lib/docker/plugins"}

// specs looks for files that lead the engine to another volume driver of our name,
// as an installation of nvidia-docker leaves them: wherever no socket is, the
// engine follows them and waits for who is not there.
func (e *Examination) specs(context.Context) []Finding {
	var out []Finding
	for _, path := range specPaths(e.SpecDirs) {
		address, err := specAddress(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			out = append(out, warning(specsName, "remove or correct "+path, "%v", err))
		case e.SocketDir == "" || !leadsTo(address, volume.SocketPath(e.SocketDir)):
			out = append(out, warning(specsName, "remove "+path+", unless another volume driver shall serve", "%s leads the engine to %q for volumes of %s", path, address, volume.DriverName))
		default:
			out = append(out, ok(specsName, "%s leads to the volume driver's socket", path))
		}
	}
	if len(out) == 0 {
		return []Finding{ok(specsName, "none in %s", strings.Join(e.SpecDirs, ", "))}
	}
	return out
}

// specPaths are the files the engine tries for our volume driver's name.
func specPaths(dirs []string) []string {
	var paths []string
	for _, dir := range dirs {
		for _, kind := range []string{".spec", ".json"} {
			file := volume.DriverName + kind
			paths = append(paths, filepath.Join(dir, file), filepath.Join(dir, volume.DriverName, file))
		}
	}
	return paths
}

// specAddress reads the address of a plugin: the only line of a .spec, Addr of a .json.
func specAddress(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if filepath.Ext(path) == ".spec" {
		return strings.TrimSpace(string(content)), nil
	}
	var plugin struct{ Addr string }
	if err := json.Unmarshal(content, &plugin); err != nil {
		return "", fmt.Errorf("%s is no plugin file: %w", path, err)
	}
	return plugin.Addr, nil
}

// leadsTo says whether an address is that of a socket, whatever links the paths
// go through: /var/run is often one.
func leadsTo(address, socket string) bool {
	path, isSocket := strings.CutPrefix(address, "unix://")
	if !isSocket || path == socket {
		return isSocket
	}
	there, err := os.Stat(path)
	if err != nil {
		return false
	}
	here, err := os.Stat(socket)
	return err == nil && os.SameFile(there, here)
}
