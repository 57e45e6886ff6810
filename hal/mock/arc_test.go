package mock

import (
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
)

// TestARCAnswersADriver: it runs, each message is answered in its slot, past
// the end of the queue too, and the one about power changes the clock that the
// table has.
func TestARCAnswersADriver(t *testing.T) {
	for _, c := range []struct {
		board                             *boards.Board
		registers, csm, interrupt         Place
		ready, readyValue, bell           uint64
		control, table, data              uint64
		queueAt, power, idle, busy, other uint64
	}{
		{&boards.Wormhole, Place{Bar: 0, Address: 0x1ff30000}, Place{Bar: 0, Address: 0x1fe80000}, Place{Bar: 0, Address: 0x1ff30100},
			0x60, 0xc0de0001, 1 << 16, 0x1d8, 0x1d0, 0x1d4, 0x1000_0000, 0xc0, 500, 1000, 0x90},
		{&boards.Blackhole, Place{Tile: true, X: 8, Address: 0x80030000}, Place{Tile: true, X: 8, Address: 0x10000000}, Place{Tile: true, X: 8, Address: 0x800b0000},
			0x408, 1, 0, 0x42c, 0x434, 0x430, 0, 0x21, 800, 1350, 0x90},
	} {
		d := New(c.board)
		d.AsHardware()
		load := func(at Place, offset uint64) uint64 {
			at.Address += offset
			value, code := d.behind(at).Load(at, 4)
			if code != hal.OK {
				t.Fatal(code)
			}
			return value
		}
		store := func(at Place, offset, value uint64) {
			at.Address += offset
			if code := d.storeAt(at, 4, value); code != hal.OK {
				t.Fatal(code)
			}
		}
		if got := load(c.registers, c.ready); got != c.readyValue {
			t.Errorf("%s: %#x says that it runs", c.board.Name, got)
		}
		control := load(c.registers, c.control) - arcCSM
		queue, entries := load(c.csm, control)+c.queueAt-arcCSM, load(c.csm, control+4)&0xff
		table, data := load(c.registers, c.table)-arcCSM, load(c.registers, c.data)-arcCSM
		if tag := load(c.csm, table+8); tag != 14 || load(c.csm, data) != c.idle {
			t.Errorf("%s: the first tag is %#x, its value %d", c.board.Name, tag, load(c.csm, data))
		}
		for i := range 3 * entries {
			header, clock := c.power|1<<16, c.busy
			if i%3 == 1 {
				header, clock = c.power|0x7ffe<<16, c.idle
			} else if i%3 == 2 {
				header, clock = c.other, c.idle
			}
			at := load(c.csm, queue)
			answer := queue + 32 + 32*(entries+load(c.csm, queue+4)%entries)
			store(c.csm, answer, 0xffffffff)
			store(c.csm, queue+32+32*(at%entries), header)
			store(c.csm, queue, (at+1)%(2*entries))
			if load(c.csm, queue+0x10) != at {
				t.Errorf("%s: message %d was taken before the interrupt", c.board.Name, i)
			}
			store(c.interrupt, 0, c.bell)
			if got := load(c.csm, queue+0x14); got != (at+1)%(2*entries) || load(c.csm, queue+0x10) != got || load(c.csm, answer) != 0 || load(c.csm, data) != clock {
				t.Errorf("%s, message %d: answers to %d, taken to %d, answer %#x, clock %d", c.board.Name, i, got, load(c.csm, queue+0x10), load(c.csm, answer), load(c.csm, data))
			}
			store(c.csm, queue+4, (at+1)%(2*entries))
		}
	}
}

// TestARCTakesSingleMessages by Wormhole's scratch registers.
func TestARCTakesSingleMessages(t *testing.T) {
	d := New(&boards.Wormhole)
	d.AsHardware()
	scratch, control := Place{Bar: 0, Address: 0x1ff30074}, Place{Bar: 0, Address: 0x1ff30100}
	for at, value := range map[Place]uint64{scratch: 0xaa11, control: 1 << 15} {
		d.storeAt(at, 4, value)
	}
	if got, _ := d.behind(scratch).Load(scratch, 4); got != 0xaa11 {
		t.Errorf("%#x without an interrupt", got)
	}
	d.storeAt(control, 4, 1<<16|1<<15)
	if got, _ := d.behind(scratch).Load(scratch, 4); got != 0x11 {
		t.Errorf("%#x, want the message's number and no error", got)
	}
}
