package ttsim

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// Prefix is the prefix of the names of this package's devices. The rest of a name is the path of
// the library.
const Prefix = "ttsim:"

// barBase contains the physical addresses of the BARs in the simulator; 0: the BAR does not exist
// (src/libttsim.cpp: BAR0_BASE, BAR2_BASE, BAR4_BASE).
var barBase = [6]uint64{0: 0x1_0000_0000, 2: 0x1_2000_0000, 4: 0x8_0000_0000}

// Virtual time. The cores run at about 1 GHz, so one clock cycle is one nanosecond.
const (
	// loadTime is the time that Now counts for one load, in nanoseconds: about the time of a load
	// over PCIe. Without it, a poll would never reach its deadline.
	loadTime = 1000

	// loadClocksMax is the largest number of clock cycles that the simulator executes for one load.
	// It executes one cycle for the first load of an address, and twice as many for each further
	// load of the same address, as in a poll. loadClocksMax cycles take about as much real time as
	// the load.
	loadClocksMax = 64

	// sleepClocksMax is the largest number of clock cycles that the simulator executes for one
	// Sleep, while Now counts the full time. It executes sleepClocks cycles per request; these take
	// a tenth of a second of real time if all tiles run.
	sleepClocksMax = 1_000_000
	sleepClocks    = 25_000
)

// Device is a simulated device. Only one goroutine may use a Device, except for Stop.
type Device struct {
	mock.BaseDevice
	identity hal.Identity
	board    *boards.Board
	process  *process
	windows  map[int]*port // mapped TLB windows, by slot
	hostEnd  uint64        // end of the mapped Host windows, as an offset from hostBus
	refusal  string        // why ProgramWindow rejected a target

	// kept contains the values of registers that the library does not implement or whose loads it
	// rejects, by offset in the BAR. It is nil unless AsHardware was called.
	kept map[uint64]uint32

	now int64 // virtual time in nanoseconds

	polled     uint64 // address of the last load
	loadClocks uint64 // clock cycles of the next load of that address

	stop stopper
}

// OpenAny opens the device with the given name: a simulator, or a device of package hal.
func OpenAny(name string) (hal.Device, error) {
	if strings.HasPrefix(name, Prefix) {
		return Open(name)
	}
	return hal.Open(name)
}

// Open starts the simulator library that a device name such as "ttsim:/path/libttsim.so" contains.
// Errors are of type *hal.Fault.
func Open(name string) (*Device, error) {
	d, err := open(name)
	if err != nil {
		return nil, &hal.Fault{Code: hal.NoDevice, Reason: name + ": " + err.Error()}
	}
	return d, nil
}

func open(name string) (*Device, error) {
	if !built {
		return nil,
			errors.New("this program was built without cgo, which loads the simulator; " +
				"build the program with CGO_ENABLED=1 and a C compiler")
	}
	library, err := filepath.Abs(strings.TrimPrefix(name, Prefix))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(library); err != nil {
		return nil,
			errors.New("the file of the simulator library does not exist; " +
				"github.com/tenstorrent/ttsim has the sources and releases")
	}
	p, err := start(library)
	if err != nil {
		return nil, err
	}
	d := &Device{process: p, windows: map[int]*port{}}
	if err := d.identify(name); err != nil {
		p.end()
		return nil, err
	}
	return d, nil
}

// identify reads from the library which board it simulates.
func (d *Device) identify(name string) error {
	ids, code := d.process.call(request{op: opConfigLoad}, nil, nil)
	if code != hal.OK {
		return errors.New(d.process.lastWord)
	}
	vendor, device := uint16(ids), uint16(ids>>16)
	if d.board = boards.FindByID(vendor, device); d.board == nil {
		return fmt.Errorf("the library simulates an unknown board with the PCI ids %04x:%04x; "+
			"use a library for Wormhole or Blackhole", vendor, device)
	}
	// Each Device has a simulator of its own, and therefore an address of its own.
	address := fmt.Sprintf("simulator %p", d)
	d.identity = hal.Identity{Name: name, Address: address, Vendor: vendor, Device: device,
		BarSizes: d.board.BarSizes}
	return nil
}

// Identity implements hal.Device. The PCI ids are those of the library, and the BAR sizes those of
// the board.
func (d *Device) Identity() hal.Identity { return d.identity }

// Refusal returns the reason for a failed access, or "" if no access has failed. If the library has
// exited, this is its last message, and every further access fails.
func (d *Device) Refusal() string {
	return cmp.Or(d.process.lastWord, d.stop.reason, d.refusal)
}

// Map implements hal.Device.
func (d *Device) Map(w fbs.Window) (hal.Aperture, error) {
	switch w.Kind {
	case gen.WindowKindBar:
		return d.mapBar(w)
	case gen.WindowKindTlb:
		return d.mapTlb(w)
	case gen.WindowKindConfig:
		return hal.NewAperture(&config{d}, w.Size, -1), nil
	case gen.WindowKindHost:
		return d.mapHost(w)
	}
	return d.refuse(hal.Refused, "the simulator cannot map windows of kind %s", w.Kind)
}

// mapHost reserves host memory, and makes the device's tiles reach it at the BusAddress of the
// aperture. At least one page stays unused before a window without a fixed bus address, unless that
// is the first window.
func (d *Device) mapHost(w fbs.Window) (hal.Aperture, error) {
	o := d.board.Outbound
	size := (w.Size + pageSize - 1) &^ (pageSize - 1)
	switch {
	case o == nil:
		return d.refuse(hal.NoDevice, "a board without outbound translation cannot "+
			"access host memory")
	case len(d.process.hosts) == o.RegionCount:
		return d.refuse(hal.NoDevice, "the device can access at most %d windows of host memory; "+
			"use fewer host windows", o.RegionCount)
	}
	offset, last := d.hostEnd, min(hostSize-1, o.OffsetMax)
	if fixed := fbs.FixedBusAddress(&w); fixed != 0 {
		offset = fixed - o.NoCBase // a very large number if the address is below o.NoCBase
		if offset < d.hostEnd || offset > last || size-1 > last-offset {
			return d.refuse(hal.NoDevice, "the device's tiles cannot access %#x bytes "+
				"of host memory at bus address %#x: the range is in use or out of reach",
				w.Size, fixed)
		}
	} else if offset != 0 {
		offset += pageSize
	}
	if offset > last || size-1 > last-offset {
		return d.refuse(hal.NoDevice, "the device's tiles have no address range left for %#x "+
			"bytes of host memory", w.Size)
	}
	data, code := make([]byte, size), hal.OK
	o.ProgramRegion(len(d.process.hosts), offset, size, hostBus+offset,
		func(register uint64, value uint32) {
			if code == hal.OK {
				code = d.store(barBase[o.Bar]+register, 4, uint64(value))
			}
		})
	if code != hal.OK {
		return d.refuse(code, "%s", d.Refusal())
	}
	a := hal.NewAperture(&hostPort{d, o.NoCBase + offset, data}, w.Size, -1)
	a.BusAddress = o.NoCBase + offset
	d.process.hosts = append(d.process.hosts, lent{hostBus + offset, data})
	d.hostEnd = offset + size
	return a, nil
}

// pageSize is in bytes.
const pageSize = 4096

func (d *Device) mapBar(w fbs.Window) (hal.Aperture, error) {
	if int(w.Bar) >= len(barBase) || barBase[w.Bar] == 0 {
		return d.refuse(hal.WrongDevice, "the device has no BAR %d", w.Bar)
	}
	size := d.board.BarSizes[w.Bar]
	if w.Offset > size || w.Size > size-w.Offset {
		return d.refuse(hal.WrongDevice, "BAR %d has %#x bytes, "+
			"but the window needs %#x bytes at offset %#x", w.Bar, size, w.Size, w.Offset)
	}
	return hal.NewAperture(&port{device: d, bar: w.Bar, offset: w.Offset}, w.Size, -1), nil
}

// mapTlb reserves a TLB window and returns an aperture of its first w.Size bytes.
func (d *Device) mapTlb(w fbs.Window) (hal.Aperture, error) {
	if d.board.TLB == nil {
		return d.refuse(hal.WrongDevice, "%s has no TLB windows", chips.ForBoard(d.board).Title)
	}
	slot := d.board.TLB.ChooseWindow(w.Slot, w.Size, &d.identity.BarSizes,
		func(slot int) bool { return d.windows[slot] != nil })
	if slot < 0 {
		return d.refuse(hal.NoDevice, "no TLB window of %#x bytes is free", w.Size)
	}
	g := d.board.TLB.GroupOf(slot)
	p := &port{device: d, bar: g.Bar, start: g.WindowOffset(slot), offset: g.WindowOffset(slot)}
	d.windows[slot] = p
	return hal.NewAperture(p, w.Size, slot), nil
}

// refuse returns an error whose text begins with the name of the device.
func (d *Device) refuse(code hal.Code, format string, values ...any) (hal.Aperture, error) {
	return hal.Aperture{}, &hal.Fault{Code: code,
		Reason: d.identity.Name + ": " + fmt.Sprintf(format, values...)}
}

// ProgramWindow implements hal.Device. It stores to the configuration registers of the TLB window
// of a. If the TLB window is larger than the aperture, address may be anywhere in the TLB window,
// if the aperture fits there.
func (d *Device) ProgramWindow(a *hal.Aperture, t fbs.TileRoute, address uint64) hal.Code {
	p := d.windows[a.TLBWindow]
	if p == nil {
		return hal.Usage
	}
	l := d.board.TLB
	g := l.GroupOf(a.TLBWindow)
	inside := address & (g.Size - 1)
	words, ok := l.EncodeWindow(g, t, address-inside)
	if !ok || inside+a.Size > g.Size {
		d.refusal = fmt.Sprintf("TLB window %d cannot point to address %#x of %s", a.TLBWindow,
			address, mock.RouteText(t))
		return hal.Refused
	}
	p.offset = p.start + inside
	at := barBase[l.ConfigBar] + l.ConfigOffset + uint64(a.TLBWindow)*l.ConfigStride
	for register := uint64(0); register < l.ConfigStride; register += uint64(l.ConfigWidth) {
		if code := d.store(at+register, l.ConfigWidth,
			chips.LoadRegister(&words, register, l.ConfigWidth)); code != hal.OK {
			return code
		}
	}
	return hal.OK
}

// Alive implements hal.Device. It reports whether the library still answers.
func (d *Device) Alive() bool {
	ids, code := d.process.call(request{op: opConfigLoad}, nil, nil)
	return code == hal.OK && uint16(ids) == d.identity.Vendor
}

// Diagnose implements hal.Device.
func (d *Device) Diagnose() hal.Code { return mock.GoneUnlessAlive(d) }

// Now implements hal.Device. It returns the virtual time since Open.
func (d *Device) Now() int64 { return d.now }

// Sleep implements hal.Device. It executes clock cycles of the simulator, at most sleepClocksMax.
func (d *Device) Sleep(nanoseconds int64) {
	if nanoseconds <= 0 {
		return
	}
	d.now += nanoseconds
	d.touch()
	for left := min(nanoseconds, sleepClocksMax); left > 0 && !d.isStopping(); left -= sleepClocks {
		clocks := uint64(min(left, sleepClocks))
		d.process.call(request{op: opClock, value: clocks}, nil, nil)
	}
}

// Close implements hal.Device. It shuts the library down and waits for the end of its process.
// Close returns no error if the library has exited before, or if the device is already closed.
func (d *Device) Close() error {
	if err := d.process.end(); err != nil {
		return &hal.Fault{Code: hal.Internal, Reason: d.identity.Name + ": " + err.Error()}
	}
	return nil
}
