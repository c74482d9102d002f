// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/gpu-docker/gpu-docker/volume"
)

// listenTCP takes a port. A port that another process has is a *TakenError.
func listenTCP(address string) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(context.Background(), connectionTimeout)
	defer cancel()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		pid, name := portOwner(address)
		return nil, &TakenError{Address: address, PID: pid, Process: name}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("API address %q is not one of this machine: %w; use for example %q", address, err, DefaultAPIAddress)
	default:
		return nil, fmt.Errorf("API address %q cannot be listened on: %w", address, err)
	}
}

// listenSocket takes the volume plugin's socket. One that a live process serves
// is a *TakenError.
func listenSocket(dir string) (net.Listener, error) {
	listener, err := volume.ListenSocket(dir)
	var taken *volume.SocketTakenError
	if errors.As(err, &taken) {
		return nil, &TakenError{Address: taken.Path, PID: taken.PID, Process: processName(taken.PID)}
	}
	return listener, err
}

// limitedListener accepts a bounded number of connections at once; further ones
// wait in the kernel's queue until one ends.
type limitedListener struct {
	net.Listener
	slots chan struct{}
	done  chan struct{}
	close func() error
}

func limitConnections(l net.Listener, n int) net.Listener {
	done := make(chan struct{})
	return &limitedListener{
		Listener: l,
		slots:    make(chan struct{}, n),
		done:     done,
		close: sync.OnceValue(func() error {
			close(done)
			return l.Close()
		}),
	}
}

func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limitedListener) Close() error { return l.close() }

// limitedConn gives its slot back when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
