// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/shoenig/test/must"
	"github.com/shoenig/test/wait"
	"golang.org/x/sys/unix"
)

// Without a key the password is asked on the terminal, and is not shown there (EN-5).
func TestPassword(t *testing.T) {
	_, api := goldenHost(t)
	server := startSSH(t, api)
	keyboard, terminal := openTerminal(t)
	wrapper, stderr := wrapperOn(t, terminal, server)
	must.NoError(t, wrapper.Start())
	must.NoError(t, terminal.Close()) // the wrapper has its own

	prompt := "bob@" + server.address + " password: "
	shown := make([]byte, len(prompt))
	_, err := io.ReadFull(keyboard, shown)
	must.NoError(t, err)
	must.Eq(t, prompt, string(shown))
	must.Wait(t, wait.InitialSuccess(wait.BoolFunc(func() bool { return !echoes(t, keyboard) }), wait.Timeout(time.Minute), wait.Gap(time.Millisecond)))
	_, err = keyboard.WriteString(bobsPassword + "\n")
	must.NoError(t, err)
	rest, _ := io.ReadAll(keyboard) // an error is the wrapper's end
	must.NoError(t, wrapper.Wait(), must.Sprint(stderr))
	must.Eq(t, "\r\n", string(rest))
	must.Eq(t, "localhost:3476", <-server.seen)
}

// wrapperOn is a wrapper whose controlling terminal is this one, and whose GPUs are
// behind an SSH server.
func wrapperOn(t *testing.T, terminal *os.File, server *sshHost) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	must.NoError(t, err)
	for _, name := range []string{"nvidia-docker", "docker"} {
		must.NoError(t, os.Symlink(self, filepath.Join(dir, name)))
	}
	engine := filepath.Join(dir, "engine.json")
	(&fakeEngine{Images: map[string]map[string]string{"cuda": {volumesLabel: "nvidia_driver"}}}).save(engine)
	_, port, err := net.SplitHostPort(server.address)
	must.NoError(t, err)

	cmd = exec.CommandContext(t.Context(), filepath.Join(dir, "nvidia-docker"), "run", "cuda")
	cmd.Args[0] = "nvidia-docker"
	cmd.Env = []string{
		"PATH=" + dir, "HOME=" + knownHost(t, server.address, server.hostKey), engineEnv + "=" + engine,
		"NV_HOST=ssh://bob@127.0.0.1:" + port + ":", "DOCKER_HOST=tcp://127.0.0.1:2375",
	}
	stderr = &bytes.Buffer{}
	cmd.Stdin, cmd.Stderr = terminal, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return cmd, stderr
}

// openTerminal makes a pseudo terminal: what people type and read, and what a
// program has.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, keyboard.Close()) })
	must.NoError(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	must.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must.NoError(t, err)
	return keyboard, terminal
}

// echoes says whether the terminal shows what is typed.
func echoes(t *testing.T, keyboard *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(keyboard.Fd()), unix.TCGETS)
	must.NoError(t, err)
	return state.Lflag&unix.ECHO != 0
}
