# shellcheck shell=bash
# Part of build.sh: files of the tree that are generated: Go code and kernels of accelerators.

# cmd_gen [--check] generates Go code from the schema into fbs/gen, and the tables of boards for the
# player in C. With --check, it only compares them with the tree.
cmd_gen() {
	local dir=$out/_gen # go ./... ignores names that begin with _
	ensure_installed flatc flatbuffers-compiler || { warn "gen: $missing is not here"; exit 69; }
	rm -rf "$dir" && mkdir -p "$dir"
	flatc --go --gen-object-api --go-namespace gen -o "$dir" fbs/image.fbs
	# A map at package level is built at every start of a target, an array is not. Methods of the
	# structs that a target reads in place, and tags of their fields, would be part of the target.
	local name_of='^\tif s, ok := (EnumNames[A-Za-z]+)\[v\]; ok \{'
	# shellcheck disable=SC2016 # no backquote is for the shell
	sed -i -E -e '/^var EnumValues/,/^}/d' \
		-e '/^func \(t \*[A-Za-z]+T\) Pack/,/^}/d' -e '/^\t/s/ `json:.*`$//' \
		-e 's/^var (EnumNames[A-Za-z]+) = map\[[A-Za-z]+\]string\{/var \1 = [...]string{/' \
		-e "s/$name_of/"'\tif int(v) < len(\1) {\n\t\ts := \1[v]/' \
		"$dir"/gen/*.go
	gofmt -w "$dir"/gen
	go run ./tools/check/schemahash fbs/image.fbs >"$dir/gen/SchemaHash.go"
	if [[ ${1:-} == --check ]]; then
		diff -r "$dir/gen" fbs/gen ||
			{ warn "generated code is not what fbs/image.fbs makes; run ./build.sh gen"; return 1; }
		go run ./tools/check/boardtable | diff - runtime/c/lmplay_boards.h ||
			{ warn "lmplay_boards.h is not what boards/ makes; run ./build.sh gen"; return 1; }
	else
		rm -rf fbs/gen && cp -r "$dir/gen" fbs/gen
		go run ./tools/check/boardtable >"$dir/lmplay_boards.h" # of the new schema
		cp "$dir/lmplay_boards.h" runtime/c
	fi
}

# build_riscv_kernel NAME OUTPUT [FLAG...] builds the kernel NAME.c of the current folder. Its
# bytes are the same wherever Debian's compiler is the same.
build_riscv_kernel() {
	local name=$1 result=$2
	shift 2
	riscv64-unknown-elf-gcc -march=rv32im -mabi=ilp32 -O2 -ffreestanding -nostdlib \
		-Wall -Werror "$@" -Wl,--build-id=none,-n,-s,--no-warn-rwx-segments \
		-T link.ld start.S "$name.c" -o "$result"
	chmod 644 "$result"
}

# cmd_kernels [--check] builds the kernels of testdata/kernels, or only compares them with the tree.
cmd_kernels() {
	local dir=$PWD/$out/_kernels name
	ensure_installed riscv64-unknown-elf-gcc gcc-riscv64-unknown-elf ||
		{ warn "kernels: $missing is not here"; exit 69; }
	rm -rf "$dir" && mkdir -p "$dir"
	cd testdata/kernels
	# The programs in the recordings have another stack address.
	for name in twoop mlp; do build_riscv_kernel $name "$dir/$name.elf" -DSTACK=0xFFB01FF0; done
	for name in sum copy matmul saxpy mcast; do build_riscv_kernel $name "$dir/$name.elf"; done
	for name in noc_copy noc_gather noc_host noc_sem noc_start; do
		build_riscv_kernel $name "$dir/${name}_wh.elf"
		build_riscv_kernel $name "$dir/${name}_bh.elf" -DBLACKHOLE
	done
	mkdir "$dir/metal"
	sh metal/src/build.sh "$dir/metal"
	if [[ ${1:-} == --check ]]; then
		for name in *.elf metal/*.elf; do
			cmp "$dir/$name" "$name" || {
				warn "testdata/kernels is not what its sources make; run ./build.sh kernels"
				exit 1
			}
		done
	else
		cp "$dir"/*.elf .
		cp "$dir"/metal/*.elf metal
	fi
}
