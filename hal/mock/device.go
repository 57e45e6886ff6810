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

// accessNs is how long one access takes on the virtual clock. It is not zero,
// so that a poll without an interval meets its deadline.
const accessNs = 100

// barBus is where BAR n of the first device on a bus is seen by other devices:
// n times barBusStride further. The next device's follow deviceBusStride later.
const (
	barBus          = 0x80_0000_0000
	barBusStride    = 0x10_0000_0000
	deviceBusStride = 0x80_0000_0000
)

// Device is a stand-in for one PCIe function. It implements hal.Device.
type Device struct {
	hal.BaseDevice
	board   *boards.Board
	model   Model
	clock   Clocked // model, where it is one
	address string  // as in hal.Identity
	bars    [6]uint64
	system  uint32
	bus     uint64 // of BAR 0
	windows []window
	host    Host
	config  *Memory // configuration space

	at         access // the operation under way
	operations int
	now        int64
	gone       bool

	hardware bool   // it is seen by a kernel
	arc      *arc   // then
	driver   Memory // registers for its driver
	closed   bool
	refusal  string

	faults      []Fault
	recording   bool
	journal     []Access
	journalMost int // accesses of the journal
}

// made counts the devices made by this process, which numbers them.
var made atomic.Int64

// New gives a device of the board with the model that suits it.
func New(b *boards.Board) *Device { return NewWith(b, modelOf(b)) }

// NewWith gives a device of the board with a model of the caller's.
func NewWith(b *boards.Board, m Model) *Device {
	address := fmt.Sprintf("mock device %d", made.Add(1))
	d := &Device{board: b, model: m, address: address, bars: b.Bars, bus: barBus}
	d.clock, _ = m.(Clocked)
	if b.TLB != nil {
		last := b.TLB.Groups[len(b.TLB.Groups)-1]
		d.windows = make([]window, last.First+last.Count)
	}
	if master, ok := m.(Master); ok {
		master.Connect(&d.host)
	}
	d.config = &Memory{}
	d.config.Store(Place{Bar: ConfigSpace, Address: 0}, 2, uint64(b.Vendor))
	d.config.Store(Place{Bar: ConfigSpace, Address: 2}, 2, uint64(b.Device))
	d.config.Store(Place{Bar: ConfigSpace, Address: 4}, 2, 6) // memory decoding and bus master on
	d.host.master = d.isMaster
	return d
}

// Connect puts devices on one bus, where each that is a Master reaches the
// memory in the others' BARs, and gives them one clock. It comes before the
// first Map.
func Connect(devices ...*Device) {
	for i, d := range devices {
		d.bus = barBus + uint64(i)*deviceBusStride
		d.host.peers = devices
	}
}

// isMaster tells whether the bus master bit of the command register is set.
func (d *Device) isMaster() bool {
	command, _ := d.config.Load(Place{Bar: ConfigSpace, Address: 4}, 2)
	return command&4 != 0
}

// shared is plain memory in a BAR, by bus address and within one page; nil where there is none.
func (d *Device) shared(bus, size uint64) []byte {
	memory, ok := d.model.(*Memory)
	if !ok || d.gone || d.closed || size > pageSize-bus%pageSize {
		return nil
	}
	for bar, length := range d.bars {
		offset := bus - d.bus - uint64(bar)*barBusStride
		if offset >= length || size > length-offset {
			continue
		}
		if r := d.board.FindRule(uint8(bar), offset, size); r != nil && r.Memory {
			return memory.bytes(Place{Bar: uint8(bar), Address: offset})[:size]
		}
	}
	return nil
}

// Resize gives a BAR another size than the board's, 0 takes it away. It comes before the first Map.
func (d *Device) Resize(bar uint8, size uint64) { d.bars[bar] = size }

// Subsystem gives the device the ids of a card, as at 0x2c of configuration space.
func (d *Device) Subsystem(ids uint32) {
	d.system = ids
	d.config.Store(Place{Bar: ConfigSpace, Address: 0x2c}, 4, uint64(ids))
}

// AsHardware makes the device one that a kernel sees: the registers that aim
// windows can be loaded, which the maker's simulator refuses, and the window of
// the kernel driver is there for it, as is a processor that answers it.
func (d *Device) AsHardware() {
	d.hardware = true
	d.arc = newArc(d)
}

// Identity implements hal.Device.
func (d *Device) Identity() hal.Identity {
	return hal.Identity{Name: "mock:" + d.board.Name, Address: d.address,
		Vendor: d.board.Vendor, Device: d.board.Device, Subsystem: d.system, Bars: d.bars}
}

// Map implements hal.Device.
func (d *Device) Map(w fbs.Window) (hal.Aperture, error) {
	if d.closed {
		return hal.Aperture{}, d.fault(hal.NoDevice, "it is closed")
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
				"configuration space has %d bytes, not %d", configSize, w.Size)
		}
		return hal.NewAperture(&port{d: d, bar: ConfigSpace, size: w.Size}, w.Size, -1), nil
	}
	return hal.Aperture{}, d.fault(hal.Usage, "window kind %d cannot be mapped", w.Kind)
}

func (d *Device) mapBar(w fbs.Window) (hal.Aperture, error) {
	if int(w.Bar) >= len(d.bars) || w.Offset > d.bars[w.Bar] || w.Size > d.bars[w.Bar]-w.Offset {
		return hal.Aperture{}, d.fault(hal.WrongDevice, "%d bytes at %#x are not in BAR %d", w.Size,
			w.Offset, w.Bar)
	}
	a := hal.NewAperture(&port{d: d, bar: w.Bar, base: w.Offset, size: w.Size}, w.Size, -1)
	a.Bus = d.bus + uint64(w.Bar)*barBusStride + w.Offset
	return a, nil
}

func (d *Device) mapTLB(w fbs.Window) (hal.Aperture, error) {
	if d.board.TLB == nil {
		return hal.Aperture{}, d.fault(hal.WrongDevice, "it has no movable windows")
	}
	slot := d.board.TLB.ChooseWindow(w.Slot, w.Size, &d.bars,
		func(slot int) bool { return d.windows[slot].port != nil })
	if slot < 0 {
		return hal.Aperture{}, d.fault(hal.NoDevice, "no window of %d bytes is free", w.Size)
	}
	g := d.board.TLB.GroupOf(slot)
	d.windows[slot].port = &port{d: d, bar: g.Bar, base: g.WindowOffset(slot), size: w.Size}
	return hal.NewAperture(d.windows[slot].port, w.Size, slot), nil
}

func (d *Device) mapHost(w fbs.Window) (hal.Aperture, error) {
	p := d.host.reserve(d, w.Size)
	a := hal.NewAperture(p, w.Size, -1)
	a.Bus = p.bus
	return a, nil
}

// Point implements hal.Device. It makes the stores that a client without a driver would make, and
// they count as operations.
func (d *Device) ProgramWindow(a *hal.Aperture, t fbs.TileRange, address uint64) hal.Code {
	slot := a.Slot
	if slot < 0 || slot >= len(d.windows) || d.windows[slot].port == nil {
		d.at = access{op: point}
		return d.refuse("aperture of window %d was not mapped from a Tlb window of this device",
			slot)
	}
	l := d.board.TLB
	g := l.GroupOf(slot)
	inside := address & (g.Size - 1)
	words, ok := l.EncodeWindow(g, t, address-inside)
	d.at = access{op: point}
	if !ok || inside+a.Size > g.Size {
		return d.refuse("window %d of %d bytes cannot be pointed at %+v, address %#x", slot, g.Size,
			t, address)
	}
	if c := d.checkClosed(slot, t, address, a.Size); c != hal.OK {
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
		return hal.OK // the stores went nowhere
	}
	_, c := d.aim(slot)
	return c
}

// Alive and Diagnose implement hal.Device.
func (d *Device) Alive() bool        { return !d.gone && !d.closed }
func (d *Device) Diagnose() hal.Code { return hal.DiagnoseAlive(d) }

// Now implements hal.Device: virtual nanoseconds since the device was made.
func (d *Device) Now() int64 { return d.now }

// Sleep implements hal.Device. It returns at once.
func (d *Device) Sleep(nanoseconds int64) {
	if nanoseconds <= 0 {
		return
	}
	if d.host.peers == nil {
		d.advance(nanoseconds)
	}
	for _, peer := range d.host.peers {
		peer.advance(nanoseconds)
	}
}

func (d *Device) advance(nanoseconds int64) {
	d.now += nanoseconds
	if d.clock != nil {
		d.clock.Advance(nanoseconds)
	}
}

// Close implements hal.Device. Apertures refuse every access afterwards.
func (d *Device) Close() error {
	d.closed = true
	return nil
}

// Operations is the number of loads and stores so far that went to the device,
// those of Point among them. Host memory is not the device.
func (d *Device) Operations() int { return d.operations }

// Refusal says why the device answered hal.Refused for the first time, empty
// if it never did. Later refusals are mostly consequences.
func (d *Device) Refusal() string { return d.refusal }

func (d *Device) fault(c hal.Code, format string, args ...any) error {
	return &hal.Fault{Code: c, Reason: "mock:" + d.board.Name + ": " + fmt.Sprintf(format, args...)}
}
