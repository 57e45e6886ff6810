package x86

// shape is what follows an opcode.
type shape uint8

const (
	modRM   shape = iota // ModRM, with a memory operand
	noModRM              // nothing: the operands are fixed
	offset               // an address of eight bytes
)

// form is what all instructions of one opcode have in common.
type form struct {
	shape  shape
	wants  immediateSize
	groups uint8 // bits of the values that ModRM's reg may have, 0: all
	not16  bool  // prefix 66 makes another instruction of it, or none
	locks  bool  // without being told
	size   func(*instruction) int
	run    func(*machine) error

	vectors encoding // of a vector instruction: in which it exists
	masked  bool     // EVEX: it takes a mask
	bySign  bool     // VEX: it takes the elements whose sign another vector has
	toMask  bool     // EVEX: reg is a mask register
	three   bool     // VEX and EVEX: it has a register in vvvv
	element func(*instruction) int
	lengths uint8 // VEX and EVEX: bits of the vector lengths that there are, 0: all
	wVex    wide  // what W has to be
	wEvex   wide
}

// wide is what an encoding wants of W.
type wide uint8

const (
	anyW wide = iota
	w0
	w1
	wAs66 // as the prefix 66 is there
)

// fits tells whether W is what is wanted.
func (w wide) fits(i *instruction) bool {
	return w == anyW || i.wide == (w == w1 || w == wAs66 && i.mandatory == 1)
}

type immediateSize uint8

const (
	noImmediate immediateSize = iota
	oneByte
	operandBytes // as the operand, up to four
)

// immediate is how many bytes of the instruction are one.
func (f *form) immediate(i *instruction) int {
	switch {
	// group 3: TEST alone has one
	case f.wants == noImmediate, (i.opcode == 0xf6 || i.opcode == 0xf7) && i.table == 0 &&
		i.reg&7 > 1:
		return 0
	case f.wants == oneByte:
		return 1
	}
	return min(f.size(i), 4)
}

// memoryWidth is the length of the memory operand in bytes, 0 for those that repeat.
func (i *instruction) memoryWidth() int {
	if i.form.size == nil {
		return 0
	}
	return i.form.size(i)
}

// check gives a reason to refuse what no processor or no emulation takes.
func (f *form) check(i *instruction) string {
	switch {
	case f.groups != 0 && f.groups>>(i.reg&7)&1 == 0:
		return "not known to the recorder"
	case f.vectors == 0 && f.shape != noModRM && (i.repeat || i.repeatNot):
		return "a repeat prefix on an instruction that does not repeat"
	case i.encoding != legacy && !f.three && i.second != 0:
		return "a register operand that the instruction does not have (VEX.vvvv)"
	case i.broadcast:
		return "a broadcast that the instruction does not allow"
	case i.encoding != legacy && f.lengths != 0 && f.lengths>>i.vector&1 == 0, i.encoding == vex &&
		!f.wVex.fits(i), i.encoding == evex &&
		!f.wEvex.fits(i):
		return "no instruction has this vector length and width"
	// shifts of D, of Q
	case f.vectors == evex && f.groups != 0 && i.opcode != 0x71 && i.reg&3 == 2 &&
		i.wide != (i.opcode == 0x73):
		return "no instruction has this width"
	case i.encoding == evex && f.toMask && (i.reg > 7 || i.zeroing):
		return "the mask register does not exist"
	case f.not16 && i.operand16:
		return "the instruction has no 16-bit operand"
	case (i.mask != 0 || i.zeroing) && !f.masked, i.zeroing && i.mask == 0:
		return "a mask that the instruction does not allow"
	}
	return ""
}

// lookup finds the form of an instruction whose opcode is known.
func lookup(i *instruction) *form {
	f := forms[formKey{i.table, i.opcode, i.mandatory}]
	switch {
	case f != nil && f.vectors&i.encoding != 0:
		return f
	case i.encoding == legacy:
		return forms[formKey{i.table, i.opcode, anyPrefix}]
	}
	return nil
}

// size functions of forms.
func operandSize(i *instruction) int { return i.operandSize() }
func integerSize(i *instruction) int { return i.integerSize() }
func vectorSize(i *instruction) int  { return i.vectorSize() }
func fixed(n int) func(*instruction) int {
	return func(*instruction) int { return n }
}
