# shellcheck shell=bash
# Part of build.sh: the programs that a target gets, and the C archive for firmware.

# The compiler flags of everything that ships. The compiler inlines functions only in packages that
# verify and execute images, and in packages that become smaller by inlining: either their variables
# then need no initialization at start, or their functions are little more than calls. This makes
# programs an eighth smaller. tools/check/house reads this list.
shipped_flags=(
	-gcflags=all=-l
	-gcflags=lightmetal/fbs=
	-gcflags=lightmetal/hal=
	-gcflags=lightmetal/runtime=
	-gcflags=hash/crc32=
	-gcflags=github.com/google/flatbuffers/go=
	-gcflags=encoding/binary=
	-gcflags=errors=
	-gcflags=io=
	-gcflags=syscall=
	-gcflags=internal/strconv=
	-gcflags=internal/runtime/gc/scan=
	-gcflags=internal/bisect=
	-gcflags=internal/reflectlite=
	-gcflags=time=
	-gcflags=internal/abi=
	-gcflags=internal/cpu=
	-gcflags=internal/byteorder=
	-gcflags=internal/runtime/atomic=
	-gcflags=math/bits=
	-gcflags=internal/runtime/cgroup=
	-gcflags=sync/atomic=
	-gcflags=iter=
	-gcflags=bytes=
	-gcflags=math=
	-gcflags=strconv=
	-gcflags=reflect=
	-gcflags=cmp=
	-gcflags=internal/oserror=
	-gcflags=internal/godebug=
	-gcflags=hash=
	-gcflags=lightmetal/boards=
	-gcflags=lightmetal/tools/lmrun/files=
	-gcflags=lightmetal/tools/lmrun=
)

# Further flags for tests: packages that do not ship are compiled with Go's own flags.
mock_flags=(
	-gcflags=lightmetal/hal/mock=
	-gcflags=lightmetal/hal/mock/rv32=
	-gcflags=lightmetal/boards/chips=
	-gcflags=lightmetal/runtime/capi=
)

# build_shipped GOARCH OUTPUT PACKAGE [FLAG...] builds a program as it ships. Its bytes do not
# depend on where it is built.
build_shipped() { build_static "$@" "${shipped_flags[@]}"; }

# build_static GOARCH OUTPUT PACKAGE [FLAG...] builds a static program for Linux.
build_static() {
	CGO_ENABLED=0 GOOS=linux GOARCH=$1 go build -trimpath \
		-ldflags "-s -w -X 'main.version=${3##*/} $(print_version)'" "${@:4}" -o "$2" "$3"
}

# The version of lightmetal.
version_number=0.1

# print_revision prints LM_REVISION if that is set, else the commit of git, with -modified if files
# differ from it.
print_revision() {
	local revision=${LM_REVISION:-}
	if [[ -z $revision && -e .git ]] && revision=$(git rev-parse --short=12 HEAD 2>/dev/null); then
		git diff --quiet HEAD 2>/dev/null || revision+=-modified
	fi
	printf '%s' "$revision"
}

# print_version prints the version, the revision and the build tags.
print_version() {
	local revision tags
	revision=$(print_revision)
	tags=$(sed -n 's/.*-tags=\([^ ]*\).*/, tags \1/p' <<<"$GOFLAGS")
	printf '%s (%s%s)' "$version_number" "${revision:-no revision}" "$tags"
}

# build_guest_programs builds lmrun, lminit and the program that boots guests.
build_guest_programs() {
	mkdir -p "$out"
	build_shipped arm64 "$out/lmrun-arm64" ./tools/lmrun
	build_shipped arm64 "$out/lminit-arm64" ./tools/lminit
	go build -o "$out/guest" ./tools/check/guest
}

# cmd_cross builds lmrun and lminit for arm64 and amd64.
cmd_cross() {
	local arch
	mkdir -p "$out"
	for arch in arm64 amd64; do
		build_shipped $arch "$out/lmrun-$arch" ./tools/lmrun
		build_shipped $arch "$out/lminit-$arch" ./tools/lminit
	done
	for arch in arm64 amd64; do
		say "wrote $out/lmrun-$arch and $out/lminit-$arch"
	done
	say "copy lmrun of the board's architecture to the board, and lminit if it starts lmrun there"
}

# build_archive GOARCH OUTPUT [TAGS] builds the C archive with the compiler $cc. Its bytes do not
# depend on the folder. It is compiled with Go's own flags: without inlining it would be 33 KB of
# 2.7 MB smaller, and calls slower. The code of fbs, hal and runtime is the same in both.
build_archive() {
	CGO_ENABLED=1 CC=$cc CGO_CFLAGS=-O2 GOOS=linux GOARCH=$1 go build -buildmode=c-archive \
		-trimpath -ldflags "-s -w -buildid=" -tags "${3:-}" -o "$2" ./runtime/capi
	rm -f "${2%.a}.h" # what cgo declares; users include lightmetal.h
}

# build_firmware OUTPUT [ARCHIVE] builds the example of testdata/firmware with an archive. Without
# ARCHIVE it builds an empty C program by the same compiler.
build_firmware() {
	local source=$out/_empty/main.c
	[[ $# -eq 1 ]] || source=testdata/firmware/main.c
	mkdir -p "$out/_empty" && echo 'int main(void) { return 0; }' >"$out/_empty/main.c"
	"$cc" -std=c11 -O2 -Wall -Wextra -Werror -static -s -I runtime/capi -o "$1" "$source" \
		"${@:2}" -lpthread
}

# cmd_archive [--mock] [--signed] builds the C archive and the example firmware for arm64 and
# amd64, and prints their sizes.
cmd_archive() {
	local arch name=liblightmetal example=$out/_empty/firmware tags=
	while [[ $# -gt 0 ]]; do
		case $1 in
		# The example has a job for a mock.
		--mock) name=liblightmetal-mock example=$out/firmware tags+=,mock ;;
		--signed) tags+=,signed ;;
		*) warn "usage: ./build.sh archive [--mock] [--signed]"; exit 64 ;;
		esac
		shift
	done
	mkdir -p "$out"
	cp runtime/capi/lightmetal.h "$out"
	for arch in arm64 amd64; do
		ensure_cross_compiler $arch || { warn "archive: $missing is not here"; exit 69; }
		build_archive $arch "$out/$name-$arch.a" "${tags#,}"
		build_firmware "$example-$arch" "$out/$name-$arch.a"
		build_firmware "$out/_empty/c-$arch"
		say "$name-$arch.a: $(wc -c <"$out/$name-$arch.a") bytes;" \
			"  the firmware of testdata/firmware, static and stripped:" \
			"  $(wc -c <"$example-$arch") bytes, an empty C program $(wc -c <"$out/_empty/c-$arch")"
	done
}
