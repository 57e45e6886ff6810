# shellcheck shell=bash
# Part of build.sh: kernels, a QEMU and arm64 programs for guests, downloaded from Debian into the
# cache. None of them is installed. Each ensure_ function sets variables to the paths of what it
# provides; on failure it sets $missing to the reason.

# The kernel of most guests, and the folder with its modules, all in one level.
kernel='' modules=''

# ensure_kernel sets $kernel and $modules to LM_GUEST_KERNEL and LM_GUEST_MODULES of the user.
# Without them, these are Debian's cloud kernel and its modules, which it downloads if necessary.
ensure_kernel() {
	kernel=${LM_GUEST_KERNEL:-$PWD/$cache/vmlinuz-arm64} modules=${LM_GUEST_MODULES:-}
	[[ $kernel == /* ]] || kernel=$start_dir/$kernel
	[[ -z $modules || $modules == /* ]] || modules=$start_dir/$modules
	missing="$kernel is not there"
	if [[ -n ${LM_GUEST_KERNEL:-} ]]; then [[ -s $kernel ]]; return; fi
	# A module fits the kernel it was built with and no other.
	modules=$PWD/$cache/modules-arm64
	[[ -s $kernel && -s $modules/uio.ko && -s $modules/nd_pmem.ko ]] && return
	fetch_kernel linux-image-cloud-arm64 "$kernel" "$modules"
}

# A kernel that has a driver for the watchdog that QEMU models, and its modules.
full_kernel='' full_modules=''

# ensure_full_kernel sets $full_kernel and $full_modules to Debian's standard kernel, which it
# downloads if necessary, or to what LM_GUEST_FULL_KERNEL and LM_GUEST_FULL_MODULES name.
ensure_full_kernel() {
	full_kernel=${LM_GUEST_FULL_KERNEL:-$PWD/$cache/vmlinuz-full-arm64}
	full_modules=${LM_GUEST_FULL_MODULES:-$PWD/$cache/modules-full-arm64}
	[[ -s $full_kernel && -d $full_modules ]] && return
	missing="$full_kernel or $full_modules is not there"
	[[ -z ${LM_GUEST_FULL_KERNEL:-}${LM_GUEST_FULL_MODULES:-} ]] || return 1
	fetch_kernel linux-image-arm64 "$full_kernel" "$full_modules"
}

# A kernel that has a driver for the IOMMU that QEMU can put in front of a served device, and its
# modules.
new_kernel='' new_modules=''

# ensure_new_kernel sets $new_kernel and $new_modules to Debian 13's cloud kernel, which it
# downloads if necessary.
ensure_new_kernel() {
	new_kernel=$PWD/$cache/vmlinuz-new-arm64 new_modules=$PWD/$cache/modules-new-arm64
	[[ -s $new_kernel && -e $new_modules/uio.ko ]] && return
	fetch_kernel linux-image-cloud-arm64 "$new_kernel" "$new_modules" trixie
}

# An amd64 kernel that has mmiotrace, and its modules of SD host controllers. The folder also has
# busybox, a static shell.
amd64_kernel='' amd64_modules=''

# ensure_amd64_kernel sets $amd64_kernel and $amd64_modules to Debian's standard kernel, which it
# downloads if necessary.
ensure_amd64_kernel() {
	amd64_kernel=$PWD/$cache/vmlinuz-amd64 amd64_modules=$PWD/$cache/modules-amd64
	[[ -s $amd64_kernel && -s $amd64_modules/busybox ]] && return
	fetch_kernel linux-image-amd64 "$amd64_kernel" "$amd64_modules"
}

# An amd64 kernel that reports which pages a program or a guest of KVM writes, and its modules of
# KVM, VFIO and the devices whose drivers are recorded.
new_amd64_kernel='' new_amd64_modules=''

# ensure_new_amd64_kernel sets $new_amd64_kernel and $new_amd64_modules to Debian 13's standard
# kernel, which it downloads if necessary.
ensure_new_amd64_kernel() {
	new_amd64_kernel=$PWD/$cache/vmlinuz-new-amd64 new_amd64_modules=$PWD/$cache/modules-new-amd64
	[[ -s $new_amd64_kernel && -s $new_amd64_modules/e1000e.ko ]] && return
	fetch_kernel linux-image-amd64 "$new_amd64_kernel" "$new_amd64_modules" trixie
}

# fetch_kernel METAPACKAGE KERNEL MODULES [SUITE] downloads the kernel that a Debian package
# depends on, and unpacks it to the file KERNEL and its modules to the folder MODULES. Without
# SUITE the kernel is of this system's release. Output is appended to apt.log.
fetch_kernel() {
	missing="set LM_GUEST_KERNEL; only Debian's own can be downloaded, with apt-get and dpkg-deb"
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
	missing="it could not be downloaded; see $out/apt.log"
	mkdir -p "$out" "$cache/apt/$1${4:+-$4}"
	unpack_kernel "$@" >>"$out/apt.log" 2>&1 ||
		{ with_progress "$1" download_kernel "$1" "${4:-}" &&
			unpack_kernel "$@" >>"$out/apt.log" 2>&1; }
}

# with_progress WHAT COMMAND... runs a command that downloads into the cache, and appends its output
# to apt.log. A terminal shows how much the cache has grown.
with_progress() {
	local what=$1 watcher='' status=0 before
	shift
	if [[ -t 2 ]]; then
		before=$(du -sm "$cache" | cut -f1)
		while sleep 1; do
			printf '\rdownloading %s: %d MiB' "$what" $(($(du -sm "$cache" | cut -f1) - before))
		done >&2 &
		watcher=$!
	fi
	"$@" >>"$out/apt.log" 2>&1 || status=$?
	if [[ -n $watcher ]]; then
		kill "$watcher" 2>/dev/null || true
		wait "$watcher" 2>/dev/null || true
		printf '\r\033[K' >&2
	fi
	return "$status"
}

# print_debian_uri prints the address from which this system downloads packages. It fails if the
# system is not Debian.
print_debian_uri() {
	# apt-get expands these names.
	# shellcheck disable=SC2016
	apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
		sed -n 's/^Debian Debian //p' | head -1 |
		grep . || { echo "this system's packages are not Debian's"; return 1; }
}

# download_kernel METAPACKAGE SUITE downloads the package of the kernel that METAPACKAGE depends
# on, and for amd64 a static busybox. The name of the kernel's package changes with every update.
# If SUITE is empty, it is this system's. apt keeps its lists in the cache, so that the lists of
# this system do not change.
download_kernel() {
	local apt=$PWD/$cache/apt arch=${1##*-} name uri
	local lists=$apt/lists${2:+-$2} folder=$apt/$1${2:+-$2}
	[[ $arch == arm64 ]] || lists+=-$arch
	mkdir -p "$lists/partial" "$apt/archives/partial"
	local options=(-q -o APT::Architecture="$arch" -o APT::Architectures="$arch"
		-o APT::Sandbox::User=root -o Dir::State::lists="$lists" -o Dir::Cache="$apt")
	local packages=()
	[[ $arch != amd64 ]] || packages=(busybox-static)
	if [[ -n $2 ]]; then
		uri=$(print_debian_uri) && echo "deb $uri $2 main" >"$apt/$2.list" || return
		options+=(-o Dir::Etc::SourceList="$apt/$2.list" -o Dir::Etc::SourceParts=/dev/null)
	fi
	apt-get "${options[@]}" update || return
	name=$(apt-cache "${options[@]}" depends "$1" |
		sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -1)
	[[ -n $name ]] || { echo "$1 depends on no kernel"; return 1; }
	rm -f "$folder"/*.deb
	(cd "$folder" && apt-get "${options[@]}" download "$name" "${packages[@]}")
}

# unpack_kernel METAPACKAGE KERNEL MODULES [SUITE] unpacks the kernel and its modules of VFIO,
# UIO, watchdogs, persistent memory and IOMMUs, or for amd64 of UIO, SD cards, KVM, VFIO, IOMMUs,
# NVMe, AHCI and e1000e and busybox, from downloaded packages. What is a module in one kernel is
# built into another, so only the kernel and uio.ko must be there. The folder MODULES is created
# last and in one step: if it exists, it is complete.
unpack_kernel() {
	local part=$cache/modules.part deb status files=('./boot/vmlinuz-*' '*/drivers/vfio/*.ko*'
		'*/drivers/uio/*.ko*' '*/drivers/watchdog/*.ko*' '*/drivers/nvdimm/*.ko*'
		'*/drivers/dax/dax.ko*' '*/drivers/iommu/*.ko*')
	[[ $1 != *-amd64 ]] || files=('./boot/vmlinuz-*' '*/drivers/uio/*.ko*' '*/drivers/mmc/*.ko*'
		'*/arch/x86/kvm/*.ko*' '*/virt/lib/*.ko*' '*/crypto/ccp/ccp.ko*' '*/drivers/vfio/*.ko*'
		'*/drivers/iommu/*.ko*' '*/drivers/nvme/*.ko*' '*/drivers/ata/*.ko*'
		'*/drivers/scsi/s*.ko*' '*/intel/e1000e/*.ko*' '*/bin/busybox')
	rm -rf "$part" "$3" && mkdir -p "$part" || return
	# tar fails if a pattern matches nothing; dpkg-deb fails if the package is damaged.
	for deb in "$cache/apt/$1${4:+-$4}"/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$part" --no-same-owner \
			--transform 's|.*/||' --wildcards "${files[@]}" && status=0 || status=${PIPESTATUS[0]}
		[[ $status -eq 0 ]] || return
	done
	find "$part" -name '*.xz' -exec xz -d {} + || return
	[[ -s $part/uio.ko ]] || { echo "the package of $1 has no module uio"; return 1; }
	mv "$part"/vmlinuz-* "$2" && mv "$part" "$3"
}

# Debian's arm64 programs that drive devices themselves, with all libraries they need.
guest_programs=$PWD/$cache/programs-arm64

# ensure_guest_programs downloads and unpacks these programs to $guest_programs if necessary.
ensure_guest_programs() {
	local bin=$guest_programs/usr/bin
	[[ ! -e $bin/memtool || ! -e $bin/qemu-system-aarch64 ]] || return 0
	missing="programs of Debian's could not be downloaded; see $out/apt.log"
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
	mkdir -p "$out" "$cache/apt/programs"
	with_progress "programs for the guest" download_guest_programs
}

# download_guest_programs downloads and unpacks qemu-io, testpmd, memtool and a QEMU that runs
# inside of guests. apt resolves their dependencies as if nothing were installed.
download_guest_programs() {
	local apt=$PWD/$cache/apt into=$PWD/$cache/apt/programs package
	mkdir -p "$apt/lists/partial" "$into/archives/partial" && : >"$into/status"
	local options=(-q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64
		-o APT::Sandbox::User=root -o Dir::State::lists="$apt/lists" -o Dir::Cache="$into"
		-o Dir::State::status="$into/status")
	apt-get "${options[@]}" update || return
	apt-get "${options[@]}" --download-only --no-install-recommends install \
		qemu-utils dpdk-dev memtool qemu-system-arm || return
	rm -rf "$guest_programs.part" && mkdir -p "$guest_programs.part" || return
	for package in "$into"/archives/*.deb; do
		# tar fails if a package has none of these files.
		dpkg-deb --fsys-tarfile "$package" |
			tar -x -C "$guest_programs.part" --no-same-owner --wildcards '*/bin/qemu-io' \
				'*/bin/dpdk-testpmd' '*/bin/memtool' '*/bin/qemu-system-aarch64' \
				'*.so' '*.so.*' 2>/dev/null || true
	done
	rm -rf "$into/archives" "$guest_programs"
	mv "$guest_programs.part" "$guest_programs"
}

# A QEMU that can show a served device (lm serve).
new_qemu=

# ensure_new_qemu sets $new_qemu to LM_QEMU of the user. Without it, this is the system's QEMU if
# that is 10.1 or later, or the one of Debian's backports to trixie, which it downloads if
# necessary. That QEMU runs from the cache with its own libraries.
ensure_new_qemu() {
	new_qemu=${LM_QEMU:-$(command -v qemu-system-aarch64)}
	[[ -z $new_qemu || $new_qemu == /* ]] || new_qemu=$start_dir/$new_qemu
	missing="LM_QEMU=$new_qemu has no vfio-user-pci; it takes QEMU 10.1"
	qemu_serves_devices && return
	[[ -z ${LM_QEMU:-} ]] || return 1
	new_qemu=$PWD/$cache/qemu/qemu-system-aarch64
	missing="set LM_QEMU to a QEMU of 10.1 or later; "
	missing+="only Debian's can be downloaded, with apt-get and dpkg-deb"
	[[ -x $new_qemu ]] && return
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
	missing="QEMU 10.1 or later could not be downloaded; see $out/apt.log"
	say "fetching a QEMU with vfio-user into $cache/qemu"
	with_progress QEMU download_qemu && qemu_serves_devices
}

# qemu_serves_devices succeeds if $new_qemu has the device vfio-user-pci. It queries one device:
# for a list of all devices, QEMU would load modules, which may be the system's, of another version.
qemu_serves_devices() {
	[[ -n $new_qemu ]] && "$new_qemu" -M virt -device vfio-user-pci,help 2>&1 |
		grep '^vfio-user-pci options' >/dev/null
}

# download_qemu downloads and unpacks QEMU and its libraries, and writes a script that starts it
# with them. The script is renamed last: if $new_qemu exists, QEMU is complete.
download_qemu() {
	local apt=$PWD/$cache/apt/qemu root=$PWD/$cache/qemu uri deb libraries loader
	uri=$(print_debian_uri) || return
	rm -rf "$root" && mkdir -p "$root" "$apt/lists/partial" "$apt/archives/partial" || return
	printf 'deb %s trixie main\ndeb %s trixie-backports main\n' "$uri" "$uri" >"$apt/sources.list"
	: >"$apt/status" # as if nothing were installed, so that all libraries are downloaded
	local options=(-q -o Dir::Etc::SourceList="$apt/sources.list"
		-o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$apt/lists"
		-o Dir::State::status="$apt/status" -o Dir::Cache="$apt" -o APT::Sandbox::User=root)
	apt-get "${options[@]}" update || return
	apt-get "${options[@]}" install -y --no-install-recommends -t trixie-backports \
		--download-only qemu-system-arm || return
	for deb in "$apt"/archives/*.deb; do dpkg-deb -x "$deb" "$root" || return; done
	libraries=$(cd "$root" && dirname "$(find usr/lib -name libglib-2.0.so.0 | head -1)")
	loader=$(cd "$root" && find usr/lib*/ld-linux-* | head -1)
	cat >"$root/part" <<-TEXT
		#!/bin/sh
		root=\$(dirname "\$(readlink -f "\$0")")
		QEMU_MODULE_DIR=/nonexistent exec "\$root/$loader" \\
			--library-path "\$root/$libraries:\$root/$libraries/pulseaudio" \\
			"\$root/usr/bin/qemu-system-aarch64" -L "\$root/usr/share/qemu" "\$@"
	TEXT
	chmod +x "$root/part" && mv "$root/part" "$root/qemu-system-aarch64"
}
