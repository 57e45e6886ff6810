package mock

// This file models the memory that a device reaches by itself.

import "lightmetal/hal"

// hostBus is the bus address of the first host buffer. It has at most 28 bits, which is what
// edu reaches by default.
const hostBus = 0x0100_0000

// hostMemory is the access.bar of host memory.
const hostMemory = 8

// Host is the memory that a device reaches while it is bus master: the Host windows of an
// image, each at its own bus address, and the memory in the BARs of devices on its bus.
type Host struct {
	buffers     []*hostPort
	isBusMaster func() bool // nil means always
	peers       []*Device
	unreachable bool                          // the fault NoDMA has been injected
	outside     func(bus, size uint64) []byte // memory of another process; may be nil
}

// AttachHostMemory makes the device use memory outside of this process instead of its own
// host buffers. bytes returns the memory at a bus address, nil if the device may not reach
// it; it also decides whether the device is bus master. Tiles reach that memory through the
// address translation that the client has programmed.
func (d *Device) AttachHostMemory(bytes func(bus, size uint64) []byte) {
	d.host.outside = bytes
	if d.board.Outbound == nil {
		return
	}
	d.host.outside = func(noc, size uint64) []byte {
		bus, ok := d.busAddress(noc, size)
		if !ok {
			return nil
		}
		return bytes(bus, size)
	}
}

// SetInterruptHandler makes the device call raise for each interrupt, if its model has
// interrupts.
func (d *Device) SetInterruptHandler(raise func()) {
	if i, ok := d.model.(Interrupter); ok {
		i.Interrupt(raise)
	}
}

// hostPort is a host buffer. It implements hal.Port.
type hostPort struct {
	d    *Device
	bus  uint64
	data []byte
}

// reserveBuffer adds a host buffer. One page after each buffer stays free, so that an overrun
// does not reach the next one. On a device with tiles the bus addresses are those that tiles
// use, as if its address translation had been programmed.
func (h *Host) reserveBuffer(d *Device, size uint64) *hostPort {
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

// Bytes returns size bytes of memory at a bus address, nil if the device cannot reach them.
// Memory of another device must lie within one page.
func (h *Host) Bytes(bus, size uint64) []byte {
	if h.unreachable {
		return nil
	}
	if h.outside != nil {
		return h.outside(bus, size)
	}
	if h.isBusMaster != nil && !h.isBusMaster() {
		return nil
	}
	for _, p := range h.buffers {
		length := uint64(len(p.data))
		if bus >= p.bus && bus-p.bus <= length && size <= length-(bus-p.bus) {
			return p.data[bus-p.bus:][:size]
		}
	}
	for _, peer := range h.peers {
		if memory := peer.sharedMemory(bus, size); memory != nil {
			return memory
		}
	}
	return nil
}

// Load implements hal.Port. Accesses to host memory take time, so that polls end, but do not
// count as operations of the device.
func (p *hostPort) Load(offset uint64, width uint8) (uint64, hal.Code) {
	p.d.Sleep(accessNs)
	if c := p.checkAccess(Load, offset, width); c != hal.OK {
		return 0, c
	}
	return loadLittleEndian(p.data[offset:], width), hal.OK
}

// Store implements hal.Port.
func (p *hostPort) Store(offset uint64, width uint8, value uint64) hal.Code {
	p.d.Sleep(accessNs)
	if c := p.checkAccess(Store, offset, width); c != hal.OK {
		return c
	}
	storeLittleEndian(p.data[offset:], width, value)
	return hal.OK
}

func (p *hostPort) checkAccess(op Op, offset uint64, width uint8) hal.Code {
	size := uint64(len(p.data))
	outside := uint64(width) > size || offset > size-uint64(width)
	p.d.at = access{op: op, bar: hostMemory, offset: p.bus + offset, width: width, outside: outside}
	return p.d.checkAccess(p.d.at)
}
