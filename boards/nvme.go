package boards

// Nvme is QEMU's NVMe controller without a controller memory buffer. Sources: QEMU 7.2,
// hw/nvme/ctrl.c; for the registers, NVM Express 1.4, sections 3.1.1 to 3.1.10.
var Nvme = Board{
	Name:   "nvme",
	Vendor: 0x1b36, Device: 0x0010,
	BarSizes: [6]uint64{0: 16 << 10},
	Rules: []AccessRule{
		{Bar: 0, First: 0x00, Last: 0x07, Widths: 4 | 8, Name: "CAP"},
		{Bar: 0, First: 0x08, Last: 0x0b, Widths: 4, Name: "VS"},
		{Bar: 0, First: 0x0c, Last: 0x0f, Widths: 4, Name: "INTMS"},
		{Bar: 0, First: 0x10, Last: 0x13, Widths: 4, Name: "INTMC"},
		{Bar: 0, First: 0x14, Last: 0x17, Widths: 4, Name: "CC"},
		{Bar: 0, First: 0x1c, Last: 0x1f, Widths: 4, Name: "CSTS"},
		{Bar: 0, First: 0x20, Last: 0x23, Widths: 4, Name: "NSSR"},
		{Bar: 0, First: 0x24, Last: 0x27, Widths: 4, Name: "AQA"},
		{Bar: 0, First: 0x28, Last: 0x2f, Widths: 4 | 8, Name: "ASQ"},
		{Bar: 0, First: 0x30, Last: 0x37, Widths: 4 | 8, Name: "ACQ"},
		{Bar: 0, First: 0x38, Last: 0xfff, Widths: 4 | 8, Name: "optional registers"},
		// Registers of 4 bytes without gaps: CAP.DSTRD is 0.
		{Bar: 0, First: 0x1000, Last: 0x3fff, Widths: 4, Name: "doorbells"},
	},
}
