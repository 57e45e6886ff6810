package boards

// Ivshmem describes QEMU's shared-memory device without interrupts (ivshmem-plain;
// hw/misc/ivshmem.c, docs/specs/ivshmem-spec.rst of QEMU 7.2).
var Ivshmem = Board{
	Name:   "ivshmem",
	Vendor: 0x1af4, Device: 0x1110,
	// In QEMU, BAR 2 is as large as the memory backend of the device. In a mock, BAR 2 is
	// 4 MiB.
	Bars: [6]uint64{0: 256, 2: 4 << 20},
	Rules: []Rule{
		{Bar: 0, First: 0, Last: 0xff, Widths: 4, Name: "registers"},
		// The rule covers the largest BAR that the image format allows, because the size of
		// BAR 2 is not fixed.
		{Bar: 2, First: 0, Last: 1<<46 - 1, Widths: 1 | 2 | 4 | 8, Memory: true,
			Name: "shared memory"},
	},
}
