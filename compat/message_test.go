// Copyright (c) The gpu-docker Authors
// SPDX-License-Identifier: MPL-2.0

package compat

import (
	"strings"
	"testing"

	"github.com/shoenig/test/must"
)

const overrideHint = `to start it all the same, set NVIDIA_DISABLE_REQUIRE=1 in the task's env, or requirements = "warn" in its gpu block`

// geforce and tesla are hosts with one GPU.
func geforce(driver, cuda string) Host {
	return Host{Driver: driver, CUDA: cuda, GPUs: []GPU{{ID: "GPU-0", Arch: "6.1", Brand: "GeForce"}}}
}

func tesla(driver, cuda string) Host {
	return Host{Driver: driver, CUDA: cuda, GPUs: []GPU{{ID: "GPU-0", Arch: "7.0", Brand: "Tesla"}}}
}

func TestDecide_refusal(t *testing.T) {
	label := func(v string) Metadata { return Metadata{Labels: map[string]string{LabelCUDAVersion: v}} }
	env := func(kv ...string) Metadata {
		md := Metadata{Env: map[string]string{}}
		for _, e := range kv {
			k, v, _ := strings.Cut(e, "=")
			md.Env[k] = v
		}
		return md
	}
	const ten = "NVIDIA_REQUIRE_CUDA=cuda>=10.0 brand=tesla,driver>=384,driver<385"
	for _, tc := range []struct {
		name string
		md   Metadata
		host Host
		want string // without the override hint at the end
	}{
		{
			"label", label("9.0.176"), tesla("375.66", "8.0"),
			`image "img" needs CUDA 9.0; this node's driver 375.66 supports CUDA 8.0; use driver 384 or newer, or an image for CUDA 8.0 or older; its label com.nvidia.cuda.version is "9.0.176"`,
		},
		{
			"label 8.0 on the K80 host's driver", label("8.0"), tesla("352.39", "7.5"),
			`image "img" needs CUDA 8.0; this node's driver 352.39 supports CUDA 7.5; use driver 367 or newer, or an image for CUDA 7.5 or older; its label com.nvidia.cuda.version is "8.0"`,
		},
		{
			"requirement with one term", env("NVIDIA_REQUIRE_CUDA=cuda>=9.0"), tesla("375.66", "8.0"),
			`image "img" needs CUDA 9.0; this node's driver 375.66 supports CUDA 8.0; use driver 384 or newer, or an image for CUDA 8.0 or older; NVIDIA_REQUIRE_CUDA not met: cuda>=9.0 (host: cuda 8.0, driver 375.66, arch 7.0, brand tesla)`,
		},
		{
			"same branch but too old", label("9.0"), tesla("384.59", ""),
			`image "img" needs CUDA 9.0; this node's driver 384.59 supports CUDA 8.0; use driver 384.81 or newer, or an image for CUDA 8.0 or older; its label com.nvidia.cuda.version is "9.0"`,
		},
		{
			"alternatives on a GeForce lead with cuda", env(ten), geforce("390.77", "9.1"),
			`image "img" needs CUDA 10.0; this node's driver 390.77 supports CUDA 9.1; use driver 410 or newer, or an image for CUDA 9.1 or older; NVIDIA_REQUIRE_CUDA not met: cuda>=10.0 (host: cuda 9.1, driver 390.77, arch 6.1, brand geforce); the alternatives are not met either: brand=tesla (brand geforce)`,
		},
		{
			"alternatives on a P100 lead with cuda", env(ten), tesla("390.77", "9.1"),
			`image "img" needs CUDA 10.0; this node's driver 390.77 supports CUDA 9.1; use driver 410 or newer, or an image for CUDA 9.1 or older; NVIDIA_REQUIRE_CUDA not met: cuda>=10.0 (host: cuda 9.1, driver 390.77, arch 7.0, brand tesla); the alternatives are not met either: brand=tesla,driver>=384,driver<385 at driver<385 (driver 390.77)`,
		},
		{
			"the cuda term leads wherever it stands", env("NVIDIA_REQUIRE_CUDA=brand=tesla,driver>=384,driver<385 cuda>=10.0"), geforce("390.77", "9.1"),
			`image "img" needs CUDA 10.0; this node's driver 390.77 supports CUDA 9.1; use driver 410 or newer, or an image for CUDA 9.1 or older; NVIDIA_REQUIRE_CUDA not met: cuda>=10.0 (host: cuda 9.1, driver 390.77, arch 6.1, brand geforce); the alternatives are not met either: brand=tesla (brand geforce)`,
		},
		{
			"minor-version floor is the driver that would do", env("CUDA_VERSION=12.4.1"), tesla("515.105.01", "11.7"),
			`image "img" needs CUDA 12.4; this node's driver 515.105.01 supports CUDA 11.7; use driver 525 or newer, or an image for CUDA 11.7 or older; its CUDA_VERSION is "12.4.1"`,
		},
		{
			"driver", env("NVIDIA_REQUIRE_DRIVER=driver>=390.20"), tesla("384.145", "9.0"),
			`image "img" needs driver>=390.20; this node has driver 384.145; use driver 390.20 or newer; NVIDIA_REQUIRE_DRIVER not met: driver>=390.20 (host: cuda 9.0, driver 384.145, arch 7.0, brand tesla)`,
		},
		{
			"one older branch", env("NVIDIA_REQUIRE_DRIVER=driver>=470,driver<471"), tesla("535.54.03", "12.2"),
			`image "img" needs driver<471; this node has driver 535.54.03; use driver of branch 470; NVIDIA_REQUIRE_DRIVER not met: driver<471 (host: cuda 12.2, driver 535.54.03, arch 7.0, brand tesla)`,
		},
		{
			"GPU", env("NVIDIA_REQUIRE_ARCH=arch>=8.0"), tesla("535.54.03", "12.2"),
			`image "img" needs arch>=8.0; this node has arch 7.0; no other driver version would change that; place the job on a node with other GPUs (a constraint in its device block); NVIDIA_REQUIRE_ARCH not met: arch>=8.0 (host: cuda 12.2, driver 535.54.03, arch 7.0, brand tesla)`,
		},
		{
			"impossible", env("NVIDIA_REQUIRE_CUDA=driver>=450,driver<451,driver>=470"), tesla("470.256.02", "11.4"),
			`image "img" needs driver<451; this node has driver 470.256.02; no driver that gpu-docker knows meets all that the image asks for; correct its requirements, or use another image; NVIDIA_REQUIRE_CUDA not met: driver<451 (host: cuda 11.4, driver 470.256.02, arch 7.0, brand tesla)`,
		},
		{
			"newer than every driver", label("99.0"), tesla("580.65.06", "13.0"),
			`image "img" needs CUDA 99.0; this node's driver 580.65.06 supports CUDA 13.0; no driver that gpu-docker knows meets all that the image asks for; use an image for CUDA 13.0 or older; its label com.nvidia.cuda.version is "99.0"`,
		},
		{
			"driver not reported", label("9.0"), tesla("", "8.0"),
			`image "img" needs CUDA 9.0; this node supports CUDA 8.0; use driver 384 or newer, or an image for CUDA 8.0 or older; its label com.nvidia.cuda.version is "9.0"`,
		},
		{
			"several requirements", env("NVIDIA_REQUIRE_CUDA=cuda>=9.0", "NVIDIA_REQUIRE_BRAND=brand=titan"), tesla("375.66", "8.0"),
			`image "img" needs brand=titan; this node has brand tesla; no other driver version would change that; place the job on a node with other GPUs (a constraint in its device block); NVIDIA_REQUIRE_BRAND not met: brand=titan (host: cuda 8.0, driver 375.66, arch 7.0, brand tesla); also NVIDIA_REQUIRE_CUDA not met: cuda>=9.0 (host: cuda 8.0, driver 375.66, arch 7.0, brand tesla)`,
		},
		{
			"malformed, with its place", env("NVIDIA_REQUIRE_CUDA=cuda>=9.0 brand=tesla,driver=>384"), tesla("390.30", "9.1"),
			`image "img" has an invalid requirement NVIDIA_REQUIRE_CUDA: driver=>384 (at character 23: "=>" is not an operator; use one of = != < <= > >=); correct it in the image, or set the variable in the task's env`,
		},
		{
			"control character", env("NVIDIA_REQUIRE_CUDA=cuda>=9.0\x1b[31m"), tesla("390.30", "9.1"),
			`image "img" has an invalid requirement NVIDIA_REQUIRE_CUDA: "cuda>=9.0\x1b[31m" (at character 1: it contains a character that cannot be printed); correct it in the image, or set the variable in the task's env`,
		},
		{
			"no-break space from a web page", env("NVIDIA_REQUIRE_CUDA=cuda>=9.0\u00a0brand=tesla"), tesla("390.30", "9.1"),
			`image "img" has an invalid requirement NVIDIA_REQUIRE_CUDA: "cuda>=9.0\u00a0brand=tesla" (at character 1: it contains a character that cannot be printed); correct it in the image, or set the variable in the task's env`,
		},
		{
			"too long", env("NVIDIA_REQUIRE_CUDA=" + strings.Repeat("cuda>=1 ", 1<<17)), tesla("390.30", "9.1"),
			`image "img" has an invalid requirement NVIDIA_REQUIRE_CUDA: its value has 1048576 bytes, at most 65536 are evaluated; correct it in the image, or set the variable in the task's env`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Decide("img", tc.md, tc.host, byDefault)
			must.Eq(t, VerdictRefuse, d.Verdict)
			must.Eq(t, tc.want+"; "+overrideHint, d.Reason)
			must.SliceEmpty(t, d.Warnings)
			must.False(t, d.UseCompatLibraries)
		})
	}
}

func TestDecide_refusalStructure(t *testing.T) {
	md := Metadata{Env: map[string]string{EnvRequireCUDA: "cuda>=10.0 brand=tesla,driver>=384,driver<385"}}
	d := Decide("img", md, tesla("390.77", "9.1"), byDefault)
	must.Eq(t, EnvRequireCUDA, d.Source)
	must.Eq(t, "CUDA 10.0", d.Need)
	must.Eq(t, "410 or newer", d.UseDriver)
	must.Len(t, 2, d.Alternatives)
	must.Eq(t, "cuda>=10.0", d.Alternatives[0].Term)
	must.Eq(t, "cuda 9.1", d.Alternatives[0].Host)
	must.Eq(t, "brand=tesla,driver>=384,driver<385", d.Alternatives[1].Term)
	must.Eq(t, "driver<385", d.Alternatives[1].Failing)
}

func TestDecide_severalGPUs(t *testing.T) {
	md := Metadata{Env: map[string]string{"NVIDIA_REQUIRE_ARCH": "arch>=8.0"}}
	host := Host{Driver: "535.54.03", CUDA: "12.2", GPUs: []GPU{{"GPU-a", "8.0", "nvidia"}, {"GPU-b", "7.0", "tesla"}}}
	d := Decide("img", md, host, byDefault)
	must.Eq(t, VerdictRefuse, d.Verdict)
	must.StrContains(t, d.Reason, "(host: cuda 12.2, driver 535.54.03, arch 7.0, brand tesla, GPU GPU-b)")

	host.GPUs = host.GPUs[:1]
	must.Eq(t, VerdictAllow, Decide("img", md, host, byDefault).Verdict)
	host.GPUs = nil
	must.Eq(t, VerdictAllow, Decide("img", md, host, byDefault).Verdict)
}

func TestDecide_warning(t *testing.T) {
	for _, tc := range []struct {
		name     string
		md       Metadata
		host     Host
		warnings []string
		want     string
	}{
		{
			"CUDA version cannot be determined", Metadata{Labels: map[string]string{LabelCUDAVersion: "8.0"}}, tesla("304.137", "0.0"),
			[]string{"host-value-unknown"},
			`image "img" could not be compared: cannot determine the CUDA version of driver 304.137; what is not known counts as met`,
		},
		{
			"driver newer than the table", Metadata{Labels: map[string]string{LabelCUDAVersion: "8.0"}}, tesla("700.10", ""),
			[]string{"host-value-unknown"},
			`image "img" could not be compared: cannot determine the CUDA version of driver 700.10; what is not known counts as met`,
		},
		{
			"several", Metadata{Env: map[string]string{EnvCUDAVersion: "x", "NVIDIA_REQUIRE_A": "foo=1"}}, tesla("535.54.03", ""),
			[]string{"bad-metadata", "unknown-property"},
			`image "img" has an unreadable CUDA_VERSION or label com.nvidia.cuda.version, which was left out`,
		},
		{
			"long label", Metadata{Labels: map[string]string{LabelCUDAVersion: strings.Repeat("9", 1<<20)}}, tesla("535.54.03", "12.2"),
			[]string{"bad-metadata"},
			`image "img" has an unreadable CUDA_VERSION or label com.nvidia.cuda.version, which was left out`,
		},
		{
			"label with a newline", Metadata{Labels: map[string]string{LabelCUDAVersion: "9.0\nX=1"}}, tesla("535.54.03", "12.2"),
			[]string{"bad-metadata"},
			`image "img" has an unreadable CUDA_VERSION or label com.nvidia.cuda.version, which was left out`,
		},
		{
			"forward compatibility", Metadata{Env: map[string]string{EnvRequireCUDA: "cuda>=13.0 brand=tesla,driver>=535,driver<536"}}, tesla("535.54.03", "12.2"),
			[]string{"branch-clause"},
			`image "img" is made for a newer CUDA; this node's driver 535.54.03 supports CUDA 12.2; the image lists this driver, so it runs with its own libraries in /usr/local/cuda/compat`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Decide("img", tc.md, tc.host, byDefault)
			must.Eq(t, VerdictWarn, d.Verdict)
			must.Eq(t, tc.warnings, d.Warnings)
			must.Eq(t, tc.want, d.Reason)
		})
	}
}

// TestPrintable: one line, valid text, bounded.
func TestPrintable(t *testing.T) {
	must.Eq(t, "plain", printable("plain"))
	must.Eq(t, `"a\nb"`, printable("a\nb"))
	must.Eq(t, `"\xff"`, printable("\xff"))
	must.Eq(t, strings.Repeat("x", 200)+"…", printable(strings.Repeat("x", 500)))
	must.Eq(t, strings.Repeat("x", 199)+"…", printable(strings.Repeat("x", 199)+"é"))
}
