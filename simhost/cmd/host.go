// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gpu-docker/gpu-docker/simhost"
)

func upCommand(f *flags) *cobra.Command {
	var o simhost.Options
	cmd := &cobra.Command{Use: "up --root DIR --profile NAME|FILE", Short: "Make a simulated host in a new or empty directory", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.root == "" {
				return errors.New("where? name a new directory with --root")
			}
			o.Root = f.root
			h, err := simhost.Up(cmd.Context(), o)
			if err != nil {
				return err
			}
			p, err := h.Profile()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(f.out, "%s: driver %s, GPUs: %d\n", h.Root(), p.DriverVersion, len(p.Devices))
			return err
		}}
	cmd.Flags().StringVar(&o.Profile, "profile", "", "name of a built-in profile (simhost profiles), or path of a file")
	cmd.Flags().StringVar(&o.Scenario, "scenario", "", "one of the profile's scenarios")
	return requireFlags(cmd, "profile")
}

func profilesCommand(f *flags) *cobra.Command {
	return &cobra.Command{Use: "profiles [NAME]", Short: "List the built-in profiles, or print the file of one", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				text, err := simhost.ProfileText(args[0])
				if err != nil {
					return err
				}
				_, err = f.out.Write(text)
				return err
			}
			all, err := simhost.Profiles()
			if err != nil {
				return err
			}
			var rows strings.Builder
			rows.WriteString("NAME\tDRIVER\tGPUS\tDESCRIPTION\n")
			for _, p := range all {
				fmt.Fprintf(&rows, "%s\t%s\t%d\t%s\n", p.Name, p.DriverVersion, len(p.Devices), p.Description)
			}
			return f.table(rows.String(), 0)
		}}
}

func (f *flags) callsCommand() *cobra.Command {
	var asJSON, reset bool
	cmd := f.hostCommand("calls", "Tell how often each function of the libraries was called", cobra.NoArgs,
		func(h *simhost.Host, _ []string) error {
			if err := f.printCalls(h.Calls(), asJSON); err != nil || !reset {
				return err
			}
			return h.ResetCalls()
		})
	cmd.Flags().BoolVar(&asJSON, "json", false, "answer as one JSON object")
	cmd.Flags().BoolVar(&reset, "reset", false, "set the counters to 0 after reading them")
	return cmd
}

// printCalls lists functions, the most called first.
func (f *flags) printCalls(calls map[string]uint64, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(f.out).Encode(calls)
	}
	names := slices.SortedFunc(maps.Keys(calls), func(a, b string) int {
		return cmp.Or(cmp.Compare(calls[b], calls[a]), cmp.Compare(a, b))
	})
	var rows strings.Builder
	for _, name := range names {
		fmt.Fprintf(&rows, "%d\t  %s\n", calls[name], name)
	}
	return f.table(rows.String(), tabwriter.AlignRight)
}

// table prints rows of cells that tabs separate.
func (f *flags) table(rows string, style uint) error {
	w := tabwriter.NewWriter(f.out, 0, 0, 2, ' ', style)
	if _, err := io.WriteString(w, rows); err != nil {
		return err
	}
	return w.Flush()
}
