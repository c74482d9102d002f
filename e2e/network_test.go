//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/go-connections/nat"
	"github.com/hashicorp/nomad/api"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/e2e/harness"
)

// ipv4 is the network of every test: agents and ports are on 127.0.0.1.
const ipv4 = "tcp4"

// server answers every request of "/" with its name, on the port that is given.
const server = `mkdir -p /tmp/www && echo "this is $NOMAD_TASK_NAME" > /tmp/www/index.html && exec httpd -f -p PORT -h /tmp/www`

// client asks the server of its network until it answers, then tells what it sees
// of the network.
const client = `until printf 'GET / HTTP/1.0\r\n\r\n' | nc -w 2 127.0.0.1 8080; do usleep 100000; done
echo "hosts:"; cat /etc/hosts
echo "resolver:"; cat /etc/resolv.conf
echo "told $NOMAD_ADDR_web"
echo done
sleep 3600`

// group is a job with a server and a client in one group. The server runs before
// the client starts.
type group struct {
	name, network                string // of the group
	serverPort                   string
	serverDriver, clientDriver   string // default gpu-docker
	serverOptions, clientOptions string
}

func (g group) hcl() string {
	orElse := func(text string) string {
		if text == "" {
			return "gpu-docker"
		}
		return text
	}
	return strings.NewReplacer("NAME", g.name, "NETWORK", g.network, "IMAGE", imagePlain,
		"SERVERDRIVER", orElse(g.serverDriver), "CLIENTDRIVER", orElse(g.clientDriver),
		"SERVEROPTIONS", g.serverOptions, "CLIENTOPTIONS", g.clientOptions,
		"SERVERSCRIPT", strings.ReplaceAll(server, "PORT", g.serverPort), "CLIENTSCRIPT", client).Replace(`
job "NAME" {
  group "g" {
    network {
      NETWORK
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "server" {
      driver       = "SERVERDRIVER"
      kill_timeout = "1s"
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
      config {
        image   = "IMAGE"
        command = "/bin/sh"
        args    = ["-c", <<EOT
SERVERSCRIPT
EOT
        ]
        SERVEROPTIONS
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
    task "client" {
      driver       = "CLIENTDRIVER"
      kill_timeout = "1s"
      config {
        image   = "IMAGE"
        command = "/bin/sh"
        args    = ["-c", <<EOT
CLIENTSCRIPT
EOT
        ]
        CLIENTOPTIONS
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}`)
}

// imagePause holds a network: it does nothing for ever.
const imagePause = "gpu-docker-e2e/pause:1"

// makePauseImage makes it of another image.
func (s *site) makePauseImage() {
	made, err := s.engine.Client.ContainerCreate(s.ctx, &container.Config{Image: imagePlain}, nil, nil, nil, "")
	must.NoError(s, err)
	_, err = s.engine.Client.ContainerCommit(s.ctx, made.ID, container.CommitOptions{
		Reference: imagePause, Changes: []string{`CMD ["sleep", "100000000"]`},
	})
	must.NoError(s, err)
	must.NoError(s, s.engine.Client.ContainerRemove(s.ctx, made.ID, container.RemoveOptions{}))
	s.Cleanup(func() { s.engine.RemoveImages(context.Background(), imagePause) })
}

// cniPlugins are what Nomad's bridge networks need on a node.
var cniPlugins = harness.Program{Name: "/usr/lib/cni/bridge", Packages: []string{"containernetworking-plugins"}}

const (
	testBridge = "gpu-docker-e2e" // an interface name has at most 15 characters
	testSubnet = "172.31.240.0/24"
)

// bridgeClient is what the agent's client block needs for them.
var bridgeClient = fmt.Sprintf("cni_path = \"/usr/lib/cni\"\nbridge_network_name = %q\nbridge_network_subnet = %q\n", testBridge, testSubnet)

// newBridgeSite is a site whose node has bridge networks.
func newBridgeSite(t *testing.T, change func(*harness.AgentConfig)) *site {
	t.Helper()
	must.NoError(t, harness.EnsurePrograms(t.Context(), t.Logf, cniPlugins))
	s := newSite(t, "none", func(cfg *harness.AgentConfig) {
		cfg.ClientConfig = bridgeClient
		cfg.DriverConfig = "infra_image = \"" + imagePause + "\"\n"
		change(cfg)
	})
	s.makePauseImage()
	t.Cleanup(func() { // Nomad leaves its bridge
		must.NoError(t, harness.RemoveLink(testBridge))
	})
	return s
}

// inspectTask is Docker's view of the container with a role in an allocation:
// "task" with the task's name, or "pause".
func (s *site) inspectTask(allocID, role, task string) container.InspectResponse {
	f := filters.NewArgs(filters.Arg("label", ownerLabel+"="+allocID), filters.Arg("label", "io.github.gpu-docker.role="+role))
	if task != "" {
		f.Add("label", "io.github.gpu-docker.task_name="+task)
	}
	list, err := s.engine.Client.ContainerList(s.ctx, container.ListOptions{Filters: f})
	must.NoError(s, err)
	must.Len(s, 1, list)
	detail, err := s.engine.Client.ContainerInspect(s.ctx, list[0].ID)
	must.NoError(s, err)
	return detail
}

// clientView is what the client task printed.
func (s *site) clientView(alloc *api.Allocation) string {
	text, err := s.agent.WaitLogs(s.ctx, alloc, "client", func(text string) error {
		if !strings.Contains(text, "\ndone\n") {
			return fmt.Errorf("not done yet: %q", text)
		}
		return nil
	})
	must.NoError(s, err)
	return text
}

// port is where the allocation's port "web" is on the host.
func (s *site) port(alloc *api.Allocation) string {
	for _, p := range alloc.AllocatedResources.Shared.Ports {
		if p.Label == "web" {
			return net.JoinHostPort("127.0.0.1", fmt.Sprint(p.Value))
		}
	}
	s.Fatalf("allocation %s has no port \"web\"", alloc.ID)
	return ""
}

// answers waits until a server of the host answers with a text.
func (s *site) answers(address, want string) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, ipv4, address)
	}}
	must.NoError(s, harness.Eventually(s.ctx, 20*time.Second, func() error {
		answer, err := (&http.Client{Transport: transport, Timeout: 2 * time.Second}).Get("http://" + address + "/")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err == nil && string(body) != want {
			err = fmt.Errorf("%s answers %q, want %q", address, body, want)
		}
		return err
	}))
}

// TestBridgeGroup: two tasks in the network of one pause container, over restarts
// of the agent and of a task, until nothing is left.
func TestBridgeGroup(t *testing.T) {
	s := newBridgeSite(t, func(*harness.AgentConfig) {})
	alloc := s.runHCL("bridge", group{
		name: "bridge", serverPort: "8080",
		network:       "mode = \"bridge\"\nport \"web\" { to = 8080 }\ndns {\n servers = [\"192.0.2.53\"]\n searches = [\"e2e.test\"]\n }",
		serverOptions: `extra_hosts = ["db:192.0.2.10"]`,
	}.hcl())

	view := s.clientView(alloc)
	pause := s.inspectTask(alloc.ID, "pause", "")
	must.Eq(t, imagePause, pause.Config.Image)
	must.Eq(t, "/gpu-docker-init_"+alloc.ID, pause.Name)
	joined := container.NetworkMode("container:" + pause.ID)
	before := map[string]string{}
	for _, task := range []string{"server", "client"} {
		detail := s.inspectTask(alloc.ID, "task", task)
		must.Eq(t, joined, detail.HostConfig.NetworkMode)
		before[task] = detail.ID
	}

	must.StrContains(t, view, "this is server\n")
	must.StrContains(t, view, "192.0.2.10 db\n", must.Sprint("the group has one hosts file"))
	must.StrContains(t, view, " "+pause.ID[:12]+"\n", must.Sprint("the group's own name"))
	must.StrContains(t, view, "172.31.240.")
	must.StrContains(t, view, "search e2e.test\n")
	must.StrContains(t, view, "nameserver 192.0.2.53\n")
	must.StrContains(t, view, "told "+s.port(alloc)+"\n")
	s.answers(s.port(alloc), "this is server\n")

	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		s.agent.Stop(sig)
		must.NoError(t, s.agent.Start(s.ctx))
		must.Eq(t, pause.ID, s.inspectTask(alloc.ID, "pause", "").ID, must.Sprintf("after signal %v", sig))
		for task, id := range before {
			must.Eq(t, id, s.inspectTask(alloc.ID, "task", task).ID, must.Sprintf("task %q after signal %v", task, sig))
		}
		s.answers(s.port(alloc), "this is server\n")
	}

	// After an agent's restart Nomad no longer tells address and name of the group.
	must.NoError(t, s.agent.API.Allocations().Restart(alloc, "client", nil))
	must.NoError(t, harness.Eventually(s.ctx, 30*time.Second, func() error {
		view, err := s.agent.Logs(alloc, "client", "stdout")
		if n := strings.Count(view, "\ndone\n"); err == nil && n != 2 {
			err = fmt.Errorf("%d runs of the client: %s", n, eventsOf(s, alloc))
		}
		return err
	}))
	view = s.clientView(alloc)
	must.Eq(t, 2, strings.Count(view, "this is server\n"))
	must.Eq(t, 2, strings.Count(view, "192.0.2.10 db\n"))
	must.Eq(t, joined, s.inspectTask(alloc.ID, "task", "client").HostConfig.NetworkMode)

	must.NoError(t, s.agent.StopJob(s.ctx, "bridge"))
	must.NoError(t, s.nothingLeft("containers", func() []string { return s.containers(s.ctx) }))
}

// TestMixedGroup: tasks of the built-in driver and of ours in one bridge group,
// which needs initiate_network = false.
func TestMixedGroup(t *testing.T) {
	both := func(cfg *harness.AgentConfig) {
		cfg.Drivers = []string{"docker", "gpu-docker"}
		cfg.AgentConfig = "plugin \"docker\" {\n  config {\n    infra_image = \"" + imagePause + "\"\n  }\n}\n"
	}
	mixed := group{name: "mixed", serverPort: "8080", network: "mode = \"bridge\"\nport \"web\" { to = 8080 }", serverDriver: "docker"}

	t.Run("by default the agent refuses it", func(t *testing.T) {
		s := newBridgeSite(t, both)
		_, err := s.agent.Run(mixed.hcl())
		must.NoError(t, err)
		alloc, err := s.agent.WaitAlloc(s.ctx, "mixed", api.AllocClientStatusFailed)
		must.NoError(t, err)
		must.StrContains(t, alloc.ClientDescription, "only one driver can do so")
	})
	t.Run("with initiate_network = false", func(t *testing.T) {
		s := newBridgeSite(t, func(cfg *harness.AgentConfig) {
			both(cfg)
			cfg.DriverConfig += "initiate_network = false\n"
		})
		alloc := s.runHCL("mixed", mixed.hcl())
		must.StrContains(t, s.clientView(alloc), "this is server\n")
		s.answers(s.port(alloc), "this is server\n")
		mode := s.inspectTask(alloc.ID, "task", "client").HostConfig.NetworkMode
		pause, err := s.engine.Client.ContainerInspect(s.ctx, mode.ConnectedContainer())
		must.NoError(t, err)
		must.Eq(t, imagePause, pause.Config.Image)

		alone := mixed
		alone.name, alone.serverDriver = "alone", ""
		_, err = s.agent.Run(alone.hcl())
		must.NoError(t, err)
		failed, err := s.agent.WaitAlloc(s.ctx, "alone", api.AllocClientStatusFailed)
		must.NoError(t, err)
		must.StrContains(t, eventsOf(s, failed), "was not made by a pause container, so no container can join it; set initiate_network")
	})
}

// TestPorts: how tasks without a bridge group are reached, and reach each other.
func TestPorts(t *testing.T) {
	s := newSite(t, "none", nil)
	for _, tc := range []struct {
		name, mode string // of the server's container
		group      group
	}{
		{"published", "default", group{
			serverPort: "8080", network: "port \"web\" { to = 8080 }",
			serverOptions: `ports = ["web"]`, clientOptions: `network_mode = "task:server"`,
		}},
		{"host", "host", group{
			serverPort: "$NOMAD_PORT_web", network: "port \"web\" { static = 18080 }",
			serverOptions: `network_mode = "host"`, clientOptions: `network_mode = "none"`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := s.under(t)
			tc.group.name = tc.name
			alloc := s.runHCL(tc.name, tc.group.hcl())
			s.answers(s.port(alloc), "this is server\n")
			server := s.inspectTask(alloc.ID, "task", "server")
			must.Eq(t, tc.mode, string(server.HostConfig.NetworkMode))
			if tc.name == "published" {
				must.StrContains(t, s.clientView(alloc), "this is server\n")
				must.Eq(t, server.ID, s.inspectTask(alloc.ID, "task", "client").HostConfig.NetworkMode.ConnectedContainer())
				must.MapContainsKeys(t, server.NetworkSettings.Ports, []nat.Port{"8080/tcp", "8080/udp"})
			}
			must.NoError(t, s.agent.StopJob(s.ctx, tc.name))
		})
	}
}
