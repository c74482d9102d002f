// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"github.com/gpu-docker/gpu-docker/compat"
	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/imagemeta"
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

// maxMetadataBytes bounds a file for --metadata.
const maxMetadataBytes = 16 << 20

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

// readMetadata reads the file, the engine or the registry.
func (c *check) readMetadata(ctx context.Context, answer *checkAnswer) (compat.Metadata, error) {
	if c.metadata != "" {
		if answer.Image == "" {
			answer.Image = c.metadata
		}
		answer.Metadata.From = "file"
		return c.readFile()
	}
	cfg := imagemeta.Config{}
	if e, err := newEngine(); err == nil {
		defer e.close()
		cfg.Engine = e
	}
	img, err := imagemeta.NewReader(cfg).Read(ctx, imagemeta.Request{Image: answer.Image, Keychain: authn.DefaultKeychain})
	if err != nil {
		return compat.Metadata{}, err
	}
	answer.Metadata = metadataAnswer{From: string(img.Origin), ID: img.ID, Digest: img.Digest}
	return img.Metadata, nil
}

func (c *check) readFile() (compat.Metadata, error) {
	in := c.app.stdin
	if c.metadata != "-" {
		f, err := os.Open(c.metadata)
		if err != nil {
			return compat.Metadata{}, err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxMetadataBytes))
	if err != nil {
		return compat.Metadata{}, err
	}
	var file struct {
		Labels map[string]string
		Env    environment
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return compat.Metadata{}, fmt.Errorf(`%q is not a JSON object like {"labels": {…}, "env": {…}}: %w`, c.metadata, err)
	}
	return compat.Metadata{Labels: file.Labels, Env: file.Env}, nil
}

// environment reads variables as an object or as a list of K=V.
type environment map[string]string

func (e *environment) UnmarshalJSON(data []byte) error {
	var list []string
	if json.Unmarshal(data, &list) == nil {
		*e = imagemeta.ParseEnv(list)
		return nil
	}
	return json.Unmarshal(data, (*map[string]string)(e))
}

// decide asks compat about the host that is meant.
func (c *check) decide(ctx context.Context, md compat.Metadata, answer *checkAnswer) error {
	host, missing, err := c.host(ctx)
	if err != nil {
		return err
	}
	if missing != "" {
		answer.fill(withoutDriver(answer.Image, md, missing), host)
		return nil
	}
	answer.fill(decideOnAny(answer.Image, md, host), host)
	return nil
}

// host is this one, or what the flags say. missing tells why there is no driver.
func (c *check) host(ctx context.Context) (host compat.Host, missing string, err error) {
	if !c.changed("driver") {
		h, err := c.app.openHost()
		if err != nil {
			return host, "", err
		}
		defer h.Close()
		host, missing = hostOf(h.Inventory(ctx))
	}
	for flag, set := range map[string]func(*compat.GPU){
		"arch":  func(g *compat.GPU) { g.Arch = c.asked.Arch },
		"brand": func(g *compat.GPU) { g.Brand = c.asked.Brand },
	} {
		for i := range host.GPUs {
			if c.changed(flag) {
				set(&host.GPUs[i])
			}
		}
	}
	if c.changed("driver") {
		host.Driver = c.driver
	}
	if c.changed("cuda") {
		host.CUDA, missing = c.cuda, ""
	}
	if len(host.GPUs) == 0 {
		host.GPUs = []compat.GPU{c.asked}
	}
	return host, missing, nil
}

// hostOf takes from an inventory what decides.
func hostOf(inv *gpuhost.Inventory) (host compat.Host, missing string) {
	host = compat.Host{Driver: inv.Driver.Version, CUDA: inv.Driver.CUDA.String()}
	for i := range inv.GPUs {
		g := compat.GPU{ID: inv.GPUs[i].UUID}
		if cc := inv.GPUs[i].ComputeCapability; cc != nil {
			g.Arch = cc.String()
		}
		if brand := inv.GPUs[i].Brand; brand != nil {
			g.Brand = *brand
		}
		host.GPUs = append(host.GPUs, g)
	}
	if host.Driver != "" {
		return host, ""
	}
	if missing = inv.Reason; missing == "" {
		missing = "the driver does not tell its version"
	}
	return host, missing
}

// defaultPolicy is the one of a driver that is not configured otherwise.
var defaultPolicy = compat.Policy{Requirements: compat.Enforce, AllowOverride: true}

// decideOnAny says yes if the image may run on one of the host's GPUs, because a
// task need not get all of them; with a warning if it may not run on each.
func decideOnAny(image string, md compat.Metadata, host compat.Host) compat.Decision {
	all := compat.Decide(image, md, host, defaultPolicy)
	if all.Verdict != compat.VerdictRefuse || len(host.GPUs) < 2 {
		return all
	}
	var fit []string
	var best compat.Decision
	for _, g := range host.GPUs {
		single := compat.Host{Driver: host.Driver, CUDA: host.CUDA, GPUs: []compat.GPU{g}}
		if d := compat.Decide(image, md, single, defaultPolicy); d.Verdict != compat.VerdictRefuse {
			fit, best = append(fit, g.ID), d
		}
	}
	if len(fit) == 0 {
		return all
	}
	best.Verdict = compat.VerdictWarn
	best.Reason = fmt.Sprintf("only on %d of %d GPUs here (%s): %s", len(fit), len(host.GPUs), strings.Join(fit, ", "), all.Reason)
	return best
}

// withoutDriver decides on a host without an NVIDIA driver: only an image that
// asks for nothing may run.
func withoutDriver(image string, md compat.Metadata, missing string) compat.Decision {
	unknown := compat.Host{GPUs: []compat.GPU{{}}}
	d := compat.Decide(image, md, unknown, defaultPolicy)
	source := compat.DeclaresGPU(md)
	if d.Verdict == compat.VerdictRefuse || (d.Verdict == compat.VerdictAllow && source == "") {
		return d
	}
	if source == "" {
		source = compat.EnvCUDAVersion
	}
	return compat.Decision{
		Verdict: compat.VerdictRefuse, Source: source,
		Reason: fmt.Sprintf("image %q is made for GPUs (%s), and this host has no NVIDIA driver: %s; ask for another host with --driver", image, source, missing),
	}
}

// checkAnswer is the JSON answer.
type checkAnswer struct {
	Image        string              `json:"image"`
	Decision     string              `json:"decision"` // allow, warn, refuse; unknown with exit code 2
	Reason       string              `json:"reason"`
	Warnings     []string            `json:"warnings"`
	Hints        []string            `json:"hints,omitempty"`
	Source       string              `json:"source,omitempty"`
	Need         string              `json:"need,omitempty"`
	UseDriver    string              `json:"use_driver,omitempty"`
	Alternatives []alternativeAnswer `json:"alternatives,omitempty"`
	CompatFirst  bool                `json:"use_compat_libraries"`
	Metadata     metadataAnswer      `json:"metadata"`
	Host         *hostAnswer         `json:"host,omitempty"`
}

type alternativeAnswer struct {
	Term    string `json:"term"`
	Failing string `json:"failing"`
	Host    string `json:"host"`
}

type metadataAnswer struct {
	From   string `json:"from,omitempty"` // engine, registry or file
	ID     string `json:"id,omitempty"`
	Digest string `json:"digest,omitempty"`
}

type hostAnswer struct {
	Driver string      `json:"driver"`
	CUDA   string      `json:"cuda"`
	GPUs   []gpuAnswer `json:"gpus"`
}

type gpuAnswer struct {
	ID    string `json:"id,omitempty"`
	Arch  string `json:"arch"`
	Brand string `json:"brand"`
}

func (a *checkAnswer) fill(d compat.Decision, host compat.Host) {
	a.Decision, a.Reason, a.Hints, a.Source, a.Need = string(d.Verdict), d.Reason, d.Hints, d.Source, d.Need
	a.UseDriver, a.CompatFirst = d.UseDriver, d.UseCompatLibraries
	a.Warnings = append(a.Warnings, d.Warnings...)
	for _, alt := range d.Alternatives {
		a.Alternatives = append(a.Alternatives, alternativeAnswer{alt.Term, alt.Failing, alt.Host})
	}
	a.Host = &hostAnswer{Driver: host.Driver, CUDA: host.CUDA, GPUs: []gpuAnswer{}}
	for _, g := range host.GPUs {
		a.Host.GPUs = append(a.Host.GPUs, gpuAnswer(g))
	}
}

// print writes the answer and chooses the exit code.
func (c *check) print(a *checkAnswer) error {
	if err := c.write(a); err != nil {
		return err
	}
	if a.Decision == string(compat.VerdictRefuse) {
		return &exitError{code: exitNo}
	}
	return nil
}

func (c *check) write(a *checkAnswer) error {
	if c.asJSON {
		if a.Warnings == nil {
			a.Warnings = []string{}
		}
		out := json.NewEncoder(c.app.stdout)
		out.SetEscapeHTML(false) // requirements are full of < and >
		out.SetIndent("", "  ")
		return out.Encode(a)
	}
	lines := []string{fmt.Sprintf("yes: image %q may run here", a.Image)}
	switch a.Decision {
	case string(compat.VerdictRefuse):
		lines[0] = "no: " + a.Reason
	case string(compat.VerdictWarn):
		lines[0] = "yes, with a warning: " + a.Reason
	}
	for _, h := range a.Hints {
		if !strings.Contains(a.Reason, h) {
			lines = append(lines, "note: "+h)
		}
	}
	_, err := fmt.Fprintln(c.app.stdout, strings.Join(lines, "\n"))
	return err
}

// cannotTell ends with exit code 2; in JSON the answer says so too.
func (c *check) cannotTell(a *checkAnswer, cause error) error {
	var wrong *exitError
	if errors.As(cause, &wrong) {
		return cause
	}
	if c.asJSON {
		a.Decision, a.Reason = "unknown", cause.Error()
		if err := c.write(a); err != nil {
			return err
		}
		return &exitError{code: exitCannotTell}
	}
	return &exitError{code: exitCannotTell, err: fmt.Errorf("cannot tell: %w", cause)}
}
