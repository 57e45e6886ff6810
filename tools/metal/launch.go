package metal

import (
	"encoding/binary"
	"maps"
	"slices"

	"lightmetal/boards"
	"lightmetal/boards/chips"
)

// launch is a program as it was when EnqueueProgram was called: the contents of each core's memory,
// and the processors that run.
type launch struct {
	program    uint64                    // global id
	cores      []CoreCoord               // all cores that have a kernel, row by row
	constant   map[CoreCoord][]block     // contents of memory that a run does not change
	zeroed     map[CoreCoord][]span      // memory that the kernel itself clears and changes
	state      map[CoreCoord]block       // memory that a run changes; stored before each run
	processors map[CoreCoord][]Processor // processors that have a kernel
	deadlineUs uint32
}

// newLaunch returns a launch of the program p in its current state.
func (d *Device) newLaunch(p *Program) *launch {
	if len(p.kernels) == 0 {
		refuse("program %d has no kernel; call CreateKernel first", p.id)
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

// fill sets the contents of the memory of core c in a launch of the program p.
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

// arguments returns the values of the arguments in list, for which buffers are replaced by their
// addresses.
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

// constants returns the block with the constants of ABI.md: the chip, the NoCs of the processors,
// and the tiles of the DRAM banks. Bit n of nocs is the NoC of processor n.
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

// circularBlocks returns the descriptors of the circular buffers of core c. `count` is one more
// than their highest index.
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
		refuse("the circular buffers of program %d "+
			"end at %#x on core %v, so they overlap a buffer at %#x", p.id,
			next, c, lowest)
	}
	return list, count
}

// state returns the memory that is stored before each run on core c: all done words are 0, the
// circular buffers are empty, and semaphores have their initial values.
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

// all returns everything that must be stored in the memory of core c.
func (l *launch) all(c CoreCoord) []block { return append(slices.Clone(l.constant[c]), l.state[c]) }

// launch appends the commands of a launch: they store the given blocks, start the kernels, and wait
// until all kernels have finished.
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

// hold appends commands that put cores in reset, except those that are known to be in reset, and
// wait until the resets have taken effect.
func (s *stream) hold(g *grid, cores []CoreCoord) {
	var running []CoreCoord
	for _, c := range cores {
		if !s.held[c] {
			running = append(running, c)
		}
		s.held[c] = true
	}
	reset := &chips.ForBoard(g.board).Grid.TensixReset
	for _, r := range rectangles(running) {
		s.write(registers, g.target(r), reset.Address, reset.Mask)
	}
	for _, c := range running {
		s.arrive(registers, unicast(g.tile(c)), reset.Address)
	}
}

// release appends commands that take the processors of a launch out of reset. The kernels then wait
// for the go word.
func (s *stream) release(g *grid, l *launch) {
	reset := &chips.ForBoard(g.board).Grid.TensixReset
	for _, p := range merge(l.cores, func(c CoreCoord) []block {
		mask := reset.Mask
		for _, p := range l.processors[c] {
			mask &^= 1 << reset.Cores[p].ResetBit
		}
		return []block{{reset.Address, words(mask)}}
	}) {
		for _, r := range rectangles(p.cores) {
			s.write(registers, g.target(r), reset.Address, binary.LittleEndian.Uint32(p.data))
		}
	}
}
