package boards

// Nvme describes QEMU's NVMe controller without a controller memory buffer. Source:
// hw/nvme/ctrl.c of QEMU 7.2. The names of the registers are those of the NVM Express 1.4
// specification, section 3.1. A 4-byte register accepts width 4. An 8-byte register accepts
// widths 8 and 4.
var Nvme = Board{
	Name:   "nvme",
	Vendor: 0x1b36, Device: 0x0010,
	Bars: [6]uint64{0: 16 << 10},
	Rules: []Rule{
		{Bar: 0, First: 0x00, Last: 0x07, Widths: 4 | 8, Name: "CAP"}, // NVM Express 1.4, 3.1.1
		{Bar: 0, First: 0x08, Last: 0x0b, Widths: 4, Name: "VS"},      // NVM Express 1.4, 3.1.2
		{Bar: 0, First: 0x0c, Last: 0x0f, Widths: 4, Name: "INTMS"},   // NVM Express 1.4, 3.1.3
		{Bar: 0, First: 0x10, Last: 0x13, Widths: 4, Name: "INTMC"},   // NVM Express 1.4, 3.1.4
		{Bar: 0, First: 0x14, Last: 0x17, Widths: 4, Name: "CC"},      // NVM Express 1.4, 3.1.5
		{Bar: 0, First: 0x1c, Last: 0x1f, Widths: 4, Name: "CSTS"},    // NVM Express 1.4, 3.1.6
		{Bar: 0, First: 0x20, Last: 0x23, Widths: 4, Name: "NSSR"},    // NVM Express 1.4, 3.1.7
		{Bar: 0, First: 0x24, Last: 0x27, Widths: 4, Name: "AQA"},     // NVM Express 1.4, 3.1.8
		{Bar: 0, First: 0x28, Last: 0x2f, Widths: 4 | 8, Name: "ASQ"}, // NVM Express 1.4, 3.1.9
		{Bar: 0, First: 0x30, Last: 0x37, Widths: 4 | 8, Name: "ACQ"}, // NVM Express 1.4, 3.1.10
		{Bar: 0, First: 0x38, Last: 0xfff, Widths: 4 | 8, Name: "optional registers"},
		// Each doorbell register has 4 bytes. The registers follow each other without a gap,
		// because CAP.DSTRD is 0.
		{Bar: 0, First: 0x1000, Last: 0x3fff, Widths: 4, Name: "doorbells"},
	},
}
