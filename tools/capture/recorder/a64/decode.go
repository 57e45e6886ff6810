package a64

// instruction is a load or store taken apart.
type instruction struct {
	code      uint32
	registers []uint8 // of data
	width     int     // bytes of each
	load      bool
	signed    bool // its sign is extended,
	narrow    bool // to 32 bits
	vector    bool

	base      uint8
	offset    uint64
	post      bool // the address is the base alone
	writeBack bool

	index         bool // the offset is a register
	second        uint8
	option, shift uint8

	element, all bool // one element of a vector; of all its places, of size bytes
	lane, size   int

	cache, zero bool // an instruction on a cache, DC ZVA

	scalable *scalable // nil: not of SVE
	bulk     *bulk     // nil: not of FEAT_MOPS
}

func bits(code uint32, high, low int) uint32 { return code >> low & (1<<(high-low+1) - 1) }

// signedBits returns the field code[high:low] as a signed number, extended to 64 bits.
func signedBits(code uint32, high, low int) uint64 {
	shift := 64 - (high - low + 1)
	return uint64(int64(uint64(bits(code, high, low))<<shift) >> shift)
}

// decode takes an instruction apart, or returns the reason why it is not executed.
func decode(code uint32) (i instruction, reason string) {
	i = instruction{code: code, base: uint8(bits(code, 9, 5)),
		registers: []uint8{uint8(bits(code, 4, 0))}}
	switch {
	case bits(code, 31, 12) == 0xd50b7:
		return i, i.cacheLine()
	case bits(code, 29, 27) == 5 && bits(code, 25, 25) == 0:
		return i, i.pair()
	case bits(code, 29, 27) == 7 && bits(code, 25, 25) == 0:
		return i, i.single()
	case bits(code, 29, 24) == 0x08:
		return i, i.ordered()
	case code&bulkMask == bulkValue:
		i.bulk, reason = decodeBulk(code)
		return i, reason
	case bits(code, 29, 24) == 0x19:
		return i, i.orderedOffset()
	case bits(code, 31, 31) == 0 && bits(code, 29, 25) == 0x06:
		return i, i.structure()
	case bits(code, 28, 25) == 2:
		i.scalable, reason = decodeScalable(code)
		return i, reason
	}
	return i, "not known to the recorder"
}

// cacheLine is DC ZVA, CVAC, CVAU, CVAP, CVADP, CIVAC: C5.3.
func (i *instruction) cacheLine() string {
	i.cache, i.base = true, i.registers[0]
	if i.base == 31 {
		return "the base register is XZR, which has no address"
	}
	switch bits(i.code, 11, 5) {
	case 0x21: // CRm 4, op2 1
		i.zero = true
	case 0x51, 0x59, 0x61, 0x69, 0x71: // CRm 10, 11, 12, 13, 14
	default:
		return "not known to the recorder"
	}
	i.registers = nil
	return ""
}

// pair is LDP, STP, LDNP, STNP and LDPSW.
func (i *instruction) pair() string {
	opc := bits(i.code, 31, 30)
	i.vector, i.load = bits(i.code, 26, 26) == 1, bits(i.code, 22, 22) == 1
	i.registers = append(i.registers, uint8(bits(i.code, 14, 10)))
	mode := bits(i.code, 24, 23)
	switch {
	case opc == 3:
		return "not known to the recorder"
	case i.vector:
		i.width = 4 << opc
	case opc == 2:
		i.width = 8
	default:
		i.width, i.signed = 4, opc == 1
		if i.signed && (!i.load || mode == 0) {
			return "STGP: tags are not recorded"
		}
	}
	i.offset = signedBits(i.code, 21, 15) * uint64(i.width)
	i.post, i.writeBack = mode == 1, mode&1 == 1
	return i.overlaps()
}

// overlaps refuses a write-back into a register of data, and a pair of loads
// into one register: what becomes of them differs between processors.
func (i *instruction) overlaps() string {
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

// sizes sets what size and opc mean, as in most loads and stores of one register.
func (i *instruction) sizes() string {
	size, opc := bits(i.code, 31, 30), bits(i.code, 23, 22)
	i.width = 1 << size
	if i.vector = bits(i.code, 26, 26) == 1; i.vector {
		i.load = opc&1 == 1
		if opc >= 2 {
			i.width = 16
			if size != 0 {
				return "not known to the recorder"
			}
		}
		return ""
	}
	i.load, i.signed, i.narrow = opc != 0, opc >= 2, opc == 3
	if size == 3 && opc >= 2 || size == 2 && opc == 3 { // PRFM among them, which makes no fault
		return "not known to the recorder"
	}
	return ""
}

// single is LDR, STR and their kind.
func (i *instruction) single() string {
	if reason := i.sizes(); bits(i.code, 24, 24) == 1 || bits(i.code, 21, 21) == 0 {
		if reason != "" {
			return reason
		}
	}
	if bits(i.code, 24, 24) == 1 {
		i.offset = uint64(bits(i.code, 21, 10)) * uint64(i.width)
		return ""
	}
	if bits(i.code, 21, 21) == 1 {
		return i.registerOffset()
	}
	i.offset = signedBits(i.code, 20, 12)
	switch bits(i.code, 11, 10) {
	case 1:
		i.post, i.writeBack = true, true
	case 2: // LDTR and STTR
		if i.vector {
			return "not known to the recorder"
		}
	case 3:
		i.writeBack = true
	}
	return i.overlaps()
}

// registerOffset is where bit 21 is set: an index, or an atomic.
func (i *instruction) registerOffset() string {
	if bits(i.code, 11, 10) == 0 {
		if i.code&0x3ffffc00 == 0x38bfc000 { // LDAPR
			i.load, i.signed, i.narrow, i.vector = true, false, false, false
			i.width = 1 << bits(i.code, 31, 30)
			return ""
		}
		return "an atomic (LSE): the recorder cannot make its load and its store as one access"
	}
	if bits(i.code, 11, 10) != 2 {
		return "a load with authentication is not recorded"
	}
	if reason := i.sizes(); reason != "" {
		return reason
	}
	i.index, i.second, i.option = true, uint8(bits(i.code, 20, 16)), uint8(bits(i.code, 15, 13))
	if i.option&2 == 0 {
		return "not known to the recorder"
	}
	for bits(i.code, 12, 12) == 1 && 1<<i.shift < i.width {
		i.shift++
	}
	return ""
}

// ordered is LDAR, STLR, LDLAR, STLLR, among the exclusives.
func (i *instruction) ordered() string {
	if bits(i.code, 23, 23) == 0 {
		return "an exclusive: the recorder cannot set the processor's monitor for the program"
	}
	if bits(i.code, 21, 21) == 1 {
		return "an atomic (CAS): the recorder cannot make its load and its store as one access"
	}
	if bits(i.code, 20, 16) != 31 || bits(i.code, 14, 10) != 31 {
		return "not known to the recorder"
	}
	i.load, i.width = bits(i.code, 22, 22) == 1, 1<<bits(i.code, 31, 30)
	return ""
}

// orderedOffset is LDAPUR and STLUR.
func (i *instruction) orderedOffset() string {
	if bits(i.code, 21, 21) != 0 || bits(i.code, 11, 10) != 0 {
		return "not known to the recorder"
	}
	if reason := i.sizes(); reason != "" {
		return reason
	}
	i.offset = signedBits(i.code, 20, 12)
	return ""
}

// structure is LD1 and ST1 of whole registers and of one element, and LD1R.
func (i *instruction) structure() string {
	i.vector, i.load, i.writeBack = true, bits(i.code, 22, 22) == 1, bits(i.code, 23, 23) == 1
	i.post = true
	quad := 8 << bits(i.code, 30, 30)
	if bits(i.code, 24, 24) == 1 {
		return i.oneElement(quad)
	}
	count := map[uint32]int{7: 1, 10: 2, 6: 3, 2: 4}[bits(i.code, 15, 12)]
	if count == 0 || bits(i.code, 21, 21) != 0 {
		return "elements of structures (LD2 to LD4, ST2 to ST4) are not recorded"
	}
	for n := 1; n < count; n++ {
		i.registers = append(i.registers, uint8(int(i.registers[0])+n)&31)
	}
	i.width = quad
	return i.stepped()
}

func (i *instruction) oneElement(quad int) string {
	opcode, size := bits(i.code, 15, 13), bits(i.code, 11, 10)
	if bits(i.code, 21, 21) != 0 || opcode&1 == 1 {
		return "elements of structures (LD2 to LD4, ST2 to ST4) are not recorded"
	}
	n := int(bits(i.code, 30, 30)<<3 | bits(i.code, 12, 12)<<2 | size)
	i.element = true
	switch {
	case opcode == 0:
		i.width, i.lane = 1, n
	case opcode == 2 && size&1 == 0:
		i.width, i.lane = 2, n>>1*2
	case opcode == 4 && size == 0:
		i.width, i.lane = 4, n>>2*4
	case opcode == 4 && size == 1 && bits(i.code, 12, 12) == 0:
		i.width, i.lane = 8, n>>3*8
	case opcode == 6 && i.load && bits(i.code, 12, 12) == 0:
		i.width, i.element, i.all, i.size = 1<<size, false, true, quad
	default:
		return "not known to the recorder"
	}
	return i.stepped()
}

// stepped is what a structure's base becomes: more by a register, or by what
// was moved. Without write-back the field of the register is zero.
func (i *instruction) stepped() string {
	step := uint8(bits(i.code, 20, 16))
	switch {
	case !i.writeBack && step != 0:
		return "not known to the recorder"
	case i.writeBack && step == 31:
		i.offset = uint64(i.width * len(i.registers))
	case i.writeBack:
		i.index, i.second, i.option = true, step, 3
	}
	return ""
}
