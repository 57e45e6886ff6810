package boards

// Blackhole is Tenstorrent's Blackhole.
//
// Sources: [KMD] tt-kmd blackhole.c; [UMD] tt-umd
// device/api/umd/device/arch/blackhole_implementation.hpp; [SoftReset]
// tt-isa-documentation BlackholeA0/TensixTile/SoftReset.md; [ttsim] ttsim
// v1.10.0, the maker's simulator.
var Blackhole = Board{
	Name:   "blackhole",
	Title:  "Tenstorrent Blackhole",
	Vendor: 0x1e52, Device: 0xb140, // tt-kmd enumerate.h
	// BAR 4 is smaller where the firmware of the host grants less; the 4 GiB
	// windows end where it ends ([KMD], blackhole_init).
	Bars: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 30},
	Rules: []Rule{
		{Bar: 0, First: 0x00000000, Last: 0x193fffff, Widths: 1 | 2 | 4 | 8, Memory: true, Name: "windows"},
		// An 8-byte store would be split over a 12-byte stride, or fault (tt-umd PR #2648). The strided-multicast
		// registers that follow are left out: they change what windows 0 to 31 mean.
		{Bar: 0, First: 0x1fc00000, Last: 0x1fc009d7, Widths: 4, Name: "window configuration"},
		// [ttsim] src/libttsim.cpp, PCIE_NIU0_BASE, PCIE_NIU1_BASE, IATU_BASE.
		{Bar: 0, First: 0x1fd04000, Last: 0x1fd05fff, Widths: 4, Name: "PCIe NIU 0"},
		{Bar: 0, First: 0x1fd14000, Last: 0x1fd15fff, Widths: 4, Name: "PCIe NIU 1"},
		// tt-umd, ARC_APB_BAR0_XBAR_OFFSET_START; the simulator has it over the NoC alone.
		{Bar: 0, First: 0x1ff30000, Last: 0x1ff3ffff, Widths: 4, Name: "ARC reset unit"},
		// Not the DMA engine below the iATU: it starts transfers that no command of an image waits for.
		{Bar: 2, First: 0x1000, Last: 0x2fff, Widths: 4, IATU: true, Name: "iATU"},
		{Bar: 4, First: 0, Last: 32<<30 - 1, Widths: 1 | 2 | 4 | 8, Memory: true, Name: "windows"},
	},
	TLB: &TLB{
		// [KMD], TLB_2M_REG and TLB_4G_REG; KERNEL_TLB_INDEX is 201.
		Groups: []Group{
			{Bar: 0, First: 0, Count: 202, Offset: 0, Size: 2 << 20, AddressBits: 43, KernelOwned: 1},
			{Bar: 4, First: 202, Count: 8, Offset: 0, Size: 4 << 30, AddressBits: 32},
		},
		Fields:    Fields{XEnd: 6, YEnd: 6, XStart: 6, YStart: 6, NoC: 2, Multicast: 1, Ordering: 2, Linked: 1, UseStaticVC: 1, Unused: 1, StaticVC: 3},
		ConfigBar: 0, ConfigOffset: 0x1fc00000, ConfigStride: 12, ConfigWidth: 4,
	},
	Reset: Reset{Address: 0xffb121b0, Mask: 0x47800}, // [SoftReset]
	// [KMD], IATU_* and blackhole_configure_outbound_atu: INCREASE_REGION_SIZE,
	// enabled; noc_pcie_offset, noc_dma_limit.
	Outbound: &Outbound{
		Bar: 2, Offset: 0x1000, Stride: 0x200, Regions: 16,
		NoC: 4 << 58, Last: 1<<58 - 1, Type: 1 << 13, Control: 1 << 31, UpperLimit: 0x20,
	},
}
