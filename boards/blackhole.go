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
		// TLB windows. This rule allows only loads. It cannot know which tile a TLB window shows,
		// and therefore cannot tell whether a store is safe. To store to a tile, an image uses a
		// window of kind Tlb: the verifier checks the tiles and the address in each of its Point
		// commands.
		{
			Bar: 0, First: 0x00000000, Last: 0x193fffff,
			Widths: 1 | 2 | 4 | 8, IsMemory: true, LoadOnly: true, Name: "windows",
		},
		// Registers that program the TLB windows, 12 bytes for each TLB window. Only width 4 is
		// accepted: an 8-byte access could fault, or reach the registers of the next TLB window
		// (tt-umd PR #2648). The registers after this range have no rule. They control strided
		// multicast, and change which tiles the TLB windows 0 to 31 show.
		{
			Bar: 0, First: 0x1fc00000, Last: 0x1fc009d7,
			Widths: 4, LoadOnly: true, Name: "window configuration",
		},
		// Network interface units (NIUs) of the PCIe tile. Images may only load from their
		// registers, because a store to a register can make the PCIe tile start requests. Source of
		// the addresses of the NIUs and of the iATU: [ttsim], src/libttsim.cpp, constants
		// PCIE_NIU0_BASE, PCIE_NIU1_BASE and IATU_BASE.
		{
			Bar: 0, First: 0x1fd04000, Last: 0x1fd05fff,
			Widths: 4, LoadOnly: true, Name: "PCIe NIU 0",
		},
		{
			Bar: 0, First: 0x1fd14000, Last: 0x1fd15fff,
			Widths: 4, LoadOnly: true, Name: "PCIe NIU 1",
		},
		// ARC reset unit. Source of the address: [UMD], ARC_APB_BAR0_XBAR_OFFSET_START. In the
		// simulator [ttsim], the unit can be accessed over the NoC, but not through BAR 0.
		{Bar: 0, First: 0x1ff30000, Last: 0x1ff3ffff, Widths: 4, Name: "ARC reset unit"},
		// Outbound address translation (iATU) of the PCIe controller. The registers of the
		// controller's DMA engine lie at lower offsets. No rule includes those registers: they
		// start transfers, and no command of an image can wait until such a transfer has ended.
		{Bar: 2, First: 0x1000, Last: 0x2fff, Widths: 4, LoadOnly: true, Name: "iATU"},
		{
			Bar: 4, First: 0, Last: 32<<30 - 1,
			Widths: 1 | 2 | 4 | 8, IsMemory: true, LoadOnly: true, Name: "windows",
		},
	},
	TLB: &TLBLayout{
		// Source of Groups and Fields: [KMD], TLB_2M_REG and TLB_4G_REG. The kernel driver uses TLB
		// window 201 itself ([KMD], KERNEL_TLB_INDEX).
		Groups: []WindowGroup{
			{Bar: 0, First: 0, Count: 202, Offset: 0, Size: 2 << 20, AddressBits: 43,
				KernelOwnedCount: 1},
			{Bar: 4, First: 202, Count: 8, Offset: 0, Size: 4 << 30, AddressBits: 32},
		},
		Fields: FieldWidths{FieldXEnd: 6, FieldYEnd: 6, FieldXStart: 6, FieldYStart: 6, FieldNoC: 2,
			FieldMulticast: 1, FieldOrdering: 2, FieldLinked: 1, FieldUseStaticVC: 1,
			FieldUnused: 1, FieldStaticVC: 3},
		ConfigBar: 0, ConfigOffset: 0x1fc00000, ConfigStride: 12, ConfigWidth: 4,
	},
	Reset: ResetRegister{Address: 0xffb121b0, Mask: 0x47800}, // source: [SoftReset]
	// X and Y are sets of columns and rows. A set has a bit for each number that the column or row
	// of the forbidden tile has on at least one chip. Source: [Firmware], ComputeNocTranslation.
	// The order of the columns 1 to 7 and 10 to 16 depends on the chip. Column 19 belongs to the
	// PCIe tile, and the columns from 20 on belong to Ethernet tiles. Row 0 has further numbers:
	// 24, one of 12 to 23, and every undefined number. Row 1 has the further number 25.
	ForbiddenRanges: []ForbiddenRange{
		// The PCIe tiles (2,0) and (11,0). A chip uses one of them ([KMD],
		// blackhole_detect_pcie_noc_x). Through a PCIe tile, an image could access registers of
		// the PCIe controller (PCIE_DBI_ADDR), and host memory outside the image's windows.
		{
			Routes: unicastNoC0 | unicastNoC1, X: 0x7f<<1 | 0x7f<<10 | coordinatesFrom19,
			Y: 1<<0 | 0x1fff<<12 | coordinatesFrom26, Last: lastTileAddress, Name: pcieTileName,
		},
		// The same PCIe tiles on NoC 1, on a chip that does not translate coordinates of NoC 1.
		{
			Routes: unicastNoC1, X: 1<<5 | 1<<14 | coordinatesFrom32, Y: 1 << 11,
			Last: lastTileAddress, Name: pcieTileName,
		},
		// The addresses of the ARC tile (8,0) at which the ARC processor has its own windows. One
		// of these windows shows registers of the PCIe controller ([Firmware], pcie.h,
		// PCIE_DBI_REG_TLB). The rows 26 to 30 are allowed, because they belong to other tiles.
		{
			Routes: unicastNoC0 | unicastNoC1, X: 1<<8 | coordinatesFrom32,
			Y:     1<<0 | 0x7fff<<11 | coordinatesFrom31,
			First: 0x9000_0000, Last: lastTileAddress, Name: "the ARC's windows",
		},
		// Every rectangle on NoC 0 that may include row 0, the row of the PCIe and ARC tiles.
		{
			Routes: multicastNoC0, X: allCoordinates, Y: 1<<0 | 0x1fff<<12 | coordinatesFrom26,
			Last: lastTileAddress, Name: pcieTileName,
		},
		// Every rectangle on NoC 1. NoC 1 traverses rows in the opposite direction. Therefore any
		// rectangle in translated coordinates may include the row of the PCIe and ARC tiles.
		{
			Routes: multicastNoC1, X: allCoordinates, Y: allCoordinates,
			Last: lastTileAddress, Name: pcieTileName,
		},
	},
	// Source: [KMD], IATU_* and blackhole_configure_outbound_atu. The driver calls NoCBase
	// noc_pcie_offset, OffsetMax noc_dma_limit, and RegionType INCREASE_REGION_SIZE. RegionControl
	// is the bit that enables a region.
	Outbound: &OutboundTranslation{
		Bar: 2, Offset: 0x1000, Stride: 0x200, RegionCount: 16,
		NoCBase: 4 << 58, OffsetMax: 1<<58 - 1,
		RegionType: 1 << 13, RegionControl: 1 << 31, UpperLimitOffset: 0x20,
	},
}
