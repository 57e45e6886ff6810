package recorder

import (
	"encoding/binary"
	"errors"
	"slices"

	"lightmetal/tools/capture/recorder/x86"

	"golang.org/x/sys/unix"
)

// Layout of the processor state that the kernel returns, in the standard format of XSAVE: SDM
// volume 1, 13.4. The part that FXSAVE defined has a fixed offset. CPUID reports the offsets of the
// other parts.
const (
	setXstate     = 0x202 // NT_X86_XSTATE
	stateMax      = 16 << 10
	xmmOffset     = 160
	presentOffset = 512 // one bit for each part that is not in its initial state

	partSSE     = 1
	partAVX     = 2 // upper halves of YMM0 to 15
	partOpmask  = 5
	partHigh256 = 6 // upper halves of ZMM0 to 15
	partHigh16  = 7 // ZMM16 to 31
)

var errVectors = errors.New("the kernel returns no state of the vector registers")

// stateSize is the size in bytes of the state, as far as it is known.
var stateSize = stateMax

func cpuid(leaf, subleaf uint32) (a, b, c, d uint32)

// partOffsets has the offset of each part. 0: the processor does not have the part.
var partOffsets = func() (at [8]int) {
	at[partSSE] = xmmOffset
	most, _, _, _ := cpuid(0, 0)
	for part := partAVX; part <= partHigh16 && most >= 0xd; part++ {
		_, offset, _, _ := cpuid(0xd, uint32(part))
		at[part] = int(offset)
	}
	return at
}()

type vectorState struct {
	tid  int
	raw  []byte
	data x86.Vectors
}

func vectorsOf(tid int) (*vectorState, error) {
	s := &vectorState{tid: tid, raw: make([]byte, stateSize)}
	n, err := transferRegisterSet(unix.PTRACE_GETREGSET, tid, setXstate, s.raw)
	if err != nil || n < presentOffset+64 {
		return nil, errors.Join(errVectors, err)
	}
	stateSize = n // the size is the same for all threads
	s.raw = s.raw[:n]
	s.eachPiece(func(_ int, raw, data []byte) { copy(data, raw) })
	return s, nil
}

// write writes the state back to the thread.
func (s *vectorState) write() error {
	present := binary.LittleEndian.Uint64(s.raw[presentOffset:])
	s.eachPiece(func(part int, raw, data []byte) {
		copy(raw, data)
		if slices.ContainsFunc(data, func(b byte) bool { return b != 0 }) {
			present |= 1 << part
		}
	})
	binary.LittleEndian.PutUint64(s.raw[presentOffset:], present)
	_, err := transferRegisterSet(unix.PTRACE_SETREGSET, s.tid, setXstate, s.raw)
	return err
}

// eachPiece calls f with each piece of a vector register: its bytes in the state and in the
// vectors.
func (s *vectorState) eachPiece(f func(part int, raw, data []byte)) {
	piece := func(part, n int, data []byte) {
		at := partOffsets[part] + n*len(data)
		if partOffsets[part] != 0 && at+len(data) <= len(s.raw) {
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
