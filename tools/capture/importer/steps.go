package importer

import (
	"slices"

	"lightmetal/boards"
	"lightmetal/tools/capture/importer/traces"
)

// stepOp is what a step does.
type stepOp uint8

const (
	stepNone     stepOp = iota
	stepStore           // value, or bytes of an input tensor
	stepRelocate        // the bus address of host memory
	stepLoad            // an expected value, or bytes of an output tensor
	stepIgnore          // a load whose value does not matter
	stepPoll
	stepMark
	stepHost // stores of the program to host memory, which the trace does not hold
	stepCut  // another sequence begins
)

// step is an access on its way to a command, or several: a run of neighbours
// in memory, or a load that was repeated with nothing in between. Traces have
// millions: it is small and has no pointers.
type step struct {
	time int64 // nanoseconds, of the first access
	// stored, loaded or awaited; where the bytes are elsewhere, their place: of a run in
	// program.data, or in a tensor, or in host memory (stepRelocate)
	value  uint64
	offset uint32 // bytes into the window
	line   uint32 // of the first access
	count  uint32 // accesses
	us     uint32 // deadline of a stepPoll; before that, the time from the first access to the last
	aim    int32  // index into program.aims: where the window points; in a BAR -1
	// index of a tensor, of host memory (stepRelocate), of a name, of program.late (stepHost), of
	// program.masks (stepPoll); a segment (stepCut); -1: none
	to     int32
	window uint16 // index into program.windows
	apart  uint16 // of a run: lines from one access to the next
	rule   uint8  // index into the board's rules
	op     stepOp
	width  uint8
	flags  uint8
}

const (
	memoryStep   = 1 << iota // plain memory: what counts is the bytes, not the accesses
	repeatedStep             // count loads of one place that all gave value
	halfStep                 // of an access that was split at the edge of a tensor
	loopStep                 // a poll of a loop that did wait
	// the window is pointed before it, wherever it points already; of a mark: it was configured
	// before
	pointedStep
	reachedStep // a poll that waits until a counter has reached its value
)

// touches reports whether a step accesses the device.
func (s *step) touches() bool { return s.op >= stepStore && s.op <= stepPoll }

func (s *step) is(flag uint8) bool { return s.flags&flag != 0 }

// run is how many neighbours a step accesses.
func (s *step) run() uint32 {
	if s.is(repeatedStep) {
		return 1
	}
	return s.count
}

// size is how many bytes a step accesses.
func (s *step) size() uint64 { return uint64(s.run()) * uint64(s.width) }

// last is when the last access was.
func (s *step) last() int64 {
	if s.op == stepPoll {
		return s.time
	}
	return s.time + int64(s.us)*1000
}

// lineOf is the line of access k.
func (s *step) lineOf(k uint32) int {
	return int(s.line + k*uint32(s.apart))
}

// tensor is the tensor a step belongs to, -1: none.
func (s *step) tensor() int {
	if s.op != stepStore && s.op != stepLoad {
		return -1
	}
	return int(s.to)
}

const chunkSteps = 4096

// steps is a list that grows without being copied.
type steps struct {
	chunks [][]step
	spare  [][]step // chunks that a rewrite has emptied
	n      int
}

func (l *steps) at(i int) *step { return &l.chunks[i/chunkSteps][i%chunkSteps] }

// add appends a step; it stays where it is.
func (l *steps) add(s step) *step {
	if l.n == len(l.chunks)*chunkSteps {
		l.grow()
	}
	c := &l.chunks[l.n/chunkSteps]
	*c = append(*c, s)
	l.n++
	return &(*c)[len(*c)-1]
}

// grow appends an empty chunk.
func (l *steps) grow() {
	last := len(l.spare) - 1
	if last < 0 {
		l.chunks = append(l.chunks, make([]step, 0, chunkSteps))
		return
	}
	l.chunks, l.spare = append(l.chunks, l.spare[last]), l.spare[:last]
}

// end is the last step, nil where there is none.
func (l *steps) end() *step {
	if l.n == 0 {
		return nil
	}
	return l.at(l.n - 1)
}

// cut keeps the first n steps.
func (l *steps) cut(n int) {
	l.n = n
	l.chunks = l.chunks[:(n+chunkSteps-1)/chunkSteps]
	if n%chunkSteps != 0 {
		c := &l.chunks[n/chunkSteps]
		*c = (*c)[:n%chunkSteps]
	}
}

// rewrite has do append each step to the list again, or others in its place. What do has
// been given is overwritten later.
func (l *steps) rewrite(do func(s *step, out *steps) error) error {
	old := l.chunks
	*l = steps{}
	for _, c := range old {
		for j := range c {
			if err := do(&c[j], l); err != nil {
				return err
			}
		}
		l.spare = append(l.spare, c[:0])
	}
	l.spare = nil
	return nil
}

// sweep takes out the steps that do nothing any more.
func (p *program) sweep() {
	kept := 0
	for i := range p.steps.n {
		if s := p.steps.at(i); s.op != stepNone {
			*p.steps.at(kept) = *s
			kept++
		}
	}
	p.steps.cut(kept)
}

const arenaChunk = 1 << 20

// arena holds the bytes of runs. A place in it is a chunk's number and the
// offset in the chunk, 32 bits each.
type arena struct{ chunks [][]byte }

// add copies data into the arena.
func (a *arena) add(data []byte) (at uint64) {
	n := len(a.chunks)
	if n == 0 || len(data) > cap(a.chunks[n-1])-len(a.chunks[n-1]) {
		a.chunks = append(a.chunks, make([]byte, 0, max(len(data), arenaChunk)))
		n++
	}
	c := &a.chunks[n-1]
	at = uint64(n-1)<<32 | uint64(len(*c))
	*c = append(*c, data...)
	return at
}

// bytes is what lies at a place.
func (a *arena) bytes(at, size uint64) []byte {
	offset := at & (1<<32 - 1)
	return a.chunks[at>>32][offset : offset+size : offset+size]
}

// extend appends to the size bytes at a place, if they are the last and room
// is left after them.
func (a *arena) extend(at, size uint64, data []byte) bool {
	c := &a.chunks[at>>32]
	if at>>32 != uint64(len(a.chunks)-1) || at&(1<<32-1)+size != uint64(len(*c)) ||
		len(data) > cap(*c)-len(*c) {
		return false
	}
	*c = append(*c, data...)
	return true
}

// element is access k of a step by itself.
func (p *program) element(s *step, k uint32) step { return p.part(s, k, k+1) }

// part is the accesses first to end of a run.
func (p *program) part(s *step, first, end uint32) step {
	if s.count == 1 {
		return *s
	}
	e, at := *s, first*uint32(s.width)
	e.count, e.line, e.offset = end-first, uint32(s.lineOf(first)), s.offset+at
	if first > 0 {
		e.time, e.us = s.last(), 0
	}
	if e.count > 1 || s.tensor() >= 0 {
		e.value += uint64(at) // a place
	} else {
		e.value = p.datum(s, first)
	}
	if e.count > 1 {
		return e
	}
	e.flags, e.apart = s.flags&memoryStep, 0
	if s.op != stepPoll {
		e.us = 0
	}
	return e
}

// datum is what access k of a step stores or loads.
func (p *program) datum(s *step, k uint32) uint64 {
	if s.run() == 1 && s.tensor() < 0 {
		return s.value
	}
	return traces.Little(p.moved(s)[k*uint32(s.width):][:s.width])
}

// moved is the bytes that a step stores or loads.
func (p *program) moved(s *step) []byte {
	switch {
	case s.tensor() >= 0:
		return p.tensors[s.to].data[s.value:][:s.size()]
	case s.run() > 1:
		return p.data.bytes(s.value, s.size())
	}
	return traces.Bytes(s.value, s.width)
}

// mask is the bits that a poll looks at.
func (p *program) mask(s *step) uint64 { return p.masks[s.to] }

// maskIndex is the place of a mask in program.masks. There are few.
func (p *program) maskIndex(mask uint64) int32 {
	index := slices.Index(p.masks, mask)
	if index < 0 {
		index = len(p.masks)
		p.masks = append(p.masks, mask)
	}
	return int32(index)
}

// rule is the board's rule for what a step accesses.
func (p *program) rule(s *step) *boards.AccessRule { return &p.board.Rules[s.rule] }
