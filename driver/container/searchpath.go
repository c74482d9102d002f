// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package container

import (
	"path"
	"strings"
)

const (
	// engineDefaultPath is PATH in a container whose image sets none.
	engineDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// compatLibraries is where CUDA images keep their forward compatibility libraries.
	compatLibraries = "/usr/local/cuda/compat"
	// maxImageValue limits what is taken over from an image's environment, in bytes.
	maxImageValue = 64 << 10
)

// searchPaths puts the driver volume's directories before the task's or image's
// own search paths, where those lack them.
func searchPaths(in *Input, env map[string]string) findings {
	at := in.Options.GPU.MountPath
	f := prepend(in, env, "PATH", engineDefaultPath, path.Join(at, "bin"))
	f.merge(prepend(in, env, "LD_LIBRARY_PATH", "", path.Join(at, "lib"), path.Join(at, "lib64")))
	if in.GPU.UseCompatLibraries {
		compatFirst(in, env)
	}
	return f
}

// compatFirst puts the compatibility libraries before all others, also where the
// image lists them further back.
func compatFirst(in *Input, env map[string]string) {
	value, given := env["LD_LIBRARY_PATH"]
	if !given {
		value, _ = imageVariable(in, "LD_LIBRARY_PATH")
	}
	if head, _, _ := strings.Cut(value, ":"); head != compatLibraries {
		env["LD_LIBRARY_PATH"] = compatLibraries + ":" + value
	}
}

// prepend puts the missing ones of some directories at the front of a list. An
// empty element would mean the working directory, so none is made. An image's
// list beyond all reason stays as it is.
func prepend(in *Input, env map[string]string, name, byDefault string, dirs ...string) findings {
	var f findings
	value, given := env[name]
	if !given {
		value, given = imageVariable(in, name)
		if len(value) > maxImageValue {
			f.warn("the image's %s has %d bytes and was left alone: the NVIDIA driver's files at %q may not be found", name, len(value), in.Options.GPU.MountPath)
			return f
		}
	}
	if !given || value == "" {
		value = byDefault
	}
	var all []string
	if value != "" {
		all = strings.Split(value, ":")
	}
	if missing := without(dirs, all); len(missing) > 0 {
		env[name] = strings.Join(append(missing, all...), ":")
	}
	return f
}
