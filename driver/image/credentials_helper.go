// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

const (
	// helperTimeout limits one call of a credential helper.
	helperTimeout = 30 * time.Second
	// tokenUser is the user name under which a helper hands out an identity token.
	tokenUser = "<token>"
)

// notFoundTexts are what helpers print when they have nothing for a registry.
var notFoundTexts = []string{"credentials not found", "no credentials for"}

// askHelper asks a credential helper for a registry's credentials; the zero
// Auth when it has none. Docker Hub is asked for under both of its names.
func (s CredentialSource) askHelper(ctx context.Context, suffix, host string) (Auth, error) {
	servers := registryKeys(host)
	if len(servers) > 1 {
		servers = servers[:2]
	}
	for _, server := range servers {
		auth, err := s.runHelper(ctx, "docker-credential-"+suffix, server)
		if err != nil || auth != (Auth{}) {
			return auth, err
		}
	}
	return Auth{}, nil
}

// runHelper calls "<program> get" with the server on its standard input.
func (s CredentialSource) runHelper(ctx context.Context, program, server string) (Auth, error) {
	ctx, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	path, err := exec.LookPath(program)
	if err != nil {
		return Auth{}, fmt.Errorf("credential helper %q was not found in PATH %q; install it there, or correct auth.helper or auth.config", program, searchPath())
	}
	cmd := exec.CommandContext(ctx, path, "get")
	cmd.WaitDelay = time.Second // a child of the helper may keep the pipes open
	var answer, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(server), &answer, &complaint
	err = cmd.Run()
	if s.Logger != nil {
		s.Logger.Debug("asked credential helper", "helper", program, "registry", server, "exit_code", cmd.ProcessState.ExitCode())
	}
	if err != nil {
		return Auth{}, helperFailure(ctx, program, server, err, answer.String(), complaint.String())
	}
	return helperAnswer(program, server, answer.Bytes())
}

// helperFailure tells "I have none" from a true failure. Helpers print their
// reason on standard output.
func helperFailure(ctx context.Context, program, server string, err error, answer, complaint string) error {
	said := strings.ToLower(answer + complaint)
	for _, text := range notFoundTexts {
		if strings.Contains(said, text) {
			return nil
		}
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	reason := strings.TrimSpace(complaint)
	if reason == "" {
		reason = strings.TrimSpace(answer)
	}
	if reason == "" {
		return fmt.Errorf("credential helper %q failed for registry %q: %w", program, server, err)
	}
	return fmt.Errorf("credential helper %q failed for registry %q: %w: %s", program, server, err, firstLine(reason))
}

// firstLine keeps messages to one line.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// helperAnswer decodes what a helper printed. The answer is never quoted: it
// holds the secret.
func helperAnswer(program, server string, raw []byte) (Auth, error) {
	var reply struct{ Username, Secret string }
	if err := json.Unmarshal(raw, &reply); err != nil {
		return Auth{}, fmt.Errorf("credential helper %q answered for registry %q with something else than JSON", program, server)
	}
	switch {
	case reply.Secret == "":
		return Auth{}, nil
	case reply.Username == "":
		return Auth{}, errors.New("credential helper \"" + program + "\" answered with a secret but without a user name")
	case reply.Username == tokenUser:
		return Auth{IdentityToken: reply.Secret, ServerAddress: server}, nil
	}
	return Auth{Username: reply.Username, Password: reply.Secret, ServerAddress: server}, nil
}
