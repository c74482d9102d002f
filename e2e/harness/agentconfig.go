// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"fmt"
	"strings"
)

// config is the agent's configuration file. Heartbeats and elections are fast
// because server and client are one process on loopback; tests ask often, and each
// reading of a log takes a connection.
func (a *Agent) config() string {
	var b strings.Builder
	fmt.Fprintf(&b, `name = %q
data_dir = %q
plugin_dir = %q
bind_addr = "127.0.0.1"
log_level = "DEBUG"
disable_update_check = true
limits {
  http_max_conns_per_client = 0
}
ports {
  http = %d
  rpc = %d
  serf = %d
}
advertise {
  http = "127.0.0.1"
  rpc = "127.0.0.1"
  serf = "127.0.0.1"
}
consul {
  auto_advertise = false
  client_auto_join = false
  server_auto_join = false
}
`, a.cfg.Name, a.DataDir(), a.cfg.PluginDir, a.ports[0], a.ports[1], a.ports[2])
	if a.cfg.JoinServer == "" {
		b.WriteString(`server {
  enabled = true
  bootstrap_expect = 1
  raft_multiplier = 1
}
`)
	}
	fmt.Fprintf(&b, `client {
  enabled = true
  network_interface = "lo"
  gc_interval = "10m"
  cpu_total_compute = 8000
  options = { "driver.allowlist" = %q }
%s%s}
plugin "gpu-docker" {
  config {
    gpu {
      driver_root = %q
%s    }
%s  }
}
plugin "nvidia-gpu" {
  config {
    driver_root = %q
    fingerprint_period = %q
%s  }
}
%s`, strings.Join(a.cfg.Drivers, ","), a.servers(), lines(a.cfg.ClientConfig),
		a.cfg.DriverRoot, lines(a.cfg.DriverGPU), lines(a.cfg.DriverConfig),
		a.cfg.DriverRoot, a.cfg.FingerprintPeriod, lines(a.cfg.DeviceConfig), lines(a.cfg.AgentConfig))
	return b.String()
}

func (a *Agent) servers() string {
	if a.cfg.JoinServer == "" {
		return ""
	}
	return fmt.Sprintf("  servers = [%q]\n", a.cfg.JoinServer)
}

// lines ends a text with a line break unless it is empty.
func lines(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
