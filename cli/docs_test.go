// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"os"
	"testing"

	"github.com/shoenig/test/must"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The manual names every command and every flag; check has a page of its own.
func TestManual(t *testing.T) {
	manual, err := os.ReadFile("../docs/command-line.md")
	must.NoError(t, err)
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			must.StrContains(t, string(manual), "`--"+f.Name+"`", must.Sprint(c.CommandPath()))
		})
		for _, child := range c.Commands() {
			must.StrContains(t, string(manual), child.Name())
			if child.Name() != "check" {
				visit(child)
			}
		}
	}
	root := newRootCommand(&app{})
	visit(root)
}
