// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package restapi

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// compactJSON renders a JSON answer: no blanks, <, > and & escaped, a newline
// at the end (nvidia-docker-v1 HT-5).
func compactJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(v); err != nil {
		return nil, fmt.Errorf("rendering an answer: %w", err)
	}
	return out.Bytes(), nil
}
