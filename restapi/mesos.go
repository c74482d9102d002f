// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"strings"
)

// Mesos renders the answer of mesos/cli: the whole of gpu/info/json, compressed,
// as an agent attribute, and the UUIDs as a resource (nvidia-docker-v1 §7).
// There is no newline at the end.
func (i *Info) Mesos() ([]byte, error) {
	attribute, err := i.mesosAttribute()
	if err != nil {
		return nil, err
	}
	uuids := make([]string, len(i.Devices))
	for n := range i.Devices {
		uuids[n] = i.Devices[n].UUID
	}
	return fmt.Appendf(nil, "--attributes=gpus:%s --resources=gpus:{%s}", attribute, strings.Join(uuids, ",")), nil
}

func (i *Info) mesosAttribute() (string, error) {
	body, err := i.JSON()
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(body); err != nil {
		return "", fmt.Errorf("compressing gpu/info: %w", err)
	}
	if err := z.Close(); err != nil {
		return "", fmt.Errorf("compressing gpu/info: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(packed.Bytes()), nil
}
