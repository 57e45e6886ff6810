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
	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/check/vectors/vector"
)

// referenceMachine is the expected memory of a machine's devices, on which the oracle executes the
// image.
type referenceMachine struct {
	*oracle.Player
	machine *machine
	image   *oracle.Image
	memory  map[vector.Space]map[uint64]byte // stored bytes; all others are 0
	targets map[int]windowTarget             // by window; only of windows that a driver programs
	// The BARs whose accesses end with bus errors.
	busErrors map[vector.Space]bool
	// The registers that contain bus addresses, by BAR, then by offset.
	addressRegisters map[vector.Space]map[uint64]addressRegister

	waitedNs, deadline int64 // time that the run waits in commands, and its limit; 0: none
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
	slot    int
	target  fbs.TileRoute
	address uint64
}

// newReference loads the image on a reference machine.
func newReference(e *processRun) (*referenceMachine, *oracle.Fault) {
	s := &referenceMachine{machine: e.machine, image: e.image,
		memory: map[vector.Space]map[uint64]byte{}, targets: map[int]windowTarget{},
		busErrors:        map[vector.Space]bool{},
		addressRegisters: map[vector.Space]map[uint64]addressRegister{}}
	if first := e.w.options.FirstTLBWindow; first >= 0 {
		e.image.UseTLBWindowsFrom(first)
	}
	var fault *oracle.Fault
	s.Player, fault = oracle.Load(e.image, s, uint64(e.w.options.MaxSequenceNs/1000))
	return s, fault
}

// execute executes a sequence. limitNs is its time limit; 0: none.
func (s *referenceMachine) execute(sequence int, limitNs int64) (vector.Result, hal.Code) {
	s.waitedNs, s.deadline = 0, limitNs
	result := s.Execute(sequence, limitNs)
	return result, codeNamed(result.Code)
}

// functionOf returns the function to which a space belongs, nil for host memory.
func (s *referenceMachine) functionOf(space vector.Space) *pciFunction {
	if space.Kind == vector.HostSpace {
		return nil
	}
	return s.machine.functions[space.Device]
}

// Load implements oracle.Machine.
func (s *referenceMachine) Load(space vector.Space, offset uint64, width uint8) (value uint64,
	ok bool) {
	if f := s.functionOf(space); f != nil && f.Gone {
		return fbs.WidthMask(width), !s.busErrors[space]
	}
	for i := range uint64(width) {
		value |= uint64(s.memory[space][offset+i]) << (8 * i)
	}
	return value, !s.busErrors[space]
}

// Store implements oracle.Machine.
func (s *referenceMachine) Store(space vector.Space, offset uint64, width uint8,
	value uint64) (ok bool) {
	f := s.functionOf(space)
	if s.memory[space] == nil {
		s.memory[space] = map[uint64]byte{}
		s.addressRegisters[space] = map[uint64]addressRegister{}
	}
	switch {
	case s.busErrors[space]:
		return false
	case value>>32 == addressMark>>32 && width == 8:
		s.addressRegisters[space][offset] = addressRegister{int(value >> 16 & 0xffff),
			value & 0xffff}
	case f == nil || !f.Gone:
		for i := range uint64(width) {
			s.memory[space][offset+i] = byte(value >> (8 * i))
		}
	}
	return true
}

// LoadBytes implements oracle.Machine.
func (s *referenceMachine) LoadBytes(space vector.Space, offset uint64, _ uint8,
	data []byte) (ok bool) {
	for i := range data {
		value, ok := s.Load(space, offset+uint64(i), 1)
		if data[i] = byte(value); !ok {
			return false
		}
	}
	return true
}

// StoreBytes implements oracle.Machine.
func (s *referenceMachine) StoreBytes(space vector.Space, offset uint64, _ uint8,
	data []byte) (ok bool) {
	for i := range data {
		if !s.Store(space, offset+uint64(i), 1, uint64(data[i])) {
			return false
		}
	}
	return true
}

// Point implements oracle.Driver. The kernel driver of Tenstorrent programs TLB windows, and
// reports that a device is gone. Point also checks at which offset of its BAR the window is.
func (s *referenceMachine) Point(c *oracle.Command, slot int) (code string, isDone bool) {
	f := s.machine.functions[s.image.Windows[c.Window].Device]
	bar, start, size := f.TLBWindow(slot)
	start += c.Value % size
	if space, offset := s.Place(c.Window); offset != start || int(space.Bar) != bar {
		s.machine.w.errorf("TLB window %d is at %#x of BAR %d, expected %#x of BAR %d", slot,
			offset, space.Bar, start, bar)
	}
	switch {
	case s.machine.backend != "tt":
		return "", false
	case f.Gone:
		return codeNames[hal.DeviceGone], true
	}
	target, _ := boards.UnpackTileRoute(c.Mask)
	s.targets[int(c.Window)] = windowTarget{slot, target, c.Value}
	return codeNames[hal.OK], true
}

// Fence implements oracle.Machine.
func (s *referenceMachine) Fence() {}

// IsPresent implements oracle.Machine.
func (s *referenceMachine) IsPresent(device int) bool { return !s.machine.functions[device].Gone }

// Diagnose implements oracle.Driver.
func (s *referenceMachine) Diagnose(device int) (code string) {
	return codeNames[s.machine.functions[device].diagnosis()]
}

// Now implements oracle.Machine.
func (s *referenceMachine) Now() int64 { return s.waitedNs }

// Wait implements oracle.Machine. A poll waits until its deadline, because no value changes.
func (s *referenceMachine) Wait(nanoseconds int64) {
	if c := &s.image.Commands[s.Command]; c.Opcode == uint8(gen.OpcodeExpect) {
		nanoseconds = int64(c.Amount) * 1000
	}
	s.waitedNs += nanoseconds
	s.lateUnclear = s.lateUnclear || s.deadline != 0 && s.waitedNs > s.deadline/2 &&
		s.waitedNs < 2*s.deadline
}

// Device implements oracle.Machine.
func (s *referenceMachine) Device(_ int, needed vector.Device) vector.Device {
	return needed.WithLargeBARs()
}

// BusAddress implements oracle.Machine.
func (s *referenceMachine) BusAddress(window int) (address uint64, ok bool) {
	return addressMark | uint64(window)<<16, true
}

// barDifference compares the BARs of the machine, and the TLB windows that the driver has
// programmed, with the reference. It returns the first difference, or "".
func (s *referenceMachine) barDifference() string {
	for _, f := range s.machine.functions {
		for bar, size := range f.Bars {
			if size == 0 || f.Gone || s.busErrors[vector.OfBar(f.Index, bar)] {
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
	space := vector.OfBar(f.Index, bar)
	want, balance := s.memory[space], 0
	for _, part := range s.machine.storedExtents(f, bar) {
		for i, b := range part.data {
			at := part.offset + uint64(i)
			if f.Vendor == 0x1e52 && bar == 2 {
				continue // registers of outbound translation
			}
			if _, ok := s.addressRegisters[space][at&^7]; ok {
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

// targetDifference compares the TLB windows that the driver has programmed with the last Point
// commands.
func (s *referenceMachine) targetDifference(f *pciFunction) string {
	for window, target := range s.targets {
		if int(s.image.Windows[window].Device) != f.Index {
			continue
		}
		route := target.target
		_, _, size := f.TLBWindow(target.slot)
		multicast := uint8(0)
		if route.Multicast {
			multicast = 1
		}
		want := fakekernel.TTWindowConfig{Window: uint32(target.slot),
			Address: target.address &^ (size - 1), XEnd: uint16(route.X), YEnd: uint16(route.Y),
			XStart: uint16(route.XStart), YStart: uint16(route.YStart), NoC: route.NoC,
			Multicast: multicast, Ordering: uint8(route.Ordering - 1), VC: route.StaticVCPlusOne}
		if got := lastConfig(f, target.slot); got != want {
			return fmt.Sprintf("the driver received %+v for TLB window %d, expected %+v", got,
				target.slot, want)
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

// hostMemoryDifference compares the host memory, at the addresses that devices received, with the
// reference. It returns the first difference, or "".
func (s *referenceMachine) hostMemoryDifference() string {
	for space, registers := range s.addressRegisters {
		for at, register := range registers {
			f := s.machine.functions[space.Device]
			if f.Gone || s.busErrors[space] {
				continue
			}
			data := s.machine.readBAR(f, space.Bar, at, 8)
			address := binary.LittleEndian.Uint64(data) - register.offset
			want := make([]byte, s.image.Windows[register.window].Size)
			for offset, b := range s.memory[vector.OfHost(register.window)] {
				want[offset] = b
			}
			if got := s.machine.hostMemoryAt(f, address); len(got) < len(want) ||
				!bytes.Equal(got[:len(want)], want) {
				return fmt.Sprintf("function %d received the address %#[3]x of host window %[2]d, "+
					"which has no or wrong content", f.Index, register.window, address)
			}
		}
	}
	return ""
}
