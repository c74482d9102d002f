// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// SSHD is OpenSSH's server on loopback, with keys of its own, and an agent with
// the key of the only user who may log in.
type SSHD struct {
	Port int
	// Agent is the socket of the SSH agent.
	Agent string
	// KnownHosts is the line that known_hosts needs for this server.
	KnownHosts string

	server, agent *Process
	madeRunDir    bool
}

// sshdRunDir is where the server locks itself in before a login.
const sshdRunDir = "/run/sshd"

// StartSSHD starts the server for root with its files in dir. Connections may be
// forwarded to loopback and nothing else is of use.
func StartSSHD(ctx context.Context, say func(format string, args ...any), dir string) (*SSHD, error) {
	if err := EnsureQuietPrograms(ctx, say, Program{"sshd", []string{"openssh-server"}}); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &SSHD{Port: port, Agent: filepath.Join(dir, "agent")}
	if err := s.makeKeys(ctx, dir); err != nil {
		return nil, err
	}
	if err := os.Mkdir(sshdRunDir, 0o755); err == nil {
		s.madeRunDir = true
	} else if !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if err := s.start(ctx, dir); err != nil {
		s.Close()
		return nil, fmt.Errorf("start sshd: %w", err)
	}
	return s, nil
}

func (s *SSHD) makeKeys(ctx context.Context, dir string) error {
	for _, name := range []string{"host_key", "user_key"} {
		out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	public, err := os.ReadFile(filepath.Join(dir, "host_key.pub"))
	if err != nil {
		return err
	}
	s.KnownHosts = fmt.Sprintf("[127.0.0.1]:%d %s", s.Port, public)
	return os.WriteFile(filepath.Join(dir, "sshd_config"), []byte(s.config(dir)), 0o600)
}

func (s *SSHD) config(dir string) string {
	return strings.NewReplacer("PORT", fmt.Sprint(s.Port), "DIR", dir).Replace(`ListenAddress 127.0.0.1:PORT
HostKey DIR/host_key
AuthorizedKeysFile DIR/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowTcpForwarding local
`)
}

func (s *SSHD) start(ctx context.Context, dir string) (err error) {
	if s.agent, err = StartProcess(filepath.Join(dir, "agent.log"), nil, "ssh-agent", "-D", "-a", s.Agent); err != nil {
		return err
	}
	// The server starts itself again for each connection, so it wants its own path.
	if s.server, err = StartProcess(filepath.Join(dir, "sshd.log"), nil, "/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(dir, "sshd_config")); err != nil {
		return err
	}
	return Eventually(ctx, 20*time.Second, func() error {
		if s.server.Ended() {
			return Final(errors.New(s.server.LogTail(5)))
		}
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port))
		if err != nil {
			return err
		}
		if err := conn.Close(); err != nil {
			return err
		}
		add := exec.CommandContext(ctx, "ssh-add", "-q", filepath.Join(dir, "user_key"))
		add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+s.Agent)
		out, err := add.CombinedOutput()
		if err != nil {
			return fmt.Errorf("ssh-add: %w: %s", err, out)
		}
		return nil
	})
}

// Close ends server and agent.
func (s *SSHD) Close() {
	for _, p := range []*Process{s.server, s.agent} {
		if p != nil {
			p.Stop(syscall.SIGTERM, 10*time.Second)
		}
	}
	if s.madeRunDir {
		_ = os.Remove(sshdRunDir)
	}
}
