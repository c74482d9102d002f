// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

const stateDirsName = "state directories"

// stateDirs looks at who may change what the program keeps: containers load
// libraries from the driver volumes (cases CLI-01).
func (e *Examination) stateDirs(context.Context) []Finding {
	var out []Finding
	for _, dir := range e.StateDirs {
		out = append(out, stateDir(dir))
	}
	return out
}

func stateDir(dir string) Finding {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ok(stateDirsName, "%s is made when it is needed", dir)
	case err != nil:
		return broken(stateDirsName, "run as root", "%v", err)
	case !info.IsDir():
		return broken(stateDirsName, "move "+dir+" away", "%s is not a directory", dir)
	}
	if uid, foreign := foreignOwner(info); foreign {
		return warning(stateDirsName, "chown -R root:root "+dir, "%s is of user %d, who may change what is kept there", dir, uid)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return warning(stateDirsName, "chmod go-w "+dir, "%s is %v: others than its owner may change what is kept there", dir, info.Mode())
	}
	return ok(stateDirsName, "%s is %v", dir, info.Mode())
}

// foreignOwner tells the owner of a file when that is neither root nor who asks.
func foreignOwner(info fs.FileInfo) (uid uint32, foreign bool) {
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return stat.Uid, stat.Uid != 0 && int(stat.Uid) != os.Geteuid()
}
