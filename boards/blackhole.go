package boards

// Blackhole describes the PCIe device Blackhole by Tenstorrent.
//
// Sources: [KMD] tt-kmd blackhole.c; [UMD] tt-umd
// device/api/umd/device/arch/blackhole_implementation.hpp; [SoftReset]
// tt-isa-documentation BlackholeA0/TensixTile/SoftReset.md; [ttsim] ttsim
// v1.10.0, the manufacturer's simulator; [Firmware] tt-zephyr-platforms
// lib/tenstorrent/bh_arc/noc_init.c, pcie.c and pcie.h.
var Blackhole = Board{
	Name:   "blackhole",
	Vendor: 0x1e52, Device: 0xb140, // PCI ids: tt-kmd enumerate.h
	// If the host's firmware assigns less than 32 GiB to BAR 4, the device has only as many
	// 4 GiB TLB windows as fit in the BAR ([KMD], blackhole_init).
	Bars: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 30},
	Rules: []Rule{
		// Load only, because a rule cannot know which tile and address a TLB window shows. Images
		// store through windows of kind Tlb: the verifier checks what each Point command shows.
		{
			Bar: 0, First: 0x00000000, Last: 0x193fffff,
			Widths: 1 | 2 | 4 | 8, Memory: true, LoadOnly: true, Name: "windows",
		},
		// Registers that program the TLB windows, 12 bytes for each window. Only width 4 is
		// accepted, because an 8-byte access would cross into the next window's registers, or
		// fault (tt-umd PR #2648). The strided-multicast registers after these registers are not
		// included, because they change which tiles TLB windows 0 to 31 show.
		{
			Bar: 0, First: 0x1fc00000, Last: 0x1fc009d7,
			Widths: 4, LoadOnly: true, Name: "window configuration",
		},
		// Network interfaces of the PCIe tile. Load only, because stores to these registers make
		// the PCIe tile start requests. Addresses of these interfaces and of the iATU: [ttsim]
		// src/libttsim.cpp, PCIE_NIU0_BASE, PCIE_NIU1_BASE, IATU_BASE.
		{
			Bar: 0, First: 0x1fd04000, Last: 0x1fd05fff,
			Widths: 4, LoadOnly: true, Name: "PCIe NIU 0",
		},
		{
			Bar: 0, First: 0x1fd14000, Last: 0x1fd15fff,
			Widths: 4, LoadOnly: true, Name: "PCIe NIU 1",
		},
		// Address: [UMD], ARC_APB_BAR0_XBAR_OFFSET_START. In [ttsim] the ARC reset unit has
		// addresses on the NoC, but no address in BAR 0.
		{Bar: 0, First: 0x1ff30000, Last: 0x1ff3ffff, Widths: 4, Name: "ARC reset unit"},
		// The registers of the DMA engine, at lower offsets, are not included: the DMA engine
		// starts transfers, and no command of an image waits until a transfer has ended.
		{Bar: 2, First: 0x1000, Last: 0x2fff, Widths: 4, LoadOnly: true, Name: "iATU"},
		{
			Bar: 4, First: 0, Last: 32<<30 - 1,
			Widths: 1 | 2 | 4 | 8, Memory: true, LoadOnly: true, Name: "windows",
		},
	},
	TLB: &TLB{
		// Groups and fields: [KMD], TLB_2M_REG and TLB_4G_REG. The kernel driver uses TLB window
		// 201: [KMD], KERNEL_TLB_INDEX.
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
	// X and Y list every number that a column or row of a closed tile may have ([Firmware],
	// ComputeNocTranslation). Columns 1 to 7 and 10 to 16 have an order that depends on the
	// chip. Column 19 is the PCIe tile's, and columns from 20 on are those of Ethernet tiles.
	// Row 0 also has the number 24, one of the numbers 12 to 23, and every undefined number.
	// Row 1 also has the number 25.
	Closed: []Closed{
		// The PCIe tiles (2,0) and (11,0); a chip uses one of them ([KMD],
		// blackhole_detect_pcie_noc_x). Through a PCIe tile an image could access registers of
		// the PCIe controller (PCIE_DBI_ADDR), and host memory outside the image's windows.
		{
			Ways: unicastNoC0 | unicastNoC1, X: 0x7f<<1 | 0x7f<<10 | from19,
			Y: 1<<0 | 0x1fff<<12 | from26, Last: lastAddress, Name: "a PCIe tile",
		},
		// The PCIe tiles on NoC 1, if coordinates on NoC 1 are not translated.
		{
			Ways: unicastNoC1, X: 1<<5 | 1<<14 | from32, Y: 1 << 11,
			Last: lastAddress, Name: "a PCIe tile",
		},
		// The ARC tile (8,0), from the address of the ARC's own windows on. One of these windows
		// shows registers of the PCIe controller ([Firmware], pcie.h, PCIE_DBI_REG_TLB). Rows 26
		// to 30 are open, because they are rows of other tiles.
		{
			Ways: unicastNoC0 | unicastNoC1, X: 1<<8 | from32, Y: 1<<0 | 0x7fff<<11 | from31,
			First: 0x9000_0000, Last: lastAddress, Name: "the ARC's windows",
		},
		// A rectangle over NoC 0 must not include the row of the PCIe and ARC tiles.
		{
			Ways: multicastNoC0, X: allCoordinates, Y: 1<<0 | 0x1fff<<12 | from26,
			Last: lastAddress, Name: "a PCIe tile",
		},
		// All rectangles over NoC 1 are closed: NoC 1 traverses translated rows in the opposite
		// direction, therefore any rectangle may include the row of the PCIe and ARC tiles.
		{
			Ways: multicastNoC1, X: allCoordinates, Y: allCoordinates,
			Last: lastAddress, Name: "a PCIe tile",
		},
	},
	// Source: [KMD], IATU_* and blackhole_configure_outbound_atu. NoC is noc_pcie_offset, Last is
	// noc_dma_limit, Type is INCREASE_REGION_SIZE, and Control is the bit that enables a region.
	Outbound: &Outbound{
		Bar: 2, Offset: 0x1000, Stride: 0x200, Regions: 16,
		NoC: 4 << 58, Last: 1<<58 - 1, Type: 1 << 13, Control: 1 << 31, UpperLimit: 0x20,
	},
}
