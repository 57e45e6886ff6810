# shellcheck shell=bash
# Part of build.sh: messages, and the installation of what a command needs beyond Go.

# say LINE... prints lines.
say() { printf '%s\n' "$@"; }

# warn LINE... prints lines on standard error.
warn() { printf '%s\n' "$@" >&2; }

# What the ensure_ functions could not provide, for a message.
missing=

# ensure_installed THING PACKAGE installs a Debian package unless a command THING, or a file if
# THING is an absolute path, is present. It installs only as root on Debian, and prints that it
# does. If THING is still not present, it sets $missing and fails.
ensure_installed() {
	is_present "$1" && return
	if [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
		say "installing $2"
		mkdir -p "$out"
		install_or_update "$2" || true
		is_present "$1" && return
		warn "installing $2 failed; see $out/apt.log"
	fi
	missing="$1 (Debian package $2)"
	return 1
}

# is_present THING succeeds if there is a command THING, or a file if THING is an absolute path.
is_present() {
	if [[ $1 == /* ]]; then [[ -e $1 ]]; else command -v "$1" >/dev/null; fi
}

# install_package PACKAGE installs a Debian package. Output is appended to apt.log.
install_package() {
	apt-get install -y -q --no-install-recommends "$1" >>"$out/apt.log" 2>&1
}

# install_or_update PACKAGE installs a Debian package, if need be with new lists of the system. Of
# steps that run at once, one installs at a time.
install_or_update() {
	(
		flock 8
		install_package "$1" ||
			{ apt-get update -q >>"$out/apt.log" 2>&1 && install_package "$1"; }
	) 8>"$out/apt.lock"
}

# ensure_c_compiler installs a C compiler for this machine if there is none.
ensure_c_compiler() {
	ensure_installed gcc gcc && ensure_installed /usr/include/stdlib.h libc6-dev
}

# The C compiler that ensure_cross_compiler found.
cc=

# ensure_cross_compiler GOARCH installs a C compiler for an architecture if there is none, and
# sets $cc to its name.
ensure_cross_compiler() {
	local triple=aarch64-linux-gnu
	[[ $1 == arm64 ]] || triple=x86_64-linux-gnu
	cc=gcc
	if [[ $1 == "$(go env GOHOSTARCH)" ]]; then
		ensure_c_compiler
	else
		cc=$triple-gcc
		ensure_installed $cc "gcc-${triple//_/-}" &&
			ensure_installed /usr/$triple/include/stdlib.h "libc6-dev-$1-cross"
	fi
}

# The exit status of a step that cannot run on this machine.
skip_status=97

# skip_step REASON... prints the reason and ends the current step, which counts as skipped.
skip_step() {
	say "skipped: $*"
	exit $skip_status
}

# skip_or_fail_step REASON... ends the current step. The step fails as root on Debian, where
# everything can be downloaded, and is skipped elsewhere.
skip_or_fail_step() {
	[[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null || { warn "$*"; exit 1; }
	skip_step "$*"
}
