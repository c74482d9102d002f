// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

// The messages of Docker's volume-plugin protocol, members in the order in
// which nvidia-docker v1 wrote them. A nil pointer is JSON null.

type nameRequest struct {
	Name string
}

type activateAnswer struct {
	Implements []string
}

type capabilitiesAnswer struct {
	Capabilities struct {
		Scope string
	}
}

type errAnswer struct {
	Err *string
}

type mountAnswer struct {
	Mountpoint *string
	Err        *string
}

type volumeEntry struct {
	Name       string
	Mountpoint string
}

type getAnswer struct {
	Volume *volumeEntry
	Err    *string
}

type listAnswer struct {
	Volumes []volumeEntry
	Err     *string
}

// errText gives the Err member for an error; nil without one.
func errText(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}

func entryOf(v *Volume) *volumeEntry {
	if v == nil {
		return nil
	}
	return &volumeEntry{Name: v.Name, Mountpoint: v.Mountpoint}
}
