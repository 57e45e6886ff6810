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
)

// Prefix starts the name of every device of this package; the rest is the path
// of the library.
const Prefix = "ttsim:"

// Physical addresses of the BARs inside the simulator, 0: no such BAR
// (src/libttsim.cpp: BAR0_BASE, BAR2_BASE, BAR4_BASE).
var barBase = [6]uint64{0: 0x1_0000_0000, 2: 0x1_2000_0000, 4: 0x8_0000_0000}

// Virtual time. The cores run at about 1 GHz, so one clock is one nanosecond.
const (
	// loadTime is what a load counts for in Now, in nanoseconds: about what
	// one takes over PCIe. Without it a poll would wait for ever.
	loadTime = 1000

	// loadClocksMax bounds the clocks of one load. The first load of an
	// address lets one clock pass; loads of the same address that follow, as
	// a poll makes them, twice as many each. At the bound the clocks cost
	// about as much as the load.
	loadClocksMax = 64

	// sleepClocksMax bounds the clocks of one Sleep. Now counts all of the Sleep. They pass
	// sleepClocks at a time, each a tenth of a second of real time if all tiles run.
	sleepClocksMax = 1_000_000
	sleepClocks    = 25_000
)

// Device is a simulated device. Like every hal.Device it is not for concurrent
// use.
type Device struct {
	hal.BaseDevice
	identity hal.Identity
	board    *boards.Board
	process  *process
	windows  map[int]*port // by hardware window
	hostEnd  uint64        // bytes of host memory that they take
	refusal  string        // why Point refused

	// kept is what registers hold that the library has no loads of, by offset in
	// the BAR, of a device that a kernel sees.
	kept map[uint64]uint32

	now int64 // nanoseconds

	polled     uint64 // address of the last load, if nothing came after it
	loadClocks uint64 // clocks of the next load of it

	stop stopper
}

// OpenAny opens what a device name says: the simulator, or one of package hal's.
func OpenAny(name string) (hal.Device, error) {
	if strings.HasPrefix(name, Prefix) {
		return Open(name)
	}
	return hal.Open(name)
}

// Open starts the library that a device name gives ("ttsim:/path/libttsim.so").
// Errors are *hal.Fault.
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
				"build it with CGO_ENABLED=1 and a C compiler")
	}
	library, err := filepath.Abs(strings.TrimPrefix(name, Prefix))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(library); err != nil {
		return nil,
			errors.New("no simulator library there; github.com/tenstorrent/ttsim has the sources " +
				"and releases")
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

// identify asks the library what it simulates.
func (d *Device) identify(name string) error {
	ids, code := d.process.call(request{op: opConfigLoad}, nil, nil)
	if code != hal.OK {
		return errors.New(d.process.lastWord)
	}
	vendor, device := uint16(ids), uint16(ids>>16)
	if d.board = boards.FindByID(vendor, device); d.board == nil {
		return fmt.Errorf("it simulates %04x:%04x, which is not a known board", vendor, device)
	}
	// Each handle has a simulator, and so a device, of its own.
	address := fmt.Sprintf("simulator %p", d)
	d.identity = hal.Identity{Name: name, Address: address, Vendor: vendor, Device: device,
		BarSizes: d.board.BarSizes}
	return nil
}

// Identity has the PCI ids that the library gives and the board's BAR sizes.
func (d *Device) Identity() hal.Identity { return d.identity }

// Refusal says why something was refused: the library's last word where it has
// ended, after which every access fails; "" if nothing was.
func (d *Device) Refusal() string {
	return cmp.Or(d.process.lastWord, d.stop.reason, d.refusal)
}

// Map gives access to a window.
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
	return d.refuse(hal.Refused, "windows of kind %s cannot be mapped", w.Kind)
}

// mapHost reserves host memory, and lets the device's tiles access it at the aperture's Bus. A page
// stays unused before each window without a fixed bus address.
func (d *Device) mapHost(w fbs.Window) (hal.Aperture, error) {
	o := d.board.Outbound
	size := (w.Size + pageSize - 1) &^ (pageSize - 1)
	if o == nil || len(d.process.hosts) == o.RegionCount {
		return d.refuse(hal.NoDevice, "its tiles have no address range left for %#x bytes "+
			"of host memory",
			w.Size)
	}
	offset, last := d.hostEnd, min(hostSize-1, o.OffsetMax)
	if fixed := fbs.FixedBusAddress(&w); fixed != 0 {
		offset = fixed - o.NoCBase // a very large number if the address is below o.NoCBase
		if offset < d.hostEnd || offset > last || size-1 > last-offset {
			return d.refuse(hal.NoDevice, "its tiles cannot access %#x bytes of host memory "+
				"at %#x: the range is in use or out of reach", w.Size, fixed)
		}
	} else if offset != 0 {
		offset += pageSize
	}
	if offset > last || size-1 > last-offset {
		return d.refuse(hal.NoDevice, "its tiles have no address range left for %#x bytes "+
			"of host memory",
			w.Size)
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

const pageSize = 4096

func (d *Device) mapBar(w fbs.Window) (hal.Aperture, error) {
	if int(w.Bar) >= len(barBase) || barBase[w.Bar] == 0 {
		return d.refuse(hal.WrongDevice, "the device has no BAR %d", w.Bar)
	}
	size := d.board.BarSizes[w.Bar]
	if w.Offset > size || w.Size > size-w.Offset {
		return d.refuse(hal.WrongDevice, "BAR %d has %#x bytes, but the window needs %#x at "+
			"%#x", w.Bar,
			size, w.Size, w.Offset)
	}
	return hal.NewAperture(&port{device: d, bar: w.Bar, offset: w.Offset}, w.Size, -1), nil
}

func (d *Device) mapTlb(w fbs.Window) (hal.Aperture, error) {
	if d.board.TLB == nil {
		return d.refuse(hal.WrongDevice, "%s has no TLB windows", chips.Of(d.board).Title)
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

func (d *Device) refuse(code hal.Code, format string, values ...any) (hal.Aperture, error) {
	return hal.Aperture{}, &hal.Fault{Code: code,
		Reason: d.identity.Name + ": " + fmt.Sprintf(format, values...)}
}

// ProgramWindow stores the configuration of the TLB window that a uses. If the TLB window is
// larger than the image's, address may be anywhere in it.
func (d *Device) ProgramWindow(a *hal.Aperture, t fbs.TileRoute, address uint64) hal.Code {
	p := d.windows[a.Slot]
	if p == nil {
		return hal.Usage
	}
	l := d.board.TLB
	g := l.GroupOf(a.Slot)
	inside := address & (g.Size - 1)
	words, ok := l.EncodeWindow(g, t, address-inside)
	if !ok || inside+a.Size > g.Size {
		d.refusal = fmt.Sprintf("TLB window %d cannot point to %#x of %+v", a.Slot,
			address, t)
		return hal.Refused
	}
	p.offset = p.start + inside
	at := barBase[l.ConfigBar] + l.ConfigOffset + uint64(a.Slot)*l.ConfigStride
	for register := uint64(0); register < l.ConfigStride; register += uint64(l.ConfigWidth) {
		if code := d.store(at+register, l.ConfigWidth,
			chips.LoadRegister(&words, register, l.ConfigWidth)); code != hal.OK {
			return code
		}
	}
	return hal.OK
}

// Alive tells whether the library still runs, as does Diagnose.
func (d *Device) Alive() bool {
	ids, code := d.process.call(request{op: opConfigLoad}, nil, nil)
	return code == hal.OK && uint16(ids) == d.identity.Vendor
}
func (d *Device) Diagnose() hal.Code { return hal.DeviceGoneUnlessAlive(d) }

// Now is the virtual time in nanoseconds since Open.
func (d *Device) Now() int64 { return d.now }

// Sleep lets the simulator's clock run.
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

// Close shuts the library down and collects its process. Closing a device that
// has refused something is no error, nor is closing twice.
func (d *Device) Close() error {
	if err := d.process.end(); err != nil {
		return &hal.Fault{Code: hal.Internal, Reason: d.identity.Name + ": " + err.Error()}
	}
	return nil
}
