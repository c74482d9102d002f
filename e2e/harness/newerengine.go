// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/docker/client"
)

// newerSuite is the Debian release whose docker.io is the newer engine (26.1).
const newerSuite = "trixie"

// newerEngineScript starts dockerd inside another root file system, in mount and
// network namespaces of its own: nothing it mounts or configures reaches the
// machine's engine, and all of it goes with the process. What tests share with
// the engine (temporary folders, the plugin socket, driver volumes) is mounted
// at the same place; mounts made there later come through where the machine's
// root is a shared mount, as systemd makes it.
//
// A mere chroot is not enough: containers then have mount namespaces whose root
// is the machine's, and there is where "docker exec" would run its commands.
const newerEngineScript = `set -eu
root=$1 work=$2
mount --bind "$root" "$work/root"
cd "$work/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
for dir in /tmp /var/tmp /run/docker/plugins /var/lib/nvidia-docker; do
	mkdir -p "$dir" "$work/root$dir"
	mount --rbind "$dir" "$work/root$dir"
done
ip link set lo up
mkdir -p old
pivot_root . old
umount -l /old
exec dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" \
	-H "unix://$work/docker.sock" --iptables=false --ip6tables=false`

// StartNewerEngine starts a Docker Engine 26.1 beside the machine's own; the
// first time it unpacks Debian's packages of it into the user's cache.
func StartNewerEngine(ctx context.Context, say func(format string, args ...any)) (*Engine, error) {
	if os.Geteuid() != 0 {
		return nil, errNotRoot
	}
	root, err := newerEngineRoot(ctx, say)
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("/tmp", "gpu-docker-engine-")
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(work, "root"), 0o755); err != nil {
		return nil, err
	}
	host := "unix://" + filepath.Join(work, "docker.sock")
	cli, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, err
	}
	engine := &Engine{Client: cli, work: work}
	engine.daemon, err = StartProcess(filepath.Join(work, "dockerd.log"), nil,
		"unshare", "--net", "--mount", "--propagation", "slave", "sh", "-c", newerEngineScript, "sh", root, work)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(work))
	}
	if err := engine.waitReady(ctx); err != nil {
		engine.Close()
		return nil, fmt.Errorf("start the newer Docker Engine: %w", err)
	}
	return engine, nil
}

// newerEngineRoot is the root file system with the newer engine in it.
func newerEngineRoot(ctx context.Context, say func(format string, args ...any)) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "gpu-docker", "engine-"+newerSuite)
	if _, err := os.Stat(filepath.Join(root, "usr/sbin/dockerd")); err == nil {
		return root, nil
	}
	if !programExists("debootstrap") {
		if err := apt(ctx, "install", "-y", "--no-install-recommends", "debootstrap"); err != nil {
			return "", err
		}
	}
	say("unpacking the newer Docker Engine from Debian %s (once)", newerSuite)
	fresh := root + ".new"
	if err := errors.Join(os.RemoveAll(fresh), os.MkdirAll(filepath.Dir(root), 0o755)); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "debootstrap", "--variant=minbase",
		"--include=docker.io,iptables,iproute2,ca-certificates", newerSuite, fresh).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("debootstrap %s: %w: %s", newerSuite, err, lastLines(string(out), 3))
	}
	return root, os.Rename(fresh, root)
}

func (e *Engine) waitReady(ctx context.Context) error {
	return Eventually(ctx, time.Minute, func() error {
		if e.daemon.Ended() {
			return Final(fmt.Errorf("dockerd ended: %s", e.daemon.LogTail(5)))
		}
		_, err := e.Client.Ping(ctx)
		return err
	})
}

// Host is the address that DOCKER_HOST takes.
func (e *Engine) Host() string { return e.Client.DaemonHost() }

// InNetwork is the command line that runs a command in the engine's network
// namespace, where published ports are and where the engine reaches what the
// command serves on loopback. There is nothing else in that of a newer engine.
func (e *Engine) InNetwork(command ...string) []string {
	if e.work == "" {
		return command // the machine's own
	}
	return append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", e.daemon.PID()), "--"}, command...)
}

// removeWork removes what an engine of ours kept on disk.
func (e *Engine) removeWork() error {
	if e.work == "" || !strings.HasPrefix(e.work, "/tmp/gpu-docker-engine-") {
		return nil
	}
	return os.RemoveAll(e.work)
}
