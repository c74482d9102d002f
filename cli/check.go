// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpu-docker/gpu-docker/compat"
)

const checkHelp = `Says whether an image may run here, and if not, why and what would help. It reads
the image of the Docker Engine, or if the engine does not have it the registry's
manifest and configuration, with the credentials of "docker login". No layer is
fetched and no container is made.

With --metadata FILE the image's labels and environment come from a JSON object
{"labels": {…}, "env": {…}} instead ("env" also as a list of "KEY=value"; "-" is
the standard input), as "docker inspect -f '{{json .Config}}' IMAGE" prints it.

--driver, --cuda, --arch and --brand ask for another host than this one. With
--driver, what is not given counts as not reported.

Exit codes: 0 yes, perhaps with a warning; 1 no; 2 cannot tell, or wrong usage.`

const checkExample = `  gpu-docker check nvidia/cuda:9.0-base
  gpu-docker check --driver 470.256.02 --brand GeForce nvidia/cuda:12.8.1-base-ubuntu22.04
  gpu-docker check --json --metadata image.json --driver 535.261.03 --cuda 12.2`

// Exit codes of check.
const (
	exitNo         = 1
	exitCannotTell = 2
)

// checkTimeout bounds a check as a whole; a registry has less.
const checkTimeout = 30 * time.Second

// check is one call of the command.
type check struct {
	app      *app
	asJSON   bool
	metadata string // file for --metadata
	asked    compat.GPU
	driver   string
	cuda     string
	changed  func(flag string) bool
}

func newCheckCommand(a *app) *cobra.Command {
	c := &check{app: a}
	cmd := &cobra.Command{
		Use:     "check IMAGE",
		Short:   "Say whether an image may run on this host's driver, or on another one",
		Long:    checkHelp,
		Example: checkExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.changed = cmd.Flags().Changed
			if len(args) != 1 && (len(args) > 1 || c.metadata == "") {
				return usage(fmt.Errorf("%q takes one image, not %q; see %q", cmd.CommandPath(), args, cmd.CommandPath()+" --help"))
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), checkTimeout)
			defer cancel()
			return c.run(ctx, strings.Join(args, ""))
		},
	}
	addJSONFlag(cmd, &c.asJSON)
	flags := cmd.Flags()
	flags.StringVar(&c.metadata, "metadata", "", "JSON file with labels and env, instead of an image")
	flags.StringVar(&c.driver, "driver", "", "version of the NVIDIA driver, such as 535.261.03")
	flags.StringVar(&c.cuda, "cuda", "", "newest CUDA version that the driver supports, such as 12.2")
	flags.StringVar(&c.asked.Arch, "arch", "", "compute capability of the GPU, such as 8.6")
	flags.StringVar(&c.asked.Brand, "brand", "", "brand of the GPU as nvidia-smi prints it, such as GeForce")
	return cmd
}

// run reads, decides and prints.
func (c *check) run(ctx context.Context, image string) error {
	if err := c.validate(); err != nil {
		return usage(err)
	}
	answer := &checkAnswer{Image: image}
	md, err := c.readMetadata(ctx, answer)
	if err == nil {
		err = c.decide(ctx, md, answer)
	}
	if err != nil {
		return c.cannotTell(answer, err)
	}
	return c.print(answer)
}

// versionForm is what driver, CUDA and architecture look like; an empty value
// means not reported.
var versionForm = regexp.MustCompile(`^([0-9]+(\.[0-9]+)*)?$`)

func (c *check) validate() error {
	for flag, v := range map[string]string{"driver": c.driver, "cuda": c.cuda, "arch": c.asked.Arch} {
		if !versionForm.MatchString(v) {
			return fmt.Errorf("--%s %q is not a version; write numbers with dots between them, such as 535.261.03", flag, v)
		}
	}
	return nil
}
