package a64

import "encoding/binary"

// scalable is a decoded contiguous load or store of SVE. An immediate offset counts in units of the
// number of bytes that the instruction covers in memory (size).
type scalable struct {
	load          bool
	register      uint8 // number of the Z register; with predicateData of the P register
	predicateData bool  // LDR and STR of a predicate register

	governed  bool // only elements that are active in the predicate register are accessed
	predicate uint8

	element int // bytes of an element in the register
	memory  int // bytes of an element in memory; if fewer, loads extend and stores truncate
	signed  bool

	loadsOne  bool // LD1R: one element is loaded to all active elements
	loadsQuad bool // LD1RQ: 16 bytes are loaded and repeated

	base      uint8
	immediate int64 // offset in multiples of size()
	indexed   bool  // the offset is the register index, in multiples of memory
	index     uint8
}

// useNoSVE is the end of error messages, with a remedy. It helps with programs that do not require
// SVE: libraries choose their functions by the features that the kernel reports.
const useNoSVE = " is not recorded; boot the kernel with arm64.nosve"

// scalablePatterns are the encodings "SVE Memory" of C4.1 in the Arm ARM (DDI 0487). The name of a
// row is the title of a section in C8.2. The first row that matches applies.
var scalablePatterns = []struct {
	mask, value uint32
	name        string
	// returns false for an unallocated encoding; nil: not supported
	decode func(s *scalable, code uint32) bool
}{
	{0xffc0e010, 0x85800000, "LDR (predicate)", (*scalable).decodePredicate},
	{0xffc0e000, 0x85804000, "LDR (vector)", (*scalable).decodeVector},
	{0xfe408000, 0x84408000, "LD1RB, LD1RH, LD1RW, LD1RD, LD1RSB...", (*scalable).decodeLoadOne},
	{0xfe000000, 0x84000000, "LD1 (gather) or PRF", nil},

	{0xfe60e000, 0xa4000000, "LD1RQ (scalar plus scalar)", (*scalable).decodeLoadQuad},
	{0xfe70e000, 0xa4002000, "LD1RQ (scalar plus immediate)", (*scalable).decodeLoadQuadImmediate},
	{0xfe60e000, 0xa4200000, "LD1RO (scalar plus scalar)", nil},
	{0xfe70e000, 0xa4202000, "LD1RO (scalar plus immediate)", nil},
	{0xfe00e000, 0xa4004000, "LD1 (scalar plus scalar)", (*scalable).decodeLoadIndexed},
	{0xfe00e000, 0xa4006000, "LDFF1", nil},
	{0xfe10e000, 0xa400a000, "LD1 (scalar plus immediate)", (*scalable).decodeLoadImmediate},
	{0xfe10e000, 0xa410a000, "LDNF1", nil},
	{0xfe60e000, 0xa400c000, "LDNT1 (scalar plus scalar)", (*scalable).decodeStreaming},
	{0xfe70e000, 0xa400e000, "LDNT1 (scalar plus immediate)", (*scalable).decodeStreamingImmediate},
	{0xfe00e000, 0xa400c000, "LD2, LD3, LD4 (scalar plus scalar)", nil},
	{0xfe10e000, 0xa400e000, "LD2, LD3, LD4 (scalar plus immediate)", nil},

	{0xfe000000, 0xc4000000, "LD1 (gather) or PRF", nil},

	{0xffc0e010, 0xe5800000, "STR (predicate)", (*scalable).decodePredicate},
	{0xffc0e000, 0xe5804000, "STR (vector)", (*scalable).decodeVector},
	{0xfe00e000, 0xe4004000, "ST1 (scalar plus scalar)", (*scalable).decodeStoreIndexed},
	{0xfe10e000, 0xe400e000, "ST1 (scalar plus immediate)", (*scalable).decodeStoreImmediate},
	{0xfe60e000, 0xe4006000, "STNT1 (scalar plus scalar)", (*scalable).decodeStreaming},
	{0xfe70e000, 0xe410e000, "STNT1 (scalar plus immediate)", (*scalable).decodeStreamingImmediate},
	{0xfe00e000, 0xe4006000, "ST2, ST3, ST4 (scalar plus scalar)", nil},
	{0xfe10e000, 0xe410e000, "ST2, ST3, ST4 (scalar plus immediate)", nil},
	{0xfe00a000, 0xe400a000, "ST1 (scatter)", nil},
	{0xfe00a000, 0xe4008000, "ST1 (scatter)", nil},
	{0xfe00e000, 0xe4002000, "STNT1 (scatter)", nil},
}

// decodeScalable decodes an instruction of SVE, or returns a reason to reject it.
func decodeScalable(code uint32) (*scalable, string) {
	for _, p := range scalablePatterns {
		if code&p.mask != p.value {
			continue
		}
		if p.decode == nil {
			return nil, "SVE: " + p.name + useNoSVE
		}
		s := &scalable{
			load:      bits(code, 30, 30) == 0 || bits(code, 29, 29) == 0,
			register:  uint8(bits(code, 4, 0)),
			governed:  true,
			predicate: uint8(bits(code, 12, 10)),
			base:      uint8(bits(code, 9, 5)),
			index:     uint8(bits(code, 20, 16)),
		}
		if p.decode(s, code) {
			return s, ""
		}
	}
	return nil, "SVE: this instruction" + useNoSVE
}

// decodeVector decodes LDR and STR of a vector, whose immediate offset has 9 bits.
func (s *scalable) decodeVector(code uint32) bool {
	s.element, s.memory, s.governed = 1, 1, false
	s.immediate = int64(signedBits(code, 21, 16))<<3 | int64(bits(code, 12, 10))
	return true
}

func (s *scalable) decodePredicate(code uint32) bool {
	s.predicateData = true
	s.register = uint8(bits(code, 3, 0))
	return s.decodeVector(code)
}

// loadedTypes are the sizes of elements in memory and in the register, by the field dtype.
var loadedTypes = [16]struct {
	memory, element int
	signed          bool
}{
	{1, 1, false}, {1, 2, false}, {1, 4, false}, {1, 8, false},
	{4, 8, true}, {2, 2, false}, {2, 4, false}, {2, 8, false},
	{2, 8, true}, {2, 4, true}, {4, 4, false}, {4, 8, false},
	{1, 8, true}, {1, 4, true}, {1, 2, true}, {8, 8, false},
}

func (s *scalable) setType(dtype uint32) {
	t := loadedTypes[dtype]
	s.memory, s.element, s.signed = t.memory, t.element, t.signed
}

// setSize decodes the field msz: elements have the same size in memory and in the register.
func (s *scalable) setSize(code uint32) {
	s.memory = 1 << bits(code, 24, 23)
	s.element = s.memory
}

// setIndex decodes a register offset. Register 31 is unallocated.
func (s *scalable) setIndex() bool {
	s.indexed = true
	return s.index != 31
}

func (s *scalable) setImmediate(code uint32) bool {
	s.immediate = int64(signedBits(code, 19, 16))
	return true
}

func (s *scalable) decodeLoadOne(code uint32) bool {
	s.setType(bits(code, 24, 23)<<2 | bits(code, 14, 13))
	s.loadsOne, s.immediate = true, int64(bits(code, 21, 16))
	return true
}

func (s *scalable) decodeLoadQuad(code uint32) bool {
	s.setSize(code)
	s.loadsQuad = true
	return s.setIndex()
}

func (s *scalable) decodeLoadQuadImmediate(code uint32) bool {
	s.setSize(code)
	s.loadsQuad = true
	return s.setImmediate(code)
}

func (s *scalable) decodeLoadIndexed(code uint32) bool {
	s.setType(bits(code, 24, 21))
	return s.setIndex()
}

func (s *scalable) decodeLoadImmediate(code uint32) bool {
	s.setType(bits(code, 24, 21))
	return s.setImmediate(code)
}

// decodeStreaming decodes LDNT1 and STNT1, whose elements have one size in memory and register.
func (s *scalable) decodeStreaming(code uint32) bool {
	s.setSize(code)
	return s.setIndex()
}

func (s *scalable) decodeStreamingImmediate(code uint32) bool {
	s.setSize(code)
	return s.setImmediate(code)
}

// setStored decodes the fields msz (size in memory) and size (size in the register).
func (s *scalable) setStored(code uint32) bool {
	s.memory, s.element = 1<<bits(code, 24, 23), 1<<bits(code, 22, 21)
	return s.element >= s.memory
}

func (s *scalable) decodeStoreIndexed(code uint32) bool { return s.setStored(code) && s.setIndex() }

func (s *scalable) decodeStoreImmediate(code uint32) bool {
	return s.setStored(code) && s.setImmediate(code)
}

// size returns how many bytes of memory the instruction covers, given the length of a vector in
// bytes.
func (s *scalable) size(length int) int {
	switch {
	case s.loadsOne:
		return s.memory
	case s.loadsQuad:
		return 16
	case s.predicateData:
		return length / 8
	}
	return length / s.element * s.memory
}

// isActive reports whether the instruction accesses an element.
func (s *scalable) isActive(v *Vectors, element int) bool {
	bit := element * s.element
	return !s.governed || v.P[s.predicate][bit/8]>>(bit%8)&1 == 1
}

func (s *scalable) anyActive(v *Vectors) bool {
	for n := range v.Length / s.element {
		if s.isActive(v, n) {
			return true
		}
	}
	return false
}

// moveScalable executes a load or store of SVE. It makes all loads before it changes a register.
func (m *machine) moveScalable(fault uint64) error {
	s := m.scalable
	v, err := m.Vectors()
	if err != nil {
		return err
	}
	if !v.Scalable {
		const reason = "the thread's SVE registers cannot be read; boot the kernel with arm64.nosve"
		return &Refusal{m.code, reason}
	}
	size := s.size(v.Length)
	at := *m.addressRegister(s.base) + uint64(s.immediate)*uint64(size)
	if s.indexed {
		at += m.x(s.index) * uint64(s.memory)
	}
	if fault-at >= uint64(size) {
		return m.refuseOperand(uint64(size), at, fault)
	}
	if s.load {
		return m.loadScalable(v, at, size)
	}
	var buffer [256]byte
	data := buffer[:size]
	if s.predicateData {
		copy(data, v.P[s.register][:])
	} else {
		for n := range size / s.memory {
			copy(data[n*s.memory:][:s.memory], v.Z[s.register][n*s.element:])
		}
	}
	return m.eachPiece(v, at, data, m.memory.Store)
}

func (m *machine) loadScalable(v *Vectors, at uint64, size int) error {
	s := m.scalable
	var buffer [256]byte
	data := buffer[:size]
	if s.loadsOne {
		if s.anyActive(v) {
			if err := m.memory.Load(at, data); err != nil {
				return err
			}
		}
	} else if err := m.eachPiece(v, at, data, m.memory.Load); err != nil {
		return err
	}
	m.VectorsChanged = true
	if s.predicateData {
		v.P[s.register] = [32]byte{}
		copy(v.P[s.register][:], data)
		return nil
	}
	var loaded [256]byte
	for n := range v.Length / s.element {
		governor, source := n, n
		switch {
		case s.loadsOne:
			source = 0
		case s.loadsQuad:
			governor, source = n%(16/s.memory), n%(16/s.memory)
		}
		if !s.isActive(v, governor) {
			continue
		}
		var b [8]byte
		copy(b[:], data[source*s.memory:][:s.memory])
		extended := extend(binary.LittleEndian.Uint64(b[:]), s.memory, s.signed)
		binary.LittleEndian.PutUint64(b[:], extended)
		copy(loaded[n*s.element:], b[:s.element])
	}
	v.Z[s.register] = loaded
	return nil
}

// extend extends a number of 1 to 8 bytes to 64 bits.
func extend(v uint64, bytes int, signed bool) uint64 {
	if !signed {
		return v
	}
	shift := 64 - 8*bytes
	return uint64(int64(v) << shift >> shift)
}

// access is the method Load or Store of a Memory.
type access func(address uint64, data []byte) error

// eachPiece makes the accesses of a contiguous instruction, in ascending order of addresses. An
// active element of at least 2 bytes is one access, as the architecture requires. Bytes, with which
// libraries copy memory, do not determine a width: the widest aligned accesses move adjacent active
// bytes.
func (m *machine) eachPiece(v *Vectors, at uint64, data []byte, move access) error {
	s := m.scalable
	for n := 0; n < len(data); {
		if !s.isActive(v, n/s.memory) {
			n += s.memory
			continue
		}
		width := s.memory
		if width == 1 {
			run := 1
			for n+run < len(data) && s.isActive(v, n+run) {
				run++
			}
			width = pieceWidth(at+uint64(n), run)
		}
		if err := move(at+uint64(n), data[n:n+width]); err != nil {
			return err
		}
		n += width
	}
	return nil
}

// widestAccess is the widest access in bytes that is made for bytes without a width of their own.
// LDR and STR of a vector of 16 bytes, with which libraries copy, have the same width.
const widestAccess = 16

// pieceWidth returns the largest power of two that is at most `bytes` and to which an address is
// aligned, up to widestAccess.
func pieceWidth(at uint64, bytes int) int {
	width := widestAccess
	for width > bytes || at%uint64(width) != 0 {
		width /= 2
	}
	return width
}
