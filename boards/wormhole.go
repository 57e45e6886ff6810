package boards

// Wormhole describes the PCIe device Wormhole B0 by Tenstorrent.
//
// Sources: [TLBs] tt-isa-documentation WormholeB0/PCIExpressTile/TLBs.md and
// README.md in the same directory; [Coordinates] WormholeB0/NoC/Coordinates.md; [SoftReset]
// WormholeB0/TensixTile/SoftReset.md; [KMD] tt-kmd wormhole.c; [ttsim] ttsim
// v1.10.0, the manufacturer's simulator.
var Wormhole = Board{
	Name:   "wormhole",
	Vendor: 0x1e52, Device: 0x401e, // PCI ids: tt-kmd enumerate.h
	Bars: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 20}, // sizes: [TLBs]
	Rules: []Rule{
		// Load only, because a rule cannot know which tile and address a TLB window shows. Images
		// store through windows of kind Tlb: the verifier checks what each Point command shows.
		{
			Bar: 0, First: 0x00000000, Last: 0x1effffff,
			Widths: 1 | 2 | 4 | 8, Memory: true, LoadOnly: true, Name: "windows",
		},
		{
			Bar: 0, First: 0x1fc00000, Last: 0x1fc005cf,
			Widths: 4 | 8, LoadOnly: true, Name: "window configuration",
		},
		// Source of this rule and the rules after it: [ttsim] src/libttsim.cpp, pci_mem_wr_cur.
		// Registers accept only width 4 (tt-umd device/pcie/silicon_tlb_window.cpp).
		{Bar: 0, First: 0x1fe80000, Last: 0x1fefffff, Widths: 4, Name: "ARC CSM"},
		{Bar: 0, First: 0x1ff30000, Last: 0x1ff30077, Widths: 4, Name: "ARC reset unit"},
		// The registers SCRATCH 6 and 7. Load only, because stores to them can redirect accesses
		// to host memory to registers of the PCIe controller: [KMD], open_dbi.
		{
			Bar: 0, First: 0x1ff30078, Last: 0x1ff3007f,
			Widths: 4, LoadOnly: true, Name: "PCIe sideband",
		},
		{Bar: 0, First: 0x1ff30080, Last: 0x1ff3ffff, Widths: 4, Name: "ARC reset unit"},
		// Network interface of the ARC tile. Load only, because stores to its registers make the
		// ARC tile start requests (WormholeB0/ARCTile/README.md, APB peripherals).
		{Bar: 0, First: 0x1ff50000, Last: 0x1ff50fff, Widths: 4, LoadOnly: true, Name: "ARC NIU 0"},
		// The registers of the DMA engine, at lower offsets, are not included: the DMA engine
		// starts transfers, and no command of an image waits until a transfer has ended.
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
		// Sources: Groups and Fields are from the two tables of [TLBs], of windows and of
		// configuration bits. An address in a tile has 36 bits. The lower bits are the offset in
		// the TLB window; the upper 16, 15 or 12 bits are in the configuration. The kernel driver
		// uses TLB window 185 (KERNEL_TLB_INDEX in [KMD]).
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
	// X and Y list every number that a column or row of a closed tile may have ([Coordinates],
	// coordinate translation). The numbers from 18 on are rows of Tensix tiles, in an order
	// that depends on the chip. Every undefined number means the first column or row.
	Closed: []Closed{
		// The PCIe tile, (0,3) on NoC 0 and (9,8) on NoC 1 ([KMD], PCIE_NOC_X and the constants
		// after it). Through the PCIe tile an image could access registers of the PCIe controller
		// (PCIE_DBI_ADDR), and host memory outside the image's windows.
		{
			Ways: unicastNoC0, X: 1<<0 | 1<<16 | from26, Y: 1<<3 | from18,
			Last: lastAddress, Name: "the PCIe tile",
		},
		{
			Ways: unicastNoC1, X: 1<<9 | 1<<16 | from26, Y: 1<<8 | from18,
			Last: lastAddress, Name: "the PCIe tile",
		},
		// The ARC tile, (0,10) on NoC 0 and (9,1) on NoC 1. Two of its ranges are closed: the
		// registers SCRATCH 6 and 7, and the ARC's own windows, which show the PCIe controller
		// and the NoCs (WormholeB0/ARCTile/README.md, ARC XBAR).
		{
			Ways: unicastNoC0, X: 1<<0 | 1<<16 | from26, Y: 1 << 10,
			First: 0x8_8003_0078, Last: 0x8_8003_007f, Name: "the PCIe sideband",
		},
		{
			Ways: unicastNoC0, X: 1<<0 | 1<<16 | from26, Y: 1 << 10,
			First: 0x8_9000_0000, Last: 0x8_ffff_ffff, Name: "the ARC's windows",
		},
		{
			Ways: unicastNoC1, X: 1<<9 | 1<<16 | from26, Y: 1 << 1,
			First: 0x8_8003_0078, Last: 0x8_8003_007f, Name: "the PCIe sideband",
		},
		{
			Ways: unicastNoC1, X: 1<<9 | 1<<16 | from26, Y: 1 << 1,
			First: 0x8_9000_0000, Last: 0x8_ffff_ffff, Name: "the ARC's windows",
		},
		// A rectangle over NoC 0 must not include the column of the PCIe and ARC tiles. Column 17
		// is closed too: it lies to the right of the columns from 18 on. Therefore a rectangle
		// from column 17 to one of these columns wraps around and includes every column.
		{
			Ways: multicastNoC0, X: 1<<0 | 1<<16 | 1<<17 | from26, Y: allCoordinates,
			Last: lastAddress, Name: "the PCIe tile",
		},
		// Over NoC 1 a rectangle must not include column 9, nor any translated column: NoC 1
		// traverses translated columns in the opposite direction, therefore such a rectangle may
		// include the column of the PCIe and ARC tiles.
		{
			Ways: multicastNoC1, X: 1<<9 | from16, Y: allCoordinates,
			Last: lastAddress, Name: "the PCIe tile",
		},
	},
	// Source: [KMD], IATU_* and wormhole_configure_outbound_atu. NoC is noc_pcie_offset, and Last
	// is noc_dma_limit. Control has the bit that enables a region, and the bypass bits of DMA,
	// TLP and PCI function.
	Outbound: &Outbound{
		Bar: 2, Offset: 0x1200, Stride: 0x200, Regions: 16,
		NoC: 0x8_0000_0000, Last: 0xfffd_ffff, Control: 1<<31 | 1<<27 | 1<<21 | 1<<19,
	},
}
