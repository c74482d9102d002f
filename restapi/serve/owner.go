// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// portOwner finds the process that listens on a port, for the message only.
// Without the right to look it gives 0 and "".
func portOwner(address string) (pid int, name string) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, ""
	}
	number, err := net.LookupPort("tcp", port)
	if err != nil {
		return 0, ""
	}
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listeningInodes(table, number, inodes)
	}
	pid = inodeOwner(inodes)
	return pid, processName(pid)
}

// listeningInodes adds the inodes of sockets that listen on a port. Lines of
// the table: number, local address as hex ip:port, remote, state (0A is
// listening), five columns more, inode.
func listeningInodes(table string, port int, inodes map[string]bool) {
	file, err := os.Open(table)
	if err != nil {
		return
	}
	defer file.Close()
	suffix := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && fields[3] == "0A" && strings.HasSuffix(fields[1], suffix) {
			inodes[fields[9]] = true
		}
	}
}

// inodeOwner finds a process that has one of the sockets open, 0 if none is seen.
func inodeOwner(inodes map[string]bool) int {
	if len(inodes) == 0 {
		return 0
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue
		}
		inode, isSocket := strings.CutPrefix(target, "socket:[")
		if !isSocket || !inodes[strings.TrimSuffix(inode, "]")] {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(link, "/")[2]); err == nil {
			return pid
		}
	}
	return 0
}

// processName is the name the kernel shows for a process; empty when unknown.
func processName(pid int) string {
	if pid <= 0 {
		return ""
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}
