package boards

// Nvme describes QEMU's NVMe controller without a controller memory buffer (hw/nvme/ctrl.c of
// QEMU 7.2). Names and order of the registers are those of NVM Express 1.4, section 3.1; each
// line names the subsection. A register is accessed in its own width or by aligned halves.
var Nvme = Board{
	Name:   "nvme",
	Vendor: 0x1b36, Device: 0x0010,
	Bars: [6]uint64{0: 16 << 10},
	Rules: []Rule{
		{Bar: 0, First: 0x00, Last: 0x07, Widths: 4 | 8, Name: "CAP"}, // 3.1.1
		{Bar: 0, First: 0x08, Last: 0x0b, Widths: 4, Name: "VS"},      // 3.1.2
		{Bar: 0, First: 0x0c, Last: 0x0f, Widths: 4, Name: "INTMS"},   // 3.1.3
		{Bar: 0, First: 0x10, Last: 0x13, Widths: 4, Name: "INTMC"},   // 3.1.4
		{Bar: 0, First: 0x14, Last: 0x17, Widths: 4, Name: "CC"},      // 3.1.5
		{Bar: 0, First: 0x1c, Last: 0x1f, Widths: 4, Name: "CSTS"},    // 3.1.6
		{Bar: 0, First: 0x20, Last: 0x23, Widths: 4, Name: "NSSR"},    // 3.1.7
		{Bar: 0, First: 0x24, Last: 0x27, Widths: 4, Name: "AQA"},     // 3.1.8
		{Bar: 0, First: 0x28, Last: 0x2f, Widths: 4 | 8, Name: "ASQ"}, // 3.1.9
		{Bar: 0, First: 0x30, Last: 0x37, Widths: 4 | 8, Name: "ACQ"}, // 3.1.10
		{Bar: 0, First: 0x38, Last: 0xfff, Widths: 4 | 8, Name: "optional registers"},
		// Doorbells are 32 bits wide and 4 bytes apart (CAP.DSTRD is 0).
		{Bar: 0, First: 0x1000, Last: 0x3fff, Widths: 4, Name: "doorbells"},
	},
}
