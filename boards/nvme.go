package boards

// Nvme describes QEMU's NVMe controller without a controller memory buffer. Source: hw/nvme/ctrl.c
// of QEMU 7.2. The names of the registers come from the NVM Express 1.4 specification, section 3.1.
// A 4-byte register accepts width 4. An 8-byte register accepts widths 8 and 4.
var Nvme = Board{
	Name:   "nvme",
	Vendor: 0x1b36, Device: 0x0010,
	BarSizes: [6]uint64{0: 16 << 10},
	Rules: []AccessRule{
		{Bar: 0, First: 0x00, Last: 0x07, Widths: 4 | 8, Name: "CAP"}, // NVMe 1.4, section 3.1.1
		{Bar: 0, First: 0x08, Last: 0x0b, Widths: 4, Name: "VS"},      // NVMe 1.4, section 3.1.2
		{Bar: 0, First: 0x0c, Last: 0x0f, Widths: 4, Name: "INTMS"},   // NVMe 1.4, section 3.1.3
		{Bar: 0, First: 0x10, Last: 0x13, Widths: 4, Name: "INTMC"},   // NVMe 1.4, section 3.1.4
		{Bar: 0, First: 0x14, Last: 0x17, Widths: 4, Name: "CC"},      // NVMe 1.4, section 3.1.5
		{Bar: 0, First: 0x1c, Last: 0x1f, Widths: 4, Name: "CSTS"},    // NVMe 1.4, section 3.1.6
		{Bar: 0, First: 0x20, Last: 0x23, Widths: 4, Name: "NSSR"},    // NVMe 1.4, section 3.1.7
		{Bar: 0, First: 0x24, Last: 0x27, Widths: 4, Name: "AQA"},     // NVMe 1.4, section 3.1.8
		{Bar: 0, First: 0x28, Last: 0x2f, Widths: 4 | 8, Name: "ASQ"}, // NVMe 1.4, section 3.1.9
		{Bar: 0, First: 0x30, Last: 0x37, Widths: 4 | 8, Name: "ACQ"}, // NVMe 1.4, section 3.1.10
		{Bar: 0, First: 0x38, Last: 0xfff, Widths: 4 | 8, Name: "optional registers"},
		// Each doorbell register has 4 bytes. There are no gaps between the registers, because the
		// field DSTRD of the register CAP is 0.
		{Bar: 0, First: 0x1000, Last: 0x3fff, Widths: 4, Name: "doorbells"},
	},
}
