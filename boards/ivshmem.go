package boards

// Ivshmem is QEMU's ivshmem-plain. Sources: QEMU 7.2, hw/misc/ivshmem.c and
// docs/specs/ivshmem-spec.rst.
var Ivshmem = Board{
	Name:   "ivshmem",
	Vendor: 0x1af4, Device: 0x1110,
	// In QEMU, BAR 2 is as large as the memory backend; this is the size of mock:ivshmem.
	BarSizes: [6]uint64{0: 256, 2: 4 << 20},
	Rules: []AccessRule{
		{Bar: 0, First: 0, Last: 0xff, Widths: 4, Name: "registers"},
		// Larger than any memory backend.
		{Bar: 2, First: 0, Last: 1<<46 - 1, Widths: 1 | 2 | 4 | 8, IsMemory: true,
			Name: "shared memory"},
	},
}
