package ttsim

import (
	"bytes"
	"debug/elf"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// What the network interfaces of Tensix tiles do, on hal/mock and on the
// vendor's simulator alike.

const (
	nocFlag, nocArgs = 0x10000, 0x10010 // testdata/kernels/README.md
	nocDone          = 0x600df00d
	nocHeld          = 0x47800
	nocReleased      = 0x47000 // BRISC
)

// tiles is a device and a window onto its tiles.
type tiles struct {
	*testing.T
	hal.Device
	window hal.Aperture
}

// named is what both kinds of device say beyond hal.Device.
type refuser interface{ Refusal() string }

func newTiles(t *testing.T, d hal.Device) *tiles {
	t.Helper()
	window, err := d.Map(tlbWindow(2<<20, fbs.NoSlot))
	if err != nil {
		t.Fatal(err)
	}
	return &tiles{t, d, window}
}

// eachDevice runs a test on the mock and, if the environment names it, on the
// simulator of each board.
func eachDevice(t *testing.T, test func(t *testing.T, board string, d hal.Device)) {
	for _, board := range []string{"wormhole", "blackhole"} {
		t.Run(board+"/mock", func(t *testing.T) { test(t, board, mock.New(boards.ByName(board))) })
		t.Run(board+"/ttsim", func(t *testing.T) { test(t, board, opened(t, vendors(t, board))) })
	}
}

func (d *tiles) must(what string, code hal.Code) {
	d.Helper()
	if code != hal.OK {
		d.Fatalf("%s: %v: %s", what, code, d.Device.(refuser).Refusal())
	}
}

// reach points the window at an address and gives its offset there.
func (d *tiles) reach(tile boards.Tile, address uint64) uint64 {
	d.Helper()
	inside := address % (2 << 20)
	d.must("point", d.Point(&d.window, unicast(tile.X, tile.Y), address-inside))
	return inside
}

func (d *tiles) write(tile boards.Tile, address uint64, data []byte) {
	d.Helper()
	d.must("write", d.window.CopyIn(d.reach(tile, address), 4, gen.AccessExact, data))
}

func (d *tiles) read(tile boards.Tile, address uint64, size int) []byte {
	d.Helper()
	data := make([]byte, size)
	d.must("read", d.window.CopyOut(d.reach(tile, address), 4, gen.AccessExact, data))
	return data
}

// nocKernel gives a kernel as it is built for a board.
func nocKernel(t *testing.T, name, board string) []byte {
	t.Helper()
	f, err := elf.Open("../../testdata/kernels/" + name + map[string]string{"wormhole": "_wh", "blackhole": "_bh"}[board] + ".elf")
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
	t.Fatalf("%s has nothing to load", name)
	return nil
}

// start loads a kernel with its arguments and lets it run.
func (d *tiles) start(tile boards.Tile, program []byte, args ...uint32) {
	d.Helper()
	d.write(tile, softReset0, words(nocHeld))
	d.write(tile, 0, program)
	d.write(tile, nocArgs, words(args...))
	d.write(tile, nocFlag, words(0))
	d.write(tile, softReset0, words(nocReleased))
}

// wait polls the flag of a kernel.
func (d *tiles) wait(tile boards.Tile) {
	d.Helper()
	at := d.reach(tile, nocFlag)
	for range 10_000 {
		v, code := d.window.Load(at, 4)
		d.must("poll", code)
		if v == nocDone {
			return
		}
	}
	d.Fatalf("the kernel on %v does not end", tile)
}

// coordinate of a tile as a command buffer takes it.
func coordinate(x, y uint32) uint32 { return x | y<<6 }

// nocPlaces are coordinates of one DRAM and two Tensix tiles on each NoC.
var nocPlaces = map[string][2]struct{ dram, first, last uint32 }{
	"wormhole": {
		{coordinate(5, 2), coordinate(1, 1), coordinate(9, 11)},
		{coordinate(4, 9), coordinate(8, 10), coordinate(0, 0)}, // from the other corner
	},
	"blackhole": {
		{coordinate(17, 15), coordinate(1, 2), coordinate(16, 11)},
		{coordinate(17, 15), coordinate(1, 2), coordinate(16, 11)},
	},
}

func firstTensix(board string) boards.Tile {
	if board == "wormhole" {
		return boards.Tile{X: 1, Y: 1}
	}
	return boards.Tile{X: 1, Y: 2}
}

func filled(seed uint64, n int) []byte {
	random := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

// TestKernelCopiesDRAM: more than a packet, not a multiple of one, by either
// NoC, on to another place of the same bank.
func TestKernelCopiesDRAM(t *testing.T) {
	eachDevice(t, func(t *testing.T, board string, d hal.Device) {
		dram := map[string]boards.Tile{"wormhole": {X: 5, Y: 2}, "blackhole": {X: 9, Y: 2}}[board]
		for noc, at := range nocPlaces[board] {
			const source, target, size = 0x4000_0040, 0x30_0000, 40_004
			r := newTiles(t, d)
			data := filled(uint64(noc), size)
			r.write(dram, source, data)
			r.start(firstTensix(board), nocKernel(t, "noc_copy", board), uint32(noc), size, at.dram, source, at.dram, target, 0x20040, 20_032)
			r.wait(firstTensix(board))
			if got := r.read(dram, target, size); !bytes.Equal(got, data) {
				t.Errorf("NoC %d: wrong copy", noc)
			}
		}
	})
}

// TestKernelGathersFromL1 of two tiles, in pieces that are no multiple of 16.
func TestKernelGathersFromL1(t *testing.T) {
	eachDevice(t, func(t *testing.T, board string, d hal.Device) {
		first, last := firstTensix(board), map[string]boards.Tile{"wormhole": {X: 9, Y: 11}, "blackhole": {X: 16, Y: 11}}[board]
		for noc, at := range nocPlaces[board] {
			const source, target, size = 0x30010, 0x48010, 17_008
			r := newTiles(t, d)
			near, far := filled(uint64(2+noc), size), filled(uint64(4+noc), size)
			r.write(first, source, near)
			r.write(last, source, far)
			r.start(first, nocKernel(t, "noc_gather", board), uint32(noc), size, source, target, 2, at.first, at.last)
			r.wait(first)
			if got := r.read(first, target, 2*size); !bytes.Equal(got, append(near, far...)) {
				t.Errorf("NoC %d: wrong copy", noc)
			}
		}
	})
}

// TestKernelsMeetAtASemaphore: two workers and a master.
func TestKernelsMeetAtASemaphore(t *testing.T) {
	eachDevice(t, func(t *testing.T, board string, d hal.Device) {
		const semaphore, words4, total, n = 0x18000, 0x20000, 0x19000, 60
		master := firstTensix(board)
		workers := map[string][]boards.Tile{"wormhole": {{X: 2, Y: 1}, {X: 9, Y: 11}}, "blackhole": {{X: 2, Y: 2}, {X: 16, Y: 11}}}[board]
		for noc, at := range nocPlaces[board] {
			neighbour := at.first + 1 // one to the right of the first
			if board == "wormhole" && noc == 1 {
				neighbour = at.first - 1
			}
			r, program, sum := newTiles(t, d), nocKernel(t, "noc_sem", board), uint32(0)
			for i, worker := range append(workers, master) {
				r.write(worker, semaphore, words(0, 0))
				if worker == master {
					r.start(master, program, uint32(noc), semaphore, n, words4, 2, total, neighbour, at.last)
					continue
				}
				data := filled(uint64(i), 4*n)
				for j := range n {
					sum += binary.LittleEndian.Uint32(data[4*j:])
				}
				r.write(worker, words4, data)
				r.start(worker, program, uint32(noc), semaphore, n, words4, 0, at.first, words4+uint32(i)*4*n)
			}
			for _, worker := range append(workers, master) {
				r.wait(worker)
			}
			if got := r.read(master, total, 4); !bytes.Equal(got, words(sum)) {
				t.Errorf("NoC %d: total %x, want %x", noc, got, words(sum))
			}
		}
	})
}

// TestKernelStartsOtherTiles: a program that runs because a tile has loaded it
// and released the core.
func TestKernelStartsOtherTiles(t *testing.T) {
	eachDevice(t, func(t *testing.T, board string, d hal.Device) {
		const program = 0x20000
		first := firstTensix(board)
		for noc, at := range nocPlaces[board] {
			r := newTiles(t, d)
			right, below := boards.Tile{X: first.X + 1, Y: first.Y}, boards.Tile{X: first.X, Y: first.Y + 1}
			opposite := boards.Tile{X: first.X + 1, Y: first.Y + 1}
			step := uint32(1)
			if board == "wormhole" && noc == 1 {
				step = ^uint32(0)
			}
			start, end := at.first, at.first+step+step<<6
			if noc == 1 {
				start, end = end, start
			}
			sum := kernelFile(t, "sum")
			r.write(first, program, sum)
			for _, tile := range []boards.Tile{right, below, opposite} {
				r.write(tile, softReset0, words(nocHeld))
				r.write(tile, 0, words(0))
				r.write(tile, nocFlag, words(0))
				r.write(tile, nocArgs, words(2, 0x20000, 0x21000))
				r.write(tile, 0x20000, words(uint32(tile.X), uint32(tile.Y)))
			}
			r.start(first, nocKernel(t, "noc_start", board), uint32(noc), uint32(len(sum)), program, start, end, 3,
				at.first+step, at.first+step<<6, at.first+step+step<<6)
			for _, tile := range []boards.Tile{first, right, below, opposite} {
				r.wait(tile)
			}
			for _, tile := range []boards.Tile{right, below, opposite} {
				if got := r.read(tile, 0x21000, 4); !bytes.Equal(got, words(uint32(tile.X)+uint32(tile.Y))) {
					t.Errorf("NoC %d: %v says %x", noc, tile, got)
				}
			}
		}
	})
}

// Programs for BRISC, linked at 0.
var (
	// nocPoke stores to the pairs of address and value from 0x1000 on. Address
	// 0 ends the list.
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
	// nocPeek copies the words that the addresses from 0x1000 on point at to
	// 0x2000 on. Address 0 ends the list.
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

// niuLayout is where the registers of a board's network interfaces are.
type niuLayout struct {
	stride, atData, cmdCtrl, nodeID, logicalID uint32
	wide                                       bool
	readable                                   []uint32 // offsets
}

var niuLayouts = map[string]*niuLayout{
	"wormhole":  {stride: 0x400, atData: 0x24, cmdCtrl: 0x28, nodeID: 0x2c, logicalID: 0x138},
	"blackhole": {stride: 0x800, atData: 0x28, cmdCtrl: 0x40, nodeID: 0x44, logicalID: 0x148, wide: true},
}

// addresses of all registers that can be loaded.
func (l *niuLayout) addresses() (list []uint32) {
	offsets := []uint32{l.nodeID, l.logicalID, 0x100, 0x104, 0x108, 0x10c, 0x110, 0x200, 0x204, 0x208, 0x21c, 0x228, 0x22c}
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

// nocRequest is what goes into a command buffer.
type nocRequest struct {
	noc, buffer          uint32
	ctrl, length         uint32
	targ, ret            uint32 // coordinates
	targAddress          uint64
	retAddress           uint64
	data, tag            uint32
	before, cmd, exclude uint32 // before: ROUTER_CFG_1, 0 leaves it
}

// list is the request as nocPoke takes it.
func (q *nocRequest) list(l *niuLayout) (list []uint32) {
	niu := niu0 + q.noc<<16
	store := func(offset, value uint32) { list = append(list, niu+q.buffer*l.stride+offset, value) }
	end := func(offset, coordinate uint32, address uint64) {
		store(offset, uint32(address))
		if l.wide {
			store(offset+4, uint32(address>>32))
			store(offset+8, coordinate)
			return
		}
		store(offset+4, uint32(address>>32)&0xf|coordinate<<4)
	}
	if q.before != 0 {
		list = append(list, niu+0x108, q.before)
	}
	end(0, q.targ, q.targAddress)
	end(0xc, q.ret, q.retAddress)
	store(0x18, q.tag)
	store(0x1c, q.ctrl)
	store(0x20, q.length)
	store(l.atData, q.data)
	store(l.cmdCtrl, q.cmd+1)
	return append(list, 0)
}

// memories are what requests in these tests may change: of the tile that makes
// them, its neighbour to the right, and DRAM.
const nocMemory, nocMemorySize = 0x20000, 0x200

var nocDRAM = map[string]boards.Tile{"wormhole": {X: 5, Y: 2}, "blackhole": {X: 9, Y: 2}}

// memory gives what is there after a list, and the registers; refused is why
// nothing is, if so.
func (d *tiles) after(board string, list []uint32) (image []byte, refused bool) {
	d.Helper()
	first := firstTensix(board)
	places := []boards.Tile{first, {X: first.X + 1, Y: first.Y}, nocDRAM[board]}
	for i, tile := range places {
		d.write(tile, nocMemory, filled(uint64(i), nocMemorySize))
	}
	d.run(first, nocPoke, list)
	if d.fails(first) {
		return nil, true
	}
	for _, tile := range places {
		image = append(image, d.read(tile, nocMemory, nocMemorySize)...)
	}
	addresses := niuLayouts[board].addresses()
	d.run(first, nocPeek, append(addresses, 0))
	return append(image, d.read(first, 0x2000, 4*len(addresses))...), false
}

func (d *tiles) run(tile boards.Tile, program, list []uint32) {
	d.Helper()
	d.write(tile, softReset0, words(nocHeld))
	d.write(tile, 0, words(program...))
	d.write(tile, 0x1000, words(list...))
	d.write(tile, softReset0, words(nocReleased))
	d.Sleep(30_000)
}

// fails tells whether a core of the tile has stopped.
func (d *tiles) fails(tile boards.Tile) bool {
	d.Helper()
	if d.Device.(refuser).Refusal() != "" {
		return true // the simulator has ended
	}
	at := firstOffset
	_, code := d.window.Load(at, 4)
	return code == hal.Refused
}
