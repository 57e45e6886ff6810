package chips

import "lightmetal/boards"

// Source of the status registers: QEMU 7.2, hw/misc/edu.c.
var edu = Chip{
	Board: &boards.Edu,
	Title: "QEMU edu",
	StatusRegisters: []StatusRegister{
		{Bar: 0, Offset: 0x20, Mask: 1, Name: "EDU_STATUS_COMPUTING"},
		{Bar: 0, Offset: 0x24, Mask: 0xffffffff, Name: "interrupt status"},
		{Bar: 0, Offset: 0x98, Mask: 1, Name: "EDU_DMA_RUN"},
	},
}

var ivshmem = Chip{Board: &boards.Ivshmem, Title: "QEMU ivshmem-plain"}

var nvme = Chip{
	Board: &boards.Nvme,
	Title: "QEMU nvme",
	StatusRegisters: []StatusRegister{
		// The mask has the fields RDY, CFS and SHST of the register CSTS (NVM Express 1.4, section
		// 3.1.6).
		{Bar: 0, Offset: 0x1c, Mask: 0xf, Name: "CSTS"},
	},
}
