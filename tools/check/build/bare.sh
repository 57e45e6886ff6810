# shellcheck shell=bash
# Part of build.sh: the firmware without an operating system, and its machine under QEMU.

# The sources of the firmware in testdata/firmware/bare: the firmware itself, what the test of the
# sample for Zephyr uses too, and QEMU's arm64 virt machine.
bare_dir=testdata/firmware/bare
bare_sources=(
	"$bare_dir"/{main,port,flash}.c
	testdata/firmware/cyclic/replay_task.c
)
bare_common_sources=("$bare_dir"/{pci,tree,print,memory}.c runtime/c/lmplay.c)
bare_arm64_sources=("$bare_dir"/machine-arm64.c "$bare_dir"/start-arm64.S)

# The sample for Zephyr, and a stub of the calls of Zephyr that it uses.
zephyr_dir=testdata/firmware/zephyr

# Compiler flags for every firmware of testdata/firmware. Sections of functions that nothing calls
# are left out of the program.
bare_flags=(
	-std=c11 -Os -Wall -Wextra -Wconversion -Wshadow -pedantic -Werror
	-ffreestanding -fno-pie -ffunction-sections -fdata-sections
	-fno-tree-loop-distribute-patterns
	-I runtime/c -I testdata/firmware/cyclic -I "$bare_dir"
)

# build_bare OUTPUT builds the firmware for arm64 with the compiler $cc: OUTPUT.elf, and OUTPUT.bin
# as flash 0 has it. Its bytes do not depend on the folder.
build_bare() {
	link_bare "$1" -DLMPLAY_CONFIG='"lmplay_config.h"' "${bare_sources[@]}"
}

# link_bare OUTPUT ARGUMENT... builds a program for the bare arm64 machine from the sources and
# flags in ARGUMENT, and the common sources.
link_bare() {
	"$cc" "${bare_flags[@]}" -mstrict-align -mgeneral-regs-only -static -no-pie -nostdlib \
		-Wl,--gc-sections -Wl,--build-id=none -Wl,-z,max-page-size=4096 \
		-T "$bare_dir/arm64.ld" -o "$1.elf" "${@:2}" "${bare_common_sources[@]}" \
		"${bare_arm64_sources[@]}"
	"${cc%gcc}objcopy" -O binary "$1.elf" "$1.bin"
}

# build_zephyr_sample FOLDER builds the sample for Zephyr with each of some images, for the bare
# machine, against the stub: FOLDER/IMAGE.bin.
build_zephyr_sample() {
	local name
	mkdir -p "$1"
	for name in edu-factorial edu-dma nvme; do
		go run ./tools/lm asm "testdata/listings/$name.lms" -o "$1/$name.lmb"
		od -An -v -tu1 "$1/$name.lmb" | sed 's/\([0-9][0-9]*\)/\1,/g' >"$1/image.inc"
		link_bare "$1/$name" -I "$zephyr_dir/stub" -I "$1" "$zephyr_dir"/src/{main,port}.c \
			"$zephyr_dir/stub/zephyr.c"
	done
}

# The firmware for a Cortex-M3 without a C library, of QEMU's machine mps2-an385.
cortex_m_dir=testdata/firmware/cortex-m

# build_cortex_m FOLDER builds the firmware for the Cortex-M3 with two images, and with one and a
# device that the player accesses itself: FOLDER/edu-factorial.elf, edu-dma.elf and mapped.elf.
build_cortex_m() {
	mkdir -p "$1"
	link_cortex_m "$1/edu-factorial.elf" edu-factorial
	link_cortex_m "$1/edu-dma.elf" edu-dma
	link_cortex_m "$1/mapped.elf" edu-dma -DEDU_IS_MAPPED
}

# link_cortex_m OUTPUT IMAGE [FLAG] builds one of them. Only the compiler's library is linked.
link_cortex_m() {
	arm-none-eabi-gcc "${bare_flags[@]}" -mthumb -mcpu=cortex-m3 -nostdlib \
		-Wl,--gc-sections -Wl,--build-id=none -T "$cortex_m_dir/mps2.ld" \
		"-DIMAGE=\"testdata/images/$2.lmb\"" "${@:3}" -o "$1" \
		"$cortex_m_dir"/{main,edu,machine}.c "$bare_dir"/{print,memory}.c \
		runtime/c/lmplay.c -lgcc
}

# print_bare_size FILE.elf prints the size of the firmware by sections.
print_bare_size() {
	"${cc%gcc}size" -A "$1" | awk '
		{ bytes[$1] = $2 }
		END {
			printf "firmware: %d bytes of code, %d of constants, ", bytes[".text"], bytes[".rodata"]
			printf "%d of data with a value; %d of RAM with the stack\n", bytes[".data"],
				bytes[".bss"]
		}'
}

# cmd_bare IMAGE [FLAG...] replays an image on a machine without an operating system. The exit
# status is the firmware's.
cmd_bare() {
	local image=${1:-} with=() run=() pack= dir=$PWD/$out/bare
	[[ -n $image && $image != -* ]] || {
		warn "usage: ./build.sh bare IMAGE.lmb [--with DEVICE] [--input NAME=FILE]" \
			"  [--sequence NAME] [--budget N] [--dump] [--pack FILE]"
		exit 64
	}
	shift
	while [[ $# -gt 0 ]]; do
		case $1 in
		--dump) run+=(--dump) && shift && continue ;;
		--with | --input | --sequence | --budget) ;;
		--pack) pack=${2:-} ;;
		*) warn "bare: unknown argument $1"; exit 64 ;;
		esac
		[[ -n ${2:-} ]] || { warn "bare: $1 takes a value"; exit 64; }
		[[ $1 != --with ]] || with=(-lm "$dir/lm")
		run+=("$1" "$2")
		shift 2
	done
	if [[ -n $pack ]]; then
		mkdir -p "$dir" && go build -o "$dir/guest" ./tools/check/guest
		cd "$start_dir"
		exec "$dir/guest" bare "${run[@]}" "$image"
	fi
	# Standard output is the firmware's and its size.
	ensure_installed qemu-system-aarch64 qemu-system-arm >&2 ||
		{ warn "bare: $missing is not here"; exit 69; }
	ensure_cross_compiler arm64 >&2 || { warn "bare: no C compiler for arm64: $missing"; exit 69; }
	mkdir -p "$dir"
	if [[ ${#with[@]} -gt 0 ]]; then
		ensure_new_qemu >&2 || { warn "bare: $missing"; exit 69; }
		with+=(-qemu "$new_qemu")
		go build -o "$dir/lm" ./tools/lm
	fi
	build_bare "$dir/firmware"
	print_bare_size "$dir/firmware.elf"
	go build -o "$dir/guest" ./tools/check/guest
	cd "$start_dir"
	exec "$dir/guest" bare -firmware "$dir/firmware.bin" -dir "$dir" \
		-timeout "${LM_GUEST_TIMEOUT:-1m}" "${with[@]}" "${run[@]}" "$image"
}
