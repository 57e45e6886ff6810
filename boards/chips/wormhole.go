package chips

import "lightmetal/boards"

// Sources, besides those that boards.Wormhole lists:
//   - [Coordinates]: tt-isa-documentation, WormholeB0/NoC/Coordinates.md
//   - [SoftReset]: tt-isa-documentation, WormholeB0/TensixTile/SoftReset.md
var wormhole = Chip{
	Board: &boards.Wormhole,
	Title: "Tenstorrent Wormhole",
	// The kernel driver configures BAR 4 to show the last 32 MiB of BAR 0 ([KMD],
	// BAR4_SOC_TARGET_ADDRESS).
	Aliases: []Alias{{Bar: 4, Size: 32 << 20, RealBar: 0, RealOffset: 0x1e000000}},
	Grid: &Grid{
		// One string for each row of tiles, and one letter (TileKind) for each tile. Sources:
		// [Coordinates]; [ttsim], src/tile.cpp, coord_to_tile.
		Rows: []string{
			"DEEEEDEEEE",
			"DTTTTDTTTT",
			".TTTTDTTTT",
			"PTTTTDTTTT",
			".TTTTDTTTT",
			"DTTTTDTTTT",
			"DEEEEDEEEE",
			"DTTTTDTTTT",
			".TTTTDTTTT",
			".TTTTDTTTT",
			"ATTTTDTTTT",
			"DTTTTDTTTT",
		},
		// Source: [ttsim], src/tile.cpp, NOC_X_ID_TRANSLATE_TABLE_2 and the three tables after it.
		FirstTranslated: 16,
		NoC0Columns:     []uint8{0, 5, 1, 2, 3, 4, 6, 7, 8, 9},
		NoC0Rows:        []uint8{0, 6, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11},
		// Source: tt-umd wormhole_implementation.hpp, DRAM_CORES_NOC0.
		Banks: []Bank{
			{{0, 0}, {0, 1}, {0, 11}},
			{{0, 5}, {0, 6}, {0, 7}},
			{{5, 0}, {5, 1}, {5, 11}},
			{{5, 2}, {5, 9}, {5, 10}},
			{{5, 3}, {5, 4}, {5, 8}},
			{{5, 5}, {5, 6}, {5, 7}},
		},
		// Source of Align: DRAM_ALIGNMENT of tt-metal, which is NOC_DRAM_READ_ALIGNMENT_BYTES.
		Interleaving: Interleaving{Offsets: []uint64{0, 1 << 30}, Align: 32},
		// Sources: [ttsim], src/config.h and data/wh/tile_regs.json.
		Memories: []Memory{
			{Tensix, 0, 1464<<10 - 1, "L1"}, // source: WormholeB0/TensixTile/L1.md
			{Ethernet, 0, 256<<10 - 1, "L1"},
			{DRAM, 0, 2<<30 - 1, "DRAM"},
			{ARC, 0x810000000, 0x81007ffff, "ARC CSM"}, // CSM: memory of the ARC
		},
		Registers: []RegisterRange{
			{Kind: ARC, Address: 0x880030060, Count: 8, Name: "RESET_UNIT_SCRATCH"},
			{Kind: ARC, Address: 0x880030100, Count: 1, Name: "RESET_UNIT_ARC_MISC_CNTL"},
		},
		// Sources: [SoftReset]; [ttsim], src/tile.cpp, RISCV_DEBUG_REGS_SOFT_RESET_0. tt-umd sets
		// bit 31, which makes the cores start one after another. Mocks accept and ignore it. No
		// core has a PCRegister, because the NoC does not reach the registers with start addresses.
		TensixReset: CoreReset{
			ResetRegister: boards.Wormhole.Reset,
			Ignored:       1 << 31, ValueAfterPowerUp: 0x47800,
			Cores: []Core{
				{Name: "BRISC", ResetBit: 11, StartAddress: 0},
				{Name: "TRISC0", ResetBit: 12, StartAddress: 0x6000},
				{Name: "TRISC1", ResetBit: 13, StartAddress: 0xa000},
				{Name: "TRISC2", ResetBit: 14, StartAddress: 0xe000},
				{Name: "NCRISC", ResetBit: 18, StartAddress: 0x12000},
			},
		},
		// Source: [ttsim], src/tile.cpp, e_tile_init and e_tile_mmio_wr32. Ignored has the bits of
		// cores that only Tensix tiles have: tt-umd sets them in Ethernet tiles, too.
		EthernetReset: CoreReset{
			ResetRegister: boards.ResetRegister{
				Address: boards.Wormhole.Reset.Address, Mask: 0x800,
			},
			Ignored: 0x80047000, ValueAfterPowerUp: 0x800,
			Cores: []Core{{Name: "ERISC", ResetBit: 11, StartAddress: 0}},
		},
	},
}
