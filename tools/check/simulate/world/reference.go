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
	"lightmetal/tools/check/fakekernel"
)

// referenceMachine is the expected memory of a machine's devices, on which a model executes the
// image.
type referenceMachine struct {
	*model
	machine    *machine
	bars       map[[2]int]map[uint64]byte // by function and BAR
	hostMemory map[int][]byte             // by window
	tlbIndexes map[int]int                // TLB window of each window of the image
	targets    map[int]windowTarget       // by window
	// The BARs whose accesses end with bus errors, by function and BAR.
	busErrorBARs map[[2]int]bool
	// The registers that contain bus addresses, by function and BAR, then by offset.
	addressRegisters map[[2]int]map[uint64]addressRegister
	// A run ended so near to its deadline that the result of the runner is not predictable.
	lateUnclear bool
}

// addressRegister is a register that contains the bus address of a host window plus an offset.
type addressRegister struct {
	window int
	offset uint64
}

// addressMark replaces bus addresses, which the model does not know. The index of the window is in
// bits 16 to 31.
const addressMark = 0xadad_5eed << 32

// windowTarget is the target of the last Point command of a window.
type windowTarget struct {
	target  fbs.TileRoute
	address uint64
}

func newReference(m *machine, model *model) *referenceMachine {
	s := &referenceMachine{model: model, machine: m, bars: map[[2]int]map[uint64]byte{},
		hostMemory: map[int][]byte{}, tlbIndexes: map[int]int{}, targets: map[int]windowTarget{},
		addressRegisters: map[[2]int]map[uint64]addressRegister{}, busErrorBARs: map[[2]int]bool{}}
	model.reference = s
	nextForced := m.w.options.FirstTLBWindow
	for i, w := range m.w.view.Windows {
		switch w.Kind {
		case gen.WindowKindHost:
			s.hostMemory[i] = make([]byte, w.Size)
		case gen.WindowKindTlb:
			s.tlbIndexes[i] = s.chooseTLBWindow(m.functions[w.Device], int(w.Device), w,
				&nextForced)
		}
	}
	return s
}

// chooseTLBWindow returns the first TLB window that is large enough and free, or the one that the
// option -window forces.
func (s *referenceMachine) chooseTLBWindow(f *pciFunction, device int, w fbs.Window,
	nextForced *int) int {
	if *nextForced >= 0 {
		*nextForced++
		return *nextForced - 1
	}
	for id := 0; ; id++ {
		bar, _, size := f.TLBWindow(id)
		free := size >= w.Size && bar >= 0
		for other, slot := range s.tlbIndexes {
			free = free && (slot != id || int(s.w.view.Windows[other].Device) != device)
		}
		if free || size == 0 {
			return id
		}
	}
}

// locate returns the BAR and the offset of an access. For host memory, bar is -1 and the index of
// the window.
func (s *referenceMachine) locate(a access) (bar [2]int, offset uint64) {
	w := &s.w.view.Windows[a.window]
	switch w.Kind {
	case gen.WindowKindBar:
		return [2]int{int(w.Device), int(w.Bar)}, w.Offset + a.offset
	case gen.WindowKindTlb:
		f := s.machine.functions[w.Device]
		bar, start, size := f.TLBWindow(s.tlbIndexes[int(a.window)])
		return [2]int{int(w.Device), bar}, start + s.targets[int(a.window)].address%size + a.offset
	}
	return [2]int{-1, int(a.window)}, a.offset
}

// perform performs an access on the reference machine.
func (s *referenceMachine) perform(a access) hal.Code {
	s.last, s.value = a, 0
	if a.kind == point {
		s.code = s.programWindow(a)
		return s.code
	}
	bar, offset := s.locate(a)
	if s.code = hal.OK; s.busErrorBARs[bar] {
		s.code = hal.BusFault
		return s.code
	}
	if a.kind == store && a.value>>32 == addressMark>>32 && a.width == 8 {
		if s.addressRegisters[bar] == nil {
			s.addressRegisters[bar] = map[uint64]addressRegister{}
		}
		s.addressRegisters[bar][offset] = addressRegister{int(a.value >> 16 & 0xffff),
			a.value & 0xffff}
		return hal.OK
	}
	gone := bar[0] >= 0 && s.machine.functions[bar[0]].Gone
	for i := range uint64(a.width) {
		switch {
		case gone:
			s.value |= 0xff << (8 * i)
		case bar[0] < 0 && a.kind == load:
			s.value |= uint64(s.hostMemory[bar[1]][offset+i]) << (8 * i)
		case bar[0] < 0:
			s.hostMemory[bar[1]][offset+i] = byte(a.value >> (8 * i))
		case a.kind == load:
			s.value |= uint64(s.bars[bar][offset+i]) << (8 * i)
		default:
			if s.bars[bar] == nil {
				s.bars[bar] = map[uint64]byte{}
			}
			s.bars[bar][offset+i] = byte(a.value >> (8 * i))
		}
	}
	return hal.OK
}

// programWindow programs a TLB window: through registers in BAR 0, or by the kernel driver, which
// reports that a device is gone.
func (s *referenceMachine) programWindow(a access) hal.Code {
	device := int(s.w.view.Windows[a.window].Device)
	switch byDriver := s.machine.backend == "tt"; {
	case !byDriver && s.busErrorBARs[[2]int{device, 0}]:
		return hal.BusFault
	case byDriver && s.machine.functions[device].Gone:
		return hal.DeviceGone
	}
	target, _ := boards.UnpackTileRoute(a.mask)
	s.targets[int(a.window)] = windowTarget{target, a.value}
	return hal.OK
}

// isLate reports whether a run has waited longer than its limit.
func (s *referenceMachine) isLate(m *model) bool {
	s.lateUnclear = s.lateUnclear || m.deadline != 0 && m.waitedNs > m.deadline/2 &&
		m.waitedNs < 2*m.deadline
	return m.deadline != 0 && m.waitedNs > m.deadline
}

func (s *referenceMachine) runPoll(m *model, c *fbs.Command) hal.Code {
	m.waitedNs += int64(c.Amount) * 1000
	if s.isLate(m) {
		return m.failExpect(c, hal.FrameLate)
	}
	return m.failExpect(c, hal.DeadlinePassed)
}

func (s *referenceMachine) runDelay(m *model, c *fbs.Command) hal.Code {
	m.waitedNs += int64(c.Amount) * 1000
	if s.isLate(m) {
		return hal.FrameLate
	}
	return hal.OK
}

// barDifference compares the BARs and TLB windows of the machine with the reference. It returns the
// first difference, or "".
func (s *referenceMachine) barDifference() string {
	for _, f := range s.machine.functions {
		for bar, size := range f.Bars {
			if size == 0 || f.Gone || s.busErrorBARs[[2]int{f.Index, bar}] {
				continue
			}
			if text := s.differenceInBAR(f, bar); text != "" {
				return text
			}
		}
		if text := s.targetDifference(f); text != "" {
			return text
		}
	}
	return ""
}

// differenceInBAR compares one BAR with the reference.
func (s *referenceMachine) differenceInBAR(f *pciFunction, bar int) string {
	want, balance := s.bars[[2]int{f.Index, bar}], 0
	for _, part := range s.machine.storedExtents(f, bar) {
		for i, b := range part.data {
			at := part.offset + uint64(i)
			if f.Vendor == 0x1e52 && (bar == 0 && at >= 0x1fc00000 || bar == 2) {
				continue // registers of the board
			}
			if _, ok := s.addressRegisters[[2]int{f.Index, bar}][at&^7]; ok {
				continue
			}
			if b != want[at] {
				return fmt.Sprintf("BAR %d of function %d contains %#x at %#x, expected %#x", bar,
					f.Index, b, at, want[at])
			}
			if b != 0 {
				balance++
			}
		}
	}
	for _, b := range want {
		if b != 0 {
			balance--
		}
	}
	if balance != 0 {
		return fmt.Sprintf("BAR %d of function %d: %d expected bytes were not stored", bar, f.Index,
			-balance)
	}
	return ""
}

// targetDifference compares the configuration of the TLB windows with the last Point commands.
func (s *referenceMachine) targetDifference(f *pciFunction) string {
	for window, target := range s.targets {
		if int(s.w.view.Windows[window].Device) != f.Index {
			continue
		}
		id, route := s.tlbIndexes[window], target.target
		_, _, size := f.TLBWindow(id)
		base := target.address &^ (size - 1)
		if s.machine.backend == "tt" {
			multicast := uint8(0)
			if route.Multicast {
				multicast = 1
			}
			want := fakekernel.TTWindowConfig{Window: uint32(id), Address: base,
				XEnd: uint16(route.X), YEnd: uint16(route.Y), XStart: uint16(route.XStart),
				YStart: uint16(route.YStart), NoC: route.NoC, Multicast: multicast,
				Ordering: uint8(route.Ordering - 1), VC: route.StaticVCPlusOne}
			if got := lastConfig(f, id); got != want {
				return fmt.Sprintf("the driver received %+v for TLB window %d, expected %+v", got,
					id, want)
			}
			continue
		}
		want := tlbRegisters(f, size, base, route)
		if got := s.machine.readBAR(f, 0, 0x1fc00000+uint64(id*len(want)),
			len(want)); !bytes.Equal(got, want) {
			return fmt.Sprintf("registers of TLB window %d of function %d contain %x, expected %x",
				id, f.Index, got, want)
		}
	}
	return ""
}

// lastConfig returns the last configuration of a TLB window that the driver received.
func lastConfig(f *pciFunction, id int) (last fakekernel.TTWindowConfig) {
	for _, c := range f.Programmed {
		if int(c.Window) == id {
			last = c
		}
	}
	return last
}

// tlbRegisters returns the registers that program a TLB window: bit fields from the lowest bit on
// (tt-isa-documentation, WormholeB0/PCIExpressTile/TLBs.md; tt-kmd blackhole.c, TLB_2M_REG and
// TLB_4G_REG).
func tlbRegisters(f *pciFunction, windowSize, address uint64, t fbs.TileRoute) []byte {
	bit := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	addressBits := map[uint64]int{1 << 20: 16, 2 << 20: 15, 16 << 20: 12}[windowSize]
	nocBits, size := 1, 8
	tail := [][2]uint64{{1, 0}, {1, bit(t.StaticVCPlusOne != 0)}}
	if f.Device == 0xb140 {
		addressBits, nocBits, size = map[uint64]int{2 << 20: 43, 4 << 30: 32}[windowSize], 2, 12
		vc := uint64(0)
		if t.StaticVCPlusOne != 0 {
			vc = uint64(t.StaticVCPlusOne) - 1
		}
		tail = [][2]uint64{{1, 0}, {1, bit(t.StaticVCPlusOne != 0)}, {1, 0}, {3, vc}}
	}
	fields := append([][2]uint64{{uint64(addressBits), address / windowSize}, {6, uint64(t.X)},
		{6, uint64(t.Y)}, {6, uint64(t.XStart)}, {6, uint64(t.YStart)},
		{uint64(nocBits), uint64(t.NoC)}, {1, bit(t.Multicast)}, {2, uint64(t.Ordering - 1)}},
		tail...)
	data, at := make([]byte, size), 0
	for _, field := range fields {
		for bit := range field[0] {
			data[at/8] |= byte(field[1]>>bit&1) << (at % 8)
			at++
		}
	}
	return data
}

// hostMemoryDifference compares the host memory, at the addresses that devices received, with the
// reference. It returns the first difference, or "".
func (s *referenceMachine) hostMemoryDifference() string {
	for bar, registers := range s.addressRegisters {
		f := s.machine.functions[bar[0]]
		for at, register := range registers {
			if f.Gone || s.busErrorBARs[bar] {
				continue
			}
			data := s.machine.readBAR(f, bar[1], at, 8)
			address := binary.LittleEndian.Uint64(data) - register.offset
			want := s.hostMemory[register.window]
			if got := s.machine.hostMemoryAt(f, address); len(got) < len(want) ||
				!bytes.Equal(got[:len(want)], want) {
				return fmt.Sprintf("function %d received the address %#[3]x of host window %[2]d, "+
					"which has no or wrong content", f.Index, register.window, address)
			}
		}
	}
	return ""
}
