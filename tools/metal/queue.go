package metal

import (
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/fail"
)

// EnqueueWriteBuffer writes the whole of a buffer, in the order of its pages.
// The data may be changed when it returns.
func EnqueueWriteBuffer(q *CommandQueue, b *Buffer, data []byte, blocking bool) (err error) {
	defer fail.Catch(&err)
	d := q.useBuffer("EnqueueWriteBuffer", b)
	if uint64(len(data)) != b.config.Size {
		refuse("there are %d bytes of data, but buffer %d has %d "+
			"bytes", len(data), b.id, b.config.Size)
	}
	for _, s := range d.streams(Call{Name: "EnqueueWriteBuffer", Buffer: b.id}) {
		s.writeBuffer(b, data)
	}
	d.wait(blocking)
	return nil
}

// writeBuffer appends the write of a buffer, from an input tensor where it has
// one. The data have arrived in each bank before anything else happens: a
// kernel may look for them there.
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

// readBuffer appends the read of a buffer to an output tensor.
func (s *stream) readBuffer(b *Buffer, index uint16) {
	for _, r := range b.runs() {
		s.tensor(gen.OpcodeCopyOut, r, index)
	}
}

// EnqueueReadBuffer reads the whole of a buffer, in the order of its pages. data
// has its size, or is nil. It is filled when a blocking call or Finish returns,
// and left as it is where nothing is behind the device. Under capture the read
// is an output of the image.
func EnqueueReadBuffer(q *CommandQueue, b *Buffer, data []byte, blocking bool) (err error) {
	defer fail.Catch(&err)
	d := q.useBuffer("EnqueueReadBuffer", b)
	if data != nil && uint64(len(data)) != b.config.Size {
		refuse("there are %d bytes of data, but buffer %d has %d "+
			"bytes", len(data), b.id, b.config.Size)
	}
	golden := -1 // the output of the image
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

// Finish waits until everything enqueued so far is done.
func Finish(q *CommandQueue) (err error) {
	defer fail.Catch(&err)
	d := q.use()
	if d.open != nil {
		refuse("Finish: a trace may contain only EnqueueProgram; end trace %d first "+
			"(EndTraceCapture)", d.open.id)
	}
	d.streams(Call{Name: "Finish"})
	d.wait(true)
	return nil
}

// EnqueueProgram launches a program as it is now, or puts it in the trace that
// is being captured. Blocking or not, what is enqueued afterwards comes after
// its end, and in an image there is no difference.
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

// useBuffer gives the device of a queue and a buffer, for a call on both.
func (q *CommandQueue) useBuffer(name string, b *Buffer) *Device {
	d := q.use()
	switch {
	case b == nil || b.device != d:
		refuse("%s: the buffer is nil, or belongs to another device", name)
	case d.open != nil:
		refuse("%s: a trace may contain only EnqueueProgram; end trace %d first "+
			"(EndTraceCapture)", name,
			d.open.id)
	}
	d.check("buffer", b.id, b)
	return d
}

// wait carries out what is enqueued, where the caller blocks and there is
// something to carry it out.
func (d *Device) wait(blocking bool) {
	if blocking && d.machine != nil {
		d.machine.run()
	}
}
