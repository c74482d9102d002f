// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// dockerConfig is the part of a Docker configuration file that is about
// credentials.
type dockerConfig struct {
	path        string
	Auths       map[string]dockerAuth `json:"auths"`
	CredHelpers map[string]string     `json:"credHelpers"`
	CredsStore  string                `json:"credsStore"`
}

// dockerAuth is one entry of auths. Auth is base64 of "user:password".
type dockerAuth struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	Email         string `json:"email"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// readDockerConfig reads the file that the option auth.config names.
func readDockerConfig(path string) (dockerConfig, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return dockerConfig{}, fmt.Errorf("auth.config: %w", err)
	}
	config := dockerConfig{path: path}
	if err := json.Unmarshal(raw, &config); err != nil {
		return dockerConfig{}, fmt.Errorf("auth.config %q is not a Docker configuration file: %w", path, err)
	}
	return config, nil
}

// stored looks a registry up under auths: by its exact key, then by any old key
// with the same host (task-driver IM-5). An entry without content, as a
// credential store leaves it, counts as none.
func (c dockerConfig) stored(host string) (Auth, error) {
	for _, key := range registryKeys(host) {
		if auth, err := c.entry(key); err != nil || auth != (Auth{}) {
			return auth, err
		}
	}
	names := registryKeys(host)
	for _, key := range slices.Sorted(maps.Keys(c.Auths)) {
		if !slices.Contains(names, hostPart(key)) {
			continue
		}
		if auth, err := c.entry(key); err != nil || auth != (Auth{}) {
			return auth, err
		}
	}
	return Auth{}, nil
}

// entry decodes one entry; the zero Auth when it is absent or empty.
func (c dockerConfig) entry(key string) (Auth, error) {
	e := c.Auths[key]
	if e == (dockerAuth{}) {
		return Auth{}, nil
	}
	auth := Auth{
		Username: e.Username, Password: e.Password, Email: e.Email, ServerAddress: key,
		IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken,
	}
	if e.Auth == "" {
		return auth, nil
	}
	user, password, err := decodeBasic(e.Auth)
	if err != nil {
		return Auth{}, fmt.Errorf("auth.config %q, auths %q: %w", c.path, key, err)
	}
	auth.Username, auth.Password = user, password
	return auth, nil
}

// decodeBasic takes "user:password" out of its base64 form. Old clients padded
// the text with zero bytes.
func decodeBasic(s string) (user, password string, err error) {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "", "", fmt.Errorf(`"auth" must be base64 of user:password`)
	}
	user, password, ok := strings.Cut(string(raw), ":")
	if !ok {
		return "", "", fmt.Errorf(`"auth" must be base64 of user:password`)
	}
	return user, strings.Trim(password, "\x00"), nil
}
