package ttsim

import (
	"lightmetal/boards/chips"
	"lightmetal/hal/mock"
)

// AsHardware prepares the device for use by a kernel driver. The registers that program TLB windows
// can then be loaded, although the library rejects these loads, and the registers that only kernel
// drivers use exist.
func (d *Device) AsHardware() { d.kept = map[uint64]uint32{} }

// keep records a store to a register that kept contains. It reports whether the library has no such
// register, so that the store must not be passed to the library.
func (d *Device) keep(bar uint8, offset uint64, width uint8, value uint64) (alone bool) {
	at, alone, ok := d.register(bar, offset)
	if ok {
		for i := uint64(0); i < uint64(width); i += 4 {
			d.kept[at+i] = uint32(value >> (8 * i))
		}
	}
	return alone
}

// shown returns the value of a register in kept. ok is false if kept does not contain the register.
func (d *Device) shown(bar uint8, offset uint64, width uint8) (value uint64, ok bool) {
	at, _, ok := d.register(bar, offset)
	for i := uint64(0); ok && i < uint64(width); i += 4 {
		value |= uint64(d.kept[at+i]) << (8 * i)
	}
	return value, ok
}

// register returns the offset under which kept contains the register at a place in a BAR. ok is
// false if kept does not contain the register, which is always so unless AsHardware was called.
// alone is true if the library has no such register. The rules of the boards allow only accesses of
// complete 4-byte words to these registers.
func (d *Device) register(bar uint8, offset uint64) (at uint64, alone, ok bool) {
	if d.kept == nil || d.board.TLB == nil {
		return 0, false, false
	}
	bar, offset = chips.ForBoard(d.board).Unalias(bar, offset)
	alone = mock.DriverOnly(d.board, mock.Place{Bar: bar, Address: offset})
	_, _, ok = chips.SlotOfRegister(d.board.TLB, bar, offset)
	return offset, alone, ok || alone
}
