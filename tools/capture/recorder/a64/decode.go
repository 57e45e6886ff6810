package a64

// instruction is a decoded load or store.
type instruction struct {
	code      uint32
	registers []uint8 // numbers of the data registers
	width     int     // bytes in memory for each register
	load      bool
	signed    bool // the loaded number is sign-extended
	to32Bits  bool // the sign extension is to 32 bits only
	vector    bool

	base        uint8
	offset      uint64
	isPostIndex bool // the address is the base without the offset
	writeBack   bool

	// the offset is the register `second`, extended by `option` and shifted left by `shift`
	hasIndex      bool
	second        uint8
	option, shift uint8

	// access to one element of a vector; load of one element to all elements of a vector of `size`
	// bytes
	isElement, isReplicated bool
	elementOffset, size     int

	isCacheOperation, isDCZVA bool // an instruction on a cache block; it is DC ZVA

	scalable *scalable // nil: not of SVE
	bulk     *bulk     // nil: not of FEAT_MOPS
}

func bits(code uint32, high, low int) uint32 { return code >> low & (1<<(high-low+1) - 1) }

// signedBits returns the field code[high:low] as a signed number, extended to 64 bits.
func signedBits(code uint32, high, low int) uint64 {
	shift := 64 - (high - low + 1)
	return uint64(int64(uint64(bits(code, high, low))<<shift) >> shift)
}

// decode decodes an instruction, or returns the reason why it is not executed.
func decode(code uint32) (i instruction, reason string) {
	i = instruction{code: code, base: uint8(bits(code, 9, 5)),
		registers: []uint8{uint8(bits(code, 4, 0))}}
	switch {
	case bits(code, 31, 12) == 0xd50b7:
		return i, i.decodeCacheLine()
	case bits(code, 29, 27) == 5 && bits(code, 25, 25) == 0:
		return i, i.decodePair()
	case bits(code, 29, 27) == 7 && bits(code, 25, 25) == 0:
		return i, i.decodeSingle()
	case bits(code, 29, 24) == 0x08:
		return i, i.decodeOrdered()
	case code&bulkMask == bulkValue:
		i.bulk, reason = decodeBulk(code)
		return i, reason
	case bits(code, 29, 24) == 0x19:
		return i, i.decodeOrderedOffset()
	case bits(code, 31, 31) == 0 && bits(code, 29, 25) == 0x06:
		return i, i.decodeStructure()
	case bits(code, 28, 25) == 2:
		i.scalable, reason = decodeScalable(code)
		return i, reason
	}
	return i, "unknown instruction"
}

// decodeCacheLine decodes DC ZVA, CVAC, CVAU, CVAP, CVADP and CIVAC: C5.3.
func (i *instruction) decodeCacheLine() string {
	i.isCacheOperation, i.base = true, i.registers[0]
	if i.base == 31 {
		return "the base register is XZR, which has no address"
	}
	switch bits(i.code, 11, 5) {
	case 0x21: // CRm 4, op2 1
		i.isDCZVA = true
	case 0x51, 0x59, 0x61, 0x69, 0x71: // CRm 10, 11, 12, 13, 14
	default:
		return "unknown instruction"
	}
	i.registers = nil
	return ""
}

// decodePair decodes LDP, STP, LDNP, STNP and LDPSW.
func (i *instruction) decodePair() string {
	opc := bits(i.code, 31, 30)
	i.vector, i.load = bits(i.code, 26, 26) == 1, bits(i.code, 22, 22) == 1
	i.registers = append(i.registers, uint8(bits(i.code, 14, 10)))
	mode := bits(i.code, 24, 23)
	switch {
	case opc == 3:
		return "unknown instruction"
	case i.vector:
		i.width = 4 << opc
	case opc == 2:
		i.width = 8
	default:
		i.width, i.signed = 4, opc == 1
		if i.signed && (!i.load || mode == 0) {
			return "STGP: memory tags are not recorded"
		}
	}
	i.offset = signedBits(i.code, 21, 15) * uint64(i.width)
	i.isPostIndex, i.writeBack = mode == 1, mode&1 == 1
	return i.checkRegisters()
}

// checkRegisters rejects a write-back to a data register, and loads of two values to one register,
// because their results differ between processors.
func (i *instruction) checkRegisters() string {
	if i.load && len(i.registers) == 2 && i.registers[0] == i.registers[1] {
		return "the instruction loads two values into one register"
	}
	for _, r := range i.registers {
		if i.writeBack && !i.vector && r == i.base && r != 31 {
			return "the base register is also a data register"
		}
	}
	return ""
}

// decodeSize decodes the fields size and opc, as in most loads and stores of one register.
func (i *instruction) decodeSize() string {
	size, opc := bits(i.code, 31, 30), bits(i.code, 23, 22)
	i.width = 1 << size
	if i.vector = bits(i.code, 26, 26) == 1; i.vector {
		i.load = opc&1 == 1
		if opc >= 2 {
			i.width = 16
			if size != 0 {
				return "unknown instruction"
			}
		}
		return ""
	}
	i.load, i.signed, i.to32Bits = opc != 0, opc >= 2, opc == 3
	if size == 3 && opc >= 2 || size == 2 && opc == 3 { // including PRFM, which never faults
		return "unknown instruction"
	}
	return ""
}

// decodeSingle decodes LDR, STR and similar instructions.
func (i *instruction) decodeSingle() string {
	if reason := i.decodeSize(); bits(i.code, 24, 24) == 1 || bits(i.code, 21, 21) == 0 {
		if reason != "" {
			return reason
		}
	}
	if bits(i.code, 24, 24) == 1 {
		i.offset = uint64(bits(i.code, 21, 10)) * uint64(i.width)
		return ""
	}
	if bits(i.code, 21, 21) == 1 {
		return i.decodeRegisterOffset()
	}
	i.offset = signedBits(i.code, 20, 12)
	switch bits(i.code, 11, 10) {
	case 1:
		i.isPostIndex, i.writeBack = true, true
	case 2: // LDTR and STTR
		if i.vector {
			return "unknown instruction"
		}
	case 3:
		i.writeBack = true
	}
	return i.checkRegisters()
}

// decodeRegisterOffset decodes instructions with bit 21 set: a register offset, or an atomic.
func (i *instruction) decodeRegisterOffset() string {
	if bits(i.code, 11, 10) == 0 {
		if i.code&0x3ffffc00 == 0x38bfc000 { // LDAPR
			i.load, i.signed, i.to32Bits, i.vector = true, false, false, false
			i.width = 1 << bits(i.code, 31, 30)
			return ""
		}
		return "an atomic instruction (LSE): " +
			"the recorder cannot perform its load and store as one access"
	}
	if bits(i.code, 11, 10) != 2 {
		return "a load with pointer authentication (LDRAA, LDRAB) is not recorded"
	}
	if reason := i.decodeSize(); reason != "" {
		return reason
	}
	i.hasIndex, i.second, i.option = true, uint8(bits(i.code, 20, 16)), uint8(bits(i.code, 15, 13))
	if i.option&2 == 0 {
		return "unknown instruction"
	}
	for bits(i.code, 12, 12) == 1 && 1<<i.shift < i.width {
		i.shift++
	}
	return ""
}

// decodeOrdered decodes LDAR, STLR, LDLAR and STLLR, which share their encoding with the
// exclusives.
func (i *instruction) decodeOrdered() string {
	if bits(i.code, 23, 23) == 0 {
		return "an exclusive access: the recorder cannot set the exclusive monitor for the program"
	}
	if bits(i.code, 21, 21) == 1 {
		return "an atomic instruction (CAS): " +
			"the recorder cannot perform its load and store as one access"
	}
	if bits(i.code, 20, 16) != 31 || bits(i.code, 14, 10) != 31 {
		return "unknown instruction"
	}
	i.load, i.width = bits(i.code, 22, 22) == 1, 1<<bits(i.code, 31, 30)
	return ""
}

// decodeOrderedOffset decodes LDAPUR and STLUR.
func (i *instruction) decodeOrderedOffset() string {
	if bits(i.code, 21, 21) != 0 || bits(i.code, 11, 10) != 0 {
		return "unknown instruction"
	}
	if reason := i.decodeSize(); reason != "" {
		return reason
	}
	i.offset = signedBits(i.code, 20, 12)
	return ""
}

// decodeStructure decodes LD1 and ST1 of complete registers and of one element, and LD1R.
func (i *instruction) decodeStructure() string {
	i.vector, i.load, i.writeBack = true, bits(i.code, 22, 22) == 1, bits(i.code, 23, 23) == 1
	i.isPostIndex = true
	quad := 8 << bits(i.code, 30, 30)
	if bits(i.code, 24, 24) == 1 {
		return i.decodeOneElement(quad)
	}
	count := map[uint32]int{7: 1, 10: 2, 6: 3, 2: 4}[bits(i.code, 15, 12)]
	if count == 0 || bits(i.code, 21, 21) != 0 {
		return "loads and stores of structures (LD2 to LD4, ST2 to ST4) are not recorded"
	}
	for n := 1; n < count; n++ {
		i.registers = append(i.registers, uint8(int(i.registers[0])+n)&31)
	}
	i.width = quad
	return i.decodePostIndex()
}

func (i *instruction) decodeOneElement(quad int) string {
	opcode, size := bits(i.code, 15, 13), bits(i.code, 11, 10)
	if bits(i.code, 21, 21) != 0 || opcode&1 == 1 {
		return "loads and stores of structures (LD2 to LD4, ST2 to ST4) are not recorded"
	}
	n := int(bits(i.code, 30, 30)<<3 | bits(i.code, 12, 12)<<2 | size)
	i.isElement = true
	switch {
	case opcode == 0:
		i.width, i.elementOffset = 1, n
	case opcode == 2 && size&1 == 0:
		i.width, i.elementOffset = 2, n>>1*2
	case opcode == 4 && size == 0:
		i.width, i.elementOffset = 4, n>>2*4
	case opcode == 4 && size == 1 && bits(i.code, 12, 12) == 0:
		i.width, i.elementOffset = 8, n>>3*8
	case opcode == 6 && i.load && bits(i.code, 12, 12) == 0:
		i.width, i.isElement, i.isReplicated, i.size = 1<<size, false, true, quad
	default:
		return "unknown instruction"
	}
	return i.decodePostIndex()
}

// decodePostIndex decodes the write-back of LD1 and ST1: the base register grows by a register, or
// by the number of accessed bytes. Without write-back the field of the register must be zero.
func (i *instruction) decodePostIndex() string {
	step := uint8(bits(i.code, 20, 16))
	switch {
	case !i.writeBack && step != 0:
		return "unknown instruction"
	case i.writeBack && step == 31:
		i.offset = uint64(i.width * len(i.registers))
	case i.writeBack:
		i.hasIndex, i.second, i.option = true, step, 3
	}
	return ""
}
