#!/usr/bin/env bash
# Copyright (c) The gpu-docker Authors
# SPDX-License-Identifier: MPL-2.0
#
# fetch-genuine.sh DIR: downloads NVIDIA's driver packages as Debian publishes
# them and unpacks each set into DIR/<set>, a root file system with the links
# that an installation would have. Nothing is installed, the machine's package
# lists stay as they are, and nothing of it belongs into the repository.
#
# Sets: 550 (core, nvvm, graphics, 32 bit; trixie), 535 (bookworm), 470
# (bookworm), 390 (sid). About 116 MB are downloaded.
set -euo pipefail
dir=$(realpath -m "$1")
apt=$dir/apt
mkdir -p "$apt"/{etc/preferences.d,etc/apt.conf.d,state/lists/partial,cache/archives/partial,debs}

# The mirror is the one that this machine uses already.
site=$(apt-get indextargets --format '$(SITE) $(CODENAME)' | awk '$1 ~ /\/debian\/?$/ {print $1; exit}')
[ -n "$site" ] || { echo "no Debian mirror is configured; add one to /etc/apt" >&2; exit 1; }
keys=/usr/share/keyrings/debian-archive-keyring.gpg
for suite in bookworm trixie sid; do
	echo "deb [signed-by=$keys] $site $suite contrib non-free"
done > "$apt/etc/sources.list"
touch "$apt/state/status"
options=(-o Dir::Etc="$apt/etc" -o Dir::Etc::sourcelist="$apt/etc/sources.list" -o Dir::Etc::sourceparts=-
	-o Dir::State="$apt/state" -o Dir::State::status="$apt/state/status" -o Dir::Cache="$apt/cache"
	-o APT::Architectures::=amd64 -o APT::Architectures::=i386 -o APT::Sandbox::User=root)
apt-get "${options[@]}" -qq update

# unpack SET SUITE PACKAGE...: what has been unpacked is not fetched again.
unpack() {
	local set=$1 suite=$2 package; shift 2
	local root=$dir/$set
	[ ! -e "$root/.complete" ] || return 0
	mkdir -p "$root"
	for package in "$@"; do
		(cd "$apt/debs" && rm -f ./*.deb && apt-get "${options[@]}" -qq download "$package/$suite" && dpkg -x ./*.deb "$root")
	done
	links "$root"
	ldconfig -r "$root" -X
	touch "$root/.complete"
}

# links ROOT: the alternatives links, through /etc/alternatives as Debian has
# them, that the packages make when they are installed.
links() {
	local root=$1 lib link name triplet
	mkdir -p "$root/etc/alternatives" "$root/usr/bin"
	for triplet in x86_64-linux-gnu i386-linux-gnu; do
		echo "/usr/lib/$triplet" >> "$root/etc/ld.so.conf"
		for lib in "$root/usr/lib/$triplet"/nvidia/*/*.so*; do
			name=$(basename "$lib")
			case $name in *.so.[0-9]|*.so) ;; *) continue ;; esac
			case $name in # three libraries live where the loader does not look
			libnvidia-cfg.so*) link=nvidia/$name ;;
			libvdpau_nvidia.so*) link=vdpau/$name ;;
			nvidia-drm_gbm.so) link=gbm/$name ;;
			*) link=$name ;;
			esac
			link=$root/usr/lib/$triplet/$link
			mkdir -p "$(dirname "$link")"
			[ ! -e "$link" ] || continue
			ln -sfn "${lib#"$root"}" "$root/etc/alternatives/nvidia--$name-$triplet"
			ln -sfn "/etc/alternatives/nvidia--$name-$triplet" "$link"
		done
	done
	for lib in "$root"/usr/lib/nvidia/*/nvidia-{smi,debugdump}; do
		[ -e "$lib" ] || continue
		name=$(basename "$lib")
		ln -sfn "${lib#"$root"}" "$root/etc/alternatives/nvidia--$name"
		ln -sfn "/etc/alternatives/nvidia--$name" "$root/usr/bin/$name"
	done
}

unpack 550 trixie libcuda1:amd64 libnvidia-ml1:amd64 nvidia-smi libnvidia-ptxjitcompiler1:amd64 libcudadebugger1:amd64 \
	libnvidia-allocator1:amd64 libnvidia-cfg1:amd64 libnvidia-pkcs11-openssl3:amd64 nvidia-opencl-icd:amd64 \
	nvidia-opencl-common nvidia-cuda-mps libnvcuvid1:amd64 libnvidia-encode1:amd64 libnvidia-opticalflow1:amd64 \
	nvidia-vdpau-driver:amd64 libnvidia-fbc1:amd64 nvidia-driver-bin nvidia-persistenced libnvidia-nvvm4:amd64 \
	libglx-nvidia0:amd64 libegl-nvidia0:amd64 libgles-nvidia1:amd64 libgles-nvidia2:amd64 libnvidia-glcore:amd64 \
	libnvidia-eglcore:amd64 libnvidia-gpucomp:amd64 libnvidia-glvkspirv:amd64 nvidia-vulkan-common nvidia-egl-common \
	libgl1-nvidia-glvnd-glx:amd64 libcuda1:i386 libnvidia-ml1:i386
unpack 535 bookworm libcuda1:amd64 libnvidia-ml1:amd64 nvidia-smi libnvidia-ptxjitcompiler1:amd64 libnvcuvid1:amd64 \
	libnvidia-encode1:amd64 libnvidia-cfg1:amd64 nvidia-cuda-mps
unpack 470 bookworm libnvidia-tesla-470-cuda1:amd64 libnvidia-tesla-470-ml1:amd64 libnvidia-tesla-470-nvvm4:amd64 \
	libnvidia-tesla-470-ptxjitcompiler1:amd64 nvidia-tesla-470-smi
unpack 390 sid libnvidia-legacy-390xx-cuda1:amd64 libnvidia-legacy-390xx-ml1:amd64 \
	libnvidia-legacy-390xx-fatbinaryloader:amd64 libnvidia-legacy-390xx-ptxjitcompiler1:amd64 nvidia-legacy-390xx-smi
echo "genuine driver files are in $dir"
