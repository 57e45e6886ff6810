# shellcheck shell=bash
# Part of build.sh: sizes of programs, numbers of statements, speed.

# The bytes of code and data that a static arm64 lmrun has beyond an empty Go program, with one
# backend and with all backends: the goal, and the limit. README.md states both.
backend_goal=$((390 * 1024)) backend_max=$((436 * 1024))
all_goal=$((420 * 1024)) all_max=$((470 * 1024))

# The build tags that choose one backend.
backend_tags=(backend_pci backend_vfio backend_tt)

# check_program_sizes compares the arm64 lmrun that cmd_cross has built, and one with each backend
# alone, with the limits.
check_program_sizes() {
	local tag size one_backend=0 status=0
	mkdir -p "$out/_empty"
	echo 'package main

func main() {}' >"$out/_empty/main.go"
	build_static arm64 "$out/_empty/empty-arm64" "./$out/_empty/main.go"
	for tag in "${backend_tags[@]}"; do
		GOFLAGS+=" -tags=$tag" build_shipped arm64 "$out/_empty/lmrun-$tag" ./tools/lmrun
		size=$(print_size_beyond "$out/_empty/lmrun-$tag")
		one_backend=$((size > one_backend ? size : one_backend))
	done
	size=$(print_size_beyond "$out/lmrun-arm64")
	check_size_limit "all backends" "$size" $all_max $all_goal || status=1
	check_size_limit "one backend" "$one_backend" $backend_max $backend_goal || status=1
	return $status
}

# print_size_beyond PROGRAM prints how many bytes of code and data an arm64 program has beyond an
# empty one.
print_size_beyond() { go run ./tools/check/house/sizebeyond "$1" "$out/_empty/empty-arm64"; }

# check_size_limit WHAT BYTES LIMIT GOAL prints a size of lmrun and fails if it exceeds the limit.
check_size_limit() {
	say "lmrun-arm64, $1: $2 bytes, limit $3, goal $4"
	[[ $2 -le $3 ]] || { warn "lmrun-arm64, $1, is $(($2 - $3)) bytes too large"; return 1; }
}

# cmd_measure [-tags TAGS] prints how many statements the parts of the tree have, and how many words
# of comment the packages of the target, or only the statements of lmrun with build tags. Tests in
# tools/check/house count them.
cmd_measure() {
	if [[ ${1:-} == -tags && $# -eq 2 ]]; then
		say "lmrun with tags $2: $(go run ./tools/check/house/statements -tags "$2") statements"
		return
	fi
	[[ $# -eq 0 ]] || { warn "usage: ./build.sh measure [-tags TAGS]"; exit 64; }
	local tests='TestSizeOfEverySetIsPrinted|TestTargetIsReadable|TestCommentsOfTheTargetAreShort'
	go test -count=1 -v -run "^($tests)\$" ./tools/check/house |
		sed -n 's/^ *size_test.go:[0-9]*: //p'
}

# cmd_bench [FLAG...] measures speed, memory and steadiness, and prints a table.
cmd_bench() {
	ensure_c_compiler || {
		say "skipped: bench measures against C, and $missing is not here"
		return
	}
	mkdir -p "$out"
	tools/check/bench/c/build "$out"
	build_shipped "$(go env GOARCH)" "$out/bench-child" ./tools/check/bench/child
	build_shipped "$(go env GOARCH)" "$out/bench-idle" ./tools/check/bench/idle
	go build -o "$out/bench" ./tools/check/bench
	"$out/bench" --dir "$out" "$@"
}
