// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

const mountInfo = `21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 21 0:26 / /var rw - tmpfs tmpfs rw
31 30 8:1 /data/lib /var/lib rw shared:1 - xfs /dev/sda1 rw
32 31 8:1 /data/lib/nvidia\040docker/volumes /mnt/a\134b ro - xfs /dev/sda1 rw
broken line
`

func TestLocated(t *testing.T) {
	mounts := parseMounts([]byte(mountInfo))
	must.Len(t, 4, mounts)
	must.Eq(t, mountEntry{"8:1", "/data/lib/nvidia docker/volumes", `/mnt/a\b`}, mounts[3])
	for path, want := range map[string]mountEntry{
		"/var/lib/nvidia-docker/v/352.39": {device: "8:1", root: "/data/lib/nvidia-docker/v/352.39"},
		"/var/library":                    {device: "0:26", root: "/library"},
		"/variable":                       {device: "254:0", root: "/variable"},
		"/var/lib":                        {device: "8:1", root: "/data/lib"},
	} {
		want.point = path
		got, ok := located(path, mounts)
		must.True(t, ok)
		must.Eq(t, want, got)
	}
	_, ok := located("/x", nil)
	must.False(t, ok)
}

func FuzzParseMounts(f *testing.F) {
	f.Add([]byte(mountInfo))
	f.Add([]byte("1 2 3 \\04 \\777 \\"))
	f.Fuzz(func(t *testing.T, data []byte) {
		mounts := parseMounts(data)
		if len(mounts) > strings.Count(string(data), "\n")+1 {
			t.Fatalf("%d mounts from %d lines", len(mounts), strings.Count(string(data), "\n")+1)
		}
	})
}
