// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"bufio"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

var goldenHosts = []string{k80, "titanx4-361.48", "ecc2-375.26", "zero-340.29"}

// goldenDir is the volumes directory of the golden records.
const goldenDir = DefaultDir

// step is one line of volume-plugin.jsonl.
type step struct {
	Seq      int
	Scenario string
	Note     string
	Request  *struct {
		Method, Path string
		Accept, Body *string
	}
	Response struct {
		Status      int
		ContentType string `json:"content_type"`
		Body        string
	}
	Action string
	Path   string
	Want   []string
}

// TestGoldenTranscripts plays every step of every transcript (nvidia-docker-v1 §14).
func TestGoldenTranscripts(t *testing.T) {
	for _, host := range goldenHosts {
		var play *transcript
		for _, st := range readSteps(t, host) {
			if play == nil || play.scenario != st.Scenario {
				play = newTranscript(t, host, st.Scenario)
			}
			t.Run(host+"/"+st.Scenario, func(t *testing.T) { play.step(t, st) })
		}
	}
}

func readSteps(t *testing.T, host string) []step {
	f, err := os.Open(filepath.Join("testdata/golden", host, "volume-plugin.jsonl"))
	must.NoError(t, err)
	defer f.Close()
	var steps []step
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s step
		must.NoError(t, json.Unmarshal(lines.Bytes(), &s))
		steps = append(steps, s)
	}
	must.NoError(t, lines.Err())
	must.Len(t, 243, steps)
	return steps
}

// transcript is the state of one scenario.
type transcript struct {
	scenario string
	dir      string
	server   *httptest.Server
}

func newTranscript(t *testing.T, host, scenario string) *transcript {
	dir := filepath.Join(t.TempDir(), "volumes")
	if scenario == "cross-device" {
		dir = otherFileSystem(t)
	}
	s := newStore(t, Config{Dir: dir}, hostOf(t, t.TempDir(), host, scenario))
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	return &transcript{scenario: scenario, dir: dir, server: server}
}

// otherFileSystem is a volumes directory on another file system than t.TempDir.
func otherFileSystem(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "gpu-docker-volume-")
	must.NoError(t, err)
	t.Cleanup(func() { must.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "volumes")
}

func (p *transcript) step(t *testing.T, st step) {
	local := strings.Replace(st.Path, goldenDir, p.dir, 1)
	switch {
	case st.Request != nil:
		p.request(t, st)
	case st.Action == "mkdir":
		must.NoError(t, os.MkdirAll(local, 0o755))
	case st.Action == "touch":
		must.NoError(t, os.MkdirAll(filepath.Dir(local), 0o755))
		must.NoError(t, os.WriteFile(local, nil, 0o644))
	case st.Action == "tree":
		must.Eq(t, st.Want, listTree(t, local), must.Sprintf("step %d %s", st.Seq, st.Note))
	default:
		t.Fatalf("step %d: unknown action %q", st.Seq, st.Action)
	}
}

func (p *transcript) request(t *testing.T, st step) {
	var body io.Reader
	if st.Request.Body != nil {
		body = strings.NewReader(*st.Request.Body)
	}
	req, err := http.NewRequest(st.Request.Method, p.server.URL+st.Request.Path, body)
	must.NoError(t, err)
	if st.Request.Accept != nil {
		req.Header.Set("Accept", *st.Request.Accept)
	}
	resp, err := http.DefaultClient.Do(req)
	must.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	must.NoError(t, err)
	must.NoError(t, resp.Body.Close())
	what := must.Sprintf("step %d %s", st.Seq, st.Note)
	must.Eq(t, st.Response.Status, resp.StatusCode, what)
	must.Eq(t, st.Response.ContentType, resp.Header.Get("Content-Type"), what)
	must.Eq(t, strings.ReplaceAll(st.Response.Body, goldenDir, p.dir), string(got), what)
}

// listTree lists a directory as the golden trees do: byte order, a slash behind
// directories, the target behind links.
func listTree(t testing.TB, dir string) []string {
	var got []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			name += "/"
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			name += " -> " + target
		}
		got = append(got, name)
		return nil
	})
	must.NoError(t, err)
	return got
}

// TestGoldenTree builds each golden host's volume and compares the whole tree.
func TestGoldenTree(t *testing.T) {
	for _, host := range goldenHosts {
		t.Run(host, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join("testdata/golden", host, "volume-tree.txt"))
			must.NoError(t, err)
			s := newStore(t, Config{}, hostOf(t, t.TempDir(), host, ""))
			v, err := s.Ensure(t.Context())
			must.NoError(t, err)
			must.True(t, v.Built)
			must.Eq(t, strings.TrimSpace(string(want)), strings.Join(listTree(t, v.Mountpoint), "\n"))
		})
	}
}
