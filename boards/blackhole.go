package boards

// Blackhole describes the PCIe device Blackhole by Tenstorrent.
//
// The comments cite these sources:
//   - [KMD]: tt-kmd, blackhole.c
//   - [UMD]: tt-umd, device/api/umd/device/arch/blackhole_implementation.hpp
//   - [SoftReset]: tt-isa-documentation, BlackholeA0/TensixTile/SoftReset.md
//   - [ttsim]: ttsim v1.10.0, the manufacturer's simulator
//   - [Firmware]: tt-zephyr-platforms, noc_init.c, pcie.c and pcie.h in
//     lib/tenstorrent/bh_arc
var Blackhole = Board{
	Name:   "blackhole",
	Vendor: 0x1e52, Device: 0xb140, // source: tt-kmd, enumerate.h
	// Sizes in bytes. If the host's firmware assigns less than 32 GiB to BAR 4, only the 4 GiB TLB
	// windows that fit in the BAR are usable ([KMD], blackhole_init).
	BarSizes: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 30},
	Rules: []AccessRule{
		// TLB windows. Images may load from this range, but must not store to it. A store reaches
		// the tile that the TLB window shows at that time. A rule for a BAR cannot know this tile,
		// and cannot know whether the store is safe. To store to a tile, an image uses a window of
		// kind Tlb. For such a window, the verifier checks the tiles and addresses in the Point
		// commands.
		{
			Bar: 0, First: 0x00000000, Last: 0x193fffff,
			Widths: 1 | 2 | 4 | 8, IsMemory: true, LoadOnly: true, Name: "windows",
		},
		// Registers that program the TLB windows, 12 bytes for each TLB window. Only width 4 is
		// accepted: an 8-byte access could fault, or reach the registers of the next TLB window
		// (tt-umd PR #2648). Images cannot access the registers after this range, because no rule
		// covers them. Those registers control strided multicast, and change which tiles the TLB
		// windows 0 to 31 show.
		{
			Bar: 0, First: 0x1fc00000, Last: 0x1fc009d7,
			Widths: 4, LoadOnly: true, Name: "window configuration",
		},
		// Network interface units (NIUs) of the PCIe tile. Images must not store to the registers
		// of an NIU, because a store could make the PCIe tile start requests. Source of the
		// addresses of the NIUs, and of the iATU below: [ttsim], src/libttsim.cpp, constants
		// PCIE_NIU0_BASE, PCIE_NIU1_BASE and IATU_BASE.
		{
			Bar: 0, First: 0x1fd04000, Last: 0x1fd05fff,
			Widths: 4, LoadOnly: true, Name: "PCIe NIU 0",
		},
		{
			Bar: 0, First: 0x1fd14000, Last: 0x1fd15fff,
			Widths: 4, LoadOnly: true, Name: "PCIe NIU 1",
		},
		// Reset unit of the ARC, the chip's management processor. Source of the address: [UMD],
		// ARC_APB_BAR0_XBAR_OFFSET_START. In the simulator [ttsim], the unit can be accessed over
		// the NoC, but not through BAR 0.
		{Bar: 0, First: 0x1ff30000, Last: 0x1ff3ffff, Widths: 4, Name: "ARC reset unit"},
		// Outbound address translation unit (iATU) of the PCIe controller. No rule covers the
		// registers of the controller's DMA engine, which have lower offsets: they start transfers,
		// and no command of an image can wait until such a transfer has ended.
		{Bar: 2, First: 0x1000, Last: 0x2fff, Widths: 4, LoadOnly: true, Name: "iATU"},
		{
			Bar: 4, First: 0, Last: 32<<30 - 1,
			Widths: 1 | 2 | 4 | 8, IsMemory: true, LoadOnly: true, Name: "windows",
		},
	},
	TLB: &TLBLayout{
		// Source of Groups and FieldBits: [KMD], TLB_2M_REG and TLB_4G_REG. The kernel driver
		// itself uses TLB window 201 ([KMD], KERNEL_TLB_INDEX).
		Groups: []WindowGroup{
			{Bar: 0, First: 0, Count: 202, Offset: 0, Size: 2 << 20, AddressBits: 43,
				KernelOwnedCount: 1},
			{Bar: 4, First: 202, Count: 8, Offset: 0, Size: 4 << 30, AddressBits: 32},
		},
		FieldBits: FieldBits{
			FieldXEnd: 6, FieldYEnd: 6, FieldXStart: 6, FieldYStart: 6, FieldNoC: 2,
			FieldMulticast: 1, FieldOrdering: 2, FieldLinked: 1, FieldUseStaticVC: 1,
			FieldUnused: 1, FieldStaticVC: 3,
		},
		ConfigBar: 0, ConfigOffset: 0x1fc00000, ConfigStride: 12, ConfigWidth: 4,
	},
	Reset: ResetRegister{Address: 0xffb121b0, Mask: 0x47800}, // source: [SoftReset]
	// Columns and Rows are sets of coordinate numbers, with one bit for each number. They contain
	// every number that selects the forbidden column or row on at least one chip. Source:
	// [Firmware], ComputeNocTranslation. The order of the columns 1 to 7 and 10 to 16 depends on
	// the chip. Column number 19 selects the PCIe tile, and the column numbers from 20 on select
	// Ethernet tiles. Several row numbers select row 0 in addition to number 0: number 24, one of
	// the numbers 12 to 23, and all undefined numbers. Row number 25 also selects row 1.
	ForbiddenRanges: []ForbiddenRange{
		// The PCIe tiles (2,0) and (11,0). A chip uses one of them ([KMD],
		// blackhole_detect_pcie_noc_x). Through a PCIe tile, an image could access registers of
		// the PCIe controller (PCIE_DBI_ADDR), and host memory outside the image's windows.
		{
			Routes: unicastNoC0 | unicastNoC1, Columns: 0x7f<<1 | 0x7f<<10 | coordinatesFrom19,
			Rows: 1<<0 | 0x1fff<<12 | coordinatesFrom26, Last: lastTileAddress, Name: pcieTileName,
		},
		// The same PCIe tiles on NoC 1, on a chip that does not translate coordinates of NoC 1.
		{
			Routes: unicastNoC1, Columns: 1<<5 | 1<<14 | coordinatesFrom32, Rows: 1 << 11,
			Last: lastTileAddress, Name: pcieTileName,
		},
		// The address windows of the ARC processor, in the ARC tile (8,0). One of these windows
		// shows registers of the PCIe controller ([Firmware], pcie.h, PCIE_DBI_REG_TLB). Rows does
		// not contain the numbers 26 to 30, because they select other tiles.
		{
			Routes: unicastNoC0 | unicastNoC1, Columns: 1<<8 | coordinatesFrom32,
			Rows:  1<<0 | 0x7fff<<11 | coordinatesFrom31,
			First: 0x9000_0000, Last: lastTileAddress, Name: "the ARC's address windows",
		},
		// Forbid every multicast on NoC 0 to a rectangle of tiles that may include row 0, because
		// the PCIe tiles and the ARC tile are in this row.
		{
			Routes: multicastNoC0, Columns: allCoordinates,
			Rows: 1<<0 | 0x1fff<<12 | coordinatesFrom26,
			Last: lastTileAddress, Name: pcieTileName,
		},
		// Forbid every multicast on NoC 1. On this NoC, packets travel from higher to lower row
		// numbers of NoC 0. Therefore a rectangle from a lower to a higher row wraps around the
		// edge of the grid, and may include the row of the PCIe tiles and of the ARC tile.
		{
			Routes: multicastNoC1, Columns: allCoordinates, Rows: allCoordinates,
			Last: lastTileAddress, Name: pcieTileName,
		},
	},
	// Source: [KMD], IATU_* and blackhole_configure_outbound_atu. The values of NoCBase, OffsetMax
	// and RegionType have the names noc_pcie_offset, noc_dma_limit and INCREASE_REGION_SIZE in the
	// driver. RegionControl is the bit that enables a region.
	Outbound: &OutboundTranslation{
		Bar: 2, Offset: 0x1000, Stride: 0x200, RegionCount: 16,
		NoCBase: 4 << 58, OffsetMax: 1<<58 - 1,
		RegionType: 1 << 13, RegionControl: 1 << 31, UpperLimitOffset: 0x20,
	},
}
