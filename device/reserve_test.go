// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/plugins/device"
	"github.com/shoenig/test/must"
)

// taskNodes are the device nodes of a reservation as the task sees them.
func taskNodes(r *device.ContainerReservation) []string {
	var paths []string
	for _, node := range r.Devices {
		paths = append(paths, node.TaskPath)
	}
	return paths
}

// gpuNodes leaves the control nodes out.
func gpuNodes(r *device.ContainerReservation) []string {
	return slices.DeleteFunc(taskNodes(r), func(path string) bool {
		return strings.Trim(strings.TrimPrefix(path, "/dev/nvidia"), "0123456789") != "" && !strings.Contains(path, "caps")
	})
}

func TestReserve(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	p := testPlugin(t, sim)
	r, err := p.Reserve([]string{k80third, k80first})
	must.NoError(t, err)
	must.Eq(t, map[string]string{"NVIDIA_VISIBLE_DEVICES": k80third + "," + k80first}, r.Envs)
	must.Eq(t, []string{"/dev/nvidia2", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}, taskNodes(r))
	must.Eq(t, filepath.Join(sim.Root(), "dev/nvidia2"), r.Devices[0].HostPath)
	must.Eq(t, "rw", r.Devices[0].CgroupPerms)
	must.SliceEmpty(t, r.Mounts)
	empty, err := p.Reserve(nil)
	must.NoError(t, err)
	must.Eq(t, &device.ContainerReservation{}, empty)
}

// TestReserve_minors: nodes go by the minor number, never by the index (cases
// DEV-25).
func TestReserve_minors(t *testing.T) {
	t.Parallel()
	p := testPlugin(t, simulated(t, "titanx4-361"))
	r, err := p.Reserve([]string{"GPU-836c0c09-5b3a-77d4-90a5-1f4e3c2b6d70"})
	must.NoError(t, err)
	must.Eq(t, []string{"/dev/nvidia3"}, gpuNodes(r))
}

func TestReserve_faults(t *testing.T) {
	t.Parallel()
	sim := simulated(t, "k80x4-352")
	p := testPlugin(t, sim)
	_, err := p.Reserve([]string{k80first, "GPU-unknown", "GPU-other"})
	must.ErrorContains(t, err, `device "GPU-unknown" is unknown on this node; it offers `+k80first)
	must.ErrorContains(t, err, `device "GPU-other"`)
	must.NoError(t, os.Remove(filepath.Join(sim.Root(), "dev/nvidia1")))
	_, err = p.Reserve([]string{k80second})
	must.ErrorContains(t, err, "nvidia-modprobe -c 1")
	must.ErrorContains(t, err, k80second)
}

func TestReserve_noDriver(t *testing.T) {
	p := testPlugin(t, nil, func(c *Config) { c.DriverRoot = t.TempDir() })
	_, err := p.Reserve([]string{k80first})
	must.ErrorContains(t, err, `device "`+k80first+`" is unknown on this node: NVML library not found`)
}

// TestSharing: shares of one GPU are ids of their own and lead back to it (cases
// DEV-28 and DEV-29).
func TestSharing(t *testing.T) {
	t.Parallel()
	p := testPlugin(t, simulated(t, "k80x4-352"), func(c *Config) { c.Sharing = &SharingConfig{Strategy: sharingTime, Replicas: 4} })
	groups := fingerprint(t, p).until(withUsable(16))
	must.Len(t, 1, groups)
	must.Eq(t, k80first+"::0", groups[0].Devices[0].ID)
	must.Eq(t, k80first+"::3", groups[0].Devices[3].ID)
	must.True(t, *groups[0].Attributes["shared"].Bool)
	must.Eq(t, 4, *groups[0].Attributes["replicas"].Int)

	r, err := p.Reserve([]string{k80first + "::0", k80first + "::1", k80second + "::3"})
	must.NoError(t, err)
	must.Eq(t, k80first+","+k80second, r.Envs["NVIDIA_VISIBLE_DEVICES"])
	must.Eq(t, k80first+"::0,"+k80first+"::1,"+k80second+"::3", r.Envs["GPU_DOCKER_RESERVED_IDS"])
	must.Eq(t, []string{"/dev/nvidia0", "/dev/nvidia1"}, gpuNodes(r))
	_, err = p.Reserve([]string{k80first})
	must.ErrorContains(t, err, "is unknown")
	_, err = p.Reserve([]string{k80first + "::4"})
	must.ErrorContains(t, err, "is unknown")
}

// TestMPS: the daemon decides about health; a task gets its pipes and a part of
// the GPU (cases DEV-30).
func TestMPS(t *testing.T) {
	pipes := t.TempDir()
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", pipes)
	p := testPlugin(t, simulated(t, "k80x4-352"), func(c *Config) { c.Sharing = &SharingConfig{Strategy: sharingMPS, Replicas: 4} })
	s := fingerprint(t, p)
	groups := s.until(func(g []*device.DeviceGroup) bool { return len(devices(g)) == 16 })
	must.Zero(t, usable(groups))
	must.StrContains(t, groups[0].Devices[0].HealthDesc, "MPS daemon not running")
	_, err := p.Reserve([]string{k80first + "::0"})
	must.ErrorContains(t, err, "MPS daemon not running")

	daemon := listen(t, filepath.Join(pipes, "control"))
	s.until(withUsable(16))
	r, err := p.Reserve([]string{k80first + "::0", k80first + "::2"})
	must.NoError(t, err)
	must.Eq(t, map[string]string{
		"NVIDIA_VISIBLE_DEVICES": k80first, "CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps",
		"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=5759M",
		"GPU_DOCKER_RESERVED_IDS": k80first + "::0," + k80first + "::2",
	}, r.Envs)
	must.Eq(t, []*device.Mount{{HostPath: pipes, TaskPath: "/tmp/nvidia-mps"}}, r.Mounts)

	// The limits are numbered as CUDA counts, not as the ids come.
	r, err = p.Reserve([]string{k80third + "::1", k80first + "::0", k80third + "::0", k80fourth + "::0", k80third + "::2"})
	must.NoError(t, err)
	must.Eq(t, k80third+","+k80first+","+k80fourth, r.Envs["NVIDIA_VISIBLE_DEVICES"])
	must.Eq(t, "0=2879M,1=8639M,2=2879M", r.Envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"])
	must.Eq(t, "PCI_BUS_ID", r.Envs["CUDA_DEVICE_ORDER"])
	must.Eq(t, "25", r.Envs["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"])

	// The first connection that the daemon hears of is a client's.
	client, err := net.Dial("unixpacket", daemon.Addr().String())
	must.NoError(t, err)
	defer client.Close()
	_, err = client.Write([]byte("hello"))
	must.NoError(t, err)
	connection, err := daemon.Accept()
	must.NoError(t, err)
	defer connection.Close()
	heard := make([]byte, 16)
	n, err := connection.Read(heard)
	must.NoError(t, err)
	must.Eq(t, "hello", string(heard[:n]))

	must.NoError(t, daemon.Close()) // as if it were killed: the file stays
	groups = s.until(withUsable(0))
	must.Eq(t, `MPS daemon not running: nobody listens on "`+filepath.Join(pipes, "control")+`"; start nvidia-cuda-mps-control -d`, groups[0].Devices[0].HealthDesc)
	_, err = p.Reserve([]string{k80first + "::0"})
	must.ErrorContains(t, err, "nobody listens")
}

// listen is the control daemon of MPS, as far as its socket shows. The file stays
// when it is closed.
func listen(t *testing.T, control string) *net.UnixListener {
	t.Helper()
	daemon, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: control, Net: "unixpacket"})
	must.NoError(t, err)
	daemon.SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = daemon.Close() }) // most have closed it
	return daemon
}
