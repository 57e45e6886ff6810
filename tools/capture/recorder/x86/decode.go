package x86

import "encoding/binary"

// encoding is how an instruction says which registers it means.
type encoding uint8

const (
	legacy encoding = 1 << iota
	vex
	evex
)

// instruction is one taken apart.
type instruction struct {
	code   []byte
	length int
	form   *form

	encoding encoding
	table    uint8 // 0: one byte, 1: 0F, 2: 0F 38, 3: 0F 3A
	opcode   uint8

	operand16, address32  bool  // prefixes 66 and 67
	repeat, repeatNot     bool  // prefixes F3 and F2
	lock                  bool  // prefix F0
	segment               uint8 // prefix 64, 65 or 0
	rex                   bool  // a REX prefix is there
	wide                  bool  // W
	mandatory             uint8 // which of none, 66, F3, F2 selects a vector instruction
	vector                uint8 // its length: 0 128, 1 256, 2 512 bits
	second                uint8 // register in vvvv
	mask                  uint8 // mask register, 0: none
	zeroing, broadcast    bool
	highR, highX, highB   uint8 // added to reg, index and base
	mode, reg, rm         uint8 // of ModRM; reg with what is added to it
	operandAt, operandEnd int   // in code: of ModRM and what follows for the address
	base, index           int   // registers, -1: none
	scale                 uint8 // as a shift
	displacement          uint64
	displacement8         bool // it has one byte, which EVEX scales
	ipRelative, hasMemory bool
	immediate             uint64 // with its sign
}

// reader takes bytes of an instruction.
type reader struct {
	code  []byte
	at    int
	short bool
}

func (r *reader) byte() uint8 {
	if r.at >= len(r.code) || r.at >= 15 {
		r.short = true
		return 0
	}
	r.at++
	return r.code[r.at-1]
}

// signed takes a number of 1, 2, 4 or 8 bytes.
func (r *reader) signed(bytes int) uint64 {
	var b [8]byte
	for i := range bytes {
		b[i] = r.byte()
	}
	return extend(binary.LittleEndian.Uint64(b[:]), bytes)
}

// extend copies the sign bit of a number of some bytes upwards.
func extend(v uint64, bytes int) uint64 {
	shift := 64 - 8*bytes
	return uint64(int64(v) << shift >> shift)
}

// decode takes an instruction apart. The error is a *Refusal.
func decode(code []byte) (instruction, error) {
	i := instruction{code: code, encoding: legacy, base: -1, index: -1}
	r := &reader{code: code}
	reason := i.opcodeAndPrefixes(r)
	if reason == "" {
		reason = i.operands(r)
	}
	i.length = r.at
	if r.short {
		reason = "the instruction is truncated"
	}
	if reason != "" {
		return i, &Refusal{code, reason}
	}
	return i, nil
}

// opcodeAndPrefixes gives a reason to refuse the instruction, or none.
func (i *instruction) opcodeAndPrefixes(r *reader) string {
	b := i.prefixes(r)
	if b&0xf0 == 0x40 {
		i.rex, i.wide = true, b&8 != 0
		i.highR, i.highX, i.highB = b&4<<1, b&2<<2, b&1<<3
		b = r.byte()
	}
	if b == 0xc4 || b == 0xc5 || b == 0x62 {
		if i.rex || i.lock || i.operand16 || i.repeat || i.repeatNot {
			return "a prefix that the encoding forbids"
		}
		if b == 0x62 {
			return i.evexPrefix(r)
		}
		return i.vexPrefix(r, b == 0xc4)
	}
	if b == 0x0f {
		i.table = 1
		b = r.byte()
		if b == 0x38 || b == 0x3a {
			i.table = 2 + (b-0x38)/2
			b = r.byte()
		}
	}
	i.opcode = b
	switch {
	case i.repeatNot:
		i.mandatory = 3
	case i.repeat:
		i.mandatory = 2
	case i.operand16:
		i.mandatory = 1
	}
	return ""
}

// prefixes takes the legacy ones, and gives the byte after them.
func (i *instruction) prefixes(r *reader) uint8 {
	for {
		switch b := r.byte(); b {
		case 0x66:
			i.operand16 = true
		case 0x67:
			i.address32 = true
		case 0xf0:
			i.lock = true
		case 0xf2:
			i.repeat, i.repeatNot = false, true
		case 0xf3:
			i.repeat, i.repeatNot = true, false
		case 0x64, 0x65:
			i.segment = b
		case 0x26, 0x2e, 0x36, 0x3e: // without effect in 64-bit mode
		default:
			return b
		}
	}
}

// vexPrefix reads what follows C4 or C5: SDM 2.3.5.
func (i *instruction) vexPrefix(r *reader, three bool) string {
	i.encoding, i.table = vex, 1
	b := r.byte()
	i.highR = ^b >> 4 & 8
	if three {
		i.highX, i.highB = ^b>>3&8, ^b>>2&8
		i.table = b & 31
		b = r.byte()
		i.wide = b&0x80 != 0
	}
	if i.table < 1 || i.table > 3 {
		return "no such opcode map"
	}
	i.second, i.vector, i.mandatory = ^b>>3&15, b>>2&1, pp(b)
	i.opcode = r.byte()
	return ""
}

// evexPrefix reads what follows 62: SDM 2.7.1. Maps beyond 3 hold instructions
// on half-precision numbers.
func (i *instruction) evexPrefix(r *reader) string {
	i.encoding = evex
	p0, p1, p2 := r.byte(), r.byte(), r.byte()
	i.table = p0 & 7
	if p0&8 != 0 || p1&4 == 0 || i.table < 1 || i.table > 3 {
		return "no such opcode map"
	}
	i.highR, i.highX, i.highB = ^p0>>4&8|^p0&16, ^p0>>3&8, ^p0>>2&8
	i.wide, i.mandatory = p1&0x80 != 0, pp(p1)
	i.second = ^p1>>3&15 | ^p2<<1&16
	i.zeroing, i.vector, i.broadcast, i.mask = p2&0x80 != 0, p2>>5&3, p2&16 != 0, p2&7
	i.opcode = r.byte()
	if i.vector == 3 {
		return "the vector length does not exist"
	}
	return ""
}

// pp is the mandatory prefix in the low bits of VEX and EVEX, as none, 66, F3, F2.
func pp(b uint8) uint8 { return b & 3 }

// operands takes ModRM, displacement and immediate, as the form says.
func (i *instruction) operands(r *reader) string {
	if i.form = lookup(i); i.form == nil {
		return "not known to the recorder"
	}
	switch i.form.shape {
	case noModRM:
	case offset:
		i.hasMemory = true
		if i.address32 {
			i.displacement = r.signed(4) // of which the address takes 32 bits
		} else {
			i.displacement = r.signed(8)
		}
	default:
		i.modRM(r)
		if !i.hasMemory {
			return "no memory operand"
		}
	}
	if reason := i.form.check(i); reason != "" {
		return reason
	}
	i.operandEnd = r.at
	i.immediate = r.signed(i.form.immediate(i))
	if i.encoding == evex && i.displacement8 {
		i.displacement *= uint64(i.memoryWidth())
	}
	return ""
}

func (i *instruction) modRM(r *reader) {
	i.operandAt = r.at
	b := r.byte()
	i.mode, i.reg, i.rm = b>>6, b>>3&7|i.highR, b&7
	if i.mode == 3 {
		return
	}
	i.hasMemory = true
	i.base = int(i.rm | i.highB)
	if i.rm == 4 {
		i.sib(r.byte())
	} else if i.rm == 5 && i.mode == 0 {
		i.base, i.ipRelative = -1, true
	}
	switch {
	case i.mode == 1:
		i.displacement, i.displacement8 = r.signed(1), true
	case i.mode == 2 || i.base < 0:
		i.displacement = r.signed(4)
	}
}

func (i *instruction) sib(b uint8) {
	i.scale = b >> 6
	if i.index = int(b>>3&7 | i.highX); i.index == 4 {
		i.index = -1
	}
	if i.base = int(b&7 | i.highB); b&7 == 5 && i.mode == 0 {
		i.base = -1
	}
}

// operandSize is that of integer instructions that have no size of their own.
func (i *instruction) operandSize() int {
	switch {
	case i.wide:
		return 8
	case i.operand16:
		return 2
	}
	return 4
}

// integerSize is 1 for even opcodes, as in most of tables 0 and 1.
func (i *instruction) integerSize() int {
	if i.opcode&1 == 0 {
		return 1
	}
	return i.operandSize()
}

// vectorSize is the vector's length in bytes.
func (i *instruction) vectorSize() int { return 16 << i.vector }
