package boards

// Edu is QEMU's educational device. Sources: QEMU 7.2, hw/misc/edu.c and docs/specs/edu.rst.
var Edu = Board{
	Name:   "edu",
	Vendor: 0x1234, Device: 0x11e8,
	BarSizes: [6]uint64{0: 1 << 20},
	// Accesses of 1 or 2 bytes are bus errors (valid.min_access_size is 4). Below 0x80, 8-byte
	// loads return all ones, and 8-byte stores have no effect.
	Rules: []AccessRule{
		{Bar: 0, First: 0x00, Last: 0x7f, Widths: 4, Name: "registers"},
		{Bar: 0, First: 0x80, Last: 1<<20 - 1, Widths: 4 | 8, Name: "DMA registers"},
	},
}
