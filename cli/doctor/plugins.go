// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

const pluginsName = "Nomad plugins"

// The names of the two plugins. A Nomad agent starts every executable file of its
// plugin_dir and finds the block of each by its file name, without a word when there
// is none, so the names must be these.
const (
	driverPlugin = "gpu-docker"
	devicePlugin = "nvidia-gpu"
)

// plugins looks at the directory from which a Nomad agent loads its plugins (cases
// DEV-32).
func (e *Examination) plugins(ctx context.Context) []Finding {
	if e.PluginDir == "" {
		return []Finding{ok(pluginsName, "not looked at; for a Nomad client, name its plugin_dir with --plugin-dir")}
	}
	entries, err := os.ReadDir(e.PluginDir)
	if err != nil {
		return []Finding{broken(pluginsName, "name the plugin_dir of the agent, and "+install(e.PluginDir), "%v", err)}
	}
	var out []Finding
	missing := 0
	for _, name := range []string{driverPlugin, devicePlugin} {
		if !slices.ContainsFunc(entries, func(entry fs.DirEntry) bool { return entry.Name() == name }) {
			missing++
			out = append(out, warning(pluginsName, install(e.PluginDir), `no %q in %q, so the agent has nothing for its block plugin "%s"`, name, e.PluginDir, name))
			continue
		}
		out = append(out, e.plugin(ctx, name)...)
	}
	if missing == 2 { // one of them alone serves those who want only it
		for i := range out {
			out[i].Level = Broken
		}
	}
	out = append(out, e.misnamed(ctx, entries)...)
	if len(out) > 0 {
		return out
	}
	return []Finding{ok(pluginsName, `%q has both; their blocks are plugin "%s" and plugin "%s"`, e.PluginDir, driverPlugin, devicePlugin)}
}

// install is the cure for a plugin that is not there.
func install(dir string) string {
	return fmt.Sprintf("copy %s and the link %s to it into %q (cp -d bin/plugins/*), and restart the agent", driverPlugin, devicePlugin, dir)
}

// plugin looks at one file of a plugin.
func (e *Examination) plugin(ctx context.Context, name string) []Finding {
	path := filepath.Join(e.PluginDir, name)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []Finding{broken(pluginsName, install(e.PluginDir), "%q is a link that leads nowhere, and an agent does not start with one", path)}
	case err != nil:
		return []Finding{broken(pluginsName, "run as root", "%v", err)}
	case !info.Mode().IsRegular():
		return []Finding{broken(pluginsName, install(e.PluginDir), "%q is %v, not a program", path, info.Mode())}
	case info.Mode()&0o111 == 0:
		return []Finding{broken(pluginsName, "chmod 0755 "+path+", and restart the agent", "%q is not executable, so the agent leaves it out", path)}
	}
	same, err := sameProgram(ctx, path, e.Program)
	switch {
	case err != nil:
		return []Finding{warning(pluginsName, "run as root", "%v", err)}
	case !same:
		return []Finding{warning(pluginsName, install(e.PluginDir), "%q is another program or version than %q, which you called", path, e.Program)}
	}
	return nil
}

// misnamed looks for this program under names of neither plugin.
func (e *Examination) misnamed(ctx context.Context, entries []fs.DirEntry) []Finding {
	var out []Finding
	for _, entry := range entries {
		path := filepath.Join(e.PluginDir, entry.Name())
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || entry.Name() == driverPlugin || entry.Name() == devicePlugin {
			continue
		}
		if same, err := sameProgram(ctx, path, e.Program); err == nil && same {
			cure := fmt.Sprintf("rename it to %s, or remove it", driverPlugin)
			out = append(out, warning(pluginsName, cure, `%q is this program under another name: the block plugin "%s" does not reach it`, path, driverPlugin))
		}
	}
	return out
}

// sameProgram says whether two paths lead to one file, or to two of the same content.
func sameProgram(ctx context.Context, a, b string) (bool, error) {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if err := errors.Join(errA, errB); err != nil {
		return false, err
	}
	if os.SameFile(infoA, infoB) || infoA.Size() != infoB.Size() {
		return os.SameFile(infoA, infoB), nil
	}
	fileA, err := os.Open(a)
	if err != nil {
		return false, err
	}
	defer fileA.Close()
	fileB, err := os.Open(b)
	if err != nil {
		return false, err
	}
	defer fileB.Close()
	return sameBytes(ctx, fileA, fileB)
}

// sameBytes compares two readers of the same length.
func sameBytes(ctx context.Context, a, b io.Reader) (bool, error) {
	bufA, bufB := make([]byte, 256<<10), make([]byte, 256<<10)
	for ctx.Err() == nil {
		n, errA := io.ReadFull(a, bufA)
		_, errB := io.ReadFull(b, bufB[:n])
		switch {
		case errB != nil:
			return false, errB
		case !bytes.Equal(bufA[:n], bufB[:n]):
			return false, nil
		case errA == io.EOF || errA == io.ErrUnexpectedEOF:
			return true, nil
		case errA != nil:
			return false, errA
		}
	}
	return false, ctx.Err()
}
