package x86

import "encoding/binary"

// encoding is the way in which an instruction encodes its operands.
type encoding uint8

const (
	legacy encoding = 1 << iota
	vex
	evex
)

// instruction is a decoded instruction.
type instruction struct {
	code   []byte
	length int
	form   *form

	encoding encoding
	table    uint8 // as in formKey
	opcode   uint8

	operand16, address32 bool  // prefixes 66 and 67
	repeat, repeatNot    bool  // prefixes F3 and F2
	lock                 bool  // prefix F0
	segment              uint8 // prefix 64, 65 or 0
	rex                  bool  // the instruction has a REX prefix
	bitW                 bool  // bit W of REX, VEX or EVEX
	mandatory            uint8 // prefix that selects the instruction: 0 none, 1 66, 2 F3, 3 F2
	vectorLength         uint8 // vector length: 0 128, 1 256, 2 512 bits
	vvvv                 uint8 // register in the field vvvv
	mask                 uint8 // mask register, 0: none
	zeroing, broadcast   bool
	highR, highX, highB  uint8 // high bits of the registers reg, index and base
	mode, reg, rm        uint8 // fields of ModRM; reg includes highR
	// offsets in code of ModRM, and of the end of the bytes for the address
	operandStart, operandEnd int
	base, index              int   // numbers of the registers; -1: no register
	scale                    uint8 // shift of the index register
	displacement             uint64
	isDisplacement8          bool // the displacement has one byte, which EVEX scales
	ipRelative, hasMemory    bool
	immediate                uint64 // sign-extended
}

// reader reads the bytes of an instruction.
type reader struct {
	code      []byte
	position  int
	truncated bool
}

func (r *reader) readByte() uint8 {
	if r.position >= len(r.code) || r.position >= 15 {
		r.truncated = true
		return 0
	}
	r.position++
	return r.code[r.position-1]
}

// readSigned reads a signed number of 1, 2, 4 or 8 bytes.
func (r *reader) readSigned(bytes int) uint64 {
	var b [8]byte
	for i := range bytes {
		b[i] = r.readByte()
	}
	return extend(binary.LittleEndian.Uint64(b[:]), bytes)
}

// extend sign-extends a number of 1 to 8 bytes to 64 bits.
func extend(v uint64, bytes int) uint64 {
	shift := 64 - 8*bytes
	return uint64(int64(v) << shift >> shift)
}

// decode decodes an instruction with a memory operand. The error is a *Refusal.
func decode(code []byte) (instruction, error) {
	i, reason := decodeWith(forms, code)
	if reason != "" {
		return i, &Refusal{code, reason}
	}
	return i, nil
}

// decodeWith decodes an instruction of one of the given forms. It returns a reason to reject the
// instruction, or "".
func decodeWith(forms map[formKey]*form, code []byte) (i instruction, reason string) {
	i = instruction{code: code, encoding: legacy, base: -1, index: -1}
	r := &reader{code: code}
	if reason = i.readOpcodeAndPrefixes(r); reason == "" {
		reason = i.readOperands(r, lookup(forms, &i))
	}
	i.length = r.position
	if r.truncated {
		reason = "the instruction is truncated"
	}
	return i, reason
}

// readOpcodeAndPrefixes decodes the prefixes and the opcode. It returns a reason to reject the
// instruction, or "".
func (i *instruction) readOpcodeAndPrefixes(r *reader) string {
	b := i.readPrefixes(r)
	if b&0xf0 == 0x40 {
		i.rex, i.bitW = true, b&8 != 0
		i.highR, i.highX, i.highB = b&4<<1, b&2<<2, b&1<<3
		b = r.readByte()
	}
	if b == 0xc4 || b == 0xc5 || b == 0x62 {
		if i.rex || i.lock || i.operand16 || i.repeat || i.repeatNot {
			return "a prefix that the encoding forbids"
		}
		if b == 0x62 {
			return i.readEVEXPrefix(r)
		}
		return i.readVEXPrefix(r, b == 0xc4)
	}
	if b == 0x0f {
		i.table = map0F
		b = r.readByte()
		switch b {
		case 0x38:
			i.table, b = map0F38, r.readByte()
		case 0x3a:
			i.table, b = map0F3A, r.readByte()
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

// readPrefixes reads the legacy prefixes, and returns the byte after them.
func (i *instruction) readPrefixes(r *reader) uint8 {
	for {
		switch b := r.readByte(); b {
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

// readVEXPrefix reads the bytes after C4 or C5: SDM 2.3.5.
func (i *instruction) readVEXPrefix(r *reader, three bool) string {
	i.encoding, i.table = vex, map0F
	b := r.readByte()
	i.highR = ^b >> 4 & 8
	if three {
		i.highX, i.highB = ^b>>3&8, ^b>>2&8
		i.table = b & 31
		b = r.readByte()
		i.bitW = b&0x80 != 0
	}
	if i.table < map0F || i.table > map0F3A {
		return "the opcode map does not exist"
	}
	i.vvvv, i.vectorLength, i.mandatory = ^b>>3&15, b>>2&1, mandatoryPrefix(b)
	i.opcode = r.readByte()
	return ""
}

// readEVEXPrefix reads the bytes after 62: SDM 2.7.1. Opcode maps beyond 3 contain instructions for
// half-precision numbers, and are not supported.
func (i *instruction) readEVEXPrefix(r *reader) string {
	i.encoding = evex
	p0, p1, p2 := r.readByte(), r.readByte(), r.readByte()
	i.table = p0 & 7
	if p0&8 != 0 || p1&4 == 0 || i.table < map0F || i.table > map0F3A {
		return "the opcode map does not exist"
	}
	i.highR, i.highX, i.highB = ^p0>>4&8|^p0&16, ^p0>>3&8, ^p0>>2&8
	i.bitW, i.mandatory = p1&0x80 != 0, mandatoryPrefix(p1)
	i.vvvv = ^p1>>3&15 | ^p2<<1&16
	i.zeroing, i.vectorLength, i.broadcast, i.mask = p2&0x80 != 0, p2>>5&3, p2&16 != 0, p2&7
	i.opcode = r.readByte()
	if i.vectorLength == 3 {
		return "the vector length does not exist"
	}
	return ""
}

// mandatoryPrefix returns the mandatory prefix in the low bits of VEX and EVEX: 0 none, 1 66, 2 F3,
// 3 F2.
func mandatoryPrefix(b uint8) uint8 { return b & 3 }

// readOperands reads ModRM, the displacement and the immediate, as the form specifies.
func (i *instruction) readOperands(r *reader, f *form) string {
	if i.form = f; f == nil {
		return "unknown instruction"
	}
	switch f.shape {
	case noModRM:
	case offset:
		i.hasMemory = true
		if i.address32 {
			i.displacement = r.readSigned(4) // an address of 32 bits uses only 4 bytes
		} else {
			i.displacement = r.readSigned(8)
		}
	default:
		i.readModRM(r)
		if !i.hasMemory && f.operand == inMemory {
			return "the instruction has no memory operand"
		}
		if i.hasMemory && f.operand == inRegister {
			return "the instruction has a memory operand"
		}
	}
	if reason := f.check(i); reason != "" {
		return reason
	}
	i.operandEnd = r.position
	i.immediate = r.readSigned(f.immediateBytes(i))
	if i.encoding == evex && i.isDisplacement8 {
		i.displacement *= uint64(i.memoryWidth())
	}
	return ""
}

func (i *instruction) readModRM(r *reader) {
	i.operandStart = r.position
	b := r.readByte()
	i.mode, i.reg, i.rm = b>>6, b>>3&7|i.highR, b&7
	if i.mode == 3 {
		return
	}
	i.hasMemory = true
	i.base = int(i.rm | i.highB)
	if i.rm == 4 {
		i.readSIB(r.readByte())
	} else if i.rm == 5 && i.mode == 0 {
		i.base, i.ipRelative = -1, true
	}
	switch {
	case i.mode == 1:
		i.displacement, i.isDisplacement8 = r.readSigned(1), true
	case i.mode == 2 || i.base < 0:
		i.displacement = r.readSigned(4)
	}
}

func (i *instruction) readSIB(b uint8) {
	i.scale = b >> 6
	if i.index = int(b>>3&7 | i.highX); i.index == 4 {
		i.index = -1
	}
	if i.base = int(b&7 | i.highB); b&7 == 5 && i.mode == 0 {
		i.base = -1
	}
}

// operandSize returns the operand size in bytes of integer instructions without a fixed size.
func (i *instruction) operandSize() int {
	switch {
	case i.bitW:
		return 8
	case i.operand16:
		return 2
	}
	return 4
}

// integerSize returns 1 for even opcodes, as for most instructions of oneByteMap and map0F, else
// operandSize.
func (i *instruction) integerSize() int {
	if i.opcode&1 == 0 {
		return 1
	}
	return i.operandSize()
}

// vectorSize returns the vector length in bytes.
func (i *instruction) vectorSize() int { return 16 << i.vectorLength }
