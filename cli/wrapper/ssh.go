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
	"time"

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
	}
	conn, err := w.cfg.Dial(ctx, "tcp", w.target.Address)
	if err != nil {
		return nil, fmt.Errorf("ssh to %s: %w", w.target.Address, err)
	}
	client, err := w.shakeHands(ctx, conn, config)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("ssh to %s: no answer in time: %w; check that an SSH server listens there", w.target.Address, err)
	case err != nil:
		return nil, fmt.Errorf("ssh to %s: %w", w.target.Address, err)
	}
	return client, nil
}

// loginPatience is how much longer than one answer the login may take: a person
// types a password or touches a key meanwhile. With ten seconds for an answer it
// makes the two minutes after which servers give up, too.
const loginPatience = 12

// shakeHands makes a client of a connection, which it closes when that fails. The
// SSH library waits for ever, so the connection has a deadline: a short one until
// the server has proved who it is, a long one for the login.
func (w *call) shakeHands(ctx context.Context, conn net.Conn, config *ssh.ClientConfig) (*ssh.Client, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends every wait for the server
	defer stop()
	checkKey := config.HostKeyCallback
	config.HostKeyCallback = func(host string, remote net.Addr, key ssh.PublicKey) error {
		return errors.Join(checkKey(host, remote, key), conn.SetDeadline(time.Now().Add(loginPatience*w.cfg.Patience)))
	}
	if err := conn.SetDeadline(time.Now().Add(w.cfg.Patience)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c, channels, requests, err := ssh.NewClientConn(conn, w.target.Address, config)
	if err != nil {
		return nil, err
	}
	client := ssh.NewClient(c, channels, requests)
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

// agentKeys asks the local SSH agent, if there is one.
func (w *call) agentKeys(ctx context.Context) (methods []ssh.AuthMethod, hangUp func()) {
	none := func() {}
	socket := w.cfg.Getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return nil, none
	}
	conn, err := (&net.Dialer{Timeout: w.cfg.Patience}).DialContext(ctx, "unix", socket)
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
