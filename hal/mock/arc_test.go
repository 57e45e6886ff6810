package mock

import (
	"fmt"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
)

// TestARCAnswersADriver checks that the ARC reports that it runs, and answers each message in its
// slot, also after the queue wraps. The message about power must change the clock in the table.
func TestARCAnswersADriver(t *testing.T) {
	for _, c := range []struct {
		board                             *boards.Board
		registers, csm, interrupt         Place
		ready, readyValue, bell           uint64
		control, table, data              uint64
		queueAt, power, idle, busy, other uint64
	}{
		{&boards.Wormhole, Place{Tile: true, Y: 10, Address: 0x8_8003_0000},
			Place{Tile: true, Y: 10, Address: 0x8_1000_0000},
			Place{Tile: true, Y: 10, Address: 0x8_8003_0100},
			0x60, 0xc0de0001, 1 << 16, 0x1d8, 0x1d0, 0x1d4, 0x1000_0000, 0xc0, 500, 1000, 0x90},
		{&boards.Blackhole, Place{Tile: true, X: 8, Address: 0x80030000},
			Place{Tile: true, X: 8, Address: 0x10000000},
			Place{Tile: true, X: 8, Address: 0x800b0000},
			0x408, 5, 0, 0x42c, 0x434, 0x430, 0, 0x21, 800, 1350, 0x90},
	} {
		t.Run(c.board.Name, func(t *testing.T) {
			d := New(c.board)
			d.AsHardware()
			load := func(at Place, offset uint64) uint64 {
				at.Address += offset
				value, code := d.modelAt(at).Load(at, 4)
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
				t.Errorf("%s: the ready register has %#x, want %#x", c.board.Name, got,
					c.readyValue)
			}
			control := load(c.registers, c.control) - arcCSM
			queue, entries := load(c.csm, control)+c.queueAt-arcCSM, load(c.csm, control+4)&0xff
			table, data := load(c.registers, c.table)-arcCSM, load(c.registers, c.data)-arcCSM
			if tag := load(c.csm, table+8); tag != 14 || load(c.csm, data) != c.idle {
				t.Errorf("%s: the first tag of the table is %#x, its value %d; want 14, %d",
					c.board.Name, tag, load(c.csm, data), c.idle)
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
					t.Errorf("%s: message %d was read before the interrupt", c.board.Name, i)
				}
				store(c.interrupt, 0, c.bell)
				if got := load(c.csm, queue+0x14); got != (at+1)%(2*entries) ||
					load(c.csm, queue+0x10) != got || load(c.csm, answer) != 0 ||
					load(c.csm, data) != clock {
					t.Errorf("%s, message %d: answers written to %d, messages read to %d, "+
						"answer %#x, clock %d; want %d, the same, 0, %d",
						c.board.Name, i, got, load(c.csm, queue+0x10), load(c.csm, answer),
						load(c.csm, data), (at+1)%(2*entries), clock)
				}
				store(c.csm, queue+4, (at+1)%(2*entries))
			}
		})
	}
}

// TestARCAnswersSingleMessages sends a message through Wormhole's scratch registers.
func TestARCAnswersSingleMessages(t *testing.T) {
	d := New(&boards.Wormhole)
	d.AsHardware()
	scratch, control := Place{Tile: true, Y: 10, Address: 0x8_8003_0074},
		Place{Tile: true, Y: 10, Address: 0x8_8003_0100}
	for at, value := range map[Place]uint64{scratch: 0xaa11, control: 1 << 15} {
		d.storeAt(at, 4, value)
	}
	if got, _ := d.modelAt(scratch).Load(scratch, 4); got != 0xaa11 {
		t.Errorf("before the interrupt, the register has %#x, want the message 0xaa11", got)
	}
	d.storeAt(control, 4, 1<<16|1<<15)
	if got, _ := d.modelAt(scratch).Load(scratch, 4); got != 0x11 {
		t.Errorf("after the interrupt, the register has %#x, want 0x11: the message's number, no "+
			"error", got)
	}
}

// TestARCRegistersExistForDriversOnly loads the registers that tt-umd checks before it uses a card,
// through the BAR and over the network. The vendor's simulator has the same registers (ttsim
// v1.10.0, src/libttsim.cpp and src/tile.cpp). The mock must reject the accesses of an image to
// registers that only drivers use.
func TestARCRegistersExistForDriversOnly(t *testing.T) {
	arc, pcie := &fbs.TileRoute{X: 0, Y: 10, Ordering: boards.OrderingDefault},
		&fbs.TileRoute{X: 2, Y: 0, Ordering: boards.OrderingDefault}
	for _, c := range []struct {
		board *boards.Board
		bar   map[uint64]uint64 // by offset in BAR 0
		tile  *fbs.TileRoute
		noc   map[uint64]uint64 // by address in the tile
	}{
		{&boards.Wormhole, map[uint64]uint64{0x1ff5002c: 0x1060a280, 0x1ff50100: 1 << 14,
			0x1ff30060: 0xc0de0001, 0x1fe81004: 8}, arc,
			map[uint64]uint64{0xf_ffb2_002c: 0x1060a280, 0x8_8003_01d0: arcCSM + arcTable,
				0x8_1000_1004: 8, 0x8_2007_8d60 + 49*4: arcFirmware}},
		{&boards.Blackhole, map[uint64]uint64{0x1fd04044: 0x10611002, 0x1fd04100: 1 << 14}, pcie,
			map[uint64]uint64{0xffff_ffff_ff00_0044: 0x10611002}},
	} {
		t.Run(c.board.Name, func(t *testing.T) {
			d := New(c.board)
			d.AsHardware()
			b := mapBAR(t, d, 0)
			for offset, want := range c.bar {
				if got := load(t, d, &b, offset, 4); got != want {
					t.Errorf("%s: BAR 0 has %#x at %#x, want %#x", c.board.Name, got, offset, want)
				}
			}
			size := c.board.TLB.Groups[0].Size
			for address, want := range c.noc {
				w := mapTLBWindow(t, d, 0, size, c.tile, address&^(size-1))
				if got := load(t, d, &w, address&(size-1), 4); got != want {
					t.Errorf("%s: tile %v has %#x at %#x, want %#x", c.board.Name, *c.tile, got,
						address, want)
				}
				d.windows[0].port = nil
			}
		})
	}
	for _, c := range []struct {
		board   *boards.Board
		tile    *fbs.TileRoute
		address uint64
	}{
		{&boards.Wormhole, arc, 0x8_2007_8d60},
		// NIU_CFG_0
		{&boards.Blackhole, pcie, 0xffff_ffff_ff00_0100},
		// ARC_MSI_FIFO
		{&boards.Blackhole, &fbs.TileRoute{X: 8, Y: 0, Ordering: boards.OrderingDefault},
			0x800b_0000},
	} {
		t.Run(fmt.Sprint(c.board.Name, " ", c.address), func(t *testing.T) {
			for hardware, want := range map[bool]hal.Code{false: hal.Refused, true: hal.OK} {
				d := New(c.board)
				if hardware {
					d.AsHardware()
				}
				size := c.board.TLB.Groups[0].Size
				w := mapTLBWindow(t, d, 0, size, nil, 0)
				// For an image, ProgramWindow already rejects the PCIe tile.
				code := d.ProgramWindow(&w, *c.tile, c.address&^(size-1))
				if code == hal.OK {
					_, code = LoadAt(&w, uint32(c.address&(size-1)), 4)
				}
				if code != want {
					t.Errorf("%s, AsHardware %v: load at %#x of tile %v: %v, want %v", c.board.Name,
						hardware, c.address, *c.tile, code, want)
				}
			}
		})
	}
}

// The message returns the clock in a register, in MHz.
func TestARCReportsItsClock(t *testing.T) {
	d := New(&boards.Wormhole)
	d.AsHardware()
	b := mapBAR(t, d, 0)
	for _, s := range [][2]uint64{{0x1ff3006c, 0xffffffff}, {0x1ff30074, 0xaa34},
		{0x1ff30100, 1 << 16}} {
		store(t, d, &b, s[0], 4, s[1])
	}
	if status, clock := load(t, d, &b, 0x1ff30074, 4),
		load(t, d, &b, 0x1ff3006c, 4); status != 0x34 || clock != 500 {
		t.Errorf("status %#x, %d MHz, want 0x34, 500 MHz", status, clock)
	}
}

// TestARCReportsWhereOlderTelemetryIs sends the message that returns the offset of the telemetry.
// tt-umd adds the offset to the address of the CSM on the NoC, and reads the firmware's version
// there.
func TestARCReportsWhereOlderTelemetryIs(t *testing.T) {
	d := New(&boards.Wormhole)
	d.AsHardware()
	b := mapBAR(t, d, 0)
	for _, s := range [][2]uint64{{0x1ff3006c, 0}, {0x1ff30074, 0xaa2c}, {0x1ff30100, 1 << 16}} {
		store(t, d, &b, s[0], 4, s[1])
	}
	address := 0x8_1000_0000 + load(t, d, &b, 0x1ff3006c, 4) + 49*4
	arc, size := &fbs.TileRoute{X: 0, Y: 10, Ordering: boards.OrderingDefault}, uint64(1<<20)
	w := mapTLBWindow(t, d, 0, size, arc, address&^(size-1))
	if version := load(t, d, &w, address&(size-1), 4); version != arcFirmware {
		t.Errorf("firmware version %#x at %#x, want %#x", version, address, arcFirmware)
	}
}
