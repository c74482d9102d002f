// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"
)

// AgentConfig says what agent to start. Empty fields mean their defaults.
type AgentConfig struct {
	Name      string // node name; default "gpu-docker-test"
	Dir       string // data, logs and configuration; must exist
	NomadPath string // the agent's program
	PluginDir string
	// DriverRoot is the simulated (or real) driver root that both plugins use.
	DriverRoot string
	// DriverConfig and DeviceConfig are HCL lines for the plugins' config
	// blocks; DriverGPU for the gpu block inside the first.
	DriverConfig, DriverGPU, DeviceConfig string
	// FingerprintPeriod is the device plugin's; default "2s".
	FingerprintPeriod string
	// ClientConfig are more HCL lines for the client block.
	ClientConfig string
	// AgentConfig are more HCL lines for the agent's configuration itself.
	AgentConfig string
	// Drivers are the task drivers to allow; default only gpu-docker, because
	// fewer drivers mean a faster first fingerprint.
	Drivers []string
	// JoinServer is the RPC address of an agent whose server this client uses
	// instead of one of its own.
	JoinServer string
}

// Agent is a running Nomad agent, server and client in one, on loopback.
type Agent struct {
	API   *api.Client
	cfg   AgentConfig
	ports [3]int // HTTP, RPC, Serf
	proc  *Process
}

// StartAgent starts an agent and waits until its node is ready.
func StartAgent(ctx context.Context, cfg AgentConfig) (*Agent, error) {
	if os.Geteuid() != 0 {
		return nil, errNotRoot
	}
	if cfg.Name == "" {
		cfg.Name = "gpu-docker-test"
	}
	if cfg.FingerprintPeriod == "" {
		cfg.FingerprintPeriod = "2s"
	}
	if cfg.Drivers == nil {
		cfg.Drivers = []string{"gpu-docker"}
	}
	a := &Agent{cfg: cfg}
	for i := range a.ports {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		a.ports[i] = port
	}
	client, err := api.NewClient(&api.Config{Address: a.Address()})
	if err != nil {
		return nil, err
	}
	a.API = client
	if err := os.WriteFile(a.configFile(), []byte(a.config()), 0o644); err != nil {
		return nil, err
	}
	if err := a.Start(ctx); err != nil {
		return nil, errors.Join(err, a.Close(ctx))
	}
	return a, nil
}

// Address is the agent's HTTP address.
func (a *Agent) Address() string { return fmt.Sprintf("http://127.0.0.1:%d", a.ports[0]) }

// RPCAddress is where other clients reach this agent's server.
func (a *Agent) RPCAddress() string { return fmt.Sprintf("127.0.0.1:%d", a.ports[1]) }

// DataDir is the agent's data directory.
func (a *Agent) DataDir() string { return filepath.Join(a.cfg.Dir, a.cfg.Name+"-data") }

// LogFile is where the agent's output goes.
func (a *Agent) LogFile() string { return filepath.Join(a.cfg.Dir, a.cfg.Name+".log") }

// PID is the agent's process id.
func (a *Agent) PID() int { return a.proc.PID() }

func (a *Agent) configFile() string { return filepath.Join(a.cfg.Dir, a.cfg.Name+".hcl") }

// Start starts the agent (again) on its data directory and waits until its node
// is ready with the task driver healthy.
func (a *Agent) Start(ctx context.Context) error {
	proc, err := StartProcess(a.LogFile(), nil, a.cfg.NomadPath, "agent", "-config", a.configFile())
	if err != nil {
		return err
	}
	a.proc = proc
	err = Eventually(ctx, 90*time.Second, func() error {
		if proc.Ended() {
			return Final(fmt.Errorf("the Nomad agent ended: %s", proc.LogErrors()))
		}
		return a.ready()
	})
	if err != nil {
		return fmt.Errorf("start the Nomad agent: %w; its log is %q", err, a.LogFile())
	}
	return nil
}

func (a *Agent) ready() error {
	node, err := a.Node()
	if err != nil {
		return err
	}
	if node.Status != "ready" {
		return fmt.Errorf("node %q is %s", node.Name, node.Status)
	}
	for _, name := range a.cfg.Drivers {
		if d := node.Drivers[name]; d == nil || !d.Detected {
			return fmt.Errorf("driver %q is not detected", name)
		}
	}
	return nil
}

// Node is this agent's node as the server knows it.
func (a *Agent) Node() (*api.Node, error) {
	nodes, _, err := a.API.Nodes().List(nil)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.Name == a.cfg.Name {
			node, _, err := a.API.Nodes().Info(n.ID, nil)
			return node, err
		}
	}
	return nil, fmt.Errorf("node %q has not registered", a.cfg.Name)
}

// Stop ends the agent and leaves its tasks running: gracefully with SIGINT, or
// as a crash with SIGKILL.
func (a *Agent) Stop(sig syscall.Signal) {
	if a.proc != nil {
		a.proc.Stop(sig, 30*time.Second)
	}
}

// Close purges all jobs, waits until their allocations are gone, ends the agent
// and removes its data. Failures are told together.
func (a *Agent) Close(ctx context.Context) error {
	var errs []error
	if a.proc != nil && !a.proc.Ended() {
		errs = append(errs, a.PurgeJobs(ctx))
	}
	a.Stop(syscall.SIGINT)
	errs = append(errs, unmountBelow(a.DataDir()), os.RemoveAll(a.DataDir()))
	return errors.Join(errs...)
}

// PurgeJobs stops and removes all jobs and waits until their allocations ended.
func (a *Agent) PurgeJobs(ctx context.Context) error {
	jobs, _, err := a.API.Jobs().List(nil)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if _, _, err := a.API.Jobs().Deregister(j.ID, true, nil); err != nil {
			return err
		}
	}
	return Eventually(ctx, time.Minute, func() error {
		allocs, _, err := a.API.Allocations().List(nil)
		if err != nil {
			return err
		}
		for _, alloc := range allocs {
			if alloc.ClientStatus == api.AllocClientStatusRunning || alloc.ClientStatus == api.AllocClientStatusPending {
				return fmt.Errorf("allocation %s of job %q is still %s", alloc.ID[:8], alloc.JobID, alloc.ClientStatus)
			}
		}
		return nil
	})
}

// unmountBelow detaches what an agent that was killed left mounted.
func unmountBelow(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var below []string
	for _, line := range strings.Split(string(mounts), "\n") {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			below = append(below, f[1])
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(below)))
	for _, m := range below {
		if err := unix.Unmount(m, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %q: %w", m, err)
		}
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
