// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/simhost"
	"github.com/gpu-docker/gpu-docker/volume"
)

// programEnv makes this test binary the program itself, under the name it is
// called with.
const programEnv = "CLI_TEST_PROGRAM"

func TestMain(m *testing.M) {
	gpuhost.CUDAProbeMain()
	switch {
	case os.Getenv(programEnv) == "":
		os.Exit(m.Run())
	case RoleOf(os.Args, false) == RoleWrapper:
		os.Exit(NVIDIADocker(os.Args))
	default:
		os.Exit(Main(os.Args[1:]))
	}
}

// As a real process: the exit code gets out.
func TestProgram(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "frobnicate")
	cmd.Env = append(os.Environ(), programEnv+"=1")
	out, err := cmd.CombinedOutput()
	must.Error(t, err)
	must.Eq(t, 2, cmd.ProcessState.ExitCode())
	must.StrHasPrefix(t, "Error: unknown command", string(out))
}

// result is what a command did.
type result struct {
	stdout, stderr string
	code           int
}

func command(t *testing.T, args ...string) result { return commandWithEnv(t, nil, args...) }

func commandWithEnv(t *testing.T, env map[string]string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(k string) string { return env[k] }}
	code := a.run(t.Context(), args)
	return result{stdout.String(), stderr.String(), code}
}

// simulated is the driver root of a simulated host with four Tesla K80.
func simulated(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	h, err := simhost.Up(t.Context(), simhost.Options{Root: root, Profile: "k80x4-352"})
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, h.Down()) })
	return root
}

func TestInfoAndStatus(t *testing.T) {
	root := simulated(t)
	for _, tc := range []struct{ args, starts string }{
		{"info", "\nDriver version:          352.39\nSupported CUDA version:  7.5\n\nDevice #0\n  Model:         Tesla K80\n"},
		{"info --json", `{"Version":{"Driver":"352.39","CUDA":"7.5"},"Devices":[{"UUID":"GPU-1ab7d8d0-`},
		{"status", "\nDevice #0\n  Power:        26 / 149 W\n"},
		{"status --json", `{"Devices":[{"Power":26,`},
	} {
		t.Run(tc.args, func(t *testing.T) {
			got := command(t, append([]string{"--driver-root", root}, strings.Fields(tc.args)...)...)
			must.Eq(t, 0, got.code, must.Sprint(got.stderr))
			must.StrHasPrefix(t, tc.starts, got.stdout)
			behind := command(t, append(strings.Fields(tc.args), "--driver-root="+root)...)
			must.Eq(t, got, behind)
			byEnv := commandWithEnv(t, map[string]string{"GPU_DOCKER_DRIVER_ROOT": root}, strings.Fields(tc.args)...)
			must.Eq(t, got, byEnv)
		})
	}
}

// Each wrong call: its exit code and what it says.
func TestWrongCalls(t *testing.T) {
	empty := t.TempDir()
	for _, tc := range []struct {
		args string
		code int
		says string
	}{
		{"foo", 2, `Error: unknown command "foo"; "gpu-docker --help" lists the commands`},
		{"volume", 2, `needs a command: ls, create or prune`},
		{"volume frob", 2, `unknown command "frob"`},
		{"info x", 2, `"gpu-docker info" takes no argument "x"`},
		{"info --frob", 2, `unknown flag: --frob; see "gpu-docker info --help"`},
		{"--driver-root relative info", 2, `driver root "relative" must be an absolute path`},
		{"--driver-root " + empty + " info", 1, "NVML library not found"},
		{"--driver-root " + empty + " status --json", 1, "NVML library not found"},
		{"--driver-root " + empty + " volume create -d " + empty, 1, "no NVIDIA driver is loaded"},
		{"--driver-root " + empty + " --nvml-library /no/such info", 1, `"/no/such"`},
		{"serve -l nonsense", 2, `API address "nonsense" must be host:port`},
		{"serve --log-level loud", 2, `log level "loud" is unknown`},
		{"serve --capabilities frob", 2, `"frob"`},
		{"serve --volume-files frob", 2, `"frob"`},
		{"plugin driver", 1, "not launched by a Nomad agent"},
		{"plugin device", 1, "not launched by a Nomad agent"},
		{"plugin", 1, "not launched by a Nomad agent"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			got := command(t, strings.Fields(tc.args)...)
			must.Eq(t, tc.code, got.code)
			must.StrContains(t, got.stderr, tc.says)
			must.Eq(t, "", got.stdout)
		})
	}
}

// NV_DEBUG adds a stack trace to an error (DM-2).
func TestDebug(t *testing.T) {
	plain := command(t, "serve", "-l", "nonsense")
	traced := commandWithEnv(t, map[string]string{"NV_DEBUG": "1"}, "serve", "-l", "nonsense")
	must.StrHasPrefix(t, plain.stderr+"goroutine ", traced.stderr)
	must.StrNotContains(t, plain.stderr, "goroutine")
	must.Eq(t, plain.code, traced.code)
}

// Called by hand without a command it explains itself and fails (task-driver PL-7).
func TestByHand(t *testing.T) {
	got := command(t)
	must.Eq(t, 1, got.code)
	must.StrContains(t, got.stdout, "plugin_dir")
	help := command(t, "--help")
	must.Eq(t, 0, help.code)
}

// Every command teaches: a line of what it does, and a help.
func TestHelpOfEveryCommand(t *testing.T) {
	root := newRootCommand(&app{})
	for _, c := range root.Commands() {
		must.NotEq(t, "", c.Short, must.Sprint(c.Name()))
		got := command(t, c.Name(), "--help")
		must.Eq(t, 0, got.code, must.Sprint(c.Name()))
		must.StrContains(t, got.stdout, "Usage:")
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		got := command(t, "completion", shell)
		must.Eq(t, 0, got.code)
		must.StrContains(t, got.stdout, "gpu-docker")
	}
}

func TestVersion(t *testing.T) {
	got := command(t, "--driver-root", simulated(t), "version")
	must.Eq(t, 0, got.code)
	for _, want := range []string{"gpu-docker:     " + Version, "NVIDIA driver:  352.39", "CUDA:           7.5", "Docker Engine:"} {
		must.StrContains(t, got.stdout, want)
	}
	must.StrContains(t, command(t, "--driver-root", t.TempDir(), "version").stdout, "NVML library not found")
	must.Eq(t, result{stdout: "gpu-docker version " + Version + "\n"}, command(t, "--version")) // cases DEV-04
	must.Eq(t, "NVIDIA Docker plugin: 1.0.1\n", command(t, "serve", "-v").stdout)
}

func TestVolumeCommands(t *testing.T) {
	root, dir := simulated(t), filepath.Join(t.TempDir(), "volumes")
	must.Eq(t, result{stdout: "[]\n"}, command(t, "--driver-root", root, "volume", "ls", "--json", "-d", dir))
	must.Eq(t, result{stdout: "nvidia_driver_352.39\n"}, command(t, "--driver-root", root, "volume", "create", "-d", dir))
	must.FileExists(t, filepath.Join(dir, "nvidia_driver/352.39/bin/nvidia-smi"))
	must.NoError(t, os.MkdirAll(filepath.Join(dir, "nvidia_driver/340.29/lib64"), 0o755))

	got := command(t, "--driver-root", root, "volume", "ls", "-d", dir)
	must.StrContains(t, got.stdout, "nvidia_driver_340.29  not loaded  "+dir)
	must.StrContains(t, got.stdout, "nvidia_driver_352.39  loaded      "+dir)
	var rows []listedVolume
	must.NoError(t, json.Unmarshal([]byte(command(t, "--driver-root", root, "volume", "ls", "--json", "-d", dir).stdout), &rows))
	must.Len(t, 2, rows)

	must.Eq(t, result{stdout: "nvidia_driver_340.29\n"}, command(t, "--driver-root", root, "volume", "prune", "--without-engine", "-d", dir))
	must.DirNotExists(t, filepath.Join(dir, "nvidia_driver/340.29"))
	must.DirExists(t, filepath.Join(dir, "nvidia_driver/352.39"))
}

// serve builds the volume before anybody asks for it (cases VOL-13), and its end is
// clean.
func TestServe(t *testing.T) {
	root, dir := simulated(t), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr bytes.Buffer
	a := &app{stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }}
	done := make(chan int, 1)
	go func() {
		done <- a.run(ctx, []string{"--driver-root", root, "serve", "-l", "127.0.0.1:0", "-d", filepath.Join(dir, "volumes"), "-s", filepath.Join(dir, "plugins")})
	}()
	socket := filepath.Join(dir, "plugins", "nvidia-docker.sock")
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool {
		_, noSocket := os.Stat(socket)
		_, noTree := os.Stat(filepath.Join(dir, "volumes/nvidia_driver/352.39"))
		return noSocket == nil && noTree == nil
	}), wait.Timeout(time.Minute), wait.Gap(5*time.Millisecond)))
	cancel()
	must.Eq(t, 0, <-done)
	must.FileNotExists(t, socket)
	must.StrContains(t, stderr.String(), "terminated")
}

// Either signal ends serve as a process with success, and nothing is left (DM-5).
func TestSignalsEndServe(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "--driver-root", dir, "serve", "-l", "127.0.0.1:0", "-d", filepath.Join(dir, "volumes"), "-s", dir)
		cmd.Env = append(os.Environ(), programEnv+"=1")
		log, err := cmd.StderrPipe()
		must.NoError(t, err)
		must.NoError(t, cmd.Start())
		lines := bufio.NewScanner(log)
		waitForLine(t, lines, "nvidia-docker.sock") // the last thing it begins to serve
		must.NoError(t, cmd.Process.Signal(signal))
		waitForLine(t, lines, "terminated")
		must.NoError(t, cmd.Wait(), must.Sprint(signal))
		must.FileNotExists(t, volume.SocketPath(dir))
	}
}

func waitForLine(t *testing.T, lines *bufio.Scanner, with string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), with) {
			return
		}
	}
	t.Fatalf("the log ended without %q: %v", with, lines.Err())
}

func TestDoctorWithoutAnything(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(empty, "docker.sock"))
	got := command(t, "--driver-root", empty, "doctor", "-s", empty, "-d", empty, "-l", "127.0.0.1:1")
	must.Eq(t, 2, got.code)
	must.StrContains(t, got.stdout, "warning  NVIDIA driver: NVML library not found")
	must.StrContains(t, got.stdout, "broken   Docker Engine: unix://"+empty+"/docker.sock does not answer")
	must.StrContains(t, got.stdout, "         cure: start it (systemctl start docker)")
	must.StrContains(t, got.stdout, "warning  volume driver: no socket at "+empty)
	must.StrNotContains(t, got.stdout, "\x1b")

	var findings []map[string]string
	asJSON := command(t, "--driver-root", empty, "doctor", "--json", "-s", empty, "-d", empty, "-l", "127.0.0.1:1")
	must.NoError(t, json.Unmarshal([]byte(asJSON.stdout), &findings))
	must.Eq(t, "warning", findings[0]["level"])
}

// Without an option the doctor looks where it was started from, if that is a
// plugin_dir (cases DEV-32).
func TestDoctorFindsItsPluginDir(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "gpu-docker")
	self, err := os.ReadFile("/proc/self/exe")
	must.NoError(t, err)
	must.NoError(t, os.WriteFile(program, self, 0o700))
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(dir, "docker.sock"))
	doctor := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"--driver-root", dir, "doctor", "-s", dir, "-d", dir, "-l", ""}, args...)...)
		cmd.Env = append(os.Environ(), programEnv+"=1")
		out, err := cmd.Output()
		must.Error(t, err)
		must.Eq(t, 2, cmd.ProcessState.ExitCode()) // there is no engine
		return string(out)
	}
	must.StrContains(t, doctor(), "ok       Nomad plugins: not looked at")
	must.StrContains(t, doctor("--plugin-dir", dir), `no "nvidia-gpu" in "`+dir)
	must.NoError(t, os.Symlink("gpu-docker", filepath.Join(dir, "nvidia-gpu")))
	must.StrContains(t, doctor(), `ok       Nomad plugins: "`+dir+`" has both`)
}

// Global flags stand before docker's; docker's own stay untouched.
func TestRunTakesGlobalFlagsInFront(t *testing.T) {
	a := &app{}
	rest := a.takeGlobalFlags([]string{"--driver-root=/r", "--nvml-library", "/n", "--rm", "--driver-root", "x", "image"})
	must.Eq(t, []string{"--rm", "--driver-root", "x", "image"}, rest)
	must.Eq(t, "/r", a.driverRoot)
	must.Eq(t, "/n", a.nvmlLibrary)
	must.Eq(t, []string{"--driver-root"}, a.takeGlobalFlags([]string{"--driver-root"}))
}

// A host variable that cannot be right stops the wrapper before docker is asked.
func TestRunRefusesBadHost(t *testing.T) {
	got := commandWithEnv(t, map[string]string{"DOCKER_HOST": "fd://"}, "run", "--rm", "image")
	must.Eq(t, 1, got.code)
	must.StrContains(t, got.stderr, "Error: invalid remote host URI")
	must.Eq(t, 1, strings.Count(got.stderr, "Error:"))
}
