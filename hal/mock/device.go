package mock

import (
	"fmt"
	"sync/atomic"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// accessNs is the time of one access on the virtual clock, in nanoseconds. It is not zero, so that
// a poll without pauses also reaches its deadline.
const accessNs = 100

// Bus addresses of BARs, for other devices. BAR n of the first device begins at barBus + n *
// barBusStride. The BARs of each further device begin deviceBusStride bytes after those of the
// previous device.
const (
	barBus          = 0x80_0000_0000
	barBusStride    = 0x10_0000_0000
	deviceBusStride = 0x80_0000_0000
)

// Device is a mock of one PCIe function. It implements hal.Device.
type Device struct {
	BaseDevice
	board   *boards.Board
	model   Model
	clock   Clocked   // the model, if it implements Clocked
	address string    // returned by Identity instead of a PCI address
	bars    [6]uint64 // sizes of the BARs in bytes
	system  uint32    // subsystem ids, see SetSubsystem
	bus     uint64    // bus address of BAR 0
	windows []window  // TLB windows, by slot
	host    Host      // host memory that the device reaches
	config  *Memory   // PCI configuration space

	at         access // current operation, for the texts of rejections
	operations int    // number so far; an operation is a load or a store
	now        int64  // virtual clock in nanoseconds
	gone       bool   // the fault AllOnes has occurred: the device no longer answers

	hardware bool   // a kernel driver may use the device, because AsHardware was called
	arc      *arc   // management processor; nil unless hardware is set
	driver   Memory // registers that only kernel drivers use
	closed   bool   // Close was called
	refusal  string // reason for the first rejected access

	lastRefusal string // reason for the last rejected access

	faults      []Fault  // injected faults
	recording   bool     // accesses are added to journal
	journal     []Access // recorded accesses
	journalMost int      // largest number of accesses that journal may contain
}

// deviceCount is the number of mock devices that this process has created.
var deviceCount atomic.Int64

// New returns a mock of the board with the default model of that board.
func New(b *boards.Board) *Device { return NewWith(b, defaultModel(b)) }

// NewWith returns a mock of the board with the model m.
func NewWith(b *boards.Board, m Model) *Device {
	address := fmt.Sprintf("mock device %d", deviceCount.Add(1))
	d := &Device{board: b, model: m, address: address, bars: b.BarSizes, bus: barBus}
	d.clock, _ = m.(Clocked)
	if b.TLB != nil {
		last := b.TLB.Groups[len(b.TLB.Groups)-1]
		d.windows = make([]window, last.First+last.Count)
	}
	if master, ok := m.(BusMaster); ok {
		master.Connect(&d.host)
	}
	d.config = &Memory{}
	d.config.Store(Place{Bar: ConfigSpace, Address: 0}, 2, uint64(b.Vendor))
	d.config.Store(Place{Bar: ConfigSpace, Address: 2}, 2, uint64(b.Device))
	d.config.Store(Place{Bar: ConfigSpace, Address: 4}, 2, 6) // memory decoding and bus master on
	d.host.isBusMaster = d.isBusMaster
	return d
}

// Connect connects devices to one bus and makes their clocks advance together. A device whose
// model implements BusMaster then reaches the memory in the BARs of the other devices. Call
// Connect before the first Map.
func Connect(devices ...*Device) {
	for i, d := range devices {
		d.bus = barBus + uint64(i)*deviceBusStride
		d.host.peers = devices
	}
}

func (d *Device) isBusMaster() bool {
	command, _ := d.config.Load(Place{Bar: ConfigSpace, Address: 4}, 2)
	return command&4 != 0
}

// sharedMemory returns memory in a BAR of this device, for DMA by another device. It returns nil if
// the range crosses a page boundary, or is not memory without side effects.
func (d *Device) sharedMemory(bus, size uint64) []byte {
	memory, ok := d.model.(*Memory)
	if !ok || d.gone || d.closed || size > pageSize-bus%pageSize {
		return nil
	}
	for bar, length := range d.bars {
		offset := bus - d.bus - uint64(bar)*barBusStride
		if offset >= length || size > length-offset {
			continue
		}
		if r := d.board.FindRule(uint8(bar), offset, size); r != nil && r.IsMemory {
			return memory.bytes(Place{Bar: uint8(bar), Address: offset})[:size]
		}
	}
	return nil
}

// ResizeBAR sets the size of a BAR in bytes; size 0 removes the BAR. Call ResizeBAR before
// the first Map.
func (d *Device) ResizeBAR(bar uint8, size uint64) { d.bars[bar] = size }

// SetSubsystem sets the subsystem ids (the ids of the card), which are at offset 0x2c of
// configuration space.
func (d *Device) SetSubsystem(ids uint32) {
	d.system = ids
	d.config.Store(Place{Bar: ConfigSpace, Address: 0x2c}, 4, uint64(ids))
}

// AsHardware prepares the device for use by a kernel driver. The device then accepts accesses
// that a driver needs and images must not make: loads of the registers that program TLB
// windows, and accesses through the TLB windows that belong to the driver. The ARC (the
// management processor of the chip) then answers messages.
func (d *Device) AsHardware() {
	d.hardware = true
	d.arc = newArc(d)
}

// Identity implements hal.Device.
func (d *Device) Identity() hal.Identity {
	return hal.Identity{Name: "mock:" + d.board.Name, Address: d.address,
		Vendor: d.board.Vendor, Device: d.board.Device, Subsystem: d.system, BarSizes: d.bars}
}

// Map implements hal.Device.
func (d *Device) Map(w fbs.Window) (hal.Aperture, error) {
	if d.closed {
		return hal.Aperture{}, d.fault(hal.NoDevice, "the device is closed")
	}
	switch w.Kind {
	case gen.WindowKindBar:
		return d.mapBar(w)
	case gen.WindowKindTlb:
		return d.mapTLB(w)
	case gen.WindowKindHost:
		return d.mapHost(w)
	case gen.WindowKindConfig:
		if w.Size > configSize {
			return hal.Aperture{}, d.fault(hal.WrongDevice,
				"configuration space has %d bytes, but the window has %d bytes", configSize, w.Size)
		}
		return hal.NewAperture(&port{d: d, bar: ConfigSpace, size: w.Size}, w.Size, -1), nil
	}
	return hal.Aperture{}, d.fault(hal.Usage, "the mock cannot map windows of kind %d", w.Kind)
}

func (d *Device) mapBar(w fbs.Window) (hal.Aperture, error) {
	if int(w.Bar) >= len(d.bars) || w.Offset > d.bars[w.Bar] || w.Size > d.bars[w.Bar]-w.Offset {
		return hal.Aperture{}, d.fault(hal.WrongDevice, "a window of %d bytes at offset %#x "+
			"does not fit into BAR %d", w.Size,
			w.Offset, w.Bar)
	}
	a := hal.NewAperture(&port{d: d, bar: w.Bar, base: w.Offset, size: w.Size}, w.Size, -1)
	a.BusAddress = d.bus + uint64(w.Bar)*barBusStride + w.Offset
	return a, nil
}

// mapTLB reserves a TLB window. The aperture is its first w.Size bytes.
func (d *Device) mapTLB(w fbs.Window) (hal.Aperture, error) {
	if d.board.TLB == nil {
		return hal.Aperture{}, d.fault(hal.WrongDevice, "the device has no TLB windows")
	}
	slot := d.board.TLB.ChooseWindow(w.Slot, w.Size, &d.bars,
		func(slot int) bool { return d.windows[slot].port != nil })
	if slot < 0 {
		return hal.Aperture{}, d.fault(hal.NoDevice, "no TLB window of %d bytes is free", w.Size)
	}
	g := d.board.TLB.GroupOf(slot)
	d.windows[slot].port = &port{d: d, bar: g.Bar, base: g.WindowOffset(slot), size: w.Size}
	return hal.NewAperture(d.windows[slot].port, w.Size, slot), nil
}

func (d *Device) mapHost(w fbs.Window) (hal.Aperture, error) {
	p := d.host.reserveBuffer(d, w.Size, fbs.FixedBusAddress(&w))
	if p == nil {
		return hal.Aperture{}, d.fault(hal.NoDevice,
			"cannot place %d bytes of host memory at bus address %#x: the range is in use or "+
				"out of reach",
			w.Size, w.Offset)
	}
	a := hal.NewAperture(p, w.Size, -1)
	a.BusAddress = p.bus
	return a, nil
}

// ProgramWindow implements hal.Device. It stores to the registers of the TLB window. These
// stores count as operations.
func (d *Device) ProgramWindow(a *hal.Aperture, t fbs.TileRoute, address uint64) hal.Code {
	slot := a.TLBWindow
	d.at = access{op: point}
	switch {
	case slot < 0:
		return d.refuse("the aperture does not belong to a TLB window")
	case slot >= len(d.windows) || d.windows[slot].port == nil:
		return d.refuse("TLB window %d is not mapped on this device", slot)
	}
	l := d.board.TLB
	g := l.GroupOf(slot)
	inside := address & (g.Size - 1)
	words, ok := l.EncodeWindow(g, t, address-inside)
	switch {
	case !ok:
		return d.refuse("the registers of TLB window %d cannot encode this address or route: "+
			"address %#x of %s", slot, address, RouteText(t))
	case inside+a.Size > g.Size:
		return d.refuse("the %d bytes at address %#x of %s must not cross a multiple of %d bytes, "+
			"the size of TLB window %d", a.Size, address, RouteText(t), g.Size, slot)
	}
	if c := d.checkForbidden(slot, t, address, a.Size); c != hal.OK {
		return c
	}
	d.windows[slot].port.base = g.WindowOffset(slot) + inside
	first := l.ConfigOffset + uint64(slot)*l.ConfigStride
	for register := uint64(0); register < l.ConfigStride; register += uint64(l.ConfigWidth) {
		at := access{op: Store, bar: l.ConfigBar, offset: first + register, width: l.ConfigWidth}
		if c := d.store(at, chips.LoadRegister(&words, register, l.ConfigWidth)); c != hal.OK {
			return c
		}
	}
	if d.gone {
		return hal.OK // the stores had no effect
	}
	_, c := d.pointedWindow(slot)
	return c
}

// Alive implements hal.Device.
func (d *Device) Alive() bool { return !d.gone && !d.closed }

// Diagnose implements hal.Device.
func (d *Device) Diagnose() hal.Code { return GoneUnlessAlive(d) }

// Now implements hal.Device. The virtual time begins when the device is created.
func (d *Device) Now() int64 { return d.now }

// Sleep implements hal.Device. It advances the virtual clock and returns immediately.
func (d *Device) Sleep(nanoseconds int64) {
	if nanoseconds <= 0 {
		return
	}
	if d.host.peers == nil {
		d.advanceClock(nanoseconds)
	}
	for _, peer := range d.host.peers {
		peer.advanceClock(nanoseconds)
	}
}

func (d *Device) advanceClock(nanoseconds int64) {
	d.now += nanoseconds
	if d.clock != nil {
		d.clock.Advance(nanoseconds)
	}
}

// Halt stops the processors that the device models. The virtual clock goes on, so a run that waits
// for them soon reaches its deadline. Any goroutine may call it.
func (d *Device) Halt() {
	if model, ok := d.model.(Halter); ok {
		model.Halt()
	}
}

// Close implements hal.Device. After Close, the apertures of the device reject every access.
func (d *Device) Close() error {
	d.closed = true
	return nil
}

// Operations returns the number of operations so far. An operation is a load from or a store
// to the device, including the stores of ProgramWindow, but not an access to host memory.
func (d *Device) Operations() int { return d.operations }

// Refusal returns the reason for the first access that the device rejected with hal.Refused, or ""
// if it has rejected none. Later rejections are usually consequences of the first.
func (d *Device) Refusal() string { return d.refusal }

// LastRefusal returns the reason for the last access that the device rejected with hal.Refused, or
// "" if it has rejected none. After a failed run this may be an access of the sequence safe.
func (d *Device) LastRefusal() string { return d.lastRefusal }

// RouteText returns a text for messages, such as "tile (1,2)".
func RouteText(t boards.TileRoute) string {
	if t.Multicast {
		return fmt.Sprintf("tiles (%d,%d) to (%d,%d)", t.XStart, t.YStart, t.X, t.Y)
	}
	return fmt.Sprintf("tile (%d,%d)", t.X, t.Y)
}

func (d *Device) fault(c hal.Code, format string, args ...any) error {
	return &hal.Fault{Code: c, Reason: "mock:" + d.board.Name + ": " + fmt.Sprintf(format, args...)}
}
