package ttsim

import (
	"cmp"
	"time"

	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// touch is called for everything that ends a sequence of loads of the same address.
func (d *Device) touch() { d.loadClocks = 1 }

// endWait is called for every access that ends a wait for one address.
func (d *Device) endWait() {
	d.touch()
	d.stop.waiting = time.Time{}
}

// load executes a load from a physical address of the simulator.
func (d *Device) load(address uint64, width uint8) (uint64, hal.Code) {
	clocks, code := d.clocks(address)
	if code != hal.OK {
		return ^uint64(0), code
	}
	return d.process.call(request{op: opLoad, size: uint32(width), address: address, value: clocks},
		nil, nil)
}

// clocks returns the number of clock cycles that the simulator must execute for a load of an
// address, or the code with which the load must fail. It counts the load in Now.
func (d *Device) clocks(address uint64) (clocks uint64, code hal.Code) {
	if d.polled != address {
		d.touch()
	}
	if d.polled != address || d.stop.waiting.IsZero() {
		d.stop.waiting = time.Now()
	}
	if code = d.stopped(); code == hal.OK {
		code = d.stop.late()
	}
	clocks = d.loadClocks
	d.polled, d.loadClocks = address, min(2*clocks, loadClocksMax)
	d.now += loadTime
	return clocks, code
}

// store executes a store to a physical address of the simulator.
func (d *Device) store(address uint64, width uint8, value uint64) hal.Code {
	if code := d.stopped(); code != hal.OK {
		return code
	}
	d.endWait()
	_, code := d.process.call(request{op: opStore, size: uint32(width), address: address,
		value: value}, nil, nil)
	return code
}

// port implements hal.Port for an aperture of a BAR.
type port struct {
	device *Device
	bar    uint8
	offset uint64 // offset of the aperture in the BAR
	start  uint64 // offset of the TLB window in the BAR, if the aperture is in one
}

// address returns the physical address in the simulator of an offset in the aperture.
func (p *port) address(offset uint64) uint64 { return barBase[p.bar] + p.offset + offset }

// Load implements hal.Port.
func (p *port) Load(offset uint64, width uint8) (uint64, hal.Code) {
	if value, ok := p.device.shown(p.bar, p.offset+offset, width); ok {
		return value, p.device.process.died
	}
	return p.device.load(p.address(offset), width)
}

// Store implements hal.Port.
func (p *port) Store(offset uint64, width uint8, value uint64) hal.Code {
	if p.device.keep(p.bar, p.offset+offset, width, value) {
		return p.device.process.died
	}
	return p.device.store(p.address(offset), width, value)
}

// CopyIn copies data to the aperture, in the largest accesses that the library accepts.
func (p *port) CopyIn(offset uint64, data []byte) hal.Code {
	return p.pieces(offset, data, func(address uint64, piece []byte) hal.Code {
		_, code := p.device.process.call(request{op: opCopyIn, size: uint32(len(piece)),
			address: address}, piece, nil)
		return code
	})
}

// CopyOut copies from the aperture to data, in the largest accesses that the library accepts.
func (p *port) CopyOut(offset uint64, data []byte) hal.Code {
	return p.pieces(offset, data, func(address uint64, piece []byte) hal.Code {
		_, code := p.device.process.call(request{op: opCopyOut, size: uint32(len(piece)),
			address: address}, nil, piece)
		return code
	})
}

// pieces calls `do` for each part of data that one access can copy, with its physical address.
func (p *port) pieces(offset uint64, data []byte, do func(uint64, []byte) hal.Code) hal.Code {
	if code := p.device.stopped(); code != hal.OK {
		return code
	}
	p.device.endWait()
	for len(data) > 0 {
		n := min(uint64(len(data)), chunkMax, p.room(p.offset+offset))
		if code := do(p.address(offset), data[:n]); code != hal.OK {
			return code
		}
		offset, data = offset+n, data[n:]
	}
	return hal.OK
}

// room returns the largest number of bytes of one access at an offset in the BAR: up to the end of
// the TLB window or, outside TLB windows, of the dword.
func (p *port) room(offset uint64) uint64 {
	if l := p.device.board.TLB; l != nil {
		if slot, inside, ok := chips.SlotAt(l, p.bar, offset); ok {
			return l.GroupOf(slot).Size - inside
		}
	}
	return 4 - offset%4
}

// hostPort implements hal.Port for host memory. Loads take time, so that a poll reaches its
// deadline and the simulator can change the memory.
type hostPort struct {
	device *Device
	start  uint64 // address of the first byte for tiles
	data   []byte
}

// Load implements hal.Port.
func (p *hostPort) Load(offset uint64, width uint8) (value uint64, code hal.Code) {
	d := p.device
	clocks, code := d.clocks(p.start + offset)
	if code = cmp.Or(d.process.died, code); code != hal.OK {
		return ^uint64(0), code
	}
	for i := range uint64(width) {
		value |= uint64(p.data[offset+i]) << (8 * i)
	}
	_, code = d.process.call(request{op: opClock, value: clocks}, nil, nil)
	return value, code
}

// Store implements hal.Port.
func (p *hostPort) Store(offset uint64, width uint8, value uint64) hal.Code {
	if code := cmp.Or(p.device.process.died, p.device.stopped()); code != hal.OK {
		return code
	}
	p.device.endWait()
	for i := range uint64(width) {
		p.data[offset+i] = byte(value >> (8 * i))
	}
	return hal.OK
}

// CopyIn copies data to the memory, like stores.
func (p *hostPort) CopyIn(offset uint64, data []byte) hal.Code {
	code := cmp.Or(p.device.process.died, p.device.stopped())
	p.device.endWait()
	if code == hal.OK {
		copy(p.data[offset:], data)
	}
	return code
}

// CopyOut copies from the memory to data, and counts as one load.
func (p *hostPort) CopyOut(offset uint64, data []byte) hal.Code {
	code := cmp.Or(p.device.process.died, p.device.stopped())
	p.device.now += loadTime
	p.device.endWait()
	if code == hal.OK {
		copy(data, p.data[offset:])
	}
	return code
}

// config implements hal.Port for PCI configuration space. The library supports only accesses of
// complete dwords.
type config struct{ device *Device }

// Load implements hal.Port.
func (c *config) Load(offset uint64, width uint8) (uint64, hal.Code) {
	word, code := c.dword(offset)
	return word >> (offset % 4 * 8) & (1<<(8*width) - 1), code
}

// Store implements hal.Port.
func (c *config) Store(offset uint64, width uint8, value uint64) hal.Code {
	word, code := c.dword(offset)
	if code != hal.OK {
		return code
	}
	shift := offset % 4 * 8
	mask := uint64(1<<(8*width)-1) << shift
	word = word&^mask | value<<shift&mask
	_, code = c.device.process.call(request{op: opConfigStore, address: offset &^ 3, value: word},
		nil, nil)
	return code
}

// dword loads the dword that contains an offset.
func (c *config) dword(offset uint64) (uint64, hal.Code) {
	if code := c.device.stopped(); code != hal.OK {
		return ^uint64(0), code
	}
	c.device.now += loadTime
	return c.device.process.call(request{op: opConfigLoad, address: offset &^ 3}, nil, nil)
}
