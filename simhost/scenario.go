// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// applyScenario changes the text of a profile as one of its scenarios says.
func applyScenario(text []byte, name string) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	var profile struct {
		Scenarios []struct {
			Name string `json:"name"`
			Set  []struct {
				At    string          `json:"at"`
				Value json.RawMessage `json:"value"`
			} `json:"set"`
		} `json:"scenarios"`
	}
	if err := json.Unmarshal(text, &profile); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	var known []string
	for _, s := range profile.Scenarios {
		if s.Name != name {
			known = append(known, s.Name)
			continue
		}
		for _, change := range s.Set {
			if err := putAt(document, change.At, change.Value); err != nil {
				return nil, fmt.Errorf("scenario %q: %w", name, err)
			}
		}
		return json.Marshal(document)
	}
	return nil, fmt.Errorf("no scenario %q; it has %s", name, orNone(known))
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// putAt puts a value where a JSON pointer (RFC 6901) leads in a decoded document.
func putAt(document any, pointer string, value json.RawMessage) error {
	steps := strings.Split(pointer, "/")
	if len(steps) < 2 || steps[0] != "" {
		return fmt.Errorf("%q is not a JSON pointer such as \"/devices/0/nvml/name\"", pointer)
	}
	at := document
	for i, step := range steps[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		last := i == len(steps)-2
		switch parent := at.(type) {
		case map[string]any:
			if last {
				parent[step] = value
				return nil
			}
			at = parent[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(parent) {
				return fmt.Errorf("%q: there is no element %q", pointer, step)
			}
			if last {
				parent[n] = value
				return nil
			}
			at = parent[n]
		default:
			return fmt.Errorf("%q leads nowhere at %q", pointer, step)
		}
	}
	return nil
}
