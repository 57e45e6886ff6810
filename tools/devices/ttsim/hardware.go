package ttsim

import (
	"lightmetal/boards/chips"
	"lightmetal/hal/mock"
)

// AsHardware makes the device one that a kernel sees: the registers that aim
// windows can be loaded, which the library refuses, and those that only a driver
// has a use for are there.
func (d *Device) AsHardware() { d.kept = map[uint64]uint32{} }

// keep notes a store to such registers, and tells whether the library has none.
func (d *Device) keep(bar uint8, offset uint64, width uint8, value uint64) (alone bool) {
	at, alone, ok := d.register(bar, offset)
	if ok {
		for i := uint64(0); i < uint64(width); i += 4 {
			d.kept[at+i] = uint32(value >> (8 * i))
		}
	}
	return alone
}

// shown gives what such registers hold.
func (d *Device) shown(bar uint8, offset uint64, width uint8) (value uint64, ok bool) {
	at, _, ok := d.register(bar, offset)
	for i := uint64(0); ok && i < uint64(width); i += 4 {
		value |= uint64(d.kept[at+i]) << (8 * i)
	}
	return value, ok
}

// register is where a BAR has one of them, of a device that a kernel sees. It
// is of words: rules of the board.
func (d *Device) register(bar uint8, offset uint64) (at uint64, alone, ok bool) {
	if d.kept == nil || d.board.TLB == nil {
		return 0, false, false
	}
	bar, offset = chips.Of(d.board).Unalias(bar, offset)
	alone = mock.DriverOnly(d.board, mock.Place{Bar: bar, Address: offset})
	_, _, ok = chips.SlotOfRegister(d.board.TLB, bar, offset)
	return offset, alone, ok || alone
}
