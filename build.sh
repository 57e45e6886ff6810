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

# The Go whose own runtime steadiness and seal were tried with: runtime/GO.md.
go_tried=go1.26.8

out=build
cache=build/cache
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Bytes of a static arm64 lmrun that the kernel maps, beyond an empty Go program, with one
# backend and with all: what is wanted, and what it may not exceed.
backend_goal=$((400 * 1024)) backend_max=$((377 * 1024))
all_goal=$((460 * 1024)) all_max=$((408 * 1024))

# The build tags that choose one backend, and those that leave a part of lmrun out.
backend_tags=(backend_pci backend_vfio backend_tt)
trim_tags=(norings nowatchdog nojson notiles)

# How Go compiles what ships: inlined only in what verifies and runs, and where that
# is smaller: packages whose variables need no code at start by it, or whose functions
# are little more than their calls. It takes an eighth off the size.
# tools/check/house reads this list.
compiled=(
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

# What is compiled with Go's own flags where those flags are tested.
mocks=(
	-gcflags=lightmetal/hal/mock=
	-gcflags=lightmetal/hal/mock/rv32=
	-gcflags=lightmetal/boards/chips=
	-gcflags=lightmetal/runtime/capi=
)

# Every statement of these is reached by their tests.
covered=(./fbs ./runtime ./runtime/signed ./hal)

# The part of the tree that runs on the target.
target_packages=(./fbs/... ./boards/... ./hal/... ./runtime/...)

help() {
	cat <<'TEXT'
usage: ./build.sh COMMAND

  demo                    a first look: import a capture, look inside, replay it; needs only Go
  test [STEP...]          every check there is, or only the steps named; steps are
                            fmt vet lint gen kernels unit fuzz race arm64 purego cross
                            reproducible recipes guest coverage bench
  record-trials           lm record in the arm64 guest against QEMU's own trace, at length: minutes;
                            and of programs by clang and rustc, where they are installed; with
                            LM_TTKMD=FILE.ko and LM_TTUMD=PROGRAM of a client of Tenstorrent's
                            library
  object-coverage         which instructions and branches of lmrun-arm64, as it ships, the guest
                            reaches, signed and not, on two kinds of processor; build/coverage has
                            more
  soak [FRAMES]           frames through QEMU's NVMe and a served Wormhole, 100000 or so many, with
                            a kill or a fault of the device after every thousand
  qemu IMAGE [--with DEVICE] [FLAGS]
                          replay IMAGE on an arm64 machine under QEMU that has an edu, an ivshmem
                            and an nvme device; FLAGS and exit status are lmrun's; files of -input
                            and -output are this machine's; what the devices kept lies in build/qemu
                            --with mock:wormhole (or ttsim:LIBRARY): on that, which lm serve makes a
                            PCI device of the machine, with a QEMU of 10.1 or later
  cross                   static lmrun and lminit for arm64 and amd64 in build/, with their exact
                            size, and what each build tag saves
  archive [--mock] [--signed]
                          the runtime for firmware in C, in build/: liblightmetal-arm64.a and
                            -amd64.a and lightmetal.h, with their sizes; --mock:
                            liblightmetal-mock-*.a with mock devices, and firmware-*, the example;
                            --signed: with lm_open_signed
  image BOARD [--signed] [FLAGS] IMAGE...
                          what BOARD boots to do nothing but replay, in build/image-BOARD: an
                            initramfs with lminit as PID 1, lmrun, the images and a configuration,
                            and what the boot loader needs; without arguments: the boards, and the
                            FLAGS
  install [PREFIX]        lm, lmrun, what boards get (lib/lightmetal), man pages and completion,
                            into PREFIX, by default /usr/local, below DESTDIR where that is set
  deb                     build/lightmetal_VERSION_ARCH.deb: the same in /usr, the same bytes
                            wherever it is built
  sbom                    build/sbom.spdx.json: what lmrun is linked from, SPDX 2.3;
                            build/lmrun.openvex.json: known vulnerabilities of that, and why they do
                            not matter, OpenVEX 0.2.0
  gen [--check]           Go code from fbs/image.fbs; --check: only compare it with the tree
  bench [--full] [--json] [--write FILE]
                          speed, size and steadiness, beside C, and which goals are met: in under a
                            minute, or all of it in about five; FILE takes the table too
  kernels [--check]       RISC-V kernels of testdata/kernels; --check: only compare them with the
                            tree
  simulate [DURATION | --break N [SEED]]
                          the runner in simulated worlds, of new seeds: random images on devices
                            that fail, on hosts that kill, cut, fill up and jump, in virtual time; a
                            minute if none is named. --break: the code is broken at N places by
                            chance; how many are noticed, and by whom
  fuzz DURATION           every fuzz target for that long, such as 10m, or that often, such as
                            100000x
  lint                    gofmt, go vet, staticcheck
  measure [-tags TAGS]    how many statements target, host tools, checks and tests have, and lmrun
                            with its build tags; -tags: only what lmrun with these tags compiles
  clean [--all]           remove build/; --all: the downloaded kernel in build/cache too
  help                    this text

What a command needs beyond Go it installs, when it is root on Debian. Otherwise it says what is
missing, and `test` says at the end what it skipped for that reason. LM_GUEST_KERNEL=FILE makes
`test` and `qemu` boot another arm64 kernel than Debian's cloud kernel, LM_GUEST_MODULES=FOLDER has
the modules of that kernel for `test`; LM_GUEST_TIMEOUT=10m allows `qemu` more than the one minute a
run may take; LM_QEMU=FILE is the QEMU for served devices.
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

# skips_inside STEP tells how many cases of a step that passed skipped themselves.
skips_inside() {
	local count
	count=$(grep -c "^$1: " "$out/skipped.log" 2>/dev/null) || return 0
	printf ', %d cases skipped' "$count"
}

# lacks REASON: as skip, but as root on Debian, where everything can be fetched,
# it is a failure.
lacks() {
	[[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null || { warn "$*"; exit 1; }
	skip "$*"
}

# run NAME: one step, in a shell of its own so that its failure ends only it.
passed=() failed=() skips=()
run() {
	local name=$1 status=0 start=$SECONDS step_name=$1
	say "== $name"
	set +e
	(
		set -e
		"step_$name"
	) 2>&1 | tee "$out/step.log"
	status=${PIPESTATUS[0]}
	set -e
	case $status in
	0) passed+=("$name ($((SECONDS - start)) s)$(skips_inside "$name")") ;;
	$skipped) skips+=("$name: $(sed -n 's/^skipped: //p' "$out/step.log" | tail -1)") ;;
	*) failed+=("$name") ;;
	esac
}

cmd_test() {
	local steps=("$@") before step
	[[ $# -gt 0 ]] || steps=(
		fmt vet lint gen kernels unit fuzz race arm64 purego cross reproducible recipes guest
		coverage bench
	)
	for step in "${steps[@]}"; do
		declare -F "step_$step" >/dev/null ||
			{ warn "no step $step; ./build.sh help lists them"; exit 64; }
	done
	mkdir -p "$out"
	rm -f "$out"/unit.log "$out"/fuzz.log "$out"/skipped.log "$out"/coverage.txt "$out"/times.log
	before=$(tree)
	for step in "${steps[@]}"; do run "$step"; done
	same_tree "$before"
	evidence
	slowest
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
	if [[ -s $out/skipped.log ]]; then
		say "skipped  $(wc -l <"$out/skipped.log") cases, inside of steps:"
		sed 's/^/           /' "$out/skipped.log"
	fi
	for line in "${failed[@]}"; do say "FAILED   $line"; done
	say "in all   $SECONDS s"
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
	go vet -tags mock,signed ./runtime/capi ./tools/lmrun
}

step_gen() {
	need flatc flatbuffers-compiler || skip "$missing is not here"
	cmd_gen --check
}

step_unit() {
	local all=1
	c_compiler || { say "without $missing, tests that compile C skip themselves"; all=; }
	need g++ g++ || { say "without $missing, the C header is not tried with C++"; all=; }
	need aarch64-linux-gnu-objdump binutils-aarch64-linux-gnu ||
		{ say "without $missing, the recorder's decoder of arm64 is not compared with it"; all=; }
	need qemu-aarch64-static qemu-user-static ||
		{ say "without $missing, tests that run foreign programs skip themselves"; all=; }
	need strace strace ||
		{ say "without $missing, tests that count system calls skip themselves"; all=; }
	need flatc flatbuffers-compiler ||
		{ say "without $missing, tests that read images by other means skip themselves"; all=; }
	# With everything there, a test that skips itself for want of it has failed.
	[[ -z $all ]] || export LM_TEST_REQUIRED=1
	tell -cover "${covered[@]}"
	tell $(go list ./... | grep -vxF -f <(go list "${covered[@]}"))
	fully_covered
	tests -timeout 10m -tags nolightmetal ./tools/metal
}

# tests FLAGS AND PACKAGES: go test, whose log is left in tests.log. Shown are
# results, and all of it on failure; cases that skip themselves are kept for the summary.
tests() {
	local log=$out/tests.log status
	set +e
	go test -timeout 20m -v "$@" 2>&1 | tee "$log" |
		grep --line-buffered -E '^(ok|FAIL|panic)|^ *--- FAIL'
	status=${PIPESTATUS[0]}
	set -e
	[[ $status -eq 0 ]] || failures "$log"
	cases_skipped "$log" >>"$out/skipped.log"
	times "$log" >>"$out/times.log"
	return $status
}

# tell is tests, whose log, with what tests tell of their evidence, is added to unit.log.
tell() {
	local status=0
	tests "$@" || status=$?
	cat "$out/tests.log" >>"$out/unit.log"
	return $status
}

# cases_skipped prints each case of a log that skipped itself, and why.
cases_skipped() {
	awk -v step="$step_name" '/^=== / { why = "" }
		/_test\.go:[0-9]+: / { why = $0; sub(/^.*_test\.go:[0-9]+: /, "", why) }
		/^ *--- SKIP: / { print step ": " $3 (why == "" ? "" : ": " why); why = "" }' "$1"
}

# times prints the seconds, step, package and name of each test of a log.
times() {
	awk -v step="$step_name" '
		/^--- (PASS|FAIL): / {
			seconds = $4
			gsub(/[()s]/, "", seconds)
			list[++n] = seconds "\t" $3
		}
		/^(ok|FAIL)[ \t]/ {
			for (i = 1; i <= n; i++) {
				split(list[i], t, "\t")
				print t[1] "\t" step "\t" $2 "\t" t[2]
			}
			n = 0
		}' "$1"
}

# slowest prints the ten tests that took longest.
slowest() {
	[[ -s $out/times.log ]] || return 0
	say "== slowest tests"
	sort -rn "$out/times.log" |
		awk -F '\t' 'NR <= 10 { printf "%8.1f s  %-8s %s %s\n", $1, $2, $3, $4 }'
}

# failures prints what a log has of tests that failed, panicked or did not compile:
# of a test at most its first 60 lines, so that those of others are found.
failures() {
	awk '
		/^=== RUN/ { text = ""; n = 0 }
		/^(panic:|fatal error:|SIG|#)/ { all = 1 }
		all { print }
		++n <= 60 { text = text substr($0, 1, 1000) "\n" }
		/^ *--- PASS/ { text = ""; n = 0 }
		/^ *--- FAIL/ {
			printf "%s%s", text, (n > 60 ? "  ... " n - 60 " lines more\n" $0 "\n" : "")
			text = ""
			n = 0
		}
		/^(ok|FAIL)/ { all = 0 }' "$1"
}

# fully_covered holds the packages an assessor reads at 100 % of statements.
fully_covered() {
	local package
	for package in $(go list "${covered[@]}"); do
		grep -qP "^ok\s+\Q$package\E\s.*coverage: 100.0% of statements" "$out/unit.log" ||
			{
				warn "$package: tests do not reach every statement;" \
					"go test -coverprofile shows which"
				return 1
			}
	done
}

# evidence adds up what the tests tell: lines `evidence: N what (detail)`.
evidence() {
	touch "$out/unit.log" "$out/fuzz.log"
	say "== evidence"
	sed -n 's/^.*evidence: \([0-9]*\) \([^(]*[^( ]\).*$/\1\t\2/p' "$out/unit.log" 2>/dev/null |
		awk -F '\t' '{ sum[$2] += $1 }
			END { for (what in sum) printf "%12d %s\n", sum[what], what }' | sort -k2
	sed -n 's/^ok\s*\(\S*\)\s.*coverage: \(100.0%.*\)$/\1: \2 covered/p' "$out/unit.log" 2>/dev/null
	sed -n 's/^fuzzed: //p' "$out/fuzz.log" 2>/dev/null
	[[ ! -f $out/coverage.txt ]] || sed -n '/^of these/,/^$/p' "$out/coverage.txt"
}

step_race() {
	c_compiler || skip "$missing is not here"
	CGO_ENABLED=1 tests -race -timeout 10m "${target_packages[@]}" \
		./tools/image/lmb/... ./tools/image/listing/... ./tools/capture/importer/...
}

step_arm64() {
	need qemu-aarch64-static qemu-user-static || skip "$missing is not here"
	# Mocks do not ship, and allocate nothing only as Go compiles them.
	CGO_ENABLED=0 GOARCH=arm64 tests -timeout 20m "${compiled[@]}" "${mocks[@]}" \
		-exec qemu-aarch64-static "${target_packages[@]}"
	cross_compiler arm64 || {
		say "$step_name: ./runtime/capi: no C compiler for arm64: $missing" >>"$out/skipped.log"
		return
	}
	# The tag leaves out the tests that make archives.
	CGO_ENABLED=1 CC=$cc GOARCH=arm64 tests -tags emulated "${mocks[@]}" \
		-exec "qemu-aarch64-static -L /usr/aarch64-linux-gnu" ./runtime/capi
}

step_purego() {
	go vet -tags purego "${target_packages[@]}"
	tests -timeout 10m -tags purego "${target_packages[@]}"
}

step_cross() { cmd_cross; }

step_guest() {
	need qemu-system-aarch64 qemu-system-arm || skip "$missing is not here"
	kernel || skip "no arm64 kernel: $missing"
	build_guest
	go build -o "$out/lm" ./tools/lm
	cross_compiler arm64 || skip "no C compiler for arm64: $missing"
	archive arm64 "$out/liblightmetal-mock-arm64.a" mock
	firmware "$out/firmware-arm64" "$out/liblightmetal-mock-arm64.a"
	full_kernel || skip "no arm64 kernel with a watchdog: $missing"
	need_uboot || skip "no U-Boot for QEMU: $missing"
	new_qemu || lacks "$missing"
	say "served devices: $("$new_qemu" --version | head -1)"
	new_kernel || lacks "no arm64 kernel with an IOMMU for served devices: $missing"
	for_guests
	export LM_GUEST_FIRMWARE=$PWD/$out/firmware-arm64
	programs || lacks "$missing"
	export LM_GUEST_PROGRAMS=$programs
	LM_GUEST_REQUIRED=1 LM_GUEST_KERNEL=$kernel \
		LM_GUEST_LMRUN=$PWD/$out/lmrun-arm64 LM_GUEST_LM=$PWD/$out/lm \
		tell -count=1 -timeout 40m -skip "$shipped" ./tools/check/guest
}

# What step_coverage runs of the tests whose own subject is the program as it ships, by each
# instruction of it. object-coverage runs all, ^TestShipped; step_guest those that step_coverage
# does not.
shipped='^TestShipped(Verifier|ProgramGoes)'

# step_coverage is object-coverage of one program on one kind of processor.
step_coverage() {
	need qemu-system-aarch64 qemu-system-arm || skip "$missing is not here"
	kernel || skip "no arm64 kernel: $missing"
	full_kernel || skip "no arm64 kernel with a watchdog: $missing"
	new_qemu || lacks "$missing"
	new_kernel || lacks "no arm64 kernel with an IOMMU for served devices: $missing"
	for_guests
	rm -rf "$coverage"/seen*
	cover arm64 cortex-a72 "$shipped"
	"$coverage/coverage" "$coverage/lmrun-arm64=$coverage/seen-arm64-cortex-a72" |
		tee "$out/coverage.txt"
}

# cover PROGRAM CPU TESTS: tests of the guest while QEMU reports which instructions of
# lmrun-PROGRAM ran, which is what cross makes. PID 1 is linked to lie elsewhere.
coverage=$out/coverage
cover() {
	local seen=$PWD/$coverage/seen-$1-$2 tags=""
	[[ $1 != signed-* ]] || tags=" -tags=signed"
	mkdir -p "$seen"
	GOFLAGS+=$tags static arm64 "$coverage/lmrun-$1" ./tools/lmrun
	static arm64 "$coverage/lminit-$1" ./tools/lminit -ldflags "-s -w -T=0x40001000"
	go build -o "$out/lm" ./tools/lm
	go build -o "$coverage/coverage" ./tools/check/coverage
	LM_GUEST_COVERAGE=$seen LM_GUEST_CPU=$2 LM_GUEST_SIGNED=$tags LM_GUEST_REQUIRED=1 \
		LM_GUEST_KERNEL=$kernel LM_GUEST_LMRUN=$PWD/$coverage/lmrun-$1 LM_GUEST_LM=$PWD/$out/lm \
		tests -count=1 -timeout 2h -run "$3" ./tools/check/guest
}

# machines is what guests of every kind take: kernels, their modules and a new QEMU.
machines() {
	need qemu-system-aarch64 qemu-system-arm && kernel && full_kernel && new_qemu && new_kernel ||
		{ warn "$1: $missing"; exit 69; }
	for_guests
}

# for_guests tells tests where these are.
for_guests() {
	export LM_GUEST_QEMU=$new_qemu LM_GUEST_MODULES=$modules
	export LM_GUEST_NEW_KERNEL=$new_kernel LM_GUEST_NEW_MODULES=$new_modules
	export LM_GUEST_FULL_KERNEL=$full_kernel LM_GUEST_FULL_MODULES=$full_modules
}

# cmd_object-coverage: both kinds of program, and both of processor.
cmd_object-coverage() {
	local program cpu status=0 step_name=object-coverage all=()
	[[ $# -eq 0 ]] || { warn "object-coverage takes no arguments"; exit 64; }
	machines object-coverage
	# A commit during the run must not change the version in lmrun: the next run of the same
	# program would be recorded as that of another one.
	export LM_REVISION=$(revision)
	rm -rf "$coverage"
	while read -r program cpu; do
		say "lmrun-$program on $cpu"
		cover "$program" "$cpu" ^TestShipped </dev/null || status=1
		all+=("$coverage/lmrun-$program=$coverage/seen-$program-$cpu")
	done <<<$'arm64 max\narm64 cortex-a72\nsigned-arm64 cortex-a72'
	"$coverage/coverage" -json "${all[@]}" >"$coverage/coverage.json"
	"$coverage/coverage" -left "${all[@]}" >"$coverage/left.txt"
	"$coverage/coverage" -held tools/check/coverage/left.txt "${all[@]}" || status=1
	[[ -z ${LM_TTKMD:-} ]] ||
		say "this run had the vendor's driver: only a run without it may shrink the list"
	return $status
}

cmd_soak() {
	[[ ${1:-1} =~ ^[1-9][0-9]*$ && $# -le 1 ]] || { warn "soak takes a number of frames"; exit 64; }
	machines soak
	build_guest
	go build -o "$out/lm" ./tools/lm
	LM_SOAK_FRAMES=${1:-100000} LM_SOAK_TIME=72h LM_GUEST_REQUIRED=1 LM_GUEST_KERNEL=$kernel \
		LM_GUEST_LMRUN=$PWD/$out/lmrun-arm64 LM_GUEST_LM=$PWD/$out/lm \
		go test -count=1 -v -timeout 0 -run TestFramesBearKillsAndFaults ./tools/check/guest
}

# kernel leaves the path of an arm64 kernel in $kernel and of the folder with its
# modules, all in one level, in $modules: the user's, or those of Debian's cloud
# kernel, whose name changes with every update and so is looked up. The lists of
# another architecture stay out of this system's own.
kernel= modules=
kernel() {
	kernel=${LM_GUEST_KERNEL:-$PWD/$cache/vmlinuz-arm64} modules=${LM_GUEST_MODULES:-}
	[[ $kernel == /* ]] || kernel=$start_dir/$kernel
	[[ -z $modules || $modules == /* ]] || modules=$start_dir/$modules
	missing="$kernel is not there"
	if [[ -n ${LM_GUEST_KERNEL:-} ]]; then [[ -s $kernel ]]; return; fi
	# A module fits the kernel it was built with and no other.
	modules=$PWD/$cache/modules-arm64
	[[ -s $kernel && -s $modules/uio.ko ]] && return
	fetch_kernel linux-image-cloud-arm64 "$kernel" "$modules"
}

# full_kernel is kernel for Debian's standard one, which has a driver for the
# watchdog that QEMU models.
full_kernel() {
	full_kernel=${LM_GUEST_FULL_KERNEL:-$PWD/$cache/vmlinuz-full-arm64}
	full_modules=${LM_GUEST_FULL_MODULES:-$PWD/$cache/modules-full-arm64}
	[[ -s $full_kernel && -d $full_modules ]] && return
	missing="$full_kernel or $full_modules is not there"
	[[ -z ${LM_GUEST_FULL_KERNEL:-}${LM_GUEST_FULL_MODULES:-} ]] || return 1
	fetch_kernel linux-image-arm64 "$full_kernel" "$full_modules"
}
full_kernel= full_modules=

# new_kernel is kernel for Debian 13's cloud kernel, which has a driver for the
# IOMMU that QEMU can put in front of a served device.
new_kernel() {
	new_kernel=$PWD/$cache/vmlinuz-new-arm64 new_modules=$PWD/$cache/modules-new-arm64
	[[ -s $new_kernel && -e $new_modules/uio.ko ]] && return
	fetch_kernel linux-image-cloud-arm64 "$new_kernel" "$new_modules" trixie
}
new_kernel= new_modules=

# fetch_kernel METAPACKAGE KERNEL MODULES [SUITE], without which it is the system's
fetch_kernel() {
	missing="set LM_GUEST_KERNEL; only Debian's own can be downloaded, with apt-get and dpkg-deb"
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
	missing="it could not be downloaded; see $out/apt.log"
	mkdir -p "$out" "$cache/apt/$1${4:+-$4}"
	unpack_kernel "$@" >>"$out/apt.log" 2>&1 ||
		{ download_kernel "$1" "${4:-}" && unpack_kernel "$@"; } >>"$out/apt.log" 2>&1
}

# debian is where this system's packages come from, if it is Debian.
debian() {
	apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
		sed -n 's/^Debian Debian //p' | head -1 |
		grep . || { echo "this system's packages are not Debian's"; return 1; }
}

# download_kernel METAPACKAGE SUITE, which is empty for the system's
download_kernel() {
	local apt=$PWD/$cache/apt name uri
	local lists=$apt/lists${2:+-$2} folder=$apt/$1${2:+-$2}
	mkdir -p "$lists/partial" "$apt/archives/partial"
	local options=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64
		-o APT::Sandbox::User=root -o Dir::State::lists="$lists" -o Dir::Cache="$apt")
	if [[ -n $2 ]]; then
		uri=$(debian) && echo "deb $uri $2 main" >"$apt/$2.list" || return
		options+=(-o Dir::Etc::SourceList="$apt/$2.list" -o Dir::Etc::SourceParts=/dev/null)
	fi
	apt-get "${options[@]}" update || return
	name=$(apt-cache "${options[@]}" depends "$1" |
		sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -1)
	[[ -n $name ]] || { echo "$1 depends on no kernel"; return 1; }
	rm -f "$folder"/*.deb
	(cd "$folder" && apt-get "${options[@]}" download "$name")
}

# programs leaves Debian's arm64 programs that drive devices themselves, and all
# they are linked to, in $programs.
programs=$PWD/$cache/programs-arm64
programs() {
	[[ ! -e $programs/usr/bin/memtool || ! -e $programs/usr/bin/qemu-system-aarch64 ]] || return 0
	missing="programs of Debian's could not be downloaded; see $out/apt.log"
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
	mkdir -p "$out" "$cache/apt/programs"
	download_programs >>"$out/apt.log" 2>&1
}

# download_programs has apt find out what qemu-io, testpmd, memtool and a QEMU of
# the guest's own need on a machine that has nothing.
download_programs() {
	local apt=$PWD/$cache/apt into=$PWD/$cache/apt/programs package
	mkdir -p "$apt/lists/partial" "$into/archives/partial" && : >"$into/status"
	local options=(-q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64
		-o APT::Sandbox::User=root -o Dir::State::lists="$apt/lists" -o Dir::Cache="$into"
		-o Dir::State::status="$into/status")
	apt-get "${options[@]}" update || return
	apt-get "${options[@]}" --download-only --no-install-recommends install \
		qemu-utils dpdk-dev memtool qemu-system-arm || return
	rm -rf "$programs.part" && mkdir -p "$programs.part" || return
	for package in "$into"/archives/*.deb; do
		# Packages without any of these fail.
		dpkg-deb --fsys-tarfile "$package" |
			tar -x -C "$programs.part" --no-same-owner --wildcards '*/bin/qemu-io' \
				'*/bin/dpdk-testpmd' '*/bin/memtool' '*/bin/qemu-system-aarch64' \
				'*.so' '*.so.*' 2>/dev/null || true
	done
	rm -rf "$into/archives" "$programs"
	mv "$programs.part" "$programs"
}

# unpack_kernel takes the kernel and its modules of VFIO, UIO, of IOMMUs and of
# watchdogs out of the package. The modules' folder comes last: where it is, all
# of it is there.
unpack_kernel() {
	local part=$cache/modules.part
	local wanted=('./boot/vmlinuz-*' '*/drivers/vfio/*.ko*' '*/drivers/uio/*.ko*'
		'*/drivers/watchdog/*.ko*')
	# Debian 12's kernel has no IOMMU driver as a module, and tar fails if a pattern matches
	# nothing.
	[[ -z ${4:-} ]] || wanted+=('*/drivers/iommu/*.ko*')
	rm -rf "$part" "$3" && mkdir -p "$part" || return
	dpkg-deb --fsys-tarfile "$cache/apt/$1${4:+-$4}"/*.deb |
		tar -x -C "$part" --no-same-owner --transform 's|.*/||' --wildcards "${wanted[@]}" || return
	find "$part" -name '*.xz' -exec xz -d {} + || return
	mv "$part"/vmlinuz-* "$2" && mv "$part" "$3"
}

# new_qemu leaves in $new_qemu a QEMU that shows a served device (lm serve): the
# user's, the system's where that is 10.1 or later, or the one of Debian's
# backports to trixie. That is unpacked into the cache, not installed, and runs
# with its own libraries.
new_qemu=
new_qemu() {
	new_qemu=${LM_QEMU:-$(command -v qemu-system-aarch64)}
	[[ -z $new_qemu || $new_qemu == /* ]] || new_qemu=$start_dir/$new_qemu
	missing="LM_QEMU=$new_qemu has no vfio-user-pci; it takes QEMU 10.1"
	shows_served && return
	[[ -z ${LM_QEMU:-} ]] || return 1
	new_qemu=$PWD/$cache/qemu/qemu-system-aarch64
	missing="set LM_QEMU to a QEMU of 10.1 or later; "
	missing+="only Debian's can be downloaded, with apt-get and dpkg-deb"
	[[ -x $new_qemu ]] && return
	command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
	missing="QEMU 10.1 or later could not be downloaded; see $out/apt.log"
	say "fetching a QEMU with vfio-user into $cache/qemu"
	fetch_qemu >>"$out/apt.log" 2>&1 && shows_served
}

# shows_served queries one device: a list of all loads QEMU's modules, the system's of another
# version among them.
shows_served() {
	[[ -n $new_qemu ]] && "$new_qemu" -M virt -device vfio-user-pci,help 2>&1 |
		grep '^vfio-user-pci options' >/dev/null
}

# fetch_qemu takes the packages from where the system's own come from. The
# program, whose name comes last, is there when all of it is.
fetch_qemu() {
	local apt=$PWD/$cache/apt/qemu root=$PWD/$cache/qemu uri deb libraries loader
	uri=$(debian) || return
	rm -rf "$root" && mkdir -p "$root" "$apt/lists/partial" "$apt/archives/partial" || return
	printf 'deb %s trixie main\ndeb %s trixie-backports main\n' "$uri" "$uri" >"$apt/sources.list"
	: >"$apt/status" # nothing is installed there: all of it is wanted
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

# static GOARCH OUTPUT PACKAGE: what ships, the same bytes wherever it is built.
static() { plain "$@" "${compiled[@]}"; }

# plain GOARCH OUTPUT PACKAGE [FLAGS]
plain() {
	CGO_ENABLED=0 GOOS=linux GOARCH=$1 go build -trimpath \
		-ldflags "-s -w -X 'main.version=${3##*/} $(version)'" "${@:4}" -o "$2" "$3"
}

# revision prints the commit of the tree. LM_REVISION replaces it, for trees outside of git.
revision() {
	local revision=${LM_REVISION:-}
	if [[ -z $revision && -e .git ]] && revision=$(git rev-parse --short=12 HEAD 2>/dev/null); then
		git diff --quiet HEAD 2>/dev/null || revision+=-modified
	fi
	printf '%s' "$revision"
}

# version prints the version of a program: its number, its revision and its build tags.
number=0.1
version() {
	local revision tags
	revision=$(revision)
	tags=$(sed -n 's/.*-tags=\([^ ]*\).*/, tags \1/p' <<<"$GOFLAGS")
	printf '%s (%s%s)' "$number" "${revision:-no revision}" "$tags"
}

build_guest() {
	mkdir -p "$out"
	static arm64 "$out/lmrun-arm64" ./tools/lmrun
	static arm64 "$out/lminit-arm64" ./tools/lminit
	go build -o "$out/guest" ./tools/check/guest
}

cmd_cross() {
	local arch tag empty size files all=0 most=0 status=0
	mkdir -p "$out/_empty"
	echo 'package main

func main() {}' >"$out/_empty/main.go"
	for arch in arm64 amd64; do
		empty=$out/_empty/empty-$arch
		plain $arch "$empty" "./$out/_empty/main.go"
		static $arch "$out/lmrun-$arch" ./tools/lmrun
		static $arch "$out/lminit-$arch" ./tools/lminit
		size=$(beyond "$out/lmrun-$arch" "$empty")
		files="$(wc -c <"$out/lmrun-$arch") and $(wc -c <"$empty")"
		say "lmrun-$arch: $size bytes beyond an empty Go program; the files have $files"
		[[ $arch != arm64 ]] || all=$size
	done
	for tag in "${backend_tags[@]}"; do
		size=$(tagged_size "$tag")
		say "lmrun-arm64 with -tags $tag: $size bytes beyond"
		most=$((size > most ? size : most))
	done
	savings "$all"
	at_most "all backends" "$all" $all_max $all_goal || status=1
	at_most "one backend" $most $backend_max $backend_goal || status=1
	return $status
}

# tagged_size TAGS: the exact size of an arm64 lmrun with build tags. cmd_cross has made the
# empty program.
tagged_size() {
	GOFLAGS+=" -tags=$1" static arm64 "$out/_empty/lmrun-$1" ./tools/lmrun
	beyond "$out/_empty/lmrun-$1" "$out/_empty/empty-arm64"
}

# savings BYTES: what each tag that leaves a part out saves of lmrun-arm64, which has BYTES.
savings() {
	local tag all bytes count
	all=$(statements "")
	for tag in "${trim_tags[@]}"; do
		bytes=$(($1 - $(tagged_size "$tag"))) count=$((all - $(statements "$tag")))
		say "lmrun-arm64 with -tags $tag: $bytes bytes and $count statements less"
	done
}

# beyond PROGRAM EMPTY: code and data of one beyond the other's, exactly.
beyond() { go run ./tools/check/bench -beyond "$1" "$2"; }

# at_most WHAT BYTES LIMIT GOAL
at_most() {
	say "lmrun-arm64, $1: $2 bytes, limit $3, goal $4"
	[[ $2 -le $3 ]] || { warn "lmrun-arm64, $1, is $(($2 - $3)) bytes too large"; return 1; }
}

# cross_compiler GOARCH leaves the name of a C compiler for it in $cc.
cc=
cross_compiler() {
	local triple=aarch64-linux-gnu
	[[ $1 == arm64 ]] || triple=x86_64-linux-gnu
	cc=gcc
	if [[ $1 == "$(go env GOHOSTARCH)" ]]; then
		c_compiler
	else
		cc=$triple-gcc
		need $cc "gcc-${triple//_/-}" && need /usr/$triple/include/stdlib.h "libc6-dev-$1-cross"
	fi
}

# archive GOARCH OUTPUT [TAGS]: the C archive, the same bytes from any folder. It is compiled as
# Go does: without inlining it is 33 KB of 2.7 MB smaller, and calls were slower. fbs, hal and
# runtime are alike in both.
archive() {
	CGO_ENABLED=1 CC=$cc CGO_CFLAGS=-O2 GOOS=linux GOARCH=$1 go build -buildmode=c-archive \
		-trimpath -ldflags "-s -w -buildid=" -tags "${3:-}" -o "$2" ./runtime/capi
	rm -f "${2%.a}.h" # what cgo declares; lightmetal.h is for people
}

# firmware OUTPUT [ARCHIVE]: the example of testdata/firmware, or a program of
# that compiler without the archive.
firmware() {
	local source=$out/_empty/main.c
	[[ $# -eq 1 ]] || source=testdata/firmware/main.c
	mkdir -p "$out/_empty" && echo 'int main(void) { return 0; }' >"$out/_empty/main.c"
	"$cc" -std=c11 -O2 -Wall -Wextra -Werror -static -s -I runtime/capi -o "$1" "$source" \
		"${@:2}" -lpthread
}

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
		cross_compiler $arch || { warn "archive: $missing is not here"; exit 69; }
		archive $arch "$out/$name-$arch.a" "${tags#,}"
		firmware "$example-$arch" "$out/$name-$arch.a"
		firmware "$out/_empty/c-$arch"
		say "$name-$arch.a: $(wc -c <"$out/$name-$arch.a") bytes;" \
			"  the firmware of testdata/firmware, static and stripped:" \
			"  $(wc -c <"$example-$arch") bytes, an empty C program $(wc -c <"$out/_empty/c-$arch")"
	done
}

# need_uboot leaves U-Boot for QEMU's arm64 machine in LM_GUEST_UBOOT; mkimage,
# which packs what it boots, runs dtc.
need_uboot() {
	export LM_GUEST_UBOOT=/usr/lib/u-boot/qemu_arm64/u-boot.bin
	need mkimage u-boot-tools && need dtc device-tree-compiler && need "$LM_GUEST_UBOOT" u-boot-qemu
}

cmd_image() {
	local board=${1:-} here=$PWD tags=
	mkdir -p "$out"
	go build -o "$out/bootimage" ./tools/ship/bootimage
	if [[ -z $board || $board == -* ]]; then
		warn "usage: ./build.sh image BOARD [--signed] [FLAGS] IMAGE.lmb..." \
			"$("$out/bootimage" boards)"
		"$out/bootimage" image --help || true
		exit 64
	fi
	shift
	local program word words=()
	for word; do
		if [[ $word == --signed ]]; then tags=" -tags=signed"; else words+=("$word"); fi
	done
	set -- "${words[@]}"
	if [[ -n $tags && " $*" != *" --key"* && " $*" != *" --config"* ]]; then
		warn "image: --signed without a key checks no signature: name the file of public keys on" \
			"the board by --key /keys.pub, and pack it by --add FILE.pub=/keys.pub" \
			"(\`lm sign --new-key\` makes FILE.pub); or use a --config with a key line for each" \
			"image"
		exit 64
	fi
	for program in lmrun lminit; do
		GOFLAGS+=$tags static arm64 "$out/image-programs/arm64/$program" ./tools/$program
		GOFLAGS+=$tags static "$(go env GOARCH)" "$out/image-programs/$program" ./tools/$program
	done
	if [[ " $*" == *" "-dtb* || " $*" == *" "--dtb* ]]; then
		need mkimage u-boot-tools && need dtc device-tree-compiler ||
			{ warn "image: $missing is not here"; exit 69; }
	fi
	cd "$start_dir"
	local programs=$here/$out/image-programs
	"$here/$out/bootimage" image --board "$board" --lmrun "$programs/arm64/lmrun" \
		--lminit "$programs/arm64/lminit" --verifier "$programs/lminit" \
		--out "$here/$out/image-$board" "$@"
}

# tools_into PREFIX: what is installed, with modes of its own whatever the umask is.
tools_into() {
	local prefix=$1 made=$out/_install arch name
	rm -rf "$made" && mkdir -p "$made/man"
	for arch in arm64 amd64; do
		static $arch "$made/lmrun-$arch" ./tools/lmrun
		static $arch "$made/lminit-$arch" ./tools/lminit
	done
	plain "$(go env GOARCH)" "$made/lm" ./tools/lm
	# The pages have a date, which is to be the same in every build.
	SOURCE_DATE_EPOCH=0 "$made/lm" man "$made/man"
	{
		printf '.TH LMRUN 1 "" "lmrun %s"\n' "$number"
		printf '.SH NAME\nlmrun \\- replay a Light Metal binary on a device\n'
		printf '.SH DESCRIPTION\n.nf\n'
		"$made/lmrun-$(go env GOARCH)" -help | sed "s/[\\\\]/&&/g; s/^[.']/\\\\\\&&/; s/-/\\\\-/g"
		printf '.fi\n'
	} >"$made/man/lmrun.1"
	"$made/lm" completion bash >"$made/bash"
	"$made/lm" completion zsh >"$made/zsh"
	"$made/lm" completion fish >"$made/fish"
	install -d -m 755 "$prefix" "$prefix/bin" "$prefix/lib/lightmetal" \
		"$prefix/share/man/man1" "$prefix/share/bash-completion/completions" \
		"$prefix/share/zsh/site-functions" "$prefix/share/fish/vendor_completions.d"
	install -m 755 "$made/lm" "$prefix/bin/lm"
	install -m 755 "$made/lmrun-$(go env GOARCH)" "$prefix/bin/lmrun"
	install -m 755 "$made"/lmrun-* "$made"/lminit-* "$prefix/lib/lightmetal"
	install -m 644 "$made"/man/*.1 "$prefix/share/man/man1"
	install -m 644 "$made/bash" "$prefix/share/bash-completion/completions/lm"
	install -m 644 "$made/zsh" "$prefix/share/zsh/site-functions/_lm"
	install -m 644 "$made/fish" "$prefix/share/fish/vendor_completions.d/lm.fish"
}

cmd_install() {
	[[ $# -le 1 && ${1-/} == [!-]* ]] || { warn "install takes a PREFIX"; exit 64; }
	local prefix=${1:-/usr/local}
	[[ $prefix == /* ]] || prefix=$start_dir/$prefix
	unset -f install # which installs packages, above
	mkdir -p "$out"
	mkdir -p "${DESTDIR:-}$prefix" 2>/dev/null && [[ -w ${DESTDIR:-}$prefix ]] ||
		{
			warn "install: ${DESTDIR:-}$prefix is not writable; name another folder, or become root"
			exit 77
		}
	tools_into "${DESTDIR:-}$prefix"
	say "$prefix: bin/lm, bin/lmrun, lib/lightmetal for boards, man pages and completion"
}

cmd_deb() {
	local arch root=$PWD/$out/_deb file
	command -v dpkg-deb >/dev/null || { warn "deb: dpkg-deb is not here"; exit 69; }
	unset -f install
	arch=$(go env GOARCH)
	file=$out/lightmetal_${number}_$arch.deb
	rm -rf "$root" && mkdir -p "$root"
	tools_into "$root/usr"
	install -d -m 755 "$root/DEBIAN" && chmod 755 "$root"
	cat >"$root/DEBIAN/control" <<-TEXT
		Package: lightmetal
		Version: $number
		Architecture: $arch
		Maintainer: lightmetal <maintainers@lightmetal.invalid>
		Section: devel
		Priority: optional
		Description: replay an accelerator workload from one file
		 lm makes, checks and replays Light Metal binaries; lmrun replays them on a target.
	TEXT
	chmod 644 "$root/DEBIAN/control"
	find "$root" -exec touch -h -d @0 {} +
	SOURCE_DATE_EPOCH=0 dpkg-deb --root-owner-group -Zgzip --build "$root" "$file" >/dev/null
	say "$file: $(wc -c <"$file") bytes"
}

cmd_sbom() {
	local arch
	mkdir -p "$out"
	for arch in arm64 amd64; do static $arch "$out/lmrun-$arch" ./tools/lmrun; done
	go run ./tools/ship/bootimage sbom --name lmrun "$out/lmrun-arm64" "$out/lmrun-amd64" \
		>"$out/sbom.spdx.json"
	cp runtime/vex.openvex.json "$out/lmrun.openvex.json"
	say "$out/sbom.spdx.json" "$out/lmrun.openvex.json"
}

# deliver builds what is delivered, in a copy of the tree.
deliver() {
	if command -v dpkg-deb >/dev/null; then ./build.sh deb || return; fi
	./build.sh sbom || return
	./build.sh image qemu-virt --device pci:1234:11e8 --seal testdata/images/edu.lmb || return
	if cross_compiler arm64; then ./build.sh archive || return; fi
}

delivered='lmrun-arm64 lmrun-amd64 sbom.spdx.json lmrun.openvex.json'
delivered+=' liblightmetal-*.a image-qemu-virt lightmetal_*.deb'

# step_reproducible builds twice: in folders of another name and depth, with
# nothing in common but Go, its downloaded modules and the compilers.
step_reproducible() {
	local both=$PWD/$out/_twice side
	[[ ! -d $both ]] || { chmod -R u+w "$both" && rm -rf "$both"; }
	for side in one "two/and a bit further"; do
		mkdir -p "$both/$side" || return
		tar -c --exclude=./build --exclude=./.git . | tar -x -C "$both/$side" || return
	done
	(cd "$both/one" && TZ=UTC LC_ALL=C deliver >"$both/one.log" 2>&1) ||
		{ cat "$both/one.log"; return 1; }
	mkdir -p "$both/home" "$both/tmp"
	(
		cd "$both/two/and a bit further"
		export GOMODCACHE=$(go env GOMODCACHE) HOME=$both/home GOCACHE=$both/home/cache
		export TMPDIR=$both/tmp TZ=Asia/Kolkata LC_ALL=C.UTF-8
		umask 077
		deliver >"$both/two.log" 2>&1
	) || { cat "$both/two.log"; return 1; }
	same_delivery "$both/one/$out" "$both/two/and a bit further/$out" || return
	chmod -R u+w "$both" && rm -rf "$both"
}

step_recipes() {
	local tool
	for tool in "systemd-analyze systemd" "rauc rauc" "mksquashfs squashfs-tools" \
		"swupdate swupdate" "cpio cpio" "openssl openssl"; do
		need $tool || skip "$missing is not here"
	done
	local program
	local programs=$PWD/$out/recipes-programs
	for program in lmrun lminit; do
		GOFLAGS+=" -tags=signed" static "$(go env GOARCH)" "$programs/$program" ./tools/$program
	done
	testdata/recipes/check.sh "$programs/lmrun" "$PWD/testdata/images/edu.lmb" "$PWD/$out/_recipes"
}

# same_delivery DIR DIR
same_delivery() {
	local list=() name status=0
	list=($(cd "$1" && find $delivered -type f | LC_ALL=C sort))
	diff <(cd "$1" && find $delivered | LC_ALL=C sort) \
		<(cd "$2" && find $delivered | LC_ALL=C sort) || status=1
	for name in "${list[@]}"; do
		cmp "$1/$name" "$2/$name" || status=1
	done
	say "${#list[@]} files of two builds compared"
	return $status
}

cmd_record-trials() {
	need qemu-system-aarch64 qemu-system-arm ||
		{ warn "record-trials: $missing is not here"; exit 69; }
	kernel || { warn "record-trials: no arm64 kernel: $missing"; exit 69; }
	cross_compiler arm64 || { warn "record-trials: no C compiler for arm64: $missing"; exit 69; }
	full_kernel || { warn "record-trials: no full arm64 kernel: $missing"; exit 69; }
	new_kernel ||
		{ warn "record-trials: no arm64 kernel that reports who writes: $missing"; exit 69; }
	programs || { warn "record-trials: $missing"; exit 69; }
	build_guest
	go build -o "$out/lm" ./tools/lm
	export LM_GUEST_PROGRAMS=$programs LM_GUEST_LM=$PWD/$out/lm
	export LM_GUEST_FULL_KERNEL=$full_kernel LM_GUEST_FULL_MODULES=$full_modules
	export LM_GUEST_NEW_KERNEL=$new_kernel LM_GUEST_NEW_MODULES=$new_modules
	# What needs Tenstorrent's driver needs a QEMU that shows a served device too.
	if [[ -n ${LM_TTKMD:-} ]]; then
		new_qemu || { warn "record-trials: $missing"; exit 69; }
		export LM_GUEST_QEMU=$new_qemu
	fi
	LM_RECORD_TRIALS=1 go test -count=1 -v -run OtherCompilers ./tools/capture/recorder
	LM_RECORD_TRIALS=1 LM_GUEST_REQUIRED=1 LM_GUEST_KERNEL=$kernel LM_GUEST_MODULES=$modules \
		LM_GUEST_LMRUN=$PWD/$out/lmrun-arm64 \
		go test -count=1 -timeout 30m -v -run 'Record' ./tools/check/guest
}

cmd_qemu() {
	local image=${1:-} with=()
	[[ -n $image && $image != -* ]] ||
		{ warn "usage: ./build.sh qemu IMAGE.lmb [--with DEVICE] [lmrun flags]"; exit 64; }
	shift
	local dir=$PWD/$out/qemu
	mkdir -p "$out"
	# Of two at once, the second has a folder of its own; descriptor 9 stays open.
	exec 9>"$out/.qemu.lock"
	if command -v flock >/dev/null && ! flock -n 9; then
		dir=$dir-$$
		warn "another machine runs; this one's files are in $dir"
	fi
	mkdir -p "$dir"
	# Standard output is lmrun's.
	need qemu-system-aarch64 qemu-system-arm >&2 || { warn "qemu: $missing is not here"; exit 69; }
	kernel >&2 || { warn "qemu: no arm64 kernel: $missing"; exit 69; }
	while [[ ${1:-} == --with ]]; do
		[[ -n ${2:-} ]] || { warn "qemu: --with takes a device, such as mock:wormhole"; exit 64; }
		new_qemu >&2 || { warn "qemu: $missing"; exit 69; }
		with+=(-with "$2" -qemu "$new_qemu" -lm "$dir/lm")
		shift 2
	done
	# VFIO takes modules of the kernel, and for served devices an IOMMU that Debian 12's does not
	# know.
	if [[ " $*" == *vfio:* ]]; then
		[[ -n ${LM_GUEST_KERNEL:-} ]] ||
			{ new_kernel >&2 && kernel=$new_kernel modules=$new_modules; } ||
			{ warn "qemu: no arm64 kernel for vfio: $missing"; exit 69; }
		[[ -n $modules ]] ||
			{ warn "qemu: vfio: needs LM_GUEST_MODULES with LM_GUEST_KERNEL"; exit 64; }
		with+=(-modules "$modules")
	fi
	static arm64 "$dir/lmrun-arm64" ./tools/lmrun
	static arm64 "$dir/lminit-arm64" ./tools/lminit
	go build -o "$dir/guest" ./tools/check/guest
	[[ ${#with[@]} -eq 0 ]] || go build -o "$dir/lm" ./tools/lm
	cd "$start_dir"
	exec "$dir/guest" -kernel "$kernel" -lmrun "$dir/lmrun-arm64" -dir "$dir" \
		-timeout "${LM_GUEST_TIMEOUT:-1m}" "${with[@]}" "$image" -- "$@"
}

cmd_gen() {
	local dir=$out/_gen # go ./... passes over names with _
	need flatc flatbuffers-compiler || { warn "gen: $missing is not here"; exit 69; }
	rm -rf "$dir" && mkdir -p "$dir"
	flatc --go --gen-object-api --go-namespace gen -o "$dir" fbs/image.fbs
	# Maps at package level are built at every start of a target. Arrays are not. Methods of the
	# structs that a target reads in place, and their fields' tags, would be named in it.
	local name_of='^\tif s, ok := (EnumNames[A-Za-z]+)\[v\]; ok \{'
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
	else
		rm -rf fbs/gen && cp -r "$dir/gen" fbs/gen
	fi
}

cmd_bench() {
	local arch
	c_compiler || { say "skipped: bench measures against C, and $missing is not here"; return; }
	need strace strace || true # without it rows are skipped
	cmd_cross >/dev/null || true # its size is a row of the table
	gcc -O2 -fno-strict-aliasing -Wall -Wextra -o "$out/cref" testdata/cref/*.c
	for arch in arm64 amd64; do plain $arch "$out/bench-empty-$arch" "./$out/_empty/main.go"; done
	static "$(go env GOARCH)" "$out/bench-child" ./tools/check/bench/child
	static "$(go env GOARCH)" "$out/bench-idle" ./tools/check/bench/idle
	go build -o "$out/bench" ./tools/check/bench
	"$out/bench" --dir "$out" "$@"
}

# Only that it runs: what it measures depends on the machine.
step_bench() {
	c_compiler || skip "$missing is not here"
	# Commands are locked into memory: those of the largest image are 32 MB.
	[[ $EUID -eq 0 || $(ulimit -l) == unlimited || $(ulimit -l) -ge 65536 ]] ||
		skip "needs ulimit -l 65536 or root, and has $(ulimit -l)"
	cmd_bench
}

# A seed that finds something is printed, with the command that plays it again.
cmd_simulate() {
	local from
	if [[ ${1:-} == --break && ${2:-} =~ ^[0-9]+$ && ${3:-1} =~ ^[0-9]+$ && $# -le 3 ]]; then
		go run ./tools/check/simulate -broken "$2" -choice "${3:-1}" -seeds 2000
		return
	fi
	[[ ${1:-1m} =~ ^[0-9.]+[smh]$ && $# -le 1 ]] || {
		warn "simulate takes a duration, such as 10m, or --break and a number of places"
		exit 64
	}
	from=$(date +%s%3N)
	say "seeds from $from"
	go run ./tools/check/simulate -from "$from" -for "${1:-1m}"
}

step_lint() {
	GOBIN=$PWD/$out go install "$staticcheck" || skip "staticcheck cannot be downloaded"
	"$out/staticcheck" ./... ./testdata/workloads/...
	"$out/staticcheck" -tags signed ./tools/lmrun
}

cmd_lint() {
	local step
	for step in fmt vet lint; do run $step; done
	summary
}

cmd_demo() {
	mkdir -p "$out"
	say "Building lm, the host tool, and lmrun, the runner that a target gets."
	go build -o "$out/lm" ./tools/lm
	static "$(go env GOARCH)" "$out/lmrun" ./tools/lmrun

	local image=$out/edu.lmb
	say "" "testdata/captures/edu.qemutrace is a log of what a program did to QEMU's edu device." \
		"lm makes one file of it that holds everything a replay needs:"
	show "$out/lm" import --from qemu --region edu-mmio --base 0x10000000 --board edu \
		testdata/captures/edu.qemutrace -o "$image"
	say "" "What the file is, and for which device:"
	show "$out/lm" info "$image"
	say "" "Its first commands, as text that lm asm reads back:"
	say "\$ $out/lm dump $image | head -25"
	"$out/lm" dump "$image" | sed -n 1,25p
	say "" "A replay on a model of the device that refuses whatever hardware could:"
	show "$out/lm" replay --device mock:edu "$image"
	local size=$(($(wc -c <"$out/lmrun") / 1024))
	say "" "Every value that the recorded program read was read again and compared: the model" \
		"behaves as the recorded device did. On a real one, $out/lmrun ($size KiB, static) does" \
		"the same."
	say "./build.sh qemu $image tries that on an arm64 machine under QEMU."

	say "" "A Wormhole has cores. This capture loads a program for one of them, stores two" \
		"inputs, starts it and reads the output; with both named, an image takes new ones. The" \
		"model runs the program:"
	show "$out/lm" import --from mmiotrace \
		--input a=1,1,0x20000,int32,256 --input b=1,1,0x21000,int32,256 \
		--output d=1,1,0x23000,int32,256 testdata/captures/wh.twoop.mmiotrace -o "$out/twoop.lmb"
	show "$out/lm" replay --device mock:wormhole --check-golden --output d="$out/d.npy" \
		"$out/twoop.lmb"
	say "" "The output is what the vendor's simulator returned when it was recorded;" \
		"$out/d.npy has it for NumPy."
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
	riscv64-unknown-elf-gcc -march=rv32im -mabi=ilp32 -O2 -ffreestanding -nostdlib \
		-Wall -Werror "$@" -Wl,--build-id=none,-n,-s,--no-warn-rwx-segments \
		-T link.ld start.S "$name.c" -o "$result"
	chmod 644 "$result"
}

cmd_kernels() {
	local dir=$PWD/$out/_kernels name
	need riscv64-unknown-elf-gcc gcc-riscv64-unknown-elf ||
		{ warn "kernels: $missing is not here"; exit 69; }
	rm -rf "$dir" && mkdir -p "$dir"
	cd testdata/kernels
	# The recordings' programs set the stack pointer where they were recorded to.
	for name in twoop mlp; do riscv $name "$dir/$name.elf" -DSTACK=0xFFB01FF0; done
	for name in sum copy matmul saxpy mcast; do riscv $name "$dir/$name.elf"; done
	for name in noc_copy noc_gather noc_host noc_sem noc_start; do
		riscv $name "$dir/${name}_wh.elf"
		riscv $name "$dir/${name}_bh.elf" -DBLACKHOLE
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

step_kernels() {
	need riscv64-unknown-elf-gcc gcc-riscv64-unknown-elf || skip "$missing is not here"
	cmd_kernels --check
}

# Prints inputs that fuzzing has found, as the machine that found them may be gone.
found() {
	local input
	for input in $(git ls-files --others '*/testdata/fuzz/*'); do
		warn "$input, by gzip and base64:"
		gzip -9 <"$input" | base64 >&2
	done
}

# Minimising is bounded: on inputs of some KB it would take the whole time.
cmd_fuzz() {
	local duration=${1:-} package target inputs
	[[ $duration =~ ^[0-9.]+[smhx]$ ]] || { warn "fuzz takes a duration, such as 10m"; exit 64; }
	for package in $(go list ./...); do
		for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
			say "$package $target"
			go test -run '^$' -fuzz "^$target\$" -fuzztime "$duration" -fuzzminimizetime 10x \
				"$package" | tee "$out/fuzz.part" || { found; exit 1; }
			inputs=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$out/fuzz.part" | tail -1)
			say "fuzzed: $inputs inputs to $package $target" | tee -a "$out/fuzz.log"
		done
	done
}

# A count and not a time: Go's fuzzer calls a run that its time ends in the
# middle of a call a failure ("context deadline exceeded", golang/go#75804, mended in 1.27).
step_fuzz() { cmd_fuzz 50000x; }

# cmd_measure prints sizes that tools/check/house counts.
cmd_measure() {
	if [[ ${1:-} == -tags && $# -eq 2 ]]; then
		say "lmrun with tags $2: $(statements "$2") statements"
		return
	fi
	[[ $# -eq 0 ]] || { warn "usage: ./build.sh measure [-tags TAGS]"; exit 64; }
	go test -count=1 -v -run '^(TestSizeOfEverySetIsPrinted|TestTargetIsReadable)$' \
		./tools/check/house |
		sed -n 's/^ *size_test.go:[0-9]*: //p'
}

# statements TAGS: how many statements of this project an arm64 lmrun with these tags compiles.
statements() { go run ./tools/check/house/statements -tags "$1" tools/lmrun; }

cmd_clean() {
	if [[ ${1:-} == --all ]]; then
		rm -rf "$out"
	elif [[ -d $out ]]; then
		find "$out" -mindepth 1 -maxdepth 1 ! -name cache -exec rm -rf {} +
	fi
}

command -v go >/dev/null || { warn "Go is missing; go.mod says which version is needed"; exit 69; }
[[ $(go env GOVERSION) == "$go_tried" ]] ||
	warn "this is $(go env GOVERSION); the runtime was tried with $go_tried:" \
		"runtime/GO.md says what depends on it"
command=${1:-help}
[[ $# -eq 0 ]] || shift
case ${1:-} in -h | --help) command=help ;; esac
case $command in
help | -h | --help) help ;;
demo | test | record-trials | object-coverage | soak | qemu | cross | archive | image | install | \
	deb | sbom | gen | bench | simulate | fuzz | kernels | lint | measure | clean)
	"cmd_$command" "$@"
	;;
*)
	warn "no command $command; ./build.sh help lists them"
	exit 64
	;;
esac
