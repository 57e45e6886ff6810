package mock

import (
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// newPlayback is PlaybackBytewise, but compares no byte separately.
func newPlayback(b *boards.Board, accesses []Access) *Device {
	p := &playback{last: map[Place]Access{}}
	p.expect(accesses)
	return NewWith(b, p)
}

// readRecording returns the accesses of a recording to BAR 0.
func readRecording(t *testing.T, name string) (accesses []Access) {
	t.Helper()
	for _, a := range readMmiotrace(t, name) {
		accesses = append(accesses, Access{a.op, Place{Address: a.offset}, a.width, a.value})
	}
	return accesses
}

// translateRecording returns the accesses of a recording as accesses of tiles.
func translateRecording(t *testing.T, b *boards.Board, name string) []Access {
	t.Helper()
	accesses, err := translate(b, readRecording(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return accesses
}

// translate returns the accesses that a Translator makes of a recording.
func translate(b *boards.Board, raw []Access) (list []Access, err error) {
	t := NewTranslator(b, func(a Access) { list = append(list, a) })
	for _, a := range raw {
		if err := t.Add(a); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func TestTranslateFindsTheTilesOfRecordings(t *testing.T) {
	for _, c := range []struct {
		board *boards.Board
		name  string
		y     uint8
	}{{&boards.Wormhole, "wh.twoop.mmiotrace", 1}, {&boards.Blackhole, "bh.twoop.mmiotrace", 2},
		{&boards.Wormhole, "wh.mlp.mmiotrace", 1}} {
		t.Run(c.name, func(t *testing.T) {
			accesses := translateRecording(t, c.board, c.name)
			reset := Place{Tile: true, X: 1, Y: c.y, Address: 0xffb121b0}
			first, last := accesses[0], accesses[len(accesses)-1]
			if first != (Access{Load, reset, 4, 0x47800}) ||
				last != (Access{Store, reset, 4, 0x47800}) {
				t.Errorf("%s: begins with %v and ends with %v, want a load and a store of %v",
					c.name, first, last, reset)
			}
			for _, a := range accesses {
				if !a.Place.Tile || a.Place.X != 1 || a.Place.Y != c.y {
					t.Errorf("%s: access %v is not of tile (1,%d)", c.name, a, c.y)
				}
			}
		})
	}
}

// The two recordings have the same program and data. After the translation, which removes TLB
// windows, and without the tile's row, they may differ only in the number of polls.
func TestTranslationsOfOneProgramOnTwoBoardsAgree(t *testing.T) {
	plain := func(b *boards.Board, name string) []Access {
		accesses := translateRecording(t, b, name)
		for i := range accesses {
			accesses[i].Place.Y = 0
		}
		return slices.Compact(accesses)
	}
	a, b := plain(&boards.Wormhole, "wh.twoop.mmiotrace"),
		plain(&boards.Blackhole, "bh.twoop.mmiotrace")
	if !slices.Equal(a, b) {
		t.Errorf("the %d accesses of Wormhole differ from the %d accesses of Blackhole", len(a),
			len(b))
	}
}

// replayThroughWindow makes the accesses through a TLB window with the given slot and size.
func replayThroughWindow(t *testing.T, d *Device, accesses []Access, slot uint16, size uint64) {
	t.Helper()
	a := mustMap(t, d, fbs.Window{Kind: gen.WindowKindTlb, Slot: slot, Size: size})
	for _, want := range accesses {
		inside := want.Place.Address % size
		target := fbs.TileRoute{X: want.Place.X, Y: want.Place.Y, Ordering: boards.OrderingPosted}
		requireOK(t, d, d.ProgramWindow(&a, target, want.Place.Address-inside))
		if want.Op == Store {
			store(t, d, &a, inside, want.Width, want.Value)
		} else {
			expect(t, d, &a, inside, want.Width, want.Value)
		}
	}
}

func TestPlaybackAcceptsTheSameAccessesThroughAnyWindow(t *testing.T) {
	for _, c := range []struct {
		board *boards.Board
		name  string
		slot  uint16
		size  uint64
	}{
		{&boards.Wormhole, "wh.twoop.mmiotrace", 166, 16 << 20},
		{&boards.Wormhole, "wh.twoop.mmiotrace", 3, 1 << 20},
		{&boards.Wormhole, "wh.mlp.mmiotrace", 160, 2 << 20},
		{&boards.Blackhole, "bh.twoop.mmiotrace", 0, 2 << 20},
		{&boards.Blackhole, "bh.twoop.mmiotrace", 205, 4 << 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			accesses := translateRecording(t, c.board, c.name)
			d := newPlayback(c.board, accesses)
			d.Record(true)
			if d.RemainingAccesses() < len(accesses)*8/10 {
				t.Errorf("%s: before the replay, %d of %d accesses remain", c.name,
					d.RemainingAccesses(), len(accesses))
			}
			replayThroughWindow(t, d, accesses, c.slot, c.size)
			if d.RemainingAccesses() != 0 {
				t.Errorf("%s: after the replay, %d accesses remain", c.name, d.RemainingAccesses())
			}
			if !slices.Equal(d.Journal(), accesses) {
				t.Errorf("%s: the journal differs from the accesses of the replay", c.name)
			}
		})
	}
}

// A playback also accepts the recorded stores to the configuration registers of windows.
func TestPlaybackAcceptsTheRecordingItself(t *testing.T) {
	raw := readRecording(t, "bh.twoop.mmiotrace")
	d := newPlayback(&boards.Blackhole,
		translateRecording(t, &boards.Blackhole, "bh.twoop.mmiotrace"))
	a := mapBAR(t, d, 0)
	for _, want := range raw {
		if want.Op == Store {
			store(t, d, &a, want.Place.Address, want.Width, want.Value)
		} else {
			expect(t, d, &a, want.Place.Address, want.Width, want.Value)
		}
	}
	if d.RemainingAccesses() != 0 {
		t.Errorf("after the replay, %d accesses remain", d.RemainingAccesses())
	}
}

func TestPlaybackRejectsEverythingElse(t *testing.T) {
	want := []Access{st(2, 0, 4, 1), ld(2, 8, 8), st(2, 16, 2, 3)}
	want[1].Value = 7
	for _, c := range []struct {
		name     string
		accesses []Access
		reason   string
		left     int
	}{
		{"another value", []Access{st(2, 0, 4, 2)},
			"expected access 1 of 3, a store of 4 bytes at BAR 2 + 0x0 = 0x1, but got a store of " +
				"4 bytes at BAR 2 + 0x0 = 0x2", 3},
		{"another width", []Access{st(2, 0, 8, 1)}, "got a store of 8 bytes", 3},
		{"another place", []Access{st(2, 4, 4, 1)}, "got a store of 4 bytes at BAR 2 + 0x4", 3},
		{"a load for a store", []Access{ld(2, 0, 4)},
			"expected access 1 of 3, a store of 4 bytes at BAR 2 + 0x0 = 0x1, but got a load of " +
				"4 bytes at BAR 2 + 0x0", 3},
		{"a store for a load", []Access{want[0], st(2, 8, 8, 7)},
			"expected access 2 of 3, a load of 8 bytes at BAR 2 + 0x8 = 0x7", 2},
		{"another width of a load", []Access{want[0], ld(2, 8, 4)}, "got a load of 4 bytes", 2},
		{"another place of a load", []Access{want[0], ld(2, 0, 8)},
			"got a load of 8 bytes at BAR 2 + 0x0", 2},
		{"out of order", []Access{want[0], want[2]},
			"expected access 2 of 3, a load of 8 bytes at BAR 2 + 0x8 = 0x7, but got a store of " +
				"2 bytes at BAR 2 + 0x10 = 0x3", 2},
		{"one store too many", append(slices.Clone(want), want[2]),
			"expected no access after the 3 recorded accesses", 0},
		{"one load too many", append(slices.Clone(want), want[1]),
			"expected no access after the 3 recorded accesses", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newPlayback(&boards.Ivshmem, want)
			last := len(c.accesses) - 1
			if code := accessBARs(d, c.accesses[:last]...); code != hal.OK {
				t.Fatalf("%s: an access before the last is rejected: %s", c.name, d.Refusal())
			}
			if code := accessBARs(d, c.accesses[last]); code != hal.Refused ||
				!strings.Contains(d.Refusal(), c.reason) {
				t.Errorf("%s: got %v, %q, want %v, %q", c.name, code, d.Refusal(), hal.Refused,
					c.reason)
			}
			if d.RemainingAccesses() != c.left {
				t.Errorf("%s: want %d remaining accesses, got %d", c.name, c.left,
					d.RemainingAccesses())
			}
		})
	}
}

func TestTranslateExpandsMulticastAndDropsConfiguration(t *testing.T) {
	got, err := translate(&boards.Wormhole, []Access{
		wh(2<<16 | 2<<22 | 1<<28 | 1<<34 | 1<<41), // (1,1) to (2,2)
		st(0, 0x10, 4, 5),
		wh(18<<16 | 18<<22), // (18,18) is (1,1)
		wh(18<<16 | 18<<22),
		ld(0, 0x10, 4),
		wh(7 << 22), // the DRAM tiles (0,7) and (0,5) have the same memory
		st(0, 0x20, 8, 6),
		st(2, 0x1200, 4, 7), // not in a TLB window
	})
	if err != nil {
		t.Fatal(err)
	}
	in := func(op Op, x, y uint8, address uint64, width uint8, value uint64) Access {
		return Access{op, Place{Tile: true, X: x, Y: y, Address: address}, width, value}
	}
	want := []Access{
		in(Store, 1, 1, 0x10, 4, 5), in(Store, 2, 1, 0x10, 4, 5), in(Store, 1, 2, 0x10, 4, 5),
		in(Store, 2, 2, 0x10, 4, 5),
		in(Load, 1, 1, 0x10, 4, 0),
		in(Store, 0, 5, 0x20, 8, 6),
		st(2, 0x1200, 4, 7),
	}
	if !slices.Equal(got, want) {
		t.Errorf("want %v\ngot %v", want, got)
	}
}

func TestTranslateRejectsWhatTheDeviceRejects(t *testing.T) {
	for _, c := range []struct {
		name     string
		accesses []Access
		reason   string
	}{
		{"bad access", []Access{ld(0, 0, 4)},
			"access 1: operation 1: load of 4 bytes at BAR 0 + 0x0: " +
				"TLB window 0 was not pointed at a tile"},
		{"tile", []Access{{Op: Load, Place: Place{Tile: true}, Width: 4}},
			"access 1 must be a load or store of a BAR"},
		{"no operation", []Access{{Width: 4}}, "must be a load or store"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := translate(&boards.Wormhole, c.accesses); err == nil ||
				!strings.Contains(err.Error(), c.reason) {
				t.Errorf("%s: Translate: %v, want %q", c.name, err, c.reason)
			}
		})
	}
}

func TestJournalIsOffByDefault(t *testing.T) {
	d := New(&boards.Edu)
	a := mapBAR(t, d, 0)
	store(t, d, &a, 4, 4, 1)
	d.Record(true)
	store(t, d, &a, 4, 4, 2)
	load(t, d, &a, 4, 4)
	accessBARs(d, ld(0, 0, 1)) // is rejected, therefore not in the journal
	d.Record(false)
	store(t, d, &a, 4, 4, 3)
	want := []Access{st(0, 4, 4, 2), {Load, Place{Address: 4}, 4, 0xfffffffd}}
	if !slices.Equal(d.Journal(), want) {
		t.Errorf("want %v, got %v", want, d.Journal())
	}
}

// TestEduAnswersAsQEMUDid repeats the accesses of testdata/captures/edu.qemutrace, a program that
// computes factorials. The model must return the values that QEMU returned, except for the number
// of polls.
func TestEduAnswersAsQEMUDid(t *testing.T) {
	text, err := os.ReadFile("../../testdata/captures/edu.qemutrace")
	if err != nil {
		t.Fatal(err)
	}
	d := New(&boards.Edu)
	a := mapBAR(t, d, 0)
	checked := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 13 || f[12] != "'edu-mmio'" {
			continue
		}
		address, _ := strconv.ParseUint(f[6], 0, 64)
		value, _ := strconv.ParseUint(f[8], 0, 64)
		offset := address - 0x10000000
		switch {
		case f[0] == "memory_region_ops_write":
			store(t, d, &a, offset, 4, value)
		case offset == 0x20 && value == 1:
			// The number of loads that returned "busy" depended on the threads of QEMU.
		case offset == 0x20:
			for load(t, d, &a, 0x20, 4) == 1 {
				if d.Operations() > 1000 {
					t.Fatal("the factorial is still busy after 1000 operations")
				}
			}
			checked++
		default:
			expect(t, d, &a, offset, 4, value)
			checked++
		}
	}
	if checked < 10 {
		t.Errorf("the recording has only %d loads that were checked, want at least 10", checked)
	}
}

// A poll may load a register less often than the recorded program did. It must not omit a load that
// returned another value, or that came after a store.
func TestRepeatedLoadsAreOptional(t *testing.T) {
	r := func(at, v uint64) Access { return Access{Load, Place{Address: at}, 4, v} }
	w := Access{Store, Place{Address: 4}, 4, 1}
	for _, c := range []struct {
		name     string
		want     []Access
		accesses []Access
		left     int
		rejected bool
	}{
		{"all of them", []Access{r(8, 1), r(8, 1), w}, []Access{r(8, 1), r(8, 1), w}, 0, false},
		{"one of three", []Access{r(8, 1), r(12, 5), r(8, 1), r(8, 1), w},
			[]Access{r(8, 1), r(12, 5), w}, 0, false},
		{"the last", []Access{r(8, 1), r(8, 1)}, []Access{r(8, 1)}, 0, false},
		{"another value", []Access{r(8, 1), r(8, 2), w}, []Access{r(8, 1), w}, 0, true},
		{"after a store", []Access{r(8, 1), w, r(8, 1), w}, []Access{r(8, 1), w, w}, 0, true},
		{"none", []Access{r(8, 1), r(8, 1)}, nil, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newPlayback(&boards.Edu, c.want)
			code := hal.OK
			for _, a := range c.accesses {
				if a.Op == Load {
					_, code = d.load(access{op: Load, width: 4, offset: a.Place.Address})
				} else {
					code = d.store(access{op: Store, width: 4, offset: a.Place.Address}, a.Value)
				}
			}
			isRejected := code != hal.OK
			if isRejected != c.rejected || !isRejected && d.RemainingAccesses() != c.left {
				t.Errorf("%s: last access %v, %d accesses remain; want rejected %v, %d", c.name,
					code, d.RemainingAccesses(), c.rejected, c.left)
			}
		})
	}
}

// TestPlaybackKeepsFewBytesForEachAccess: a recording may have many millions of accesses.
func TestPlaybackKeepsFewBytesForEachAccess(t *testing.T) {
	if size := reflect.TypeFor[expected]().Size(); size > 24 {
		t.Errorf("an access of a playback has %d bytes, want at most 24", size)
	}
}
