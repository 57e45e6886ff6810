package boards

// Edu describes QEMU's educational PCI device. Sources: hw/misc/edu.c and docs/specs/edu.rst of
// QEMU 7.2.
var Edu = Board{
	Name:   "edu",
	Vendor: 0x1234, Device: 0x11e8,
	BarSizes: [6]uint64{0: 1 << 20},
	// QEMU answers accesses of 1 or 2 bytes with a bus error (valid.min_access_size is 4). Below
	// offset 0x80, an 8-byte load returns all ones, and an 8-byte store has no effect. Therefore
	// the first rule accepts only width 4, and the second rule widths 4 and 8.
	Rules: []AccessRule{
		{Bar: 0, First: 0x00, Last: 0x7f, Widths: 4, Name: "registers"},
		{Bar: 0, First: 0x80, Last: 1<<20 - 1, Widths: 4 | 8, Name: "DMA registers"},
	},
}
