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
	"lightmetal/hal/mock"
)

const (
	configRegion = 7 // region numbers of VFIO: BARs 0 to 5, ROM 6, configuration space 7
	regionCount  = 9

	// At each access, the function advances the time of the device by the time since the previous
	// access, at most by timeMax, in slices that begin with timeSlice and become longer. Advancing
	// may take only as much real time as has passed outside it. A device that is slower than real
	// time, such as a simulator or a chip whose cores all run, therefore gets half of the real
	// time. Function.credit, the real time that advancing may still take, is limited to -creditMax
	// to creditMax. Without the lower limit, a pause of this process during a slice would stop the
	// device for the same time again, and polls of the client would miss their deadlines.
	timeMax   = time.Second
	timeSlice = time.Microsecond
	creditMax = 10 * time.Millisecond
)

// Options configure a Function. The zero value records nothing, logs nothing and has no fault.
type Options struct {
	// Log prints messages, such as rejected requests with the reason; nil: messages are discarded.
	Log func(format string, a ...any)
	// Trace receives a recording of all accesses in the format of tools/capture/record; nil:
	// accesses are not recorded. It must meet the requirements of synced.NewWriter.
	Trace io.Writer
	Sync  time.Duration // interval at which the trace is synced; 0: synced.Interval
	// Spool is a path. A temporary file with a similar name in the same directory contains the part
	// of the recording that must wait until the end. If Spool is empty, or the file cannot be
	// created there, it is in the directory for temporary files.
	Spool   string
	Without []string // names of PCI capabilities that the function must not have
	Wedge   Wedge    // fault of the device; the zero value is no fault
}

// Function is a device as a PCI function. Only one goroutine may use it, except for Refused.
type Function struct {
	open    func() (hal.Device, error) // opens the device; also called after a reset
	options Options
	device  hal.Device
	board   *boards.Board // nil if unknown
	bars    [6]hal.Port
	config  *config
	memory  memory // client memory that the device accesses
	irq     interrupt
	trace   *trace // nil: accesses are not recorded
	wedge   wedge
	// The device has requested its own reset, which follows the current access.
	isResetRequested bool
	last             time.Time        // time of the last access
	ended            time.Time        // end of the last slice of the device's time
	credit           time.Duration    // real time that advancing may take; negative if it took more
	now              func() time.Time // current time
	refused          atomic.Int64     // number of rejected accesses
	accesses         int              // number of accesses of the current client to BARs
}

// BusMaster is implemented by devices that access the client's memory. `bytes` returns size bytes
// of the memory at a bus address, or nil if the client has not mapped all of it.
type BusMaster interface {
	AttachHostMemory(bytes func(address, size uint64) []byte)
}

// Interrupter is implemented by devices that raise interrupts.
type Interrupter interface{ SetInterruptHandler(raise func()) }

// SelfResetter is implemented by devices that a driver can reset by a message to their firmware.
type SelfResetter interface{ SetResetHandler(reset func()) }

// New opens a device and returns a function for it. A reset of the function closes the device and
// calls open again.
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

// start opens the device and maps its BARs. After an error the function is unchanged.
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
			if f.irq.fd != nil { // otherwise the interrupt reaches no driver
				f.trace.interrupt()
			}
			f.irq.raise()
		})
	}
	return nil
}

// mapBar returns a port for a complete BAR. A BAR of more than 4 GiB, the largest size of a window,
// consists of several apertures.
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

// parts implements hal.Port for the apertures of a BAR. Each aperture except the last has 4 GiB.
type parts []*hal.Aperture

// Load implements hal.Port.
func (p parts) Load(offset uint64, width uint8) (uint64, hal.Code) {
	return mock.LoadAt(p[offset>>32], uint32(offset), width)
}

// Store implements hal.Port.
func (p parts) Store(offset uint64, width uint8, value uint64) hal.Code {
	return mock.StoreAt(p[offset>>32], uint32(offset), width, value)
}

// reach returns client memory for an access of the device. It returns nil if the function is not
// bus master, or if the client has not mapped all of the memory.
func (f *Function) reach(address, size uint64) []byte {
	if !f.config.master() {
		f.options.Log("the device tried to access %d bytes of memory at %#x, "+
			"but bus mastering is off", size, address)
		return nil
	}
	data := f.memory.bytes(address, size)
	if data == nil {
		f.options.Log("the device tried to access %d bytes of memory at %#x, "+
			"but not all of it is mapped", size, address)
		return nil
	}
	f.trace.reach(address, data)
	return data
}

// Refused returns the number of accesses that the device has rejected. Any goroutine may call it.
func (f *Function) Refused() int { return int(f.refused.Load()) }

// Device returns the current device. A reset replaces it.
func (f *Function) Device() hal.Device { return f.device }

// Close closes the device, and completes the recording.
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

// reset resets the device to the state after opening, unless the device hangs and `events` do not
// end the hang. Client memory stays mapped, because the IOMMU does not belong to the function. If
// the device cannot be opened again, it is absent from the bus until a later reset succeeds.
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
		err = fmt.Errorf("the device did not start again after its reset, "+
			"so loads return all ones: %w",
			err)
	}
	return err
}

// absent is a device that is absent from the bus. It also replaces each of its BARs.
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

// regionSize returns the size of a region in bytes, or 0 if the region does not exist.
func (f *Function) regionSize(region uint32) uint64 {
	switch {
	case region < uint32(len(f.bars)):
		return f.device.Identity().BarSizes[region]
	case region == configRegion:
		return configSize
	}
	return 0
}

// load executes a load from a region. If the device rejects the load, the result is all ones, as on
// a bus.
func (f *Function) load(region uint32, offset uint64, data []byte) {
	if region == configRegion {
		copy(data, f.config.bytes[offset:])
		if !f.device.Alive() { // then its configuration space does not answer either
			copy(data, bytes.Repeat([]byte{0xff}, len(data)))
		}
		return
	}
	f.accesses++
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

// store executes a store to a region. A store that the device rejects has no effect.
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
	f.accesses++
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

// access advances the time of the device and then executes `do`, an access to the device. If client
// memory disappears during the access, the result is hal.BusFault.
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

// pass advances the time of the device by the time since the last access; see timeMax.
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

// refuse counts and logs an access that the device has rejected.
func (f *Function) refuse(verb string, region uint32, offset uint64, width uint8, code hal.Code) {
	f.refused.Add(1)
	reason := code.Error()
	if d, ok := f.device.(interface{ Refusal() string }); ok && d.Refusal() != "" {
		reason += fmt.Sprintf(" (first reason: %s)", d.Refusal())
	}
	f.options.Log("%s of %d bytes at BAR %d + %#x: %s", verb, width, region, offset, reason)
}
