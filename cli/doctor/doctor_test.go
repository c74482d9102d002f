// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"
	"github.com/shoenig/test/must"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/volume"
)

// fakeHost is a GPU host in memory; its nodes are files of a directory.
type fakeHost struct {
	inv      gpuhost.Inventory
	control  []gpuhost.DeviceNode
	nodes    map[string]string // by UUID
	files    *gpuhost.DriverFiles
	filesErr error
}

func (h *fakeHost) Inventory(context.Context) *gpuhost.Inventory { return &h.inv }
func (h *fakeHost) ControlNodes() []gpuhost.DeviceNode           { return h.control }
func (h *fakeHost) DriverFiles(context.Context) (*gpuhost.DriverFiles, error) {
	return h.files, h.filesErr
}

func (h *fakeHost) GPUNode(g *gpuhost.GPU) (gpuhost.DeviceNode, error) {
	if path := h.nodes[g.UUID]; path != "" {
		return gpuhost.DeviceNode{HostPath: path, ContainerPath: g.Path()}, nil
	}
	return gpuhost.DeviceNode{}, errors.New("node is missing")
}

type fakeEngine struct {
	version types.Version
	info    system.Info
	err     error
	running []container.Summary
	listErr error
}

func (e *fakeEngine) DaemonHost() string                                   { return "unix:///engine" }
func (e *fakeEngine) Info(context.Context) (system.Info, error)            { return e.info, e.err }
func (e *fakeEngine) ServerVersion(context.Context) (types.Version, error) { return e.version, e.err }

func (e *fakeEngine) ContainerList(context.Context, container.ListOptions) ([]container.Summary, error) {
	return e.running, e.listErr
}

type fakeVolumes struct {
	list []volume.Volume
	err  error
}

func (v *fakeVolumes) List() ([]volume.Volume, error) { return v.list, v.err }

// scene is a host on which all is well; tests break one part of it.
type scene struct {
	host    *fakeHost
	engine  *fakeEngine
	volumes *fakeVolumes
	exam    *Examination
}

func wellScene(t *testing.T) *scene {
	t.Helper()
	dir := t.TempDir()
	node := func(name string) string {
		path := filepath.Join(dir, name)
		must.NoError(t, os.WriteFile(path, nil, 0o600))
		must.NoError(t, os.Chmod(path, 0o666))
		return path
	}
	s := &scene{
		host: &fakeHost{
			inv: gpuhost.Inventory{
				Driver: gpuhost.Driver{Version: "535.1", KernelVersion: "535.1", CUDA: gpuhost.CUDAVersion{Major: 12, Minor: 2}, Library: "/lib/libnvidia-ml.so.1"},
				GPUs:   []gpuhost.GPU{{Index: 0, UUID: "GPU-a"}},
			},
			control: []gpuhost.DeviceNode{{HostPath: node("ctl"), ContainerPath: "/dev/nvidiactl"}, {HostPath: node("uvm"), ContainerPath: "/dev/nvidia-uvm"}},
			nodes:   map[string]string{"GPU-a": node("gpu")},
			files: &gpuhost.DriverFiles{Version: "535.1", Libraries: []gpuhost.Library{
				{Name: "libcuda.so.535.1", Bits: 64}, {Name: "libnvidia-ml.so.535.1", Bits: 64},
			}},
		},
		engine:  &fakeEngine{version: types.Version{Version: "26.1.5", APIVersion: "1.45"}, info: system.Info{DefaultRuntime: "runc", CgroupVersion: "2", CgroupDriver: "systemd"}},
		volumes: &fakeVolumes{list: []volume.Volume{{Name: "nvidia_driver_535.1", Version: "535.1", Mountpoint: "/volumes/nvidia_driver/535.1"}}},
	}
	s.exam = &Examination{Host: s.host, Engine: s.engine, Volumes: s.volumes, SocketDir: dir}
	s.exam.APIAddress = answering(t, "tcp", "127.0.0.1:0", `{"VolumeDriver":"nvidia-docker"}`)
	answering(t, "unix", volume.SocketPath(dir), `{"Implements":["VolumeDriver"]}`)
	return s
}

// answering serves one body for every request.
func answering(t *testing.T, network, address, body string) string {
	t.Helper()
	listener, err := net.Listen(network, address)
	must.NoError(t, err)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	must.NoError(t, srv.Listener.Close())
	srv.Listener = listener
	srv.Start()
	t.Cleanup(srv.Close)
	return listener.Addr().String()
}

func TestAllIsWell(t *testing.T) {
	findings := wellScene(t).exam.Run(t.Context())
	for _, f := range findings {
		must.Eq(t, OK, f.Level, must.Sprint(f))
		must.Eq(t, "", f.Cure)
	}
	must.Eq(t, OK, Worst(findings))
	must.Len(t, 12, findings)
}

// Each fault alone: how bad it is and what it says; and it has a cure.
func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		name   string
		spoil  func(*testing.T, *scene)
		worst  Level
		detail string
	}{
		{"no driver", func(_ *testing.T, s *scene) {
			s.host.inv = gpuhost.Inventory{Reason: "no library"}
			s.volumes.list = nil
		}, Warning, "no library"},
		{"version unreadable", func(_ *testing.T, s *scene) { s.host.inv.Driver.VersionErr = errors.New("code 9") }, Broken, "its version cannot be read: code 9"},
		{"mismatch", func(_ *testing.T, s *scene) { s.host.inv.Driver.KernelVersion = "470.1" }, Broken, "the library is of 535.1, the loaded kernel module of 470.1"},
		{"no GPU", func(_ *testing.T, s *scene) { s.host.inv.GPUs = nil; s.host.inv.Reason = "driver finds no GPU" }, Warning, "driver finds no GPU"},
		{"unhealthy GPU", func(_ *testing.T, s *scene) { s.host.inv.GPUs[0].Unhealthy = "XID 79" }, Broken, "unknown model GPU-a: XID 79"},
		{"unusable GPU", func(_ *testing.T, s *scene) { s.host.inv.Skipped = []string{"GPU 1 has no UUID"} }, Broken, "GPU 1 has no UUID"},
		{"no UVM node", func(_ *testing.T, s *scene) { s.host.control = s.host.control[:1] }, Broken, "/dev/nvidia-uvm is missing"},
		{"no GPU node", func(_ *testing.T, s *scene) { s.host.nodes = nil }, Broken, "node is missing"},
		{"closed node", func(t *testing.T, s *scene) { must.NoError(t, os.Chmod(s.host.nodes["GPU-a"], 0o600)) }, Warning, "/dev/nvidia0 is -rw-------"},
		{"no files", func(_ *testing.T, s *scene) { s.host.filesErr = errors.New("nothing found") }, Broken, "nothing found"},
		{"no libcuda", func(_ *testing.T, s *scene) { s.host.files.Libraries = s.host.files.Libraries[1:] }, Broken, "no 64-bit libcuda.so among 1 libraries"},
		{"no engine client", func(_ *testing.T, s *scene) { s.exam.Engine, s.exam.EngineErr = nil, errors.New("bad host") }, Broken, "bad host"},
		{"no engine", func(_ *testing.T, s *scene) { s.engine.err = errors.New("refused") }, Broken, "unix:///engine does not answer: refused"},
		{"old engine", func(_ *testing.T, s *scene) { s.engine.version.APIVersion = "1.24" }, Warning, "speaks API 1.24"},
		{"default runtime", func(_ *testing.T, s *scene) { s.engine.info.DefaultRuntime = "nvidia" }, Warning, "it is nvidia, so isolation depends on more than reservations"},
		{"no socket", func(t *testing.T, s *scene) { s.exam.SocketDir = t.TempDir() }, Warning, "no socket at "},
		{"dead socket", func(t *testing.T, s *scene) { s.exam.SocketDir = deadSocket(t) }, Broken, "nobody answers on "},
		{"foreign socket", func(t *testing.T, s *scene) {
			s.exam.SocketDir = t.TempDir()
			answering(t, "unix", volume.SocketPath(s.exam.SocketDir), "hello")
		}, Broken, "is not a volume driver's"},
		{"no API", func(_ *testing.T, s *scene) { s.exam.APIAddress = "127.0.0.1:1" }, Warning, "nobody answers at 127.0.0.1:1"},
		{"foreign API", func(t *testing.T, s *scene) { s.exam.APIAddress = answering(t, "tcp", "127.0.0.1:0", "hello") }, Warning, "is served by another program"},
		{"old volume", func(_ *testing.T, s *scene) {
			s.volumes.list[0] = volume.Volume{Name: "nvidia_driver_470.1", Version: "470.1"}
		}, Warning, "not of the loaded driver: nvidia_driver_470.1"},
		{"users of an old driver", func(_ *testing.T, s *scene) {
			old := volume.Volume{Name: "nvidia_driver_470.1", Version: "470.1", Mountpoint: "/volumes/nvidia_driver/470.1"}
			s.volumes.list = append(s.volumes.list, old)
			mounted := func(name string, m container.MountPoint) container.Summary {
				return container.Summary{Names: []string{"/" + name}, Mounts: []container.MountPoint{m}}
			}
			s.engine.running = []container.Summary{
				mounted("current", container.MountPoint{Name: "nvidia_driver_535.1"}),
				mounted("named", container.MountPoint{Name: "nvidia_driver_470.1"}),
				mounted("bound", container.MountPoint{Source: "/volumes/nvidia_driver/470.1"}),
				{Names: []string{"/labelled"}, Labels: map[string]string{volume.ContainerLabel: "460.2"}},
				{Names: []string{"/fresh"}, Labels: map[string]string{volume.ContainerLabel: "535.1"}},
				mounted("longer", container.MountPoint{Source: "/volumes/nvidia_driver/470.10"}),
			}
		}, Warning, "bound (470.1), labelled (460.2), named (470.1)"},
		{"containers unknown", func(_ *testing.T, s *scene) {
			s.volumes.list[0] = volume.Volume{Name: "nvidia_driver_470.1", Version: "470.1"}
			s.engine.listErr = errors.New("timeout")
		}, Broken, "it does not list its containers: timeout"},
		{"volumes unreadable", func(_ *testing.T, s *scene) { s.volumes.err = errors.New("permission denied") }, Broken, "permission denied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := wellScene(t)
			tc.spoil(t, s)
			findings := s.exam.Run(t.Context())
			must.Eq(t, tc.worst, Worst(findings), must.Sprint(findings))
			text, err := json.Marshal(findings)
			must.NoError(t, err)
			found := false
			for _, f := range findings {
				must.Eq(t, f.Level == OK, f.Cure == "", must.Sprint(f))
				found = found || f.Level == tc.worst && strings.Contains(f.Detail, tc.detail)
			}
			must.True(t, found, must.Sprint(string(text)))
		})
	}
}

func deadSocket(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: volume.SocketPath(dir), Net: "unix"})
	must.NoError(t, err)
	l.SetUnlinkOnClose(false)
	must.NoError(t, l.Close())
	return dir
}
