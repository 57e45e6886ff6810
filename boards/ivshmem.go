package boards

// Ivshmem is QEMU's shared memory without interrupts (hw/misc/ivshmem.c,
// docs/specs/ivshmem-spec.rst of QEMU 7.2).
var Ivshmem = Board{
	Name:   "ivshmem",
	Vendor: 0x1af4, Device: 0x1110,
	// BAR 2 is as large as the memory backend; 4 MiB is only what a stand-in has.
	Bars: [6]uint64{0: 256, 2: 4 << 20},
	Rules: []Rule{
		{Bar: 0, First: 0, Last: 0xff, Widths: 4, Name: "registers"},
		// The largest size a BAR of the format can have.
		{Bar: 2, First: 0, Last: 1<<46 - 1, Widths: 1 | 2 | 4 | 8, Memory: true,
			Name: "shared memory"},
	},
}
