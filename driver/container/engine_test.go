// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine

package container

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/docker/go-connections/nat"
	"github.com/hashicorp/nomad/helper/uuid"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/nomad/plugins/drivers"
	"github.com/shoenig/test/must"
)

const (
	engineImage   = "gpu-docker-container-test:latest"
	engineTimeout = 2 * time.Minute
)

// busyboxPaths are where a statically linked busybox can be.
var busyboxPaths = []string{"/usr/bin/busybox", "/bin/busybox"}

// newEngine connects to the engine and makes the tests' image, which is a shell.
func newEngine(t *testing.T) (*client.Client, context.Context) {
	t.Helper()
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	must.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	t.Cleanup(func() {
		cancel()
		_ = c.Close()
	})
	if _, err := c.ImageInspect(ctx, engineImage); err == nil {
		return c, ctx
	}
	answer, err := c.ImageImport(ctx, image.ImportSource{Source: busyboxTar(t), SourceName: "-"}, engineImage,
		image.ImportOptions{Changes: []string{"ENV NVIDIA_VISIBLE_DEVICES=all", "ENV PATH=/bin", `CMD ["id"]`}})
	must.NoError(t, err)
	_, err = io.Copy(io.Discard, answer)
	must.NoError(t, err)
	must.NoError(t, answer.Close())
	return c, ctx
}

func busyboxTar(t *testing.T) io.Reader {
	t.Helper()
	var program []byte
	for _, path := range busyboxPaths {
		if text, err := os.ReadFile(path); err == nil {
			program = text
		}
	}
	must.SliceNotEmpty(t, program, must.Sprint("install the package busybox-static"))
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must.NoError(t, w.WriteHeader(&tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))}))
	_, err := w.Write(program)
	must.NoError(t, err)
	for _, name := range []string{"sh", "cat", "ls", "mount", "sleep", "id"} {
		must.NoError(t, w.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}))
	}
	must.NoError(t, w.Close())
	return &b
}

// engineInput is a task with directories on disk and an allocation of its own.
func engineInput(t *testing.T, c *client.Client, options string) *Input {
	t.Helper()
	in := newInput(t, options)
	in.Options.Image = engineImage
	in.Task.AllocID = uuid.Generate()
	in.Task.ID = in.Task.AllocID + "/web/12345678"
	in.Engine.APIVersion = c.ClientVersion()
	return onDisk(t, in)
}

// create makes the container and removes it when the test ends.
func create(t *testing.T, ctx context.Context, c *client.Client, r *Request) (string, error) {
	t.Helper()
	must.NoError(t, r.WriteFiles())
	answer, err := c.ContainerCreate(ctx, r.Config, r.HostConfig, r.Networking, r.Platform, r.Name)
	if err != nil {
		return "", err
	}
	t.Cleanup(func() {
		err := c.ContainerRemove(context.Background(), answer.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		must.NoError(t, err)
	})
	return answer.ID, nil
}

// output runs a request to its end and returns what it printed.
func output(t *testing.T, ctx context.Context, c *client.Client, r *Request) string {
	t.Helper()
	id, err := create(t, ctx, c, r)
	must.NoError(t, err)
	done, failed := c.ContainerWait(ctx, id, container.WaitConditionNextExit)
	must.NoError(t, c.ContainerStart(ctx, id, container.StartOptions{}))
	select {
	case <-done:
	case err := <-failed:
		must.NoError(t, err)
	}
	logs, err := c.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	must.NoError(t, err)
	defer logs.Close()
	var text bytes.Buffer
	_, err = stdcopy.StdCopy(&text, &text, logs)
	must.NoError(t, err)
	return text.String()
}

// TestEngine_Accepts: the engine takes every kind of request.
func TestEngine_Accepts(t *testing.T) {
	c, ctx := newEngine(t)
	for _, tc := range []struct{ name, options string }{
		{"plain", ``},
		{"process", "entrypoint = [\"sh\"]\nargs = [\"-c\", \"id\"]\nwork_dir = \"/w\"\nhostname = \"h\"\ntty = true\ninteractive = true\nhealthchecks {\n disable = true\n}"},
		{"resources", "cpu_hard_limit = true\nmemory_hard_limit = 512\npids_limit = 5\nshm_size = 1048576\noom_score_adj = 5\nulimit {\n nofile = \"5:6\"\n memlock = \"-1\"\n}"},
		{"tiny processor share", "cpu_hard_limit = true\ncpu_cfs_period = 1000"},
		{"mounts", "tmpfs = [\"/t:size=1m\"]\nvolumes = [\"local/x:/x:ro\"]\nmount {\n type = \"tmpfs\"\n target = \"/y\"\n tmpfs_options {\n size = 4096\n mode = 0700\n }\n}\nmount {\n type = \"bind\"\n source = \"local\"\n target = \"/z\"\n bind_options {\n propagation = \"rslave\"\n }\n}"},
		{"security", "cap_add = [\"chown\"]\ncap_drop = [\"all\"]\nsecurity_opt = [\"no-new-privileges\", \"seccomp=unconfined\"]\nreadonly_rootfs = true\ngroup_add = [\"5\"]\nipc_mode = \"shareable\""},
		{"devices", "devices {\n host_path = \"/dev/null\"\n container_path = \"/dev/zilch\"\n cgroup_permissions = \"r\"\n}"},
		{"network", "dns_servers = [\"192.0.2.1\"]\ndns_options = [\"ndots:1\"]\nextra_hosts = [\"a:192.0.2.1\", \"b:host-gateway\"]\nmac_address = \"02:68:b3:29:da:98\""},
		{"logging", "logging {\n type = \"json-file\"\n config {\n max-size = \"1m\"\n }\n}"},
		{"platform", `arch = "amd64"`},
		{"labels", "labels {\n a = \"b\"\n}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := engineInput(t, c, tc.options)
			must.NoError(t, os.MkdirAll(filepath.Join(in.Task.AllocDir, "web/local/x"), 0o755))
			_, err := create(t, ctx, c, assemble(t, in))
			must.NoError(t, err)
		})
	}
}

// TestEngine_NoGPU: the image asks for all GPUs and gets none.
func TestEngine_NoGPU(t *testing.T) {
	c, ctx := newEngine(t)
	in := engineInput(t, c, "command = \"sh\"\nargs = [\"-c\", \"echo =$NVIDIA_VISIBLE_DEVICES=; ls /dev\"]")
	text := output(t, ctx, c, assemble(t, in))
	must.StrContains(t, text, "=void=")
	must.StrNotContains(t, text, "nvidia")
}

// TestEngine_PublishedPorts: tcp and udp, on the given address.
func TestEngine_PublishedPorts(t *testing.T) {
	c, ctx := newEngine(t)
	in := engineInput(t, c, "command = \"sleep\"\nargs = [\"60\"]\nports = [\"http\"]")
	withGroupPorts(in, structs.AllocatedPortMapping{Label: "http", Value: 23457, To: 8080, HostIP: "127.0.0.1"})
	id, err := create(t, ctx, c, assemble(t, in))
	must.NoError(t, err)
	must.NoError(t, c.ContainerStart(ctx, id, container.StartOptions{}))
	info, err := c.ContainerInspect(ctx, id)
	must.NoError(t, err)
	for _, port := range []string{"8080/tcp", "8080/udp"} {
		bound := info.NetworkSettings.Ports
		must.Eq(t, "23457", bound[nat.Port(port)][0].HostPort)
		must.Eq(t, "127.0.0.1", bound[nat.Port(port)][0].HostIP)
	}
}

// TestEngine_Group: two tasks in the network of a pause container share the hosts
// file; the resolver is the group's.
func TestEngine_Group(t *testing.T) {
	c, ctx := newEngine(t)
	in := engineInput(t, c, "command = \"cat\"\nargs = [\"/etc/hosts\", \"/etc/resolv.conf\"]\nextra_hosts = [\"db:192.0.2.10\"]")
	in.Plugin.InfraImage = engineImage
	pause := Pause(in.Plugin, in.Task.AllocID, "group", "node-id")
	pause.Config.Cmd = []string{"sleep", "60"}
	id, err := create(t, ctx, c, pause)
	must.NoError(t, err)
	must.NoError(t, c.ContainerStart(ctx, id, container.StartOptions{}))

	in.Task.NetworkIsolation = &drivers.NetworkIsolationSpec{
		Mode:        drivers.NetIsolationModeGroup,
		Labels:      map[string]string{SandboxIDLabel: id},
		HostsConfig: &drivers.HostsConfig{Address: "172.26.64.2", Hostname: "group"},
	}
	in.Task.DNS = &drivers.DNSConfig{Servers: []string{"192.0.2.53"}}
	text := output(t, ctx, c, assemble(t, in))
	must.StrContains(t, text, "172.26.64.2 group\n192.0.2.10 db\n")
	must.StrContains(t, text, "nameserver 192.0.2.53\n")

	in.Task.Name, in.Task.NetworkIsolation.HostsConfig = "second", nil
	must.NoError(t, os.Mkdir(filepath.Join(in.Task.AllocDir, "second"), 0o755))
	in.Options = decodeTask(t, "image = \""+engineImage+"\"\ncommand = \"cat\"\nargs = [\"/etc/hosts\"]")
	must.StrContains(t, output(t, ctx, c, assemble(t, in)), "192.0.2.10 db\n")
}

// TestEngine_OtherTask: network and shared memory of another task of the allocation.
func TestEngine_OtherTask(t *testing.T) {
	c, ctx := newEngine(t)
	first := engineInput(t, c, "command = \"sh\"\nargs = [\"-c\", \"echo shared > /dev/shm/x; exec sleep 60\"]\nipc_mode = \"shareable\"")
	id, err := create(t, ctx, c, assemble(t, first))
	must.NoError(t, err)
	must.NoError(t, c.ContainerStart(ctx, id, container.StartOptions{}))
	second := engineInput(t, c, "command = \"sh\"\nargs = [\"-c\", \"until cat /dev/shm/x; do sleep 1; done\"]\nipc_mode = \"task:web\"\nnetwork_mode = \"task:web\"")
	second.Task.AllocID, second.Task.Name = first.Task.AllocID, "other"
	must.StrContains(t, output(t, ctx, c, assemble(t, second)), "shared\n")
}

// TestEngine_UserNetwork: aliases, a fixed and a hardware address.
func TestEngine_UserNetwork(t *testing.T) {
	c, ctx := newEngine(t)
	name := "gpu-docker-container-test-" + uuid.Short()
	_, err := c.NetworkCreate(ctx, name, network.CreateOptions{IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: "10.213.77.0/24"}}}})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, c.NetworkRemove(context.Background(), name)) })
	in := engineInput(t, c, "command = \"sleep\"\nargs = [\"60\"]\nnetwork_mode = \""+name+"\"\nnetwork_aliases = [\"alias\"]\nipv4_address = \"10.213.77.9\"\nmac_address = \"02:68:b3:29:da:98\"")
	id, err := create(t, ctx, c, assemble(t, in))
	must.NoError(t, err)
	must.NoError(t, c.ContainerStart(ctx, id, container.StartOptions{}))
	info, err := c.ContainerInspect(ctx, id)
	must.NoError(t, err)
	endpoint := info.NetworkSettings.Networks[name]
	must.Eq(t, "10.213.77.9", endpoint.IPAddress)
	must.Eq(t, "02:68:b3:29:da:98", endpoint.MacAddress)
	must.SliceContains(t, endpoint.Aliases, "alias")
}

// TestEngine_Duplicates: what Assemble refuses early, the engine refuses too.
func TestEngine_Duplicates(t *testing.T) {
	c, ctx := newEngine(t)
	r := assemble(t, engineInput(t, c, `tmpfs = ["/a"]`))
	r.HostConfig.Binds = append(r.HostConfig.Binds, r.HostConfig.Binds[0])
	_, err := create(t, ctx, c, r)
	must.ErrorContains(t, err, "Duplicate mount point: /alloc")
}
