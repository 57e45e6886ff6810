package boards

// Blackhole describes Tenstorrent's Blackhole.
//
// Sources: [KMD] tt-kmd blackhole.c; [UMD] tt-umd
// device/api/umd/device/arch/blackhole_implementation.hpp; [SoftReset]
// tt-isa-documentation BlackholeA0/TensixTile/SoftReset.md; [ttsim] ttsim
// v1.10.0, the maker's simulator; [Firmware] tt-zephyr-platforms
// lib/tenstorrent/bh_arc/noc_init.c, pcie.c and pcie.h.
var Blackhole = Board{
	Name:   "blackhole",
	Vendor: 0x1e52, Device: 0xb140, // tt-kmd enumerate.h
	// BAR 4 is smaller if the firmware of the host assigns less; there are only as many 4 GiB
	// windows as fit ([KMD], blackhole_init).
	Bars: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 30},
	Rules: []Rule{
		// Load only, because a rule cannot know where a TLB window points. Images store through
		// windows of kind Tlb, whose target is checked when they point them.
		{
			Bar: 0, First: 0x00000000, Last: 0x193fffff,
			Widths: 1 | 2 | 4 | 8, Memory: true, LoadOnly: true, Name: "windows",
		},
		// An 8-byte store would be split over a 12-byte stride, or fault (tt-umd PR #2648). The
		// strided-multicast registers that follow are not included: they change the targets of
		// windows 0 to 31.
		{
			Bar: 0, First: 0x1fc00000, Last: 0x1fc009d7,
			Widths: 4, LoadOnly: true, Name: "window configuration",
		},
		// Load only, because stores there make the PCIe tile start requests.
		// [ttsim] src/libttsim.cpp, PCIE_NIU0_BASE, PCIE_NIU1_BASE, IATU_BASE.
		{
			Bar: 0, First: 0x1fd04000, Last: 0x1fd05fff,
			Widths: 4, LoadOnly: true, Name: "PCIe NIU 0",
		},
		{
			Bar: 0, First: 0x1fd14000, Last: 0x1fd15fff,
			Widths: 4, LoadOnly: true, Name: "PCIe NIU 1",
		},
		// tt-umd, ARC_APB_BAR0_XBAR_OFFSET_START; the simulator has it on the NoC only.
		{Bar: 0, First: 0x1ff30000, Last: 0x1ff3ffff, Widths: 4, Name: "ARC reset unit"},
		// The DMA engine below the iATU is not included: it starts transfers that no command of an
		// image waits for.
		{Bar: 2, First: 0x1000, Last: 0x2fff, Widths: 4, LoadOnly: true, Name: "iATU"},
		{
			Bar: 4, First: 0, Last: 32<<30 - 1,
			Widths: 1 | 2 | 4 | 8, Memory: true, LoadOnly: true, Name: "windows",
		},
	},
	TLB: &TLB{
		// [KMD], TLB_2M_REG and TLB_4G_REG; KERNEL_TLB_INDEX is 201.
		Groups: []Group{
			{Bar: 0, First: 0, Count: 202, Offset: 0, Size: 2 << 20, AddressBits: 43,
				KernelOwned: 1},
			{Bar: 4, First: 202, Count: 8, Offset: 0, Size: 4 << 30, AddressBits: 32},
		},
		Fields: FieldWidths{XEnd: 6, YEnd: 6, XStart: 6, YStart: 6, NoC: 2, Multicast: 1,
			Ordering: 2, Linked: 1, UseStaticVC: 1, Unused: 1, StaticVC: 3},
		ConfigBar: 0, ConfigOffset: 0x1fc00000, ConfigStride: 12, ConfigWidth: 4,
	},
	Reset: Reset{Address: 0xffb121b0, Mask: 0x47800}, // [SoftReset]
	// All names of columns and rows: [Firmware], ComputeNocTranslation. Columns 1 to 7 and 10 to
	// 16 are permuted in an order that depends on the chip, 19 is the PCIe tile, 20 and above
	// are Ethernet tiles. Row 0 is also 24, one of 12 to 23, and every undefined number; row 25
	// is row 1.
	Closed: []Closed{
		// Tiles (2,0) and (11,0), one of which is in use: [KMD], blackhole_detect_pcie_noc_x.
		// They contain registers of the controller (PCIE_DBI_ADDR), and host memory that is not
		// the image's.
		{
			Ways: overNoC0 | overNoC1, X: 0x7f<<1 | 0x7f<<10 | from19,
			Y: 1<<0 | 0x1fff<<12 | from26, Last: all, Name: "a PCIe tile",
		},
		// The same on NoC 1 if coordinates are not translated.
		{Ways: overNoC1, X: 1<<5 | 1<<14 | from32, Y: 1 << 11, Last: all, Name: "a PCIe tile"},
		// Tile (8,0): the ARC's own windows, one of them onto the controller's registers
		// ([Firmware], pcie.h, PCIE_DBI_REG_TLB). Rows 26 to 30 are of other tiles.
		{
			Ways: overNoC0 | overNoC1, X: 1<<8 | from32, Y: 1<<0 | 0x7fff<<11 | from31,
			First: 0x9000_0000, Last: all, Name: "the ARC's windows",
		},
		// The row of all these tiles.
		{
			Ways: multicastNoC0, X: all, Y: 1<<0 | 0x1fff<<12 | from26,
			Last: all, Name: "a PCIe tile",
		},
		// NoC 1 traverses translated rows in the opposite direction.
		{Ways: multicastNoC1, X: all, Y: all, Last: all, Name: "a PCIe tile"},
	},
	// [KMD], IATU_* and blackhole_configure_outbound_atu: INCREASE_REGION_SIZE,
	// enabled; noc_pcie_offset, noc_dma_limit.
	Outbound: &Outbound{
		Bar: 2, Offset: 0x1000, Stride: 0x200, Regions: 16,
		NoC: 4 << 58, Last: 1<<58 - 1, Type: 1 << 13, Control: 1 << 31, UpperLimit: 0x20,
	},
}
