package boards

// Ivshmem describes ivshmem-plain, QEMU's shared-memory device without interrupts. Sources:
// hw/misc/ivshmem.c and docs/specs/ivshmem-spec.rst of QEMU 7.2.
var Ivshmem = Board{
	Name:   "ivshmem",
	Vendor: 0x1af4, Device: 0x1110,
	// Sizes in bytes. In QEMU, BAR 2 is as large as the device's memory backend. The size given
	// here is that of the device model mock:ivshmem.
	BarSizes: [6]uint64{0: 256, 2: 4 << 20},
	Rules: []AccessRule{
		{Bar: 0, First: 0, Last: 0xff, Widths: 4, Name: "registers"},
		// The size of BAR 2 is not fixed. Therefore this rule covers the largest BAR that the image
		// format allows.
		{Bar: 2, First: 0, Last: 1<<46 - 1, Widths: 1 | 2 | 4 | 8, IsMemory: true,
			Name: "shared memory"},
	},
}
