// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"slices"
)

// RequirementsFor is the setting that holds for a task: its own, if the operator
// lets jobs be weaker or the task is stricter, else the operator's.
func (p *Plugin) RequirementsFor(t *Task) (string, error) {
	wish := t.GPU.Requirements
	if wish == "" {
		return p.GPU.Requirements, nil
	}
	weaker := slices.Index(requirementModes, wish) > slices.Index(requirementModes, p.GPU.Requirements)
	if weaker && !p.GPU.AllowOverride {
		return "", fmt.Errorf("task config: gpu.requirements: %q is weaker than this node's %q: the operator does not allow it (gpu.allow_override = false); remove the option: %w",
			wish, p.GPU.Requirements, ErrInvalid)
	}
	return wish, nil
}
