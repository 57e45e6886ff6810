package boards

// Wormhole is Tenstorrent's Wormhole B0.
//
// Sources: [TLBs] tt-isa-documentation WormholeB0/PCIExpressTile/TLBs.md and
// README.md beside it; [Coordinates] WormholeB0/NoC/Coordinates.md; [SoftReset]
// WormholeB0/TensixTile/SoftReset.md; [KMD] tt-kmd wormhole.c; [ttsim] ttsim
// v1.10.0, the maker's simulator.
var Wormhole = Board{
	Name:   "wormhole",
	Title:  "Tenstorrent Wormhole",
	Vendor: 0x1e52, Device: 0x401e, // tt-kmd enumerate.h
	Bars: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 20}, // [TLBs]
	Rules: []Rule{
		{Bar: 0, First: 0x00000000, Last: 0x1effffff, Widths: 1 | 2 | 4 | 8, Memory: true, Name: "windows"},
		{Bar: 0, First: 0x1fc00000, Last: 0x1fc005cf, Widths: 4 | 8, Name: "window configuration"},
		// From here on [ttsim] src/libttsim.cpp, pci_mem_wr_cur. Registers take
		// 32-bit accesses only (tt-umd device/pcie/silicon_tlb_window.cpp).
		{Bar: 0, First: 0x1fe80000, Last: 0x1fefffff, Widths: 4, Name: "ARC CSM"},
		{Bar: 0, First: 0x1ff30000, Last: 0x1ff3ffff, Widths: 4, Name: "ARC reset unit"},
		// The DMA engine below the iATU is left out: it starts transfers that
		// no command of an image waits for.
		{Bar: 2, First: 0x1200, Last: 0x31ff, Widths: 4, IATU: true, Name: "iATU"},
		{Bar: 4, First: 0x00000000, Last: 0x00ffffff, Widths: 1 | 2 | 4 | 8, Memory: true, Name: "windows"},
		{Bar: 4, First: 0x01c00000, Last: 0x01c005cf, Widths: 4 | 8, Name: "window configuration"},
		{Bar: 4, First: 0x01e80000, Last: 0x01efffff, Widths: 4, Name: "ARC CSM"},
		{Bar: 4, First: 0x01f30000, Last: 0x01f3ffff, Widths: 4, Name: "ARC reset unit"},
	},
	TLB: &TLB{
		// [TLBs], table of windows and table of configuration bits: addresses
		// have 36 bits, and N = 16, 15, 12 of them are left above the window.
		// The kernel driver keeps window 185: tt-kmd wormhole.c, KERNEL_TLB_INDEX.
		Groups: []Group{{
			Bar: 0, First: 0, Count: 156, Offset: 0x00000000, Size: 1 << 20,
			Fields: Fields{
				Address: Field{0, 16},
				XEnd:    Field{16, 6}, YEnd: Field{22, 6}, XStart: Field{28, 6}, YStart: Field{34, 6},
				NoC: Field{40, 1}, Multicast: Field{41, 1}, Ordering: Field{42, 2}, Linked: Field{44, 1}, StaticVC: Field{45, 1},
			},
		}, {
			Bar: 0, First: 156, Count: 10, Offset: 0x09c00000, Size: 2 << 20,
			Fields: Fields{
				Address: Field{0, 15},
				XEnd:    Field{15, 6}, YEnd: Field{21, 6}, XStart: Field{27, 6}, YStart: Field{33, 6},
				NoC: Field{39, 1}, Multicast: Field{40, 1}, Ordering: Field{41, 2}, Linked: Field{43, 1}, StaticVC: Field{44, 1},
			},
		}, {
			Bar: 0, First: 166, Count: 20, Offset: 0x0b000000, Size: 16 << 20, KernelOwned: 1,
			Fields: Fields{
				Address: Field{0, 12},
				XEnd:    Field{12, 6}, YEnd: Field{18, 6}, XStart: Field{24, 6}, YStart: Field{30, 6},
				NoC: Field{36, 1}, Multicast: Field{37, 1}, Ordering: Field{38, 2}, Linked: Field{40, 1}, StaticVC: Field{41, 1},
			},
		}},
		ConfigBar: 0, ConfigOffset: 0x1fc00000, ConfigStride: 8, ConfigWidth: 8, ConfigWords: 1,
	},
	Reset: Reset{Address: 0xffb121b0, Mask: 0x47800}, // [SoftReset]
	// [KMD], IATU_* and wormhole_configure_outbound_atu: enabled, and the bypass
	// of DMA, TLP and function; noc_pcie_offset, noc_dma_limit.
	Outbound: &Outbound{
		Bar: 2, Offset: 0x1200, Stride: 0x200, Regions: 16,
		NoC: 0x8_0000_0000, Last: 0xfffd_ffff, Control: 1<<31 | 1<<27 | 1<<21 | 1<<19,
	},
}
