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

func (h *fakeHost) MIGNodes(_ *gpuhost.GPU, m *gpuhost.MIGDevice) ([]gpuhost.DeviceNode, error) {
	if path := h.nodes[m.UUID]; path != "" {
		return []gpuhost.DeviceNode{{HostPath: path, ContainerPath: "/dev/nvidia-caps/nvidia-cap30"}}, nil
	}
	return nil, errors.New("capability node of " + m.UUID + " is missing")
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
	state := filepath.Join(dir, "state")
	must.NoError(t, os.Mkdir(state, 0o755))
	s.exam = &Examination{
		Host: s.host, Engine: s.engine, Volumes: s.volumes, SocketDir: dir,
		SpecDirs: []string{filepath.Join(dir, "etc")}, StateDirs: []string{state, filepath.Join(dir, "later")},
	}
	s.exam.PluginDir, s.exam.Program = pluginDir(t)
	s.exam.APIAddress = answering(t, "tcp", "127.0.0.1:0", `{"VolumeDriver":"nvidia-docker"}`)
	answering(t, "unix", volume.SocketPath(dir), `{"Implements":["VolumeDriver"]}`)
	return s
}

// pluginDir is a plugin_dir as it should be, and the program that it holds.
func pluginDir(t *testing.T) (dir, program string) {
	t.Helper()
	dir, program = t.TempDir(), filepath.Join(t.TempDir(), "gpu-docker")
	for _, path := range []string{program, filepath.Join(dir, "gpu-docker")} { // the one in the directory is a copy
		must.NoError(t, os.WriteFile(path, []byte("program"), 0o600))
		must.NoError(t, os.Chmod(path, 0o755))
	}
	must.NoError(t, os.Symlink("gpu-docker", filepath.Join(dir, "nvidia-gpu")))
	must.NoError(t, os.WriteFile(filepath.Join(dir, "nomad-driver-podman"), []byte("another"), 0o600)) // of the same size
	return dir, program
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
	must.Len(t, 16, findings)
}

// What the operator has turned off is not missed.
func TestTurnedOff(t *testing.T) {
	s := wellScene(t)
	s.exam.SocketDir, s.exam.APIAddress = "", ""
	findings := s.exam.Run(t.Context())
	must.Eq(t, OK, Worst(findings), must.Sprint(findings))
	must.Len(t, 14, findings)
}

// A registered NVIDIA runtime is a way to GPUs for who may name it, though it is
// not the default.
func TestOtherRuntimes(t *testing.T) {
	s := wellScene(t)
	s.engine.info.Runtimes = map[string]system.RuntimeWithStatus{"runc": runtimeAt("runc"), "gpu": runtimeAt("/usr/bin/nvidia-container-runtime")}
	found := runtimes(&s.engine.info)
	must.Eq(t, OK, found.Level)
	must.Eq(t, "runc; containers that name gpu (/usr/bin/nvidia-container-runtime) get GPUs that nobody reserved: keep it out of allow_runtimes of the driver docker", found.Detail)
}

func runtimeAt(program string) system.RuntimeWithStatus {
	return system.RuntimeWithStatus{Runtime: system.Runtime{Path: program}}
}

// specFile leaves a file that leads the engine somewhere.
func specFile(t *testing.T, s *scene, name, content string) {
	t.Helper()
	path := filepath.Join(s.exam.SpecDirs[0], name)
	must.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

// Files that lead to our own socket are fine, also through a link.
func TestSpecOfOurSocket(t *testing.T) {
	s := wellScene(t)
	linked := filepath.Join(t.TempDir(), "linked")
	must.NoError(t, os.Symlink(s.exam.SocketDir, linked))
	specFile(t, s, "nvidia-docker.spec", "unix://"+volume.SocketPath(s.exam.SocketDir)+"\n")
	specFile(t, s, "nvidia-docker/nvidia-docker.spec", "unix://"+volume.SocketPath(linked))
	specFile(t, s, "other.spec", "tcp://127.0.0.1:1")
	for _, f := range s.exam.specs(t.Context()) {
		must.Eq(t, OK, f.Level, must.Sprint(f))
	}
	must.Len(t, 2, s.exam.specs(t.Context()))
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
		{"old engine", func(_ *testing.T, s *scene) { s.engine.version.APIVersion = "1.24" }, Broken, "speaks API 1.24; gpu-docker needs 1.41 or newer"},
		{"default runtime", func(_ *testing.T, s *scene) { s.engine.info.DefaultRuntime = "nvidia" }, Warning, "it is nvidia, so isolation depends on more than reservations"},
		{"default runtime, other name", func(_ *testing.T, s *scene) { s.engine.info.DefaultRuntime = "nvidia-experimental" }, Warning, "it is nvidia-experimental, so"},
		{"default runtime, by program", func(_ *testing.T, s *scene) {
			s.engine.info.DefaultRuntime = "gpu"
			s.engine.info.Runtimes = map[string]system.RuntimeWithStatus{"gpu": runtimeAt("/usr/bin/nvidia-container-runtime")}
		}, Warning, "it is gpu (/usr/bin/nvidia-container-runtime), so"},
		{"no socket", func(t *testing.T, s *scene) { s.exam.SocketDir = t.TempDir() }, Warning, "no socket at "},
		{"dead socket", func(t *testing.T, s *scene) { s.exam.SocketDir = deadSocket(t) }, Broken, "nobody answers on "},
		{"foreign socket", func(t *testing.T, s *scene) {
			s.exam.SocketDir = t.TempDir()
			answering(t, "unix", volume.SocketPath(s.exam.SocketDir), "hello")
		}, Broken, "is not a volume driver's"},
		{"socket of somebody", func(t *testing.T, s *scene) { giveAway(t, volume.SocketPath(s.exam.SocketDir)) }, Warning, "nvidia-docker.sock is of user 4711, who decides"},
		{"left-over spec", func(t *testing.T, s *scene) {
			specFile(t, s, "nvidia-docker.spec", "unix:///var/lib/nvidia-docker/nvidia-docker.sock\n")
		}, Warning, `nvidia-docker.spec leads the engine to "unix:///var/lib/nvidia-docker/nvidia-docker.sock"`},
		{"left-over json", func(t *testing.T, s *scene) {
			specFile(t, s, "nvidia-docker/nvidia-docker.json", `{"Name":"nvidia-docker","Addr":"http://127.0.0.1:3476"}`)
		}, Warning, `nvidia-docker.json leads the engine to "http://127.0.0.1:3476"`},
		{"broken json", func(t *testing.T, s *scene) { specFile(t, s, "nvidia-docker.json", "{") }, Warning, "nvidia-docker.json is no plugin file"},
		{"spec without driver", func(t *testing.T, s *scene) {
			specFile(t, s, "nvidia-docker.spec", "unix://"+volume.SocketPath(s.exam.SocketDir))
			s.exam.SocketDir = ""
		}, Warning, "leads the engine to"},
		{"state of somebody", func(t *testing.T, s *scene) { giveAway(t, s.exam.StateDirs[0]) }, Warning, "is of user 4711, who may change what is kept there"},
		{"open state", func(t *testing.T, s *scene) { must.NoError(t, os.Chmod(s.exam.StateDirs[0], 0o777)) }, Warning, "drwxrwxrwx: others than its owner"},
		{"state is a file", func(t *testing.T, s *scene) { must.NoError(t, os.WriteFile(s.exam.StateDirs[1], nil, 0o600)) }, Broken, "later is not a directory"},
		{"no capability node", func(_ *testing.T, s *scene) {
			s.host.inv.GPUs[0].MIGDevices = []gpuhost.MIGDevice{{UUID: "MIG-a"}, {UUID: "MIG-b"}}
			s.host.nodes["MIG-a"] = s.host.nodes["GPU-a"]
		}, Broken, "capability node of MIG-b is missing"},
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
		// The plugins' installation (cases DEV-32).
		{"no plugin directory", func(_ *testing.T, s *scene) { s.exam.PluginDir += "/plugins" }, Broken, "plugins: no such file or directory"},
		{"no plugins", func(t *testing.T, s *scene) { s.exam.PluginDir = t.TempDir() }, Broken, `so the agent has nothing for its block plugin "gpu-docker"`},
		{"no device plugin", func(t *testing.T, s *scene) { must.NoError(t, os.Remove(s.exam.PluginDir+"/nvidia-gpu")) }, Warning,
			`so the agent has nothing for its block plugin "nvidia-gpu"`},
		{"link without its file", func(t *testing.T, s *scene) { must.NoError(t, os.Remove(s.exam.PluginDir+"/gpu-docker")) }, Broken,
			`/nvidia-gpu" is a link that leads nowhere`},
		{"not executable", func(t *testing.T, s *scene) { must.NoError(t, os.Chmod(s.exam.PluginDir+"/gpu-docker", 0o644)) }, Broken,
			`/nvidia-gpu" is not executable, so the agent leaves it out`},
		{"directory for a plugin", func(t *testing.T, s *scene) {
			must.NoError(t, os.Remove(s.exam.PluginDir+"/nvidia-gpu"))
			must.NoError(t, os.Mkdir(s.exam.PluginDir+"/nvidia-gpu", 0o755))
		}, Broken, `/nvidia-gpu" is drwxr-xr-x, not a program`},
		{"plugin of another version", func(t *testing.T, s *scene) {
			must.NoError(t, os.WriteFile(s.exam.PluginDir+"/gpu-docker", []byte("earlier"), 0o600))
		}, Warning, `/gpu-docker" is another program or version than "`},
		{"plugin under another name", func(t *testing.T, s *scene) {
			must.NoError(t, os.Link(s.exam.PluginDir+"/gpu-docker", s.exam.PluginDir+"/gpu-docker-linux-amd64"))
		}, Warning, `/gpu-docker-linux-amd64" is this program under another name: the block plugin "gpu-docker" does not reach it`},
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

// giveAway makes a file somebody else's, which only root can.
func giveAway(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	must.NoError(t, os.Lchown(path, 4711, 4711))
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
