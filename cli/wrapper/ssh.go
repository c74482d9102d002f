// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/term"
)

// dialSSH logs in at the target: keys of the agent first, then a password. The
// target must be in known_hosts (nvidia-docker-v1 EN-5, D15).
func (w *call) dialSSH(ctx context.Context) (*ssh.Client, error) {
	check, err := w.knownHosts()
	if err != nil {
		return nil, err
	}
	keys, hangUp := w.agentKeys(ctx)
	defer hangUp()
	config := &ssh.ClientConfig{
		User: w.target.User,
		Auth: append(keys, ssh.PasswordCallback(w.askPassword)),
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			return explainHostKey(host, check(host, remote, key))
		},
		HostKeyAlgorithms: knownAlgorithms(check, w.target.Address),
		Timeout:           remoteTimeout,
	}
	conn, err := w.cfg.Dial(ctx, "tcp", w.target.Address)
	if err != nil {
		return nil, fmt.Errorf("ssh to %s: %w", w.target.Address, err)
	}
	c, channels, requests, err := ssh.NewClientConn(conn, w.target.Address, config)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ssh to %s: %w", w.target.Address, err), conn.Close())
	}
	return ssh.NewClient(c, channels, requests), nil
}

// agentKeys asks the local SSH agent, if there is one.
func (w *call) agentKeys(ctx context.Context) (methods []ssh.AuthMethod, hangUp func()) {
	none := func() {}
	socket := w.cfg.Getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return nil, none
	}
	conn, err := (&net.Dialer{Timeout: remoteTimeout}).DialContext(ctx, "unix", socket)
	if err != nil {
		w.log("Warning: failed to contact the local SSH agent")
		return nil, none
	}
	signers := agent.NewClient(conn).Signers
	return []ssh.AuthMethod{ssh.PublicKeysCallback(signers)}, func() { _ = conn.Close() }
}

// askPassword prompts on the terminal without echo.
func (w *call) askPassword() (string, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("no terminal to ask for a password: %w; add a key to the SSH agent", err)
	}
	defer tty.Close()
	say(tty, "%s@%s password: ", w.target.User, w.target.Address)
	password, err := term.ReadPassword(int(tty.Fd()))
	say(tty, "\n")
	if err != nil {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	return string(password), nil
}

// knownHosts reads the user's and the machine's known_hosts, as far as they exist.
func (w *call) knownHosts() (ssh.HostKeyCallback, error) {
	var files []string
	for _, path := range []string{filepath.Join(w.cfg.Getenv("HOME"), ".ssh", "known_hosts"), "/etc/ssh/ssh_known_hosts"} {
		if _, err := os.Stat(path); err == nil {
			files = append(files, path)
		}
	}
	check, err := knownhosts.New(files...)
	if err != nil {
		return nil, fmt.Errorf("known_hosts: %w", err)
	}
	return check, nil
}

// explainHostKey says what to do about a key that is not the known one.
func explainHostKey(host string, err error) error {
	var mismatch *knownhosts.KeyError
	if !errors.As(err, &mismatch) {
		return err
	}
	if len(mismatch.Want) == 0 {
		return fmt.Errorf("host %q is not in known_hosts; connect once with ssh and check its key", host)
	}
	return fmt.Errorf("the key of host %q is not the one in known_hosts: %w; find out why before you remove the old one", host, err)
}

// knownAlgorithms are the kinds of key that known_hosts has for an address, so
// that the server offers one that can be checked; nil when there is none.
func knownAlgorithms(check ssh.HostKeyCallback, address string) []string {
	var mismatch *knownhosts.KeyError
	if !errors.As(check(address, &net.TCPAddr{}, noKey{}), &mismatch) {
		return nil
	}
	var kinds []string
	for _, known := range mismatch.Want {
		kind := known.Key.Type()
		if kind == ssh.KeyAlgoRSA {
			kinds = append(kinds, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		}
		kinds = append(kinds, strings.Clone(kind))
	}
	return kinds
}

// noKey is a key that no host has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("not a key") }
