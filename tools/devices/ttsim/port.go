package ttsim

import (
	"cmp"
	"time"

	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// touch notes something that ends a run of loads of one address.
func (d *Device) touch() { d.loadClocks = 1 }

// endWait notes an access that ends a wait for one place.
func (d *Device) endWait() {
	d.touch()
	d.stop.waiting = time.Time{}
}

func (d *Device) load(address uint64, width uint8) (uint64, hal.Code) {
	clocks, code := d.clocks(address)
	if code != hal.OK {
		return ^uint64(0), code
	}
	return d.process.call(request{op: opLoad, size: uint32(width), address: address, value: clocks},
		nil, nil)
}

// clocks returns how many of them a load of an address lets pass, or the code with which it fails.
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

func (d *Device) store(address uint64, width uint8, value uint64) hal.Code {
	if code := d.stopped(); code != hal.OK {
		return code
	}
	d.endWait()
	_, code := d.process.call(request{op: opStore, size: uint32(width), address: address,
		value: value}, nil, nil)
	return code
}

// port is a range of a BAR.
type port struct {
	device *Device
	bar    uint8
	offset uint64 // of the aperture in the BAR
	start  uint64 // of the hardware window in the BAR, of a Tlb window
}

func (p *port) address(offset uint64) uint64 { return barBase[p.bar] + p.offset + offset }

func (p *port) Load(offset uint64, width uint8) (uint64, hal.Code) {
	if value, ok := p.device.shown(p.bar, p.offset+offset, width); ok {
		return value, p.device.process.died
	}
	return p.device.load(p.address(offset), width)
}

func (p *port) Store(offset uint64, width uint8, value uint64) hal.Code {
	if p.device.keep(p.bar, p.offset+offset, width, value) {
		return p.device.process.died
	}
	return p.device.store(p.address(offset), width, value)
}

// CopyIn writes data at offset in as few accesses as the library takes.
func (p *port) CopyIn(offset uint64, data []byte) hal.Code {
	return p.pieces(offset, data, func(address uint64, piece []byte) hal.Code {
		_, code := p.device.process.call(request{op: opCopyIn, size: uint32(len(piece)),
			address: address}, piece, nil)
		return code
	})
}

// CopyOut reads into data from offset in as few accesses as the library takes.
func (p *port) CopyOut(offset uint64, data []byte) hal.Code {
	return p.pieces(offset, data, func(address uint64, piece []byte) hal.Code {
		_, code := p.device.process.call(request{op: opCopyOut, size: uint32(len(piece)),
			address: address}, nil, piece)
		return code
	})
}

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

// room is the number of bytes one access at an offset of the BAR may span: to
// the end of the hardware window, or of the dword where no window lies.
func (p *port) room(offset uint64) uint64 {
	if l := p.device.board.TLB; l != nil {
		if slot, inside, ok := chips.SlotAt(l, p.bar, offset); ok {
			return l.GroupOf(slot).Size - inside
		}
	}
	return 4 - offset%4
}

// hostPort is host memory. Loads of it take time, so that a poll ends and what
// it waits for comes.
type hostPort struct {
	device *Device
	start  uint64 // as tiles see it
	data   []byte
}

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

// CopyIn and CopyOut are accesses as Store and Load are, in one go.
func (p *hostPort) CopyIn(offset uint64, data []byte) hal.Code {
	code := cmp.Or(p.device.process.died, p.device.stopped())
	p.device.endWait()
	if code == hal.OK {
		copy(p.data[offset:], data)
	}
	return code
}

func (p *hostPort) CopyOut(offset uint64, data []byte) hal.Code {
	code := cmp.Or(p.device.process.died, p.device.stopped())
	p.device.now += loadTime
	p.device.endWait()
	if code == hal.OK {
		copy(data, p.data[offset:])
	}
	return code
}

// config is PCI configuration space. The library has whole dwords only.
type config struct{ device *Device }

func (c *config) Load(offset uint64, width uint8) (uint64, hal.Code) {
	word, code := c.dword(offset)
	return word >> (offset % 4 * 8) & (1<<(8*width) - 1), code
}

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

func (c *config) dword(offset uint64) (uint64, hal.Code) {
	if code := c.device.stopped(); code != hal.OK {
		return ^uint64(0), code
	}
	c.device.now += loadTime
	return c.device.process.call(request{op: opConfigLoad, address: offset &^ 3}, nil, nil)
}
