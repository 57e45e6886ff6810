package chips

import (
	"fmt"
	"math/rand"
	"testing"

	"lightmetal/boards"
)

var boardsWithTLB = []*boards.Board{&boards.Wormhole, &boards.Blackhole}

// randomTarget returns a random route and address that a TLB window of group g can show.
func randomTarget(r *rand.Rand, l *boards.TLBLayout, g *boards.WindowGroup) (
	boards.TileRoute, uint64) {
	t := boards.TileRoute{
		X: uint8(r.Intn(64)), Y: uint8(r.Intn(64)), NoC: uint8(r.Intn(2)),
		Ordering:  boards.OrderingDefault + boards.Ordering(r.Intn(3)),
		Multicast: r.Intn(2) == 1,
	}
	if t.Multicast {
		t.XStart, t.YStart = uint8(r.Intn(64)), uint8(r.Intn(64))
	}
	channels := 1
	if l.FieldBits[boards.FieldUseStaticVC] != 0 {
		channels = 8
	}
	t.StaticVCPlusOne = uint8(r.Intn(channels + 1))
	return t, (r.Uint64() >> (64 - g.AddressBits)) * g.Size
}

func TestDecodeIsTheInverseOfEncode(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, b := range boardsWithTLB {
		for i := range b.TLB.Groups {
			g := &b.TLB.Groups[i]
			for range 20000 {
				target, address := randomTarget(r, b.TLB, g)
				w, ok := b.TLB.EncodeWindow(g, target, address)
				if !ok {
					t.Fatalf("%s: EncodeWindow rejects %+v %#x", b.Name, target, address)
				}
				gotTarget, gotAddress, ok := DecodeWindow(b.TLB, g, w)
				if !ok || gotTarget != target || gotAddress != address {
					t.Fatalf("%s: %+v %#x is encoded as %#x, which is decoded as %+v %#x, %v",
						b.Name, target, address, w, gotTarget, gotAddress, ok)
				}
			}
		}
	}
}

func FuzzEncodeIsTheInverseOfDecode(f *testing.F) {
	f.Add(uint8(2), uint64(0x40000410ff), uint64(0))
	f.Add(uint8(3), uint64(0x40800_000007fd), uint64(0x40))
	f.Add(uint8(4), uint64(0x18000fff_00000001), uint64(7))
	f.Fuzz(func(t *testing.T, group uint8, w0, w1 uint64) {
		b, i := &boards.Wormhole, int(group%5)
		if i >= len(b.TLB.Groups) {
			b, i = &boards.Blackhole, i-len(b.TLB.Groups)
		}
		g, w := &b.TLB.Groups[i], boards.WindowConfig{w0, w1}
		target, address, ok := DecodeWindow(b.TLB, g, w)
		if !ok {
			return
		}
		if again, ok := b.TLB.EncodeWindow(g, target, address); !ok || again != w {
			t.Fatalf("%s: %#x is decoded as %+v %#x, which is encoded as %#x, %v", b.Name, w,
				target, address, again, ok)
		}
	})
}

// The expected configurations are stores of real host software, recorded in testdata/captures.
func TestEncodeWindowMatchesRecordings(t *testing.T) {
	for _, c := range []struct {
		board   *boards.Board
		slot    int
		target  boards.TileRoute
		address uint64
		want    boards.WindowConfig
	}{
		{&boards.Wormhole, 166,
			boards.TileRoute{X: 1, Y: 1, Ordering: boards.OrderingStrict}, 0xff000000,
			boards.WindowConfig{0x40000410ff}},
		{&boards.Wormhole, 166, boards.TileRoute{X: 1, Y: 1, Ordering: boards.OrderingDefault}, 0,
			boards.WindowConfig{0x41000}},
		{&boards.Blackhole, 0,
			boards.TileRoute{X: 1, Y: 2, Ordering: boards.OrderingStrict}, 0xffa00000,
			boards.WindowConfig{0x40800_000007fd, 0x40}},
		{&boards.Blackhole, 0, boards.TileRoute{X: 1, Y: 2, Ordering: boards.OrderingDefault}, 0,
			boards.WindowConfig{0x40800_00000000}},
	} {
		t.Run(fmt.Sprint(c.board.Name, " ", c.slot, " ", c.address), func(t *testing.T) {
			l := c.board.TLB
			got, ok := l.EncodeWindow(l.GroupOf(c.slot), c.target, c.address)
			if !ok || got != c.want {
				t.Errorf("%s %+v %#x: want %#x, got %#x %v", c.board.Name, c.target, c.address,
					c.want,
					got, ok)
			}
		})
	}
}

func TestEncodeWindowRejectsWhatTheDeviceCannotExpress(t *testing.T) {
	plain := boards.TileRoute{X: 1, Y: 2, Ordering: boards.OrderingDefault}
	with := func(change func(*boards.TileRoute)) boards.TileRoute {
		t := plain
		change(&t)
		return t
	}
	for _, c := range []struct {
		name    string
		board   *boards.Board
		slot    int
		target  boards.TileRoute
		address uint64
		ok      bool
	}{
		{"nothing wrong", &boards.Wormhole, 0, plain, 0, true},
		{"address inside a window", &boards.Wormhole, 0, plain, 0x80000, false},
		{"address of 1 MiB in a 2 MiB window", &boards.Wormhole, 156, plain, 1 << 20, false},
		{"last address of Wormhole", &boards.Wormhole, 0, plain, 1<<36 - 1<<20, true},
		{"address past 36 bits", &boards.Wormhole, 0, plain, 1 << 36, false},
		{"last address of Blackhole", &boards.Blackhole, 0, plain, 1<<64 - 2<<20, true},
		{"ordering invalid", &boards.Wormhole, 0,
			with(func(t *boards.TileRoute) { t.Ordering = boards.OrderingInvalid }), 0, false},
		{"ordering past posted", &boards.Wormhole, 0,
			with(func(t *boards.TileRoute) { t.Ordering = boards.OrderingPosted + 1 }), 0, false},
		{"x past 6 bits", &boards.Wormhole, 0,
			with(func(t *boards.TileRoute) { t.X = 64 }), 0, false},
		{"y past 6 bits", &boards.Blackhole, 0, with(func(t *boards.TileRoute) { t.Y = 64 }), 0,
			false},
		{"start corner of a unicast", &boards.Wormhole, 0,
			with(func(t *boards.TileRoute) { t.XStart = 1 }), 0, false},
		{"start corner of a multicast", &boards.Wormhole, 0,
			with(func(t *boards.TileRoute) { t.XStart, t.Multicast = 1, true }), 0, true},
		{"start corner past 6 bits", &boards.Wormhole, 0,
			with(func(t *boards.TileRoute) { t.YStart, t.Multicast = 64, true }), 0, false},
		{"NoC 1", &boards.Wormhole, 0, with(func(t *boards.TileRoute) { t.NoC = 1 }), 0, true},
		{"NoC 2", &boards.Blackhole, 0, with(func(t *boards.TileRoute) { t.NoC = 2 }), 0, false},
		{"NoC 2 in one bit", &boards.Wormhole, 0, with(func(t *boards.TileRoute) { t.NoC = 2 }), 0,
			false},
		{"channel 0 in one bit", &boards.Wormhole, 0,
			with(func(t *boards.TileRoute) { t.StaticVCPlusOne = 1 }), 0, true},
		{"channel 1 in one bit", &boards.Wormhole, 0,
			with(func(t *boards.TileRoute) { t.StaticVCPlusOne = 2 }), 0, false},
		{"channel 7 in three bits", &boards.Blackhole, 0,
			with(func(t *boards.TileRoute) { t.StaticVCPlusOne = 8 }), 0, true},
		{"channel 8 in three bits", &boards.Blackhole, 0,
			with(func(t *boards.TileRoute) { t.StaticVCPlusOne = 9 }), 0, false},
		{"multicast through 4 GiB", &boards.Blackhole, 202,
			with(func(t *boards.TileRoute) { t.XStart, t.Multicast = 1, true }), 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.board.TLB
			_, ok := l.EncodeWindow(l.GroupOf(c.slot), c.target, c.address)
			if ok != c.ok {
				t.Errorf("%s: EncodeWindow accepts it: want %v, got %v", c.name, c.ok, ok)
			}
		})
	}
}

func TestDecodeRejectsReservedBits(t *testing.T) {
	for _, c := range []struct {
		name  string
		board *boards.Board
		slot  int
		w     boards.WindowConfig
		ok    bool
	}{
		{"all zero", &boards.Wormhole, 166, boards.WindowConfig{}, true},
		{"static channel", &boards.Wormhole, 166, boards.WindowConfig{1 << 41}, true},
		{"linked", &boards.Wormhole, 166, boards.WindowConfig{1 << 40}, false},
		{"ordering 3", &boards.Wormhole, 166, boards.WindowConfig{3 << 38}, false},
		{"start corner of a unicast", &boards.Wormhole, 166, boards.WindowConfig{1 << 24}, false},
		{"above the highest field", &boards.Wormhole, 166, boards.WindowConfig{1 << 42}, false},
		{"a second word", &boards.Wormhole, 166, boards.WindowConfig{0, 1}, false},
		{"all zero", &boards.Blackhole, 0, boards.WindowConfig{}, true},
		{"linked", &boards.Blackhole, 0, boards.WindowConfig{0, 1 << 8}, false},
		{"stream header", &boards.Blackhole, 0, boards.WindowConfig{0, 1 << 10}, false},
		{"a channel that is not used", &boards.Blackhole, 0, boards.WindowConfig{0, 1 << 11},
			false},
		{"a channel that is used", &boards.Blackhole, 0, boards.WindowConfig{0, 1<<11 | 1<<9},
			true},
		{"NoC 1", &boards.Blackhole, 0, boards.WindowConfig{0, 1 << 3}, true},
		// The field NoC has two bits, but there are only two NoCs.
		{"NoC 2", &boards.Blackhole, 0, boards.WindowConfig{0, 1 << 4}, false},
		{"above the highest field", &boards.Blackhole, 0, boards.WindowConfig{0, 1 << 14}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.board.TLB
			if _, _, ok := DecodeWindow(l, l.GroupOf(c.slot), c.w); ok != c.ok {
				t.Errorf("%s, %s: DecodeWindow accepts it: want %v, got %v", c.board.Name, c.name,
					c.ok, ok)
			}
		})
	}
}

// Sources of the expected numbers of bits: for Wormhole, TLBs.md in tt-isa-documentation,
// WormholeB0/PCIExpressTile; for Blackhole, blackhole.c in tt-kmd.
func TestFieldsOfAGroupFillItsConfiguration(t *testing.T) {
	for _, c := range []struct {
		board *boards.Board
		ends  []int
	}{
		{&boards.Wormhole, []int{46, 45, 42}},
		{&boards.Blackhole, []int{78, 67}},
	} {
		t.Run(c.board.Name, func(t *testing.T) {
			l := c.board.TLB
			for i := range l.Groups {
				end := int(l.Groups[i].AddressBits)
				for _, bits := range l.FieldBits {
					end += int(bits)
				}
				if end != c.ends[i] || end > 8*int(l.ConfigStride) {
					t.Errorf("%s: a configuration of group %d has %d bits, want %d", c.board.Name,
						i, end, c.ends[i])
				}
			}
		})
	}
}

func TestWindowsOfABoardAreContiguous(t *testing.T) {
	for _, b := range boardsWithTLB {
		next := 0
		for i := range b.TLB.Groups {
			g := &b.TLB.Groups[i]
			if g.First != next {
				t.Errorf("%s: group %d begins with window %d, want %d", b.Name, i, g.First, next)
			}
			next += g.Count
			for slot := g.First; slot < next; slot++ {
				start := g.WindowOffset(slot)
				if start%g.Size != 0 || b.FindRule(g.Bar, start, g.Size) == nil {
					t.Errorf("%s: window %d at %#x is misaligned, or outside the range of its rule",
						b.Name, slot, start)
				}
				for _, offset := range []uint64{0, g.Size - 1} {
					got, inside, ok := SlotAt(b.TLB, g.Bar, start+offset)
					if !ok || got != slot || inside != offset {
						t.Errorf("%s: BAR %d + %#x is in window %d + %#x, %v; want window %d + %#x",
							b.Name, g.Bar, start+offset, got, inside, ok, slot, offset)
					}
				}
				register := b.TLB.ConfigOffset + uint64(slot)*b.TLB.ConfigStride
				for _, offset := range []uint64{0, b.TLB.ConfigStride - 1} {
					got, inside, ok := SlotOfRegister(b.TLB, b.TLB.ConfigBar, register+offset)
					if !ok || got != slot || inside != offset || b.TLB.GroupOf(slot) != g {
						t.Errorf("%s: register %#x + %#x belongs to window %d + %#x, %v; want "+
							"window %d", b.Name, register, offset, got, inside, ok, slot)
					}
				}
				if b.FindRule(b.TLB.ConfigBar, register, b.TLB.ConfigStride) == nil {
					t.Errorf("%s: the registers of window %d cannot be stored to", b.Name, slot)
				}
			}
		}
		last := b.TLB.Groups[len(b.TLB.Groups)-1]
		if _, _, ok := SlotAt(b.TLB, last.Bar, last.WindowOffset(next)); ok {
			t.Errorf("%s: found a TLB window after the last one", b.Name)
		}
		if _, _, ok := SlotAt(b.TLB, 5, 0); ok {
			t.Errorf("%s: found a TLB window in BAR 5", b.Name)
		}
		if b.TLB.GroupOf(next) != nil || b.TLB.GroupOf(-1) != nil {
			t.Errorf("%s: found a group for the number after the last TLB window", b.Name)
		}
		if _, _, ok := SlotOfRegister(b.TLB, b.TLB.ConfigBar,
			b.TLB.ConfigOffset+uint64(next)*b.TLB.ConfigStride); ok {
			t.Errorf("%s: found a register after those of the last TLB window", b.Name)
		}
		if _, _, ok := SlotOfRegister(b.TLB, b.TLB.ConfigBar, b.TLB.ConfigOffset-1); ok {
			t.Errorf("%s: found a register before those of the first TLB window", b.Name)
		}
		if _, _, ok := SlotOfRegister(b.TLB, b.TLB.ConfigBar+1, b.TLB.ConfigOffset); ok {
			t.Errorf("%s: found a register of a TLB window in another BAR", b.Name)
		}
	}
}

func TestKernelDriverOwnsTheLastLargeWindow(t *testing.T) {
	for _, c := range []struct {
		board *boards.Board
		slot  int
		want  bool
	}{
		{&boards.Wormhole, 0, false}, {&boards.Wormhole, 166, false},
		{&boards.Wormhole, 184, false}, {&boards.Wormhole, 185, true},
		{&boards.Blackhole, 0, false}, {&boards.Blackhole, 200, false},
		{&boards.Blackhole, 201, true}, {&boards.Blackhole, 202, false},
		{&boards.Blackhole, 209, false},
	} {
		t.Run(fmt.Sprint(c.board.Name, " ", c.slot), func(t *testing.T) {
			if got := c.board.TLB.GroupOf(c.slot).IsOwnedByKernel(c.slot); got != c.want {
				t.Errorf("%s: IsOwnedByKernel(%d) = %v, want %v", c.board.Name, c.slot, got, c.want)
			}
		})
	}
}
