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
		// An 8-byte store would be split over a 12-byte stride, or fault
		// (tt-umd PR #2648). The strided-multicast registers that follow are
		// left out: they change what windows 0 to 31 mean.
		{Bar: 0, First: 0x1fc00000, Last: 0x1fc009d7, Widths: 4, Name: "window configuration"},
		// [ttsim] src/libttsim.cpp, PCIE_NIU0_BASE, PCIE_NIU1_BASE, IATU_BASE.
		{Bar: 0, First: 0x1fd04000, Last: 0x1fd05fff, Widths: 4, Name: "PCIe NIU 0"},
		{Bar: 0, First: 0x1fd14000, Last: 0x1fd15fff, Widths: 4, Name: "PCIe NIU 1"},
		// The DMA engine below the iATU is left out: it starts transfers that
		// no command of an image waits for.
		{Bar: 2, First: 0x1000, Last: 0x2fff, Widths: 4, Name: "iATU"},
		{Bar: 4, First: 0, Last: 32<<30 - 1, Widths: 1 | 2 | 4 | 8, Memory: true, Name: "windows"},
	},
	TLB: &TLB{
		// [KMD], TLB_2M_REG and TLB_4G_REG; KERNEL_TLB_INDEX is 201.
		Groups: []Group{{
			Bar: 0, First: 0, Count: 202, Offset: 0, Size: 2 << 20, KernelOwned: 1,
			Fields: Fields{
				Address: Field{0, 43},
				XEnd:    Field{43, 6}, YEnd: Field{49, 6}, XStart: Field{55, 6}, YStart: Field{61, 6},
				NoC: Field{67, 2}, Multicast: Field{69, 1}, Ordering: Field{70, 2}, Linked: Field{72, 1},
				UseStaticVC: Field{73, 1}, StaticVC: Field{75, 3},
			},
		}, {
			Bar: 4, First: 202, Count: 8, Offset: 0, Size: 4 << 30,
			Fields: Fields{
				Address: Field{0, 32},
				XEnd:    Field{32, 6}, YEnd: Field{38, 6}, XStart: Field{44, 6}, YStart: Field{50, 6},
				NoC: Field{56, 2}, Multicast: Field{58, 1}, Ordering: Field{59, 2}, Linked: Field{61, 1},
				UseStaticVC: Field{62, 1}, StaticVC: Field{64, 3},
			},
		}},
		ConfigBar: 0, ConfigOffset: 0x1fc00000, ConfigStride: 12, ConfigWidth: 4, ConfigWords: 3,
	},
	Grid: &Grid{
		// [UMD], *_CORES_NOC0; [ttsim] src/tile.cpp, coord_to_tile.
		Rows: []string{
			"D.P.....AD.P.....",
			"DEEEEEEE.DEEEEEEE",
			"DTTTTTTTSDTTTTTTT",
			"DTTTTTTTLDTTTTTTT",
			"DTTTTTTT.DTTTTTTT",
			"DTTTTTTTLDTTTTTTT",
			"DTTTTTTT.DTTTTTTT",
			"DTTTTTTTLDTTTTTTT",
			"DTTTTTTT.DTTTTTTT",
			"DTTTTTTTLDTTTTTTT",
			"DTTTTTTT.DTTTTTTT",
			"DTTTTTTT.DTTTTTTT",
		},
		// [ttsim] src/tile.cpp, remap_virtual_coordinate. Which bank a
		// translated DRAM coordinate means differs from chip to chip with the
		// bank that is fused off (tt-umd blackhole_coordinate_manager.cpp);
		// these are the simulator's.
		Pairs: []Pair{
			{Tile{17, 12}, Tile{9, 0}}, {Tile{18, 12}, Tile{0, 0}},
			{Tile{17, 13}, Tile{9, 1}}, {Tile{18, 13}, Tile{0, 1}},
			{Tile{17, 14}, Tile{9, 11}}, {Tile{18, 14}, Tile{0, 11}},
			{Tile{17, 15}, Tile{9, 2}}, {Tile{18, 15}, Tile{0, 2}},
			{Tile{17, 16}, Tile{9, 10}}, {Tile{18, 16}, Tile{0, 10}},
			{Tile{17, 17}, Tile{9, 3}}, {Tile{18, 17}, Tile{0, 3}},
			{Tile{17, 18}, Tile{9, 5}}, {Tile{18, 18}, Tile{0, 5}},
			{Tile{17, 19}, Tile{9, 7}}, {Tile{18, 19}, Tile{0, 7}},
			{Tile{17, 20}, Tile{9, 6}}, {Tile{18, 20}, Tile{0, 6}},
			{Tile{17, 21}, Tile{9, 9}}, {Tile{18, 21}, Tile{0, 9}},
			{Tile{17, 22}, Tile{9, 4}}, {Tile{18, 22}, Tile{0, 4}},
			{Tile{17, 23}, Tile{9, 8}}, {Tile{18, 23}, Tile{0, 8}},
			{Tile{20, 25}, Tile{1, 1}}, {Tile{21, 25}, Tile{16, 1}},
			{Tile{22, 25}, Tile{2, 1}}, {Tile{23, 25}, Tile{15, 1}},
			{Tile{24, 25}, Tile{3, 1}}, {Tile{25, 25}, Tile{14, 1}},
			{Tile{26, 25}, Tile{4, 1}}, {Tile{27, 25}, Tile{13, 1}},
			{Tile{28, 25}, Tile{5, 1}}, {Tile{29, 25}, Tile{12, 1}},
			{Tile{30, 25}, Tile{6, 1}}, {Tile{31, 25}, Tile{11, 1}},
			{Tile{19, 24}, Tile{2, 0}},
		},
		// [UMD], DRAM_CORES_NOC0.
		Banks: []Bank{
			{{0, 0}, {0, 1}, {0, 11}},
			{{0, 2}, {0, 10}, {0, 3}},
			{{0, 9}, {0, 4}, {0, 8}},
			{{0, 5}, {0, 7}, {0, 6}},
			{{9, 0}, {9, 1}, {9, 11}},
			{{9, 2}, {9, 10}, {9, 3}},
			{{9, 9}, {9, 4}, {9, 8}},
			{{9, 5}, {9, 7}, {9, 6}},
		},
		// [ttsim] src/config.h and data/bh/tile_regs.json.
		Memories: []Memory{
			{Tensix, 0, 1536<<10 - 1, "L1"}, // BlackholeA0/TensixTile/L1.md
			{Ethernet, 0, 512<<10 - 1, "L1"},
			{DRAM, 0, 4<<30 - 1, "DRAM"},
			{ARC, 0x10000000, 0x1007ffff, "ARC CSM"},
		},
		Registers: []Register{
			{Kind: Tensix, Address: 0xffb12228, Count: 3, Name: "TRISC_RESET_PC"},
			{Kind: Tensix, Address: 0xffb12234, Count: 1, Name: "TRISC_RESET_PC_OVERRIDE"},
			{Kind: Tensix, Address: 0xffb12238, Count: 1, StoreOnly: true, Name: "NCRISC_RESET_PC"},
			{Kind: Tensix, Address: 0xffb1223c, Count: 1, StoreOnly: true, Name: "NCRISC_RESET_PC_OVERRIDE"},
			{Kind: ARC, Address: 0x80030060, Count: 8, Name: "RESET_UNIT_SCRATCH"},
			{Kind: ARC, Address: 0x80030100, Count: 1, Name: "RESET_UNIT_ARC_MISC_CNTL"},
			{Kind: ARC, Address: 0x80030400, Count: 16, Name: "RESET_UNIT_SCRATCH_RAM"},
		},
		// [SoftReset]; [ttsim] src/tile.cpp, RISCV_DEBUG_REGS_SOFT_RESET_0. Bit
		// 31 staggers the start of the cores (tt-umd sets it).
		Reset: Reset{
			Address: 0xffb121b0, Mask: 0x47800, Ignored: 1 << 31, Initial: 0x47800,
			Cores: []Core{
				{Name: "BRISC", Bit: 11, PC: 0},
				{Name: "TRISC0", Bit: 12, PC: 0x6000, PCRegister: 0xffb12228, OverrideRegister: 0xffb12234, OverrideBit: 0},
				{Name: "TRISC1", Bit: 13, PC: 0xa000, PCRegister: 0xffb1222c, OverrideRegister: 0xffb12234, OverrideBit: 1},
				{Name: "TRISC2", Bit: 14, PC: 0xe000, PCRegister: 0xffb12230, OverrideRegister: 0xffb12234, OverrideBit: 2},
				{Name: "NCRISC", Bit: 18, PC: 0x12000, PCRegister: 0xffb12238, OverrideRegister: 0xffb1223c, OverrideBit: 0},
			},
		},
	},
	// tt-kmd telemetry.c, tt_sysfs_show_card_type.
	Products: []Product{
		{0x36, "p100"},
		{0x40, "p150a"},
		{0x41, "p150b"},
		{0x42, "p150c"},
		{0x43, "p100a"},
		{0x44, "p300b"},
		{0x45, "p300a"},
		{0x46, "p300c"},
		{0x47, "galaxy-blackhole"},
	},
}
