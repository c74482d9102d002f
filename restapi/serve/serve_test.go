// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
	"go.uber.org/goleak"

	"github.com/gpu-docker/gpu-docker/volume"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// named answers every request with a name.
func named(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
}

func testConfig(t *testing.T, name string) Config {
	t.Helper()
	return Config{
		APIAddress:      "127.0.0.1:0",
		API:             named(name),
		VolumeSocketDir: t.TempDir(),
		Volumes:         named(name),
		RetryInterval:   5 * time.Millisecond,
	}
}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), cfg)
	must.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// ask gives the body that an address answers, "" when it does not.
func ask(network, address string) string {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}}
	answer, err := client.Get("http://host/")
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return ""
	}
	return string(body)
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(f), wait.Timeout(10*time.Second), wait.Gap(2*time.Millisecond)), must.Sprint(what))
}

func TestServesBoth(t *testing.T) {
	s := start(t, testConfig(t, "one"))
	status := s.Status()
	must.Eq(t, Serving, status.API.State)
	must.Eq(t, Serving, status.Volumes.State)
	must.Eq(t, "one", ask("tcp", status.API.String()))
	must.Eq(t, "one", ask("unix", status.Volumes.String()))
}

func TestStopLeavesNothing(t *testing.T) {
	cfg := testConfig(t, "one")
	s := start(t, cfg)
	status := s.Status()
	s.Stop()
	must.Eq(t, Stopped, s.Status().API.State)
	must.Eq(t, "", ask("tcp", status.API.Address))
	must.FileNotExists(t, status.Volumes.Address)
}

func TestContextEndStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Start(ctx, testConfig(t, "one"))
	must.NoError(t, err)
	cancel()
	s.Wait()
	must.Eq(t, Stopped, s.Status().Volumes.State)
}

func TestTurnedOff(t *testing.T) {
	s := start(t, Config{})
	must.Eq(t, "off", s.Status().API.String())
	must.Eq(t, "off", s.Status().Volumes.String())
}

// A second process waits, says for whom, and takes over.
func TestTakeOver(t *testing.T) {
	first := testConfig(t, "first")
	one := start(t, first)
	second := first
	second.APIAddress = one.Status().API.Address
	second.API, second.Volumes = named("second"), named("second")
	two := start(t, second)

	taken := fmt.Sprintf("%s is taken by process %d (serve.test)", second.APIAddress, os.Getpid())
	must.Eq(t, Waiting, two.Status().API.State)
	must.Eq(t, taken, two.Status().API.String())
	must.Eq(t, Waiting, two.Status().Volumes.State)
	must.StrContains(t, two.Status().Volumes.String(), fmt.Sprintf("nvidia-docker.sock is taken by process %d (serve.test)", os.Getpid()))
	must.Eq(t, "first", ask("tcp", second.APIAddress))

	one.Stop()
	eventually(t, "the second server takes over", func() bool {
		s := two.Status()
		return s.API.State == Serving && s.Volumes.State == Serving
	})
	must.Eq(t, "second", ask("tcp", second.APIAddress))
	must.Eq(t, "second", ask("unix", two.Status().Volumes.Address))
}

// A foreign program on the port costs the host nothing but the port.
func TestPortTakenVolumesServed(t *testing.T) {
	foreign, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	defer foreign.Close()
	cfg := testConfig(t, "one")
	cfg.APIAddress = foreign.Addr().String()
	s := start(t, cfg)
	must.Eq(t, Waiting, s.Status().API.State)
	must.Eq(t, "one", ask("unix", s.Status().Volumes.Address))
}

func TestStaleSocketIsReplaced(t *testing.T) {
	cfg := testConfig(t, "one")
	path := volume.SocketPath(cfg.VolumeSocketDir)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	must.NoError(t, dead.Close())
	s := start(t, cfg)
	must.Eq(t, "one", ask("unix", s.Status().Volumes.Address))
}

// A socket that somebody else has put in the place stays when we end.
func TestStopKeepsForeignSocket(t *testing.T) {
	cfg := testConfig(t, "one")
	s := start(t, cfg)
	path := s.Status().Volumes.Address
	must.NoError(t, os.Remove(path))
	must.NoError(t, os.WriteFile(path, nil, 0o600))
	s.Stop()
	must.FileExists(t, path)
}

func TestUnusableAddressIsToldAndRetried(t *testing.T) {
	cfg := testConfig(t, "one")
	cfg.APIAddress = "192.0.2.1:3476"
	s := start(t, cfg)
	must.Eq(t, Waiting, s.Status().API.State)
	must.StrContains(t, s.Status().API.String(), `API address "192.0.2.1:3476" is not one of this machine`)
}

func TestWarnsOnceWhenNotLoopback(t *testing.T) {
	for address, warned := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, "localhost:0": false, ":0": true, "0.0.0.0:0": true} {
		var log strings.Builder
		cfg := testConfig(t, "one")
		cfg.APIAddress = address
		cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn})
		start(t, cfg).Stop()
		must.Eq(t, warned, strings.Contains(log.String(), "can be reached from other machines"), must.Sprint(address))
	}
}

func TestConfigIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		cfg        Config
	}{
		{"no port", `API address "localhost" must be host:port`, Config{APIAddress: "localhost", API: named("")}},
		{"bad port", `API address "localhost:http-" must be host:port`, Config{APIAddress: "localhost:http-", API: named("")}},
		{"relative directory", `volume socket directory "run" must be absolute; use for example "/run/docker/plugins"`, Config{VolumeSocketDir: "run", Volumes: named("")}},
		{"no API", "has no handler", Config{APIAddress: "localhost:1"}},
		{"no volumes", "has no handler", Config{VolumeSocketDir: "/run"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Start(t.Context(), tc.cfg)
			must.ErrorContains(t, err, tc.want)
		})
	}
}

// A request that runs may finish.
func TestGracefulStop(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	cfg := testConfig(t, "")
	cfg.API = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		_, _ = io.WriteString(w, "finished")
	})
	s := start(t, cfg)
	answer := make(chan string, 1)
	go func() { answer <- ask("tcp", s.Status().API.Address) }()
	<-entered
	stopped := make(chan struct{})
	go func() { s.Stop(); close(stopped) }()
	close(leave)
	must.Eq(t, "finished", <-answer)
	<-stopped
}

// A request that does not end is cut off at the end, and keeps nobody (DM-5).
func TestEndlessRequestIsCutOff(t *testing.T) {
	entered := make(chan struct{})
	cfg := testConfig(t, "")
	cfg.patience = time.Millisecond
	cfg.API = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done() // its connection is gone
	})
	s := start(t, cfg)
	answer := make(chan string, 1)
	go func() { answer <- ask("tcp", s.Status().API.Address) }()
	<-entered
	s.Stop()
	must.Eq(t, "", <-answer)
}

// A server that breaks is started again; the other goes on (DM-5).
func TestBrokenServerComesBack(t *testing.T) {
	cfg := testConfig(t, "one")
	cfg.setDefaults()
	e := apiEndpoint(&cfg)
	taken := make(chan net.Listener, 16)
	listen := e.listen
	e.listen = func() (net.Listener, error) {
		l, err := listen()
		if err == nil {
			taken <- l
		}
		return l, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.run(ctx, make(chan struct{}))
	}()
	must.NoError(t, (<-taken).Close())
	must.Eq(t, "one", ask("tcp", (<-taken).Addr().String()))
	cancel()
	<-ended
}

// The number of connections is bounded; who waits is served when one ends.
func TestConnectionLimit(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	must.NoError(t, err)
	limited := limitConnections(inner, 1)
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := limited.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	for range 2 {
		client, err := net.Dial("tcp", inner.Addr().String())
		must.NoError(t, err)
		defer client.Close()
	}
	first := <-accepted
	select {
	case <-accepted:
		t.Fatal("a second connection was accepted beside the first")
	default:
	}
	must.NoError(t, first.Close())
	second := <-accepted
	must.NoError(t, second.Close())
	must.NoError(t, limited.Close())
	must.NoError(t, limited.Close())
	_, open := <-accepted
	must.False(t, open)
}

func TestTakenErrorTexts(t *testing.T) {
	for want, err := range map[string]*TakenError{
		"a:1 is taken by another process":     {Address: "a:1"},
		"a:1 is taken by process 7":           {Address: "a:1", PID: 7},
		"a:1 is taken by process 7 (grafana)": {Address: "a:1", PID: 7, Process: "grafana"},
	} {
		must.EqError(t, err, want)
		var taken *TakenError
		must.True(t, errors.As(fmt.Errorf("x: %w", err), &taken))
	}
}

// A thousand clients that say nothing do not keep one that asks from its answer.
func TestThousandConnections(t *testing.T) {
	s := start(t, testConfig(t, "one"))
	for range 1000 {
		conn, err := net.Dial("tcp", s.Status().API.Address)
		must.NoError(t, err)
		defer conn.Close()
	}
	must.Eq(t, "one", ask("tcp", s.Status().API.Address))
}

// Slow clients lose their connection; the bounds are those of v1 (DM-5).
func TestTimeouts(t *testing.T) {
	cfg := testConfig(t, "one")
	cfg.setDefaults()
	api := apiEndpoint(&cfg).server()
	must.Eq(t, 5*time.Second, api.ReadTimeout)
	must.Eq(t, 5*time.Second, api.WriteTimeout)
	must.Positive(t, api.MaxHeaderBytes)
	volumes := volumeEndpoint(&cfg).server()
	must.Eq(t, 5*time.Second, volumes.ReadHeaderTimeout)
	must.Eq(t, 5*time.Second, cfg.patience)
}
