// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

//go:build engine && genuine

package volume

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/shoenig/test/must"
)

// openerSource opens each library that is named, as programs do at run time.
const openerSource = `
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
	int failed = 0;
	for (int i = 1; i < argc; i++) {
		void *handle = dlopen(argv[i], RTLD_NOW);
		printf("%s: %s\n", argv[i], handle ? "opened" : dlerror());
		failed |= !handle;
	}
	return failed;
}`

// cLibrary is what every image has: the C library, of the machine that tests.
var cLibrary = []string{"ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}

// TestEngineGenuineOpens opens NVIDIA's own libraries in a container that has
// nothing of NVIDIA's but the volume.
func TestEngineGenuineOpens(t *testing.T) {
	dir := t.TempDir()
	must.NoError(t, os.WriteFile(filepath.Join(dir, "opener.c"), []byte(openerSource), 0o644))
	out, err := exec.Command("gcc", "-o", filepath.Join(dir, "opener"), filepath.Join(dir, "opener.c"), "-ldl").CombinedOutput()
	must.NoError(t, err, must.Sprintf("%s", out))
	files := map[string]string{"/opener": filepath.Join(dir, "opener")}
	for _, name := range cLibrary {
		files["/lib64/"+name] = filepath.Join("/lib/x86_64-linux-gnu", name)
	}
	importImage(t, engineImage, files)

	host, version := genuineHost(t, "550")
	s := engineStore(t, host)
	name := Name(version)
	run := func(command ...string) (string, error) {
		return tryDocker(append([]string{"run", "--rm", "--network", "none", "--volume-driver", DriverName, "-v", name + ":" + insideTree + ":ro",
			"-e", "LD_LIBRARY_PATH=" + insideTree + "/lib:" + insideTree + "/lib64:/lib64", engineImage}, command...)...)
	}
	got, err := run("/opener", "libcuda.so", "libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-encode.so.1", "libnvcuvid.so.1", "libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4", "libnvidia-opencl.so.1", "libnvidia-eglcore.so."+version)
	must.NoError(t, err, must.Sprint(got))
	t.Log(got)
	got, err = run(insideTree + "/bin/nvidia-smi")
	must.Error(t, err) // there is no kernel module; but the tool runs and finds its library
	must.StrNotContains(t, got, "couldn't find libnvidia-ml.so")
	must.RegexMatch(t, regexp.MustCompile("NVML|NVIDIA driver"), got)
	t.Log(got)
	docker(t, "volume", "rm", name)
	must.False(t, s.exists(version))
}
