package mock

import "lightmetal/hal"

// hostBus is the bus address of the first host buffer: within the 28 bits that edu reaches unless
// told otherwise.
const hostBus = 0x0100_0000

// hostMemory is the access.bar of host memory.
const hostMemory = 8

// Host is the memory that a device can reach while it is bus master: the Host
// windows of an image, each at a bus address of its own, and the memory in the
// BARs of the devices on its bus.
type Host struct {
	buffers []*hostPort
	master  func() bool // nil: always
	peers   []*Device
	cut     bool                          // nothing is reached
	outside func(bus, size uint64) []byte // memory of another process, nil: none
}

// Attach lets the device reach memory that lies outside of this process, by
// bus address and as long as bytes gives it. What else the device reaches by
// itself is then of no use: whoever attaches memory decides what is mapped, and
// whether the device masters the bus. Tiles reach what the client has the
// address translation of the device show them.
func (d *Device) Attach(bytes func(bus, size uint64) []byte) {
	d.host.outside = bytes
	if d.board.Outbound == nil {
		return
	}
	d.host.outside = func(noc, size uint64) []byte {
		bus, ok := d.shown(noc, size)
		if !ok {
			return nil
		}
		return bytes(bus, size)
	}
}

// Interrupts has a device that interrupts call raise when it does. Others never call it.
func (d *Device) Interrupts(raise func()) {
	if i, ok := d.model.(Interrupter); ok {
		i.Interrupt(raise)
	}
}

// hostPort is a host buffer and an aperture's way to it.
type hostPort struct {
	d    *Device
	bus  uint64
	data []byte
}

// reserve adds a buffer. A page stays free after each, so that running over
// the end of one hits none. The stand-in of a device with tiles aims its own
// translation: the addresses are those that tiles use.
func (h *Host) reserve(d *Device, size uint64) *hostPort {
	p := &hostPort{d: d, bus: hostBus, data: make([]byte, size)}
	if o := d.board.Outbound; o != nil {
		p.bus = o.NoC
	}
	if n := len(h.buffers); n > 0 {
		before := h.buffers[n-1]
		p.bus = before.bus + (uint64(len(before.data))+2*pageSize-1)/pageSize*pageSize
	}
	h.buffers = append(h.buffers, p)
	return p
}

// Bytes is memory at a bus address, nil where the device cannot reach size bytes there. That of a
// peer comes a page at a time.
func (h *Host) Bytes(bus, size uint64) []byte {
	if h.cut {
		return nil
	}
	if h.outside != nil {
		return h.outside(bus, size)
	}
	if h.master != nil && !h.master() {
		return nil
	}
	for _, p := range h.buffers {
		length := uint64(len(p.data))
		if bus >= p.bus && bus-p.bus <= length && size <= length-(bus-p.bus) {
			return p.data[bus-p.bus:][:size]
		}
	}
	for _, peer := range h.peers {
		if memory := peer.shared(bus, size); memory != nil {
			return memory
		}
	}
	return nil
}

// Host accesses take time, so that polls of host memory end, but they are no operations of the
// device.
func (p *hostPort) Load(offset uint64, width uint8) (uint64, hal.Code) {
	p.d.Sleep(accessNs)
	if c := p.check(Load, offset, width); c != hal.OK {
		return 0, c
	}
	return get(p.data[offset:], width), hal.OK
}

func (p *hostPort) Store(offset uint64, width uint8, value uint64) hal.Code {
	p.d.Sleep(accessNs)
	if c := p.check(Store, offset, width); c != hal.OK {
		return c
	}
	put(p.data[offset:], width, value)
	return hal.OK
}

func (p *hostPort) check(op Op, offset uint64, width uint8) hal.Code {
	size := uint64(len(p.data))
	outside := uint64(width) > size || offset > size-uint64(width)
	p.d.at = access{op: op, bar: hostMemory, offset: p.bus + offset, width: width, outside: outside}
	return p.d.check(p.d.at)
}
