// Package ringdevice is a device with rings, made for tests, and a driver of it that is recorded:
// a queue of entries of several sizes, a ring of doorbells, and a ring of results with a pointer
// that the driver awaits and an event number that the device echoes.
package ringdevice

import (
	"encoding/binary"
	"fmt"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// Board is the device: registers in the first 4 KiB of BAR 0, and memory behind them.
var Board = boards.Board{Name: "rings", Vendor: 0x1234, Device: 0x5678,
	BarSizes: [6]uint64{0: memorySize},
	Rules: []boards.AccessRule{
		{First: 0, Last: 0xfff, Widths: 4, Name: "registers"},
		{First: 0x1000, Last: memorySize - 1, Widths: 1 | 2 | 4 | 8, IsMemory: true,
			Name: "memory"},
	}}

const (
	memorySize = 0x10000

	// Registers: where the rings are. The driver stores them before regStart.
	regQueue, regQueueEnd     = 0x00, 0x04
	regBells, regBellsEnd     = 0x08, 0x0c
	regResults, regResultsEnd = 0x10, 0x14
	regStart                  = 0x18
	regPointer                = 0x20 // next result's place / 16, and in bit 31 the lap
	regRead                   = 0x24 // the driver's pointer, in the same form

	// Entries: their first word
	opInput = 1 // the input follows at entryHeader
	opRun   = 2 // then event number, event number, 0, count and slot

	entryHeader = 0x10
	// Words of an input and of an output
	Words      = 24
	inputSize  = entryHeader + 4*Words // 0x70
	runSize    = 0x50
	resultSize = 0x70 // event number << 8 | resultDone, then the output at entryHeader
	resultDone = 0x3
	unit       = 0x10

	// Numbers of runs, with Device.Numbers: count rises by countStep, and slot goes around
	countStep                  = 0x48
	slotBegin, slotEnd, slotBy = 0x20, 0x2f0, 0x90
)

// Device is a Model. It takes a doorbell's word as the size of the next entry, clears it, and
// computes 3x+1.
type Device struct {
	memory                [memorySize]byte
	queue, bells, results ringPointer
	read                  ringPointer // what the driver has read
	input                 [Words]uint32
	wait                  int64
	Computed              int // number of results
	// Split makes a result that does not fit go on at the begin of its ring. The driver stores
	// each pointer that it has read up to.
	Split bool
	// WorkNs is the time for an entry.
	WorkNs int64
	// Numbers makes the device compute only if a run has the next count and slot.
	Numbers bool
	reason  string
}

type ringPointer struct{ begin, end, at, lap, laps uint32 }

// next returns the place of an entry, and advances.
func (p *ringPointer) next(size uint32) uint32 {
	if p.at+size > p.end {
		p.startAgain()
	}
	at := p.at
	p.at += size
	return at
}

func (p *ringPointer) startAgain() { p.at, p.lap, p.laps = p.begin, p.lap^1, p.laps+1 }

func (p *ringPointer) value() uint32 { return p.at>>4 | p.lap<<31 }

// unitAfter returns the place of the next unit, and advances.
func (p *ringPointer) unitAfter() uint32 {
	at := p.at
	if p.at += unit; p.at == p.end {
		p.startAgain()
	}
	return at
}

// New returns a mock of the device and its model.
func New() (*mock.Device, *Device) {
	d := &Device{WorkNs: 1200}
	return mock.NewWith(&Board, d), d
}

// Load implements mock.Model.
func (d *Device) Load(at mock.Place, width uint8) (uint64, hal.Code) {
	if at.Address == regPointer {
		return uint64(d.results.nextResult(d.Split).value()), hal.OK
	}
	var bytes [8]byte
	copy(bytes[:width], d.memory[at.Address:])
	return binary.LittleEndian.Uint64(bytes[:]), hal.OK
}

// Store implements mock.Model.
func (d *Device) Store(at mock.Place, width uint8, value uint64) hal.Code {
	if at.Address == regPointer {
		d.reason = "the pointer is the device's"
		return hal.Refused
	}
	if at.Address == regRead && value != uint64(d.read.value()) {
		d.read.placer(true)
		if value != uint64(d.read.value()) {
			d.reason = fmt.Sprintf("the driver has read up to %#x, not %#x", value, d.read.value())
			return hal.Refused
		}
	}
	var bytes [8]byte
	binary.LittleEndian.PutUint64(bytes[:], value&fbs.WidthMask(width))
	copy(d.memory[at.Address:], bytes[:width])
	if at.Address == regStart {
		d.queue = d.ringAt(regQueue)
		d.bells = d.ringAt(regBells)
		d.results = d.ringAt(regResults)
		d.read = d.results
	}
	return hal.OK
}

// Laps returns how often each ring has started again.
func (d *Device) Laps() map[string]uint32 {
	return map[string]uint32{"queue": d.queue.laps, "doorbells": d.bells.laps,
		"results": d.results.laps}
}

// Reason implements mock.Explainer.
func (d *Device) Reason() string { return d.reason }

func (d *Device) word(at uint32) uint32 { return binary.LittleEndian.Uint32(d.memory[at:]) }

func (d *Device) put(at, value uint32) { binary.LittleEndian.PutUint32(d.memory[at:], value) }

func (d *Device) ringAt(register uint32) ringPointer {
	begin := d.word(register)
	return ringPointer{begin: begin, end: d.word(register + 4), at: begin}
}

// Advance implements mock.Clocked.
func (d *Device) Advance(nanoseconds int64) {
	for d.wait += nanoseconds; d.wait >= d.WorkNs; d.wait -= d.WorkNs {
		if d.bells.end == 0 {
			return
		}
		p := d.bells
		size := d.word(p.next(4))
		if size == 0 {
			d.wait = 0
			return
		}
		d.put(d.bells.next(4), 0)
		d.execute(d.queue.next(size))
	}
}

func (d *Device) execute(entry uint32) {
	switch d.word(entry) {
	case opInput:
		for i := range d.input {
			d.input[i] = d.word(entry + entryHeader + 4*uint32(i))
		}
	case opRun:
		count, slot := numbers(d.Computed)
		if d.Numbers && (d.word(entry+16) != count || d.word(entry+20) != slot) {
			return
		}
		place := d.results.placer(d.Split)
		d.put(place(0), d.word(entry+4)<<8|resultDone)
		for i, v := range d.input {
			d.put(place(entryHeader+4*uint32(i)), Output(v))
		}
		d.Computed++
	}
}

// nextResult returns the pointer where the next result will be.
func (p ringPointer) nextResult(split bool) *ringPointer {
	if !split && p.at+resultSize > p.end {
		p.startAgain()
	}
	return &p
}

// placer takes the next result, and returns where its bytes are.
func (p *ringPointer) placer(split bool) func(offset uint32) uint32 {
	if !split {
		result := p.next(resultSize)
		return func(offset uint32) uint32 { return result + offset }
	}
	var units []uint32
	for range resultSize / unit {
		units = append(units, p.unitAfter())
	}
	return func(offset uint32) uint32 { return units[offset/unit] + offset%unit }
}

// numbers returns the count and the slot of a run.
func numbers(run int) (count, slot uint32) {
	return uint32(run) * countStep, slotBegin + uint32(run)*slotBy%(slotEnd-slotBegin)
}

// Output is the output word of an input word.
func Output(input uint32) uint32 { return 3*input + 1 }

// Layout is where a driver places the rings.
type Layout struct{ Queue, QueueEnd, Bells, BellsEnd, Results, ResultsEnd uint32 }

// Usual lets the queue wrap inside a repetition in every second lap, and never at its very end.
var Usual = Layout{0x1000, 0x1440, 0x2000, 0x201c, 0x3000, 0x3240}

func (l Layout) String() string { return fmt.Sprintf("%#x", [6]uint32(l.list())) }

func (l Layout) list() []uint32 {
	return []uint32{l.Queue, l.QueueEnd, l.Bells, l.BellsEnd, l.Results, l.ResultsEnd}
}
