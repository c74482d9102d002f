// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gpu-docker/gpu-docker/cli/doctor"
	"github.com/gpu-docker/gpu-docker/restapi/serve"
	"github.com/gpu-docker/gpu-docker/volume"
)

const doctorHelp = `Looks at everything that could be wrong, all at once: the NVIDIA driver, each GPU,
device nodes, driver files, the plugins in the Nomad agent's plugin_dir, the Docker
Engine, the volume driver's socket and the files that lead the engine to it, the
REST API's port, who may change what is kept on disk, the driver volumes, and the
containers that still use an earlier driver. Each fault comes with its cure. Nothing
is changed.

Exit codes: 0 all is well, 1 warnings, 2 something is broken.`

// driverStateDir is where the task driver keeps its own state.
const driverStateDir = "/var/lib/gpu-docker"

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	volumeOptions
	address   string
	socketDir string
	pluginDir string
	asJSON    bool
}

func newDoctorCommand(a *app) *cobra.Command {
	o := &doctorOptions{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with this host, and tell the cure",
		Long:  doctorHelp,
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings, err := a.examine(cmd.Context(), o)
			if err != nil {
				return err
			}
			if err := a.printFindings(findings, o.asJSON); err != nil {
				return err
			}
			return exitWith(int(doctor.Worst(findings)))
		},
	}
	addJSONFlag(cmd, &o.asJSON)
	f := cmd.Flags()
	f.StringVarP(&o.address, "listen", "l", serve.DefaultAPIAddress, `where the REST API should answer; "" if it is off`)
	f.StringVarP(&o.path, "volumes-path", "d", volume.DefaultDir, "directory of the driver volumes")
	f.StringVarP(&o.socketDir, "socket-dir", "s", volume.DefaultSocketDir, `directory of the volume driver's socket; "" if it is off`)
	f.StringVar(&o.pluginDir, "plugin-dir", "", "plugin_dir of the Nomad agent; default: the directory of this program if both plugins are there")
	return cmd
}

func (a *app) examine(ctx context.Context, o *doctorOptions) ([]doctor.Finding, error) {
	host, err := a.openHost()
	if err != nil {
		return nil, err
	}
	defer host.Close()
	store, err := openStore(&o.volumeOptions, host, hclog.NewNullLogger())
	if err != nil {
		return nil, err
	}
	volumes, err := absolute(o.path)
	if err != nil {
		return nil, err
	}
	e := &doctor.Examination{
		Host: host, Volumes: store, APIAddress: o.address, PluginDir: o.pluginDir,
		SocketDir: o.socketDir, SpecDirs: doctor.EngineSpecDirs, StateDirs: []string{volumes, driverStateDir},
	}
	if e.Program, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("cannot tell the file of this program: %w", err)
	}
	if e.PluginDir == "" {
		e.PluginDir = pluginDirOf(e.Program)
	}
	engine, err := newEngine()
	if err != nil {
		e.EngineErr = err
	} else {
		defer engine.close()
		e.Engine = engine
	}
	return e.Run(ctx), nil
}

// pluginDirOf is the directory of a program if it holds both plugins, as a Nomad
// agent's plugin_dir does; else empty.
func pluginDirOf(program string) string {
	dir := filepath.Dir(program)
	for _, name := range []string{"gpu-docker", "nvidia-gpu"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return ""
		}
	}
	return dir
}

func (a *app) printFindings(findings []doctor.Finding, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(a.stdout).Encode(findings)
	}
	colour := isTerminal(a.stdout) && a.env("NO_COLOR", "") == ""
	for _, f := range findings {
		if _, err := fmt.Fprintf(a.stdout, "%s %s: %s\n", mark(f.Level, colour), f.Name, f.Detail); err != nil {
			return err
		}
		if f.Cure == "" {
			continue
		}
		if _, err := fmt.Fprintf(a.stdout, "         cure: %s\n", f.Cure); err != nil {
			return err
		}
	}
	return nil
}

// mark is the level as the first column of a line.
func mark(l doctor.Level, colour bool) string {
	text := fmt.Sprintf("%-8s", l)
	if !colour {
		return text
	}
	return [...]string{"\x1b[32m", "\x1b[33m", "\x1b[31m"}[l] + text + "\x1b[0m"
}

// isTerminal says whether people read the output.
func isTerminal(w io.Writer) bool {
	file, isFile := w.(*os.File)
	return isFile && term.IsTerminal(int(file.Fd()))
}
