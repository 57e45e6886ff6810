package metal

import (
	"encoding/binary"
	"maps"
	"slices"

	"lightmetal/boards"
	"lightmetal/boards/chips"
)

// launch is a program as it is at the moment of EnqueueProgram: what each of
// its cores must hold, and which processors run.
type launch struct {
	program    uint64
	cores      []CoreCoord // all that have a kernel, row by row
	constant   map[CoreCoord][]block
	zeroed     map[CoreCoord][]span // memory of its own that a run changes
	state      map[CoreCoord]block  // what a run uses up
	processors map[CoreCoord][]Processor
	deadlineUs uint32
}

// newLaunch takes a program as it is.
func (d *Device) newLaunch(p *Program) *launch {
	if len(p.kernels) == 0 {
		refuse("program %d has no kernel", p.id)
	}
	deadline := d.Deadline.Microseconds()
	if deadline < 1 || deadline >= 1<<32 {
		refuse("deadline %v must be 1 us to 71 minutes", d.Deadline)
	}
	l := &launch{program: p.id, constant: map[CoreCoord][]block{}, zeroed: map[CoreCoord][]span{},
		state:      map[CoreCoord]block{},
		processors: map[CoreCoord][]Processor{}, deadlineUs: uint32(deadline)}
	for _, k := range p.kernels {
		for _, c := range k.cores {
			l.processors[c] = append(l.processors[c], k.processor)
		}
	}
	l.cores = slices.SortedFunc(maps.Keys(l.processors), compareCores)
	for _, c := range l.cores {
		slices.Sort(l.processors[c])
		d.fill(l, p, c)
	}
	return l
}

// fill gathers what a core must hold.
func (d *Device) fill(l *launch, p *Program, c CoreCoord) {
	var nocs uint32
	for _, k := range p.kernels {
		if !slices.Contains(k.cores, c) {
			continue
		}
		nocs |= uint32(k.noc) << k.processor
		l.constant[c] = append(l.constant[c], k.image.segments...)
		l.zeroed[c] = append(l.zeroed[c], k.image.zeroed...)
		if k.vector != nil {
			l.constant[c] = append(l.constant[c], *k.vector)
		}
		args := d.arguments(k.arguments[c])
		if len(args) > 0 {
			l.constant[c] = append(l.constant[c],
				block{argumentBase + argumentStride*uint64(k.processor), words(args...)})
		}
	}
	l.constant[c] = append(l.constant[c], d.constants(nocs))
	circulars, count := d.circularBlocks(p, c)
	l.constant[c] = append(l.constant[c], circulars...)
	l.state[c] = p.state(c, count)
}

func (d *Device) arguments(list []RuntimeArg) (values []uint32) {
	for _, a := range list {
		d.checkArgument(a)
		if a.buffer != nil {
			a.word = uint32(a.buffer.address)
		}
		values = append(values, a.word)
	}
	return values
}

// constants is the block that tells kernels where they are.
func (d *Device) constants(nocs uint32) block {
	chip := uint32(0)
	if d.board == &boards.Blackhole {
		chip = 1
	}
	list := []uint32{chip, nocs, uint32(len(d.banks))}
	for _, t := range d.banks {
		list = append(list, word(t))
	}
	return block{constantBase, words(list...)}
}

// circularBlocks gives the descriptors of a core's circular buffers, and one
// more than their highest index.
func (d *Device) circularBlocks(p *Program, c CoreCoord) (list []block, count int) {
	next := uint64(dataBase)
	for _, cb := range p.circulars {
		if !slices.Contains(cb.cores, c) {
			continue
		}
		address := next
		if b := cb.config.Buffer; b != nil {
			d.check("buffer", b.id, b)
			address = b.address
		} else {
			next = roundUp(next+cb.config.TotalSize, align)
		}
		for _, index := range slices.Sorted(maps.Keys(cb.config.PageSizes)) {
			page := cb.config.PageSizes[index]
			list = append(list, block{circularBase + 16*uint64(index),
				words(uint32(address), uint32(cb.config.TotalSize), uint32(page),
					uint32(cb.config.TotalSize/page))})
			count = max(count, int(index)+1)
		}
	}
	if lowest := d.l1.lowest(); next > lowest {
		refuse("the circular buffers of program %d, up to %#x on core %v, overlap a buffer at "+
			"%#x", p.id,
			next, c, lowest)
	}
	return list, count
}

// state is what every launch starts from: nothing is done, circular buffers
// are empty, semaphores have their initial values.
func (p *Program) state(c CoreCoord, circulars int) block {
	size := uint64(counterBase - stateBase)
	if circulars > 0 {
		size = counterBase - stateBase + 8*uint64(circulars)
	}
	data := make([]byte, size)
	for _, s := range p.semaphores {
		if slices.Contains(s.cores, c) {
			at := semaphoreBase - stateBase + 16*int(s.id)
			data = append(data, make([]byte, max(0, at+16-len(data)))...)
			copy(data[at:], words(s.initial))
		}
	}
	return block{stateBase, data}
}

// all is everything a core must hold.
func (l *launch) all(c CoreCoord) []block { return append(slices.Clone(l.constant[c]), l.state[c]) }

// launch appends a whole launch: what is not in place yet, the start, and the
// wait for the end.
func (s *stream) launch(g *grid, l *launch, blocks func(CoreCoord) []block) {
	s.hold(g, l.cores)
	s.store(g, merge(l.cores, blocks))
	for _, c := range l.cores {
		s.arrive(memory, unicast(g.tile(c)), stateBase)
	}
	s.release(g, l)
	for _, r := range rectangles(l.cores) {
		s.write(memory, g.target(r), stateBase, goValue)
	}
	for _, c := range l.cores {
		for _, p := range l.processors[c] {
			s.poll(unicast(g.tile(c)), doneBase+4*uint64(p), done, l.deadlineUs)
		}
	}
	for _, c := range l.cores {
		delete(s.held, c)
	}
	s.hold(g, l.cores)
}

// hold puts cores that may be running in reset, and sees that they are.
func (s *stream) hold(g *grid, cores []CoreCoord) {
	var running []CoreCoord
	for _, c := range cores {
		if !s.held[c] {
			running = append(running, c)
		}
		s.held[c] = true
	}
	reset := &chips.Of(g.board).Grid.Reset
	for _, r := range rectangles(running) {
		s.write(registers, g.target(r), reset.Address, reset.Mask)
	}
	for _, c := range running {
		s.arrive(registers, unicast(g.tile(c)), reset.Address)
	}
}

// release takes the launched processors out of reset. They wait for go.
func (s *stream) release(g *grid, l *launch) {
	reset := &chips.Of(g.board).Grid.Reset
	for _, p := range merge(l.cores, func(c CoreCoord) []block {
		mask := reset.Mask
		for _, p := range l.processors[c] {
			mask &^= 1 << reset.Cores[p].Bit
		}
		return []block{{reset.Address, words(mask)}}
	}) {
		for _, r := range rectangles(p.cores) {
			s.write(registers, g.target(r), reset.Address, binary.LittleEndian.Uint32(p.data))
		}
	}
}
