// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"os"
	"regexp"
	"testing"

	"github.com/shoenig/test/must"
)

// The manual names every metric and every path, and no other.
func TestManual(t *testing.T) {
	manual, err := os.ReadFile("../docs/rest-api.md")
	must.NoError(t, err)
	known := map[string]bool{}
	name := regexp.MustCompile(`fqName: "(\w+)"`)
	for _, m := range gpuGauges {
		known[name.FindStringSubmatch(m.desc.String())[1]] = true
	}
	for _, d := range otherMetrics {
		known[name.FindStringSubmatch(d.String())[1]] = true
	}
	for metric := range known {
		must.StrContains(t, string(manual), "`"+metric+"`")
	}
	for _, m := range regexp.MustCompile("`(gpu_[a-z0-9_]+)`").FindAllStringSubmatch(string(manual), -1) {
		must.True(t, known[m[1]], must.Sprint(m[1]))
	}
	for path := range Handler(Config{}).(*api).routes {
		must.StrContains(t, string(manual), "`/v1.0"+path+"`")
	}
}
