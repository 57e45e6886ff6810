package boards

// Wormhole describes Tenstorrent's Wormhole B0.
//
// Sources: [TLBs] tt-isa-documentation WormholeB0/PCIExpressTile/TLBs.md and
// README.md in the same folder; [Coordinates] WormholeB0/NoC/Coordinates.md; [SoftReset]
// WormholeB0/TensixTile/SoftReset.md; [KMD] tt-kmd wormhole.c; [ttsim] ttsim
// v1.10.0, the maker's simulator.
var Wormhole = Board{
	Name:   "wormhole",
	Vendor: 0x1e52, Device: 0x401e, // tt-kmd enumerate.h
	Bars: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 20}, // [TLBs]
	Rules: []Rule{
		// Load only, because a rule cannot know where a TLB window points. Images store through
		// windows of kind Tlb, whose target is checked when they point them.
		{
			Bar: 0, First: 0x00000000, Last: 0x1effffff,
			Widths: 1 | 2 | 4 | 8, Memory: true, LoadOnly: true, Name: "windows",
		},
		{
			Bar: 0, First: 0x1fc00000, Last: 0x1fc005cf,
			Widths: 4 | 8, LoadOnly: true, Name: "window configuration",
		},
		// From here on [ttsim] src/libttsim.cpp, pci_mem_wr_cur. Registers take 32-bit accesses
		// only (tt-umd device/pcie/silicon_tlb_window.cpp).
		{Bar: 0, First: 0x1fe80000, Last: 0x1fefffff, Widths: 4, Name: "ARC CSM"},
		{Bar: 0, First: 0x1ff30000, Last: 0x1ff30077, Widths: 4, Name: "ARC reset unit"},
		// SCRATCH 6 and 7 turn accesses to host memory into accesses to the controller's
		// registers: [KMD], open_dbi.
		{
			Bar: 0, First: 0x1ff30078, Last: 0x1ff3007f,
			Widths: 4, LoadOnly: true, Name: "PCIe sideband",
		},
		{Bar: 0, First: 0x1ff30080, Last: 0x1ff3ffff, Widths: 4, Name: "ARC reset unit"},
		// Load only: WormholeB0/ARCTile/README.md, APB peripherals.
		{Bar: 0, First: 0x1ff50000, Last: 0x1ff50fff, Widths: 4, LoadOnly: true, Name: "ARC NIU 0"},
		// The DMA engine below the iATU is not included: it starts transfers that no command of an
		// image waits for.
		{Bar: 2, First: 0x1200, Last: 0x31ff, Widths: 4, LoadOnly: true, Name: "iATU"},
		{
			Bar: 4, First: 0x00000000, Last: 0x00ffffff,
			Widths: 1 | 2 | 4 | 8, Memory: true, LoadOnly: true, Name: "windows",
		},
		{
			Bar: 4, First: 0x01c00000, Last: 0x01c005cf,
			Widths: 4 | 8, LoadOnly: true, Name: "window configuration",
		},
		{Bar: 4, First: 0x01e80000, Last: 0x01efffff, Widths: 4, Name: "ARC CSM"},
		{Bar: 4, First: 0x01f30000, Last: 0x01f30077, Widths: 4, Name: "ARC reset unit"},
		{
			Bar: 4, First: 0x01f30078, Last: 0x01f3007f,
			Widths: 4, LoadOnly: true, Name: "PCIe sideband",
		},
		{Bar: 4, First: 0x01f30080, Last: 0x01f3ffff, Widths: 4, Name: "ARC reset unit"},
		{Bar: 4, First: 0x01f50000, Last: 0x01f50fff, Widths: 4, LoadOnly: true, Name: "ARC NIU 0"},
	},
	TLB: &TLB{
		// [TLBs], table of windows and table of configuration bits: addresses
		// have 36 bits, and N = 16, 15, 12 of them are above the offset in the window.
		// The kernel driver keeps window 185: tt-kmd wormhole.c, KERNEL_TLB_INDEX.
		Groups: []Group{
			{Bar: 0, First: 0, Count: 156, Offset: 0x00000000, Size: 1 << 20, AddressBits: 16},
			{Bar: 0, First: 156, Count: 10, Offset: 0x09c00000, Size: 2 << 20, AddressBits: 15},
			{Bar: 0, First: 166, Count: 20, Offset: 0x0b000000, Size: 16 << 20, AddressBits: 12,
				KernelOwned: 1},
		},
		Fields: FieldWidths{XEnd: 6, YEnd: 6, XStart: 6, YStart: 6, NoC: 1, Multicast: 1,
			Ordering: 2, Linked: 1, StaticVC: 1},
		ConfigBar: 0, ConfigOffset: 0x1fc00000, ConfigStride: 8, ConfigWidth: 8,
	},
	Reset: Reset{Address: 0xffb121b0, Mask: 0x47800}, // [SoftReset]
	// All names of columns and rows: [Coordinates], coordinate translation. Rows from 18 on are
	// those of Tensix tiles, in an order that depends on the chip. Every undefined number is the
	// first column or row.
	Closed: []Closed{
		// Tile (0,3), on NoC 1 (9,8): [KMD], PCIE_NOC_X and those after it. Registers of the
		// controller (PCIE_DBI_ADDR), and host memory that is not the image's.
		{
			Ways: overNoC0, X: 1<<0 | 1<<16 | from26, Y: 1<<3 | from18,
			Last: all, Name: "the PCIe tile",
		},
		{
			Ways: overNoC1, X: 1<<9 | 1<<16 | from26, Y: 1<<8 | from18,
			Last: all, Name: "the PCIe tile",
		},
		// Tile (0,10), on NoC 1 (9,1): SCRATCH 6 and 7, and the ARC's own windows, onto the
		// PCIe controller and the NoCs (WormholeB0/ARCTile/README.md, ARC XBAR).
		{
			Ways: overNoC0, X: 1<<0 | 1<<16 | from26, Y: 1 << 10,
			First: 0x8_8003_0078, Last: 0x8_8003_007f, Name: "the PCIe sideband",
		},
		{
			Ways: overNoC0, X: 1<<0 | 1<<16 | from26, Y: 1 << 10,
			First: 0x8_9000_0000, Last: 0x8_ffff_ffff, Name: "the ARC's windows",
		},
		{
			Ways: overNoC1, X: 1<<9 | 1<<16 | from26, Y: 1 << 1,
			First: 0x8_8003_0078, Last: 0x8_8003_007f, Name: "the PCIe sideband",
		},
		{
			Ways: overNoC1, X: 1<<9 | 1<<16 | from26, Y: 1 << 1,
			First: 0x8_9000_0000, Last: 0x8_ffff_ffff, Name: "the ARC's windows",
		},
		// The column of both tiles. Column 17 is to the right of columns from 18 on: a rectangle
		// that starts there wraps around.
		{
			Ways: multicastNoC0, X: 1<<0 | 1<<16 | 1<<17 | from26, Y: all,
			Last: all, Name: "the PCIe tile",
		},
		// NoC 1 traverses translated columns in the opposite direction.
		{Ways: multicastNoC1, X: 1<<9 | from16, Y: all, Last: all, Name: "the PCIe tile"},
	},
	// [KMD], IATU_* and wormhole_configure_outbound_atu: enabled, and the bypass
	// of DMA, TLP and function; noc_pcie_offset, noc_dma_limit.
	Outbound: &Outbound{
		Bar: 2, Offset: 0x1200, Stride: 0x200, Regions: 16,
		NoC: 0x8_0000_0000, Last: 0xfffd_ffff, Control: 1<<31 | 1<<27 | 1<<21 | 1<<19,
	},
}
