package metal

import (
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/fail"
)

// EnqueueWriteBuffer writes `data` to a complete buffer, in the order of its pages. The caller may
// change `data` after the call, also if blocking is false.
func EnqueueWriteBuffer(q *CommandQueue, b *Buffer, data []byte, blocking bool) (err error) {
	defer fail.Catch(&err)
	d := q.useBuffer("EnqueueWriteBuffer", b)
	if uint64(len(data)) != b.config.Size {
		refuse("the slice data has %d bytes, "+
			"but buffer %d has %d bytes", len(data), b.id, b.config.Size)
	}
	for _, s := range d.streams(Call{Name: "EnqueueWriteBuffer", Buffer: b.id}) {
		s.writeBuffer(b, data)
	}
	d.wait(blocking)
	return nil
}

// writeBuffer appends a write of a buffer: from an input tensor if NameInput was called for it,
// otherwise of constant data. The data have arrived in all banks before the next command executes,
// because a kernel may read them there.
func (s *stream) writeBuffer(b *Buffer, data []byte) {
	index, named := uint16(0), s.capture != nil && b.input != nil
	if named {
		index = s.capture.input(b.input, data)
	}
	runs := b.runs()
	for i, r := range runs {
		if named {
			s.tensor(gen.OpcodeCopyIn, r, index)
		} else {
			s.copyIn(unicast(r.tile), r.address, r.gather(data))
		}
		if i == len(runs)-1 || runs[i+1].tile != r.tile {
			s.arrive(memory, unicast(r.tile), r.address)
		}
	}
}

// readBuffer appends a read of a buffer to the output tensor with the given index.
func (s *stream) readBuffer(b *Buffer, index uint16) {
	for _, r := range b.runs() {
		s.tensor(gen.OpcodeCopyOut, r, index)
	}
}

// EnqueueReadBuffer reads a complete buffer into `data`, in the order of its pages. `data` must
// have the size of the buffer, or be nil. It contains the result when a blocking call or Finish
// returns; it stays unchanged if no device computes. If calls are recorded, the read becomes an
// output of the image.
func EnqueueReadBuffer(q *CommandQueue, b *Buffer, data []byte, blocking bool) (err error) {
	defer fail.Catch(&err)
	d := q.useBuffer("EnqueueReadBuffer", b)
	if data != nil && uint64(len(data)) != b.config.Size {
		refuse("the slice data has %d bytes, "+
			"but buffer %d has %d bytes", len(data), b.id, b.config.Size)
	}
	golden := -1 // index of the output in the image; -1: none
	for _, s := range d.streams(Call{Name: "EnqueueReadBuffer", Buffer: b.id}) {
		if s.capture != nil {
			golden = s.capture.output(b)
			s.readBuffer(b, uint16(golden))
		} else {
			s.readBuffer(b, d.machine.read(d.capture, golden, b, data))
		}
	}
	d.wait(blocking)
	return nil
}

// Finish waits until all calls that were enqueued are complete.
func Finish(q *CommandQueue) (err error) {
	defer fail.Catch(&err)
	d := q.use()
	if d.open != nil {
		refuse("Finish: a trace may contain only EnqueueProgram; "+
			"call EndTraceCapture for trace %d first", d.open.id)
	}
	d.streams(Call{Name: "Finish"})
	d.wait(true)
	return nil
}

// EnqueueProgram launches a program in its current state, or adds it to the trace that is being
// captured. Whether it blocks or not, calls that are enqueued later take effect after the end of
// the program. In an image blocking makes no difference.
func EnqueueProgram(q *CommandQueue, p *Program, blocking bool) (err error) {
	defer fail.Catch(&err)
	d := q.use()
	if p == nil || p.device != d {
		refuse("the program is nil, or belongs to another device")
	}
	d.check("program", p.id, p)
	l := d.newLaunch(p)
	if d.open != nil {
		d.open.launches = append(d.open.launches, l)
		return nil
	}
	for _, s := range d.streams(Call{Name: "EnqueueProgram", Program: p.id}) {
		s.take(l.cores)
		s.launch(&d.grid, l, l.all)
	}
	d.wait(blocking)
	return nil
}

// useBuffer returns the device of the queue. It fails if the buffer cannot be used with this queue,
// or while a trace is being captured. name is the name of the exported call.
func (q *CommandQueue) useBuffer(name string, b *Buffer) *Device {
	d := q.use()
	switch {
	case b == nil || b.device != d:
		refuse("%s: the buffer is nil, or belongs to another device", name)
	case d.open != nil:
		refuse("%s: a trace may contain only EnqueueProgram; "+
			"call EndTraceCapture for trace %d first", name,
			d.open.id)
	}
	d.check("buffer", b.id, b)
	return d
}

// wait executes all pending calls if the caller blocks and a device computes.
func (d *Device) wait(blocking bool) {
	if blocking && d.machine != nil {
		d.machine.run()
	}
}
