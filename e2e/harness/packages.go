// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Program is one that tests need and the Debian packages that bring it.
type Program struct {
	Name     string
	Packages []string
}

// requiredPrograms are what every agent and engine needs.
var requiredPrograms = []Program{
	{"dockerd", []string{"docker.io"}},
	{"iptables", []string{"iptables"}},
	{"busybox", []string{"busybox-static"}},
}

// RegistryServer is a registry, which tests of pulling talk to.
var RegistryServer = Program{"docker-registry", []string{"docker-registry"}}

// EnsurePackages installs the programs of every test that the machine lacks.
func EnsurePackages(ctx context.Context, say func(format string, args ...any)) error {
	if err := EnsurePrograms(ctx, say, requiredPrograms...); err != nil {
		return err
	}
	// From Debian 13 on the command line is a package of its own.
	return EnsurePrograms(ctx, say, Program{"docker", []string{"docker-cli"}})
}

// EnsurePrograms installs the programs that the machine lacks from Debian's or
// Ubuntu's packages. Anywhere else a missing program is an error with its cure.
func EnsurePrograms(ctx context.Context, say func(format string, args ...any), needed ...Program) error {
	var missing, packages []string
	for _, p := range needed {
		if !programExists(p.Name) {
			missing = append(missing, p.Name)
			packages = append(packages, p.Packages...)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("missing %s: not root, so they cannot be installed here; run as root, or install the packages %s",
			strings.Join(missing, ", "), strings.Join(packages, " "))
	}
	if !programExists("apt-get") {
		return fmt.Errorf("missing %s: no apt-get on this system; install them with the system's package manager (Debian calls the packages %s)",
			strings.Join(missing, ", "), strings.Join(packages, " "))
	}
	say("installing %s from the distribution's packages", strings.Join(packages, ", "))
	if err := apt(ctx, "update"); err != nil {
		return err
	}
	return apt(ctx, append([]string{"install", "-y", "--no-install-recommends"}, packages...)...)
}

// programExists looks in PATH and in the sbin folders that a user's PATH may lack.
func programExists(name string) bool {
	if _, err := exec.LookPath(name); err == nil {
		return true
	}
	for _, dir := range []string{"/usr/sbin/", "/sbin/"} {
		if _, err := os.Stat(dir + name); err == nil {
			return true
		}
	}
	return false
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, lastLines(string(out), 5))
	}
	return nil
}

// lastLines keeps the end of a program's output, on one line.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, " | ")
}

// errNotRoot tells why the real engine and agent cannot be had.
var errNotRoot = errors.New("not root: the Docker Engine and a Nomad client need it; run with sudo, or run \"make test-unit\", which needs neither")
