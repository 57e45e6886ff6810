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
		// TLB windows. Images may load from this range, but must not store to it. A store reaches
		// the tile that the TLB window shows at that time. A rule for a BAR cannot know this tile,
		// and cannot know whether the store is safe. To store to a tile, an image uses a window of
		// kind Tlb. For such a window, the verifier checks the tiles and addresses in the Point
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
		// CSM, the memory of the ARC, which is the chip's management processor. Source of the
		// addresses in this rule and in all later rules: [ttsim], src/libttsim.cpp, pci_mem_wr_cur.
		// This memory and the registers below accept only width 4 (tt-umd,
		// device/pcie/silicon_tlb_window.cpp).
		{Bar: 0, First: 0x1fe80000, Last: 0x1fefffff, Widths: 4, Name: "ARC CSM"}, // ARC's memory
		{Bar: 0, First: 0x1ff30000, Last: 0x1ff30077, Widths: 4, Name: "ARC reset unit"},
		// The registers SCRATCH 6 and 7 of the ARC reset unit. Images may load from them, but must
		// not store to them. After a store, a tile's accesses to host memory could reach registers
		// of the PCIe controller instead ([KMD], open_dbi).
		{
			Bar: 0, First: 0x1ff30078, Last: 0x1ff3007f,
			Widths: 4, LoadOnly: true, Name: "PCIe sideband", // registers SCRATCH 6 and 7
		},
		{Bar: 0, First: 0x1ff30080, Last: 0x1ff3ffff, Widths: 4, Name: "ARC reset unit"},
		// Network interface unit (NIU) of the ARC tile. Images must not store to its registers,
		// because a store could make the ARC tile start requests ([ARCTile], APB peripherals).
		{Bar: 0, First: 0x1ff50000, Last: 0x1ff50fff, Widths: 4, LoadOnly: true, Name: "ARC NIU 0"},
		// Outbound address translation unit (iATU) of the PCIe controller. No rule covers the
		// registers of the controller's DMA engine, which have lower offsets, so images cannot
		// access them. Through these registers, an image could start transfers that the runtime
		// cannot stop or wait for.
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
		{Bar: 4, First: 0x01e80000, Last: 0x01efffff, Widths: 4, Name: "ARC CSM"}, // ARC's memory
		{Bar: 4, First: 0x01f30000, Last: 0x01f30077, Widths: 4, Name: "ARC reset unit"},
		{
			Bar: 4, First: 0x01f30078, Last: 0x01f3007f,
			Widths: 4, LoadOnly: true, Name: "PCIe sideband", // registers SCRATCH 6 and 7
		},
		{Bar: 4, First: 0x01f30080, Last: 0x01f3ffff, Widths: 4, Name: "ARC reset unit"},
		{Bar: 4, First: 0x01f50000, Last: 0x01f50fff, Widths: 4, LoadOnly: true, Name: "ARC NIU 0"},
	},
	TLB: &TLBLayout{
		// Source of Groups and FieldBits: the table of windows and the table of configuration bits
		// in [TLBs]. An address in a tile has 36 bits. The lower bits of the address are the offset
		// in the TLB window. The upper 16, 15 or 12 bits are a field of the configuration. The
		// kernel driver itself uses TLB window 185 ([KMD], KERNEL_TLB_INDEX).
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
	Reset: ResetRegister{Address: 0xffb121b0, Mask: 0x47800}, // source: [SoftReset]
	// Columns and Rows are sets of coordinate numbers, with one bit for each number. They contain
	// every number that selects the forbidden column or row on at least one chip. Source:
	// [Coordinates], coordinate translation. The row numbers from 18 on select rows of Tensix
	// tiles, in an order that depends on the chip. An undefined number selects the first column or
	// row.
	ForbiddenRanges: []ForbiddenRange{
		// The PCIe tile. Its coordinates are (0,3) on NoC 0 and (9,8) on NoC 1. Source: [KMD],
		// PCIE_NOC_X and the constants after it. Through the PCIe tile, an image could access
		// registers of the PCIe controller (PCIE_DBI_ADDR), and host memory outside the image's
		// windows.
		{
			Routes: unicastNoC0, Columns: 1<<0 | 1<<16 | coordinatesFrom26,
			Rows: 1<<3 | coordinatesFrom18, Last: lastTileAddress, Name: pcieTileName,
		},
		{
			Routes: unicastNoC1, Columns: 1<<9 | 1<<16 | coordinatesFrom26,
			Rows: 1<<8 | coordinatesFrom18, Last: lastTileAddress, Name: pcieTileName,
		},
		// Two ranges of the ARC tile, which is (0,10) on NoC 0 and (9,1) on NoC 1:
		//
		//   - "the PCIe sideband": the registers SCRATCH 6 and 7 of the ARC reset unit. After a
		//     store to one of them, a tile's accesses to host memory could reach registers of the
		//     PCIe controller instead ([KMD], open_dbi).
		//   - "the ARC's address windows": the addresses at which the ARC processor itself reaches
		//     the PCIe controller and the NoCs ([ARCTile], ARC XBAR).
		{
			Routes: unicastNoC0, Columns: 1<<0 | 1<<16 | coordinatesFrom26, Rows: 1 << 10,
			First: 0x8_8003_0078, Last: 0x8_8003_007f,
			Name: "the PCIe sideband", // registers SCRATCH 6 and 7
		},
		{
			Routes: unicastNoC0, Columns: 1<<0 | 1<<16 | coordinatesFrom26, Rows: 1 << 10,
			First: 0x8_9000_0000, Last: 0x8_ffff_ffff, Name: "the ARC's address windows",
		},
		{
			Routes: unicastNoC1, Columns: 1<<9 | 1<<16 | coordinatesFrom26, Rows: 1 << 1,
			First: 0x8_8003_0078, Last: 0x8_8003_007f,
			Name: "the PCIe sideband", // registers SCRATCH 6 and 7
		},
		{
			Routes: unicastNoC1, Columns: 1<<9 | 1<<16 | coordinatesFrom26, Rows: 1 << 1,
			First: 0x8_9000_0000, Last: 0x8_ffff_ffff, Name: "the ARC's address windows",
		},
		// Forbid every multicast on NoC 0 to a rectangle of tiles that may include column 0,
		// because the PCIe tile and the ARC tile are in this column. The column numbers from 16 on
		// are translated coordinates: number 17 selects column 5 of the grid, and the numbers 18 to
		// 21 select the columns 1 to 4. Therefore a rectangle from number 17 to one of the numbers
		// 18 to 21 wraps around the edge of the grid, and includes column 0. For this reason, the
		// number 17 is forbidden too.
		{
			Routes: multicastNoC0, Columns: 1<<0 | 1<<16 | 1<<17 | coordinatesFrom26,
			Rows: allCoordinates,
			Last: lastTileAddress, Name: pcieTileName,
		},
		// Forbid every multicast on NoC 1 to a rectangle of tiles that may include column 9. NoC 1
		// counts columns from the other edge of the grid, so that its column 9 is column 0 of NoC
		// 0: the column of the PCIe tile and of the ARC tile. The translated column numbers, from
		// 16 on, count in the direction of NoC 0, but packets on NoC 1 travel in the opposite
		// direction. Therefore a rectangle from a lower to a higher translated number wraps around
		// the edge of the grid, and may include the column of these tiles.
		{
			Routes: multicastNoC1, Columns: 1<<9 | coordinatesFrom16,
			Rows: allCoordinates,
			Last: lastTileAddress, Name: pcieTileName,
		},
	},
	// Source: [KMD], IATU_* and wormhole_configure_outbound_atu. The values of NoCBase and
	// OffsetMax have the names noc_pcie_offset and noc_dma_limit in the driver. RegionControl has
	// the bit that enables a region, and the bypass bits for DMA, TLPs and PCI functions.
	Outbound: &OutboundTranslation{
		Bar: 2, Offset: 0x1200, Stride: 0x200, RegionCount: 16,
		NoCBase: 0x8_0000_0000, OffsetMax: 0xfffd_ffff,
		RegionControl: 1<<31 | 1<<27 | 1<<21 | 1<<19,
	},
}
