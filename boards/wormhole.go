package boards

// Wormhole is a Wormhole B0 by Tenstorrent. Sources:
//   - [TLBs]: tt-isa-documentation, TLBs.md and README.md in WormholeB0/PCIExpressTile
//   - [ARCTile]: tt-isa-documentation, WormholeB0/ARCTile/README.md
//   - [KMD]: tt-kmd, wormhole.c
//   - [ttsim]: ttsim v1.10.0, the manufacturer's simulator
var Wormhole = Board{
	Name:   "wormhole",
	Vendor: 0x1e52, Device: 0x401e, // tt-kmd, enumerate.h
	BarSizes: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 20}, // [TLBs]
	Rules: []AccessRule{
		// A store would reach a tile that no rule can know (README.md).
		{
			Bar: 0, First: 0x00000000, Last: 0x1effffff,
			Widths: 1 | 2 | 4 | 8, IsMemory: true, LoadOnly: true, Name: "windows",
		},
		{
			Bar: 0, First: 0x1fc00000, Last: 0x1fc005cf,
			Widths: 4 | 8, LoadOnly: true, Name: "window configuration",
		},
		// CSM is the memory of the ARC, the management processor. Addresses from here on: [ttsim],
		// src/libttsim.cpp, pci_mem_wr_cur. Width 4: tt-umd, device/pcie/silicon_tlb_window.cpp.
		{Bar: 0, First: 0x1fe80000, Last: 0x1fefffff, Widths: 4, Name: "ARC CSM"},
		{Bar: 0, First: 0x1ff30000, Last: 0x1ff30077, Widths: 4, Name: "ARC reset unit"},
		// SCRATCH 6 and 7: after a store, a tile's accesses to host memory could reach the PCIe
		// controller ([KMD], open_dbi).
		{
			Bar: 0, First: 0x1ff30078, Last: 0x1ff3007f,
			Widths: 4, LoadOnly: true, Name: "PCIe sideband",
		},
		{Bar: 0, First: 0x1ff30080, Last: 0x1ff3ffff, Widths: 4, Name: "ARC reset unit"},
		// Network interface unit: a store could start requests ([ARCTile], APB peripherals).
		{Bar: 0, First: 0x1ff50000, Last: 0x1ff50fff, Widths: 4, LoadOnly: true, Name: "ARC NIU 0"},
		// Outbound translation. The DMA engine before it has no rule: the runtime cannot stop or
		// await its transfers.
		{Bar: 2, First: 0x1200, Last: 0x31ff, Widths: 4, LoadOnly: true, Name: "iATU"},
		// BAR 4 shows BAR 0 from 0x1e000000 on.
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
		// [TLBs], tables of windows and of configuration bits: a tile's addresses have 36 bits.
		// [KMD], KERNEL_TLB_INDEX (185).
		Groups: []WindowGroup{
			{Bar: 0, First: 0, Count: 156, Offset: 0x00000000, Size: 1 << 20, AddressBits: 16},
			{Bar: 0, First: 156, Count: 10, Offset: 0x09c00000, Size: 2 << 20, AddressBits: 15},
			{Bar: 0, First: 166, Count: 20, Offset: 0x0b000000, Size: 16 << 20, AddressBits: 12,
				KernelOwnedCount: 1},
		},
		FieldBits: FieldBits{
			FieldXEnd: 6, FieldYEnd: 6, FieldXStart: 6, FieldYStart: 6, FieldNoC: 1,
			FieldMulticast: 1, FieldOrdering: 2, FieldLinked: 1, FieldStaticVC: 1,
		},
		ConfigBar: 0, ConfigOffset: 0x1fc00000, ConfigStride: 8, ConfigWidth: 8,
	},
	// tt-isa-documentation, WormholeB0/TensixTile/SoftReset.md
	Reset: ResetRegister{Address: 0xffb121b0, Mask: 0x47800},
	// tt-isa-documentation, WormholeB0/NoC/Coordinates.md: rows from 18 on are Tensix rows, in an
	// order that depends on the chip. Undefined numbers select the first column or row.
	ForbiddenRanges: []ForbiddenRange{
		// PCIe tile, (0,3) on NoC 0 and (9,8) on NoC 1 ([KMD], PCIE_NOC_X and later): registers of
		// the PCIe controller (PCIE_DBI_ADDR), and any host memory.
		{
			Routes: unicastNoC0, Columns: 1<<0 | 1<<16 | coordinatesFrom26,
			Rows: 1<<3 | coordinatesFrom18, Last: lastTileAddress, Name: pcieTileName,
		},
		{
			Routes: unicastNoC1, Columns: 1<<9 | 1<<16 | coordinatesFrom26,
			Rows: 1<<8 | coordinatesFrom18, Last: lastTileAddress, Name: pcieTileName,
		},
		// ARC tile, (0,10) on NoC 0 and (9,1) on NoC 1: SCRATCH 6 and 7, as above, and the
		// addresses at which the ARC reaches the PCIe controller and the NoCs ([ARCTile], ARC
		// XBAR).
		{
			Routes: unicastNoC0, Columns: 1<<0 | 1<<16 | coordinatesFrom26, Rows: 1 << 10,
			First: 0x8_8003_0078, Last: 0x8_8003_007f,
			Name: "the PCIe sideband",
		},
		{
			Routes: unicastNoC0, Columns: 1<<0 | 1<<16 | coordinatesFrom26, Rows: 1 << 10,
			First: 0x8_9000_0000, Last: 0x8_ffff_ffff, Name: "the ARC's address windows",
		},
		{
			Routes: unicastNoC1, Columns: 1<<9 | 1<<16 | coordinatesFrom26, Rows: 1 << 1,
			First: 0x8_8003_0078, Last: 0x8_8003_007f,
			Name: "the PCIe sideband",
		},
		{
			Routes: unicastNoC1, Columns: 1<<9 | 1<<16 | coordinatesFrom26, Rows: 1 << 1,
			First: 0x8_9000_0000, Last: 0x8_ffff_ffff, Name: "the ARC's address windows",
		},
		// Rectangles that may include column 0, with the PCIe and ARC tiles. Number 17 is column 5,
		// and 18 to 21 are columns 1 to 4: a rectangle from 17 to these wraps around.
		{
			Routes: multicastNoC0, Columns: 1<<0 | 1<<16 | 1<<17 | coordinatesFrom26,
			Rows: allCoordinates,
			Last: lastTileAddress, Name: pcieTileName,
		},
		// Column 0 is column 9 of NoC 1. Translated numbers, from 16 on, count as on NoC 0, but
		// packets travel in the opposite direction: a rectangle to a higher number wraps around.
		{
			Routes: multicastNoC1, Columns: 1<<9 | coordinatesFrom16,
			Rows: allCoordinates,
			Last: lastTileAddress, Name: pcieTileName,
		},
	},
	// [KMD], IATU_*, wormhole_configure_outbound_atu: noc_pcie_offset, noc_dma_limit, the bit that
	// enables a region, and the bypass bits for DMA, TLPs and PCI functions.
	Outbound: &OutboundTranslation{
		Bar: 2, Offset: 0x1200, Stride: 0x200, RegionCount: 16,
		NoCBase: 0x8_0000_0000, OffsetMax: 0xfffd_ffff,
		RegionControl: 1<<31 | 1<<27 | 1<<21 | 1<<19,
	},
}
