// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"

	"github.com/gpu-docker/gpu-docker/driver/config"
)

// newDockerEngine prepares a client without calling the engine. It fails for a
// malformed URL and for unreadable certificates.
func newDockerEngine(at endpoint) (*dockerEngine, error) {
	e := &dockerEngine{at: at}
	c, err := e.connect()
	if err != nil {
		return nil, err
	}
	e.newest = c.ClientVersion() // nothing is negotiated yet
	e.current.Store(c)
	return e, nil
}

// connect is the only place that makes a client.
func (e *dockerEngine) connect() (*client.Client, error) {
	opts, err := e.at.options()
	if err != nil {
		return nil, err
	}
	c, err := client.NewClientWithOpts(append(opts, client.WithAPIVersionNegotiation())...)
	if err != nil {
		return nil, fmt.Errorf("docker client for endpoint %q: %w; check the options endpoint and tls", e.at.Host, err)
	}
	return c, nil
}

// options say where the engine is and with which certificates it is reached.
func (at endpoint) options() ([]client.Opt, error) {
	var opts []client.Opt
	host, source, files := at.Host, "endpoint", at.CertFile != "" || at.KeyFile != "" || at.CAFile != ""
	if host == "" {
		opts = append(opts, client.WithTLSClientConfigFromEnv())
		host, source, files = os.Getenv(client.EnvOverrideHost), client.EnvOverrideHost, false
	}
	if host == "" {
		return opts, nil // the default socket
	}
	url, secure, err := config.DialURL(host)
	if err != nil {
		return nil, fmt.Errorf("docker client: %s %w; check the options endpoint and tls", source, err)
	}
	if fromEnv := at.Host == "" && os.Getenv(client.EnvOverrideCertPath) != ""; strings.HasPrefix(url, "tcp:") && !fromEnv && (files || secure) {
		// Without a CA file the system's roots count.
		opts = append(opts, client.WithTLSClientConfig(at.CAFile, at.CertFile, at.KeyFile))
	}
	return append(opts, client.WithHost(url)), nil
}

// Version asks the engine through a version-less path, so that it works with
// any engine.
func (e *dockerEngine) Version(ctx context.Context) (types.Version, error) {
	ctx, cancel := e.short(ctx)
	defer cancel()
	ping, err := e.Docker().Ping(ctx)
	if err != nil {
		return types.Version{}, err
	}
	if err := e.renegotiate(ping); err != nil {
		return types.Version{}, err
	}
	return e.Docker().ServerVersion(ctx)
}

// renegotiate replaces the client when the engine now speaks another API
// version (task-driver AN-1): a client only ever negotiates downwards.
func (e *dockerEngine) renegotiate(ping types.Ping) error {
	common := ping.APIVersion
	if versions.GreaterThan(common, e.newest) {
		common = e.newest
	}
	old := e.Docker()
	if common == "" || common == old.ClientVersion() {
		return nil
	}
	fresh, err := e.connect()
	if err != nil {
		return err
	}
	fresh.NegotiateAPIVersionPing(ping)
	e.current.Store(fresh)
	return old.Close()
}

// speak makes a call, and makes it again when all that the engine said is that it
// does not speak the negotiated version any more: it was changed since the last
// Version (task-driver AN-1).
func speak[T any](ctx context.Context, e *dockerEngine, call func(*client.Client) (T, error)) (T, error) {
	got, err := call(e.Docker())
	if !versionRefused(err) {
		return got, err
	}
	ping, failed := e.Docker().Ping(ctx)
	if failed == nil {
		failed = e.renegotiate(ping)
	}
	if failed != nil {
		return got, fmt.Errorf("%w; the API version could not be negotiated again: %w", err, failed)
	}
	return call(e.Docker())
}

// command is speak for calls that only succeed or fail.
func command(ctx context.Context, e *dockerEngine, call func(*client.Client) error) error {
	_, err := speak(ctx, e, func(c *client.Client) (struct{}, error) { return struct{}{}, call(c) })
	return err
}

// versionRefused: the engine did nothing, because of the API version alone.
func versionRefused(err error) bool {
	if !errdefs.IsInvalidArgument(err) {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "client version") &&
		(strings.Contains(text, "is too old") || strings.Contains(text, "is too new"))
}
