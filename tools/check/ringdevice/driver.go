package ringdevice

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/capture/record"
)

// Driver is a program that uses the device, and is recorded.
type Driver struct {
	device                *mock.Device
	bar                   hal.Aperture
	writer                *record.Writer
	text                  bytes.Buffer
	queue, bells, results ringPointer
	event                 uint32
	err                   error
	Lines                 []int // the first line of each repetition
	model                 *Device
	// Looks selects the inputs after which the driver loads the pointer too early; nil: none. If
	// there are some, it also loads a register when the queue wraps.
	Looks func(event uint32) bool
}

// NewDriver opens a device and starts it. set changes the device first, if not nil.
func NewDriver(l Layout, set func(*Device)) (*Driver, error) {
	d := &Driver{event: 1}
	d.device, d.model = New()
	if set != nil {
		set(d.model)
	}
	var err error
	d.bar, err = d.device.Map(fbs.Window{Kind: gen.WindowKindBar, Slot: fbs.AnySlot,
		Size: memorySize})
	if err != nil {
		return nil, err
	}
	d.writer = record.NewWriter(&d.text, func() time.Duration {
		return time.Duration(d.device.Now())
	})
	d.writer.Device(0, Board.Vendor, Board.Device, "0000:00:04.0")
	d.writer.Bar(0, 0, 0, 0x80000000, memorySize)
	for i, value := range l.list() {
		d.store(uint32(4*i), value)
	}
	d.store(regStart, 1)
	for _, r := range []struct {
		to         *ringPointer
		begin, end uint32
	}{{&d.queue, l.Queue, l.QueueEnd}, {&d.bells, l.Bells, l.BellsEnd},
		{&d.results, l.Results, l.ResultsEnd}} {
		*r.to = ringPointer{begin: r.begin, end: r.end, at: r.begin}
		for at := r.begin; r.to == &d.bells && at < r.end; at += 4 {
			d.store(at, 0)
		}
	}
	if d.model.Split { // a program that reads before it computes
		d.readResults(func(offset uint32) uint32 { return l.Results + offset })
	}
	return d, d.err
}

func (d *Driver) store(at, value uint32) {
	if code := mock.StoreAt(&d.bar, at, 4, uint64(value)); code != hal.OK {
		d.err = fmt.Errorf("store to %#x: %v: %s", at, code, d.device.Refusal())
	}
	d.writer.Access('W', 0, uint64(at), binary.LittleEndian.AppendUint32(nil, value))
}

func (d *Driver) load(at uint32) uint32 {
	value, code := mock.LoadAt(&d.bar, at, 4)
	if code != hal.OK {
		d.err = fmt.Errorf("load from %#x: %v: %s", at, code, d.device.Refusal())
	}
	d.writer.Access('R', 0, uint64(at), binary.LittleEndian.AppendUint32(nil, uint32(value)))
	return uint32(value)
}

// enter stores an entry and rings its doorbell.
func (d *Driver) enter(size uint32, words ...uint32) {
	laps := d.queue.laps
	at := d.queue.next(size)
	if d.Looks != nil && d.queue.laps != laps {
		d.load(regStart)
	}
	for i, value := range words {
		d.store(at+4*uint32(i), value)
	}
	d.store(d.bells.next(4), size)
}

// Run enters all inputs, then awaits and loads their outputs.
func (d *Driver) Run(inputs ...[Words]uint32) (outputs [][Words]uint32, err error) {
	d.Lines = append(d.Lines, 1+bytes.Count(d.text.Bytes(), []byte("\n")))
	for i, input := range inputs {
		event := d.event + uint32(i)
		d.enter(inputSize, append([]uint32{opInput, 0, 4 * Words, 0}, input[:]...)...)
		if d.Looks != nil && d.Looks(event) {
			d.load(regPointer)
		}
		words := []uint32{opRun, event, event, 0}
		if d.model.Numbers {
			count, slot := numbers(int(event - 1))
			words = append(words, count, slot)
		}
		d.enter(runSize, words...)
	}
	for range inputs {
		output, err := d.await()
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, output)
	}
	return outputs, d.err
}

// await waits for the next result and loads it.
func (d *Driver) await() (output [Words]uint32, err error) {
	place := d.results.placer(d.model.Split)
	next := d.results.nextResult(d.model.Split).value()
	for range 1000 {
		if d.load(regPointer) == next || d.err != nil {
			break
		}
	}
	if got := d.load(place(0)); got != d.event<<8|resultDone {
		return output, fmt.Errorf("result %#x of event %d: %#x (%v)", place(0), d.event, got,
			d.err)
	}
	d.event++
	return d.readResults(place), d.err
}

func (d *Driver) readResults(place func(offset uint32) uint32) (output [Words]uint32) {
	if d.model.Split {
		d.store(regRead, d.results.value())
	}
	for i := range output {
		output[i] = d.load(place(entryHeader + 4*uint32(i)))
	}
	return output
}

// Recording ends the program and returns its recording.
func (d *Driver) Recording() string {
	d.writer.FlushRun()
	d.writer.End()
	return d.text.String()
}
