// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/shoenig/test/must"
)

// goldenRecord is one request and v1's answer, or ours where v1 had a defect.
type goldenRecord struct {
	ID       string
	Scenario string
	Method   string
	Target   string
	Compare  string
	Want     struct {
		Status      int
		ContentType string `json:"content_type"`
		Options     string `json:"x_content_type_options"`
		Body        string
		Length      int
	}
}

var goldenHosts = []string{"k80x4-352.39", "titanx4-361.48", "ecc2-375.26", "zero-340.29"}

// ownAnswer replaces a golden record; the body is a file in testdata/own.
type ownAnswer struct {
	status int
	body   string
}

// changedRecords are answered otherwise than the golden data says, on purpose:
// one GPU that cannot be read no longer spoils the answer for the others.
var changedRecords = map[string]ownAnswer{
	"device-lost.gpu_status":       {http.StatusOK, "device-lost.gpu_status.txt"},
	"device-lost.gpu_status_json":  {http.StatusOK, "device-lost.gpu_status_json.json"},
	"device0-lost.gpu_status":      {http.StatusOK, "device0-lost.gpu_status.txt"},
	"device0-lost.gpu_status_json": {http.StatusOK, "device0-lost.gpu_status_json.json"},
}

func TestGoldenOfFixtures(t *testing.T) {
	for _, host := range goldenHosts {
		t.Run(host, func(t *testing.T) {
			for _, r := range goldenRecords(t, host) {
				t.Run(r.ID, func(t *testing.T) {
					f := loadFixture(t, fixtureDir(host), r.Scenario)
					srv := httptest.NewServer(Handler(Config{Host: &fixtureHost{f}}))
					defer srv.Close()
					compareGolden(t, host, r, srv.Listener.Addr().String(), changedRecords)
				})
			}
		})
	}
}

// goldenRecords reads the requests of a host; the order of the beta releases is
// not a request but text that clients of early releases saw (DC-10).
func goldenRecords(t *testing.T, host string) []goldenRecord {
	t.Helper()
	file, err := os.Open(filepath.Join(fixtureDir(host), "index.jsonl"))
	must.NoError(t, err)
	defer file.Close()
	var records []goldenRecord
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var r goldenRecord
		must.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		if r.Compare != "legacy-order" {
			records = append(records, r)
		}
	}
	must.NoError(t, lines.Err())
	must.Positive(t, len(records))
	return records
}

// compareGolden asks the server at addr and compares status, headers and body.
func compareGolden(t *testing.T, host string, r goldenRecord, addr string, changed map[string]ownAnswer) {
	t.Helper()
	answer, body := request(t, addr, r.Method, r.Target)
	if own, isChanged := changed[r.ID]; isChanged {
		want, err := os.ReadFile(filepath.Join("testdata", "own", own.body))
		must.NoError(t, err)
		must.Eq(t, own.status, answer.StatusCode)
		must.Eq(t, string(want), string(body))
		return
	}
	want, err := os.ReadFile(filepath.Join(fixtureDir(host), r.Want.Body))
	must.NoError(t, err)
	must.Eq(t, r.Want.Status, answer.StatusCode)
	must.Eq(t, r.Want.ContentType, answer.Header.Get("Content-Type"))
	must.Eq(t, r.Want.Options, answer.Header.Get("X-Content-Type-Options"))
	if r.Compare == "mesos" {
		want, body = unpackMesos(t, want), unpackMesos(t, body)
	} else {
		must.Eq(t, r.Want.Length, len(body))
	}
	must.Eq(t, string(want), string(body))
}

// request writes the request line itself, so that nothing cleans the target.
func request(t *testing.T, addr, method, target string) (*http.Response, []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, method+" "+target+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	must.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	must.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must.NoError(t, err)
	return answer, body
}

// unpackMesos replaces the compressed attribute by its text (MC-2).
func unpackMesos(t *testing.T, body []byte) []byte {
	t.Helper()
	form := regexp.MustCompile(`^--attributes=gpus:([A-Za-z0-9_-]+)( --resources=gpus:\{[^}]*\})$`)
	parts := form.FindSubmatch(body)
	must.NotNil(t, parts, must.Sprintf("body %q", body))
	packed, err := base64.RawURLEncoding.DecodeString(string(parts[1]))
	must.NoError(t, err)
	z, err := zlib.NewReader(bytes.NewReader(packed))
	must.NoError(t, err)
	text, err := io.ReadAll(z)
	must.NoError(t, err)
	return append(text, parts[2]...)
}

// Files that no record names would be dead weight and look like coverage.
func TestGoldenFilesAreAllUsed(t *testing.T) {
	used := map[string]bool{}
	for _, changed := range []map[string]ownAnswer{changedRecords, nvmlRecords} {
		for _, own := range changed {
			used[filepath.Join("testdata", "own", own.body)] = true
		}
	}
	for _, host := range goldenHosts {
		index, err := os.ReadFile(filepath.Join(fixtureDir(host), "index.jsonl"))
		must.NoError(t, err)
		for _, body := range regexp.MustCompile(`bodies/[^"]+`).FindAllString(string(index), -1) {
			used[filepath.Join(fixtureDir(host), body)] = true
		}
	}
	for _, pattern := range []string{"testdata/own/*", "testdata/golden/*/bodies/*"} {
		files, err := filepath.Glob(pattern)
		must.NoError(t, err)
		for _, file := range files {
			must.True(t, used[file], must.Sprint(file))
		}
	}
}
