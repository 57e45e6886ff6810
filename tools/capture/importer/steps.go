package importer

import (
	"slices"

	"lightmetal/boards"
	"lightmetal/tools/capture/importer/traces"
)

type stepOp uint8

const (
	stepNone     stepOp = iota
	stepStore           // value, or bytes of an input tensor
	stepRelocate        // value is the offset in host memory whose bus address is stored
	stepLoad            // an expected value, or bytes of an output tensor
	stepIgnore          // a load whose value does not matter
	stepCarryOut        // a load whose value goes into the scratch tensor
	stepCarryIn         // a store of a value from the scratch tensor
	stepPoll
	stepMark
	stepHostStores    // stores of the program to host memory, which are not accesses in the trace
	stepSequenceStart // start of the next sequence
	stepDelay
)

// step is one access, or several that become one command: a run of accesses of adjacent memory, or
// repeated loads of one register without other accesses between them. Traces have millions of
// steps, so a step is small and has no pointers.
type step struct {
	time int64 // time of the first access in nanoseconds
	// The value that is stored, loaded or awaited. If the bytes are stored elsewhere, the position
	// of the first: in program.runData (a run), in the data of a tensor, or in host memory
	// (stepRelocate)
	value  uint64
	offset uint32 // offset in the window, in bytes
	line   uint32 // line of the first access
	count  uint32 // number of accesses
	// Time from the first access to the last in microseconds; after the pass fold, the deadline of
	// a stepPoll, and of a stepDelay the delay
	durationUs uint32
	target     int32 // index into program.targets: target of the TLB window; -1: a window of a BAR
	// Depends on op: index of the tensor (stepStore, stepLoad), into program.hostSpaces
	// (stepRelocate), program.markNames (stepMark), program.hostStoreLists (stepHostStores) or
	// program.masks (stepPoll); the segment that starts (stepSequenceStart); the offset in the
	// scratch tensor (stepCarryOut, stepCarryIn). -1: none
	operand int32
	window  uint16 // index into program.windows
	// Of a run: number of lines from one access to the next; of a stepPoll after the pass pauses,
	// its interval in microseconds
	lineStride uint16
	rule       uint8 // index into the board's rules
	op         stepOp
	width      uint8
	flags      uint8
}

const (
	// Plain memory: only the bytes matter, not the number and widths of the accesses
	flagMemory   = 1 << iota
	flagRepeated // `count` loads of one register, all of which returned `value`
	flagSplit    // part of an access that was split at the edge of a tensor
	flagLoop     // poll made of a loop that waited
	// The image points the window before this step, even if it already points there. Of a mark: the
	// program had configured a window before the mark
	flagPointFirst
	flagCounter   // a poll that waits until a counter has reached its value
	flagInterrupt // the first load after an interrupt of the device
	flagChanged   // a poll that waits until the register has another value
)

func (s *step) accessesDevice() bool { return s.op >= stepStore && s.op <= stepPoll }

func (s *step) hasFlag(flag uint8) bool { return s.flags&flag != 0 }

// elementCount returns the number of adjacent elements that a step accesses.
func (s *step) elementCount() uint32 {
	if s.hasFlag(flagRepeated) {
		return 1
	}
	return s.count
}

// size returns the number of bytes that a step accesses.
func (s *step) size() uint64 { return uint64(s.elementCount()) * uint64(s.width) }

func (s *step) lastTime() int64 {
	if s.op == stepPoll {
		return s.time
	}
	return s.time + int64(s.durationUs)*1000
}

func (s *step) lineOf(k uint32) int {
	return int(s.line + k*uint32(s.lineStride))
}

// tensorIndex returns the index of the tensor that a step belongs to, or -1.
func (s *step) tensorIndex() int {
	if s.op != stepStore && s.op != stepLoad {
		return -1
	}
	return int(s.operand)
}

const chunkSteps = 4096

// stepList is a list that grows without copying its elements.
type stepList struct {
	chunks [][]step
	spare  [][]step // chunks that rewrite has emptied
	count  int
}

func (l *stepList) at(i int) *step { return &l.chunks[i/chunkSteps][i%chunkSteps] }

// appendStep appends a step and returns its address, which does not change when the list grows.
func (l *stepList) appendStep(s step) *step {
	if l.count == len(l.chunks)*chunkSteps {
		l.addChunk()
	}
	c := &l.chunks[l.count/chunkSteps]
	*c = append(*c, s)
	l.count++
	return &(*c)[len(*c)-1]
}

func (l *stepList) addChunk() {
	last := len(l.spare) - 1
	if last < 0 {
		l.chunks = append(l.chunks, make([]step, 0, chunkSteps))
		return
	}
	l.chunks, l.spare = append(l.chunks, l.spare[last]), l.spare[:last]
}

// lastStep returns the last step, or nil if the list is empty.
func (l *stepList) lastStep() *step {
	if l.count == 0 {
		return nil
	}
	return l.at(l.count - 1)
}

// truncate keeps the first n steps.
func (l *stepList) truncate(n int) {
	l.count = n
	l.chunks = l.chunks[:(n+chunkSteps-1)/chunkSteps]
	if n%chunkSteps != 0 {
		c := &l.chunks[n/chunkSteps]
		*c = (*c)[:n%chunkSteps]
	}
}

// rewrite replaces the list by what `do` appends to out for each step. The step s is valid only
// during the call.
func (l *stepList) rewrite(do func(s *step, out *stepList) error) error {
	old := l.chunks
	*l = stepList{}
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

// removeEmptySteps removes the steps with the operation stepNone.
func (p *program) removeEmptySteps() {
	kept := 0
	for i := range p.steps.count {
		if s := p.steps.at(i); s.op != stepNone {
			*p.steps.at(kept) = *s
			kept++
		}
	}
	p.steps.truncate(kept)
}

const arenaChunk = 1 << 20

// runArena stores the bytes of runs. A position in it has the number of the chunk in its upper 32
// bits, and the offset in the chunk in its lower 32 bits.
type runArena struct{ chunks [][]byte }

// store copies data into the arena and returns its position.
func (a *runArena) store(data []byte) (at uint64) {
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

func (a *runArena) bytes(at, size uint64) []byte {
	offset := at & (1<<32 - 1)
	return a.chunks[at>>32][offset : offset+size : offset+size]
}

// extend appends data to the size bytes at a position. It fails if these are not the last bytes of
// the arena, or if the chunk is full.
func (a *runArena) extend(at, size uint64, data []byte) bool {
	c := &a.chunks[at>>32]
	if at>>32 != uint64(len(a.chunks)-1) || at&(1<<32-1)+size != uint64(len(*c)) ||
		len(data) > cap(*c)-len(*c) {
		return false
	}
	*c = append(*c, data...)
	return true
}

func (p *program) singleAccess(s *step, k uint32) step { return p.accessRange(s, k, k+1) }

// accessRange returns the accesses from first up to, but not including, end as a step.
func (p *program) accessRange(s *step, first, end uint32) step {
	if s.count == 1 {
		return *s
	}
	e, at := *s, first*uint32(s.width)
	e.count, e.line, e.offset = end-first, uint32(s.lineOf(first)), s.offset+at
	if first > 0 {
		e.time, e.durationUs = s.lastTime(), 0
	}
	if e.count > 1 || s.tensorIndex() >= 0 {
		e.value += uint64(at) // a position
	} else {
		e.value = p.valueOf(s, first)
	}
	if e.count > 1 {
		return e
	}
	e.flags, e.lineStride = s.flags&flagMemory, 0
	if s.op != stepPoll {
		e.durationUs = 0
	}
	return e
}

// valueOf returns the value that access k of a step stores or loads.
func (p *program) valueOf(s *step, k uint32) uint64 {
	if s.elementCount() == 1 && s.tensorIndex() < 0 {
		return s.value
	}
	return traces.Little(p.dataOf(s)[k*uint32(s.width):][:s.width])
}

func (p *program) dataOf(s *step) []byte {
	switch {
	case s.tensorIndex() >= 0:
		return p.tensors[s.operand].data[s.value:][:s.size()]
	case s.elementCount() > 1:
		return p.runData.bytes(s.value, s.size())
	}
	return traces.Bytes(s.value, s.width)
}

func (p *program) maskOf(s *step) uint64 { return p.masks[s.operand] }

// maskIndex returns the index of a mask in program.masks, which is a short list.
func (p *program) maskIndex(mask uint64) int32 {
	index := slices.Index(p.masks, mask)
	if index < 0 {
		index = len(p.masks)
		p.masks = append(p.masks, mask)
	}
	return int32(index)
}

func (p *program) ruleOfStep(s *step) *boards.AccessRule { return &p.board.Rules[s.rule] }
