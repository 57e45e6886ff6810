// Drives QEMU's edu on a machine of QEMU's (virt, highmem=off) that has nothing
// else: no system, no firmware. edu is device 1, and gets its BAR here.
#include <stdint.h>

enum { BAR = 0x10000000, CONFIG = 0x3f000000 + (1 << 15) };

// The machine has 16 MiB from 1 GiB on. PSCI's SYSTEM_OFF ends it.
__asm__(".globl _start\n_start:\n\tldr x0, =0x40f00000\n\tmov sp, x0\n\tbl run\n"
		"\tldr x0, =0x84000008\n\thvc #0\n\tb .\n");

static volatile uint32_t *at(uint32_t offset) {
	return (volatile uint32_t *)(uintptr_t)(BAR + offset);
}

void run(void) {
	*(volatile uint32_t *)(uintptr_t)(CONFIG + 0x10) = BAR;
	*(volatile uint16_t *)(uintptr_t)(CONFIG + 4) = 6;
	(void)*at(0);
	for (uint32_t n = 1; n < 6; n++) {
		*at(4) = 0x11111111 * n;
		(void)*at(4);
		*at(8) = n;
		while (*at(0x20) & 1)
			;
		(void)*at(8);
	}
}
