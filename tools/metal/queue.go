package metal

import "lightmetal/fbs/gen"

// EnqueueWriteBuffer writes the whole of a buffer, in the order of its pages.
// The data may be changed when it returns.
func EnqueueWriteBuffer(q *CommandQueue, b *Buffer, data []byte, blocking bool) error {
	d, err := q.useBuffer("EnqueueWriteBuffer", b)
	if err != nil {
		return err
	}
	if uint64(len(data)) != b.config.Size {
		return usage("%d bytes for buffer %d, which has %d", len(data), b.id, b.config.Size)
	}
	for _, s := range d.streams(Call{Name: "EnqueueWriteBuffer", Buffer: b.id}) {
		s.writeBuffer(b, data)
	}
	return d.wait(blocking)
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
func EnqueueReadBuffer(q *CommandQueue, b *Buffer, data []byte, blocking bool) error {
	d, err := q.useBuffer("EnqueueReadBuffer", b)
	if err != nil {
		return err
	}
	if data != nil && uint64(len(data)) != b.config.Size {
		return usage("%d bytes for buffer %d, which has %d", len(data), b.id, b.config.Size)
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
	return d.wait(blocking)
}

// Finish waits until everything enqueued so far is done.
func Finish(q *CommandQueue) error {
	d, err := q.use()
	if err != nil {
		return err
	}
	if d.open != nil {
		return usage("Finish: trace %d is being captured, and a trace holds programs only", d.open.id)
	}
	d.streams(Call{Name: "Finish"})
	return d.wait(true)
}

// EnqueueProgram launches a program as it is now, or puts it in the trace that
// is being captured. Blocking or not, what is enqueued afterwards comes after
// its end, and in an image there is no difference.
func EnqueueProgram(q *CommandQueue, p *Program, blocking bool) error {
	d, err := q.use()
	if err != nil {
		return err
	}
	if p == nil || p.device != d {
		return usage("the program is not one of this device")
	}
	if err := d.check("program", p.id, p); err != nil {
		return err
	}
	l, err := d.newLaunch(p)
	if err != nil {
		return err
	}
	if d.open != nil {
		d.open.launches = append(d.open.launches, l)
		return nil
	}
	for _, s := range d.streams(Call{Name: "EnqueueProgram", Program: p.id}) {
		s.take(l.cores)
		s.launch(&d.grid, l, l.all)
	}
	return d.wait(blocking)
}

// useBuffer gives the device of a queue and a buffer, for a call on both.
func (q *CommandQueue) useBuffer(name string, b *Buffer) (*Device, error) {
	d, err := q.use()
	switch {
	case err != nil:
		return nil, err
	case b == nil || b.device != d:
		return nil, usage("%s: the buffer is not one of this device", name)
	case d.open != nil:
		return nil, usage("%s: trace %d is being captured, and a trace holds programs only", name, d.open.id)
	}
	return d, d.check("buffer", b.id, b)
}

// wait carries out what is enqueued, where the caller blocks and there is
// something to carry it out.
func (d *Device) wait(blocking bool) error {
	if blocking && d.machine != nil {
		return d.machine.run()
	}
	return nil
}
