//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// attempt is a job that must be refused, with a part of the reason.
type attempt struct{ name, config, want string }

// The parts of reasons that several attempts share.
const (
	foreignNamespace = "shares a namespace that is not the task's own and is disabled on this Nomad agent"
	noHostPaths      = "volumes are not enabled; cannot mount host path"
	besideGPUs       = "beside the reservation; reserve GPUs with a device block, or let the operator set allow_privileged"
)

func device(path string) string { return "devices {\n host_path = \"" + path + "\"\n }" }
func bound(source string) string {
	return "mount {\n type = \"bind\"\n target = \"/x\"\n source = \"" + source + "\"\n }"
}
func volumeOf(source string) string { return "volumes = [\"" + source + ":/x\"]" }

// linkMaker is a task that runs before the job's task and makes links in the
// directory that both share.
const linkMaker = `
    task "links" {
      driver = "gpu-docker"
      lifecycle { hook = "prestart" }
      config {
        image   = "` + imagePlain + `"
        command = "/bin/sh"
        args    = ["-c", "cd /alloc && ln -s /etc etc && ln -s etc chain && ln -s /etc/shadow file && ln -s /dev dev && ln -s DRIVERROOT/dev/nvidia0 gpu && ln -s / root && ln -s /proc/self/root proc"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
    task "t" {`

// refused submits all attempts at once and checks why each failed, and that the
// registry of their image was never asked and no container was made.
func (s *site) refused(attempts []attempt, links bool) {
	r := s.newRegistry()
	for i, a := range attempts {
		hcl := job{name: fmt.Sprintf("attempt-%d", i), image: r.Host + "/never:1", script: "true", config: a.config}.hcl()
		if links {
			hcl = strings.Replace(hcl, `task "t" {`, strings.ReplaceAll(linkMaker, "DRIVERROOT", s.driverRoot()), 1)
		}
		_, err := s.agent.Run(hcl)
		must.NoError(s, err, must.Sprint(a.name))
	}
	for i, a := range attempts {
		s.Run(a.name, func(t *testing.T) {
			s := s.under(t)
			alloc, err := s.agent.WaitAlloc(s.ctx, fmt.Sprintf("attempt-%d", i), api.AllocClientStatusFailed)
			must.NoError(t, err)
			must.StrContains(t, eventsOf(s, alloc), a.want)
		})
	}
	must.SliceEmpty(s, r.Requests(), must.Sprint("the registry was asked before the options were checked"))
	if !links {
		must.SliceEmpty(s, s.containers(s.ctx))
	}
}

// TestRefusedBeforeTheRegistry: whatever is wrong in a job's options is told
// before anybody asks the registry (task-driver ST-3).
func TestRefusedBeforeTheRegistry(t *testing.T) {
	dir := t.TempDir()
	profile := filepath.Join(dir, "profile.json")
	must.NoError(t, os.WriteFile(profile, []byte("no JSON"), 0o644))
	s := newSite(t, "k80x4-352", func(cfg *harness.AgentConfig) { cfg.DriverConfig = "pids_limit = 100\n" })
	s.nodeWithGPUs(4)
	s.refused([]attempt{
		{"privileged", `privileged = true`, "Docker privileged mode is disabled on this Nomad agent"},
		{"capabilities", `cap_add = ["sys_admin", "CAP_NET_RAW"]`, "driver does not allow the following capabilities: net_raw, sys_admin"},
		{"all capabilities", `cap_add = ["all"]`, "driver does not allow the following capabilities: audit_control"},
		{"host's processes", `pid_mode = "host"`, foreignNamespace},
		{"another's processes", `pid_mode = "container:x"`, foreignNamespace},
		{"host's names", `uts_mode = "host"`, foreignNamespace},
		{"host's users", `userns_mode = "host"`, foreignNamespace},
		{"host's memory", `ipc_mode = "host"`, foreignNamespace},
		{"another's memory", `ipc_mode = "container:x"`, foreignNamespace},
		{"host's cgroups", `cgroupns = "host"`, foreignNamespace},
		{"unknown cgroup namespace", `cgroupns = "mine"`, `cgroupns: "mine" is not known`},
		{"security option", `security_opt = ["nonsense"]`, "invalid security_opt"},
		{"no seccomp profile", `security_opt = ["seccomp=/no/such"]`, "opening seccomp profile"},
		{"broken seccomp profile", `security_opt = ["seccomp=` + profile + `"]`, "compacting json"},
		{"forbidden runtime", `runtime = "kata"`, `requested runtime "kata" is not allowed`},
		{"absent runtime", `runtime = "nvidia"`, `requested docker runtime "nvidia" was not found`},
		{"isolation", `isolation = "hyperv"`, `cannot use isolation mode "hyperv" on linux`},
		{"period", `cpu_cfs_period = 1000001`, "invalid value for cpu_cfs_period"},
		{"hard limit", `memory_hard_limit = 16`, "16 MiB is below the task's memory of 32 MiB"},
		{"protection from lack of memory", `oom_score_adj = -1`, "protects the task at the cost of others"},
		{"processes", `pids_limit = 101`, "pids_limit cannot be greater than nomad plugin config pids_limit: 100"},
		{"empty limit", "ulimit {\n nofile = \"\"\n }", `Malformed ulimit specification nofile: "", cannot be empty`},
		{"soft limit", "ulimit {\n nofile = \"x:1\"\n }", "Malformed soft ulimit nofile: x:1"},
		{"hard limit of files", "ulimit {\n nofile = \"1:x\"\n }", "Malformed hard ulimit nofile: 1:x"},
		{"device without path", "devices {\n container_path = \"/dev/x\"\n }", "host path must be set in configuration for devices"},
		{"device's permissions", "devices {\n host_path = \"/dev/fuse\"\n cgroup_permissions = \"rz\"\n }", `invalid cgroup permission string: "rz"`},
		{"volume of one field", `volumes = ["/x"]`, `invalid docker volume "/x": not <src>:<destination> format`},
		{"host path", volumeOf("/etc"), noHostPaths},
		{"host path by dots", volumeOf("../../../../etc"), noHostPaths},
		{"another allocation", volumeOf("../../"), noHostPaths},
		{"volume driver", "volume_driver = \"local\"\n" + volumeOf("name"), `volumes are not enabled; cannot use volume driver "local"`},
		{"mount type", "mount {\n type = \"magic\"\n target = \"/x\"\n }", "invalid mount type"},
		{"host path by a mount", bound("/etc"), noHostPaths},
		{"host path by a mount's dots", bound("../../../../etc"), noHostPaths},
		{"volume", "mount {\n type = \"volume\"\n target = \"/x\"\n source = \"name\"\n }", "volumes are not enabled; cannot mount volume"},
		{"tmpfs with a source", "mount {\n type = \"tmpfs\"\n target = \"/x\"\n source = \"/y\"\n }", `invalid source, must be "" for tmpfs`},
		{"one target twice", "mount {\n type = \"tmpfs\"\n target = \"/x\"\n }\n" + strings.Replace(bound("local"), "mount", "mounts", 1), "Duplicate mount point: /x"},
		{"unknown port", `ports = ["web"]`, `Port "web" not found, check network block`},
		{"port map without network", "port_map {\n web = 80\n }", "Trying to map ports but no network interface is available"},
		{"pull limit", `image_pull_timeout = "1d"`, "Failed to parse image_pull_timeout"},
		{"alias", `network_aliases = ["x"]`, "supported only for containers in user defined networks"},
		{"address", `ipv4_address = "10.0.0.9"`, "supported on user defined networks only"},
		{"archive elsewhere", `load = "../../secret.tar"`, "unable to open image archive"},
		{"absolute archive", `load = "/etc/shadow"`, "unable to open image archive"},
		{"unknown option", `colour = "green"`, "colour"},
		{"GPUs that were not reserved", "gpu {\n count = 2\n }", "requested 2 GPUs, got 0"},
		{"GPU", device("/dev/nvidia0"), besideGPUs},
		{"GPU of the driver root", device(s.driverRoot() + "/dev/nvidia0"), besideGPUs},
		{"all devices", device("/dev"), besideGPUs},
	}, false)
}

// TestLinksOutOfTheAllocation: a task makes links, and the next one mounts them.
func TestLinksOutOfTheAllocation(t *testing.T) {
	t.Run("volumes are not enabled", func(t *testing.T) {
		s := newSite(t, "k80x4-352", nil)
		s.nodeWithGPUs(4)
		s.refused([]attempt{
			{"directory", volumeOf("../alloc/etc"), noHostPaths + `s: "../alloc/etc", which leads to "/etc"`},
			{"below a link", volumeOf("../alloc/root/etc"), `which leads to "/etc"`},
			{"two links", volumeOf("../alloc/chain"), `which leads to "/etc"`},
			{"file", volumeOf("../alloc/file"), `which leads to "/etc/shadow"`},
			{"by a process", volumeOf("../alloc/proc/etc"), `which leads to "/etc"`},
			{"mount", bound("../alloc/etc"), noHostPaths + `: "../alloc/etc", which leads to "/etc"`},
			{"mount below a link", bound("../alloc/root/etc"), `which leads to "/etc"`},
		}, true)
	})
	t.Run("volumes are enabled", func(t *testing.T) {
		s := newSite(t, "k80x4-352", func(cfg *harness.AgentConfig) { cfg.DriverConfig = "volumes {\n enabled = true\n }\n" })
		s.nodeWithGPUs(4)
		s.refused([]attempt{
			{"all devices", volumeOf("../alloc/dev"), besideGPUs},
			{"all devices below a link", bound("../alloc/root/dev"), besideGPUs},
			{"GPU", volumeOf("../alloc/gpu"), besideGPUs},
			{"GPU by a mount", bound("../alloc/gpu"), besideGPUs},
			{"what a runtime takes for a request", `volumes = ["/srv:/var/run/nvidia-container-devices/all"]`, besideGPUs},
		}, true)
	})
}

// TestHomemadeNode: a task that makes the device node of a GPU for itself cannot
// open it; the kernel's device rules hold whatever the name.
func TestHomemadeNode(t *testing.T) {
	s := newSite(t, "k80x4-352", nil)
	s.nodeWithGPUs(4)
	const script = `for n in 0 1 2 3; do mknod /tmp/n$n c 195 $n && cat /tmp/n$n 2>&1; done | grep -c "Operation not permitted"; echo done; exec sleep 3600`
	for _, tc := range []struct {
		name string
		gpus int
		want string
	}{{"without a GPU", 0, "4\n"}, {"with one of four", 1, "3\n"}} {
		t.Run(tc.name, func(t *testing.T) {
			s := s.under(t)
			alloc := s.run(job{name: fmt.Sprintf("node-%d", tc.gpus), image: imageCUDA75, gpus: tc.gpus, script: script})
			_, err := s.agent.WaitLogs(s.ctx, alloc, "t", func(text string) error {
				if text != tc.want+"done\n" {
					return fmt.Errorf("the log is %q, want %q", text, tc.want+"done\n")
				}
				return nil
			})
			must.NoError(t, err)
		})
	}
}
