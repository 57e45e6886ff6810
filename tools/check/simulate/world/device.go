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

// Kinds of faults of a device.
const (
	busError byte = iota
	unplugged
	allOnes
	wrongBit
	lateValue
	stuckBit
	memoryReset
	dmaFault
	busMasterOff
	faultKinds
)

// fault affects the accesses first to first+count-1 of a device, or all accesses from first on if
// its kind does not end.
type fault struct {
	kind  byte
	first int
	count int
	bit   uint64 // of wrongBit and stuckBit
}

// device is a mock with injected faults. It checks each access against the windows and rules of the
// image.
type device struct {
	*mock.Device
	w        *world
	index    int
	memory   *plainMemory // memory of the mock; nil: the mock has a board's model
	accesses int
	faults   []fault
	health
	isBusMaster bool
	closed      bool
}

// health is the state that a device reports about itself.
type health struct {
	gone bool
	dma  hal.Code // result of Diagnose while the device is present
}

func (h *health) diagnosis() hal.Code {
	if h.gone {
		return hal.DeviceGone
	}
	return h.dma
}

// busMasterDevice is a device that can master the bus, and that a driver can quiesce.
type busMasterDevice struct{ *device }

// plainMemory is a mock.Model of memory, which a reset clears.
type plainMemory struct{ bytes map[mock.Place]byte }

func (m *plainMemory) Load(at mock.Place, width uint8) (value uint64, code hal.Code) {
	for i := range width {
		value |= uint64(m.bytes[at]) << (8 * i)
		at.Address++
	}
	return value, hal.OK
}

func (m *plainMemory) Store(at mock.Place, width uint8, value uint64) hal.Code {
	if m.bytes == nil {
		m.bytes = map[mock.Place]byte{}
	}
	for i := range width {
		m.bytes[at] = byte(value >> (8 * i))
		at.Address++
	}
	return hal.OK
}

// checkedPort passes the accesses of one window to performAccess.
type checkedPort struct {
	d     *device
	index uint16
	inner hal.Port
}

func (d *device) Map(window fbs.Window) (hal.Aperture, error) {
	w := d.w
	if len(w.busAddresses) == w.failingMap {
		return hal.Aperture{}, &hal.Fault{Code: hal.NoDevice, Reason: "no TLB window is free"}
	}
	inner, err := d.Device.Map(window)
	if err != nil {
		return inner, err
	}
	port := &checkedPort{d, uint16(len(w.busAddresses)), inner.Port}
	a := hal.NewAperture(port, inner.Size, inner.TLBWindow)
	if window.Kind == gen.WindowKindBar || window.Kind == gen.WindowKindHost {
		a.BusAddress = 0x1000_0000 + uint64(len(w.busAddresses))<<24
	}
	w.busAddresses = append(w.busAddresses, a.BusAddress)
	w.windowByTLB[a.TLBWindow+1000*d.index] = uint16(len(w.busAddresses) - 1)
	if !w.generated { // models of boards translate addresses
		a.BusAddress = inner.BusAddress
		w.busAddresses[len(w.busAddresses)-1] = inner.BusAddress
	}
	return a, nil
}

func (d *device) ProgramWindow(a *hal.Aperture, t fbs.TileRoute, address uint64) hal.Code {
	window := d.w.windowByTLB[a.TLBWindow+1000*d.index]
	request := access{kind: point, window: window, value: address, mask: t.Pack()}
	_, code := d.w.performAccess(d, request, func() (uint64, hal.Code) {
		return 0, d.Device.ProgramWindow(a, t, address)
	})
	return code
}

func (a *checkedPort) Load(offset uint64, width uint8) (uint64, hal.Code) {
	request := access{kind: load, window: a.index, width: width, offset: offset}
	return a.d.w.performAccess(a.d, request, func() (uint64, hal.Code) {
		return a.inner.Load(offset, width)
	})
}

func (a *checkedPort) Store(offset uint64, width uint8, value uint64) hal.Code {
	request := access{kind: store, window: a.index, width: width, offset: offset, value: value}
	_, code := a.d.w.performAccess(a.d, request, func() (uint64, hal.Code) {
		return 0, a.inner.Store(offset, width, value)
	})
	return code
}

func (d *device) Alive() bool        { return !d.gone }
func (d *device) Diagnose() hal.Code { return mock.GoneUnlessAlive(d) }
func (d *device) Now() int64         { return d.w.now }

func (d *device) Sleep(nanoseconds int64) {
	d.w.now += nanoseconds
	d.Device.Sleep(nanoseconds)
	if d.w.model.want.kind == sleep {
		d.w.model.finishAccess(access{kind: sleep}, 0, hal.OK)
	}
}

func (d *device) Close() error {
	d.closed, d.isBusMaster = true, false
	return nil
}

func (m busMasterDevice) AssignBusAddress(*hal.Aperture, hal.Device) error { return nil }

func (m busMasterDevice) SetBusMaster(on bool) error {
	if on && m.w.busMasterFails {
		return &hal.Fault{Code: hal.NoDevice, Reason: "bus mastering cannot be enabled"}
	}
	m.isBusMaster = on
	return nil
}

func (m busMasterDevice) Diagnose() hal.Code {
	return m.diagnosis()
}

func (m busMasterDevice) RegisterExitCleanup(*fbs.View, int) (string, error) {
	m.w.exitCleanups++
	return "", nil
}

// diagnosis returns the first failure that a device reports, in the order of the devices.
func (w *world) diagnosis() hal.Code {
	for _, d := range w.devices {
		if code := d.diagnosis(); code != hal.OK {
			return code
		}
	}
	return hal.OK
}

// accessNs is the virtual time of an access, in nanoseconds.
const accessNs = 100

// performAccess performs an access of the runner: it advances the time, runs the events that are
// due, compares the access with the image and the model, and returns the result.
func (w *world) performAccess(d *device, a access, do func() (uint64, hal.Code)) (uint64,
	hal.Code) {
	w.model.arrivalTime = w.now
	w.step()
	w.now += accessNs
	w.hashAccess(a)
	if d.closed {
		w.errorf("%+v after the device was closed", a)
	}
	if a.kind != point {
		w.checkBounds(a)
	}
	w.model.checkNext(a)
	value, code := d.performWithFaults(a, do)
	w.model.finishAccess(a, value, code)
	if w.firstError != "" {
		goruntime.Goexit()
	}
	if code == hal.BusFault && d.accesses%2 == 1 {
		_ = *(*byte)(unsafe.Pointer(w.inaccessiblePage)) // SIGSEGV, as if the memory were mapped
	}
	return value, code
}

// checkBounds checks that an access is inside its window and allowed by a rule of the image.
func (w *world) checkBounds(a access) {
	window := &w.view.Windows[a.window]
	width := uint64(a.width)
	if width != 1 && width != 2 && width != 4 && width != 8 || a.offset > window.Size ||
		width > window.Size-a.offset {
		w.errorf("%+v exceeds its window of %#x bytes", a, window.Size)
		return
	}
	if (window.Offset+a.offset)%width != 0 {
		w.errorf("%+v is not aligned; the window begins at %#x", a, window.Offset)
	}
	if window.Kind != gen.WindowKindBar {
		return
	}
	rule := w.view.Board(int(window.Device)).FindRule(window.Bar, window.Offset+a.offset, width)
	if rule == nil || rule.Widths&a.width == 0 {
		w.errorf("%+v is not allowed by a rule", a)
	}
}

// performWithFaults performs an access on a device with its faults. Accesses to host memory have no
// faults.
func (d *device) performWithFaults(a access, do func() (uint64, hal.Code)) (uint64, hal.Code) {
	d.accesses++
	slow, ones, flippedBits, setBits := false, false, uint64(0), uint64(0)
	for _, f := range d.faults {
		if d.accesses < f.first {
			continue
		}
		active := d.accesses < f.first+f.count
		switch {
		case f.kind == unplugged:
			d.gone = true
		case f.kind == dmaFault:
			d.dma = hal.DMAFault
		case f.kind == busMasterOff:
			d.dma = hal.MasterOff
		case f.kind == stuckBit:
			setBits |= f.bit
		case !active:
		case f.kind == busError:
			return 0, hal.BusFault
		case f.kind == allOnes:
			ones = true
		case f.kind == wrongBit:
			flippedBits |= f.bit
		case f.kind == lateValue:
			slow = true
		case f.kind == memoryReset && d.memory != nil:
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
	return (value ^ flippedBits | setBits) & all, code
}

// mapInaccessiblePage maps a page that causes SIGSEGV if it is accessed.
func mapInaccessiblePage() uintptr {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(page)))
}
