//go:build e2e

// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"strings"
)

// job describes the one-task jobs of the stories.
type job struct {
	name   string
	kind   string // "service" (default) or "batch"
	image  string
	script string // run by /bin/sh
	gpus   int    // 0: no device block
	config string // more lines of the task's config block
	more   string // more lines of the task
}

// hcl is the job file. A failed start is final, so that stories see it at once.
func (j job) hcl() string {
	if j.kind == "" {
		j.kind = "service"
	}
	device := ""
	if j.gpus > 0 {
		device = fmt.Sprintf("device \"nvidia/gpu\" { count = %d }", j.gpus)
	}
	return strings.NewReplacer("NAME", j.name, "KIND", j.kind, "IMAGE", j.image,
		"SCRIPT", j.script, "DEVICE", device, "CONFIG", j.config, "MORE", j.more).Replace(`
job "NAME" {
  type = "KIND"
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "t" {
      driver       = "gpu-docker"
      kill_timeout = "2s"
      config {
        image   = "IMAGE"
        command = "/bin/sh"
        args    = ["-c", <<EOT
SCRIPT
EOT
        ]
        init    = true
        CONFIG
      }
      resources {
        cpu    = 20
        memory = 32
        DEVICE
      }
      MORE
    }
  }
}`)
}
