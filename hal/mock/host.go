package mock

// This file models the memory that a device accesses by DMA.

import (
	"math"

	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// hostBus is the bus address of the first host buffer. It is below 2^28, because QEMU's edu device
// accesses only addresses of up to 28 bits by default.
const hostBus = 0x0100_0000

// hostMemory is the value of access.bar for host memory.
const hostMemory = 8

// Host is the memory that a device accesses by DMA while it is bus master. It consists of the
// device's Host windows, and of the memory in BARs of the devices on the same bus.
type Host struct {
	buffers     []*hostPort                   // one buffer for each Host window
	isBusMaster func() bool                   // nil: the device is always bus master
	peers       []*Device                     // devices on the same bus; nil if not connected
	unreachable bool                          // the fault NoDMA has been injected
	outside     func(bus, size uint64) []byte // set by AttachHostMemory, else nil
}

// AttachHostMemory makes the device access memory of another process instead of its own host
// buffers. The function must return this memory, or nil if the device must not access it, for
// example because it is not bus master. On a device with tiles, tiles reach that memory through the
// outbound translation that the client has programmed.
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

// SetInterruptHandler makes the device call raise for each interrupt message. It has no effect
// if the model of the device has no interrupts.
func (d *Device) SetInterruptHandler(raise func()) {
	if i, ok := d.model.(Interrupter); ok {
		i.Interrupt(raise)
	}
}

// EnableVectors implements hal.Device.
func (d *Device) EnableVectors(_ gen.InterruptKind, count uint16) error {
	if v, ok := d.model.(VectorUser); ok {
		v.SetVectors(count)
	}
	return nil
}

// hostPort is a host buffer: the memory of one Host window.
type hostPort struct {
	d    *Device
	bus  uint64 // bus address of the first byte
	data []byte
}

// reserveBuffer adds a host buffer at the bus address fixedBus, or at the next free bus address if
// fixedBus is 0. In the second case, at least a page before the buffer stays unused, so that an
// access beyond the previous buffer reaches nothing. On a device with tiles, the bus address of a
// buffer is the address that the tiles use, as if the outbound translation had been programmed.
// reserveBuffer returns nil if fixedBus is out of reach, or not above all earlier buffers.
func (h *Host) reserveBuffer(d *Device, size, fixedBus uint64) *hostPort {
	first, last := uint64(0), uint64(math.MaxUint64)
	next := uint64(hostBus)
	if o := d.board.Outbound; o != nil {
		first, last = o.NoCBase, o.NoCBase+o.OffsetMax
		next = first
	}
	if n := len(h.buffers); n > 0 {
		before := h.buffers[n-1]
		first = before.bus + (uint64(len(before.data))+pageSize-1)/pageSize*pageSize
		next = first + pageSize
	}
	p := &hostPort{d: d, bus: next, data: make([]byte, size)}
	if fixedBus != 0 {
		if fixedBus < first || fixedBus > last || size-1 > last-fixedBus {
			return nil
		}
		p.bus = fixedBus
	}
	h.buffers = append(h.buffers, p)
	return p
}

// Bytes returns memory at a bus address. It returns nil if the device cannot access all of it, and
// if it is memory of another device and crosses a page boundary.
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

// Load implements hal.Port. An access to host memory takes time, so that a poll of host memory
// reaches its deadline. It does not count as an operation of the device.
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
