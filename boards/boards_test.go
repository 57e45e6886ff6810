package boards

import (
	"fmt"
	"testing"
)

func TestBoardIsFoundByItsID(t *testing.T) {
	for _, b := range All {
		if FindByID(b.Vendor, b.Device) != b {
			t.Errorf("%s: not found by its PCI ids %04x:%04x", b.Name, b.Vendor, b.Device)
		}
	}
	if FindByID(0, 0) != nil || FindByID(0x1e52, 0xfaca) != nil {
		t.Error("found a board for unknown PCI ids")
	}
}

func TestRuleCoversWholeAccessesOnly(t *testing.T) {
	for _, c := range []struct {
		board        *Board
		bar          uint8
		offset, size uint64
		want         string // name of the rule; "" if there is no rule
	}{
		{&Edu, 0, 0x00, 4, "registers"},
		{&Edu, 0, 0x7c, 4, "registers"},
		{&Edu, 0, 0x7c, 8, ""}, // half in each of two rules
		{&Edu, 0, 0x80, 8, "DMA registers"},
		{&Edu, 0, 0xffffc, 4, "DMA registers"},
		{&Edu, 0, 0xffffc, 8, ""}, // ends after the BAR
		{&Edu, 0, 0x100000, 4, ""},
		{&Edu, 1, 0, 4, ""},
		{&Edu, 0, 0, 0, ""}, // size 0
		{&Edu, 0, ^uint64(0), 4, ""},
		{&Ivshmem, 2, 1 << 40, 8, "shared memory"},
		{&Nvme, 0, 0x1000, 4, "doorbells"},
		{&Nvme, 0, 0xffc, 8, ""},
		{&Wormhole, 0, 0x1effffff, 1, "windows"},
		{&Wormhole, 0, 0x1f000000, 4, ""},
		{&Wormhole, 0, 0x1fc005c8, 8, "window configuration"},
		{&Wormhole, 0, 0x1fc005d0, 8, ""},
		{&Wormhole, 4, 0x01c00000, 8, "window configuration"},
		{&Wormhole, 2, 0x11fc, 4, ""},
		{&Blackhole, 0, 0x193fffff, 1, "windows"},
		{&Blackhole, 0, 0x19400000, 1, ""},
		{&Blackhole, 0, 0x1fc009d4, 4, "window configuration"},
		{&Blackhole, 0, 0x1fc009d8, 4, ""}, // registers for strided multicast
		{&Blackhole, 4, 32<<30 - 8, 8, "windows"},
	} {
		t.Run(fmt.Sprint(c.board.Name, " ", c.bar, " ", c.offset), func(t *testing.T) {
			got := ""
			if r := c.board.FindRule(c.bar, c.offset, c.size); r != nil {
				got = r.Name
			}
			if got != c.want {
				t.Errorf("%s BAR %d + %#x, %d bytes: want rule %q, got %q", c.board.Name, c.bar,
					c.offset, c.size, c.want, got)
			}
		})
	}
}

func TestRulesLieInTheirBars(t *testing.T) {
	for _, b := range All {
		for i, r := range b.Rules {
			if r.First > r.Last || r.Widths == 0 || r.Widths > 15 || b.BarSizes[r.Bar] == 0 {
				t.Errorf("%s: rule %s has an invalid range, width or BAR", b.Name, r.Name)
			}
			if r.Last >= b.BarSizes[r.Bar] && b != &Ivshmem {
				t.Errorf("%s: rule %s ends outside BAR %d", b.Name, r.Name, r.Bar)
			}
			for _, o := range b.Rules[:i] {
				if o.Bar == r.Bar && r.First <= o.Last {
					t.Errorf("%s: rules %s and %s overlap or are not sorted", b.Name, o.Name,
						r.Name)
				}
			}
		}
	}
}

// TestForbiddenRangeEndsAtItsFirstAndLastAddress finds a range with windows that contain only its
// first or last address, and does not find it with windows next to it.
func TestForbiddenRangeEndsAtItsFirstAndLastAddress(t *testing.T) {
	board := Board{ForbiddenRanges: []ForbiddenRange{
		{Routes: unicastNoC0, Columns: 1 << 2, Rows: 1 << 3, First: 0x1000, Last: 0x1fff},
	}}
	tile := TileRoute{X: 2, Y: 3}
	for _, c := range []struct {
		route         TileRoute
		address, size uint64
		isFound       bool
	}{
		{tile, 0x1000, 1, true}, {tile, 0xff0, 0x11, true}, {tile, 0xff0, 0x10, false},
		{tile, 0x1fff, 1, true}, {tile, 0x2000, 1, false}, {tile, 0, 1 << 32, true},
		{tile, 1<<64 - 0x1000, 0x1000, false},
		{TileRoute{X: 3, Y: 3}, 0x1000, 1, false}, {TileRoute{X: 2, Y: 2}, 0x1000, 1, false},
		{TileRoute{X: 2, Y: 3, NoC: 1}, 0x1000, 1, false},
	} {
		t.Run(fmt.Sprintf("%+v %#x %#x", c.route, c.address, c.size), func(t *testing.T) {
			if f := board.FindForbiddenRange(c.route, c.address, c.size); (f != nil) != c.isFound {
				t.Errorf("found %+v, want one: %v", f, c.isFound)
			}
		})
	}
}
