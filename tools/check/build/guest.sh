# shellcheck shell=bash
# Part of build.sh: commands and helpers that boot arm64 guests under QEMU.

# The tests and machines of guests that step_guest leaves to `test nightly`: what takes long, or
# runs programs of others that a change seldom concerns.
nightly_guests=(
	TestCommandsOnBoardFilePageReplayACustomDevice
	TestFITStartsUnderUBoot
	TestFramesOfLinuxNVMeDriverAreReplayed
	TestFramesSurviveKillsAndFaults
	TestLinuxNVMeDriverIsRecordedOnAServedDevice
	TestProgramOnCustomDeviceIsRecordedThroughQEMU
	TestShippedVerifierPrintsTheSameMessagesAsTheHost
	TestScenarios/chips-workloads
	TestScenarios/kills
	TestScenarios/recorder-lse
	TestScenarios/recorder-mops
	TestScenarios/recorder-sve
	TestScenarios/shipped-answers
	TestScenarios/shipped-answers-more
	TestScenarios/shipped-chips
	TestScenarios/shipped-chips-iommu
)

# What object-coverage runs while QEMU logs instructions.
shipped_tests='^TestShipped|^TestScenarios$/^(shipped|tt)-'

# The folder for programs and results of object-coverage.
coverage_dir=$out/coverage

# ensure_guest_files COMMAND downloads QEMU, kernels and modules if necessary, and exports their
# paths. If one is still missing, it prints which one and ends COMMAND with status 69.
ensure_guest_files() {
	{
		ensure_installed qemu-system-aarch64 qemu-system-arm && ensure_kernel &&
			ensure_full_kernel && ensure_new_qemu && ensure_new_kernel
	} || { warn "$1: $missing"; exit 69; }
	export_guest_files
}

# export_guest_files exports the paths of QEMU, kernels and modules, which the tests read.
export_guest_files() {
	export LM_GUEST_QEMU=$new_qemu LM_GUEST_MODULES=$modules
	export LM_GUEST_NEW_KERNEL=$new_kernel LM_GUEST_NEW_MODULES=$new_modules
	export LM_GUEST_FULL_KERNEL=$full_kernel LM_GUEST_FULL_MODULES=$full_modules
}

# ensure_uboot installs U-Boot for QEMU's arm64 machine and mkimage, which packs what U-Boot boots
# and runs dtc. It exports the path of U-Boot.
ensure_uboot() {
	export LM_GUEST_UBOOT=/usr/lib/u-boot/qemu_arm64/u-boot.bin
	ensure_installed mkimage u-boot-tools && ensure_installed dtc device-tree-compiler &&
		ensure_installed "$LM_GUEST_UBOOT" u-boot-qemu
}

# run_covered_guest PROGRAM CPU TESTS runs tests of the guest while QEMU records which
# instructions of lmrun-PROGRAM it executed. lmrun-PROGRAM is the program that `cross` builds.
# PID 1 is linked to other addresses, so that its instructions are not taken for lmrun's.
run_covered_guest() {
	local seen=$PWD/$coverage_dir/seen-$1-$2 tags=""
	[[ $1 != signed-* ]] || tags=" -tags=signed"
	mkdir -p "$seen"
	GOFLAGS+=$tags build_shipped arm64 "$coverage_dir/lmrun-$1" ./tools/lmrun
	build_shipped arm64 "$coverage_dir/lminit-$1" ./tools/lminit -ldflags "-s -w -T=0x40001000"
	go build -o "$out/lm" ./tools/lm
	go build -o "$coverage_dir/coverage" ./tools/check/coverage
	LM_GUEST_COVERAGE=$seen LM_GUEST_CPU=$2 LM_GUEST_SIGNED=$tags LM_GUEST_REQUIRED=1 \
		LM_GUEST_KERNEL=$kernel LM_GUEST_LMRUN=$PWD/$coverage_dir/lmrun-$1 \
		LM_GUEST_LM=$PWD/$out/lm \
		run_go_tests -count=1 -timeout 2h -run "$3" ./tools/check/guest
}

# cmd_object-coverage prints which instructions and branches of lmrun guests reach: of the program
# with and without signatures, and on two kinds of processor. It fails if fewer are reached than
# tools/check/coverage/left.txt allows.
cmd_object-coverage() {
	local program cpu status=0 step_name=object-coverage all=()
	[[ $# -eq 0 ]] || { warn "object-coverage takes no arguments"; exit 64; }
	ensure_guest_files object-coverage
	# A commit during the run would change the version in lmrun, and what the runs before it have
	# recorded would then belong to another program.
	LM_REVISION=$(print_revision)
	export LM_REVISION
	rm -rf "$coverage_dir"
	while read -r program cpu; do
		say "lmrun-$program on $cpu"
		run_covered_guest "$program" "$cpu" "$shipped_tests" </dev/null || status=1
		all+=("$coverage_dir/lmrun-$program=$coverage_dir/seen-$program-$cpu")
	done <<<$'arm64 max\narm64 cortex-a72\nsigned-arm64 cortex-a72'
	"$coverage_dir/coverage" -json "${all[@]}" >"$coverage_dir/coverage.json"
	"$coverage_dir/coverage" -left "${all[@]}" >"$coverage_dir/left.txt"
	"$coverage_dir/coverage" -held tools/check/coverage/left.txt "${all[@]}" || status=1
	[[ -z ${LM_TTKMD:-} ]] ||
		say "this run had the vendor's driver: only a run without it may shrink the list"
	return $status
}

# cmd_soak [FRAMES] replays frames in a guest, with a kill or a fault after every thousand. Then it
# measures how long each step of lminit's on-failure takes until the next good frame.
cmd_soak() {
	[[ ${1:-1} =~ ^[1-9][0-9]*$ && $# -le 1 ]] || { warn "soak takes a number of frames"; exit 64; }
	ensure_guest_files soak
	build_guest_programs
	go build -o "$out/lm" ./tools/lm
	LM_SOAK_FRAMES=${1:-100000} LM_SOAK_TIME=72h LM_GUEST_REQUIRED=1 LM_GUEST_KERNEL=$kernel \
		LM_GUEST_LMRUN=$PWD/$out/lmrun-arm64 LM_GUEST_LM=$PWD/$out/lm \
		go test -count=1 -v -timeout 0 \
		-run '^TestFramesSurviveKillsAndFaults$|^TestScenarios$/^(ladder|tt).*-times$' \
		./tools/check/guest
}

# cmd_record-trials compares what lm record records in a guest with QEMU's own trace, at length. It
# also records a driver with mmiotrace in an amd64 guest, and one with QEMU in a nested guest.
cmd_record-trials() {
	ensure_installed qemu-system-aarch64 qemu-system-arm ||
		{ warn "record-trials: $missing is not here"; exit 69; }
	ensure_kernel || { warn "record-trials: no arm64 kernel: $missing"; exit 69; }
	ensure_cross_compiler arm64 ||
		{ warn "record-trials: no C compiler for arm64: $missing"; exit 69; }
	ensure_full_kernel || { warn "record-trials: no full arm64 kernel: $missing"; exit 69; }
	ensure_new_kernel ||
		{ warn "record-trials: no arm64 kernel that reports who writes: $missing"; exit 69; }
	ensure_guest_programs || { warn "record-trials: $missing"; exit 69; }
	ensure_installed qemu-system-x86_64 qemu-system-x86 && ensure_amd64_kernel ||
		{ warn "record-trials: no amd64 guest: $missing"; exit 69; }
	ensure_new_amd64_kernel || { warn "record-trials: no newer amd64 kernel: $missing"; exit 69; }
	build_guest_programs
	CGO_ENABLED=0 go build -o "$out/lm" ./tools/lm # static, for a guest
	export LM_GUEST_PROGRAMS=$guest_programs LM_GUEST_LM=$PWD/$out/lm
	export LM_GUEST_FULL_KERNEL=$full_kernel LM_GUEST_FULL_MODULES=$full_modules
	export LM_GUEST_NEW_KERNEL=$new_kernel LM_GUEST_NEW_MODULES=$new_modules
	export LM_GUEST_AMD64_KERNEL=$amd64_kernel LM_GUEST_AMD64_MODULES=$amd64_modules
	export LM_GUEST_NEW_AMD64_KERNEL=$new_amd64_kernel
	export LM_GUEST_NEW_AMD64_MODULES=$new_amd64_modules
	ensure_new_qemu || { warn "record-trials: $missing"; exit 69; }
	export LM_GUEST_QEMU=$new_qemu
	LM_RECORD_TRIALS=1 go test -count=1 -v -run OtherCompilers ./tools/capture/recorder
	LM_RECORD_TRIALS=1 LM_GUEST_REQUIRED=1 LM_GUEST_KERNEL=$kernel LM_GUEST_MODULES=$modules \
		LM_GUEST_LMRUN=$PWD/$out/lmrun-arm64 \
		go test -count=1 -timeout 2h -v -run 'Record|^TestScenarios$/^recorder' ./tools/check/guest
}

# cmd_qemu IMAGE [--with DEVICE] [FLAG...] replays an image in a guest. Output and exit status are
# lmrun's.
cmd_qemu() {
	local image=${1:-} with=()
	[[ -n $image && $image != -* ]] ||
		{ warn "usage: ./build.sh qemu IMAGE.lmb [--with DEVICE] [lmrun flags]"; exit 64; }
	shift
	local dir=$PWD/$out/qemu
	mkdir -p "$out"
	# A second machine at the same time has a folder of its own; descriptor 9 stays open.
	exec 9>"$out/.qemu.lock"
	if command -v flock >/dev/null && ! flock -n 9; then
		dir=$dir-$$
		warn "another machine runs; this one's files are in $dir"
	fi
	mkdir -p "$dir"
	# Standard output is lmrun's.
	ensure_installed qemu-system-aarch64 qemu-system-arm >&2 ||
		{ warn "qemu: $missing is not here"; exit 69; }
	ensure_kernel >&2 || { warn "qemu: no arm64 kernel: $missing"; exit 69; }
	while [[ ${1:-} == --with ]]; do
		[[ -n ${2:-} ]] || { warn "qemu: --with takes a device, such as mock:wormhole"; exit 64; }
		ensure_new_qemu >&2 || { warn "qemu: $missing"; exit 69; }
		with+=(-with "$2" -qemu "$new_qemu" -lm "$dir/lm")
		shift 2
	done
	# VFIO needs modules of the kernel, and for served devices an IOMMU for which Debian 12 has no
	# driver.
	if [[ " $*" == *vfio:* ]]; then
		[[ -n ${LM_GUEST_KERNEL:-} ]] ||
			{ ensure_new_kernel >&2 && kernel=$new_kernel modules=$new_modules; } ||
			{ warn "qemu: no arm64 kernel for vfio: $missing"; exit 69; }
		[[ -n $modules ]] ||
			{ warn "qemu: vfio: needs LM_GUEST_MODULES with LM_GUEST_KERNEL"; exit 64; }
		with+=(-modules "$modules")
	fi
	build_shipped arm64 "$dir/lmrun-arm64" ./tools/lmrun
	build_shipped arm64 "$dir/lminit-arm64" ./tools/lminit
	go build -o "$dir/guest" ./tools/check/guest
	[[ ${#with[@]} -eq 0 ]] || go build -o "$dir/lm" ./tools/lm
	cd "$start_dir"
	exec "$dir/guest" -kernel "$kernel" -lmrun "$dir/lmrun-arm64" -dir "$dir" \
		-timeout "${LM_GUEST_TIMEOUT:-1m}" "${with[@]}" "$image" -- "$@"
}
