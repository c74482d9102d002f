// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package accounting

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpu-docker/gpu-docker/gpuhost"
	"github.com/gpu-docker/gpu-docker/restapi"
)

// jobMapSettle is for how long a new process takes no line of an earlier one away:
// a restarted plugin gets its tasks back one by one.
const jobMapSettle = time.Minute

// jobMapFile is how dcgm-exporter knows the files of its HPC job mapping: the
// index of a GPU, or that and the id of a GPU instance (cases MET-05).
var jobMapFile = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// jobMap keeps a directory in which each GPU and MIG device that is held has a
// file with the ids of the allocations that hold it, one a line. Not safe for
// concurrent use.
type jobMap struct {
	dir     string // empty: none
	settled time.Time
	seen    map[mapLine]bool    // lines that are this process's, until settled
	written map[string][]string // what the directory is known to tell; nil before the first write
}

// mapLine is one line of a file.
type mapLine struct{ file, alloc string }

// write makes the directory tell who holds what. A device that the inventory does
// not have, as while the driver does not answer, gets no file; what the directory
// tells of its allocation stays. Files that are not named like ours are left alone.
func (m *jobMap) write(held []restapi.Allocation, inv *gpuhost.Inventory, now time.Time) error {
	if m.dir == "" {
		return nil
	}
	wanted, unknown := jobMapLines(held, inv)
	settled := !now.Before(m.settled)
	if !settled {
		m.note(wanted)
	}
	if m.written != nil && len(unknown) == 0 && maps.EqualFunc(wanted, m.written, slices.Equal) {
		return nil
	}
	keep := func(l mapLine) bool { return unknown[l.alloc] || !settled && !m.seen[l] }
	m.written = nil
	if err := m.replace(wanted, keep); err != nil {
		return fmt.Errorf("gpu.job_mapping_dir %q: %w; make it writable for the agent", m.dir, err)
	}
	if settled && len(unknown) == 0 { // else there may be lines to take away later
		m.written, m.seen = wanted, nil
	}
	return nil
}

// note keeps which lines are this process's.
func (m *jobMap) note(wanted map[string][]string) {
	if m.seen == nil {
		m.seen = map[mapLine]bool{}
	}
	for name, allocs := range wanted {
		for _, alloc := range allocs {
			m.seen[mapLine{name, alloc}] = true
		}
	}
}

// jobMapLines are the lines of each file, sorted, and the allocations with a device
// that cannot be named now.
func jobMapLines(held []restapi.Allocation, inv *gpuhost.Inventory) (lines map[string][]string, unknown map[string]bool) {
	lines, unknown = map[string][]string{}, map[string]bool{}
	for _, h := range held {
		if name := jobMapName(h.UUID, inv); name != "" {
			lines[name] = append(lines[name], h.AllocID)
		} else {
			unknown[h.AllocID] = true
		}
	}
	for name := range lines {
		slices.Sort(lines[name])
		lines[name] = slices.Compact(lines[name]) // a scrape fails on an id that comes twice
	}
	return lines, unknown
}

func jobMapName(uuid string, inv *gpuhost.Inventory) string {
	if inv == nil {
		return ""
	}
	for i := range inv.GPUs {
		g := &inv.GPUs[i]
		if g.UUID == uuid {
			return strconv.Itoa(g.Index)
		}
		for _, mig := range g.MIGDevices {
			if mig.UUID == uuid {
				return fmt.Sprintf("%d.%d", g.Index, mig.GPUInstanceID)
			}
		}
	}
	return ""
}

// replace writes the files, with those of their lines that are to be kept, and
// removes files that would be empty.
func (m *jobMap) replace(wanted map[string][]string, keep func(mapLine) bool) error {
	files, err := m.kept(keep)
	if err != nil {
		return err
	}
	if len(wanted) > 0 {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
	}
	for name := range wanted {
		files[name] = slices.Compact(slices.Sorted(slices.Values(append(files[name], wanted[name]...))))
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		errs = append(errs, m.put(name, files[name]))
	}
	return errors.Join(errs...)
}

// kept names the files that are there, with the lines that are to be kept.
func (m *jobMap) kept(keep func(mapLine) bool) (map[string][]string, error) {
	entries, err := os.ReadDir(m.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	files := map[string][]string{}
	for _, e := range entries {
		name := e.Name()
		if !e.Type().IsRegular() || !jobMapFile.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.dir, name))
		if err != nil {
			return nil, err
		}
		files[name] = slices.DeleteFunc(strings.Fields(string(text)), func(alloc string) bool { return !keep(mapLine{name, alloc}) })
	}
	return files, nil
}

// put replaces a file in one step, so that no reader sees half of it. Without
// lines it removes the file: dcgm-exporter drops the readings of a GPU whose file
// is empty.
func (m *jobMap) put(name string, lines []string) error {
	path := filepath.Join(m.dir, name)
	if len(lines) == 0 {
		return os.Remove(path)
	}
	draft := filepath.Join(m.dir, "."+name+".new")
	if err := os.WriteFile(draft, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(draft, path)
}
