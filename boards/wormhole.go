package boards

// Wormhole describes the PCIe device Wormhole B0 by Tenstorrent.
//
// The comments cite these sources:
//   - [TLBs]: tt-isa-documentation, TLBs.md and README.md in WormholeB0/PCIExpressTile
//   - [Coordinates]: tt-isa-documentation, WormholeB0/NoC/Coordinates.md
//   - [SoftReset]: tt-isa-documentation, WormholeB0/TensixTile/SoftReset.md
//   - [ARCTile]: tt-isa-documentation, WormholeB0/ARCTile/README.md
//   - [KMD]: tt-kmd, wormhole.c
//   - [ttsim]: ttsim v1.10.0, the manufacturer's simulator
var Wormhole = Board{
	Name:   "wormhole",
	Vendor: 0x1e52, Device: 0x401e, // source: tt-kmd, enumerate.h
	BarSizes: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 20}, // sizes in bytes; source: [TLBs]
	Rules: []AccessRule{
		// TLB windows. This rule allows only loads. It cannot know which tile a TLB window shows,
		// and therefore cannot tell whether a store is safe. To store to a tile, an image uses a
		// window of kind Tlb: the verifier checks the tiles and the address in each of its Point
		// commands.
		{
			Bar: 0, First: 0x00000000, Last: 0x1effffff,
			Widths: 1 | 2 | 4 | 8, IsMemory: true, LoadOnly: true, Name: "windows",
		},
		// Registers that program the TLB windows.
		{
			Bar: 0, First: 0x1fc00000, Last: 0x1fc005cf,
			Widths: 4 | 8, LoadOnly: true, Name: "window configuration",
		},
		// Source of the addresses in this rule and in all later rules: [ttsim], src/libttsim.cpp,
		// pci_mem_wr_cur. These registers accept only width 4 (tt-umd,
		// device/pcie/silicon_tlb_window.cpp).
		{Bar: 0, First: 0x1fe80000, Last: 0x1fefffff, Widths: 4, Name: "ARC CSM"},
		{Bar: 0, First: 0x1ff30000, Last: 0x1ff30077, Widths: 4, Name: "ARC reset unit"},
		// The registers SCRATCH 6 and 7 of the ARC reset unit. Images may only load from them: a
		// store can make accesses to host memory reach registers of the PCIe controller instead
		// ([KMD], open_dbi).
		{
			Bar: 0, First: 0x1ff30078, Last: 0x1ff3007f,
			Widths: 4, LoadOnly: true, Name: "PCIe sideband",
		},
		{Bar: 0, First: 0x1ff30080, Last: 0x1ff3ffff, Widths: 4, Name: "ARC reset unit"},
		// Network interface unit (NIU) of the ARC tile. Images may only load from its registers,
		// because a store to a register can make the ARC tile start requests ([ARCTile], APB
		// peripherals).
		{Bar: 0, First: 0x1ff50000, Last: 0x1ff50fff, Widths: 4, LoadOnly: true, Name: "ARC NIU 0"},
		// Outbound address translation (iATU) of the PCIe controller. The registers of the
		// controller's DMA engine lie at lower offsets. No rule includes those registers: they
		// start transfers, and no command of an image can wait until such a transfer has ended.
		{Bar: 2, First: 0x1200, Last: 0x31ff, Widths: 4, LoadOnly: true, Name: "iATU"},
		// BAR 4 shows the part of BAR 0 from 0x1e000000 on. Therefore BAR 4 has the same rules as
		// that part of BAR 0.
		{
			Bar: 4, First: 0x00000000, Last: 0x00ffffff,
			Widths: 1 | 2 | 4 | 8, IsMemory: true, LoadOnly: true, Name: "windows",
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
	TLB: &TLBLayout{
		// Source of Groups and Fields: the table of windows and the table of configuration bits in
		// [TLBs]. An address in a tile has 36 bits. Its lower bits are the offset in the TLB
		// window, and its upper 16, 15 or 12 bits are a field of the configuration. The kernel
		// driver uses TLB window 185 itself ([KMD], KERNEL_TLB_INDEX).
		Groups: []WindowGroup{
			{Bar: 0, First: 0, Count: 156, Offset: 0x00000000, Size: 1 << 20, AddressBits: 16},
			{Bar: 0, First: 156, Count: 10, Offset: 0x09c00000, Size: 2 << 20, AddressBits: 15},
			{Bar: 0, First: 166, Count: 20, Offset: 0x0b000000, Size: 16 << 20, AddressBits: 12,
				KernelOwnedCount: 1},
		},
		Fields: FieldWidths{FieldXEnd: 6, FieldYEnd: 6, FieldXStart: 6, FieldYStart: 6, FieldNoC: 1,
			FieldMulticast: 1, FieldOrdering: 2, FieldLinked: 1, FieldStaticVC: 1},
		ConfigBar: 0, ConfigOffset: 0x1fc00000, ConfigStride: 8, ConfigWidth: 8,
	},
	Reset: ResetRegister{Address: 0xffb121b0, Mask: 0x47800}, // source: [SoftReset]
	// X and Y are sets of columns and rows. A set has a bit for each number that the column or row
	// of the forbidden tile has on at least one chip. Source: [Coordinates], coordinate
	// translation. The row numbers from 18 on belong to rows of Tensix tiles, in an order that
	// depends on the chip. An undefined number selects the first column or row.
	ForbiddenRanges: []ForbiddenRange{
		// The PCIe tile. Its coordinates are (0,3) on NoC 0 and (9,8) on NoC 1. Source: [KMD],
		// PCIE_NOC_X and the constants after it. Through the PCIe tile, an image could access
		// registers of the PCIe controller (PCIE_DBI_ADDR), and host memory outside the image's
		// windows.
		{
			Routes: unicastNoC0, X: 1<<0 | 1<<16 | coordinatesFrom26, Y: 1<<3 | coordinatesFrom18,
			Last: lastTileAddress, Name: pcieTileName,
		},
		{
			Routes: unicastNoC1, X: 1<<9 | 1<<16 | coordinatesFrom26, Y: 1<<8 | coordinatesFrom18,
			Last: lastTileAddress, Name: pcieTileName,
		},
		// Two ranges of the ARC tile: the registers SCRATCH 6 and 7, and the ARC processor's own
		// windows, which show the PCIe controller and the NoCs ([ARCTile], ARC XBAR). The
		// coordinates of the ARC tile are (0,10) on NoC 0 and (9,1) on NoC 1.
		{
			Routes: unicastNoC0, X: 1<<0 | 1<<16 | coordinatesFrom26, Y: 1 << 10,
			First: 0x8_8003_0078, Last: 0x8_8003_007f, Name: "the PCIe sideband",
		},
		{
			Routes: unicastNoC0, X: 1<<0 | 1<<16 | coordinatesFrom26, Y: 1 << 10,
			First: 0x8_9000_0000, Last: 0x8_ffff_ffff, Name: "the ARC's windows",
		},
		{
			Routes: unicastNoC1, X: 1<<9 | 1<<16 | coordinatesFrom26, Y: 1 << 1,
			First: 0x8_8003_0078, Last: 0x8_8003_007f, Name: "the PCIe sideband",
		},
		{
			Routes: unicastNoC1, X: 1<<9 | 1<<16 | coordinatesFrom26, Y: 1 << 1,
			First: 0x8_9000_0000, Last: 0x8_ffff_ffff, Name: "the ARC's windows",
		},
		// Every rectangle on NoC 0 that may include column 0, the column of the PCIe and ARC tiles.
		// Column 17 is forbidden too. It lies to the right of the columns 18 to 21. Therefore a
		// rectangle from column 17 to one of these columns wraps around the edge of the grid, and
		// includes column 0.
		{
			Routes: multicastNoC0, X: 1<<0 | 1<<16 | 1<<17 | coordinatesFrom26, Y: allCoordinates,
			Last: lastTileAddress, Name: pcieTileName,
		},
		// Every rectangle on NoC 1 that may include column 9, the column of the PCIe and ARC tiles.
		// NoC 1 traverses the translated columns (from 16 on) in the opposite direction. Therefore
		// every rectangle of translated columns may include column 9.
		{
			Routes: multicastNoC1, X: 1<<9 | coordinatesFrom16, Y: allCoordinates,
			Last: lastTileAddress, Name: pcieTileName,
		},
	},
	// Source: [KMD], IATU_* and wormhole_configure_outbound_atu. The driver calls NoCBase
	// noc_pcie_offset, and OffsetMax noc_dma_limit. RegionControl has the bit that enables a
	// region, and the bypass bits for DMA, TLPs and PCI functions.
	Outbound: &OutboundTranslation{
		Bar: 2, Offset: 0x1200, Stride: 0x200, RegionCount: 16,
		NoCBase: 0x8_0000_0000, OffsetMax: 0xfffd_ffff,
		RegionControl: 1<<31 | 1<<27 | 1<<21 | 1<<19,
	},
}
