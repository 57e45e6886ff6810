package ttsim

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
)

// AsHardware makes the device one that a kernel sees: the registers that aim
// windows can be loaded, which the library refuses.
func (d *Device) AsHardware() { d.aimed = map[int]boards.Words{} }

// keep notes a store to the registers of a window.
func (d *Device) keep(bar uint8, offset uint64, width uint8, value uint64) {
	slot, word, shift, ok := d.windowRegister(bar, offset)
	if !ok {
		return
	}
	w, mask := d.aimed[slot], uint64(1<<(8*width)-1)<<shift
	w[word] = w[word]&^mask | value<<shift&mask
	d.aimed[slot] = w
}

// kept gives what such a register holds.
func (d *Device) kept(bar uint8, offset uint64, width uint8) (value uint64, ok bool) {
	slot, word, shift, ok := d.windowRegister(bar, offset)
	return d.aimed[slot][word] >> shift & (1<<(8*width) - 1), ok
}

// windowRegister is where the registers of a window have a byte of a BAR, of a
// device that a kernel sees.
func (d *Device) windowRegister(bar uint8, offset uint64) (slot int, word, shift uint64, ok bool) {
	l := d.board.TLB
	if d.aimed == nil || l == nil {
		return 0, 0, 0, false
	}
	for _, a := range chips.Of(d.board).Aliases {
		if a.Bar == bar {
			bar, offset = a.Of, a.Offset+offset
		}
	}
	slot, inside, ok := chips.Config(l, bar, offset)
	return slot, inside / uint64(l.ConfigWidth), 8 * (inside % uint64(l.ConfigWidth)), ok
}
