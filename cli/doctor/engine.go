// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"
)

const engineName = "Docker Engine"

// oldestAPI is the API of Docker 20.10; the task driver is unhealthy with older ones.
const oldestAPI = "1.41"

// engine looks at the Docker Engine.
func (e *Examination) engine(ctx context.Context) []Finding {
	if e.Engine == nil {
		return []Finding{broken(engineName, "correct DOCKER_HOST", "%v", e.EngineErr)}
	}
	v, err := e.Engine.ServerVersion(ctx)
	if err != nil {
		return []Finding{broken(engineName, "start it (systemctl start docker), and see that this user may use its socket", "%s does not answer: %v", e.Engine.DaemonHost(), err)}
	}
	out := []Finding{ok(engineName, "%s, API %s, at %s", v.Version, v.APIVersion, e.Engine.DaemonHost())}
	if versions.LessThan(v.APIVersion, oldestAPI) {
		out[0] = broken(engineName, "use Docker 20.10 or newer", "%s speaks API %s; gpu-docker needs %s or newer", v.Version, v.APIVersion, oldestAPI)
	}
	info, err := e.Engine.Info(ctx)
	if err != nil {
		return append(out, broken(engineName, "see the engine's log", "it does not tell its settings: %v", err))
	}
	return append(out, settings(&info)...)
}

// settings looks at what decides about isolation and resources.
func settings(info *system.Info) []Finding {
	out := []Finding{
		ok("cgroups", "version %s, driver %s", info.CgroupVersion, info.CgroupDriver),
		ok("security", "%s", orNone(info.SecurityOptions)),
	}
	return append(out, runtimes(info))
}

// runtimes looks for ways past the reservations: a runtime of NVIDIA gives every
// container the GPUs that its environment asks for (cases SEC-02).
func runtimes(info *system.Info) Finding {
	const name = "default runtime"
	if isNVIDIA(info, info.DefaultRuntime) {
		cure := `remove "default-runtime" from the engine's daemon.json: that runtime gives every container the GPUs its environment asks for`
		return warning(name, cure, "it is %s, so isolation depends on more than reservations", describeRuntime(info, info.DefaultRuntime))
	}
	detail := info.DefaultRuntime
	for _, other := range slices.Sorted(maps.Keys(info.Runtimes)) {
		if isNVIDIA(info, other) {
			detail += fmt.Sprintf("; containers that name %s get GPUs that nobody reserved: keep it out of allow_runtimes of the driver docker", describeRuntime(info, other))
		}
	}
	return ok(name, "%s", detail)
}

// isNVIDIA says whether a runtime injects GPUs, by its name or its program.
func isNVIDIA(info *system.Info, runtime string) bool {
	told := info.Runtimes[runtime]
	program, _ := told.Options["BinaryName"].(string) // of a runtime that has a shim
	return slices.ContainsFunc([]string{runtime, filepath.Base(told.Path), filepath.Base(program)}, func(word string) bool {
		return strings.Contains(word, "nvidia")
	})
}

// describeRuntime adds the program where the name does not tell it.
func describeRuntime(info *system.Info, runtime string) string {
	if program := info.Runtimes[runtime].Path; program != "" && program != runtime {
		return fmt.Sprintf("%s (%s)", runtime, program)
	}
	return runtime
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
