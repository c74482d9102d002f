// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// message writes the lines that people read.
type message struct {
	image  string
	policy Policy
}

// maxShown is how much of a foreign text a message shows, in bytes.
const maxShown = 200

// printable makes foreign text safe for one line: as it is if it can be printed,
// else quoted; and cut if it is long.
func printable(s string) string {
	cut := ""
	if len(s) > maxShown {
		end := maxShown
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s, cut = s[:end], "…"
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		s = strconv.QuoteToASCII(s)
	}
	return s + cut
}

func (m message) subject() string {
	shown := m.image
	if len(shown) > maxShown {
		shown = shown[:maxShown] + "…"
	}
	return "image " + strconv.Quote(shown)
}

// refuse completes a refusal, which the setting "warn" turns into a warning.
func (m message) refuse(d Decision) Decision {
	d.Verdict = VerdictRefuse
	if m.policy.Requirements == Warn {
		d.Verdict, d.Warnings = VerdictWarn, []string{warnNotEnforced}
		d.Reason += `; started all the same, because requirements = "warn"`
	}
	return d
}

// unmet is the text of a refusal: what is needed, what is here, what would do,
// where the image says so, how to override.
func (m message) unmet(all []*unmet, driver string, hints []string) string {
	first := all[0]
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s; %s; %s%s", m.subject(), first.lacks(), cure(first, driver), first.origin(), first.others())
	for _, u := range all[1:] {
		b.WriteString("; also " + u.origin())
	}
	b.WriteString(m.override())
	for _, h := range hints {
		b.WriteString("; " + h)
	}
	return b.String()
}

// cure says what to use instead.
func cure(u *unmet, driver string) string {
	_, isCUDA := u.cuda()
	switch {
	case isCUDA && driver != "":
		return fmt.Sprintf("use driver %s, or an image for CUDA %s or older", driver, u.host.cuda)
	case isCUDA:
		return fmt.Sprintf("no driver that gpu-docker knows meets all that the image asks for; use an image for CUDA %s or older", u.host.cuda)
	case driver != "":
		return "use driver " + driver
	case u.alternatives[0].failed.property == "driver":
		return "no driver that gpu-docker knows meets all that the image asks for; correct its requirements, or use another image"
	}
	return "no other driver version would change that; place the job on a node with other GPUs (a constraint in its device block)"
}

// override says how to start the image all the same, if that is allowed.
func (m message) override() string {
	switch {
	case m.policy.Requirements == Warn:
		return ""
	case !m.policy.AllowOverride:
		return "; this node's operator does not let jobs override this (allow_override = false)"
	}
	return `; to start it all the same, set NVIDIA_DISABLE_REQUIRE=1 in the task's env, or requirements = "warn" in its gpu block`
}

func (m message) malformed(e *syntaxError) string {
	return fmt.Sprintf("%s has an %s; correct it in the image, or set the variable in the task's env%s", m.subject(), e.Error(), m.override())
}

func (m message) disabled() string {
	return m.subject() + " is not checked against this node's driver, because NVIDIA_DISABLE_REQUIRE is set"
}

// ignored is the answer when nothing is checked; a job's own choice shows.
func (m message) ignored() Decision {
	if !m.policy.Overridden {
		return Decision{Verdict: VerdictAllow}
	}
	return Decision{
		Verdict: VerdictWarn, Warnings: []string{warnDisabled},
		Reason: m.subject() + ` is not checked against this node's driver, because the job sets requirements = "ignore"`,
	}
}
