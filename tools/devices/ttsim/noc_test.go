package ttsim

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// The tests of this file use the network interfaces (NIUs) of Tensix tiles, both on hal/mock and on
// the vendor's simulator.

const (
	// Addresses in L1, and the value of the flag when a kernel is done:
	// testdata/kernels/README.md.
	nocFlag, nocArgs = 0x10000, 0x10010
	nocDone          = 0x600df00d

	// Values of SOFT_RESET_0: all cores of the tile in reset, and all except BRISC.
	allInReset    = 0x47800
	briscReleased = 0x47000
)

// tileWindow accesses the tiles of a device through one TLB window.
type tileWindow struct {
	*testing.T
	hal.Device
	window hal.Aperture
}

// refusalReporter is implemented by both kinds of device. Refusal returns why the device refused
// an access.
type refusalReporter interface{ Refusal() string }

// newTileWindow maps a TLB window of 2 MiB.
func newTileWindow(t *testing.T, d hal.Device) *tileWindow {
	t.Helper()
	window, err := d.Map(tlbWindow(2<<20, fbs.AnySlot))
	if err != nil {
		t.Fatal(err)
	}
	return &tileWindow{t, d, window}
}

// deviceTest is a test that runs on several devices.
type deviceTest func(t *testing.T, board string, d hal.Device)

// runOnEachDevice runs a test on the mock of each board, and on the simulator of each board if the
// environment names it.
func runOnEachDevice(t *testing.T, test deviceTest) {
	for _, board := range []string{"wormhole", "blackhole"} {
		runOnDevicesOf(t, board, test)
	}
}

// runOnDevicesOf runs a test on the mock of a board, and on its simulator if the environment names
// it.
func runOnDevicesOf(t *testing.T, board string, test deviceTest) {
	t.Run(board+"/mock", func(t *testing.T) {
		test(t, board, mock.New(chips.BoardByName(board)))
	})
	t.Run(board+"/ttsim", func(t *testing.T) {
		test(t, board, openDevice(t, vendorLibrary(t, board)))
	})
}

// requireOK ends the test if a step failed.
func (d *tileWindow) requireOK(step string, code hal.Code) {
	d.Helper()
	if code != hal.OK {
		d.Fatalf("%s: code %v, refusal %q", step, code, d.Device.(refusalReporter).Refusal())
	}
}

// pointAt points the window at an address of a tile, and returns the offset of the address in the
// window.
func (d *tileWindow) pointAt(tile chips.Tile, address uint64) uint64 {
	d.Helper()
	offset := address % (2 << 20)
	d.requireOK("point", d.ProgramWindow(&d.window, unicast(tile.X, tile.Y), address-offset))
	return offset
}

// write copies data to an address of a tile.
func (d *tileWindow) write(tile chips.Tile, address uint64, data []byte) {
	d.Helper()
	offset := d.pointAt(tile, address)
	d.requireOK("write", mock.CopyAt(&d.window, gen.OpcodeCopyIn, offset, 4, gen.AccessExact, data))
}

// read returns data at an address of a tile.
func (d *tileWindow) read(tile chips.Tile, address uint64, size int) []byte {
	d.Helper()
	data := make([]byte, size)
	offset := d.pointAt(tile, address)
	d.requireOK("read", mock.CopyAt(&d.window, gen.OpcodeCopyOut, offset, 4, gen.AccessExact, data))
	return data
}

// readNoCKernel returns the program of a kernel that is built for a board.
func readNoCKernel(t *testing.T, name, board string) []byte {
	t.Helper()
	return readKernel(t, name+map[string]string{"wormhole": "_wh", "blackhole": "_bh"}[board])
}

// readKernel returns the program of a kernel in testdata/kernels.
func readKernel(t *testing.T, name string) []byte {
	t.Helper()
	f, err := elf.Open("../../../testdata/kernels/" + name + ".elf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			program, err := io.ReadAll(p.Open())
			if err != nil {
				t.Fatal(err)
			}
			return program
		}
	}
	t.Fatalf("%s.elf has no segment PT_LOAD", name)
	return nil
}

// startKernel writes a kernel and its arguments to a tile, and releases BRISC.
func (d *tileWindow) startKernel(tile chips.Tile, program []byte, args ...uint32) {
	d.Helper()
	d.write(tile, softReset0, words(allInReset))
	d.write(tile, 0, program)
	d.write(tile, nocArgs, words(args...))
	d.write(tile, nocFlag, words(0))
	d.write(tile, softReset0, words(briscReleased))
}

// waitForKernel polls the flag of a kernel.
func (d *tileWindow) waitForKernel(tile chips.Tile) {
	d.Helper()
	at := d.pointAt(tile, nocFlag)
	for range 10_000 {
		v, code := mock.LoadAt(&d.window, uint32(at), 4)
		d.requireOK("poll", code)
		if v == nocDone {
			return
		}
	}
	d.Fatalf("the kernel on tile %v does not end", tile)
}

// coordinate returns the coordinate of a tile in the encoding of a command buffer.
func coordinate(x, y uint32) uint32 { return x | y<<6 }

// nocCoordinates are the coordinates of one DRAM tile and two Tensix tiles on each NoC.
var nocCoordinates = map[string][2]struct{ dram, first, last uint32 }{
	"wormhole": {
		{coordinate(5, 2), coordinate(1, 1), coordinate(9, 11)},
		// NoC 1 counts from the other corner.
		{coordinate(4, 9), coordinate(8, 10), coordinate(0, 0)},
	},
	"blackhole": {
		{coordinate(17, 15), coordinate(1, 2), coordinate(16, 11)},
		{coordinate(17, 15), coordinate(1, 2), coordinate(16, 11)},
	},
}

func firstTensix(board string) chips.Tile {
	if board == "wormhole" {
		return chips.Tile{X: 1, Y: 1}
	}
	return chips.Tile{X: 1, Y: 2}
}

// randomBytes returns n bytes that depend on the seed only.
func randomBytes(seed uint64, n int) []byte {
	random := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

// TestKernelCopiesDRAM copies data to another address of the same bank, through each NoC. The size
// is larger than a packet and not a multiple of it.
func TestKernelCopiesDRAM(t *testing.T) {
	runOnEachDevice(t, func(t *testing.T, board string, d hal.Device) {
		dram := map[string]chips.Tile{"wormhole": {X: 5, Y: 2}, "blackhole": {X: 9, Y: 2}}[board]
		for noc, at := range nocCoordinates[board] {
			const source, target, size = 0x4000_0040, 0x30_0000, 40_004
			r := newTileWindow(t, d)
			data := randomBytes(uint64(noc), size)
			r.write(dram, source, data)
			r.startKernel(firstTensix(board), readNoCKernel(t, "noc_copy", board), uint32(noc),
				size, at.dram, source, at.dram, target, 0x20040, 20_032)
			r.waitForKernel(firstTensix(board))
			if got := r.read(dram, target, size); !bytes.Equal(got, data) {
				t.Errorf("NoC %d: the copy differs from the data from byte %d on", noc,
					firstDifference(got, data))
			}
		}
	})
}

// TestKernelGathersFromL1 copies data from two tiles. The sizes of the chunks are no multiples of
// 16.
func TestKernelGathersFromL1(t *testing.T) {
	runOnEachDevice(t, func(t *testing.T, board string, d hal.Device) {
		first, last := firstTensix(board), map[string]chips.Tile{"wormhole": {X: 9, Y: 11},
			"blackhole": {X: 16, Y: 11}}[board]
		for noc, at := range nocCoordinates[board] {
			const source, target, size = 0x30010, 0x48010, 17_008
			r := newTileWindow(t, d)
			firstData := randomBytes(uint64(2+noc), size)
			lastData := randomBytes(uint64(4+noc), size)
			r.write(first, source, firstData)
			r.write(last, source, lastData)
			r.startKernel(first, readNoCKernel(t, "noc_gather", board), uint32(noc), size, source,
				target, 2, at.first, at.last)
			r.waitForKernel(first)
			got := r.read(first, target, 2*size)
			if !bytes.Equal(got, append(firstData, lastData...)) {
				t.Errorf("NoC %d: the copy differs from the data of both tiles", noc)
			}
		}
	})
}

// TestKernelsSynchronizeWithASemaphore runs a kernel on two workers and a master.
func TestKernelsSynchronizeWithASemaphore(t *testing.T) {
	runOnEachDevice(t, func(t *testing.T, board string, d hal.Device) {
		const semaphore, wordsAddress, total, n = 0x18000, 0x20000, 0x19000, 60
		master := firstTensix(board)
		workers := map[string][]chips.Tile{"wormhole": {{X: 2, Y: 1}, {X: 9, Y: 11}},
			"blackhole": {{X: 2, Y: 2}, {X: 16, Y: 11}}}[board]
		for noc, at := range nocCoordinates[board] {
			neighbour := at.first + 1 // one to the right of the first
			if board == "wormhole" && noc == 1 {
				neighbour = at.first - 1
			}
			r, program, sum := newTileWindow(t, d), readNoCKernel(t, "noc_sem", board), uint32(0)
			for _, tile := range append(workers, master) {
				r.write(tile, semaphore, words(0, 0))
			}
			for i, worker := range append(workers, master) {
				if worker == master {
					r.startKernel(master, program, uint32(noc), semaphore, n, wordsAddress, 2,
						total, neighbour, at.last)
					continue
				}
				data := randomBytes(uint64(i), 4*n)
				for j := range n {
					sum += binary.LittleEndian.Uint32(data[4*j:])
				}
				r.write(worker, wordsAddress, data)
				r.startKernel(worker, program, uint32(noc), semaphore, n, wordsAddress, 0, at.first,
					wordsAddress+uint32(i)*4*n)
			}
			for _, worker := range append(workers, master) {
				r.waitForKernel(worker)
			}
			if got := r.read(master, total, 4); !bytes.Equal(got, words(sum)) {
				t.Errorf("NoC %d: total %x, want %x", noc, got, words(sum))
			}
		}
	})
}

// TestKernelStartsOtherTiles runs a kernel that writes a program to other tiles and releases their
// cores.
func TestKernelStartsOtherTiles(t *testing.T) {
	runOnEachDevice(t, func(t *testing.T, board string, d hal.Device) {
		const program = 0x20000
		first := firstTensix(board)
		for noc, at := range nocCoordinates[board] {
			r := newTileWindow(t, d)
			right, below := chips.Tile{X: first.X + 1, Y: first.Y},
				chips.Tile{X: first.X, Y: first.Y + 1}
			opposite := chips.Tile{X: first.X + 1, Y: first.Y + 1}
			step := uint32(1)
			if board == "wormhole" && noc == 1 {
				step = ^uint32(0)
			}
			start, end := at.first, at.first+step+step<<6
			if noc == 1 {
				start, end = end, start
			}
			sum := readKernel(t, "sum")
			r.write(first, program, sum)
			for _, tile := range []chips.Tile{right, below, opposite} {
				r.write(tile, softReset0, words(allInReset))
				r.write(tile, 0, words(0))
				r.write(tile, nocFlag, words(0))
				r.write(tile, nocArgs, words(2, 0x20000, 0x21000))
				r.write(tile, 0x20000, words(uint32(tile.X), uint32(tile.Y)))
			}
			r.startKernel(first, readNoCKernel(t, "noc_start", board), uint32(noc),
				uint32(len(sum)), program, start, end, 3,
				at.first+step, at.first+step<<6, at.first+step+step<<6)
			for _, tile := range []chips.Tile{first, right, below, opposite} {
				r.waitForKernel(tile)
			}
			for _, tile := range []chips.Tile{right, below, opposite} {
				if got := r.read(tile, 0x21000, 4); !bytes.Equal(got,
					words(uint32(tile.X)+uint32(tile.Y))) {
					t.Errorf("NoC %d: tile %v computed %x, want %d + %d", noc, tile, got, tile.X,
						tile.Y)
				}
			}
		}
	})
}

// Programs for BRISC, linked at 0.
var (
	// nocPoke stores values to addresses. The list at 0x1000 has pairs of an address and a value.
	// Address 0 ends the list.
	nocPoke = []uint32{
		0x000012b7, //    lui t0,0x1
		0x0002a383, // 1: lw t2,0(t0)
		0x00038a63, //    beqz t2,2f
		0x0042ae03, //    lw t3,4(t0)
		0x01c3a023, //    sw t3,0(t2)
		0x00828293, //    addi t0,t0,8
		0xfedff06f, //    j 1b
		0x0000006f, // 2: j 2b
	}
	// nocPeek loads a word from each address of the list at 0x1000, and stores the words at 0x2000.
	// Address 0 ends the list.
	nocPeek = []uint32{
		0x000012b7, //    lui t0,0x1
		0x00002337, //    lui t1,0x2
		0x0002a383, // 1: lw t2,0(t0)
		0x00038c63, //    beqz t2,2f
		0x0003ae03, //    lw t3,0(t2)
		0x01c32023, //    sw t3,0(t1)
		0x00428293, //    addi t0,t0,4
		0x00430313, //    addi t1,t1,4
		0xfe9ff06f, //    j 1b
		0x0000006f, // 2: j 2b
	}
)

// niuLayout has the offsets of registers of a board's network interfaces, and the distance
// (stride) of their command buffers. If wide is set, the upper half of an address and the
// coordinate are in separate registers.
type niuLayout struct {
	stride, atData, cmdCtrl, nodeID, logicalID uint32
	wide                                       bool
}

var niuLayouts = map[string]*niuLayout{
	"wormhole": {stride: 0x400, atData: 0x24, cmdCtrl: 0x28, nodeID: 0x2c, logicalID: 0x138},
	"blackhole": {stride: 0x800, atData: 0x28, cmdCtrl: 0x40, nodeID: 0x44, logicalID: 0x148,
		wide: true},
}

// addresses returns the addresses of all registers that can be loaded, of both NoCs.
func (l *niuLayout) addresses() (list []uint32) {
	offsets := []uint32{l.nodeID, l.logicalID, 0x100, 0x104, 0x108, 0x10c, 0x110, 0x200, 0x204,
		0x208, 0x21c, 0x228, 0x22c}
	for i := range uint32(16) {
		offsets = append(offsets, 0x240+4*i, 0x280+4*i)
	}
	if !l.wide {
		for i := range uint32(8) {
			offsets = append(offsets, 0x118+4*i)
		}
	}
	for buffer := range uint32(4) {
		for _, r := range []uint32{0, 4, 0xc, 0x10, 0x18, 0x1c, 0x20, l.atData, l.cmdCtrl} {
			offsets = append(offsets, buffer*l.stride+r)
		}
		if l.wide {
			offsets = append(offsets, buffer*l.stride+8, buffer*l.stride+0x14)
		}
	}
	for noc := range uint32(2) {
		for _, o := range offsets {
			list = append(list, niu0+noc<<16+o)
		}
	}
	return list
}

const niu0 = 0xffb20000

// nocRequest has the values that are stored to a command buffer.
type nocRequest struct {
	noc, buffer  uint32
	ctrl, length uint32
	targ, ret    uint32 // coordinates
	targAddress  uint64
	retAddress   uint64
	data, tag    uint32
	router       uint32 // ROUTER_CFG_1; 0: it is not stored
	cmd          uint32 // NOC_CMD_CTRL minus 1
}

// stores returns the list for nocPoke that makes the request.
func (q *nocRequest) stores(l *niuLayout) (list []uint32) {
	niu := niu0 + q.noc<<16
	store := func(offset, value uint32) { list = append(list, niu+q.buffer*l.stride+offset, value) }
	storeEndpoint := func(offset, coordinate uint32, address uint64) {
		store(offset, uint32(address))
		if l.wide {
			store(offset+4, uint32(address>>32))
			store(offset+8, coordinate)
			return
		}
		store(offset+4, uint32(address>>32)&0xf|coordinate<<4)
	}
	if q.router != 0 {
		list = append(list, niu+0x108, q.router)
	}
	storeEndpoint(0, q.targ, q.targAddress)
	storeEndpoint(0xc, q.ret, q.retAddress)
	store(0x18, q.tag)
	store(0x1c, q.ctrl)
	store(0x20, q.length)
	store(l.atData, q.data)
	store(l.cmdCtrl, q.cmd+1)
	return append(list, 0)
}

// The range of memory that requests of these tests may change: in the tile that makes the request,
// in its neighbour to the right, and in DRAM.
const nocMemory, nocMemorySize = 0x20000, 0x200

var nocDRAM = map[string]chips.Tile{"wormhole": {X: 5, Y: 2}, "blackhole": {X: 9, Y: 2}}

// executeStores makes BRISC execute a list of stores. It returns the memory that requests may
// change and the registers afterwards, or refused if the device refused a store.
func (d *tileWindow) executeStores(board string, list []uint32) (image []byte, refused bool) {
	d.Helper()
	first := firstTensix(board)
	tiles := []chips.Tile{first, {X: first.X + 1, Y: first.Y}, nocDRAM[board]}
	for i, tile := range tiles {
		d.write(tile, nocMemory, randomBytes(uint64(i), nocMemorySize))
	}
	d.runProgram(first, nocPoke, list)
	if d.hasStopped(first) {
		return nil, true
	}
	for _, tile := range tiles {
		image = append(image, d.read(tile, nocMemory, nocMemorySize)...)
	}
	addresses := niuLayouts[board].addresses()
	d.runProgram(first, nocPeek, append(addresses, 0))
	return append(image, d.read(first, 0x2000, 4*len(addresses))...), false
}

// runProgram runs a program with a list at 0x1000 on BRISC.
func (d *tileWindow) runProgram(tile chips.Tile, program, list []uint32) {
	d.Helper()
	d.write(tile, softReset0, words(allInReset))
	d.write(tile, 0, words(program...))
	d.write(tile, 0x1000, words(list...))
	d.write(tile, softReset0, words(briscReleased))
	d.Sleep(30_000)
}

// hasStopped reports whether a core of the tile has stopped because of a fault.
func (d *tileWindow) hasStopped(tile chips.Tile) bool {
	if d.ProgramWindow(&d.window, unicast(tile.X, tile.Y), 0) != hal.OK {
		return true // the simulator has ended
	}
	_, code := mock.LoadAt(&d.window, 0, 4)
	return code == hal.Refused
}

// NOC_CTRL of each kind of request.
const (
	nocRead      = 0x10
	nocWrite     = 0x12
	nocInline    = 0x1a
	nocAtomic    = 0x11
	nocMulticast = 0x132
)

// acceptedRequest returns a request that the device accepts. The first Tensix tile makes it. The
// other end is the tile to the right, or DRAM for a read.
func acceptedRequest(board string, noc, ctrl uint32) nocRequest {
	at := nocCoordinates[board][noc]
	neighbour := at.first + 1
	if board == "wormhole" && noc == 1 {
		neighbour = at.first - 1
	}
	q := nocRequest{noc: noc, ctrl: ctrl, length: 64, targ: at.first, ret: neighbour,
		targAddress: nocMemory + 0x40, retAddress: nocMemory + 0x80, data: 0x01020304}
	switch ctrl {
	case nocRead:
		q.targ, q.ret = at.dram, at.first
	case nocAtomic:
		q.targ, q.ret, q.length = neighbour, at.first, 0x107c
	case nocInline:
		q.targ, q.ret, q.length, q.targAddress = neighbour, at.first, 0xf, softReset0
		q.data = allInReset
	case nocMulticast:
		q.ret = neighbour | at.first<<12
		if noc == 1 {
			q.ret = at.first | neighbour<<12
		}
	}
	return q
}

// nocCase is a request that changes something of an accepted request.
type nocCase struct {
	name    string
	ctrl    uint32
	change  func(q *nocRequest)
	refused string // part of the simulator's message; empty: it accepts the request
	only    string // the only board of this case; empty: both boards
}

const l1CommonSize = 1464 << 10 // bytes of L1 that both boards have

// nocCases are requests on NoC 0.
var nocCases = []nocCase{
	{"read", nocRead, func(q *nocRequest) {}, "", ""},
	{"write", nocWrite, func(q *nocRequest) {}, "", ""},
	{"inline write of a register", nocInline, func(q *nocRequest) {}, "", ""},
	{"atomic", nocAtomic, func(q *nocRequest) {}, "", ""},
	{"multicast", nocMulticast, func(q *nocRequest) {}, "", ""},

	{"NOC_CMD_CTRL = 2", nocRead, func(q *nocRequest) { q.cmd = 1 },
		"noc_regs_wr32: noc_cmd_ctrl[0] data=0x2", ""},
	{"NOC_PACKET_TAG beyond the transaction id", nocRead, func(q *nocRequest) { q.tag = 1 << 9 },
		"noc_packet_tag=0x200", ""},
	{"transaction id", nocMulticast, func(q *nocRequest) { q.tag = 15 << 10; q.ctrl |= 1 << 17 },
		"", ""},
	{"byte enables", nocWrite, func(q *nocRequest) { q.ctrl |= 1 << 2 }, "byte enable writes", ""},
	{"linked", nocWrite, func(q *nocRequest) { q.ctrl |= 1 << 6 }, "", ""},
	{"static channel 5", nocWrite, func(q *nocRequest) { q.ctrl |= 1<<7 | 5<<13 }, "", ""},
	{"dropped answer", nocRead, func(q *nocRequest) { q.ctrl |= 1 << 9 }, "mem rd drop ack", ""},
	{"bit 10", nocRead, func(q *nocRequest) { q.ctrl |= 1 << 10 }, "noc_ctrl=0x410", ""},
	{"bit 16", nocRead, func(q *nocRequest) { q.ctrl |= 1 << 16 }, "noc_ctrl=0x10010", ""},
	{"bit 18", nocRead, func(q *nocRequest) { q.ctrl |= 1 << 18 }, "noc_ctrl=0x40010", ""},
	{"arbitration priority", nocRead, func(q *nocRequest) { q.ctrl |= 1 << 27 },
		"noc_ctrl=0x8000010", ""},
	{"accumulation in L1", nocRead, func(q *nocRequest) { q.ctrl |= 1 << 31 },
		"noc_ctrl=0x80000010", ""},
	{"path reservation", nocWrite, func(q *nocRequest) { q.ctrl |= 1 << 8 },
		"unicast must not use path reserve", ""},
	{"source inclusion", nocWrite, func(q *nocRequest) { q.ctrl |= 1 << 17 },
		"unicast must not use broadcast src_include", ""},
	{"posted read", nocRead, func(q *nocRequest) { q.ctrl = 0 }, "read should not be posted", ""},
	{"inline read", nocRead, func(q *nocRequest) { q.ctrl |= 1 << 3 }, "read should not be inline",
		""},
	{"atomic write", nocAtomic, func(q *nocRequest) { q.ctrl |= 1 << 1 },
		"atomic should be a read, not a write", ""},
	{"inline atomic", nocAtomic, func(q *nocRequest) { q.ctrl |= 1 << 3 }, "", ""},

	{"read from L1", nocRead, func(q *nocRequest) { q.targ = q.ret + 1 }, "", ""},
	{"read from own L1, overlapping", nocRead,
		func(q *nocRequest) { q.targ = q.ret; q.retAddress = q.targAddress }, "", ""},
	{"read of 0 bytes", nocRead, func(q *nocRequest) { q.length = 0 }, "read: noc_at_len_be=0", ""},
	{"read of a packet", nocRead, func(q *nocRequest) { q.length = 8192 }, "", ""},
	{"read of more than a packet", nocRead, func(q *nocRequest) { q.length = 8193 },
		"read: noc_at_len_be=8193", "wormhole"},
	{"read of a packet of 16 KiB", nocRead, func(q *nocRequest) { q.length = 16384 }, "",
		"blackhole"},
	{"read of more than a packet of 16 KiB", nocRead, func(q *nocRequest) { q.length = 16385 },
		"read: noc_at_len_be=16385", "blackhole"},
	{"read of 1 byte at the same offset", nocRead,
		func(q *nocRequest) { q.length = 1; q.targAddress += 0x43; q.retAddress += 3 }, "", ""},
	{"read of DRAM, offsets equal modulo 16 only", nocRead,
		func(q *nocRequest) { q.retAddress += 16 }, "read: alignment of src_addr", ""},
	{"read of DRAM, offsets equal modulo 32 only", nocRead,
		func(q *nocRequest) { q.retAddress += 32 }, "", "wormhole"},
	{"read of DRAM, offsets equal modulo 32 only", nocRead,
		func(q *nocRequest) { q.retAddress += 32 }, "read: alignment of src_addr", "blackhole"},
	{"read of L1, offsets equal modulo 16 only", nocRead,
		func(q *nocRequest) { q.targ = q.ret; q.retAddress += 16 }, "", ""},
	{"read of L1, offsets equal modulo 8 only", nocRead,
		func(q *nocRequest) { q.targ = q.ret; q.retAddress += 8 }, "read: alignment of src_addr",
		""},
	{"read to another tile", nocRead, func(q *nocRequest) { q.ret++ }, "read: dst_tile_id", ""},
	{"read to DRAM", nocRead, func(q *nocRequest) { q.ret = q.targ }, "read: dst_tile_type=D", ""},
	{"read past the end of DRAM", nocRead,
		func(q *nocRequest) { q.targAddress = 2<<30 - 32; q.retAddress += 32 }, "DRAM read overrun",
		"wormhole"},
	{"read past the end of DRAM", nocRead,
		func(q *nocRequest) { q.targAddress = 4<<30 - 64; q.length = 65 }, "DRAM read overrun",
		"blackhole"},
	{"read of the end of DRAM", nocRead, func(q *nocRequest) { q.targAddress = 2<<30 - 64 }, "",
		""},
	{"read to the end of L1 and beyond", nocRead,
		func(q *nocRequest) { q.retAddress = l1CommonSize - 64; q.length = 65 },
		"read: dst_addr=0x16dfc0", "wormhole"},
	{"read across the end of L1", nocRead,
		func(q *nocRequest) { q.targ = q.ret; q.targAddress = l1CommonSize - 16 },
		"access past end of tensix_sram", "wormhole"},
	{"read of a register", nocRead,
		func(q *nocRequest) { q.targ = q.ret; q.targAddress = softReset0; q.length = 4 }, "", ""},
	{"read of a register, offsets equal modulo 4 only", nocRead,
		func(q *nocRequest) {
			q.targ, q.targAddress = q.ret, softReset0
			q.retAddress += 4
			q.length = 4
		}, "", ""},
	{"read of half a register", nocRead,
		func(q *nocRequest) { q.targ = q.ret; q.targAddress = softReset0; q.length = 2 },
		"addr=0xffb121b0 size=2", ""},
	{"read of two registers", nocRead,
		func(q *nocRequest) { q.targ = q.ret; q.targAddress = softReset0; q.length = 8 },
		"read: noc_at_len_be=8", ""},
	{"read of a register, not aligned", nocRead,
		func(q *nocRequest) { q.targ = q.ret; q.targAddress = softReset0 + 2; q.length = 4 },
		"read: misaligned", ""},
	{"read of core-local RAM", nocRead,
		func(q *nocRequest) { q.targ = q.ret; q.targAddress = localRAM; q.length = 4 },
		"addr=0xffb00000", ""},
	{"read of Ethernet L1", nocRead, func(q *nocRequest) { q.targ = coordinate(1, 6) }, "",
		"wormhole"},
	{"read of Ethernet L1", nocRead, func(q *nocRequest) { q.targ = coordinate(20, 25) }, "",
		"blackhole"},
	{"read of CSM, a word", nocRead,
		func(q *nocRequest) {
			q.targ = coordinate(0, 10)
			q.targAddress = 0x8_1000_0000
			q.length = 4
		}, "", "wormhole"},
	{"read of CSM, two words", nocRead,
		func(q *nocRequest) {
			q.targ = coordinate(0, 10)
			q.targAddress = 0x8_1000_0000
			q.length = 8
		}, "read: noc_at_len_be=8", "wormhole"},
	{"read of CSM, a word across two", nocRead, func(q *nocRequest) {
		q.targ = coordinate(0, 10)
		q.targAddress = 0x8_1000_0002
		q.retAddress += 2
		q.length = 4
	}, "read: noc_at_len_be=4", "wormhole"},
	{"read of CSM", nocRead,
		func(q *nocRequest) { q.targ = coordinate(8, 0); q.targAddress = 0x1000_0000 }, "",
		"blackhole"},
	{"read of host memory", nocRead,
		func(q *nocRequest) { q.targ = coordinate(0, 3); q.targAddress = 0x8_0000_0000 },
		"host memory", "wormhole"},
	{"read of a router", nocRead, func(q *nocRequest) { q.targ = coordinate(0, 2) },
		"coord_to_tile: coord (0,2)", "wormhole"},
	{"read of an L2CPU tile", nocRead, func(q *nocRequest) { q.targ = coordinate(8, 3) },
		"coord_to_tile: coord (8,3)", "blackhole"},
	{"read of the second PCIe tile", nocRead, func(q *nocRequest) { q.targ = coordinate(11, 0) },
		"PCIE tile 1 access", "blackhole"},
	{"read from outside the grid", nocRead, func(q *nocRequest) { q.targ = coordinate(10, 1) },
		"invalid coordinate after virtualization 10,1", "wormhole"},
	{"read from outside the grid", nocRead, func(q *nocRequest) { q.targ = coordinate(17, 2) },
		"invalid coordinate (17,2)", "blackhole"},
	{"read of DRAM by a translated column", nocRead,
		func(q *nocRequest) { q.targ = coordinate(17, 2) },
		"invalid coordinate after virtualization 17,2", "wormhole"},
	{"read of DRAM by a translated row", nocRead,
		func(q *nocRequest) { q.targ = coordinate(5, 18) }, "", "wormhole"},
	{"read of DRAM by a plain coordinate of column 0", nocRead,
		func(q *nocRequest) { q.targ = coordinate(0, 5) }, "invalid coordinate (0,5)", "blackhole"},
	{"read of DRAM by a plain coordinate of column 9", nocRead,
		func(q *nocRequest) { q.targ = coordinate(9, 5) }, "", "blackhole"},
	{"read of DRAM by a plain coordinate of row 0", nocRead,
		func(q *nocRequest) { q.targ = coordinate(0, 0) }, "", ""},
	{"read of Tensix, translated", nocRead, func(q *nocRequest) { q.targ = coordinate(19, 18) }, "",
		"wormhole"},
	{"coordinate with a third number", nocRead, func(q *nocRequest) { q.targ |= 1 << 12 },
		"src_coordinate", ""},
	{"address of more than 36 bits", nocRead, func(q *nocRequest) { q.targAddress |= 1 << 60 },
		"DRAM read overrun", "blackhole"},
	{"destination of more than 32 bits", nocRead, func(q *nocRequest) { q.retAddress |= 1 << 32 },
		"read: dst_addr", ""},

	{"write to DRAM", nocWrite, func(q *nocRequest) { q.ret = coordinate(5, 2) }, "", "wormhole"},
	{"write to DRAM, offsets equal modulo 16 only", nocWrite,
		func(q *nocRequest) { q.ret = coordinate(17, 15); q.retAddress += 16 }, "", "blackhole"},
	{"posted write", nocWrite, func(q *nocRequest) { q.ctrl &^= 1 << 4 }, "", ""},
	{"write of 0 bytes", nocWrite, func(q *nocRequest) { q.length = 0 }, "write: noc_at_len_be=0",
		""},
	{"write of more than a packet", nocWrite, func(q *nocRequest) { q.length = 16385 },
		"write: noc_at_len_be=16385", ""},
	{"write, offsets equal modulo 8 only", nocWrite, func(q *nocRequest) { q.retAddress += 8 },
		"write: alignment of src_addr", ""},
	{"write from another tile", nocWrite, func(q *nocRequest) { q.targ++ }, "write: src_tile_id",
		""},
	{"write from beyond L1", nocWrite, func(q *nocRequest) { q.targAddress = 2 << 20 },
		"write: src_addr=0x200000", ""},
	{"write across the end of L1", nocWrite,
		func(q *nocRequest) { q.retAddress = l1CommonSize - 16 },
		"access past end of tensix_sram", "wormhole"},
	{"write past the end of DRAM", nocWrite,
		func(q *nocRequest) { q.ret = coordinate(0, 0); q.retAddress = 4<<30 - 32 },
		"DRAM write overrun", ""},
	{"write of a register", nocWrite,
		func(q *nocRequest) { q.retAddress = 0xffb20100; q.length = 4 }, "", ""},
	{"write of two registers", nocWrite,
		func(q *nocRequest) { q.retAddress = 0xffb20100; q.length = 8 }, "addr=0xffb20100", ""},
	{"write to an offset without a register", nocWrite,
		func(q *nocRequest) { q.retAddress = 0xffb20200; q.length = 4 },
		"noc_regs_wr32: offset=0x200", ""},

	{"inline write to L1", nocInline, func(q *nocRequest) {
		q.targAddress = nocMemory +
			0x44
		q.length = 0xf0
	}, "", "wormhole"},
	{"inline write to L1, enables counted from 32", nocInline,
		func(q *nocRequest) { q.targAddress = nocMemory + 0x54; q.length = 0xf0_0000 }, "",
		"wormhole"},
	{"inline write to L1", nocInline, func(q *nocRequest) {
		q.targAddress = nocMemory +
			0x44
		q.length = 0xf0
	}, "inline write to an L1 address is unsafe on Blackhole", "blackhole"},
	{"inline write of 2 bytes", nocInline,
		func(q *nocRequest) { q.targAddress = nocMemory; q.length = 3 },
		"inline write: noc_at_len_be=0x3", "wormhole"},
	{"inline write of nothing", nocInline,
		func(q *nocRequest) { q.targAddress = nocMemory; q.length = 0 },
		"inline write: noc_at_len_be=0x0", "wormhole"},
	{"inline write, enables of another word", nocInline,
		func(q *nocRequest) { q.targAddress = nocMemory + 4; q.length = 0xf },
		"inline write: src_addr=0x20004 shift=0", "wormhole"},
	{"inline write across words", nocInline, func(q *nocRequest) {
		q.targAddress = nocMemory +
			2
		q.length = 0x3c
	}, "inline write: noc_at_len_be=0x3c", "wormhole"},
	{"inline write of a register, enables of nothing", nocInline,
		func(q *nocRequest) { q.length = 0 }, "", ""},
	{"inline write of a register, not aligned", nocInline,
		func(q *nocRequest) { q.targAddress += 2 }, "inline write: misaligned", ""},
	{"inline write beyond L1", nocInline, func(q *nocRequest) { q.targAddress = 2 << 20 },
		"inline write: src_addr=0x200000", "wormhole"},
	{"inline write to DRAM", nocInline, func(q *nocRequest) { q.targ = coordinate(0, 0) },
		"inline write: src_tile_type=D", ""},
	{"inline write from another tile", nocInline, func(q *nocRequest) { q.ret++ },
		"inline write: dst_tile_id", ""},
	{"inline write, posted", nocInline, func(q *nocRequest) { q.ctrl &^= 1 << 4 }, "", ""},
	{"inline write of SOFT_RESET_0 = 1", nocInline, func(q *nocRequest) { q.data = 1 },
		"SOFT_RESET_0=0x1", ""},
	{"inline write to the interface of another tile", nocInline,
		func(q *nocRequest) { q.targAddress = 0xffb20000; q.data = 5 }, "", ""},

	{"inline write that starts an empty request", nocInline,
		func(q *nocRequest) { q.targAddress = 0xffb20028; q.data = 1 }, "read should not be posted",
		"wormhole"},
	{"inline write that starts an empty request", nocInline,
		func(q *nocRequest) { q.targAddress = 0xffb20040; q.data = 1 }, "read should not be posted",
		"blackhole"},

	{"atomic in own tile", nocAtomic, func(q *nocRequest) { q.targ = q.ret }, "", ""},
	{"atomic whose answer replaces its value", nocAtomic,
		func(q *nocRequest) { q.targ = q.ret; q.retAddress = q.targAddress }, "", ""},
	{"posted atomic", nocAtomic, func(q *nocRequest) { q.ctrl &^= 1 << 4 }, "", ""},
	{"atomic that wraps", nocAtomic, func(q *nocRequest) { q.data = 0xffff_ffff }, "", ""},
	{"atomic, answer at a multiple of 4", nocAtomic, func(q *nocRequest) { q.retAddress += 4 }, "",
		""},
	{"atomic, answer at a multiple of 2", nocAtomic, func(q *nocRequest) { q.retAddress += 2 },
		"atomic: misaligned dst_addr", ""},
	{"atomic at a multiple of 8", nocAtomic, func(q *nocRequest) { q.targAddress += 8 },
		"atomic: misaligned src_addr", ""},
	{"atomic of another kind", nocAtomic, func(q *nocRequest) { q.length = 0x207c },
		"atomic: noc_at_len_be=0x207c", ""},
	{"atomic in DRAM", nocAtomic, func(q *nocRequest) { q.targ = coordinate(0, 0) },
		"atomic: src_tile_type=D", ""},
	{"atomic with the answer to another tile", nocAtomic, func(q *nocRequest) { q.ret = q.targ },
		"atomic: dst_tile_id", ""},
	{"atomic beyond L1", nocAtomic, func(q *nocRequest) { q.targAddress = 2 << 20 },
		"addr=0x200000", ""},
	{"atomic with the answer beyond L1", nocAtomic, func(q *nocRequest) { q.retAddress = 2 << 20 },
		"atomic: dst_addr=0x200000", ""},

	{"multicast to the own tile too", nocMulticast, func(q *nocRequest) { q.ctrl |= 1 << 17 }, "",
		""},
	{"posted multicast", nocMulticast, func(q *nocRequest) { q.ctrl &^= 1 << 4 }, "", ""},
	{"multicast without path reservation", nocMulticast, func(q *nocRequest) { q.ctrl &^= 1 << 8 },
		"multicast must use path reserve", ""},
	{"multicast read", nocMulticast, func(q *nocRequest) { q.ctrl &^= 1 << 1 }, "multicast reads",
		""},
	{"multicast atomic", nocMulticast, func(q *nocRequest) { q.ctrl |= 1 }, "multicast atomics",
		""},
	{"multicast inline write", nocMulticast, func(q *nocRequest) { q.ctrl |= 1 << 3 },
		"multicast inline writes", ""},
	{"multicast around DRAM", nocMulticast, func(q *nocRequest) {
		q.ret = coordinate(6, 2) |
			coordinate(4, 1)<<12
	}, "", "wormhole"},
	{"multicast around DRAM", nocMulticast, func(q *nocRequest) {
		q.ret = coordinate(10, 3) |
			coordinate(7, 2)<<12
	}, "", "blackhole"},
	{"multicast from a corner without a tile", nocMulticast,
		func(q *nocRequest) { q.ret = coordinate(2, 2) | coordinate(0, 2)<<12 }, "", "wormhole"},
	{"multicast to everything", nocMulticast,
		func(q *nocRequest) { q.ret = coordinate(9, 11) | coordinate(0, 0)<<12 }, "", "wormhole"},
	{"multicast to the tile only that it leaves out", nocMulticast,
		func(q *nocRequest) { q.ret = q.targ | q.targ<<12 }, "", ""},
	{"multicast to a column that the router leaves out", nocMulticast,
		func(q *nocRequest) { q.router = 1<<2 | 0x321 }, "", ""},
	{"router that leaves no column out", nocMulticast, func(q *nocRequest) { q.router = 2 },
		"router_cfg_1=0x2", ""},
	{"multicast backwards", nocMulticast, func(q *nocRequest) { q.ret = q.targ | (q.targ+1)<<12 },
		"dst_start_x=2 dst_end_x=1", ""},
	{"multicast of SOFT_RESET_0", nocMulticast,
		func(q *nocRequest) { q.retAddress = softReset0; q.length = 4 }, "SOFT_RESET_0", ""},
	{"multicast of a register", nocMulticast,
		func(q *nocRequest) { q.retAddress = 0xffb20100; q.length = 4 }, "", ""},
	{"multicast of two registers", nocMulticast,
		func(q *nocRequest) { q.retAddress = 0xffb20100; q.length = 8 }, "multicast register write",
		""},
	{"multicast of two registers of no tile", nocMulticast,
		func(q *nocRequest) {
			q.ret = q.targ |
				q.targ<<12
			q.retAddress = 0xffb20100
			q.length = 8
		}, "multicast register write", ""},
	{"multicast, offsets equal modulo 8 only", nocMulticast,
		func(q *nocRequest) { q.retAddress += 8 }, "multicast: alignment", ""},
	{"multicast across the end of L1", nocMulticast,
		func(q *nocRequest) { q.retAddress = l1CommonSize - 16 }, "multicast: dst_addr",
		"wormhole"},
	{"multicast of 0 bytes", nocMulticast, func(q *nocRequest) { q.length = 0 },
		"multicast: noc_at_len_be=0", ""},
}

// runEachCase runs a test for each request of nocCases, on each board of the case.
func runEachCase(t *testing.T, test func(t *testing.T, board string, list []uint32, c *nocCase)) {
	for i := range nocCases {
		c := &nocCases[i]
		for _, board := range []string{"wormhole", "blackhole"} {
			if c.only == "" || c.only == board {
				q := acceptedRequest(board, 0, c.ctrl)
				c.change(&q)
				t.Run(board+"/"+c.name,
					func(t *testing.T) { test(t, board, q.stores(niuLayouts[board]), c) })
			}
		}
	}
}

// TestMockRefusesRequestsThatTheSimulatorRefuses also requires that the mock accepts all others.
func TestMockRefusesRequestsThatTheSimulatorRefuses(t *testing.T) {
	runEachCase(t, func(t *testing.T, board string, list []uint32, c *nocCase) {
		d := mock.New(chips.BoardByName(board))
		_, refused := newTileWindow(t, d).executeStores(board, list)
		if refused != (c.refused != "") {
			t.Errorf("the mock refused: %v, refusal %q; the simulator's refusal is %q", refused,
				d.Refusal(), c.refused)
		}
	})
}

// TestMockAndSimulatorExecuteRequestsAlike requires that both have the same memory and registers
// afterwards, including counters, or that both refuse the request.
func TestMockAndSimulatorExecuteRequestsAlike(t *testing.T) {
	runEachCase(t, func(t *testing.T, board string, list []uint32, c *nocCase) {
		simulator := openDevice(t, vendorLibrary(t, board))
		got, refused := newTileWindow(t, simulator).executeStores(board, list)
		if refused != (c.refused != "") || !strings.Contains(simulator.Refusal(), c.refused) {
			t.Fatalf("the simulator refused: %v, refusal %q, want %q", refused,
				simulator.Refusal(), c.refused)
		}
		want, _ := newTileWindow(t, mock.New(chips.BoardByName(board))).executeStores(board, list)
		if !bytes.Equal(got, want) {
			t.Errorf("the mock's memory or registers differ from byte %d on",
				firstDifference(got, want))
		}
	})
}

// firstDifference returns the index of the first byte that differs, or the shorter length.
func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// randomRequest returns a request that the simulator accepts often, but not always.
func randomRequest(random *rand.Rand, board string) nocRequest {
	kinds := []uint32{nocRead, nocWrite, nocInline, nocAtomic, nocMulticast}
	q := acceptedRequest(board, random.Uint32N(2), kinds[random.IntN(len(kinds))])
	q.buffer = random.Uint32N(4)
	q.tag = random.Uint32N(16) << 10
	oneIn := func(n int) bool { return random.IntN(n) == 0 }
	changeCoordinate := func(c uint32) uint32 {
		at := nocCoordinates[board][random.IntN(2)]
		switch random.IntN(8) {
		case 0:
			return at.dram
		case 1:
			return at.last
		case 2:
			return coordinate(random.Uint32N(32), random.Uint32N(32))
		case 3:
			return c ^ 1<<random.IntN(12)
		case 4:
			return at.first | coordinate(random.Uint32N(20), random.Uint32N(12))<<12
		}
		return c
	}
	offset := func() uint64 { return uint64(nocMemory + 4*random.IntN(64)) }
	if oneIn(3) {
		q.targ = changeCoordinate(q.targ)
	}
	if oneIn(3) {
		q.ret = changeCoordinate(q.ret)
	}
	if oneIn(3) {
		q.targAddress, q.retAddress = offset(), offset()
	}
	if oneIn(6) {
		registers := []uint64{softReset0, 0xffb20100, 0xffb30104, 0xffb20208, 0xffb1_2228,
			0xffb2_0000}
		q.targAddress = registers[random.IntN(len(registers))]
		q.length = 4
	}
	if oneIn(6) {
		q.ctrl ^= 1 << random.IntN(32)
	}
	if oneIn(4) {
		q.length = random.Uint32N(128)
	}
	return q
}

// TestMockAndSimulatorExecuteRandomRequestsAlike uses both NoCs and all command buffers. It ignores
// requests to Ethernet tiles that only the mock refuses, because the mock lacks their registers.
func TestMockAndSimulatorExecuteRandomRequestsAlike(t *testing.T) {
	for _, board := range []string{"wormhole", "blackhole"} {
		t.Run(board, func(t *testing.T) {
			library := vendorLibrary(t, board)
			random, accepted := rand.New(rand.NewPCG(7, 8)), 0
			for i := range 100 {
				q := randomRequest(random, board)
				list := q.stores(niuLayouts[board])
				simulator, d := openDevice(t, library), mock.New(chips.BoardByName(board))
				got, refused := newTileWindow(t, simulator).executeStores(board, list)
				want, mockRefused := newTileWindow(t, d).executeStores(board, list)
				simulator.Close()
				if !refused {
					accepted++
				}
				if !refused && strings.Contains(d.Refusal(), "the Ethernet tile") {
					continue
				}
				if refused != mockRefused || !bytes.Equal(got, want) {
					t.Errorf("request %d, %+v: the simulator's refusal %q, the mock's %q; "+
						"memory or registers differ from byte %d on",
						i, q, simulator.Refusal(), d.Refusal(), firstDifference(got, want))
				}
			}
			if accepted < 30 {
				t.Errorf("the simulator accepted %d of 100 requests, want at least 30", accepted)
			}
		})
	}
}
