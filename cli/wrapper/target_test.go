// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package wrapper

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/shoenig/test/must"
)

// Every host of the golden data (nvidia-docker-v1 EN-6).
func TestGoldenHosts(t *testing.T) {
	file, err := os.Open("testdata/host.jsonl")
	must.NoError(t, err)
	defer file.Close()
	count := 0
	for lines := bufio.NewScanner(file); lines.Scan(); count++ {
		var r struct {
			NVHost     string `json:"NV_HOST"`
			DockerHost string `json:"DOCKER_HOST"`
			User       string `json:"USER"`
			Want       struct {
				Local     bool
				Error     string
				Scheme    string
				Address   string
				ForwardTo string `json:"forward_to"`
				User      string
			}
		}
		must.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		t.Run(r.NVHost+" "+r.DockerHost, func(t *testing.T) {
			target, err := ParseTarget(r.NVHost, r.DockerHost, r.User)
			switch {
			case r.Want.Error != "":
				must.EqError(t, err, r.Want.Error)
			case r.Want.Local:
				must.NoError(t, err)
				must.Nil(t, target)
			default:
				must.NoError(t, err)
				must.Eq(t, &Target{Scheme: r.Want.Scheme, Address: r.Want.Address, ForwardTo: r.Want.ForwardTo, User: r.Want.User}, target)
			}
		})
	}
	must.Eq(t, 57, count)
}

func TestBadPorts(t *testing.T) {
	for _, host := range []string{"h:0", "h:65536", "ssh://h:99999:1", "h:-1", "h:1:"} {
		_, err := ParseTarget(host, "", "u")
		if host == "h:1:" { // two ports, the second left out
			must.NoError(t, err)
			continue
		}
		must.EqError(t, err, "invalid remote host URI", must.Sprint(host))
	}
}
