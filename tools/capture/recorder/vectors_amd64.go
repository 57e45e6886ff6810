package recorder

import (
	"encoding/binary"
	"errors"
	"slices"

	"lightmetal/tools/capture/recorder/x86"

	"golang.org/x/sys/unix"
)

// Where the vectors lie in the state that the kernel gives, in its standard
// form: SDM volume 1, 13.4. The part that FXSAVE made is fixed, the others are
// where CPUID says.
const (
	setXstate = 0x202 // NT_X86_XSTATE
	stateMax  = 16 << 10
	xmmAt     = 160
	presentAt = 512 // a bit for each part that is not as after a reset

	partSSE     = 1
	partAVX     = 2 // upper halves of YMM0 to 15
	partOpmask  = 5
	partHigh256 = 6 // upper halves of ZMM0 to 15
	partHigh16  = 7 // ZMM16 to 31
)

var errVectors = errors.New("the kernel returns no state of the vector registers")

// stateSize is how much of a state is read.
var stateSize = stateMax

// cpuid is the instruction.
func cpuid(leaf, subleaf uint32) (a, b, c, d uint32)

// partsAt is where each part lies, 0: the processor does not have it.
var partsAt = func() (at [8]int) {
	at[partSSE] = xmmAt
	most, _, _, _ := cpuid(0, 0)
	for part := partAVX; part <= partHigh16 && most >= 0xd; part++ {
		_, offset, _, _ := cpuid(0xd, uint32(part))
		at[part] = int(offset)
	}
	return at
}()

// vectorState is a thread's, as the kernel gives it.
type vectorState struct {
	tid  int
	raw  []byte
	data x86.Vectors
}

func vectorsOf(tid int) (*vectorState, error) {
	s := &vectorState{tid: tid, raw: make([]byte, stateSize)}
	n, err := registerSet(unix.PTRACE_GETREGSET, tid, setXstate, s.raw)
	if err != nil || n < presentAt+64 {
		return nil, errors.Join(errVectors, err)
	}
	stateSize = n // of all threads
	s.raw = s.raw[:n]
	s.move(func(_ int, raw, data []byte) { copy(data, raw) })
	return s, nil
}

// put writes back all of it.
func (s *vectorState) put() error {
	present := binary.LittleEndian.Uint64(s.raw[presentAt:])
	s.move(func(part int, raw, data []byte) {
		copy(raw, data)
		if slices.ContainsFunc(data, func(b byte) bool { return b != 0 }) {
			present |= 1 << part
		}
	})
	binary.LittleEndian.PutUint64(s.raw[presentAt:], present)
	_, err := registerSet(unix.PTRACE_SETREGSET, s.tid, setXstate, s.raw)
	return err
}

// move calls f with each piece of a register, in the state and in the vectors.
func (s *vectorState) move(f func(part int, raw, data []byte)) {
	piece := func(part, n int, data []byte) {
		at := partsAt[part] + n*len(data)
		if partsAt[part] != 0 && at+len(data) <= len(s.raw) {
			f(part, s.raw[at:at+len(data)], data)
		}
	}
	for n := range 16 {
		piece(partSSE, n, s.data.Z[n][:16])
		piece(partAVX, n, s.data.Z[n][16:32])
		piece(partHigh256, n, s.data.Z[n][32:])
		piece(partHigh16, n, s.data.Z[16+n][:])
	}
	for n := range s.data.K {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], s.data.K[n])
		piece(partOpmask, n, b[:])
		s.data.K[n] = binary.LittleEndian.Uint64(b[:])
	}
}
