package x86

// shape is the kind of bytes that follow an opcode.
type shape uint8

const (
	modRM   shape = iota // ModRM, with a memory operand
	noModRM              // nothing: the operands are fixed
	offset               // an address of 8 bytes
)

// operandPlace is where the operand in ModRM may be.
type operandPlace uint8

const (
	inMemory operandPlace = iota
	inRegister
	anywhere
)

// form describes the instructions of one opcode.
type form struct {
	shape        shape
	operand      operandPlace
	immediate    immediateSize
	validReg     uint8 // bit mask of the valid values of ModRM's reg; 0: all are valid
	validRM      uint8 // bit mask of the valid values of ModRM's rm; 0: all are valid
	no16Bit      bool  // with the prefix 66 it is another instruction, or invalid
	implicitLock bool  // the instruction is locked even without the prefix F0
	anyRepeat    bool  // the prefixes F2 and F3 have no effect
	size         func(*instruction) int
	run          func(*machine) error

	vectors       encoding // vector instruction: the encodings in which it exists
	hasMask       bool     // EVEX: the instruction can have a mask
	maskedBySigns bool     // VEX: only elements are loaded whose sign bit is set in the vector vvvv
	regIsMask     bool     // EVEX: reg is a mask register
	hasVVVV       bool     // VEX and EVEX: the instruction has a register in vvvv
	elementSize   func(*instruction) int
	lengths       uint8    // VEX and EVEX: bit mask of the valid vector lengths; 0: all are valid
	vexW          ruleForW // value that the bit W must have
	evexW         ruleForW
}

// ruleForW is the value that the bit W must have.
type ruleForW uint8

const (
	anyW ruleForW = iota
	w0
	w1
	wAs66 // 1 if the prefix is 66, else 0
)

// fits reports whether W has the required value.
func (w ruleForW) fits(i *instruction) bool {
	return w == anyW || i.bitW == (w == w1 || w == wAs66 && i.mandatory == 1)
}

type immediateSize uint8

const (
	noImmediate immediateSize = iota
	oneByte
	upTo4Bytes // as many bytes as the operand, but at most 4
	fullSized  // as many bytes as the operand
)

func (f *form) immediateBytes(i *instruction) int {
	switch {
	// in group 3, only TEST has an immediate
	case f.immediate == noImmediate, i.table == oneByteMap &&
		(i.opcode == 0xf6 || i.opcode == 0xf7) && i.reg&7 > 1:
		return 0
	case f.immediate == oneByte:
		return 1
	case f.immediate == fullSized:
		return f.size(i)
	}
	return min(f.size(i), 4)
}

// memoryWidth returns the size of the memory operand in bytes, or 0 for string instructions.
func (i *instruction) memoryWidth() int {
	if i.form.size == nil {
		return 0
	}
	return i.form.size(i)
}

// check returns a reason to reject an instruction that is invalid or not supported, or "".
func (f *form) check(i *instruction) string {
	switch {
	case f.validReg != 0 && f.validReg>>(i.reg&7)&1 == 0, f.validRM != 0 && f.validRM>>i.rm&1 == 0:
		return "unknown instruction"
	case f.vectors == 0 && f.shape != noModRM && !f.anyRepeat && (i.repeat || i.repeatNot):
		return "a repeat prefix on an instruction that does not repeat"
	case i.encoding != legacy && !f.hasVVVV && i.vvvv != 0:
		return "a register operand that the instruction does not have (VEX.vvvv)"
	case i.broadcast:
		return "a broadcast that the instruction does not allow"
	case i.encoding != legacy && f.lengths != 0 && f.lengths>>i.vectorLength&1 == 0,
		i.encoding == vex &&
			!f.vexW.fits(i), i.encoding == evex &&
			!f.evexW.fits(i):
		return "no instruction has this vector length and width"
	// shifts of 32-bit and 64-bit elements
	case f.vectors == evex && f.validReg != 0 && i.opcode != 0x71 && i.reg&3 == 2 &&
		i.bitW != (i.opcode == 0x73):
		return "no instruction has this width"
	case i.encoding == evex && f.regIsMask && (i.reg > 7 || i.zeroing):
		return "the mask register does not exist"
	case f.no16Bit && i.operand16:
		return "the instruction has no 16-bit operand"
	case (i.mask != 0 || i.zeroing) && !f.hasMask, i.zeroing && i.mask == 0:
		return "a mask that the instruction does not allow"
	}
	return ""
}

// lookup returns the form of an instruction whose opcode is decoded, or nil.
func lookup(forms map[formKey]*form, i *instruction) *form {
	f := forms[formKey{i.table, i.opcode, i.mandatory}]
	switch {
	case f != nil && f.vectors&i.encoding != 0:
		return f
	case i.encoding == legacy:
		return forms[formKey{i.table, i.opcode, anyPrefix}]
	}
	return nil
}

// Size functions of forms.
func operandSize(i *instruction) int { return i.operandSize() }
func integerSize(i *instruction) int { return i.integerSize() }
func vectorSize(i *instruction) int  { return i.vectorSize() }
func fixed(n int) func(*instruction) int {
	return func(*instruction) int { return n }
}
