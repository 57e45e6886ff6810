package boards

// Ivshmem describes QEMU's shared memory without interrupts (hw/misc/ivshmem.c,
// docs/specs/ivshmem-spec.rst of QEMU 7.2).
var Ivshmem = Board{
	Name:   "ivshmem",
	Vendor: 0x1af4, Device: 0x1110,
	// In QEMU, BAR 2 has the size of the memory backend; 4 MiB is its size in a mock.
	Bars: [6]uint64{0: 256, 2: 4 << 20},
	Rules: []Rule{
		{Bar: 0, First: 0, Last: 0xff, Widths: 4, Name: "registers"},
		// The largest BAR size that the image format allows.
		{Bar: 2, First: 0, Last: 1<<46 - 1, Widths: 1 | 2 | 4 | 8, Memory: true,
			Name: "shared memory"},
	},
}
