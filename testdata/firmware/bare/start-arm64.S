// The start-up code for arm64: from reset to firmware_main, and from an exception to
// firmware_fault.
//
// The processor starts here in EL1 with its memory management unit off, which is how QEMU's virt
// machine resets it, or how a boot loader in EL3 leaves it. The unit stays off. Then every data
// access is of type Device-nGnRnE (Arm ARM, "Behavior of memory accesses when stage 1 address
// translation is disabled"): in program order, of the width of the instruction, neither merged nor
// cached. A BAR needs exactly that, memory that devices read and write needs no cache
// maintenance, and there are no page tables to assess. The price is speed, and that an unaligned
// access faults: hence the compiler's flag -mstrict-align. Floating point registers trap after
// reset (CPACR_EL1): hence -mgeneral-regs-only.

	.section .start, "ax"
	.globl start
start:
	// Park every processor but the first: MPIDR_EL1 has its number in Aff0 to Aff2.
	mrs	x0, mpidr_el1
	tst	x0, #0xffffff
	b.ne	park

	// Let exceptions end the firmware with a message.
	adr	x0, vectors
	msr	vbar_el1, x0
	isb

	// Clear .bss. The linker script aligns both ends to 16.
	adrp	x0, bss_start
	add	x0, x0, :lo12:bss_start
	adrp	x1, bss_end
	add	x1, x1, :lo12:bss_end
1:	cmp	x0, x1
	b.hs	2f
	stp	xzr, xzr, [x0], #16
	b	1b

	// Call firmware_main(device tree). QEMU puts the tree at the start of RAM for a program that
	// is not a Linux kernel (QEMU, docs/system/arm/virt.rst).
2:	adrp	x1, stack_end
	add	x1, x1, :lo12:stack_end
	mov	sp, x1
	mov	x29, xzr
	mov	x30, xzr
	mov	x0, #0x40000000
	bl	firmware_main

park:	wfi
	b	park

// The sixteen vectors, 128 bytes each (Arm ARM, "Exception vectors"). Interrupts are masked after
// reset, so that only a fault of the firmware itself or of a device arrives here. Registers that a
// C function may change are saved: after an error of a device, execution continues.
	.balign	2048
vectors:
	.rept	16
	.balign	128
	sub	sp, sp, #176
	stp	x0, x1, [sp]
	stp	x2, x3, [sp, #16]
	b	exception
	.endr

exception:
	stp	x4, x5, [sp, #32]
	stp	x6, x7, [sp, #48]
	stp	x8, x9, [sp, #64]
	stp	x10, x11, [sp, #80]
	stp	x12, x13, [sp, #96]
	stp	x14, x15, [sp, #112]
	stp	x16, x17, [sp, #128]
	stp	x18, x29, [sp, #144]
	str	x30, [sp, #160]
	mrs	x0, esr_el1
	mrs	x1, elr_el1
	mrs	x2, far_el1
	bl	machine_exception
	msr	elr_el1, x0
	ldr	x30, [sp, #160]
	ldp	x18, x29, [sp, #144]
	ldp	x16, x17, [sp, #128]
	ldp	x14, x15, [sp, #112]
	ldp	x12, x13, [sp, #96]
	ldp	x10, x11, [sp, #80]
	ldp	x8, x9, [sp, #64]
	ldp	x6, x7, [sp, #48]
	ldp	x4, x5, [sp, #32]
	ldp	x2, x3, [sp, #16]
	ldp	x0, x1, [sp]
	add	sp, sp, #176
	eret
