// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

const matrixFile = "testdata/matrix.golden"

// imageRow is one line of testdata/cuda-images.jsonl: a real image configuration.
type imageRow struct {
	Image  string            `json:"image"`
	Tag    string            `json:"tag"`
	Arch   string            `json:"arch"`
	Rev    string            `json:"rev"`
	Labels map[string]string `json:"labels"`
	Env    map[string]string `json:"env"`
}

// branches are one host for each driver branch: its first driver of the table.
func branches() []driverRelease {
	return slices.CompactFunc(slices.Clone(driverReleases), func(a, b driverRelease) bool {
		return a.driver.branch() == b.driver.branch()
	})
}

// cell is a decision in a few characters, explained at the top of the file.
func cell(d Decision) string {
	short := map[string]string{
		warnBranchClause: "b", warnMinorVersion: "m", warnForward: "f", warnDisabled: "off",
		warnUnknownProperty: "u", warnUnknownValue: "v", warnBadMetadata: "x", warnFromTable: "t",
	}
	switch d.Verdict {
	case VerdictRefuse:
		return "-"
	case VerdictAllow:
		return "ok" + compatMark(d)
	}
	var b strings.Builder
	for _, w := range d.Warnings {
		b.WriteString(short[w])
	}
	return b.String() + compatMark(d)
}

func compatMark(d Decision) string {
	if d.UseCompatLibraries {
		return "+"
	}
	return ""
}

const matrixLegend = `# Real images by driver branches: may the image run? Written by: make golden
# ok yes; - no; b branch-clause; m minor-version-compat; off disabled; + /usr/local/cuda/compat first.
# Each image twice: on a data-centre board (brand tesla up to branch 460, nvidia later) and on a GeForce.
`

// dataCentreBrand is how drivers of a branch name a data-centre board.
func dataCentreBrand(driver version) string {
	if driver.compare("465") >= 0 {
		return "NVIDIA"
	}
	return "Tesla"
}

// matrix decides every image on every driver branch.
func matrix(images []imageRow) string {
	var b strings.Builder
	b.WriteString(matrixLegend)
	fmt.Fprintf(&b, "%-84s", "#")
	for _, r := range branches() {
		fmt.Fprintf(&b, "%4s", r.driver.branch())
	}
	b.WriteByte('\n')
	for _, i := range images {
		for _, board := range []string{"dc", "gf"} {
			fmt.Fprintf(&b, "%-84s", fmt.Sprintf("%s:%s %s %s %s", i.Image, i.Tag, i.Arch, i.Rev, board))
			for _, r := range branches() {
				fmt.Fprintf(&b, "%4s", cell(i.decide(r, board)))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func (i imageRow) decide(r driverRelease, board string) Decision {
	gpu := GPU{ID: "GPU-0", Arch: "7.5", Brand: "GeForce"}
	if board == "dc" {
		gpu.Brand = dataCentreBrand(r.driver)
	}
	host := Host{Driver: string(r.driver), CUDA: string(r.cuda), GPUs: []GPU{gpu}}
	return Decide(i.Image+":"+i.Tag, Metadata{Labels: i.Labels, Env: i.Env}, host, byDefault)
}

func TestMatrix(t *testing.T) {
	images := readLines[imageRow](t, "testdata/cuda-images.jsonl")
	must.Len(t, 317, images)
	got := matrix(images)
	if os.Getenv("GOLDEN_UPDATE") != "" {
		must.NoError(t, os.WriteFile(matrixFile, []byte(got), 0o644))
	}
	want, err := os.ReadFile(matrixFile)
	must.NoError(t, err)
	must.Eq(t, string(want), got, must.Sprint("rewrite with: make golden"))
	checkNewerDrivers(t, got)
}

// TestImages_areReadable: only two real requirements are not valid, because two
// ppc64le revisions wrote cuda>=10_0 and cuda>=10_1.
func TestImages_areReadable(t *testing.T) {
	malformed := 0
	for _, i := range readLines[imageRow](t, "testdata/cuda-images.jsonl") {
		if _, err := collect(i.Env); err != nil {
			malformed++
			must.Eq(t, "ppc64le", i.Arch, must.Sprint(i.Image, i.Tag, err))
			must.StrContains(t, err.Error(), "cuda>=10_")
		}
	}
	must.Eq(t, 2, malformed)
}

// checkNewerDrivers: on a GeForce, what runs because of its CUDA version runs on
// every newer driver too.
func checkNewerDrivers(t *testing.T, matrix string) {
	t.Helper()
	for line := range strings.Lines(matrix) {
		name, cells, ok := strings.Cut(line, " gf ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		ran := false
		for _, c := range strings.Fields(cells) {
			must.False(t, ran && c == "-", must.Sprint(name))
			ran = ran || c == "ok"
		}
	}
}
