// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"strings"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"
)

const engineName = "Docker Engine"

// oldestAPI is the API of Docker 20.10; older engines are not tested.
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
		out[0] = warning(engineName, "use Docker 20.10 or newer", "%s speaks API %s", v.Version, v.APIVersion)
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
	if info.DefaultRuntime == "nvidia" {
		cure := `remove "default-runtime" from the engine's daemon.json: that runtime gives every container the GPUs its environment asks for`
		return append(out, warning("default runtime", cure, "it is nvidia, so isolation depends on more than reservations"))
	}
	return append(out, ok("default runtime", "%s", info.DefaultRuntime))
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}
