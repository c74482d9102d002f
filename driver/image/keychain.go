// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package image

import (
	"context"

	"github.com/google/go-containerregistry/pkg/authn"
)

// Keychain gives the same credentials to a look at the registry's metadata
// (package imagemeta).
func (s CredentialSource) Keychain() authn.Keychain { return keychain{s} }

type keychain struct{ source CredentialSource }

var _ authn.ContextKeychain = keychain{}

// Resolve is ResolveContext without a context.
func (k keychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), target)
}

// ResolveContext looks credentials up for the registry of target. With SoftFail
// a failed search means none.
func (k keychain) ResolveContext(ctx context.Context, target authn.Resource) (authn.Authenticator, error) {
	auth, err := k.source.Find(ctx, target.RegistryStr())
	if err != nil {
		if k.source.SoftFail {
			return authn.Anonymous, nil
		}
		return nil, err
	}
	return auth.authenticator(), nil
}

// authenticator is the form that go-containerregistry wants.
func (a Auth) authenticator() authn.Authenticator {
	if a == (Auth{}) {
		return authn.Anonymous
	}
	return authn.FromConfig(authn.AuthConfig{
		Username: a.Username, Password: a.Password,
		IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken,
	})
}
