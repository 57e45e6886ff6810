package vfiouser

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

const (
	configRegion = 7 // as VFIO counts them: BARs 0 to 5, ROM, configuration space
	regionCount  = 9

	// At an access the device lives through the time since the one before, slice
	// by slice, each longer: at most timeMax of it, and without taking longer than
	// the client has taken meanwhile. A chip whose cores all run, or a simulator,
	// is slower than the clock; it gets half of the time. Beyond creditMax nothing
	// is saved up, and nothing owed: where the machine stops this process within a
	// slice, the device would stand still for as long once more, and polls pass
	// their deadlines.
	timeMax   = time.Second
	timeSlice = time.Microsecond
	creditMax = 10 * time.Millisecond
)

// Options of a Function.
type Options struct {
	// Log prints requests that were rejected, with the reason; nil: they are not printed.
	Log func(format string, a ...any)
	// Trace receives every access in the format of tools/capture/record; nil: none is recorded.
	// It is written as synced.NewWriter says.
	Trace io.Writer
	Sync  time.Duration // interval at which the trace is synced; 0: synced.Interval
	// path next to which lies what of the trace has to wait for its end; empty, or if there can be
	// nothing: in the folder of temporary files
	Spool   string
	Without []string // capabilities that are left out
	Wedge   Wedge    // how the device hangs; zero: it does not
}

// Function is a device seen as a PCI function. It is not for concurrent use.
type Function struct {
	open    func() (hal.Device, error)
	options Options
	device  hal.Device
	board   *boards.Board
	bars    [6]hal.Port
	config  *config
	memory  memory
	irq     interrupt
	trace   *trace
	wedge   wedge
	// The device has requested its own reset, which follows the current access.
	isResetRequested bool
	last             time.Time     // of the last access
	ended            time.Time     // when the time before it had passed
	credit           time.Duration // what letting time pass may take; less than 0: it took more
	now              func() time.Time
	refused          atomic.Int64
}

// BusMaster is implemented by devices that access the client's memory. bytes returns the
// memory at a bus address, nil if the client has not mapped all of it.
type BusMaster interface {
	AttachHostMemory(bytes func(address, size uint64) []byte)
}

// Interrupter is implemented by devices that raise interrupts.
type Interrupter interface{ SetInterruptHandler(raise func()) }

// SelfResetter is implemented by devices that a driver resets by a message to their firmware.
type SelfResetter interface{ SetResetHandler(reset func()) }

// New opens a device and describes it. A reset closes it and opens it anew.
func New(open func() (hal.Device, error), options Options) (*Function, error) {
	f := &Function{open: open, options: options, wedge: wedge{Wedge: options.Wedge},
		last: time.Now(), ended: time.Now(), now: time.Now}
	if f.options.Log == nil {
		f.options.Log = func(string, ...any) {}
	}
	if err := f.start(); err != nil {
		return nil, err
	}
	id := f.device.Identity()
	f.board = boards.FindByID(id.Vendor, id.Device)
	f.config = newConfig(id, f.board, options.Without)
	if options.Trace != nil {
		var err error
		if f.trace, err = newTrace(&options, id, f.board); err != nil {
			f.device.Close()
			return nil, err
		}
	}
	return f, nil
}

// start opens the device and its BARs. After an error the function is what it was.
func (f *Function) start() error {
	device, err := f.open()
	if err != nil {
		return err
	}
	var bars [6]hal.Port
	for bar, size := range device.Identity().BarSizes {
		if size == 0 {
			continue
		}
		if bars[bar], err = mapBar(device, uint8(bar), size); err != nil {
			device.Close()
			return err
		}
	}
	f.device, f.bars = device, bars
	if m, ok := f.device.(BusMaster); ok {
		m.AttachHostMemory(f.reach)
	}
	if r, ok := f.device.(SelfResetter); ok {
		r.SetResetHandler(func() { f.isResetRequested = true })
	}
	if i, ok := f.device.(Interrupter); ok {
		i.SetInterruptHandler(func() {
			f.trace.settle()
			f.irq.raise()
		})
	}
	return nil
}

// mapBar gives all of a BAR. A window ends at 4 GiB; a larger BAR is several.
func mapBar(d hal.Device, bar uint8, size uint64) (hal.Port, error) {
	const most = 1 << 32
	var parts parts
	for offset := uint64(0); offset < size; offset += most {
		a, err := d.Map(fbs.Window{Kind: gen.WindowKindBar, Bar: bar, Offset: offset,
			Size: min(size-offset, most)})
		if err != nil {
			return nil, err
		}
		parts = append(parts, &a)
	}
	return parts, nil
}

// parts are the pieces of a BAR, 4 GiB each but the last.
type parts []*hal.Aperture

func (p parts) Load(offset uint64, width uint8) (uint64, hal.Code) {
	return p[offset>>32].Load(uint32(offset), width)
}

func (p parts) Store(offset uint64, width uint8, value uint64) hal.Code {
	return p[offset>>32].Store(uint32(offset), width, value)
}

// reach is client memory for the device, while it may master the bus.
func (f *Function) reach(address, size uint64) []byte {
	if !f.config.master() {
		f.options.Log("the device tried to access %d bytes of memory at %#x, but bus mastering "+
			"is off", size, address)
		return nil
	}
	data := f.memory.bytes(address, size)
	if data == nil {
		f.options.Log("the device tried to access %d bytes of memory at %#x, but not all of it is "+
			"mapped", size, address)
		return nil
	}
	f.trace.reach(address, data)
	return data
}

// Refused is how many accesses the device has refused. It may be asked at any time.
func (f *Function) Refused() int { return int(f.refused.Load()) }

// Device is the device that is seen, as it is since the last reset.
func (f *Function) Device() hal.Device { return f.device }

// Close ends the device, and the trace with a line that says it is whole.
func (f *Function) Close() error {
	f.memory.clear()
	f.irq.close()
	err := f.device.Close()
	if f.trace != nil {
		if e := f.trace.end(); err == nil {
			err = e
		}
	}
	return err
}

// reset makes the device what it was when it was opened, unless it hangs and the events do not end
// that. Client memory stays mapped: the IOMMU is not the function's. Where the device does not open
// again it is off the bus until a reset at which it does.
func (f *Function) reset(events ...string) error {
	if f.wedge.end(events...); f.wedge.isHanging() {
		f.config = newConfig(f.device.Identity(), f.board, f.options.Without)
		return nil
	}
	f.device.Close()
	id := f.device.Identity()
	f.config = newConfig(id, f.board, f.options.Without)
	err := f.start()
	if err != nil {
		f.device = absent{identity: id}
		for bar := range f.bars {
			f.bars[bar] = absent{}
		}
		err = fmt.Errorf("the device did not come back after its reset, and loads return "+
			"all ones: %w",
			err)
	}
	return err
}

// absent is a device that is off the bus, and each of its BARs.
type absent struct {
	hal.Device
	identity hal.Identity
}

func (a absent) Identity() hal.Identity              { return a.identity }
func (absent) Alive() bool                           { return false }
func (absent) Sleep(int64)                           {}
func (absent) Close() error                          { return nil }
func (absent) Load(uint64, uint8) (uint64, hal.Code) { return 0, hal.DeviceGone }
func (absent) Store(uint64, uint8, uint64) hal.Code  { return hal.DeviceGone }

// regionSize is that of a BAR or of configuration space, 0: no such region.
func (f *Function) regionSize(region uint32) uint64 {
	switch {
	case region < uint32(len(f.bars)):
		return f.device.Identity().BarSizes[region]
	case region == configRegion:
		return configSize
	}
	return 0
}

// load makes one access. A refused one answers all ones, as a bus does.
func (f *Function) load(region uint32, offset uint64, data []byte) {
	if region == configRegion {
		copy(data, f.config.bytes[offset:])
		if !f.device.Alive() { // nor does its configuration space answer
			copy(data, bytes.Repeat([]byte{0xff}, len(data)))
		}
		return
	}
	if f.wedge.hangs() {
		copy(data, bytes.Repeat([]byte{0xff}, len(data)))
		return
	}
	width := uint8(len(data))
	value, code := f.access(func() (uint64, hal.Code) { return f.bars[region].Load(offset, width) })
	if code != hal.OK {
		f.refuse("load", region, offset, width, code)
		value = ^uint64(0)
	}
	var all [8]byte
	binary.LittleEndian.PutUint64(all[:], value)
	copy(data, all[:])
	f.trace.access('R', region, offset, data)
}

// store makes one access. A refused one is dropped.
func (f *Function) store(region uint32, offset uint64, data []byte) error {
	if region == configRegion {
		if sizesBar(offset, data) {
			f.wedge.end(enumeration)
		}
		if f.config.store(offset, data) {
			return f.reset(functionReset)
		}
		return nil
	}
	if f.wedge.hangs() {
		return nil
	}
	var all [8]byte
	copy(all[:], data)
	width, value := uint8(len(data)), binary.LittleEndian.Uint64(all[:])
	f.trace.access('W', region, offset, data)
	if _, code := f.access(func() (uint64, hal.Code) {
		return 0,
			f.bars[region].Store(offset, width, value)
	}); code != hal.OK {
		f.refuse("store", region, offset, width, code)
	}
	if f.isResetRequested {
		f.isResetRequested = false
		return f.reset(functionReset)
	}
	return nil
}

// access lets the time since the last one pass on the device, and makes one.
// Memory that the client took away under it is a bus error.
func (f *Function) access(do func() (uint64, hal.Code)) (value uint64, code hal.Code) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			if _, isFault := fault.(interface{ Addr() uintptr }); !isFault {
				panic(fault)
			}
			code = hal.BusFault
		}
	}()
	f.pass()
	value, code = do()
	f.trace.transfers()
	return value, code
}

// pass lets time go by on the device.
func (f *Function) pass() {
	now := f.now()
	f.credit = min(f.credit+now.Sub(f.ended), creditMax)
	left, slice := min(now.Sub(f.last), timeMax), timeSlice
	f.last, f.ended = now, now
	for left > 0 && f.credit > 0 {
		f.device.Sleep(int64(min(left, slice)))
		left -= slice
		slice *= 2
		now = f.now()
		f.credit = max(f.credit-now.Sub(f.ended), -creditMax)
		f.ended = now
	}
	f.trace.transfers()
}

func (f *Function) refuse(verb string, region uint32, offset uint64, width uint8, code hal.Code) {
	f.refused.Add(1)
	reason := code.Error()
	if d, ok := f.device.(interface{ Refusal() string }); ok && d.Refusal() != "" {
		reason += fmt.Sprintf(" (the first: %s)", d.Refusal())
	}
	f.options.Log("%s of %d bytes at BAR %d + %#x: %s", verb, width, region, offset, reason)
}
