package ttsim

import (
	"strings"
	"testing"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// access is one load or store of a BAR.
type access struct {
	store  bool
	bar    uint8
	offset uint64
	width  uint8
	value  uint64
}

// store returns a store to a BAR.
func store(bar uint8, offset uint64, width uint8, value uint64) access {
	return access{true, bar, offset, width, value}
}

// load returns a load from a BAR.
func load(bar uint8, offset uint64, width uint8) access {
	return access{bar: bar, offset: offset, width: width}
}

// Bits of a window configuration. As in the manuals, bit 0 is the first bit after the address.
const (
	whNoC       = 1 << 24
	whMulticast = 1 << 25
	whStrict    = 1 << 26
	whPosted    = 2 << 26
	whLinked    = 1 << 28
	whStaticVC  = 1 << 29
	whReserved  = 1 << 30

	bhNoC          = 1 << 24
	bhMulticast    = 1 << 26
	bhStrict       = 1 << 27
	bhPosted       = 2 << 27
	bhLinked       = 1 << 29
	bhUseStaticVC  = 1 << 30
	bhStreamHeader = 1 << 31
	bhStaticVC     = 1 << 32
	bhReserved     = 1 << 35
)

// Offsets in BAR 0, addresses in a tile, and sizes.
const (
	configs = 0x1fc00000 // of both boards
	wh2M    = 0x09c00000 // Wormhole's window 156, the first of 2 MiB
	wh16M   = 0x0b000000 // Wormhole's window 166, the first of 16 MiB

	localRAM   = 0xffb00000 // of a tile
	softReset0 = 0xffb121b0
	whRegs     = 0xff000000 // a multiple of 16 MiB
	bhRegs     = 0xffa00000 // a multiple of 2 MiB

	whL1 = 1464 << 10 // bytes
	bhL1 = 1536 << 10
)

// corner returns the bits of the start corner of a multicast rectangle.
func corner(x, y uint64) uint64 { return x<<12 | y<<18 }

// wh returns the store that points a TLB window of Wormhole at a tile. bits are further bits of the
// configuration.
func wh(slot int, x, y, address, bits uint64) []access {
	shift := 20
	if slot >= 166 {
		shift = 24
	} else if slot >= 156 {
		shift = 21
	}
	word := address>>shift | (x|y<<6|bits)<<(36-shift)
	return []access{store(0, configs+8*uint64(slot), 8, word)}
}

// bh returns the stores that point a TLB window of Blackhole, like wh.
func bh(slot int, x, y, address, bits uint64) []access {
	shift, n := 21, 43
	if slot >= 202 {
		shift, n = 32, 32
	}
	rest := x | y<<6 | bits
	low := address>>shift | rest<<n
	high := rest >> (64 - n)
	at := uint64(configs + 12*slot)
	return []access{store(0, at, 4, low&0xffffffff), store(0, at+4, 4, low>>32),
		store(0, at+8, 4, high)}
}

// then returns the accesses of both lists.
func then(first []access, more ...access) []access { return append(first, more...) }

// refusalCase is a row of the table refusalCases.
type refusalCase struct {
	board    string
	name     string
	accesses []access
	refused  string // part of the simulator's message; empty: it accepts the access
	mock     bool   // stricter: hal/mock refuses an access that the simulator accepts
}

const (
	same     = false
	stricter = true
)

// refusalCases are accesses that the vendor's simulator accepts or refuses, with its messages
// (libttsim 1.10.0). Only the last access of a case may be refused: the simulator checks a window's
// configuration when the window is used.
var refusalCases = []refusalCase{
	{"wormhole", "store of 1 byte to L1", then(wh(166, 1, 1, 0, 0), store(0, wh16M+0x100, 1, 0x12)),
		"", same},
	{"wormhole", "load of 1 byte of L1", then(wh(166, 1, 1, 0, 0), load(0, wh16M+0x100, 1)), "",
		same},
	{"wormhole", "store of 2 bytes to L1", then(wh(166, 1, 1, 0, 0),
		store(0, wh16M+0x100, 2, 0x1234)), "", same},
	{"wormhole", "load of 2 bytes of L1", then(wh(166, 1, 1, 0, 0), load(0, wh16M+0x100, 2)), "",
		same},
	{"wormhole", "store of 4 bytes to L1", then(wh(166, 1, 1, 0, 0),
		store(0, wh16M+0x100, 4, 0x12345678)), "", same},
	{"wormhole", "load of 4 bytes of L1", then(wh(166, 1, 1, 0, 0), load(0, wh16M+0x100, 4)), "",
		same},
	{"wormhole", "store of 8 bytes to L1", then(wh(166, 1, 1, 0, 0),
		store(0, wh16M+0x100, 8, 0x123456789abcdef0)), "", same},
	{"wormhole", "load of 8 bytes of L1", then(wh(166, 1, 1, 0, 0), load(0, wh16M+0x100, 8)), "",
		same},
	{"wormhole", "store of a word to L1, not aligned",
		then(wh(166, 1, 1, 0, 0), store(0, wh16M+0x102, 4, 1)), "", stricter},
	{"wormhole", "window of 1 MiB", then(wh(0, 1, 1, 0, 0), load(0, 0, 4)), "", same},
	{"wormhole", "window of 2 MiB", then(wh(156, 1, 1, 0, 0), load(0, wh2M, 4)), "", same},
	{"wormhole", "the kernel driver's window", then(wh(185, 1, 1, 0, 0), load(0, 0x1e000000, 4)),
		"", stricter},
	{"wormhole", "window never pointed", then(nil, load(0, wh16M, 4)), "", stricter},
	{"wormhole", "translated coordinates", then(wh(166, 18, 18, 0, 0), load(0, wh16M, 4)), "",
		same},
	{"wormhole", "DRAM tile", then(wh(166, 0, 0, 0, 0), store(0, wh16M, 4, 1)), "", same},
	{"wormhole", "Ethernet tile", then(wh(166, 1, 0, 0, 0), load(0, wh16M, 4)), "", same},
	{"wormhole", "PCIe tile: host memory", then(wh(166, 0, 3, 0x8_0000_0000, 0), load(0, wh16M, 4)),
		"no Host window of the image is there", same},
	{"wormhole", "tile with a router only", then(wh(166, 0, 2, 0, 0), load(0, wh16M, 4)),
		"UnimplementedFunctionality: coord_to_tile: coord (0,2)", same},
	{"wormhole", "tile outside the grid", then(wh(166, 10, 1, 0, 0), load(0, wh16M, 4)),
		"UnimplementedFunctionality: remap_virtual_coordinate: invalid coordinate after " +
			"virtualization 10,1", same},
	{"wormhole", "ordering strict", then(wh(166, 1, 1, 0, whStrict), load(0, wh16M, 4)), "", same},
	{"wormhole", "ordering posted", then(wh(166, 1, 1, 0, whPosted), load(0, wh16M, 4)), "", same},
	{"wormhole", "ordering 3", then(wh(166, 1, 1, 0, whStrict|whPosted), load(0, wh16M, 4)),
		"UndefinedBehavior: tlb_translate: tlb_cfg ordering=3", same},
	{"wormhole", "static virtual channel", then(wh(166, 1, 1, 0, whStaticVC), load(0, wh16M, 4)),
		"", same},
	{"wormhole", "NoC 1", then(wh(166, 1, 1, 0, whNoC), load(0, wh16M, 4)),
		"UnimplementedFunctionality: tlb_translate: tlb_cfg=0x1000041", same},
	{"wormhole", "linked", then(wh(166, 1, 1, 0, whLinked), load(0, wh16M, 4)),
		"UnimplementedFunctionality: tlb_translate: tlb_cfg=0x10000041", same},
	{"wormhole", "reserved bit", then(wh(166, 1, 1, 0, whReserved), load(0, wh16M, 4)),
		"UnimplementedFunctionality: tlb_translate: tlb_cfg=0x40000041", same},
	{"wormhole", "a wrong configuration that is never used", wh(166, 1, 1, 0, whLinked), "", same},
	{"wormhole", "unicast with a start corner",
		then(wh(166, 2, 2, 0, corner(1, 1)), store(0, wh16M, 4, 1)),
		"UnsupportedFunctionality: tlb_translate: x_start/y_start set without mcast: " +
			"tlb_cfg=0x41082", same},
	{"wormhole", "multicast store", then(wh(166, 2, 2, 0, whMulticast|corner(1, 1)),
		store(0, wh16M, 4, 1)), "", same},
	{"wormhole", "multicast store around the column of DRAM",
		then(wh(166, 6, 2, 0, whMulticast|corner(4, 1)), store(0, wh16M, 4, 1)), "", same},
	{"wormhole", "multicast store to SOFT_RESET_0",
		then(wh(166, 2, 2, whRegs, whMulticast|corner(1, 1)),
			store(0, wh16M+softReset0-whRegs, 4, 0x47800)), "", same},
	{"wormhole", "multicast load", then(wh(166, 2, 2, 0, whMulticast|corner(1, 1)),
		load(0, wh16M, 4)), "UndefinedBehavior: tlb_window_read: multicast read", same},
	{"wormhole", "multicast from the far corner",
		then(wh(166, 1, 1, 0, whMulticast|corner(2, 2)), store(0, wh16M, 4, 1)),
		"UndefinedBehavior: tlb_window_write: multicast start (2,2) past end (1,1)", same},
	{"wormhole", "multicast from a DRAM tile",
		then(wh(166, 2, 2, 0, whMulticast|corner(0, 1)), store(0, wh16M, 4, 1)),
		"UndefinedBehavior: tlb_window_write: multicast rectangle not within Tensix grid", same},
	{"wormhole", "multicast to a row of Ethernet tiles",
		then(wh(166, 2, 6, 0, whMulticast|corner(1, 1)), store(0, wh16M, 4, 1)),
		"UndefinedBehavior: tlb_window_write: multicast rectangle not within Tensix grid", same},
	{"wormhole", "store across the end of a window",
		then(wh(166, 1, 1, 0, 0), store(0, wh16M+0xfffffc, 8, 1)),
		"UnsupportedFunctionality: tlb_translate: TLB region overrun: offset=0xfffffc size=8",
		same},
	{"wormhole", "load across the end of a window", then(wh(0, 1, 1, 0, 0), load(0, 0xffffc, 8)),
		"UnsupportedFunctionality: tlb_translate: TLB region overrun: offset=0xffffc size=8", same},
	{"wormhole", "last word of L1", then(wh(166, 1, 1, 0, 0), load(0, wh16M+whL1-4, 4)), "", same},
	{"wormhole", "load across the end of L1", then(wh(166, 1, 1, 0, 0), load(0, wh16M+whL1-4, 8)),
		"UndefinedBehavior: tile_rd_bytes: access past end of tensix_sram", same},
	{"wormhole", "load after the end of L1", then(wh(166, 1, 1, 0, 0), load(0, wh16M+whL1, 4)),
		"UnimplementedFunctionality: t_tile_mmio_rd32: addr=0x16e000", same},
	{"wormhole", "load of SOFT_RESET_0", then(wh(166, 1, 1, whRegs, 0),
		load(0, wh16M+softReset0-whRegs, 4)), "", same},
	{"wormhole", "load of 1 byte of SOFT_RESET_0",
		then(wh(166, 1, 1, whRegs, 0), load(0, wh16M+softReset0-whRegs, 1)),
		"UnsupportedFunctionality: tile_rd_bytes: tile=T0 addr=0xffb121b0 size=1", same},
	{"wormhole", "store of 1 byte to SOFT_RESET_0",
		then(wh(166, 1, 1, whRegs, 0), store(0, wh16M+softReset0-whRegs, 1, 0)),
		"UnsupportedFunctionality: tile_wr_bytes: tile=T0 addr=0xffb121b0 size=1", same},
	{"wormhole", "load of 2 bytes of SOFT_RESET_0",
		then(wh(166, 1, 1, whRegs, 0), load(0, wh16M+softReset0-whRegs, 2)),
		"UnsupportedFunctionality: tile_rd_bytes: tile=T0 addr=0xffb121b0 size=2", same},
	{"wormhole", "store of 2 bytes to SOFT_RESET_0",
		then(wh(166, 1, 1, whRegs, 0), store(0, wh16M+softReset0-whRegs, 2, 0)),
		"UnsupportedFunctionality: tile_wr_bytes: tile=T0 addr=0xffb121b0 size=2", same},
	{"wormhole", "load of 8 bytes of SOFT_RESET_0",
		then(wh(166, 1, 1, whRegs, 0), load(0, wh16M+softReset0-whRegs, 8)),
		"UnimplementedFunctionality: t_tile_mmio_rd64: addr=0xffb121b0", same},
	{"wormhole", "store of 8 bytes to SOFT_RESET_0",
		then(wh(166, 1, 1, whRegs, 0), store(0, wh16M+softReset0-whRegs, 8, 0)),
		"UnimplementedFunctionality: t_tile_mmio_wr64: addr=0xffb121b0", same},
	{"wormhole", "load of SOFT_RESET_0, not aligned",
		then(wh(166, 1, 1, whRegs, 0), load(0, wh16M+softReset0-whRegs+1, 4)),
		"UndefinedBehavior: riscv_debug_regs_rd32: offset=0x1b1", same},
	{"wormhole", "SOFT_RESET_0 = 0", then(wh(166, 1, 1, whRegs, 0),
		store(0, wh16M+softReset0-whRegs, 4, 0)), "", same},
	{"wormhole", "SOFT_RESET_0 = 0x47000", then(wh(166, 1, 1, whRegs, 0),
		store(0, wh16M+softReset0-whRegs, 4, 0x47000)), "", same},
	{"wormhole", "SOFT_RESET_0 = 0x47800", then(wh(166, 1, 1, whRegs, 0),
		store(0, wh16M+softReset0-whRegs, 4, 0x47800)), "", same},
	{"wormhole", "SOFT_RESET_0 with bit 31, which is ignored",
		then(wh(166, 1, 1, whRegs, 0), store(0, wh16M+softReset0-whRegs, 4, 0x80047800)), "", same},
	{"wormhole", "SOFT_RESET_0 = 1", then(wh(166, 1, 1, whRegs, 0),
		store(0, wh16M+softReset0-whRegs, 4, 1)),
		"UnimplementedFunctionality: riscv_debug_regs_wr32: SOFT_RESET_0=0x1", same},
	{"wormhole", "SOFT_RESET_0 = 0x400", then(wh(166, 1, 1, whRegs, 0),
		store(0, wh16M+softReset0-whRegs, 4, 0x400)),
		"UnimplementedFunctionality: riscv_debug_regs_wr32: SOFT_RESET_0=0x400", same},
	{"wormhole", "SOFT_RESET_0 = 0x47801", then(wh(166, 1, 1, whRegs, 0),
		store(0, wh16M+softReset0-whRegs, 4, 0x47801)),
		"UnimplementedFunctionality: riscv_debug_regs_wr32: SOFT_RESET_0=0x47801", same},
	{"wormhole", "SOFT_RESET_0 = 0x40047800",
		then(wh(166, 1, 1, whRegs, 0), store(0, wh16M+softReset0-whRegs, 4, 0x40047800)),
		"UnimplementedFunctionality: riscv_debug_regs_wr32: SOFT_RESET_0=0x40047800", same},
	{"wormhole", "NOC_NODE_ID", then(wh(166, 1, 1, whRegs, 0), load(0, wh16M+0xffb2002c-whRegs, 4)),
		"", same},
	{"wormhole", "store to NOC_NODE_ID", then(wh(166, 1, 1, whRegs, 0),
		store(0, wh16M+0xffb2002c-whRegs, 4, 0)),
		"UnimplementedFunctionality: noc_regs_wr32: offset=0x2c", same},
	{"wormhole", "core-local RAM", then(wh(166, 1, 1, whRegs, 0),
		load(0, wh16M+localRAM-whRegs, 4)),
		"UnimplementedFunctionality: t_tile_mmio_rd32: addr=0xffb00000", same},
	{"wormhole", "no debug register", then(wh(166, 1, 1, whRegs, 0),
		load(0, wh16M+0xffb12ffc-whRegs, 4)),
		"UndefinedBehavior: riscv_debug_regs_rd32: offset=0xffc", same},
	{"wormhole", "configuration in two halves",
		[]access{store(0, configs+8*166, 4, 0x41000), store(0, configs+8*166+4, 4, 0),
			load(0, wh16M, 4)}, "", same},
	{"wormhole", "configuration by BAR 4", []access{store(4, 0x1c00530, 8, 0x41000),
		load(0, wh16M, 4)}, "", same},
	{"wormhole", "store of 1 byte of configuration", []access{store(0, configs, 1, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: tlb_cfg: size=1", same},
	{"wormhole", "store of 2 bytes of configuration", []access{store(0, configs, 2, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: tlb_cfg: size=2", same},
	{"wormhole", "store of a word of configuration, not aligned",
		[]access{store(0, configs+2, 4, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: bar0: misaligned offset=0x1fc00002 size=4",
		same},
	{"wormhole", "store of 8 bytes of configuration, not aligned",
		[]access{store(0, configs+4, 8, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: bar0: misaligned offset=0x1fc00004 size=8",
		same},
	{"wormhole", "last configuration", []access{store(0, configs+8*185, 8, 0)}, "", stricter},
	{"wormhole", "store after the last configuration", []access{store(0, configs+8*186, 8, 0)},
		"UnimplementedFunctionality: pci_mem_wr_cur: bar0: offset=0x1fc005d0 size=8", same},
	{"wormhole", "load of a configuration", []access{load(0, configs, 8)},
		"UnimplementedFunctionality: pci_mem_rd_cur: bar0: offset=0x1fc00000 size=8", same},
	{"wormhole", "load of a hole in BAR 0", []access{load(0, 0x1f000000, 4)},
		"UnimplementedFunctionality: pci_mem_rd_cur: bar0: offset=0x1f000000 size=4", same},
	{"wormhole", "store to a hole in BAR 0", []access{store(0, 0x1f000000, 4, 0)},
		"UnimplementedFunctionality: pci_mem_wr_cur: bar0: offset=0x1f000000 size=4", same},
	{"wormhole", "NIU of the PCIe tile", []access{load(0, 0x1fd20000, 4)},
		"UnimplementedFunctionality: pci_mem_rd_cur: bar0: offset=0x1fd20000 size=4", same},
	{"wormhole", "CSM of the ARC", []access{load(0, 0x1fe80000, 4)}, "", same},
	{"wormhole", "scratch register of the ARC", []access{load(0, 0x1ff30060, 4)}, "", same},
	{"wormhole", "scratch register of the ARC, 2 bytes", []access{load(0, 0x1ff30060, 2)},
		"UndefinedBehavior: arc_tile_rd_bytes: arc_apb: offset=0x30060 size=2", same},
	{"wormhole", "BAR 2", []access{load(2, 0x1200, 4)}, "", same},
	{"wormhole", "BAR 2, not aligned", []access{load(2, 0x1202, 4)},
		"UnsupportedFunctionality: pci_mem_rd_cur: bar2: misaligned paddr=0x120001202", same},
	{"wormhole", "BAR 2, load of 1 byte", []access{load(2, 0x1200, 1)},
		"UnsupportedFunctionality: pci_mem_rd_cur: bar2: size=1", same},
	{"wormhole", "BAR 2, store of 1 byte", []access{store(2, 0x1200, 1, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: bar2: size=1", same},
	{"wormhole", "BAR 2, load of 2 bytes", []access{load(2, 0x1200, 2)},
		"UnsupportedFunctionality: pci_mem_rd_cur: bar2: size=2", same},
	{"wormhole", "BAR 2, store of 2 bytes", []access{store(2, 0x1200, 2, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: bar2: size=2", same},
	{"wormhole", "BAR 2, load of 8 bytes", []access{load(2, 0x1200, 8)},
		"UnsupportedFunctionality: pci_mem_rd_cur: bar2: size=8", same},
	{"wormhole", "BAR 2, store of 8 bytes", []access{store(2, 0x1200, 8, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: bar2: size=8", same},
	{"wormhole", "BAR 2, no register", []access{load(2, 0x4000, 4)},
		"UnimplementedFunctionality: pci_mem_rd_cur: bar2: offset=0x4000 size=4", same},
	{"wormhole", "store to TRISC0_RESET_PC", then(wh(166, 1, 1, whRegs, 0),
		store(0, wh16M+0xffb12228-whRegs, 4, 1)),
		"UndefinedBehavior: riscv_debug_regs_wr32: offset=0x228", same},
	{"wormhole", "store to TRISC_RESET_PC_OVERRIDE",
		then(wh(166, 1, 1, whRegs, 0), store(0, wh16M+0xffb12234-whRegs, 4, 1)),
		"UndefinedBehavior: riscv_debug_regs_wr32: offset=0x234", same},
	{"wormhole", "store to NCRISC_RESET_PC", then(wh(166, 1, 1, whRegs, 0),
		store(0, wh16M+0xffb12238-whRegs, 4, 1)),
		"UndefinedBehavior: riscv_debug_regs_wr32: offset=0x238", same},
	{"wormhole", "store to NCRISC_RESET_PC_OVERRIDE",
		then(wh(166, 1, 1, whRegs, 0), store(0, wh16M+0xffb1223c-whRegs, 4, 1)),
		"UndefinedBehavior: riscv_debug_regs_wr32: offset=0x23c", same},
	{"blackhole", "store of 1 byte to L1", then(bh(0, 1, 2, 0, 0), store(0, 0x100, 1, 0x12)), "",
		same},
	{"blackhole", "load of 1 byte of L1", then(bh(0, 1, 2, 0, 0), load(0, 0x100, 1)), "", same},
	{"blackhole", "store of 2 bytes to L1", then(bh(0, 1, 2, 0, 0), store(0, 0x100, 2, 0x1234)), "",
		same},
	{"blackhole", "load of 2 bytes of L1", then(bh(0, 1, 2, 0, 0), load(0, 0x100, 2)), "", same},
	{"blackhole", "store of 4 bytes to L1", then(bh(0, 1, 2, 0, 0), store(0, 0x100, 4, 0x12345678)),
		"", same},
	{"blackhole", "load of 4 bytes of L1", then(bh(0, 1, 2, 0, 0), load(0, 0x100, 4)), "", same},
	{"blackhole", "store of 8 bytes to L1", then(bh(0, 1, 2, 0, 0),
		store(0, 0x100, 8, 0x123456789abcdef0)), "", same},
	{"blackhole", "load of 8 bytes of L1", then(bh(0, 1, 2, 0, 0), load(0, 0x100, 8)), "", same},
	{"blackhole", "store of a word to L1, not aligned",
		then(bh(0, 1, 2, 0, 0), store(0, 0x102, 4, 1)), "", stricter},
	{"blackhole", "the kernel driver's window", then(bh(201, 1, 2, 0, 0), load(0, 201<<21, 4)), "",
		stricter},
	{"blackhole", "window of 4 GiB", then(bh(202, 1, 2, 0, 0), load(4, 0, 4)), "", same},
	{"blackhole", "window never pointed", then(nil, load(0, 0, 4)), "", stricter},
	{"blackhole", "translated coordinates of DRAM", then(bh(0, 17, 12, 0, 0), load(0, 0, 4)), "",
		same},
	{"blackhole", "DRAM tile", then(bh(0, 0, 0, 0, 0), store(0, 0, 4, 1)), "", same},
	{"blackhole", "Ethernet tile", then(bh(0, 1, 1, 0, 0), load(0, 0, 4)), "", same},
	{"blackhole", "PCIe tile: host memory", then(bh(0, 2, 0, 1<<60, 0), load(0, 0, 4)),
		"no Host window of the image is there", same},
	{"blackhole", "tile outside the grid", then(bh(0, 17, 2, 0, 0), load(0, 0, 4)),
		"UnimplementedFunctionality: remap_virtual_coordinate: invalid coordinate (17,2)", same},
	{"blackhole", "column of DRAM among the Tensix rows", then(bh(0, 8, 2, 0, 0), load(0, 0, 4)),
		"UnimplementedFunctionality: coord_to_tile: coord (8,2)", same},
	{"blackhole", "2 MiB: ordering strict", then(bh(0, 1, 2, 0, bhStrict), load(0, 0, 4)), "",
		same},
	{"blackhole", "2 MiB: ordering posted", then(bh(0, 1, 2, 0, bhPosted), load(0, 0, 4)), "",
		same},
	{"blackhole", "2 MiB: ordering 3", then(bh(0, 1, 2, 0, bhStrict|bhPosted), load(0, 0, 4)),
		"UnimplementedFunctionality: tlb_translate: tlb_cfg ordering=3", same},
	{"blackhole", "2 MiB: NoC 1", then(bh(0, 1, 2, 0, bhNoC), load(0, 0, 4)),
		"UnimplementedFunctionality: tlb_translate: tlb_cfg2=0x8", same},
	{"blackhole", "2 MiB: NoC 2", then(bh(0, 1, 2, 0, 2*bhNoC), load(0, 0, 4)),
		"UnimplementedFunctionality: tlb_translate: tlb_cfg2=0x10", same},
	{"blackhole", "2 MiB: linked", then(bh(0, 1, 2, 0, bhLinked), load(0, 0, 4)),
		"UnimplementedFunctionality: tlb_translate: tlb_cfg2=0x100", same},
	{"blackhole", "2 MiB: static virtual channel",
		then(bh(0, 1, 2, 0, bhUseStaticVC), load(0, 0, 4)),
		"UnimplementedFunctionality: tlb_translate: tlb_cfg2=0x200", same},
	{"blackhole", "2 MiB: number of a static virtual channel",
		then(bh(0, 1, 2, 0, bhStaticVC), load(0, 0, 4)),
		"UnimplementedFunctionality: tlb_translate: tlb_cfg2=0x800", same},
	{"blackhole", "2 MiB: stream header", then(bh(0, 1, 2, 0, bhStreamHeader), load(0, 0, 4)),
		"UnimplementedFunctionality: tlb_translate: tlb_cfg2=0x400", same},
	{"blackhole", "2 MiB: reserved bit", then(bh(0, 1, 2, 0, bhReserved), load(0, 0, 4)),
		"UnimplementedFunctionality: tlb_translate: tlb_cfg2=0x4000", same},
	{"blackhole", "2 MiB: unicast with a start corner",
		then(bh(0, 2, 3, 0, corner(1, 2)), store(0, 0, 4, 1)),
		"UnsupportedFunctionality: tlb_translate: x_start/y_start set without mcast: " +
			"tlb_cfg1=0x40861000 tlb_cfg2=0x0", same},
	{"blackhole", "2 MiB: unicast with a start row above 7",
		then(bh(0, 2, 11, 0, corner(0, 8)), store(0, 0, 4, 1)),
		"UnsupportedFunctionality: tlb_translate: x_start/y_start set without mcast: " +
			"tlb_cfg1=0x161000 tlb_cfg2=0x1", same},
	{"blackhole", "2 MiB: multicast store", then(bh(0, 2, 3, 0, bhMulticast|corner(1, 2)),
		store(0, 0, 4, 1)), "", same},
	{"blackhole", "2 MiB: multicast load", then(bh(0, 2, 3, 0, bhMulticast|corner(1, 2)),
		load(0, 0, 4)), "UndefinedBehavior: tlb_window_read: multicast read", same},
	{"blackhole", "4 GiB: ordering strict", then(bh(202, 1, 2, 0, bhStrict), load(4, 0, 4)), "",
		same},
	{"blackhole", "4 GiB: ordering posted", then(bh(202, 1, 2, 0, bhPosted), load(4, 0, 4)), "",
		same},
	{"blackhole", "4 GiB: ordering 3", then(bh(202, 1, 2, 0, bhStrict|bhPosted), load(4, 0, 4)),
		"UnimplementedFunctionality: tlb_translate_bar4: tlb_cfg ordering=3", same},
	{"blackhole", "4 GiB: NoC 1", then(bh(202, 1, 2, 0, bhNoC), load(4, 0, 4)),
		"UnimplementedFunctionality: tlb_translate_bar4: tlb_cfg1=0x1000081", same},
	{"blackhole", "4 GiB: NoC 2", then(bh(202, 1, 2, 0, 2*bhNoC), load(4, 0, 4)),
		"UnimplementedFunctionality: tlb_translate_bar4: tlb_cfg1=0x2000081", same},
	{"blackhole", "4 GiB: linked", then(bh(202, 1, 2, 0, bhLinked), load(4, 0, 4)),
		"UnimplementedFunctionality: tlb_translate_bar4: tlb_cfg1=0x20000081", same},
	{"blackhole", "4 GiB: static virtual channel",
		then(bh(202, 1, 2, 0, bhUseStaticVC), load(4, 0, 4)),
		"UnimplementedFunctionality: tlb_translate_bar4: tlb_cfg1=0x40000081", same},
	{"blackhole", "4 GiB: number of a static virtual channel",
		then(bh(202, 1, 2, 0, bhStaticVC), load(4, 0, 4)),
		"UnimplementedFunctionality: tlb_translate_bar4: tlb_cfg2=0x1", same},
	{"blackhole", "4 GiB: stream header", then(bh(202, 1, 2, 0, bhStreamHeader), load(4, 0, 4)),
		"UnimplementedFunctionality: tlb_translate_bar4: tlb_cfg1=0x80000081", same},
	{"blackhole", "4 GiB: reserved bit", then(bh(202, 1, 2, 0, bhReserved), load(4, 0, 4)),
		"UnimplementedFunctionality: tlb_translate_bar4: tlb_cfg2=0x8", same},
	{"blackhole", "4 GiB: unicast with a start corner",
		then(bh(202, 2, 3, 0, corner(1, 2)), store(4, 0, 4, 1)),
		"UnimplementedFunctionality: tlb_translate_bar4: tlb_cfg1=0x810c2", same},
	{"blackhole", "4 GiB: unicast with a start row above 7",
		then(bh(202, 2, 11, 0, corner(0, 8)), store(4, 0, 4, 1)),
		"UnimplementedFunctionality: tlb_translate_bar4: tlb_cfg1=0x2002c2", same},
	{"blackhole", "4 GiB: multicast store", then(bh(202, 2, 3, 0, bhMulticast|corner(1, 2)),
		store(4, 0, 4, 1)), "UnimplementedFunctionality: tlb_translate_bar4: tlb_cfg1=0x40810c2",
		same},
	{"blackhole", "4 GiB: multicast load", then(bh(202, 2, 3, 0, bhMulticast|corner(1, 2)),
		load(4, 0, 4)), "UnimplementedFunctionality: tlb_translate_bar4: tlb_cfg1=0x40810c2", same},
	{"blackhole", "a wrong configuration that is never used", bh(0, 1, 2, 0, bhLinked), "", same},
	{"blackhole", "multicast store around the columns of DRAM",
		then(bh(0, 10, 2, 0, bhMulticast|corner(7, 2)), store(0, 0, 4, 1)), "", same},
	{"blackhole", "multicast store to SOFT_RESET_0",
		then(bh(0, 2, 3, bhRegs, bhMulticast|corner(1, 2)),
			store(0, softReset0-bhRegs, 4, 0x47800)), "", same},
	{"blackhole", "multicast from the far corner",
		then(bh(0, 1, 2, 0, bhMulticast|corner(2, 3)), store(0, 0, 4, 1)),
		"UndefinedBehavior: tlb_window_write: multicast start (2,3) past end (1,2)", same},
	{"blackhole", "multicast from a DRAM tile",
		then(bh(0, 2, 3, 0, bhMulticast|corner(0, 2)), store(0, 0, 4, 1)),
		"UnimplementedFunctionality: remap_virtual_coordinate: invalid coordinate (0,2)", same},
	{"blackhole", "multicast to a row of Ethernet tiles",
		then(bh(0, 2, 3, 0, bhMulticast|corner(1, 1)), store(0, 0, 4, 1)),
		"UndefinedBehavior: tlb_window_write: multicast rectangle not within Tensix grid", same},
	{"blackhole", "store across the end of a window",
		then(bh(0, 1, 2, 0, 0), store(0, 0x1ffffc, 8, 1)),
		"UnsupportedFunctionality: tlb_translate: TLB region overrun: offset=0x1ffffc size=8",
		same},
	{"blackhole", "load across the end of a window of 4 GiB",
		then(bh(202, 17, 12, 0, 0), load(4, 0xfffffffc, 8)),
		"UnsupportedFunctionality: tlb_translate_bar4: TLB region overrun: offset=0xfffffffc " +
			"size=8", same},
	{"blackhole", "last word of L1", then(bh(0, 1, 2, 0, 0), load(0, bhL1-4, 4)), "", same},
	{"blackhole", "load across the end of L1", then(bh(0, 1, 2, 0, 0), load(0, bhL1-4, 8)),
		"UndefinedBehavior: tile_rd_bytes: access past end of tensix_sram", same},
	{"blackhole", "load after the end of L1", then(bh(0, 1, 2, 0, 0), load(0, bhL1, 4)),
		"UnimplementedFunctionality: t_tile_mmio_rd32: addr=0x180000", same},
	{"blackhole", "load of SOFT_RESET_0", then(bh(0, 1, 2, bhRegs, 0),
		load(0, softReset0-bhRegs, 4)), "", same},
	{"blackhole", "load of 1 byte of SOFT_RESET_0",
		then(bh(0, 1, 2, bhRegs, 0), load(0, softReset0-bhRegs, 1)),
		"UnsupportedFunctionality: tile_rd_bytes: tile=T0 addr=0xffb121b0 size=1", same},
	{"blackhole", "store of 1 byte to SOFT_RESET_0",
		then(bh(0, 1, 2, bhRegs, 0), store(0, softReset0-bhRegs, 1, 0)),
		"UnsupportedFunctionality: tile_wr_bytes: tile=T0 addr=0xffb121b0 size=1", same},
	{"blackhole", "load of 2 bytes of SOFT_RESET_0",
		then(bh(0, 1, 2, bhRegs, 0), load(0, softReset0-bhRegs, 2)),
		"UnsupportedFunctionality: tile_rd_bytes: tile=T0 addr=0xffb121b0 size=2", same},
	{"blackhole", "store of 2 bytes to SOFT_RESET_0",
		then(bh(0, 1, 2, bhRegs, 0), store(0, softReset0-bhRegs, 2, 0)),
		"UnsupportedFunctionality: tile_wr_bytes: tile=T0 addr=0xffb121b0 size=2", same},
	{"blackhole", "load of 8 bytes of SOFT_RESET_0",
		then(bh(0, 1, 2, bhRegs, 0), load(0, softReset0-bhRegs, 8)),
		"UnimplementedFunctionality: t_tile_mmio_rd64: addr=0xffb121b0", same},
	{"blackhole", "store of 8 bytes to SOFT_RESET_0",
		then(bh(0, 1, 2, bhRegs, 0), store(0, softReset0-bhRegs, 8, 0)),
		"UnimplementedFunctionality: t_tile_mmio_wr64: addr=0xffb121b0", same},
	{"blackhole", "load of SOFT_RESET_0, not aligned",
		then(bh(0, 1, 2, bhRegs, 0), load(0, softReset0-bhRegs+1, 4)),
		"UndefinedBehavior: riscv_debug_regs_rd32: offset=0x1b1", same},
	{"blackhole", "SOFT_RESET_0 = 0", then(bh(0, 1, 2, bhRegs, 0),
		store(0, softReset0-bhRegs, 4, 0)), "", same},
	{"blackhole", "SOFT_RESET_0 = 0x47000", then(bh(0, 1, 2, bhRegs, 0),
		store(0, softReset0-bhRegs, 4, 0x47000)), "", same},
	{"blackhole", "SOFT_RESET_0 = 0x47800", then(bh(0, 1, 2, bhRegs, 0),
		store(0, softReset0-bhRegs, 4, 0x47800)), "", same},
	{"blackhole", "SOFT_RESET_0 with bit 31, which is ignored",
		then(bh(0, 1, 2, bhRegs, 0), store(0, softReset0-bhRegs, 4, 0x80047800)), "", same},
	{"blackhole", "SOFT_RESET_0 = 1", then(bh(0, 1, 2, bhRegs, 0),
		store(0, softReset0-bhRegs, 4, 1)),
		"UnimplementedFunctionality: riscv_debug_regs_wr32: SOFT_RESET_0=0x1", same},
	{"blackhole", "SOFT_RESET_0 = 0x400", then(bh(0, 1, 2, bhRegs, 0),
		store(0, softReset0-bhRegs, 4, 0x400)),
		"UnimplementedFunctionality: riscv_debug_regs_wr32: SOFT_RESET_0=0x400", same},
	{"blackhole", "SOFT_RESET_0 = 0x47801", then(bh(0, 1, 2, bhRegs, 0),
		store(0, softReset0-bhRegs, 4, 0x47801)),
		"UnimplementedFunctionality: riscv_debug_regs_wr32: SOFT_RESET_0=0x47801", same},
	{"blackhole", "SOFT_RESET_0 = 0x40047800",
		then(bh(0, 1, 2, bhRegs, 0), store(0, softReset0-bhRegs, 4, 0x40047800)),
		"UnimplementedFunctionality: riscv_debug_regs_wr32: SOFT_RESET_0=0x40047800", same},
	{"blackhole", "store to TRISC0_RESET_PC",
		then(bh(0, 1, 2, bhRegs, 0), store(0, 0xffb12228-bhRegs, 4, 1)), "", same},
	{"blackhole", "store to TRISC_RESET_PC_OVERRIDE",
		then(bh(0, 1, 2, bhRegs, 0), store(0, 0xffb12234-bhRegs, 4, 1)), "", same},
	{"blackhole", "store to NCRISC_RESET_PC",
		then(bh(0, 1, 2, bhRegs, 0), store(0, 0xffb12238-bhRegs, 4, 1)), "", same},
	{"blackhole", "store to NCRISC_RESET_PC_OVERRIDE",
		then(bh(0, 1, 2, bhRegs, 0), store(0, 0xffb1223c-bhRegs, 4, 1)), "", same},
	{"blackhole", "NOC_NODE_ID", then(bh(0, 1, 2, bhRegs, 0), load(0, 0xffb20044-bhRegs, 4)), "",
		same},
	{"blackhole", "core-local RAM", then(bh(0, 1, 2, bhRegs, 0), load(0, localRAM-bhRegs, 4)),
		"UnimplementedFunctionality: t_tile_mmio_rd32: addr=0xffb00000", same},
	{"blackhole", "no debug register", then(bh(0, 1, 2, bhRegs, 0), load(0, 0xffb12ffc-bhRegs, 4)),
		"UndefinedBehavior: riscv_debug_regs_rd32: offset=0xffc", same},
	{"blackhole", "store of 1 byte of configuration", []access{store(0, configs, 1, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: bar0: offset=0x1fc00000 size=1", same},
	{"blackhole", "store of 2 bytes of configuration", []access{store(0, configs, 2, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: bar0: offset=0x1fc00000 size=2", same},
	{"blackhole", "store of 8 bytes of configuration", []access{store(0, configs, 8, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: bar0: offset=0x1fc00000 size=8", same},
	{"blackhole", "store of a word of configuration, not aligned",
		[]access{store(0, configs+2, 4, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: bar0: misaligned offset=0x1fc00002", same},
	{"blackhole", "last configuration", []access{store(0, configs+12*210-4, 4, 0)}, "", same},
	{"blackhole", "strided multicast register", []access{store(0, configs+12*210, 4, 0)},
		"UnimplementedFunctionality: pci_mem_wr_cur: bar0: offset=0x1fc009d8 size=4", same},
	{"blackhole", "load of a configuration", []access{load(0, configs, 4)},
		"UnimplementedFunctionality: pci_mem_rd_cur: bar0: offset=0x1fc00000 size=4", same},
	{"blackhole", "load of a hole in BAR 0", []access{load(0, 202<<21, 4)},
		"UnimplementedFunctionality: pci_mem_rd_cur: bar0: offset=0x19400000 size=4", same},
	{"blackhole", "store to a hole in BAR 0", []access{store(0, 202<<21, 4, 0)},
		"UnimplementedFunctionality: pci_mem_wr_cur: bar0: offset=0x19400000 size=4", same},
	{"blackhole", "NIU of the PCIe tile", []access{load(0, 0x1fd04044, 4)}, "", same},
	{"blackhole", "BAR 2", []access{load(2, 0x1000, 4)}, "", same},
	{"blackhole", "BAR 2, not aligned", []access{load(2, 0x1002, 4)},
		"UnsupportedFunctionality: pci_mem_rd_cur: bar2: misaligned paddr=0x120001002", same},
	{"blackhole", "BAR 2, load of 1 byte", []access{load(2, 0x1000, 1)},
		"UnsupportedFunctionality: pci_mem_rd_cur: bar2: size=1", same},
	{"blackhole", "BAR 2, store of 1 byte", []access{store(2, 0x1000, 1, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: bar2: size=1", same},
	{"blackhole", "BAR 2, load of 2 bytes", []access{load(2, 0x1000, 2)},
		"UnsupportedFunctionality: pci_mem_rd_cur: bar2: size=2", same},
	{"blackhole", "BAR 2, store of 2 bytes", []access{store(2, 0x1000, 2, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: bar2: size=2", same},
	{"blackhole", "BAR 2, load of 8 bytes", []access{load(2, 0x1000, 8)},
		"UnsupportedFunctionality: pci_mem_rd_cur: bar2: size=8", same},
	{"blackhole", "BAR 2, store of 8 bytes", []access{store(2, 0x1000, 8, 0)},
		"UnsupportedFunctionality: pci_mem_wr_cur: bar2: size=8", same},
	{"blackhole", "BAR 2, no register", []access{load(2, 0, 4)},
		"UnimplementedFunctionality: pci_mem_rd_cur: bar2: offset=0x0 size=4", same},
}

// runAccesses makes the accesses up to the first one that fails. It returns the code of this access
// and the number of accesses before it.
func runAccesses(t *testing.T, d hal.Device, accesses []access) (hal.Code, int) {
	t.Helper()
	var bars [6]hal.Aperture
	for bar := range bars {
		size := min(d.Identity().BarSizes[bar], fbs.WindowSizeMax)
		if size == 0 {
			continue
		}
		a, err := d.Map(fbs.Window{Kind: gen.WindowKindBar, Bar: uint8(bar), Slot: fbs.AnySlot,
			Size: size})
		if err != nil {
			t.Fatal(err)
		}
		bars[bar] = a
	}
	for i, a := range accesses {
		code := hal.OK
		if a.store {
			code = bars[a.bar].Store(uint32(a.offset), a.width, a.value)
		} else {
			_, code = bars[a.bar].Load(uint32(a.offset), a.width)
		}
		if code != hal.OK {
			return code, i
		}
	}
	return hal.OK, len(accesses)
}

func TestSimulatorRefusesAccessesOfTheTable(t *testing.T) {
	for _, board := range []string{"wormhole", "blackhole"} {
		t.Run(board, func(t *testing.T) {
			library := vendorLibrary(t, board)
			for _, c := range refusalCases {
				if c.board == board {
					t.Run(c.name, func(t *testing.T) { t.Parallel(); c.check(t, library) })
				}
			}
		})
	}
}

// check makes the accesses of a case on the simulator.
func (c *refusalCase) check(t *testing.T, library string) {
	d := openDevice(t, library)
	code, before := runAccesses(t, d, c.accesses)
	switch {
	case c.refused == "" && code != hal.OK:
		t.Errorf("code %v, refusal %q, want success", code, d.Refusal())
	case c.refused != "" && code != hal.Refused:
		t.Errorf("code %v, want %v: %s", code, hal.Refused, c.refused)
	case c.refused != "" && before != len(c.accesses)-1:
		t.Errorf("access %d is refused, want the last one", before+1)
	case !strings.Contains(d.Refusal(), c.refused):
		t.Errorf("refusal %q, want %q", d.Refusal(), c.refused)
	}
}

// TestMockAgreesWithTheSimulator requires that the mock refuses at least the accesses that the
// simulator refuses.
func TestMockAgreesWithTheSimulator(t *testing.T) {
	for _, c := range refusalCases {
		t.Run(c.board+"/"+c.name, func(t *testing.T) {
			d := mock.New(chips.BoardByName(c.board))
			code, _ := runAccesses(t, d, c.accesses)
			want := hal.OK
			if c.refused != "" || c.mock == stricter {
				want = hal.Refused
			}
			if code != want {
				t.Errorf("code %v, want %v; the simulator's refusal is %q, the mock's %q", code,
					want, c.refused, d.Refusal())
			}
		})
	}
}
