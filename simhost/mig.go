// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package simhost

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxMIG is how many MIG devices one GPU can have.
const maxMIG = 7

// migProfile is a size of MIG device: "1g.5gb", or "1c.2g.10gb" for a part of
// the compute slices of a GPU instance.
var migProfile = regexp.MustCompile(`^(?:([1-7])c\.)?([1-7])g\.([0-9]+)gb(?:\+[a-z.]+)?$`)

// firstInstance is the first id of GPU instances by their number of slices.
var firstInstance = map[int]int{7: 0, 4: 1, 3: 1, 2: 3, 1: 7}

// partition replaces the MIG devices of a GPU, whose keys have no prefix here.
// The generation makes the UUIDs of a new partition differ from the old ones.
func (s state) partition(profiles []string, generation, branch int) error {
	s.dropPrefix("mig.")
	if len(profiles) > maxMIG {
		return fmt.Errorf("%d MIG devices are too many; at most %d", len(profiles), maxMIG)
	}
	if s["mig_mode"] != "1" {
		return fmt.Errorf("MIG devices need \"mig_mode\": true")
	}
	used := map[int]bool{}
	for i, profile := range profiles {
		m := migProfile.FindStringSubmatch(profile)
		if m == nil {
			return fmt.Errorf("MIG profile %q does not look like \"1g.5gb\"", profile)
		}
		gi := number(m[2])
		ci := gi
		if m[1] != "" {
			ci = number(m[1])
		}
		id := firstInstance[gi]
		for used[id] {
			id++
		}
		used[id] = true
		s.putMIG(i, migDevice{profile: profile, id: id, gi: gi, ci: ci, gigabytes: number(m[3])}, generation, branch)
	}
	return nil
}

type migDevice struct {
	profile   string
	id        int // of the GPU instance; the compute instance is always 0
	gi, ci    int // slices
	gigabytes int
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // the pattern has digits only
	return n
}

func (s state) putMIG(slot int, d migDevice, generation, branch int) {
	put := func(key string, value any) { s[fmt.Sprintf("mig.%d.%s", slot, key)] = fmt.Sprint(value) }
	minor, _ := strconv.Atoi(s["minor"])
	capability := instanceCapability(minor, d.id)
	put("uuid", migUUID(s["uuid"], d, generation, branch))
	put("name", s["name"]+" MIG "+d.profile)
	put("profile", d.profile)
	put("gi", d.id)
	put("ci", 0)
	put("gi_cap", capability)
	put("ci_cap", capability+1)
	put("gi_slices", d.gi)
	put("ci_slices", d.ci)
	multiprocessors, _ := strconv.Atoi(s["cuda.sm_count"])
	put("sm_count", (multiprocessors+8)/16*2*d.ci) // pairs of them make a slice
	put("copy_engines", max(1, d.gi))
	put("decoders", d.gi/2)
	put("encoders", 0)
	// The driver keeps a twentieth of the memory that the name tells.
	put("mem_total_bytes", d.gigabytes<<30/20*19)
	put("mem_used_bytes", 12<<20)
	put("processes", 0)
}

// instanceCapability is the minor number of the capability node of a GPU
// instance; that of its first compute instance follows. The numbers are those of
// the real driver: nine for each of fifteen instances a GPU, from 3.
func instanceCapability(gpuMinor, id int) int { return 3 + gpuMinor*15*9 + id*9 }

// migUUID is stable for a GPU, an instance and a generation. Drivers before 470
// name MIG devices by their GPU and instances instead.
func migUUID(gpu string, d migDevice, generation, branch int) string {
	if branch < 470 {
		return fmt.Sprintf("MIG-%s/%d/0", gpu, d.id)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{gpu, d.profile, strconv.Itoa(d.id), strconv.Itoa(generation)}, "/")))
	h := fmt.Sprintf("%x", sum[:16])
	return fmt.Sprintf("MIG-%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}
