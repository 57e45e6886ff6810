package boards

// Nvme is QEMU's NVMe controller without a controller memory buffer
// (hw/nvme/ctrl.c of QEMU 7.2). Registers as in NVM Express 1.4, section 3.1.
var Nvme = Board{
	Name:   "nvme",
	Title:  "QEMU nvme",
	Vendor: 0x1b36, Device: 0x0010,
	Bars: [6]uint64{0: 16 << 10},
	Rules: []Rule{
		{Bar: 0, First: 0x0000, Last: 0x0fff, Widths: 4 | 8, Name: "controller registers"},
		// Doorbells are 32 bits wide and 4 bytes apart (CAP.DSTRD is 0).
		{Bar: 0, First: 0x1000, Last: 0x3fff, Widths: 4, Name: "doorbells"},
	},
	Status: []Status{
		// RDY, CFS and SHST.
		{Bar: 0, Offset: 0x1c, Mask: 0xf, Name: "CSTS"},
	},
}
