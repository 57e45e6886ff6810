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
	hal.FrameLate: "frame-late",
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
	case err.Place == "segments" && isIn("end at"), element == "segment" && isIn("padding"):
		return "payload"
	case err.Place == "preamble", err.Place == "signature", hasIndex && element != "image":
		return err.Place
	}
	return "flatbuffer"
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
	windows := 0
	for i := range devices {
		devices[i] = &device{machine: machine, view: view, index: i, windows: &windows}
	}
	replay, err := runtime.Load(view, runtime.AnySlot, devices...)
	if err != nil {
		return nil, loadFault(view, err)
	}
	return &Player{replay, view}, nil
}

// loadFault returns the place of an error of Load in the words of vectors.
func loadFault(view *fbs.View, err error) *oracle.Fault {
	fault := &oracle.Fault{Code: codeNames[hal.CodeOf(err)], Place: err.Error()}
	var command int
	var sequence string
	_, text, _ := strings.Cut(err.Error(), ": ")
	switch {
	case strings.HasPrefix(text, "command "):
		place, _, _ := strings.Cut(text, ":")
		if _, e := fmt.Sscanf(place, "command %d of %s", &command, &sequence); e == nil {
			index := view.SequenceByName(sequence)
			fault.Place = fmt.Sprint("command ", int(view.Sequences[index].First)+command)
		}
	case strings.HasPrefix(text, "sequence "):
		for i := range view.Sequences {
			if view.WorstCaseUs[i] > view.TimeLimitUs {
				fault.Place = fmt.Sprint("sequence ", i)
				break
			}
		}
	case strings.Contains(text, "bytes for tensors"):
		fault.Place = "memory"
	case strings.HasPrefix(text, "the image "):
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
		Ignored: r.Ignored, Got: r.Got, Want: r.Want, Mask: r.Mask, Element: r.Element}
	if r.Code == hal.OK {
		result.Command = -1
	}
	if r.SafeRan {
		result.Safe = codeNames[r.Safe]
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
	hal.BaseDevice
	machine oracle.Machine
	view    *fbs.View
	index   int
	windows *int // windows of the image that have been mapped
}

// Identity implements hal.Device. The name contains the index, for loadFault.
func (d *device) Identity() hal.Identity {
	needed := &d.view.Devices[d.index]
	has := d.machine.Device(d.index, vector.Device{Index: d.index, Vendor: needed.Vendor,
		Device: needed.Device, Subsystem: needed.Subsystem, Bars: *needed.BarSizes()})
	return hal.Identity{Name: fmt.Sprint("test:", d.index), Vendor: has.Vendor,
		Device: has.Device, Subsystem: has.Subsystem, Bars: has.Bars}
}

// Map implements hal.Device. The runtime maps the windows in the order of the image.
func (d *device) Map(w fbs.Window) (hal.Aperture, error) {
	window := *d.windows
	*d.windows++
	p := &port{machine: d.machine}
	slot := -1
	switch w.Kind {
	case gen.WindowKindBar:
		p.space, p.start = vector.OfBar(d.index, int(w.Bar)), w.Offset
	case gen.WindowKindTlb:
		tlb := d.tlb()
		if tlb == nil {
			return hal.Aperture{}, hal.NewFault(hal.WrongDevice, "the device has no TLB windows")
		}
		slot = int(w.Slot)
		group := tlb.GroupOf(slot)
		if group == nil || group.Size < w.Size {
			return hal.Aperture{}, hal.NewFault(hal.NoDevice, "no such TLB window")
		}
		p.space = vector.OfBar(d.index, int(group.Bar))
	case gen.WindowKindHost:
		p.space = vector.OfHost(window)
	case gen.WindowKindConfig:
		p.space = vector.OfConfig(d.index)
	}
	a := hal.NewAperture(p, w.Size, slot)
	a.Bus, _ = d.machine.BusAddress(window)
	return a, nil
}

// tlb returns the layout of the device's TLB windows, nil if it has none.
func (d *device) tlb() *boards.TLB {
	needed := &d.view.Devices[d.index]
	if board := boards.FindByID(needed.Vendor, needed.Device); board != nil {
		return board.TLB
	}
	return nil
}

// EncodeWindow implements hal.Device: it only checks that the TLB window can be programmed so.
func (d *device) EncodeWindow(a *hal.Aperture, t fbs.TileRange, address uint64,
	_ *fbs.Command) (registers, windowBase uintptr, code hal.Code) {
	group := d.tlb().GroupOf(a.Slot)
	inside := address & (group.Size - 1)
	if _, ok := d.tlb().EncodeWindow(group, t, address-inside); !ok {
		return 0, 0, hal.Refused
	}
	return 0, 0, hal.OK
}

// ProgramWindow implements hal.Device: it stores to the registers of the TLB window.
func (d *device) ProgramWindow(a *hal.Aperture, t fbs.TileRange, address uint64) hal.Code {
	tlb := d.tlb()
	group := tlb.GroupOf(a.Slot)
	inside := address & (group.Size - 1)
	words, _ := tlb.EncodeWindow(group, t, address-inside)
	registers := &port{machine: d.machine, space: vector.OfBar(d.index, int(tlb.ConfigBar)),
		start: tlb.ConfigOffset + uint64(a.Slot)*tlb.ConfigStride}
	width, last := tlb.ConfigWidth, tlb.ConfigStride-uint64(tlb.ConfigWidth)
	for at := uint64(0); at <= last; at += uint64(width) {
		value := words[at/8] >> (8 * (at % 8)) & fbs.WidthMask(width)
		if code := registers.Store(at, width, value); code != hal.OK {
			return code
		}
	}
	a.Port.(*port).start = group.WindowOffset(a.Slot) + inside
	_, code := registers.Load(last, width)
	return code
}

// Alive implements hal.Device.
func (d *device) Alive() bool { return d.machine.IsPresent(d.index) }

// Diagnose implements hal.Device.
func (d *device) Diagnose() hal.Code { return hal.DeviceGoneUnlessAlive(d) }

// Now implements hal.Device.
func (d *device) Now() int64 { return d.machine.Now() }

// Sleep implements hal.Device.
func (d *device) Sleep(nanoseconds int64) { d.machine.Wait(nanoseconds) }

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
