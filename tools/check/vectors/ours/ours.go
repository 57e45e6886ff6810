// Package ours lets the Go runtime replay images on machines that tests provide: it executes what
// package oracle executes, with the same interface.
package ours

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/check/vectors/vector"
)

// wrongDevice finds the name of a device in an error of Load.
var wrongDevice = regexp.MustCompile(`test:[0-9]+`)

// codeNames has the name of each result code in vectors.
var codeNames = map[hal.Code]string{
	hal.OK: "done", hal.BadImage: "bad-image", hal.NoDevice: "no-device",
	hal.Internal: "internal", hal.DeviceGone: "device-gone", hal.BusFault: "bus-fault",
	hal.DeadlinePassed: "deadline-passed", hal.ExpectFailed: "expect-failed",
	hal.CompareFailed: "compare-failed", hal.WrongDevice: "wrong-device",
	hal.Refused: "refused", hal.InputMissing: "input-missing", hal.Disabled: "disabled",
	hal.FrameLate: "frame-late", hal.Usage: "usage", hal.RingUnset: "ring-unset",
}

// Verify verifies an image file. The fault has the place in the words of vectors.
func Verify(file []byte) (*fbs.View, *oracle.Fault) {
	view, err := fbs.Verify(file)
	if err == nil {
		return view, nil
	}
	var failure *fbs.Error
	if !errors.As(err, &failure) {
		return nil, &oracle.Fault{Code: "internal", Place: err.Error()}
	}
	return nil, &oracle.Fault{Code: "bad-image", Place: placeOf(failure)}
}

// placeOf returns the place of an error in the words of vectors.
func placeOf(err *fbs.Error) string {
	element, _, hasIndex := strings.Cut(err.Place, " ")
	isIn := func(text string) bool { return strings.Contains(err.Reason, text) }
	switch {
	case err.Place == "preamble" && isIn("envelope checksum"):
		return "checksum"
	case err.Place == "image" && isIn("has no "), err.Place == "reservation" && isIn(" count is "):
		return "counts"
	case err.Place == "reservation":
		return "sums"
	case err.Place == "payload", element == "segment" && isIn("padding"):
		return "payload"
	case err.Place == "preamble", err.Place == "signature", hasIndex && element != "image":
		return err.Place
	}
	return "flatbuffer"
}

// CheckTimeLimit compares the longest time of each sequence with a limit in microseconds, 0 for the
// limit of FORMAT.md.
func CheckTimeLimit(view *fbs.View, limitUs uint64) *oracle.Fault {
	if limitUs != 0 {
		view.TimeLimitUs = limitUs
	}
	if err := runtime.CheckWorstCaseTimes(view, ""); err != nil {
		return loadFault(view, nil, err)
	}
	return nil
}

// Player executes the sequences of an image with the runtime.
type Player struct {
	replay *runtime.Replay
	view   *fbs.View
}

// Load prepares an image for runs on a machine.
func Load(view *fbs.View, machine oracle.Machine, limitUs uint64) (*Player, *oracle.Fault) {
	if limitUs != 0 {
		view.TimeLimitUs = limitUs
	}
	devices := make([]hal.Device, len(view.Devices))
	progress := newLoading(view)
	for i := range devices {
		devices[i] = &device{machine: machine, view: view, index: i, progress: progress,
			taken: map[int]bool{}}
	}
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, devices...)
	if err == nil {
		err = replay.StartDMA() // in vectors, it is part of the load
	}
	if err != nil {
		return nil, loadFault(view, progress, err)
	}
	return &Player{replay, view}, nil
}

// loadFault returns the place of an error of Load in the words of vectors.
func loadFault(view *fbs.View, progress *loading, err error) *oracle.Fault {
	fault := &oracle.Fault{Code: codeNames[hal.CodeOf(err)], Place: err.Error()}
	_, text, _ := strings.Cut(err.Error(), ": ")
	switch {
	case strings.Contains(text, ", command "), fault.Code == "usage":
		fault.Place = fmt.Sprint("command ", progress.command(view))
	case strings.HasPrefix(text, "window "), strings.HasPrefix(text, "device "):
		fault.Place, _, _ = strings.Cut(text, ":")
	case strings.HasPrefix(text, "sequence "):
		for i := range view.Sequences {
			if view.WorstCaseUs[i] > view.TimeLimitUs {
				fault.Place = fmt.Sprint("sequence ", i)
				break
			}
		}
	case strings.Contains(text, "bytes for tensors"):
		fault.Place = "memory"
	case strings.HasPrefix(text, "it is for "), strings.HasPrefix(text, "it needs "):
		fault.Place = "device " + strings.TrimPrefix(wrongDevice.FindString(text), "test:")
	}
	return fault
}

// SetInput sets the data of an input tensor.
func (p *Player) SetInput(tensor int, data []byte) { copy(p.replay.Input(tensor), data) }

// Tensor returns the bytes of an output tensor.
func (p *Player) Tensor(tensor int) []byte { return p.replay.Output(tensor) }

// Close frees the memory of the replay.
func (p *Player) Close() { p.replay.Close() }

// Run executes a sequence.
func (p *Player) Run(sequence int) vector.Result {
	r := p.replay.Run(sequence)
	result := vector.Result{Code: codeNames[r.Code], Command: int(r.Command), SafeRan: r.SafeRan,
		Ignored: r.IgnoredFailures, Got: r.Got, Want: r.Want, Mask: r.Mask, Element: r.ElementIndex}
	if r.Code == hal.OK {
		result.Command = -1
	}
	if r.SafeRan {
		result.Safe = codeNames[r.SafeSequenceCode]
	}
	switch r.Code {
	case hal.ExpectFailed, hal.DeadlinePassed, hal.CompareFailed:
		result.HasSeen = true
	case hal.FrameLate:
		c := &p.view.Commands[r.Command]
		result.HasSeen = c.Opcode == gen.OpcodeExpect && result.Mask|result.Got != 0
	}
	return result
}

// device is a device of a machine.
type device struct {
	mock.BaseDevice
	machine  oracle.Machine
	view     *fbs.View
	index    int
	progress *loading     // what the runtime has loaded
	taken    map[int]bool // TLB windows in use
	regions  []region     // of outbound translation, in use
	next     uint64       // offset of the first byte after all regions
	master   bool         // bus mastering is on
}

// loading counts what the runtime has loaded, in the order of the image.
type loading struct {
	windows  []int // windows that it will map, in this order
	commands int   // Relocate and Point commands that it has completed, or failed to complete
}

// newLoading returns the state before the runtime loads an image. It maps windows with fixed bus
// addresses first.
func newLoading(view *fbs.View) *loading {
	l := &loading{}
	for _, isFixed := range [...]bool{true, false} {
		for i := range view.Windows {
			if (fbs.FixedBusAddress(&view.Windows[i]) != 0) == isFixed {
				l.windows = append(l.windows, i)
			}
		}
	}
	return l
}

// command returns the index of the last Relocate or Point command that the runtime has completed,
// or failed to complete.
func (l *loading) command(view *fbs.View) int {
	left := l.commands
	for i := range view.Commands {
		switch view.Commands[i].Opcode {
		case gen.OpcodeRelocate, gen.OpcodePoint:
			if left--; left == 0 {
				return i
			}
		}
	}
	return -1
}

// region is a region of outbound translation.
type region struct{ offset, size, bus uint64 }

// identity returns the device that the machine has.
func (d *device) identity() vector.Device {
	needed := &d.view.Devices[d.index]
	return d.machine.Device(d.index, vector.Device{Index: d.index, Vendor: needed.Vendor,
		Device: needed.Device, Subsystem: needed.Subsystem, Bars: *needed.MinBarSizes()})
}

// Identity implements hal.Device. The name contains the index, for loadFault.
func (d *device) Identity() hal.Identity {
	has := d.identity()
	return hal.Identity{Name: fmt.Sprint("test:", d.index), Vendor: has.Vendor,
		Device: has.Device, Subsystem: has.Subsystem, BarSizes: has.Bars}
}

// Map implements hal.Device.
func (d *device) Map(w fbs.Window) (hal.Aperture, error) {
	window := d.progress.windows[0]
	d.progress.windows = d.progress.windows[1:]
	p := &port{machine: d.machine}
	slot := -1
	switch w.Kind {
	case gen.WindowKindBar:
		p.space, p.start = vector.OfBar(d.index, int(w.Bar)), w.Offset
	case gen.WindowKindTlb:
		tlb := d.tlb()
		if tlb == nil {
			return hal.Aperture{}, windowFault(hal.WrongDevice, window)
		}
		bars := d.identity().Bars
		isTaken := func(slot int) bool { return d.taken[slot] }
		if slot = tlb.ChooseWindow(w.Slot, w.Size, &bars, isTaken); slot < 0 {
			return hal.Aperture{}, windowFault(hal.NoDevice, window)
		}
		d.taken[slot] = true
		p.space = vector.OfBar(d.index, int(tlb.GroupOf(slot).Bar))
	case gen.WindowKindHost:
		p.space = vector.OfHost(window)
	case gen.WindowKindConfig:
		p.space = vector.OfConfig(d.index)
	}
	a := hal.NewAperture(p, w.Size, slot)
	a.BusAddress, _ = d.machine.BusAddress(window)
	if w.Kind != gen.WindowKindHost {
		return a, nil
	}
	fixed := fbs.FixedBusAddress(&w)
	if outbound := d.outbound(); outbound != nil {
		noc, ok := d.addRegion(outbound, w.Size, a.BusAddress, fixed)
		if !ok {
			return hal.Aperture{}, windowFault(hal.NoDevice, window)
		}
		a.BusAddress = noc
	} else if fixed != 0 && a.BusAddress != fixed {
		return hal.Aperture{}, windowFault(hal.NoDevice, window)
	}
	return a, nil
}

// addRegion reserves a region of outbound translation, as package hal does. It returns the address
// at which tiles reach it.
func (d *device) addRegion(o *boards.OutboundTranslation, size, bus, fixed uint64) (
	noc uint64, ok bool) {
	size = fbs.RoundUp(size, fbs.SegmentAlign)
	offset := uint64(0)
	if fixed != 0 {
		offset = fixed - o.NoCBase // a very large number if fixed is below o.NoCBase
	} else if d.next != 0 {
		offset = d.next + fbs.SegmentAlign
	}
	fits := offset >= d.next && offset <= o.OffsetMax && size-1 <= o.OffsetMax-offset
	if len(d.regions) == o.RegionCount || !fits {
		return 0, false
	}
	d.regions = append(d.regions, region{offset, size, bus})
	d.next = offset + size
	return o.NoCBase + offset, true
}

// windowFault returns an error about a window, for loadFault.
func windowFault(code hal.Code, window int) error {
	return hal.NewFault(code, fmt.Sprintf("window %d: cannot be mapped", window))
}

// board returns the device's board, nil if its PCI ids are unknown.
func (d *device) board() *boards.Board {
	needed := &d.view.Devices[d.index]
	return boards.FindByID(needed.Vendor, needed.Device)
}

// tlb returns the layout of the device's TLB windows, nil if it has none.
func (d *device) tlb() *boards.TLBLayout {
	if board := d.board(); board != nil {
		return board.TLB
	}
	return nil
}

// outbound returns the layout of the device's outbound translation, nil if it has none.
func (d *device) outbound() *boards.OutboundTranslation {
	if board := d.board(); board != nil {
		return board.Outbound
	}
	return nil
}

// AssignBusAddress implements hal.Device, with the rules of package hal.
func (d *device) AssignBusAddress(a *hal.Aperture, owner hal.Device) error {
	d.progress.commands++
	other := owner.(*device)
	isHost := a.Port.(*port).space.Kind == vector.HostSpace
	isReachable := other.outbound() == nil || !isHost
	if d.outbound() != nil {
		isReachable = other == d && isHost
	}
	if !isReachable {
		return hal.NewFault(hal.Usage, "cannot reach this memory")
	}
	return nil
}

// SetBusMaster implements hal.Device: it programs the outbound translation first. If the machine
// has the method EnableBusMaster, the method is called after that.
func (d *device) SetBusMaster(on bool) error {
	if err := d.programOutbound(on); err != nil || !on {
		return err
	}
	if machine, ok := d.machine.(interface{ EnableBusMaster(device int) }); ok {
		machine.EnableBusMaster(d.index)
	}
	return nil
}

// programOutbound programs all regions of outbound translation, or disables them.
func (d *device) programOutbound(on bool) error {
	outbound := d.outbound()
	if outbound == nil || len(d.regions) == 0 || !on && !d.master {
		return nil
	}
	d.master = on
	registers := &port{machine: d.machine, space: vector.OfBar(d.index, int(outbound.Bar))}
	code := hal.OK
	for i := range outbound.RegionCount {
		var r region
		if on && i < len(d.regions) {
			r = d.regions[i]
		}
		outbound.ProgramRegion(i, r.offset, r.size, r.bus, func(register uint64, value uint32) {
			if code == hal.OK {
				code = registers.Store(register, 4, uint64(value))
			}
		})
	}
	if code != hal.OK {
		return hal.NewFault(code, fmt.Sprintf("device %d: its registers failed", d.index))
	}
	return nil
}

// EncodePoint implements hal.Device: it only checks that the TLB window can be programmed so.
func (d *device) EncodePoint(a *hal.Aperture, t fbs.TileRoute, address uint64,
	_ *fbs.Command) (registers, windowBase uintptr, code hal.Code) {
	d.progress.commands++
	group := d.tlb().GroupOf(a.TLBWindow)
	inside := address & (group.Size - 1)
	if _, ok := d.tlb().EncodeWindow(group, t, address-inside); !ok {
		return 0, 0, hal.Refused
	}
	return 0, 0, hal.OK
}

// ProgramWindow implements hal.Device: it stores to the registers of the TLB window.
func (d *device) ProgramWindow(a *hal.Aperture, t fbs.TileRoute, address uint64) hal.Code {
	tlb := d.tlb()
	group := tlb.GroupOf(a.TLBWindow)
	inside := address & (group.Size - 1)
	words, _ := tlb.EncodeWindow(group, t, address-inside)
	registers := &port{machine: d.machine, space: vector.OfBar(d.index, int(tlb.ConfigBar)),
		start: tlb.ConfigOffset + uint64(a.TLBWindow)*tlb.ConfigStride}
	width, last := tlb.ConfigWidth, tlb.ConfigStride-uint64(tlb.ConfigWidth)
	for at := uint64(0); at <= last; at += uint64(width) {
		value := words[at/8] >> (8 * (at % 8)) & fbs.WidthMask(width)
		if code := registers.Store(at, width, value); code != hal.OK {
			return code
		}
	}
	a.Port.(*port).start = group.WindowOffset(a.TLBWindow) + inside
	_, code := registers.Load(last, width)
	return code
}

// Alive implements hal.Device.
func (d *device) Alive() bool { return d.machine.IsPresent(d.index) }

// Diagnose implements hal.Device.
func (d *device) Diagnose() hal.Code { return mock.GoneUnlessAlive(d) }

// Now implements hal.Device.
func (d *device) Now() int64 { return d.machine.Now() }

// Sleep implements hal.Device.
func (d *device) Sleep(nanoseconds int64) {
	if nanoseconds > 0 {
		d.machine.Wait(nanoseconds)
	}
}

// port is a range of addresses of the machine.
type port struct {
	machine oracle.Machine
	space   vector.Space
	start   uint64 // offset in the space of the first byte
}

// Load implements hal.Port.
func (p *port) Load(offset uint64, width uint8) (uint64, hal.Code) {
	value, ok := p.machine.Load(p.space, p.start+offset, width)
	return value, codeOf(ok)
}

// Store implements hal.Port.
func (p *port) Store(offset uint64, width uint8, value uint64) hal.Code {
	return codeOf(p.machine.Store(p.space, p.start+offset, width, value))
}

// codeOf returns the code of an access.
func codeOf(ok bool) hal.Code {
	if !ok {
		return hal.BusFault
	}
	return hal.OK
}
