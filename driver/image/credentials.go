// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
)

// Auth is what a registry is shown. The zero value means none: an anonymous
// pull.
type Auth struct {
	Username, Password string
	// Email is accepted for old jobs; no engine reads it.
	Email string
	// ServerAddress is passed on as the job gives it.
	ServerAddress string
	// IdentityToken and RegistryToken replace the password.
	IdentityToken, RegistryToken string
}

// sha256Hex tells texts apart.
func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// CredentialSource says where credentials for one task come from. The first
// source that yields some, or an error, ends the search: the task's own, then
// the configuration file's credHelpers, auths and credsStore, then the helper
// (task-driver IM-4, cases DRV-17). The zero value yields none.
type CredentialSource struct {
	// Task is the job's auth block.
	Task Auth
	// ConfigFile is a Docker configuration file, read anew each time; empty for
	// none.
	ConfigFile string
	// Helper is the suffix of a program "docker-credential-<Helper>" on PATH,
	// asked for every registry; empty for none.
	Helper string
	// SoftFail makes the Coordinator pull without credentials when the search
	// fails.
	SoftFail bool
	// Logger gets helper names, registries and exit codes at debug level, never
	// a secret. Nil for no log.
	Logger hclog.Logger
}

// Find returns the credentials for a registry ("docker.io", "host[:port]"); the
// zero Auth when no source has any.
func (s CredentialSource) Find(ctx context.Context, host string) (Auth, error) {
	if s.Task != (Auth{}) {
		return s.Task, nil
	}
	if s.ConfigFile != "" {
		auth, err := s.fromFile(ctx, host)
		if err != nil || auth != (Auth{}) {
			return auth, err
		}
	}
	if s.Helper != "" {
		return s.askHelper(ctx, s.Helper, host)
	}
	return Auth{}, nil
}

// fromFile looks a registry up in the Docker configuration file.
func (s CredentialSource) fromFile(ctx context.Context, host string) (Auth, error) {
	file, err := readDockerConfig(s.ConfigFile)
	if err != nil {
		return Auth{}, err
	}
	for _, key := range registryKeys(host) {
		if helper := file.CredHelpers[key]; helper != "" {
			auth, err := s.askHelper(ctx, helper, host)
			if err != nil || auth != (Auth{}) {
				return auth, err
			}
		}
	}
	auth, err := file.stored(host)
	if err != nil || auth != (Auth{}) {
		return auth, err
	}
	if file.CredsStore != "" {
		return s.askHelper(ctx, file.CredsStore, host)
	}
	return Auth{}, nil
}

// hubNames are the names under which Docker Hub's credentials are kept.
var hubNames = []string{"https://index.docker.io/v1/", "docker.io", "index.docker.io"}

// registryKeys are the exact keys of a registry, most usual first.
func registryKeys(host string) []string {
	if slices.Contains(hubNames, host) || host == "registry-1.docker.io" {
		return hubNames
	}
	return []string{host}
}

// hostPart is the host[:port] of an old-style key such as "https://host/v1/".
func hostPart(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, _, _ := strings.Cut(key, "/")
	return host
}

// searchPath is PATH as a message shows it.
func searchPath() string { return os.Getenv("PATH") }
