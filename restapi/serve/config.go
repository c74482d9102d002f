// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/gpu-docker/gpu-docker/volume"
)

// DefaultAPIAddress is the port of nvidia-docker v1, on loopback.
const DefaultAPIAddress = "127.0.0.1:3476"

// Config says what to serve where.
type Config struct {
	// APIAddress is host:port of the REST API; empty turns it off.
	APIAddress string
	// API answers the requests of the REST API; required with an address.
	API http.Handler
	// VolumeSocketDir is the absolute directory of the volume plugin's socket;
	// empty turns the volume plugin off.
	VolumeSocketDir string
	// Volumes answers the volume plugin protocol; required with a directory.
	Volumes http.Handler
	// Logger is told what is served, what is taken, and what was taken over.
	Logger hclog.Logger
	// RetryInterval is how often a taken port or socket is tried; default 1 s.
	RetryInterval time.Duration
	// Changed is called after the state of the port or the socket changed, from
	// several goroutines; nil is fine.
	Changed func()

	// patience is how long requests that run may go on at the end; default 5 s.
	patience time.Duration
}

func (c *Config) setDefaults() {
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.RetryInterval <= 0 {
		c.RetryInterval = time.Second
	}
	if c.patience <= 0 {
		c.patience = shutdownTimeout
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
}

func (c *Config) validate() error {
	if c.APIAddress != "" {
		if err := ValidateAddress(c.APIAddress); err != nil {
			return err
		}
		if c.API == nil {
			return fmt.Errorf("API address %q has no handler", c.APIAddress)
		}
	}
	if c.VolumeSocketDir != "" {
		if !filepath.IsAbs(c.VolumeSocketDir) {
			return fmt.Errorf("volume socket directory %q must be absolute; use for example %q", c.VolumeSocketDir, volume.DefaultSocketDir)
		}
		if c.Volumes == nil {
			return fmt.Errorf("volume socket directory %q has no handler", c.VolumeSocketDir)
		}
	}
	return nil
}

// ValidateAddress checks the form host:port of an API address; ":3476" means
// every interface.
func ValidateAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("API address %q must be host:port: %w; use for example %q", address, err, DefaultAPIAddress)
	}
	return nil
}

// loopback says whether only this machine can reach the address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
