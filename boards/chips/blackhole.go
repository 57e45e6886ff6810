package chips

import "lightmetal/boards"

// Sources, besides those that boards.Blackhole lists:
//   - [UMD]: tt-umd, device/api/umd/device/arch/blackhole_implementation.hpp
//   - [SoftReset]: tt-isa-documentation, BlackholeA0/TensixTile/SoftReset.md
var blackhole = Chip{
	Board: &boards.Blackhole,
	Title: "Tenstorrent Blackhole",
	Grid: &Grid{
		// One string for each row of tiles, and one letter (TileKind) for each tile. Sources:
		// [UMD], *_CORES_NOC0; [ttsim], src/tile.cpp, coord_to_tile.
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
		// Source: [ttsim], src/tile.cpp, remap_virtual_coordinate. On a real chip, the disabled
		// DRAM bank determines the pairs of the DRAM tiles (tt-umd,
		// blackhole_coordinate_manager.cpp).
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
		// Source: [UMD], DRAM_CORES_NOC0.
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
		// Source of Align: DRAM_ALIGNMENT of tt-metal, which is NOC_DRAM_READ_ALIGNMENT_BYTES.
		Interleaving: Interleaving{Offsets: []uint64{0}, Align: 64},
		// Sources: [ttsim], src/config.h and data/bh/tile_regs.json.
		Memories: []Memory{
			{Tensix, 0, 1536<<10 - 1, "L1"}, // source: BlackholeA0/TensixTile/L1.md
			{Ethernet, 0, 512<<10 - 1, "L1"},
			{DRAM, 0, 4<<30 - 1, "DRAM"},
			{ARC, 0x10000000, 0x1007ffff, "ARC CSM"}, // CSM: memory of the ARC
		},
		Registers: []RegisterRange{
			// DEST_CG_CTRL gates the clock of the coprocessor: [ttsim], src/tile.cpp.
			{Kind: Tensix, Address: 0xffb12240, Count: 1, StoreOnly: true, Name: "DEST_CG_CTRL"},
			{Kind: Tensix, Address: 0xffb12228, Count: 3, Name: "TRISC_RESET_PC"},
			{Kind: Tensix, Address: 0xffb12234, Count: 1, Name: "TRISC_RESET_PC_OVERRIDE"},
			{Kind: Tensix, Address: 0xffb12238, Count: 1, StoreOnly: true, Name: "NCRISC_RESET_PC"},
			{Kind: Tensix, Address: 0xffb1223c, Count: 1, StoreOnly: true,
				Name: "NCRISC_RESET_PC_OVERRIDE"},
			// Source: [ttsim], src/tile.cpp, e_tile_mmio_wr32, ETH_RISC_CTRL.
			{Kind: Ethernet, Address: 0xffb14000, Count: 1, Name: "IERISC_RESET_PC"},
			{Kind: Ethernet, Address: 0xffb14008, Count: 1, Name: "SUBORDINATE_IERISC_RESET_PC"},
			{Kind: Ethernet, Address: 0xffb14020, Count: 5, StoreOnly: true,
				Name: "INTERRUPT_MODE"},
			{Kind: ARC, Address: 0x80030060, Count: 8, Name: "RESET_UNIT_SCRATCH"},
			{Kind: ARC, Address: 0x80030100, Count: 1, Name: "RESET_UNIT_ARC_MISC_CNTL"},
			{Kind: ARC, Address: 0x80030400, Count: 16, Name: "RESET_UNIT_SCRATCH_RAM"},
		},
		// Sources: [SoftReset]; [ttsim], src/tile.cpp, RISCV_DEBUG_REGS_SOFT_RESET_0. tt-umd sets
		// bit 31, which makes the cores start one after another. Mocks accept and ignore it.
		TensixReset: CoreReset{
			ResetRegister: boards.Blackhole.Reset,
			Ignored:       1 << 31, ValueAfterPowerUp: 0x47800,
			Cores: []Core{
				{Name: "BRISC", ResetBit: 11, StartAddress: 0},
				{Name: "TRISC0", ResetBit: 12, StartAddress: 0x6000, PCRegister: 0xffb12228,
					PCOverrideRegister: 0xffb12234, PCOverrideBit: 0},
				{Name: "TRISC1", ResetBit: 13, StartAddress: 0xa000, PCRegister: 0xffb1222c,
					PCOverrideRegister: 0xffb12234, PCOverrideBit: 1},
				{Name: "TRISC2", ResetBit: 14, StartAddress: 0xe000, PCRegister: 0xffb12230,
					PCOverrideRegister: 0xffb12234, PCOverrideBit: 2},
				{Name: "NCRISC", ResetBit: 18, StartAddress: 0x12000, PCRegister: 0xffb12238,
					PCOverrideRegister: 0xffb1223c, PCOverrideBit: 0},
			},
		},
		// Source: [ttsim], src/tile.cpp, e_tile_init and e_tile_mmio_wr32. An Ethernet tile has
		// fewer cores than a Tensix tile, but tt-umd sets the bits of all cores of a Tensix tile:
		// Ignored has those of the cores that an Ethernet tile lacks.
		EthernetReset: CoreReset{
			ResetRegister: boards.ResetRegister{
				Address: boards.Blackhole.Reset.Address, Mask: 0x1800,
			},
			Ignored: 0x80046000, ValueAfterPowerUp: 0x1800,
			Cores: []Core{
				{Name: "ERISC0", ResetBit: 11, PCRegister: 0xffb14000},
				{Name: "ERISC1", ResetBit: 12, PCRegister: 0xffb14008},
			},
		},
	},
}
