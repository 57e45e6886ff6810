# shellcheck shell=bash
# Part of build.sh: sizes of programs, numbers of statements, speed.

# The bytes of code and data that a static arm64 lmrun has beyond an empty Go program, with one
# backend and with all backends: the goal, and the limit. README.md states both.
backend_goal=$((400 * 1024)) backend_max=$((411 * 1024))
all_goal=$((460 * 1024)) all_max=$((443 * 1024))

# The build tags that choose one backend, and those that leave out a part of lmrun.
backend_tags=(backend_pci backend_vfio backend_tt)
trim_tags=(norings nowatchdog nolock nofaults nojson notiles)

# print_program_sizes prints the sizes of the programs that cmd_cross has built, and what build
# tags save. It fails if lmrun exceeds a limit.
print_program_sizes() {
	local arch tag empty size files all_backends=0 one_backend=0 signed status=0
	for arch in arm64 amd64; do
		empty=$out/_empty/empty-$arch
		size=$(print_size_beyond "$out/lmrun-$arch" "$empty")
		files="$(wc -c <"$out/lmrun-$arch") and $(wc -c <"$empty")"
		say "lmrun-$arch: $size bytes beyond an empty Go program; the files have $files"
		[[ $arch != arm64 ]] || all_backends=$size
	done
	for tag in "${backend_tags[@]}"; do
		size=$(print_tagged_size lmrun "$tag")
		say "lmrun-arm64 with -tags $tag: $size bytes beyond"
		one_backend=$((size > one_backend ? size : one_backend))
	done
	for tag in "${trim_tags[@]}"; do print_tag_savings lmrun "$all_backends" "" "$tag"; done
	signed=$(print_tagged_size lmrun signed)
	say "lmrun-arm64 with -tags signed: $((signed - all_backends)) bytes more"
	print_tag_savings lmrun "$signed" signed nocounter
	size=$(print_size_beyond "$out/lminit-arm64" "$out/_empty/empty-arm64")
	say "lminit-arm64: $size bytes beyond an empty Go program"
	print_tag_savings lminit "$size" "" noresets
	check_size_limit "all backends" "$all_backends" $all_max $all_goal || status=1
	check_size_limit "one backend" "$one_backend" $backend_max $backend_goal || status=1
	return $status
}

# print_tagged_size PROGRAM TAGS builds an arm64 lmrun or lminit with build tags and prints its size
# beyond the empty program, which cmd_cross has built.
print_tagged_size() {
	GOFLAGS+=" -tags=$2" build_shipped arm64 "$out/_empty/$1-$2" ./tools/"$1"
	print_size_beyond "$out/_empty/$1-$2" "$out/_empty/empty-arm64"
}

# print_tag_savings PROGRAM BYTES TAGS TAG prints what TAG, which leaves out a part, saves of an
# arm64 program that is built with TAGS and has BYTES.
print_tag_savings() {
	local tags=${3:+$3,}$4 bytes count
	bytes=$(($2 - $(print_tagged_size "$1" "$tags")))
	count=$(($(count_statements "$3" "$1") - $(count_statements "$tags" "$1")))
	say "$1-arm64 with -tags $tags: $bytes bytes and $count statements less"
}

# print_size_beyond PROGRAM EMPTY prints how many bytes of code and data PROGRAM has beyond EMPTY.
print_size_beyond() { go run ./tools/check/house/sizebeyond "$1" "$2"; }

# check_size_limit WHAT BYTES LIMIT GOAL prints a size of lmrun and fails if it exceeds the limit.
check_size_limit() {
	say "lmrun-arm64, $1: $2 bytes, limit $3, goal $4"
	[[ $2 -le $3 ]] || { warn "lmrun-arm64, $1, is $(($2 - $3)) bytes too large"; return 1; }
}

# count_statements TAGS PROGRAM prints how many statements of this project an arm64 lmrun or lminit
# compiles with build tags.
count_statements() { go run ./tools/check/house/statements -tags "$1" "tools/$2"; }

# cmd_measure [-tags TAGS] prints how many statements the parts of the tree have, or lmrun with
# build tags. Tests in tools/check/house count them.
cmd_measure() {
	if [[ ${1:-} == -tags && $# -eq 2 ]]; then
		say "lmrun with tags $2: $(count_statements "$2" lmrun) statements"
		return
	fi
	[[ $# -eq 0 ]] || { warn "usage: ./build.sh measure [-tags TAGS]"; exit 64; }
	go test -count=1 -v -run '^(TestSizeOfEverySetIsPrinted|TestTargetIsReadable)$' \
		./tools/check/house |
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
