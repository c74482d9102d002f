//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// manyOptions is a job for the built-in docker driver. NAME and DRIVER are all
// that is replaced.
const manyOptions = `
job "NAME" {
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    network {
      port "web" { to = 8080 }
      port "admin" { to = 9090 }
    }
    task "t" {
      driver       = "DRIVER"
      user         = "nobody"
      kill_timeout = "1s"
      config {
        image             = "https://` + imagePlain + `"
        entrypoint        = ["/bin/sh"]
        args              = ["-c", "sleep 3600"]
        work_dir          = "/tmp"
        hostname          = "migrated"
        interactive       = true
        init              = true
        readonly_rootfs   = true
        network_mode      = "` + userNetwork + `"
        network_aliases   = ["cache"]
        mac_address       = "02:68:b3:29:da:98"
        ports             = ["web", "admin"]
        dns_servers       = ["192.0.2.53"]
        dns_search_domains = ["e2e.test"]
        dns_options       = ["ndots:2"]
        extra_hosts       = ["db:192.0.2.10"]
        volumes           = ["local/data:/data", "../alloc/data:/shared:ro", "HOSTDIR:/host:ro"]
        memory_hard_limit = 64
        cpu_hard_limit    = true
        cpu_cfs_period    = 50000
        pids_limit        = 100
        shm_size          = 8388608
        cap_add           = ["chown", "kill"]
        cap_drop          = ["mknod"]
        security_opt      = ["seccomp=unconfined", "no-new-privileges"]
        group_add         = ["5", "6"]
        ipc_mode          = "shareable"
        runtime           = "runc"
        labels {
          team = "cache"
        }
        labels {
          tier = "two"
        }
        logging {
          type = "json-file"
          config {
            max-size = "1m"
            max-file = "3"
            tag      = "migrated"
          }
        }
        sysctl = {
          "net.core.somaxconn" = "16384"
        }
        ulimit {
          nofile = "1000:2000"
          nproc  = "300"
        }
        healthchecks {
          disable = true
        }
        devices = [
          {
            host_path          = "/dev/fuse"
            container_path     = "/dev/other"
            cgroup_permissions = "r"
          }
        ]
        mount {
          type     = "tmpfs"
          target   = "/scratch"
          readonly = false
          tmpfs_options {
            size = 1048576
            mode = 0700
          }
        }
        mount {
          type     = "bind"
          target   = "/bound"
          source   = "local"
          readonly = true
          bind_options {
            propagation = "private"
          }
        }
        mounts {
          type   = "volume"
          target = "/volume"
          source = "gpu-docker-e2e-migrated"
          volume_options {
            no_copy = true
            labels {
              of = "e2e"
            }
            driver_config {
              name = "local"
            }
          }
        }
      }
      env {
        COLOUR = "green"
      }
      template {
        data        = "made by a template"
        destination = "local/page"
      }
      resources {
        cpu    = 400
        memory = 32
      }
    }
  }
}`

const userNetwork = "gpu-docker-e2e-migrated"

// inspected runs the job with one of the drivers and gives Docker's view of its
// container, with what differs between any two allocations replaced.
func (s *site) inspected(driver, hostDir, ownerKey string) map[string]any {
	name := "as-" + driver
	alloc := s.runHCL(name, strings.NewReplacer("NAME", name, "DRIVER", driver, "HOSTDIR", hostDir).Replace(manyOptions))
	list, err := s.engine.Client.ContainerList(s.ctx, container.ListOptions{Filters: filters.NewArgs(filters.Arg("label", ownerKey+"="+alloc.ID))})
	must.NoError(s, err)
	must.Len(s, 1, list)
	detail, err := s.engine.Client.ContainerInspect(s.ctx, list[0].ID)
	must.NoError(s, err)
	text, err := json.Marshal(map[string]any{
		"name": detail.Name, "config": detail.Config, "host": detail.HostConfig,
		"network": detail.NetworkSettings.Networks[userNetwork].Aliases, "mounts": sortedMounts(detail.Mounts),
	})
	must.NoError(s, err)
	replaced := []string{alloc.ID, "ALLOC", alloc.ID[:8], "SHORT", name, "JOB", detail.ID[:12], "CONTAINER", detail.ID, "CONTAINER"}
	for _, p := range alloc.AllocatedResources.Shared.Ports {
		replaced = append(replaced, fmt.Sprint(p.Value), "PORT-"+p.Label)
	}
	var view map[string]any
	must.NoError(s, json.Unmarshal([]byte(strings.NewReplacer(replaced...).Replace(string(text))), &view))
	return flatten("", view)
}

func sortedMounts(mounts []container.MountPoint) []container.MountPoint {
	slices.SortFunc(mounts, func(a, b container.MountPoint) int { return strings.Compare(a.Destination, b.Destination) })
	return mounts
}

// flatten turns nested objects into "a.b.c": value. Lists stay whole, and what
// is null or empty counts as absent.
func flatten(prefix string, object map[string]any) map[string]any {
	flat := map[string]any{}
	for key, value := range object {
		switch v := value.(type) {
		case map[string]any:
			maps.Copy(flat, flatten(prefix+key+".", v))
		case []any:
			if len(v) > 0 {
				flat[prefix+key] = fmt.Sprint(v)
			}
		case nil:
		default:
			flat[prefix+key] = v
		}
	}
	return flat
}

// TestMigratedJob: a job file for the built-in docker driver runs unchanged but
// for the driver's name, and gives the same container but for names, labels and
// the word that there is no GPU.
func TestMigratedJob(t *testing.T) {
	const volumes = "volumes {\n enabled = true\n }\n"
	hostDir := filepath.Join(t.TempDir(), "host")
	must.NoError(t, os.Mkdir(hostDir, 0o755))
	s := newSite(t, "none", func(cfg *harness.AgentConfig) {
		cfg.Drivers = []string{"docker", "gpu-docker"}
		cfg.DriverConfig = volumes
		cfg.AgentConfig = "plugin \"docker\" {\n  config {\n" + volumes + "  }\n}\n"
	})
	_, err := s.engine.Client.NetworkCreate(s.ctx, userNetwork, network.CreateOptions{})
	must.NoError(t, err)
	t.Cleanup(func() { // before the site's end
		ctx := context.Background()
		must.NoError(t, s.agent.PurgeJobs(ctx))
		must.NoError(t, harness.Eventually(ctx, 20*time.Second, func() error {
			return s.engine.Client.NetworkRemove(ctx, userNetwork)
		}))
		must.NoError(t, harness.Eventually(ctx, 20*time.Second, func() error {
			return s.engine.Client.VolumeRemove(ctx, "gpu-docker-e2e-migrated", true)
		}))
	})

	theirs := s.inspected("docker", hostDir, "com.hashicorp.nomad.alloc_id")
	ours := s.inspected("gpu-docker", hostDir, ownerLabel)

	must.Eq(t, "/t-ALLOC", theirs["name"])
	must.Eq(t, "/t_ALLOC", ours["name"])
	env := theirs["config.Env"].(string)
	must.Eq(t, strings.TrimSuffix(env, "]")+" NVIDIA_VISIBLE_DEVICES=void]", ours["config.Env"].(string))
	for _, view := range []map[string]any{theirs, ours} {
		delete(view, "name")
		delete(view, "config.Env")
		for _, key := range []string{"host.CapAdd", "host.CapDrop"} { // clients spell them in two ways
			view[key] = strings.ReplaceAll(strings.ToLower(view[key].(string)), "cap_", "")
		}
		limits := strings.Split(strings.Trim(view["host.Ulimits"].(string), "[]"), "] ") // the built-in driver's are in no order
		slices.Sort(limits)
		view["host.Ulimits"] = limits
		maps.DeleteFunc(view, func(key string, _ any) bool {
			return strings.HasPrefix(key, "config.Labels.com.hashicorp.nomad.") || strings.HasPrefix(key, "config.Labels.io.github.gpu-docker.")
		})
	}
	must.Eq(t, theirs, ours)
	must.Eq(t, any("two"), ours["config.Labels.tier"])
	must.Eq(t, any(float64(1048576)*64), ours["host.Memory"])
	for _, job := range []string{"as-docker", "as-gpu-docker"} {
		stubs, _, err := s.agent.API.Jobs().Allocations(job, true, nil)
		must.NoError(t, err)
		must.Len(t, 1, stubs)
		must.Eq(t, api.AllocClientStatusRunning, stubs[0].ClientStatus)
	}
}
