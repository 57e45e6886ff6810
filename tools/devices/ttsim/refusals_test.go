package ttsim

import (
	"strconv"
	"strings"
	"testing"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/check/golden"
)

// access is one load or store of a BAR.
type access struct {
	store  bool
	bar    uint8
	offset uint64
	width  uint8
	value  uint64
}

// Offset in BAR 0 of the configurations of windows, on both boards, and addresses in a tile.
const (
	configs    = 0x1fc00000
	localRAM   = 0xffb00000
	softReset0 = 0xffb121b0
)

// configBits has the bits of a window's configuration by board. As in the manuals, bit 0 is the
// first bit after the address.
var configBits = map[string]map[string]uint64{
	"wormhole": {"noc1": 1 << 24, "multicast": 1 << 25, "strict": 1 << 26, "posted": 2 << 26,
		"linked": 1 << 28, "vc": 1 << 29, "reserved": 1 << 30},
	"blackhole": {"noc1": 1 << 24, "noc2": 2 << 24, "multicast": 1 << 26, "strict": 1 << 27,
		"posted": 2 << 27, "linked": 1 << 29, "vc": 1 << 30, "header": 1 << 31,
		"vc-number": 1 << 32, "reserved": 1 << 35},
}

// pointWindow returns the stores that point a TLB window at a tile. bits are the other bits of its
// configuration.
func pointWindow(board string, slot, x, y, address, bits uint64) []access {
	rest := x | y<<6 | bits
	if board == "wormhole" {
		shift := 20
		if slot >= 166 {
			shift = 24
		} else if slot >= 156 {
			shift = 21
		}
		return []access{{true, 0, configs + 8*slot, 8, address>>shift | rest<<(36-shift)}}
	}
	shift, n := 21, 43
	if slot >= 202 {
		shift, n = 32, 32
	}
	low, high, at := address>>shift|rest<<n, rest>>(64-n), configs+12*slot
	return []access{{true, 0, at, 4, low & 0xffffffff}, {true, 0, at + 4, 4, low >> 32},
		{true, 0, at + 8, 4, high}}
}

// refusalCase is a case of wormhole.txtar or blackhole.txtar.
type refusalCase struct {
	board    string
	name     string
	accesses []access
	refused  string // part of the simulator's message; empty: it accepts the access
	mockOnly bool   // hal/mock refuses an access that the simulator accepts
}

// readRefusalCases returns the cases of both boards. wormhole.txtar describes their archives.
func readRefusalCases(t *testing.T) (list []refusalCase) {
	t.Helper()
	for _, board := range []string{"wormhole", "blackhole"} {
		golden.Table(t, "testdata/"+board+".txtar", func(entry, data string) string {
			name, accesses, _ := strings.Cut(entry, " | ")
			c := refusalCase{board: board, name: name, refused: strings.TrimSpace(data)}
			if c.refused == "refused by the mock only" {
				c.refused, c.mockOnly = "", true
			}
			for one := range strings.SplitSeq(accesses, "; ") {
				c.accesses = append(c.accesses, parseAccess(t, board, strings.Fields(one))...)
			}
			list = append(list, c)
			return data
		})
	}
	return list
}

// parseAccess returns the accesses that the words of an archive describe.
func parseAccess(t *testing.T, board string, words []string) []access {
	t.Helper()
	numbers := func(list ...string) (values [4]uint64) {
		for i, word := range list {
			n, err := strconv.ParseUint(word, 0, 64)
			if err != nil {
				t.Fatalf("%q: %v", words, err)
			}
			values[i] = n
		}
		return values
	}
	if words[0] != "point" {
		n := numbers(words[1:]...)
		return []access{{words[0] == "store", uint8(n[0]), n[1], uint8(n[2]), n[3]}}
	}
	x, y, _ := strings.Cut(words[2], ",")
	n, bits := numbers(words[1], x, y, words[3]), uint64(0)
	for i, word := range words[4:] {
		if x, y, isCorner := strings.Cut(word, ","); isCorner { // of a multicast rectangle
			start := numbers(x, y)
			bits |= start[0]<<12 | start[1]<<18
		} else if bit := configBits[board][word]; bit != 0 {
			bits |= bit
		} else if word != "from" {
			t.Fatalf("%q: unknown word %d", words, 4+i)
		}
	}
	return pointWindow(board, n[0], n[1], n[2], n[3], bits)
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
			code = mock.StoreAt(&bars[a.bar], uint32(a.offset), a.width, a.value)
		} else {
			_, code = mock.LoadAt(&bars[a.bar], uint32(a.offset), a.width)
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
			for _, c := range readRefusalCases(t) {
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
	for _, c := range readRefusalCases(t) {
		t.Run(c.board+"/"+c.name, func(t *testing.T) {
			d := mock.New(chips.BoardByName(c.board))
			code, _ := runAccesses(t, d, c.accesses)
			want := hal.OK
			if c.refused != "" || c.mockOnly {
				want = hal.Refused
			}
			if code != want {
				t.Errorf("code %v, want %v; the simulator's refusal is %q, the mock's %q", code,
					want, c.refused, d.Refusal())
			}
		})
	}
}
