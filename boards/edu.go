package boards

// Edu is QEMU's teaching device (hw/misc/edu.c, docs/specs/edu.rst of QEMU 7.2).
var Edu = Board{
	Name:   "edu",
	Title:  "QEMU edu",
	Vendor: 0x1234, Device: 0x11e8,
	Bars: [6]uint64{0: 1 << 20},
	// Other widths are bus errors (valid.min_access_size is 4); 8 bytes below
	// 0x80 read all ones and store nothing.
	Rules: []Rule{
		{Bar: 0, First: 0x00, Last: 0x7f, Widths: 4, Name: "registers"},
		{Bar: 0, First: 0x80, Last: 1<<20 - 1, Widths: 4 | 8, Name: "DMA registers"},
	},
	Status: []Status{
		{Bar: 0, Offset: 0x20, Mask: 1, Name: "EDU_STATUS_COMPUTING"},
		{Bar: 0, Offset: 0x24, Mask: 0xffffffff, Name: "interrupt status"},
		{Bar: 0, Offset: 0x98, Mask: 1, Name: "EDU_DMA_RUN"},
	},
}
