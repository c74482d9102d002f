// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Kind says in one word why an image could not be had.
type Kind string

// The kinds of failures.
const (
	KindAuth        Kind = "auth"        // the registry wants other credentials
	KindNotFound    Kind = "not-found"   // no such repository or tag
	KindPlatform    Kind = "platform"    // nothing for this platform
	KindDNS         Kind = "dns"         // the registry's name does not resolve
	KindTLS         Kind = "tls"         // certificate or protocol
	KindDiskFull    Kind = "disk-full"   // the engine's disk
	KindRateLimit   Kind = "rate-limit"  // the registry wants us to wait
	KindUnreachable Kind = "unreachable" // no connection to the registry
	KindTimeout     Kind = "timeout"     // the whole pull took too long
	KindStalled     Kind = "stalled"     // no progress for too long
	KindReference   Kind = "reference"   // what the job names cannot be an image
	KindCredentials Kind = "credentials" // looking credentials up failed
	KindArchive     Kind = "archive"     // the archive to load
	KindOther       Kind = "other"
)

// Error is a failure to get an image. Nomad finds the recoverable mark through
// IsRecoverable.
type Error struct {
	Kind Kind
	// Recoverable is true when the same request may succeed later.
	Recoverable bool
	text        string
	cause       error
}

func (e *Error) Error() string { return e.text }

func (e *Error) Unwrap() error { return e.cause }

// IsRecoverable makes Error one of Nomad's recoverable errors.
func (e *Error) IsRecoverable() bool { return e.Recoverable }

// failure makes an Error whose text is already complete.
func failure(kind Kind, recoverable bool, cause error, format string, args ...any) *Error {
	return &Error{Kind: kind, Recoverable: recoverable, cause: cause, text: fmt.Sprintf(format, args...)}
}

// reasons maps parts of engine and registry answers, in lower case, to a kind,
// most telling first. Engines give no codes for most of them.
var reasons = []struct {
	kind  Kind
	parts []string
}{
	{KindDiskFull, []string{"no space left on device", "disk quota exceeded"}},
	{KindRateLimit, []string{"toomanyrequests", "too many requests", "rate limit", "http 429"}},
	{KindPlatform, []string{"no matching manifest for", "does not match the specified platform", "does not provide the specified platform"}},
	{KindTLS, []string{"x509:", "tls:", "http response to https client", "certificate"}},
	{KindDNS, []string{"no such host", "server misbehaving", "name resolution"}},
	{KindAuth, []string{"unauthorized", "authentication required", "no basic auth credentials", "pull access denied", "incorrect username or password", "denied:", `"code":"denied"`, "forbidden", "http 401", "http 403"}},
	{KindNotFound, []string{"manifest unknown", "not found", "name unknown", "name_unknown", "manifest_unknown", "repository does not exist", "http 404"}},
	{KindUnreachable, []string{"connection refused", "i/o timeout", "no route to host", "network is unreachable", "deadline exceeded", "request canceled", "connection reset", "unexpected eof", ": eof", "broken pipe", "bad gateway", "service unavailable", "gateway timeout", "received unexpected http status: 5"}},
}

// plain says each kind in words, with the cure after the semicolon.
var plain = map[Kind][2]string{
	KindDiskFull:    {"the engine's disk is full", "free space in the engine's data directory"},
	KindRateLimit:   {"the registry limits how often this node may pull", "log in with auth, or use a mirror"},
	KindPlatform:    {"the image has no variant for this platform", "build it for this platform, or constrain the job to other nodes"},
	KindTLS:         {"no secure connection to the registry", "install the registry's CA for the engine, or list the registry under insecure-registries"},
	KindDNS:         {"the registry's name does not resolve", "check the name and this node's DNS servers"},
	KindAuth:        {"the registry refused access, or the repository does not exist", "check the name and the credentials in auth, auth.config or auth.helper"},
	KindNotFound:    {"the registry has no such image or tag", "check the image option for spelling"},
	KindUnreachable: {"the registry cannot be reached, or broke off", "check the network between this node and the registry"},
}

// gone is the one answer that makes a pull failure final (task-driver IM-13).
var gone = regexp.MustCompile(`Error: image .+ not found`)

// classify finds the kind of an engine's answer.
func classify(err error) Kind {
	text := strings.ToLower(err.Error())
	for _, r := range reasons {
		for _, part := range r.parts {
			if strings.Contains(text, part) {
				return r.kind
			}
		}
	}
	return KindOther
}

// pullFailure turns what the engine said about a pull into an Error.
func pullFailure(ref string, err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, context.Canceled) {
		return failure(KindOther, true, err, "Failed to pull `%s`: %v", ref, err)
	}
	kind := classify(err)
	words, ok := plain[kind]
	if !ok {
		return failure(kind, !gone.MatchString(err.Error()), err, "Failed to pull `%s`: %v", ref, err)
	}
	return failure(kind, !gone.MatchString(err.Error()), err, "Failed to pull `%s`: %s: %v; %s", ref, words[0], err, words[1])
}
