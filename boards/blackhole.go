package boards

// Blackhole is a device by Tenstorrent. Sources:
//   - [KMD]: tt-kmd, blackhole.c
//   - [ttsim]: ttsim v1.10.0, the manufacturer's simulator, src/libttsim.cpp
//   - [Firmware]: tt-zephyr-platforms, lib/tenstorrent/bh_arc, noc_init.c, pcie.c, pcie.h
var Blackhole = Board{
	Name:   "blackhole",
	Vendor: 0x1e52, Device: 0xb140, // tt-kmd, enumerate.h
	// If BAR 4 is smaller, only the TLB windows that fit are usable ([KMD], blackhole_init).
	BarSizes: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 30},
	Rules: []AccessRule{
		// A store would reach a tile that no rule can know (README.md).
		{
			Bar: 0, First: 0x00000000, Last: 0x193fffff,
			Widths: 1 | 2 | 4 | 8, IsMemory: true, LoadOnly: true, Name: "windows",
		},
		// An 8-byte access could fault, or reach the next TLB window's registers (tt-umd PR #2648).
		// The registers after these have no rule: they control strided multicast, and the tiles of
		// TLB windows 0 to 31.
		{
			Bar: 0, First: 0x1fc00000, Last: 0x1fc009d7,
			Widths: 4, LoadOnly: true, Name: "window configuration",
		},
		// Network interface units: a store could start requests. [ttsim], PCIE_NIU0_BASE,
		// PCIE_NIU1_BASE, IATU_BASE.
		{
			Bar: 0, First: 0x1fd04000, Last: 0x1fd05fff,
			Widths: 4, LoadOnly: true, Name: "PCIe NIU 0",
		},
		{
			Bar: 0, First: 0x1fd14000, Last: 0x1fd15fff,
			Widths: 4, LoadOnly: true, Name: "PCIe NIU 1",
		},
		// The ARC is the management processor. Source: ARC_APB_BAR0_XBAR_OFFSET_START in tt-umd,
		// device/api/umd/device/arch/blackhole_implementation.hpp. [ttsim] has it only on the NoC.
		{Bar: 0, First: 0x1ff30000, Last: 0x1ff3ffff, Widths: 4, Name: "ARC reset unit"},
		// Outbound translation. The DMA engine before it has no rule: no command can wait for the
		// end of its transfers.
		{Bar: 2, First: 0x1000, Last: 0x2fff, Widths: 4, LoadOnly: true, Name: "iATU"},
		{
			Bar: 4, First: 0, Last: 32<<30 - 1,
			Widths: 1 | 2 | 4 | 8, IsMemory: true, LoadOnly: true, Name: "windows",
		},
	},
	TLB: &TLBLayout{
		// [KMD], TLB_2M_REG, TLB_4G_REG, KERNEL_TLB_INDEX (201).
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
	// tt-isa-documentation, BlackholeA0/TensixTile/SoftReset.md
	Reset: ResetRegister{Address: 0xffb121b0, Mask: 0x47800},
	// Coordinates: [Firmware], ComputeNocTranslation. The order of columns 1 to 7 and 10 to 16
	// depends on the chip. Column 19 is the PCIe tile, columns from 20 on are Ethernet. Row 0 also
	// has the numbers 24, one of 12 to 23, and all that are undefined; row 1 also has 25.
	ForbiddenRanges: []ForbiddenRange{
		// PCIe tiles (2,0) and (11,0), of which a chip uses one ([KMD],
		// blackhole_detect_pcie_noc_x): registers of the PCIe controller (PCIE_DBI_ADDR), and any
		// host memory.
		{
			Routes: unicastNoC0 | unicastNoC1, Columns: 0x7f<<1 | 0x7f<<10 | coordinatesFrom19,
			Rows: 1<<0 | 0x1fff<<12 | coordinatesFrom26, Last: lastTileAddress, Name: pcieTileName,
		},
		// PCIe tiles on NoC 1, on a chip that does not translate there.
		{
			Routes: unicastNoC1, Columns: 1<<5 | 1<<14 | coordinatesFrom32, Rows: 1 << 11,
			Last: lastTileAddress, Name: pcieTileName,
		},
		// ARC tile (8,0): a window shows the PCIe controller ([Firmware], pcie.h,
		// PCIE_DBI_REG_TLB). Rows 26 to 30 select other tiles.
		{
			Routes: unicastNoC0 | unicastNoC1, Columns: 1<<8 | coordinatesFrom32,
			Rows:  1<<0 | 0x7fff<<11 | coordinatesFrom31,
			First: 0x9000_0000, Last: lastTileAddress, Name: "the ARC's address windows",
		},
		// Rectangles that may include row 0, with the PCIe and ARC tiles.
		{
			Routes: multicastNoC0, Columns: allCoordinates,
			Rows: 1<<0 | 0x1fff<<12 | coordinatesFrom26,
			Last: lastTileAddress, Name: pcieTileName,
		},
		// All rectangles: packets travel to lower rows of NoC 0, so a rectangle to a higher row
		// wraps around, and may include row 0.
		{
			Routes: multicastNoC1, Columns: allCoordinates, Rows: allCoordinates,
			Last: lastTileAddress, Name: pcieTileName,
		},
	},
	// [KMD], IATU_*, blackhole_configure_outbound_atu: noc_pcie_offset, noc_dma_limit,
	// INCREASE_REGION_SIZE, and the bit that enables a region.
	Outbound: &OutboundTranslation{
		Bar: 2, Offset: 0x1000, Stride: 0x200, RegionCount: 16,
		NoCBase: 4 << 58, OffsetMax: 1<<58 - 1,
		RegionType: 1 << 13, RegionControl: 1 << 31, UpperLimitOffset: 0x20,
	},
}
