# shellcheck shell=bash
# Part of build.sh: the steps of `test`, except step_player, which is in player.sh. Each runs in a
# subshell, see run_step. A step that cannot run on this machine calls skip_step.

# The version of staticcheck.
staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Packages whose tests reach every statement.
covered_packages=(./fbs ./runtime ./runtime/signed ./hal)

# Packages whose tests take longest. They start first, so that the step does not end with one.
slow_packages=(
	./tools/check/pages ./tools/capture/recorder ./tools/lm ./tools/check/vectors
	./tools/check/house ./tools/capture/importer
)

# The packages that run on the target. Tests of lmrun and lminit, which run there too, are in steps
# unit and guest. The tests of hal and runtime use the mocks. The mocks' own tests need no other
# processor and no race detector, and run in step unit only.
target_packages=(./fbs/... ./boards/... ./hal ./runtime/...)

# step_fmt prints Go sources that gofmt would change.
step_fmt() {
	local files
	# build/ may have copies of sources, changed by simulate.
	files=$(find . -path ./build -prune -o -name "*.go" -print0 | xargs -0 gofmt -l)
	[[ -z $files ]] || { warn "not gofmt-ed:" "$files"; exit 1; }
}

# step_vet runs go vet for this machine, for arm64 the packages that have other files there, and
# with build tags.
step_vet() {
	local packages files
	files='{{.ImportPath}} {{.GoFiles}} {{.SFiles}} {{.TestGoFiles}} {{.XTestGoFiles}}'
	# ./... does not include testdata.
	go vet ./... ./testdata/workloads/...
	mapfile -t packages < <(
		comm -13 <(go list -f "$files" ./... | sort) \
			<(GOARCH=arm64 go list -f "$files" ./... | sort) | cut -d ' ' -f 1
	)
	GOARCH=arm64 go vet "${packages[@]}"
	go vet -tags mock,signed ./runtime/capi ./tools/lmrun
}

# step_vetted is what `test quick` runs of step_vet.
step_vetted() { go vet ./...; }

# step_short runs the tests with -short. Packages that have not changed since they passed are not
# tested again. It does not list what it skips.
step_short() {
	local status=0
	run_go_tests -short ./... || status=$?
	rm -f "$out/skipped.log"
	return $status
}

# step_lint runs staticcheck.
step_lint() {
	GOBIN=$PWD/$out go install "$staticcheck" || skip_step "staticcheck cannot be downloaded"
	"$out/staticcheck" ./... ./testdata/workloads/...
	"$out/staticcheck" -tags signed ./tools/lmrun
}

# step_gen checks that the generated code in the tree is what the schema generates.
step_gen() {
	ensure_installed flatc flatbuffers-compiler || skip_step "$missing is not here"
	cmd_gen --check
}

# step_kernels checks that the kernels in testdata/kernels are what their sources build.
step_kernels() {
	ensure_installed riscv64-unknown-elf-gcc gcc-riscv64-unknown-elf ||
		skip_step "$missing is not here"
	cmd_kernels --check
}

# step_unit runs all tests on this machine. It fails if they do not reach every statement of
# $covered_packages.
step_unit() {
	local all=1 others
	ensure_c_compiler || { say "without $missing, tests that compile C skip themselves"; all=; }
	ensure_installed g++ g++ ||
		{ say "without $missing, the C header is not tried with C++"; all=; }
	ensure_installed aarch64-linux-gnu-objdump binutils-aarch64-linux-gnu ||
		{ say "without $missing, the recorder's decoder of arm64 is not compared with it"; all=; }
	ensure_installed qemu-aarch64-static qemu-user-static ||
		{ say "without $missing, tests that run foreign programs skip themselves"; all=; }
	ensure_cross_compiler arm64 ||
		{ say "without $missing, the recorder's arm64 is not compared with QEMU's"; all=; }
	ensure_installed strace strace ||
		{ say "without $missing, tests that count system calls skip themselves"; all=; }
	ensure_installed flatc flatbuffers-compiler ||
		{ say "without $missing, tests that read images by other means skip themselves"; all=; }
	{ ensure_installed groff groff && ensure_installed mandoc mandoc; } ||
		{ say "without $missing, man pages are not rendered"; all=; }
	ensure_installed jq jq || { say "without $missing, recipes of pages are not tried"; all=; }
	# Optional, since it takes 124 MB to download, 412 MB of disk and more than a minute.
	ensure_installed chromium chromium ||
		say "without $missing, the report page is not measured in a browser"
	# If nothing is missing, a test that skips itself because a tool is missing fails.
	[[ -z $all ]] || export LM_TEST_REQUIRED=1
	run_counted_go_tests -cover "${covered_packages[@]}"
	mapfile -t others < <(
		go list ./... | grep -vxF -f <(go list "${covered_packages[@]}" "${slow_packages[@]}")
	)
	# Some wait, and count no system calls.
	run_counted_go_tests -p 3 "${slow_packages[@]}" "${others[@]}"
	check_full_coverage
	run_go_tests -timeout 10m -tags nolightmetal ./tools/metal
}

# step_fuzz runs fuzz targets a number of times and not for a time: if the time ends during a
# call, Go's fuzzer reports that as a failure ("context deadline exceeded", golang/go#75804, fixed
# in 1.27).
step_fuzz() { cmd_fuzz "$((LM_NIGHTLY ? 500000 : 20000))x"; }

# step_breaks breaks the source at places that the date chooses, and prints how many were noticed.
step_breaks() { cmd_simulate --break 60 "$(date +%Y%m%d)"; }

# step_trials is record-trials.
step_trials() { run_command record-trials; }

# step_coverage is object-coverage.
step_coverage() { run_command object-coverage; }

# run_command COMMAND runs a command as a process of its own. Status 69 means that something is not
# here.
run_command() {
	local status=0
	./build.sh "$1" || status=$?
	[[ $status -ne 69 ]] || skip_or_fail_step "not everything that $1 needs is here"
	return $status
}

# step_race runs tests with the race detector: of packages that start goroutines, and of those whose
# functions several goroutines may call at once. Here and in the next two steps, -short leaves out
# what does not depend on the detector, the processor or the walk (tools/check/effort).
step_race() {
	ensure_c_compiler || skip_step "$missing is not here"
	CGO_ENABLED=1 run_go_tests -race -short -timeout 10m ./fbs ./hal ./runtime/... \
		./tools/image/synced ./tools/devices/vfiouser
}

# step_arm64 runs the tests of the target as arm64 programs under user-mode QEMU.
step_arm64() {
	ensure_installed qemu-aarch64-static qemu-user-static || skip_step "$missing is not here"
	# Mocks do not ship. They allocate nothing only if compiled with Go's own flags.
	CGO_ENABLED=0 GOARCH=arm64 run_go_tests -short -timeout 20m \
		"${shipped_flags[@]}" "${mock_flags[@]}" \
		-exec qemu-aarch64-static "${target_packages[@]}"
	ensure_cross_compiler arm64 || {
		say "$step_name: ./runtime/capi: no C compiler for arm64: $missing" >>"$out/skipped.log"
		return
	}
	# The tag leaves out the tests that build archives.
	CGO_ENABLED=1 CC=$cc GOARCH=arm64 run_go_tests -tags emulated "${mock_flags[@]}" \
		-exec "qemu-aarch64-static -L /usr/aarch64-linux-gnu" ./runtime/capi
}

# step_purego tests the walk over commands without assembly, which the tag leaves out of hal.
step_purego() {
	go vet -tags purego ./hal ./runtime/...
	run_go_tests -short -timeout 10m -tags purego ./hal ./runtime
}

# step_cross builds what the target gets. It fails if an arm64 lmrun exceeds a limit beyond an empty
# Go program.
step_cross() {
	cmd_cross
	check_program_sizes
}

# step_reproducible compares two deliveries: built in folders of different names and depths, which
# share only Go, its downloaded modules and the compilers, and except nightly, what Go has compiled.
step_reproducible() {
	local both=$PWD/$out/_twice side
	local cache=$both/home/cache
	[[ -n $LM_NIGHTLY ]] || cache=$(go env GOCACHE)
	[[ ! -d $both ]] || { chmod -R u+w "$both" && rm -rf "$both"; }
	for side in one "two/and a bit further"; do
		mkdir -p "$both/$side" || return
		tar -c --exclude=./build --exclude=./.git . | tar -x -C "$both/$side" || return
	done
	mkdir -p "$both/home" "$both/tmp"
	(cd "$both/one" && TZ=UTC LC_ALL=C build_delivery >"$both/one.log" 2>&1) &
	local first=$!
	(
		cd "$both/two/and a bit further"
		GOMODCACHE=$(go env GOMODCACHE)
		export GOMODCACHE HOME=$both/home GOCACHE=$cache
		export TMPDIR=$both/tmp TZ=Asia/Kolkata LC_ALL=C.UTF-8
		umask 077
		build_delivery >"$both/two.log" 2>&1
	) || { cat "$both/two.log"; wait $first; return 1; }
	wait $first || { cat "$both/one.log"; return 1; }
	compare_deliveries "$both/one/$out" "$both/two/and a bit further/$out" || return
	chmod -R u+w "$both" && rm -rf "$both"
}

# step_recipes checks the recipes in testdata/recipes for systemd, RAUC and SWUpdate.
step_recipes() {
	local tool
	for tool in "systemd-analyze systemd" "rauc rauc" "mksquashfs squashfs-tools" \
		"swupdate swupdate" "cpio cpio" "openssl openssl"; do
		ensure_installed "${tool% *}" "${tool#* }" || skip_step "$missing is not here"
	done
	local program
	local programs=$PWD/$out/recipes-programs
	for program in lmrun lminit; do
		GOFLAGS+=" -tags=signed" \
			build_shipped "$(go env GOARCH)" "$programs/$program" ./tools/$program
	done
	go build -o "$programs/lm" ./tools/lm
	testdata/recipes/check.sh "$programs/lmrun" "$PWD/testdata/images/edu.lmb" "$PWD/$out/_recipes"
}

# step_guest runs the tests that boot guests.
step_guest() {
	ensure_installed qemu-system-aarch64 qemu-system-arm || skip_step "$missing is not here"
	ensure_kernel || skip_step "no arm64 kernel: $missing"
	build_guest_programs
	go build -o "$out/lm" ./tools/lm
	ensure_cross_compiler arm64 || skip_step "no C compiler for arm64: $missing"
	build_archive arm64 "$out/liblightmetal-mock-arm64.a" mock
	build_firmware "$out/firmware-arm64" "$out/liblightmetal-mock-arm64.a"
	build_bare "$out/bare-arm64"
	build_zephyr_sample "$out/zephyr"
	ensure_installed arm-none-eabi-gcc gcc-arm-none-eabi || skip_step "$missing is not here"
	build_cortex_m "$out/cortex-m"
	export LM_GUEST_CORTEX_M=$PWD/$out/cortex-m
	export LM_GUEST_BARE=$PWD/$out/bare-arm64.bin LM_GUEST_ZEPHYR=$PWD/$out/zephyr
	ensure_full_kernel || skip_step "no arm64 kernel with a watchdog: $missing"
	ensure_uboot || skip_step "no U-Boot for QEMU: $missing"
	ensure_new_qemu || skip_or_fail_step "$missing"
	say "served devices: $("$new_qemu" --version | head -1)"
	ensure_new_kernel ||
		skip_or_fail_step "no arm64 kernel with an IOMMU for served devices: $missing"
	export_guest_files
	export LM_GUEST_FIRMWARE=$PWD/$out/firmware-arm64
	ensure_guest_programs || skip_or_fail_step "$missing"
	export LM_GUEST_PROGRAMS=$guest_programs
	local left_out=()
	if [[ -z $LM_NIGHTLY ]]; then
		# Such as ^A$|^TestScenarios$/^b$
		left_out=(-skip "$(printf '^%s$|' "${nightly_guests[@]//\//$/^}" | sed 's/|$//')")
	fi
	LM_GUEST_REQUIRED=1 LM_GUEST_KERNEL=$kernel \
		LM_GUEST_LMRUN=$PWD/$out/lmrun-arm64 LM_GUEST_LM=$PWD/$out/lm \
		run_counted_go_tests -count=1 -timeout 2h -parallel 4 "${left_out[@]}" \
		./tools/check/guest # some guests wait, for example for a watchdog
}

# step_bench shows that bench can measure each of its rows. It checks no goal, because the results
# depend on the machine.
step_bench() {
	ensure_c_compiler || skip_step "$missing is not here"
	# Commands are locked into memory: those of the largest image are 32 MB.
	[[ $EUID -eq 0 || $(ulimit -l) == unlimited || $(ulimit -l) -ge 65536 ]] ||
		skip_step "needs ulimit -l 65536 or root, and has $(ulimit -l)"
	cmd_bench --once
}
