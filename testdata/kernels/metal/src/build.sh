#!/bin/sh
# build.sh [OUT]: builds the kernels into OUT, else the folder above: NAME.PROCESSOR.elf, linked
# where the processor starts, and NAME-at-ADDRESS.PROCESSOR.elf, linked elsewhere. Needs Debian's
# gcc-riscv64-unknown-elf.
set -eu
cd "$(dirname "$0")"
out=${1:-..}
lib=../../../../tools/metal/kernel
kernel() { # NAME PROCESSOR BASE OUT
	riscv64-unknown-elf-gcc -march=rv32im -mabi=ilp32 -O2 -ffreestanding -nostdlib \
		-Wall -Wno-unused-function -Werror -DPROCESSOR="$2" -I$lib \
		-Wl,--build-id=none,-n,-s,--no-warn-rwx-segments -Wl,--defsym=BASE="$3" \
		-T $lib/link.ld $lib/start.S "$1.c" -lgcc -o "$out/$4"
	chmod 644 "$out/$4"
}
for name in copy reader local dense pack matmul semaphores send; do
	kernel $name 0 0 $name.brisc.elf
done
for name in writer semaphores copy send; do kernel $name 4 0x12000 $name.ncrisc.elf; done
kernel eltwise 1 0x6000 eltwise.trisc0.elf
kernel local 0 0x4000 local-at-4000.brisc.elf
