//go:build world

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// shadow is what the memory of a machine's devices is to hold, where a model says
// what an image does: by BAR for devices, by window for host memory.
type shadow struct {
	*model
	machine *machine
	bars    map[[2]int]map[uint64]byte   // by function and BAR
	host    map[int][]byte               // by window
	slots   map[int]int                  // hardware windows
	aims    map[int]aimed                // by window
	broken  map[[2]int]bool              // BARs that answer with bus errors
	tellers map[[2]int]map[uint64]teller // places of BARs that hold an address
	unclear bool                         // whether a run is late is too close to call
}

// teller is a register that holds the address of a host window, and how far behind
// its beginning.
type teller struct {
	window int
	behind uint64
}

// toldMark is in the place of addresses, which no model knows: above the number of
// a window.
const toldMark = 0xadad_5eed << 32

type aimed struct {
	target  fbs.TileRoute
	address uint64
}

func newShadow(m *machine, model *model) *shadow {
	s := &shadow{model: model, machine: m, bars: map[[2]int]map[uint64]byte{},
		host: map[int][]byte{}, slots: map[int]int{}, aims: map[int]aimed{},
		tellers: map[[2]int]map[uint64]teller{}, broken: map[[2]int]bool{}}
	model.still = s
	forced := m.w.options.Window
	for i, w := range m.w.view.Windows {
		switch w.Kind {
		case gen.WindowKindHost:
			s.host[i] = make([]byte, w.Size)
		case gen.WindowKindTlb:
			s.slots[i] = s.choose(m.functions[w.Device], int(w.Device), w, &forced)
		}
	}
	return s
}

// choose is the first hardware window that is large enough, nobody's, and inside
// its BAR, or the one that was asked for.
func (s *shadow) choose(f *pciFunction, device int, w fbs.Window, forced *int) int {
	if *forced >= 0 {
		*forced++
		return *forced - 1
	}
	for id := 0; ; id++ {
		start, size := hardware(f, id)
		free := size >= w.Size && start != 1
		for other, slot := range s.slots {
			free = free && (slot != id || int(s.w.view.Windows[other].Device) != device)
		}
		if free || size == 0 {
			return id
		}
	}
}

// place is where an access of a window lies: in a BAR, or in host memory, bar -1.
func (s *shadow) place(a access) (bar [2]int, at uint64) {
	w := &s.w.view.Windows[a.window]
	switch w.Kind {
	case gen.WindowKindBar:
		return [2]int{int(w.Device), int(w.Bar)}, w.Offset + a.offset
	case gen.WindowKindTlb:
		start, size := hardware(s.machine.functions[w.Device], s.slots[int(a.window)])
		bar := 0
		if size == 4<<30 {
			bar = 4
		}
		return [2]int{int(w.Device), bar}, start + s.aims[int(a.window)].address%size + a.offset
	}
	return [2]int{-1, int(a.window)}, a.offset
}

// do carries out an access.
func (s *shadow) do(a access) hal.Code {
	s.did, s.got = a, 0
	if a.kind == point {
		s.code = s.point(a)
		return s.code
	}
	bar, at := s.place(a)
	if s.code = hal.OK; s.broken[bar] {
		s.code = hal.BusFault
		return s.code
	}
	if a.kind == store && a.value>>32 == toldMark>>32 && a.width == 8 {
		if s.tellers[bar] == nil {
			s.tellers[bar] = map[uint64]teller{}
		}
		s.tellers[bar][at] = teller{int(a.value >> 16 & 0xffff), a.value & 0xffff}
		return hal.OK
	}
	gone := bar[0] >= 0 && s.machine.functions[bar[0]].gone
	for i := range uint64(a.width) {
		switch {
		case gone:
			s.got |= 0xff << (8 * i)
		case bar[0] < 0 && a.kind == load:
			s.got |= uint64(s.host[bar[1]][at+i]) << (8 * i)
		case bar[0] < 0:
			s.host[bar[1]][at+i] = byte(a.value >> (8 * i))
		case a.kind == load:
			s.got |= uint64(s.bars[bar][at+i]) << (8 * i)
		default:
			if s.bars[bar] == nil {
				s.bars[bar] = map[uint64]byte{}
			}
			s.bars[bar][at+i] = byte(a.value >> (8 * i))
		}
	}
	return hal.OK
}

// point aims a window: by registers in BAR 0, or by the driver, which knows of a
// device that is gone.
func (s *shadow) point(a access) hal.Code {
	device := int(s.w.view.Windows[a.window].Device)
	switch driven := s.machine.lane == "tt"; {
	case !driven && s.broken[[2]int{device, 0}]:
		return hal.BusFault
	case driven && s.machine.functions[device].gone:
		return hal.DeviceGone
	}
	target, _ := boards.UnpackTileRoute(a.mask)
	s.aims[int(a.window)] = aimed{target, a.value}
	return hal.OK
}

// late tells whether a run has waited for longer than its limit.
func (s *shadow) late(m *model) bool {
	s.unclear = s.unclear || m.end != 0 && m.spent > m.end/2 && m.spent < 2*m.end
	return m.end != 0 && m.spent > m.end
}

func (s *shadow) wait(m *model, c *fbs.Command) hal.Code {
	m.spent += int64(c.Amount) * 1000
	if s.late(m) {
		return m.saw(c, hal.FrameLate)
	}
	return m.saw(c, hal.DeadlinePassed)
}

func (s *shadow) delay(m *model, c *fbs.Command) hal.Code {
	m.spent += int64(c.Amount) * 1000
	if s.late(m) {
		return hal.FrameLate
	}
	return hal.OK
}

// differs says where the machine's BARs are not as foretold, empty if nowhere.
func (s *shadow) differs() string {
	for _, f := range s.machine.functions {
		for bar, size := range f.bars {
			if size == 0 || f.gone || s.broken[[2]int{f.index, bar}] {
				continue
			}
			if text := s.barDiffers(f, bar); text != "" {
				return text
			}
		}
		if text := s.aimsDiffer(f); text != "" {
			return text
		}
	}
	return ""
}

func (s *shadow) barDiffers(f *pciFunction, bar int) string {
	want, stored := s.bars[[2]int{f.index, bar}], 0
	for _, part := range s.machine.extents(f, bar) {
		for i, b := range part.data {
			at := part.offset + uint64(i)
			if f.vendor == 0x1e52 && (bar == 0 && at >= 0x1fc00000 || bar == 2) {
				continue // registers
			}
			if _, ok := s.tellers[[2]int{f.index, bar}][at&^7]; ok {
				continue
			}
			if b != want[at] {
				return fmt.Sprintf("BAR %d of function %d has %#x at %#x, %#x is right", bar,
					f.index, b, at, want[at])
			}
			if b != 0 {
				stored++
			}
		}
	}
	for _, b := range want {
		if b != 0 {
			stored--
		}
	}
	if stored != 0 {
		return fmt.Sprintf("BAR %d of function %d lacks %d bytes", bar, f.index, -stored)
	}
	return ""
}

// aimsDiffer holds what aims hardware windows against the last Points.
func (s *shadow) aimsDiffer(f *pciFunction) string {
	for window, aim := range s.aims {
		if int(s.w.view.Windows[window].Device) != f.index {
			continue
		}
		id, t := s.slots[window], aim.target
		_, size := hardware(f, id)
		home := aim.address &^ (size - 1)
		if s.machine.lane == "tt" {
			multicast := uint8(0)
			if t.Multicast {
				multicast = 1
			}
			want := ttAim{home, uint16(t.X), uint16(t.Y), uint16(t.XStart), uint16(t.YStart), t.NoC,
				multicast, uint8(t.Ordering - 1), t.StaticVCPlusOne}
			if got := f.aims[id]; got != want {
				return fmt.Sprintf("the driver was told %+v of window %d, %+v is right", got, id,
					want)
			}
			continue
		}
		want := registers(f, size, home, t)
		if got := s.machine.bytesAt(f, 0, 0x1fc00000+uint64(id*len(want)),
			len(want)); !bytes.Equal(got, want) {
			return fmt.Sprintf("the registers of window %d of function %d hold %x, %x is right", id,
				f.index, got, want)
		}
	}
	return ""
}

// registers are what aims a window: bit fields from the lowest on
// (tt-isa-documentation, WormholeB0/PCIExpressTile/TLBs.md; tt-kmd blackhole.c,
// TLB_2M_REG and TLB_4G_REG).
func registers(f *pciFunction, size, address uint64, t fbs.TileRoute) []byte {
	is := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	above := map[uint64]int{1 << 20: 16, 2 << 20: 15, 16 << 20: 12}[size]
	noc, count := 1, 8
	tail := [][2]uint64{{1, 0}, {1, is(t.StaticVCPlusOne != 0)}}
	if f.device == 0xb140 {
		above, noc, count = map[uint64]int{2 << 20: 43, 4 << 30: 32}[size], 2, 12
		vc := uint64(0)
		if t.StaticVCPlusOne != 0 {
			vc = uint64(t.StaticVCPlusOne) - 1
		}
		tail = [][2]uint64{{1, 0}, {1, is(t.StaticVCPlusOne != 0)}, {1, 0}, {3, vc}}
	}
	fields := append([][2]uint64{{uint64(above), address / size}, {6, uint64(t.X)},
		{6, uint64(t.Y)}, {6, uint64(t.XStart)}, {6, uint64(t.YStart)},
		{uint64(noc), uint64(t.NoC)}, {1, is(t.Multicast)}, {2, uint64(t.Ordering - 1)}}, tail...)
	data, at := make([]byte, count), 0
	for _, field := range fields {
		for bit := range field[0] {
			data[at/8] |= byte(field[1]>>bit&1) << (at % 8)
			at++
		}
	}
	return data
}

// hostDiffers says which host window is not as foretold, where a device was told
// that it is.
func (s *shadow) hostDiffers() string {
	for bar, places := range s.tellers {
		f := s.machine.functions[bar[0]]
		for at, told := range places {
			if f.gone || s.broken[bar] {
				continue
			}
			address := binary.LittleEndian.Uint64(s.machine.bytesAt(f, bar[1], at, 8)) - told.behind
			want := s.host[told.window]
			if got := s.machine.reached(f, address); len(got) < len(want) ||
				!bytes.Equal(got[:len(want)], want) {
				return fmt.Sprintf("function %d is told that host window %d is at %#x, where it "+
					"is not, or not as it should be", f.index, told.window, address)
			}
		}
	}
	return ""
}
