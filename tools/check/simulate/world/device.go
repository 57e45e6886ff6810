//go:build world

package main

import (
	goruntime "runtime"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"

	"golang.org/x/sys/unix"
)

// Kinds of faults, of a device's accesses from the nth on, for as many as length.
const (
	busError byte = iota
	unplugged
	allOnes
	wrongBit
	late
	stuckBit
	reset
	lostDMA
	noMaster
	faultKinds
)

type fault struct {
	kind   byte
	at     int
	length int
	bit    uint64
}

// device is a mock behind what goes wrong with it, and holds each access against
// the windows and rules of the image.
type device struct {
	*mock.Device
	w        *world
	index    int
	memory   *memory // the mock's, where it is plain
	accesses int
	faults   []fault
	health
	mastered bool
	closed   bool
}

// health is what a device is to say of itself.
type health struct {
	gone bool
	dma  hal.Code // what Diagnose is to say
}

func (h *health) state() hal.Code {
	if h.gone {
		return hal.DeviceGone
	}
	return h.dma
}

// mastering is a device that reaches memory by itself, and whose driver puts it to
// rest.
type mastering struct{ *device }

// memory is a Model that forgets at a reset.
type memory struct{ bytes map[mock.Place]byte }

func (m *memory) Load(at mock.Place, width uint8) (value uint64, code hal.Code) {
	for i := range width {
		value |= uint64(m.bytes[at]) << (8 * i)
		at.Address++
	}
	return value, hal.OK
}

func (m *memory) Store(at mock.Place, width uint8, value uint64) hal.Code {
	if m.bytes == nil {
		m.bytes = map[mock.Place]byte{}
	}
	for i := range width {
		m.bytes[at] = byte(value >> (8 * i))
		at.Address++
	}
	return hal.OK
}

// aperture is a window of the image, as Map made it.
type aperture struct {
	d     *device
	index uint16
	inner hal.Port
}

func (d *device) Map(window fbs.Window) (hal.Aperture, error) {
	w := d.w
	if len(w.buses) == w.mapFails {
		return hal.Aperture{}, &hal.Fault{Code: hal.NoDevice, Reason: "no window is left"}
	}
	inner, err := d.Device.Map(window)
	if err != nil {
		return inner, err
	}
	a := hal.NewAperture(&aperture{d, uint16(len(w.buses)), inner.Port}, inner.Size, inner.Slot)
	if window.Kind == gen.WindowKindBar || window.Kind == gen.WindowKindHost {
		a.BusAddress = 0x1000_0000 + uint64(len(w.buses))<<24
	}
	w.buses = append(w.buses, a.BusAddress)
	w.slots[a.Slot+1000*d.index] = uint16(len(w.buses) - 1)
	if !w.ours { // whose models know addresses
		a.BusAddress = inner.BusAddress
		w.buses[len(w.buses)-1] = inner.BusAddress
	}
	return a, nil
}

func (d *device) ProgramWindow(a *hal.Aperture, t fbs.TileRoute, address uint64) hal.Code {
	window := d.w.slots[a.Slot+1000*d.index]
	_, code := d.w.access(d, access{kind: point, window: window, value: address, mask: t.Pack()},
		func() (uint64, hal.Code) {
			return 0, d.Device.ProgramWindow(a, t, address)
		})
	return code
}

func (a *aperture) Load(offset uint64, width uint8) (uint64, hal.Code) {
	return a.d.w.access(a.d, access{kind: load, window: a.index, width: width, offset: offset},
		func() (uint64, hal.Code) {
			return a.inner.Load(offset, width)
		})
}

func (a *aperture) Store(offset uint64, width uint8, value uint64) hal.Code {
	_, code := a.d.w.access(a.d, access{kind: store, window: a.index, width: width, offset: offset,
		value: value}, func() (uint64, hal.Code) {
		return 0, a.inner.Store(offset, width, value)
	})
	return code
}

func (d *device) Alive() bool        { return !d.gone }
func (d *device) Diagnose() hal.Code { return hal.DeviceGoneUnlessAlive(d) }
func (d *device) Now() int64         { return d.w.now }

func (d *device) Sleep(nanoseconds int64) {
	d.w.now += nanoseconds
	d.Device.Sleep(nanoseconds)
	if d.w.model.want.kind == nap {
		d.w.model.answer(access{kind: nap}, 0, hal.OK)
	}
}

func (d *device) Close() error {
	d.closed, d.mastered = true, false
	return nil
}

func (m mastering) AssignBusAddress(*hal.Aperture, hal.Device) error { return nil }

func (m mastering) SetBusMaster(on bool) error {
	if on && m.w.masterFails {
		return &hal.Fault{Code: hal.NoDevice, Reason: "it may not reach memory"}
	}
	m.mastered = on
	return nil
}

func (m mastering) Diagnose() hal.Code {
	return m.state()
}

func (m mastering) RegisterExitCleanup(*fbs.View, int) (string, error) {
	m.w.armed++
	return "", nil
}

// state is what the devices say of themselves, in their order.
func (w *world) state() hal.Code {
	for _, d := range w.devices {
		if code := d.state(); code != hal.OK {
			return code
		}
	}
	return hal.OK
}

const accessNs = 100

// access is every access of the runner: time passes, things happen, it is held
// against image and model, and answered.
func (w *world) access(d *device, a access, do func() (uint64, hal.Code)) (uint64, hal.Code) {
	w.model.arrived = w.now
	w.step()
	w.now += accessNs
	w.digest(a)
	if d.closed {
		w.violate("%+v comes when the device is closed", a)
	}
	if a.kind != point {
		w.within(a)
	}
	w.model.expect(a)
	value, code := d.answer(a, do)
	w.model.answer(a, value, code)
	if w.wrong != "" {
		goruntime.Goexit()
	}
	if code == hal.BusFault && d.accesses%2 == 1 {
		_ = *(*byte)(unsafe.Pointer(w.nowhere)) // as mapped memory answers
	}
	return value, code
}

// within holds an access against window and rule, by the image's own words.
func (w *world) within(a access) {
	window := &w.view.Windows[a.window]
	width := uint64(a.width)
	if width != 1 && width != 2 && width != 4 && width != 8 || a.offset > window.Size ||
		width > window.Size-a.offset {
		w.violate("%+v is outside its window of %#x bytes", a, window.Size)
		return
	}
	if (window.Offset+a.offset)%width != 0 {
		w.violate("%+v is not aligned, in a window at %#x", a, window.Offset)
	}
	if window.Kind != gen.WindowKindBar {
		return
	}
	rule := w.view.Board(int(window.Device)).FindRule(window.Bar, window.Offset+a.offset, width)
	if rule == nil || rule.Widths&a.width == 0 {
		w.violate("%+v is not for a register there", a)
	}
}

// answer is what becomes of an access on a device with its faults. Host memory
// has none.
func (d *device) answer(a access, do func() (uint64, hal.Code)) (uint64, hal.Code) {
	d.accesses++
	slow, ones, flip, set := false, false, uint64(0), uint64(0)
	for _, f := range d.faults {
		if d.accesses < f.at {
			continue
		}
		now := d.accesses < f.at+f.length
		switch {
		case f.kind == unplugged:
			d.gone = true
		case f.kind == lostDMA:
			d.dma = hal.DMAFault
		case f.kind == noMaster:
			d.dma = hal.MasterOff
		case f.kind == stuckBit:
			set |= f.bit
		case !now:
		case f.kind == busError:
			return 0, hal.BusFault
		case f.kind == allOnes:
			ones = true
		case f.kind == wrongBit:
			flip |= f.bit
		case f.kind == late:
			slow = true
		case f.kind == reset && d.memory != nil:
			clear(d.memory.bytes)
		}
	}
	if d.w.view.Windows[a.window].Kind == gen.WindowKindHost {
		return do()
	}
	all := fbs.WidthMask(max(a.width, 1))
	if d.gone {
		return all, hal.OK
	}
	value, code := do()
	if a.kind != load || code != hal.OK {
		return value, code
	}
	if slow {
		value = 0
	}
	if ones {
		value = all
	}
	return (value ^ flip | set) & all, code
}

// nowherePage is memory that nobody may touch.
func nowherePage() uintptr {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(page)))
}
