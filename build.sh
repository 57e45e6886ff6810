#!/usr/bin/env bash
# Builds, tests and shows lightmetal. `./build.sh help` lists what it can do.
set -euo pipefail
start_dir=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")"
if [[ ! -f go.mod || ! -f fbs/image.fbs ]]; then
	echo "build.sh belongs in the top folder of lightmetal" >&2
	exit 64
fi

# Binaries depend on nothing but the source, and no other Go is downloaded.
export GOFLAGS="${GOFLAGS:--buildvcs=false}" GOTOOLCHAIN="${GOTOOLCHAIN:-local}"
export DEBIAN_FRONTEND=noninteractive

out=build
cache=build/cache
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Bytes of a static arm64 lmrun beyond an empty Go program: what is wanted, and
# what it has come down to and may not exceed again. Files grow in steps of 64 KiB.
excess_goal=$((256 * 1024)) excess_max=$((448 * 1024))

# The part of the tree that runs on the target.
target_packages=(./fbs/... ./boards/... ./hal/... ./runtime/...)

help() {
	cat <<'TEXT'
usage: ./build.sh COMMAND

  demo                    a first look: import a capture, look inside, replay it; needs only Go
  test [STEP...]          every check there is, or only the steps named; steps are
                            fmt vet gen kernels unit fuzz race arm64 purego cross guest
                            bench
  qemu IMAGE [FLAGS]      replay IMAGE on an arm64 machine under QEMU that has an edu, an ivshmem
                            and an nvme device; FLAGS and exit status are lmrun's; files of -input
                            and -output are this machine's; what the devices kept lies in build/qemu
  cross                   static lmrun for arm64 and amd64 in build/, with its size
  gen [--check]           Go code from fbs/image.fbs; --check: only compare it with the tree
  bench [--full] [--json] [--write FILE]
                          speed, size and steadiness, beside C, and which goals are met: in under a
                            minute, or all of it in about five; FILE takes the table too
  kernels [--check]       RISC-V kernels of testdata/kernels; --check: only compare them with the tree
  fuzz DURATION           every fuzz target for that long, such as 10m, or that often, such as 100000x
  lint                    gofmt, go vet, staticcheck
  clean [--all]           remove build/; --all: the downloaded kernel in build/cache too
  help                    this text

What a command needs beyond Go it installs, when it is root on Debian. Otherwise it says what is
missing, and `test` says at the end what it skipped for that reason. LM_GUEST_KERNEL=FILE makes
`test` and `qemu` boot another arm64 kernel than Debian's cloud kernel; LM_GUEST_TIMEOUT=10m gives
`qemu` more than the one minute a run may take.
TEXT
}

say() { printf '%s\n' "$@"; }
warn() { printf '%s\n' "$@" >&2; }

# need THING PACKAGE: true if a command, or a file by its absolute path, is
# there or could be installed. What is missing is left in $missing.
missing=
need() {
	have "$1" && return
	if [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
		say "installing $2"
		mkdir -p "$out"
		# The system's package lists may be missing or out of date.
		install "$2" || { apt-get update -q >>"$out/apt.log" 2>&1 && install "$2"; } || true
		have "$1" && return
		warn "installing $2 failed; see $out/apt.log"
	fi
	missing="$1 (Debian package $2)"
	return 1
}

have() {
	if [[ $1 == /* ]]; then [[ -e $1 ]]; else command -v "$1" >/dev/null; fi
}

install() { apt-get install -y -q --no-install-recommends "$1" >>"$out/apt.log" 2>&1; }

c_compiler() { need gcc gcc && need /usr/include/stdlib.h libc6-dev; }

# skip REASON: ends a step of `test` that cannot run here.
skipped=97
skip() {
	say "skipped: $*"
	exit $skipped
}

# run NAME: one step, in a shell of its own so that its failure ends only it.
passed=() failed=() skips=()
run() {
	local name=$1 status=0 start=$SECONDS
	say "== $name"
	set +e
	(
		set -e
		"step_$name"
	) 2>&1 | tee "$out/step.log"
	status=${PIPESTATUS[0]}
	set -e
	case $status in
	0) passed+=("$name ($((SECONDS - start)) s)") ;;
	$skipped) skips+=("$name: $(sed -n 's/^skipped: //p' "$out/step.log" | tail -1)") ;;
	*) failed+=("$name") ;;
	esac
}

cmd_test() {
	local steps=("$@") before step
	[[ $# -gt 0 ]] || steps=(fmt vet gen kernels unit fuzz race arm64 purego cross guest bench)
	for step in "${steps[@]}"; do
		declare -F "step_$step" >/dev/null || { warn "no step $step; ./build.sh help lists them"; exit 64; }
	done
	mkdir -p "$out"
	before=$(tree)
	for step in "${steps[@]}"; do run "$step"; done
	same_tree "$before"
	summary
}

# tree is the state of the work tree, empty where there is no git.
tree() {
	git rev-parse --is-inside-work-tree >/dev/null 2>&1 || return 0
	git rev-parse HEAD
	git status --porcelain --untracked-files=all
	git diff HEAD | sha256sum
}

same_tree() {
	say "== tree"
	if [[ -z $1 ]]; then
		skips+=("tree: not a git checkout, or git is not there")
	elif [[ $1 == "$(tree)" ]]; then
		passed+=(tree)
	else
		failed+=(tree)
		warn "the run changed the work tree:"
		diff <(echo "$1") <(tree) >&2 || true
	fi
}

summary() {
	local line
	say "== summary"
	for line in "${passed[@]}"; do say "passed   $line"; done
	for line in "${skips[@]}"; do say "skipped  $line"; done
	for line in "${failed[@]}"; do say "FAILED   $line"; done
	[[ ${#failed[@]} -eq 0 ]] || exit 1
	say DONE
}

step_fmt() {
	local files
	files=$(gofmt -l .)
	[[ -z $files ]] || { warn "not gofmt-ed:" $files; exit 1; }
}

step_vet() {
	# ./... passes over testdata.
	go vet ./... ./testdata/workloads/...
	GOARCH=arm64 go vet ./...
}

step_gen() {
	need flatc flatbuffers-compiler || skip "$missing is not here"
	cmd_gen --check
}

step_unit() {
	local all=1
	c_compiler || { say "without $missing, tests that compile C skip themselves"; all=; }
	need qemu-aarch64-static qemu-user-static || { say "without $missing, tests that run foreign programs skip themselves"; all=; }
	need flatc flatbuffers-compiler || { say "without $missing, tests that read images by other means skip themselves"; all=; }
	# With everything there, a test that skips itself for want of it has failed.
	[[ -z $all ]] || export LM_TEST_REQUIRED=1
	go test -timeout 20m ./...
	go test -timeout 10m -tags nolightmetal ./tools/metal
}

step_race() {
	c_compiler || skip "$missing is not here"
	CGO_ENABLED=1 go test -race -timeout 10m "${target_packages[@]}" ./tools/lmb/... ./tools/listing/... ./tools/importer/...
}

step_arm64() {
	need qemu-aarch64-static qemu-user-static || skip "$missing is not here"
	CGO_ENABLED=0 GOARCH=arm64 go test -timeout 10m -exec qemu-aarch64-static "${target_packages[@]}"
}

step_purego() {
	go vet -tags purego "${target_packages[@]}"
	go test -timeout 10m -tags purego "${target_packages[@]}"
}

step_cross() { cmd_cross; }

step_guest() {
	need qemu-system-aarch64 qemu-system-arm || skip "$missing is not here"
	kernel || skip "no arm64 kernel: $missing"
	build_guest
	go build -o "$out/lm" ./tools/lm
	LM_GUEST_REQUIRED=1 LM_GUEST_KERNEL=$kernel LM_GUEST_LMRUN=$PWD/$out/lmrun-arm64 LM_GUEST_LM=$PWD/$out/lm \
		go test -count=1 -timeout 10m ./tools/guest
}

# kernel leaves the path of an arm64 kernel in $kernel: the user's, or Debian's
# cloud kernel, whose name changes with every update and so is looked up. The
# lists of another architecture stay out of this system's own.
kernel=
kernel() {
	kernel=${LM_GUEST_KERNEL:-$PWD/$cache/vmlinuz-arm64}
	[[ $kernel == /* ]] || kernel=$start_dir/$kernel
	[[ -s $kernel ]] && return
	missing="$kernel is not there"
	[[ -z ${LM_GUEST_KERNEL:-} ]] || return 1
	missing="set LM_GUEST_KERNEL; only Debian's own can be downloaded, with apt-get and dpkg-deb"
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
	missing="it could not be downloaded; see $out/apt.log"
	download_kernel >>"$out/apt.log" 2>&1
}

download_kernel() {
	local apt=$PWD/$cache/apt name
	mkdir -p "$apt/lists/partial" "$apt/archives/partial"
	local options=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
		-o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt")
	apt-get "${options[@]}" update || return
	name=$(apt-cache "${options[@]}" depends linux-image-cloud-arm64 |
		sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -1)
	[[ -n $name ]] || { echo "linux-image-cloud-arm64 depends on no kernel"; return 1; }
	rm -f "$apt"/linux-image-*.deb
	(cd "$apt" && apt-get "${options[@]}" download "$name") || return
	dpkg-deb --fsys-tarfile "$apt"/linux-image-*.deb | tar -xO --wildcards './boot/vmlinuz-*' >"$cache/vmlinuz.part" || return
	mv "$cache/vmlinuz.part" "$kernel"
}

# static GOARCH OUTPUT PACKAGE
static() {
	CGO_ENABLED=0 GOOS=linux GOARCH=$1 go build -trimpath -ldflags "-s -w" -o "$2" "$3"
}

build_guest() {
	mkdir -p "$out"
	static arm64 "$out/lmrun-arm64" ./tools/lmrun
	go build -o "$out/guest" ./tools/guest
}

cmd_cross() {
	local arch size empty excess
	mkdir -p "$out/_empty"
	echo 'package main

func main() {}' >"$out/_empty/main.go"
	for arch in arm64 amd64; do
		static $arch "$out/lmrun-$arch" ./tools/lmrun
		static $arch "$out/_empty/empty-$arch" "./$out/_empty/main.go"
		size=$(wc -c <"$out/lmrun-$arch") empty=$(wc -c <"$out/_empty/empty-$arch")
		excess=$((size - empty))
		say "lmrun-$arch: $size bytes, an empty Go program $empty, excess $excess (goal for arm64: $excess_goal, limit: $excess_max)"
		if [[ $arch == arm64 && $excess -gt $excess_max ]]; then
			warn "lmrun-arm64 is $((excess - excess_max)) bytes too large"
			return 1
		fi
	done
}

cmd_qemu() {
	local image=${1:-}
	[[ -n $image && $image != -* ]] || { warn "usage: ./build.sh qemu IMAGE.lmb [lmrun flags]"; exit 64; }
	shift
	mkdir -p "$out/qemu"
	# Standard output is lmrun's.
	need qemu-system-aarch64 qemu-system-arm >&2 || { warn "qemu: $missing is not here"; exit 69; }
	kernel >&2 || { warn "qemu: no arm64 kernel: $missing"; exit 69; }
	build_guest >&2
	cd "$start_dir"
	exec "$OLDPWD/$out/guest" -kernel "$kernel" -lmrun "$OLDPWD/$out/lmrun-arm64" -dir "$OLDPWD/$out/qemu" \
		-timeout "${LM_GUEST_TIMEOUT:-1m}" "$image" -- "$@"
}

cmd_gen() {
	local dir=$out/_gen # go ./... passes over names with _
	need flatc flatbuffers-compiler || { warn "gen: $missing is not here"; exit 69; }
	rm -rf "$dir" && mkdir -p "$dir"
	flatc --go --go-namespace gen -o "$dir" fbs/image.fbs
	# Maps at package level are built at every start of a target. Arrays are not.
	sed -i -E -e '/^var EnumValues/,/^}/d' \
		-e 's/^var (EnumNames[A-Za-z]+) = map\[[A-Za-z]+\]string\{/var \1 = [...]string{/' \
		-e 's/^\tif s, ok := (EnumNames[A-Za-z]+)\[v\]; ok \{/\tif int(v) < len(\1) {\n\t\ts := \1[v]/' "$dir"/gen/*.go
	gofmt -w "$dir"/gen
	go run ./tools/schemahash fbs/image.fbs >"$dir/schema_hash.go"
	if [[ ${1:-} == --check ]]; then
		diff -r "$dir/gen" fbs/gen && diff "$dir/schema_hash.go" fbs/schema_hash.go ||
			{ warn "generated code is not what fbs/image.fbs makes; run ./build.sh gen"; return 1; }
	else
		rm -rf fbs/gen && cp -r "$dir/gen" fbs/gen && cp "$dir/schema_hash.go" fbs/schema_hash.go
	fi
}

cmd_bench() {
	local arch
	c_compiler || { say "skipped: bench measures against C, and $missing is not here"; return; }
	cmd_cross >/dev/null || true # its size is a row of the table
	gcc -O2 -fno-strict-aliasing -Wall -Wextra -o "$out/cref" testdata/cref/*.c -lm
	for arch in arm64 amd64; do static $arch "$out/bench-empty-$arch" "./$out/_empty/main.go"; done
	static "$(go env GOARCH)" "$out/bench-child" ./tools/bench/child
	static "$(go env GOARCH)" "$out/bench-idle" ./tools/bench/idle
	go build -o "$out/bench" ./tools/bench
	"$out/bench" -dir "$out" "$@"
}

# Only that it runs: what it measures depends on the machine.
step_bench() {
	c_compiler || skip "$missing is not here"
	cmd_bench
}

cmd_lint() {
	step_fmt
	step_vet
	if go run "$staticcheck" -version; then
		go run "$staticcheck" ./...
	else
		say "skipped: staticcheck, because it cannot be downloaded"
	fi
}

cmd_demo() {
	mkdir -p "$out"
	say "Building lm, the host tool, and lmrun, the runner that a target gets."
	go build -o "$out/lm" ./tools/lm
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$out/lmrun" ./tools/lmrun

	local image=$out/edu.lmb
	say "" "testdata/captures/edu.qemutrace is a log of what a program did to QEMU's edu device. lm makes"
	say "one file of it that holds everything a replay needs:"
	show "$out/lm" import --from qemu --region edu-mmio --base 0x10000000 --board edu testdata/captures/edu.qemutrace -o "$image"
	say "" "What the file is, and for which device:"
	show "$out/lm" info "$image"
	say "" "Its first commands, as text that lm asm reads back:"
	say "\$ $out/lm dump $image | head -25"
	"$out/lm" dump "$image" | sed -n 1,25p
	say "" "A replay on a model of the device that refuses whatever hardware could:"
	show "$out/lm" replay --device mock:edu "$image"
	say "" "Every value that the recorded program read was read again and compared: the model behaves as the"
	say "recorded device did. On a real one, $out/lmrun ($(($(wc -c <"$out/lmrun") / 1024)) KiB, static) does the same."
	say "./build.sh qemu $image tries that on an arm64 machine under QEMU."

	say "" "A Wormhole has cores. This capture loads a program for one of them, gives it two inputs, starts it and" \
		"reads the output; with both named, an image takes new ones. The model runs the program:"
	show "$out/lm" import --from mmiotrace --input a=1,1,0x20000,int32,256 --input b=1,1,0x21000,int32,256 \
		--output d=1,1,0x23000,int32,256 testdata/captures/wh.twoop.mmiotrace -o "$out/twoop.lmb"
	show "$out/lm" replay --device mock:wormhole --check-golden --output d="$out/d.npy" "$out/twoop.lmb"
	say "" "The output is what the vendor's simulator gave when it was recorded; $out/d.npy has it for NumPy."
}

# show COMMAND...: prints a command and runs it.
show() {
	say "\$ $*"
	"$@"
}

# riscv NAME OUT [FLAGS]: one kernel of the tiles; the result is the same to the byte
# wherever Debian's compiler is the same.
riscv() {
	local name=$1 result=$2
	shift 2
	riscv64-unknown-elf-gcc -march=rv32im -mabi=ilp32 -O2 -ffreestanding -nostdlib -Wall -Werror "$@" \
		-Wl,--build-id=none,-n,-s,--no-warn-rwx-segments -T link.ld start.S "$name.c" -o "$result"
	chmod 644 "$result"
}

cmd_kernels() {
	local dir=$PWD/$out/_kernels name
	need riscv64-unknown-elf-gcc gcc-riscv64-unknown-elf || { warn "kernels: $missing is not here"; exit 69; }
	rm -rf "$dir" && mkdir -p "$dir"
	cd testdata/kernels
	# The recordings' programs set the stack pointer where they were recorded to.
	for name in twoop mlp; do riscv $name "$dir/$name.elf" -DSTACK=0xFFB01FF0; done
	for name in sum copy matmul saxpy mcast; do riscv $name "$dir/$name.elf"; done
	for name in noc_copy noc_gather noc_sem noc_start; do
		riscv $name "$dir/${name}_wh.elf"
		riscv $name "$dir/${name}_bh.elf" -DBLACKHOLE
	done
	mkdir "$dir/metal"
	sh metal/src/build.sh "$dir/metal"
	if [[ ${1:-} == --check ]]; then
		for name in *.elf metal/*.elf; do
			cmp "$dir/$name" "$name" || { warn "testdata/kernels is not what its sources make; run ./build.sh kernels"; exit 1; }
		done
	else
		cp "$dir"/*.elf .
		cp "$dir"/metal/*.elf metal
	fi
}

step_kernels() {
	need riscv64-unknown-elf-gcc gcc-riscv64-unknown-elf || skip "$missing is not here"
	cmd_kernels --check
}

# Minimising is bounded: on inputs of some KB it would take the whole time.
cmd_fuzz() {
	local duration=${1:?how long, such as 10m} package target
	for package in $(go list ./...); do
		for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
			say "$package $target"
			go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" -fuzzminimizetime 10x "$package"
		done
	done
}

# A count and not a time: Go's fuzzer calls a run that its time ends in the
# middle of a call a failure ("context deadline exceeded", golang/go#75804, mended in 1.27).
step_fuzz() { cmd_fuzz 50000x; }

cmd_clean() {
	if [[ ${1:-} == --all ]]; then
		rm -rf "$out"
	elif [[ -d $out ]]; then
		find "$out" -mindepth 1 -maxdepth 1 ! -name cache -exec rm -rf {} +
	fi
}

command -v go >/dev/null || { warn "Go is missing; go.mod says which version is needed"; exit 69; }
command=${1:-help}
[[ $# -eq 0 ]] || shift
case $command in
help | -h | --help) help ;;
demo | test | qemu | cross | gen | bench | fuzz | kernels | lint | clean) "cmd_$command" "$@" ;;
*)
	warn "no command $command; ./build.sh help lists them"
	exit 64
	;;
esac
