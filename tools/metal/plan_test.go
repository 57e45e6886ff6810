package metal

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/fail"
)

func TestAllocationsNeverOverlap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	a := allocator{name: "L1", limit: span{0x22000, 0x40000}}
	var live []span
	full := 0
	for range 5000 {
		if len(live) > 0 && random.IntN(3) == 0 {
			i := random.IntN(len(live))
			a.release(live[i].first)
			live = slices.Delete(live, i, i+1)
			continue
		}
		size := uint64(1 + random.IntN(8192))
		var address uint64
		if fail.Try(func() { address = a.take(size, random.IntN(2) == 0) }) != nil {
			full++
			continue
		}
		got := span{address, address + size}
		if address%align != 0 || got.first < a.limit.first || got.end > a.limit.end {
			t.Fatalf("allocated %#x..%#x, want an aligned address within %#x..%#x", got.first,
				got.end, a.limit.first, a.limit.end)
		}
		for _, s := range live {
			if s.overlaps(got) {
				t.Fatalf("allocated %#x..%#x, which overlaps %#x..%#x", got.first, got.end,
					s.first, s.end)
			}
		}
		live = append(live, got)
	}
	if full == 0 {
		t.Error("memory was never full")
	}
	for _, s := range live {
		a.release(s.first)
	}
	if got := a.gaps(); !slices.Equal(got, []span{a.limit}) {
		t.Errorf("free after all releases: %v, want %v", got, a.limit)
	}
}

func TestAllocatorAllocatesFromEitherEnd(t *testing.T) {
	a := allocator{limit: span{0x1000, 0x2000}}
	for _, want := range []struct {
		up      bool
		address uint64
	}{{true, 0x1000}, {false, 0x1fc0}, {true, 0x1040}, {false, 0x1f80}} {
		if got := a.take(10, want.up); got != want.address {
			t.Errorf("allocated %#x, want %#x", got, want.address)
		}
	}
}

func TestRectanglesCoverEachCoreOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var cores []CoreCoord
		for y := range 10 {
			for x := range 8 {
				if random.IntN(4) > 0 {
					cores = append(cores, CoreCoord{x, y})
				}
			}
		}
		var covered []CoreCoord
		for _, r := range rectangles(cores) {
			for y := r.Start.Y; y <= r.End.Y; y++ {
				for x := r.Start.X; x <= r.End.X; x++ {
					covered = append(covered, CoreCoord{x, y})
				}
			}
		}
		slices.SortFunc(covered, compareCores)
		if !slices.Equal(cores, covered) {
			t.Fatalf("rectangles %v cover %v, want %v", rectangles(cores), covered, cores)
		}
	}
	if got := rectangles([]CoreCoord{{0, 0}, {1, 0}, {0, 1}, {1, 1}}); len(got) != 1 {
		t.Errorf("a square is covered by %v, want 1 rectangle", got)
	}
}

func TestTensixTilesAndCoresMapToEachOther(t *testing.T) {
	for _, b := range []*boards.Board{&boards.Wormhole, &boards.Blackhole} {
		g, tiles := newGrid(b), 0
		for y, row := range chips.ForBoard(b).Grid.Rows {
			for x := range row {
				if chips.TileKind(row[x]) != chips.Tensix {
					continue
				}
				tiles++
				c, ok := g.core(chips.Tile{X: uint8(x), Y: uint8(y)})
				back, found := chips.ForBoard(b).Grid.TileAt(g.tile(c).X, g.tile(c).Y)
				if !ok || !found || back != (chips.Tile{X: uint8(x), Y: uint8(y)}) {
					t.Errorf("%s: tile (%d,%d) is core %v, but this core is tile %v", b.Name, x, y,
						c, back)
				}
			}
		}
		if tiles != len(g.columns)*len(g.rows) {
			t.Errorf("%s has %d Tensix tiles, but %d columns and %d rows", b.Name, tiles,
				len(g.columns), len(g.rows))
		}
	}
}

func TestGlobalIDsDoNotWrap(t *testing.T) {
	if !built {
		return
	}
	d, err := CreateDevice(&boards.Wormhole, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.lastID = 1<<63 + 1<<32
	if err := LightMetalBeginCapture(d); err != nil {
		t.Fatal(err)
	}
	b, err := CreateBuffer(d, BufferConfig{Size: 64, PageSize: 64, Type: DRAM})
	if err != nil {
		t.Fatal(err)
	}
	if err := EnqueueWriteBuffer(d.CommandQueue(), b, make([]byte, 64), false); err != nil {
		t.Fatal(err)
	}
	binary, err := LightMetalEndCapture(d)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(binary.Image.Sequences[0].Commands[0].Data),
		fmt.Sprint("EnqueueWriteBuffer buffer ", uint64(1<<63+1<<32+1)); got != want {
		t.Errorf("the first mark of the image is %q, want %q", got, want)
	}
}

// TestMarksBeyondTheLimitAreIgnored adds more different marks than a stream accepts.
func TestMarksBeyondTheLimitAreIgnored(t *testing.T) {
	s := newStream()
	for i := range namesMax + 1000 {
		s.mark(fmt.Sprint(i))
	}
	if len(s.commands) != namesMax {
		t.Errorf("the stream has %d marks, want %d", len(s.commands), namesMax)
	}
}

func TestLargeTransfersAreSplitAtWindowEnds(t *testing.T) {
	d, _ := CreateDevice(&boards.Wormhole, nil)
	fixed := uint64(windowSize - 4096)
	b, err := CreateBuffer(d, BufferConfig{Size: 2*windowSize + 8192, PageSize: 2*windowSize + 8192,
		Type: DRAM, Address: &fixed})
	if err != nil {
		t.Fatal(err)
	}
	s := newStream()
	for _, r := range b.runs() {
		s.copyIn(unicast(r.tile), r.address, make([]byte, r.size))
	}
	var got []string
	for _, c := range s.commands {
		got = append(got, fmt.Sprintf("%#x/%#x+%#x", c.Value, c.Offset, len(c.Data)))
	}
	if want := "[0x0/0x0+0x0 0x0/0x1ff000+0x1000 0x200000/0x0+0x0 0x0/0x0+0x200000 " +
		"0x400000/0x0+0x0 0x0/0x0+0x200000 0x600000/0x0+0x0 " +
		"0x0/0x0+0x1000]"; fmt.Sprint(got) != want {
		t.Errorf("address/offset+size of the commands: %v, want %s", got, want)
	}
}

func TestJumpEncodesBothDirections(t *testing.T) {
	// riscv64-unknown-elf-as encodes jal x0, +0x4000; +0x800; -0x6000; +0x1fffc so.
	for _, test := range []struct{ from, to, want uint32 }{
		{0, 0x4000, 0x0000406f}, {0, 0x800, 0x0010006f}, {0x6000, 0, 0x800fa06f},
		{0, 0x1fffc, 0x7fd1f06f},
	} {
		if got := binary.LittleEndian.Uint32(jump(test.from, test.to).data); got != test.want {
			t.Errorf("jump from %#x to %#x is %#08x, want %#08x", test.from, test.to, got,
				test.want)
		}
	}
}

// TestCallsThatAreNotRecordedAllocateNothing measures in allocations what recording costs while no
// capture is in progress. BenchmarkCall measures it in time; compare with -tags nolightmetal.
func TestCallsThatAreNotRecordedAllocateNothing(t *testing.T) {
	d, b, data := newIdleDevice(t)
	calls := map[string]func() error{
		"Finish": func() error { return Finish(d.CommandQueue()) },
		"EnqueueWriteBuffer": func() error {
			return EnqueueWriteBuffer(d.CommandQueue(), b, data, false)
		},
		"EnqueueReadBuffer": func() error {
			return EnqueueReadBuffer(d.CommandQueue(), b, data, false)
		},
		"CompareToCapture": func() error {
			return LightMetalCompareToCapture(d.CommandQueue(), b, Exact())
		},
	}
	for name, call := range calls {
		if n := testing.AllocsPerRun(100, func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times per call, want 0", name, n)
		}
	}
}

// newIdleDevice returns a device without hardware on which no capture is in progress, a DRAM buffer
// of the device, and data of the buffer's size.
func newIdleDevice(t testing.TB) (*Device, *Buffer, []byte) {
	d, err := CreateDevice(&boards.Wormhole, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := CreateBuffer(d, BufferConfig{Size: 64, PageSize: 64, Type: DRAM})
	if err != nil {
		t.Fatal(err)
	}
	return d, b, make([]byte, 64)
}

func BenchmarkCall(b *testing.B) {
	d, buffer, data := newIdleDevice(b)
	b.Run("Finish", func(b *testing.B) {
		for range b.N {
			Finish(d.CommandQueue())
		}
	})
	b.Run("EnqueueWriteBuffer", func(b *testing.B) {
		for range b.N {
			EnqueueWriteBuffer(d.CommandQueue(), buffer, data, false)
		}
	})
	b.Run("record", func(b *testing.B) {
		for range b.N {
			d.record(Call{Name: "DeallocateBuffer", Buffer: buffer.id})
		}
	})
}

func TestChangingWordsDifferOrAreOverwritten(t *testing.T) {
	core := CoreCoord{}
	one := &launch{constant: map[CoreCoord][]block{core: {{0x100, words(1, 2, 3, 4)}}},
		zeroed: map[CoreCoord][]span{core: {{0x200, 0x208}}}}
	two := &launch{constant: map[CoreCoord][]block{core: {{0x104, words(2, 9)},
		{0x1fc, words(5, 6, 7, 8)}}}}
	changing := (&trace{launches: []*launch{one, two}}).changing(core)
	var got []uint64
	for address := uint64(0); address < 0x300; address += 4 {
		if changing[address] {
			got = append(got, address)
		}
	}
	if want := []uint64{0x108, 0x200, 0x204}; !slices.Equal(got, want) {
		t.Errorf("words that change are at %#x, want %#x", got, want)
	}
}

func TestCutFillsSmallGaps(t *testing.T) {
	b := block{0x100, words(0, 1, 2, 3, 4, 5, 6, 7)}
	wanted := func(address uint64) bool {
		return address == 0x104 || address == 0x10c ||
			address == 0x118
	}
	for _, test := range []struct {
		gap  int
		want string
	}{{0, "[{260 [1 0 0 0]} {268 [3 0 0 0]} {280 [6 0 0 0]}]"},
		{4, "[{260 [1 0 0 0 2 0 0 0 3 0 0 0]} {280 [6 0 0 0]}]"},
		{8, "[{260 [1 0 0 0 2 0 0 0 3 0 0 0 4 0 0 0 5 0 0 0 6 0 0 0]}]"}} {
		if got := fmt.Sprint(b.cut(test.gap, wanted)); got != test.want {
			t.Errorf("cut with gaps of up to %d bytes: %s, want %s", test.gap, got, test.want)
		}
	}
}

// TestCoresAreReleasedOnlyAfterStoresHaveArrived follows the commands of a write and a launch. A
// store to a tile is under way until a load from that tile returns. No core may be released while a
// store is under way.
func TestCoresAreReleasedOnlyAfterStoresHaveArrived(t *testing.T) {
	d, _ := CreateDevice(&boards.Wormhole, nil)
	b, err := CreateBuffer(d, BufferConfig{Size: 64 * 20, PageSize: 64, Type: DRAM})
	if err != nil {
		t.Fatal(err)
	}
	l := &launch{constant: map[CoreCoord][]block{}, state: map[CoreCoord]block{},
		processors: map[CoreCoord][]Processor{}, deadlineUs: 1}
	l.cores = d.cores(CoreRange{End: CoreCoord{2, 1}})
	for i, c := range l.cores {
		l.constant[c] = []block{{0, words(1)}, {0x100, words(uint32(i))}}
		l.state[c], l.processors[c] = block{stateBase, make([]byte, 32)}, []Processor{BRISC}
	}
	s := newStream()
	s.writeBuffer(b, make([]byte, 64*20))
	s.launch(&d.grid, l, l.all)
	underway, released := map[chips.Tile]bool{}, 0
	var aim [2][]chips.Tile
	for i, c := range s.commands {
		switch c.Opcode {
		case gen.OpcodePoint:
			target, _ := boards.UnpackTileRoute(c.Mask)
			aim[c.Window] = []chips.Tile{{X: target.X, Y: target.Y}}
			if cores, ok := d.aimed(target); ok {
				aim[c.Window] = d.tiles(cores)
			}
		case gen.OpcodeCopyIn:
			for _, tile := range aim[c.Window] {
				underway[tile] = true
			}
		case gen.OpcodeExpect: // the load that follows a fence
			delete(underway, aim[c.Window][0])
		case gen.OpcodeWrite:
			reset := &chips.ForBoard(d.board).Grid.TensixReset
			if c.Window == registers && c.Value != uint64(reset.Mask) {
				released += len(aim[c.Window])
				if len(underway) > 0 {
					t.Errorf("command %d releases cores while stores to %v are under way", i,
						underway)
				}
			}
		}
	}
	if released != 6 {
		t.Errorf("%d cores were released, want 6", released)
	}
}

func TestLaunchStoresTheNetworkOfEachKernel(t *testing.T) {
	d, _ := CreateDevice(&boards.Blackhole, nil)
	p, _ := CreateProgram(d)
	core := CoreCoord{}
	p.kernels = []*kernel{
		{cores: []CoreCoord{core}, processor: BRISC, noc: NOC0, image: &image{}},
		{cores: []CoreCoord{core}, processor: NCRISC, noc: NOC1, image: &image{}},
	}
	l := d.newLaunch(p)
	b := l.constant[core][len(l.constant[core])-1]
	if b.address != constantBase || binary.LittleEndian.Uint32(b.data) != 1 ||
		binary.LittleEndian.Uint32(b.data[4:]) != 1<<NCRISC ||
		binary.LittleEndian.Uint32(b.data[8:]) != 8 || len(b.data) != 12+4*8 {
		t.Errorf("the constants of the core are % x at %#x, want %d bytes at %#x that begin with "+
			"the words 1 (Blackhole), %#x (NoC 1 for NCRISC only), 8 (DRAM banks)", b.data,
			b.address, 12+4*8, constantBase, 1<<NCRISC)
	}
}
