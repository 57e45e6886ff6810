package x86

// formKey is the key of a form. The mandatory prefix is 0 for none, 1 for 66, 2 for F3 and 3 for
// F2.
type formKey struct{ table, opcode, mandatory uint8 }

// Values of formKey.table: the opcode maps, by the bytes before the opcode.
const (
	oneByteMap = iota // none
	map0F
	map0F38
	map0F3A
)

// anyPrefix is the mandatory prefix of legacy forms that do not depend on a prefix.
const anyPrefix = 4

// row has the form of some opcodes.
type row struct {
	table     uint8
	mandatory []uint8 // as in formKey
	opcodes   string
	form
}

// table lists the supported instructions with a memory operand. If a form has no run function, the
// thread executes the instruction on a copy of the loaded operand.
var table = []row{
	// Instructions on general registers. If an opcode exists for each operation or condition, all
	// are in one row.
	{oneByteMap, withAny, "\x88\x89", form{size: integerSize, run: (*machine).moveStore}},
	{oneByteMap, withAny, "\x8a\x8b", form{size: integerSize,
		run: withOperand((*machine).moveLoad)}},
	{oneByteMap, withAny, "\xc6", form{size: integerSize, immediate: oneByte, validReg: 1,
		run: (*machine).moveImmediate}},
	{oneByteMap, withAny, "\xc7", form{size: integerSize, immediate: upTo4Bytes, validReg: 1,
		run: (*machine).moveImmediate}},
	// The operand reg is 0, the accumulator.
	{oneByteMap, withAny, "\xa0\xa1", form{shape: offset, size: integerSize,
		run: withOperand((*machine).moveLoad)}},
	{oneByteMap, withAny, "\xa2\xa3", form{shape: offset, size: integerSize,
		run: (*machine).moveStore}},
	// With a 16-bit operand, AMD processors load 4 bytes, and Intel processors 2.
	{oneByteMap, withAny, "\x63", form{size: fixed(4), no16Bit: true,
		run: withOperand((*machine).moveSigned)}},
	{map0F, withAny, "\xb6", form{size: fixed(1), run: withOperand((*machine).moveZero)}},
	{map0F, withAny, "\xb7", form{size: fixed(2), run: withOperand((*machine).moveZero)}},
	{map0F, withAny, "\xbe", form{size: fixed(1), run: withOperand((*machine).moveSigned)}},
	{map0F, withAny, "\xbf", form{size: fixed(2), run: withOperand((*machine).moveSigned)}},
	// MOVNTI
	{map0F, withAny, "\xc3", form{size: operandSize, no16Bit: true, run: (*machine).moveStore}},
	{oneByteMap, withAny, "\x8f", form{size: pushSize, validReg: 1, run: (*machine).pop}},
	{oneByteMap, withAny, "\xa4\xa5", form{shape: noModRM, run: moveString(true, true)}},
	{oneByteMap, withAny, "\xaa\xab", form{shape: noModRM, run: moveString(false, true)}},
	{oneByteMap, withAny, "\xac\xad", form{shape: noModRM, run: moveString(true, false)}},
	{oneByteMap, withAny, "\x00\x01\x02\x03\x08\x09\x0a\x0b\x10\x11\x12\x13\x18\x19\x1a\x1b",
		form{size: integerSize, run: withOperand((*machine).arithmetic)}},
	{oneByteMap, withAny, "\x20\x21\x22\x23\x28\x29\x2a\x2b\x30\x31\x32\x33\x38\x39\x3a\x3b",
		form{size: integerSize, run: withOperand((*machine).arithmetic)}},
	{oneByteMap, withAny, "\x80\x83", form{size: integerSize, immediate: oneByte,
		run: withOperand((*machine).arithmeticImmediate)}},
	{oneByteMap, withAny, "\x81", form{size: integerSize, immediate: upTo4Bytes,
		run: withOperand((*machine).arithmeticImmediate)}},
	{oneByteMap, withAny, "\x84\x85", form{size: integerSize, run: withOperand((*machine).test)}},
	{oneByteMap, withAny, "\xf6", form{size: integerSize, immediate: oneByte,
		run: (*machine).group3}},
	{oneByteMap, withAny, "\xf7", form{size: integerSize, immediate: upTo4Bytes,
		run: (*machine).group3}},
	{oneByteMap, withAny, "\xfe", form{size: integerSize, validReg: 0b11,
		run: withOperand((*machine).increment)}},
	{oneByteMap, withAny, "\xff", form{size: farSize, validReg: 0b1000011, run: (*machine).group5}},
	// shifts and rotations, including RCL and RCR
	{oneByteMap, withAny, "\xc0\xc1", form{size: integerSize, immediate: oneByte,
		validReg: 0b10111111, run: onCopy(true, true)}},
	{oneByteMap, withAny, "\xd0\xd1\xd2\xd3", form{size: integerSize, validReg: 0b10111111,
		run: onCopy(true, true)}},
	{map0F, withAny, "\xaf", form{size: operandSize}},
	{oneByteMap, withAny, "\x69", form{size: operandSize, immediate: upTo4Bytes}},
	{oneByteMap, withAny, "\x6b", form{size: operandSize, immediate: oneByte}},
	// XCHG
	{oneByteMap, withAny, "\x86\x87", form{size: integerSize, implicitLock: true,
		run: onCopy(true, true)}},
	// CMPXCHG, XADD
	{map0F, withAny, "\xb0\xb1\xc0\xc1", form{size: integerSize, run: onCopy(true, true)}},
	{map0F, withAny, "\xba", form{size: operandSize, immediate: oneByte, validReg: 0b11110000,
		run: (*machine).bitTest}},
	// CLFLUSH is reg 7; reg 6 is XSAVEOPT
	{map0F, none, "\xae", form{size: fixed(1), validReg: 0b10000000, vectors: legacy,
		run: (*machine).flushLine}},
	// CLFLUSHOPT, CLWB
	{map0F, with66, "\xae", form{size: fixed(1), validReg: 0b11000000, vectors: legacy,
		run: (*machine).flushLine}},
	{map0F38, withAny, "\xf0", form{size: operandSize}}, // MOVBE
	{map0F38, withAny, "\xf1", form{size: operandSize, run: onCopy(false, true)}},
	// CMOV
	{map0F, withAny, "\x40\x41\x42\x43\x44\x45\x46\x47\x48\x49\x4a\x4b\x4c\x4d\x4e\x4f",
		form{size: operandSize}},
	// SET
	{map0F, withAny, "\x90\x91\x92\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c\x9d\x9e\x9f",
		form{size: fixed(1), run: onCopy(false, true)}},

	// Moves of complete vectors, and of one number to the low bytes of a vector, whose other bytes
	// are cleared.
	{map0F, packed, "\x10\x28", form{size: vectorSize, vectors: sse, hasMask: true,
		elementSize: wideElement, evexW: wAs66, run: (*machine).vectorLoad}},
	{map0F, packed, "\x11\x29", form{size: vectorSize, vectors: sse, hasMask: true,
		elementSize: wideElement, evexW: wAs66, run: (*machine).vectorStore}},
	// MOVNTPS
	{map0F, packed, "\x2b", form{size: vectorSize, vectors: sse, evexW: wAs66,
		run: (*machine).vectorStore}},
	// MOVNTDQ
	{map0F, with66, "\xe7", form{size: vectorSize, vectors: sse, evexW: w0,
		run: (*machine).vectorStore}},
	// MOVNTDQA
	{map0F38, with66, "\x2a", form{size: vectorSize, vectors: sse, evexW: w0,
		run: (*machine).vectorLoad}},
	// LDDQU
	{map0F, withF2, "\xf0", form{size: vectorSize, vectors: legacyOrVEX,
		run: (*machine).vectorLoad}},
	// MOVDQA and MOVDQU, VMOVDQA32 and 64, VMOVDQU32 and 64, 8 and 16
	{map0F, []uint8{1, 2}, "\x6f", form{size: vectorSize, vectors: sse, hasMask: true,
		elementSize: wideElement, run: (*machine).vectorLoad}},
	{map0F, []uint8{1, 2}, "\x7f", form{size: vectorSize, vectors: sse, hasMask: true,
		elementSize: wideElement, run: (*machine).vectorStore}},
	{map0F, withF2, "\x6f", form{size: vectorSize, vectors: evex, hasMask: true,
		elementSize: narrowElement, run: (*machine).vectorLoad}},
	{map0F, withF2, "\x7f", form{size: vectorSize, vectors: evex, hasMask: true,
		elementSize: narrowElement, run: (*machine).vectorStore}},
	// MOVSS
	{map0F, withF3, "\x10", form{size: fixed(4), vectors: sse, evexW: w0,
		run: (*machine).vectorLoad}},
	{map0F, withF3, "\x11", form{size: fixed(4), vectors: sse, evexW: w0,
		run: (*machine).vectorStore}},
	// MOVSD
	{map0F, withF2, "\x10", form{size: fixed(8), vectors: sse, evexW: w1,
		run: (*machine).vectorLoad}},
	{map0F, withF2, "\x11", form{size: fixed(8), vectors: sse, evexW: w1,
		run: (*machine).vectorStore}},
	// MOVD, MOVQ
	{map0F, with66, "\x6e", form{size: wideElement, vectors: sse, lengths: 1,
		run: (*machine).vectorLoad}},
	{map0F, with66, "\x7e", form{size: wideElement, vectors: sse, lengths: 1,
		run: (*machine).vectorStore}},
	// MOVQ
	{map0F, withF3, "\x7e", form{size: fixed(8), vectors: sse, lengths: 1, evexW: w1,
		run: (*machine).vectorLoad}},
	{map0F, with66, "\xd6", form{size: fixed(8), vectors: sse, lengths: 1, evexW: w1,
		run: (*machine).vectorStore}},

	// Moves between memory and a part of a vector.
	// MOVLPS, MOVHPS
	{map0F, packed, "\x12\x16", form{size: fixed(8), vectors: sse, hasVVVV: true, lengths: 1,
		evexW: wAs66}},
	{map0F, packed, "\x13", form{size: fixed(8), vectors: sse, lengths: 1, evexW: wAs66,
		run: (*machine).vectorStore}},
	{map0F, packed, "\x17", form{size: fixed(8), vectors: sse, lengths: 1, evexW: wAs66,
		run: (*machine).storeHigh}},
	// PEXTRB
	{map0F3A, with66, "\x14", form{size: fixed(1), immediate: oneByte, vectors: sse, lengths: 1,
		run: onCopy(false, true)}},
	// PEXTRW
	{map0F3A, with66, "\x15", form{size: fixed(2), immediate: oneByte, vectors: sse, lengths: 1,
		run: onCopy(false, true)}},
	// PEXTRD, PEXTRQ
	{map0F3A, with66, "\x16", form{size: wideElement, immediate: oneByte, vectors: sse, lengths: 1,
		run: onCopy(false, true)}},
	// EXTRACTPS
	{map0F3A, with66, "\x17", form{size: fixed(4), immediate: oneByte, vectors: sse, lengths: 1,
		run: onCopy(false, true)}},
	// PINSRB
	{map0F3A, with66, "\x20", form{size: fixed(1), immediate: oneByte, vectors: sse, hasVVVV: true,
		lengths: 1}},
	// PINSRD, PINSRQ
	{map0F3A, with66, "\x22", form{size: wideElement, immediate: oneByte, vectors: sse,
		hasVVVV: true, lengths: 1}},
	// PINSRW
	{map0F, with66, "\xc4", form{size: fixed(2), immediate: oneByte, vectors: sse, hasVVVV: true,
		lengths: 1}},
	// VEXTRACTF128 and the like
	{map0F3A, with66, "\x19\x39", form{size: fixed(16), immediate: oneByte, vectors: vex | evex,
		lengths: 0b110, vexW: w0, run: onCopy(false, true)}},
	{map0F3A, with66, "\x1b\x3b", form{size: fixed(32), immediate: oneByte, vectors: evex,
		lengths: 0b100, vexW: w0, run: onCopy(false, true)}},

	// Loads of one element to all elements of a vector.
	{map0F38, with66, "\x78", form{size: fixed(1), vectors: vex | evex, vexW: w0, evexW: w0}},
	// VPBROADCASTW
	{map0F38, with66, "\x79", form{size: fixed(2), vectors: vex | evex, vexW: w0, evexW: w0}},
	// VBROADCASTSS, VPBROADCASTD
	{map0F38, with66, "\x18\x58", form{size: fixed(4), vectors: vex | evex, vexW: w0, evexW: w0}},
	// VBROADCASTSD
	{map0F38, with66, "\x19", form{size: fixed(8), vectors: vex | evex, lengths: 0b110, vexW: w0,
		evexW: w1}},
	// VPBROADCASTQ
	{map0F38, with66, "\x59", form{size: fixed(8), vectors: vex | evex, vexW: w0, evexW: w1}},
	// VBROADCASTF128, VBROADCASTI128
	{map0F38, with66, "\x1a\x5a", form{size: fixed(16), vectors: vex, lengths: 0b110, vexW: w0}},
	{map0F, withF2, "\x12", form{size: fixed(8), vectors: legacy}}, // MOVDDUP

	// Moves of AVX that are masked by the signs of another vector: VMASKMOVPS and PD, VPMASKMOVD
	// and Q.
	{map0F38, with66, "\x2c", form{size: vectorSize, vectors: vex, hasVVVV: true,
		elementSize: fixed(4), maskedBySigns: true, vexW: w0}},
	{map0F38, with66, "\x2d", form{size: vectorSize, vectors: vex, hasVVVV: true,
		elementSize: fixed(8), maskedBySigns: true, vexW: w0}},
	{map0F38, with66, "\x2e", form{size: vectorSize, vectors: vex, hasVVVV: true,
		elementSize: fixed(4), vexW: w0, run: (*machine).signedStore}},
	{map0F38, with66, "\x2f", form{size: vectorSize, vectors: vex, hasVVVV: true,
		elementSize: fixed(8), vexW: w0, run: (*machine).signedStore}},
	{map0F38, with66, "\x8c", form{size: vectorSize, vectors: vex, hasVVVV: true,
		elementSize: wideElement, maskedBySigns: true}},
	{map0F38, with66, "\x8e", form{size: vectorSize, vectors: vex, hasVVVV: true,
		elementSize: wideElement, run: (*machine).signedStore}},

	// Comparisons of a vector with memory. In EVEX they set bits of a mask register, as functions
	// such as memcmp use them. VPCMPUB and UW, VPCMPB and W; VPCMPUD and UQ, VPCMPD and Q
	{map0F3A, with66, "\x3e\x3f", form{size: vectorSize, immediate: oneByte, vectors: evex,
		hasVVVV: true, hasMask: true, regIsMask: true, elementSize: narrowElement}},
	{map0F3A, with66, "\x1e\x1f", form{size: vectorSize, immediate: oneByte, vectors: evex,
		hasVVVV: true, hasMask: true, regIsMask: true, elementSize: wideElement}},
	// VPTESTMB and W, VPTESTNMB and W; the same of D and Q
	{map0F38, []uint8{1, 2}, "\x26", form{size: vectorSize, vectors: evex, hasVVVV: true,
		hasMask: true, regIsMask: true, elementSize: narrowElement}},
	{map0F38, []uint8{1, 2}, "\x27", form{size: vectorSize, vectors: evex, hasVVVV: true,
		hasMask: true, regIsMask: true, elementSize: wideElement}},
	// PCMPEQ and PCMPGT of B, W, D, Q
	{map0F, with66, "\x74\x64", form{size: vectorSize, vectors: sse, hasVVVV: true, hasMask: true,
		regIsMask: true, elementSize: fixed(1)}},
	{map0F, with66, "\x75\x65", form{size: vectorSize, vectors: sse, hasVVVV: true, hasMask: true,
		regIsMask: true, elementSize: fixed(2)}},
	{map0F, with66, "\x76\x66", form{size: vectorSize, vectors: sse, hasVVVV: true, hasMask: true,
		regIsMask: true, elementSize: fixed(4), evexW: w0}},
	{map0F38, with66, "\x29\x37", form{size: vectorSize, vectors: sse, hasVVVV: true, hasMask: true,
		regIsMask: true, elementSize: fixed(8), evexW: w1}},

	// Arithmetic on integer elements: bytes and words; bits; PMINSB to PMAXUD, PMULLD.
	{map0F, with66, "\x60\x61\x63\x67\x68\x69\xd5\xd8\xd9\xda\xdb\xdc\xdd\xde\xdf\xe0",
		form{size: vectorSize, vectors: sse, hasVVVV: true}},
	{map0F, with66, "\xe3\xe4\xe5\xe8\xe9\xea\xeb\xec\xed\xee\xef\xf5\xf6\xf8\xf9\xfc\xfd",
		form{size: vectorSize, vectors: sse, hasVVVV: true}},
	{map0F38, with66, "\x00\x04\x0b\x38\x39\x3a\x3b\x3c\x3d\x3e\x3f\x40",
		form{size: vectorSize, vectors: sse, hasVVVV: true}},
	{map0F, with66, "\x62\x6a\x6b\xfa\xfe", form{size: vectorSize, vectors: sse, hasVVVV: true,
		evexW: w0}},
	{map0F38, with66, "\x2b", form{size: vectorSize, vectors: sse, hasVVVV: true, evexW: w0}},
	{map0F, with66, "\x6c\x6d\xd4\xf4\xfb", form{size: vectorSize, vectors: sse, hasVVVV: true,
		evexW: w1}},
	{map0F38, with66, "\x28", form{size: vectorSize, vectors: sse, hasVVVV: true, evexW: w1}},
	// ADDSUBPD
	{map0F, with66, "\xd0", form{size: vectorSize, vectors: legacyOrVEX, hasVVVV: true}},
	{map0F38, with66, "\x01\x02\x03\x05\x06\x07\x08\x09\x0a",
		form{size: vectorSize, vectors: legacyOrVEX, hasVVVV: true}},
	// PTEST
	{map0F38, with66, "\x17", form{size: vectorSize, vectors: legacyOrVEX}},
	// PABSB, W
	{map0F38, with66, "\x1c\x1d", form{size: vectorSize, vectors: sse}},
	// PABSD
	{map0F38, with66, "\x1e", form{size: vectorSize, vectors: sse, evexW: w0}},
	// PMOVSX, PMOVZX: BW, WD
	{map0F38, with66, "\x20\x23\x30\x33", form{size: half, vectors: sse}},
	// DQ
	{map0F38, with66, "\x25\x35", form{size: half, vectors: sse, evexW: w0}},
	// BD, WQ
	{map0F38, with66, "\x21\x24\x31\x34", form{size: quarter, vectors: sse}},
	// BQ
	{map0F38, with66, "\x22\x32", form{size: eighth, vectors: sse}},
	// PSHUFD
	{map0F, with66, "\x70", form{size: vectorSize, vectors: sse, immediate: oneByte, evexW: w0}},
	// PSHUFHW, PSHUFLW
	{map0F, []uint8{2, 3}, "\x70", form{size: vectorSize, vectors: sse, immediate: oneByte}},
	// SHUFPS
	{map0F, packed, "\xc6", form{size: vectorSize, vectors: sse, hasVVVV: true, immediate: oneByte,
		evexW: wAs66}},
	// UNPCKLPS, UNPCKHPS
	{map0F, packed, "\x14\x15", form{size: vectorSize, vectors: sse, hasVVVV: true, evexW: wAs66}},
	// PALIGNR, PCLMULQDQ
	{map0F3A, with66, "\x0f\x44", form{size: vectorSize, vectors: sse, hasVVVV: true,
		immediate: oneByte}},
	// BLENDPS, PD, PBLENDW, DPPS, MPSADBW
	{map0F3A, with66, "\x0c\x0d\x0e\x40\x42", form{size: vectorSize, vectors: legacyOrVEX,
		hasVVVV: true, immediate: oneByte}},
	// VPERMPS, VPERMD
	{map0F38, with66, "\x16\x36", form{size: vectorSize, vectors: vex | evex, hasVVVV: true,
		lengths: 0b110, vexW: w0}},
	// VPERMI2, VPERMT2, VPERMB, VPERMW
	{map0F38, with66, "\x75\x76\x77\x7d\x7e\x7f\x8d",
		form{size: vectorSize, vectors: evex, hasVVVV: true}},
	// VALIGN, VPTERNLOG
	{map0F3A, with66, "\x03\x25", form{size: vectorSize, vectors: evex, hasVVVV: true,
		immediate: oneByte}},
	{map0F38, with66, "\x1f", form{size: vectorSize, vectors: evex, evexW: w1}}, // VPABSQ
	// VPLZCNT, VPOPCNT, VPCONFLICT
	{map0F38, with66, "\x44\x54\x55\xc4", form{size: vectorSize, vectors: evex}},
	// Shifts and rotations: by an immediate, by the count in one register, by a count for each
	// element.
	{map0F, with66, "\x71", form{size: vectorSize, vectors: evex, hasVVVV: true, immediate: oneByte,
		validReg: 0b1010100}},
	{map0F, with66, "\x72", form{size: vectorSize, vectors: evex, hasVVVV: true, immediate: oneByte,
		validReg: 0b1010111}},
	{map0F, with66, "\x73", form{size: vectorSize, vectors: evex, hasVVVV: true, immediate: oneByte,
		validReg: 0b11001100}},
	{map0F, with66, "\xd1\xe1\xe2\xf1", form{size: fixed(16), vectors: sse, hasVVVV: true}},
	{map0F, with66, "\xd2\xf2", form{size: fixed(16), vectors: sse, hasVVVV: true, evexW: w0}},
	{map0F, with66, "\xd3\xf3", form{size: fixed(16), vectors: sse, hasVVVV: true, evexW: w1}},
	{map0F38, with66, "\x45\x47", form{size: vectorSize, vectors: vex | evex, hasVVVV: true}},
	{map0F38, with66, "\x46", form{size: vectorSize, vectors: vex | evex, hasVVVV: true, vexW: w0}},
	// PBLENDVB, BLENDVPS, PD
	{map0F38, with66, "\x10\x14\x15", form{size: vectorSize, vectors: legacy}},
	// Blends and permutations.
	{map0F3A, with66, "\x4a\x4b\x4c", form{size: vectorSize, vectors: vex, hasVVVV: true,
		immediate: oneByte, vexW: w0}},
	// VPBLENDMB
	{map0F38, with66, "\x66", form{size: vectorSize, vectors: evex, hasVVVV: true, hasMask: true,
		elementSize: narrowElement}},
	// VPBLENDD
	{map0F3A, with66, "\x02", form{size: vectorSize, vectors: vex, hasVVVV: true,
		immediate: oneByte, vexW: w0}},
	// VPERMQ, VPERMPD
	{map0F3A, with66, "\x00\x01", form{size: vectorSize, vectors: vex | evex, immediate: oneByte,
		lengths: 0b110, vexW: w1, evexW: w1}},
	// VPERMILPS
	{map0F3A, with66, "\x04", form{size: vectorSize, vectors: vex | evex, immediate: oneByte,
		vexW: w0, evexW: w0}},
	// VPERMILPD
	{map0F3A, with66, "\x05", form{size: vectorSize, vectors: vex | evex, immediate: oneByte,
		vexW: w0, evexW: w1}},
	// VPERM2F128, VPERM2I128
	{map0F3A, with66, "\x06\x46", form{size: vectorSize, vectors: vex, hasVVVV: true,
		immediate: oneByte, lengths: 0b10, vexW: w0}},
	// VINSERTF128
	{map0F3A, with66, "\x18\x38", form{size: fixed(16), vectors: vex | evex, hasVVVV: true,
		immediate: oneByte, lengths: 0b110, vexW: w0}},

	// Floating-point instructions.
	{map0F, packed, "\x54\x55\x56\x57", form{size: vectorSize, vectors: sse, hasVVVV: true,
		evexW: wAs66}},
	// SQRT
	{map0F, packed, "\x51", form{size: vectorSize, vectors: sse, evexW: wAs66}},
	// ADD, MUL, SUB, MIN, DIV, MAX
	{map0F, packed, "\x58\x59\x5c\x5d\x5e\x5f", form{size: vectorSize, vectors: sse, hasVVVV: true,
		evexW: wAs66}},
	// the same on one element; CVTSS2SD
	{map0F, withF3, "\x51\x58\x59\x5a\x5c\x5d\x5e\x5f",
		form{size: fixed(4), vectors: sse, hasVVVV: true, evexW: w0}},
	{map0F, withF2, "\x51\x58\x59\x5a\x5c\x5d\x5e\x5f",
		form{size: fixed(8), vectors: sse, hasVVVV: true, evexW: w1}},
	{map0F, packed, "\xc2", form{size: vectorSize, vectors: sse, hasVVVV: true, immediate: oneByte,
		hasMask: true, regIsMask: true, elementSize: wideElement,
		evexW: wAs66}},
	{map0F, withF3, "\xc2", form{size: fixed(4), vectors: sse, hasVVVV: true, immediate: oneByte,
		hasMask: true, regIsMask: true, elementSize: fixed(4), evexW: w0}},
	{map0F, withF2, "\xc2", form{size: fixed(8), vectors: sse, hasVVVV: true, immediate: oneByte,
		hasMask: true, regIsMask: true, elementSize: fixed(8), evexW: w1}},
	{map0F, none, "\x2e\x2f", form{size: fixed(4), vectors: sse, evexW: w0}}, // UCOMISS, COMISS
	{map0F, with66, "\x2e\x2f", form{size: fixed(8), vectors: sse, evexW: w1}},
	// CVTSI2SS, CVTSI2SD
	{map0F, []uint8{2, 3}, "\x2a", form{size: wideElement, vectors: sse, hasVVVV: true}},
	// CVTSS2SI and CVTTSS2SI
	{map0F, withF3, "\x2c\x2d", form{size: fixed(4), vectors: legacyOrVEX}},
	{map0F, withF2, "\x2c\x2d", form{size: fixed(8), vectors: legacyOrVEX}}, // CVTSD2SI
	{map0F, none, "\x5a", form{size: half, vectors: sse, evexW: w0}},        // CVTPS2PD
	// CVTPD2PS, CVTTPD2DQ
	{map0F, with66, "\x5a\xe6", form{size: vectorSize, vectors: sse, evexW: w1}},
	{map0F, withF2, "\xe6", form{size: vectorSize, vectors: sse, evexW: w1}}, // CVTPD2DQ
	// CVTDQ2PD, VCVTQQ2PD
	{map0F, withF3, "\xe6", form{size: halfOrWide, vectors: sse}},
	// CVTDQ2PS, VCVTQQ2PS
	{map0F, none, "\x5b", form{size: vectorSize, vectors: sse}},
	// CVTPS2DQ and truncated
	{map0F, []uint8{1, 2}, "\x5b", form{size: vectorSize, vectors: sse, evexW: w0}},
	// VCVTUDQ2PS, VCVTUQQ2PS
	{map0F, withF2, "\x7a", form{size: vectorSize, vectors: evex}},
	// VCVTPS2UDQ, VCVTPD2UDQ and truncated
	{map0F, none, "\x78\x79", form{size: vectorSize, vectors: evex}},
	// VCVTUDQ2PD, VCVTUQQ2PD
	{map0F, withF3, "\x7a", form{size: halfOrWide, vectors: evex}},
	// VCVTPS2QQ, VCVTPD2UQQ and the like
	{map0F, with66, "\x78\x79\x7a\x7b", form{size: halfOrWide, vectors: evex}},
	// ROUND, VRNDSCALE
	{map0F3A, with66, "\x08\x09", form{size: vectorSize, vectors: sse, immediate: oneByte}},
	{map0F3A, with66, "\x0a", form{size: fixed(4), vectors: sse, hasVVVV: true,
		immediate: oneByte}},
	{map0F3A, with66, "\x0b", form{size: fixed(8), vectors: sse, hasVVVV: true,
		immediate: oneByte}},
	// VCVTUSI2SS, VCVTUSI2SD
	{map0F, []uint8{2, 3}, "\x7b", form{size: wideElement, vectors: evex, hasVVVV: true}},
	{map0F38, with66, "\x96\x97\x98\x9a\x9c\x9e\xa6\xa7\xa8\xaa\xac\xae\xb6\xb7\xb8\xba\xbc\xbe",
		form{size: vectorSize, vectors: vex | evex, hasVVVV: true}},
	// FMA
	{map0F38, with66, "\x99\x9b\x9d\x9f\xa9\xab\xad\xaf\xb9\xbb\xbd\xbf",
		form{size: wideElement, vectors: vex | evex, hasVVVV: true}},

	// VPMOVWB, DW, QD; DB, QW; QB; and saturated
	{map0F38, withF3, "\x10\x13\x15\x20\x23\x25\x30\x33\x35",
		form{size: half, vectors: evex, evexW: w0, run: onCopy(false, true)}},
	{map0F38, withF3, "\x11\x14\x21\x24\x31\x34", form{size: quarter, vectors: evex, evexW: w0,
		run: onCopy(false, true)}},
	{map0F38, withF3, "\x12\x22\x32", form{size: eighth, vectors: evex, evexW: w0,
		run: onCopy(false, true)}},

	// Instructions on general registers that a mandatory prefix selects, as for vectors.
	{map0F, withF3, "\xb8", form{size: operandSize, vectors: legacy}},
	// BSF and TZCNT, BSR and LZCNT
	{map0F, []uint8{0, 1, 2}, "\xbc\xbd", form{size: operandSize, vectors: legacy}},
	// ANDN, BZHI, BEXTR
	{map0F38, none, "\xf2\xf5\xf7", form{size: wideElement, vectors: vex, hasVVVV: true,
		lengths: 1}},
	// SHLX
	{map0F38, with66, "\xf7", form{size: wideElement, vectors: vex, hasVVVV: true, lengths: 1}},
	// PEXT, SARX
	{map0F38, withF3, "\xf5\xf7", form{size: wideElement, vectors: vex, hasVVVV: true, lengths: 1}},
	// PDEP, MULX, SHRX
	{map0F38, withF2, "\xf5\xf6\xf7", form{size: wideElement, vectors: vex, hasVVVV: true,
		lengths: 1}},
	// RORX
	{map0F3A, withF2, "\xf0", form{size: wideElement, vectors: vex, immediate: oneByte,
		lengths: 1}},
	// CRC32
	{map0F38, withF2, "\xf0", form{size: fixed(1), vectors: legacy}},
	{map0F38, withF2, "\xf1", form{size: operandSize, vectors: legacy}},
}

// Sets of mandatory prefixes. packed has those of packed numbers of 4 and of 8 bytes.
var none, packed, with66, withF3, withF2, withAny = []uint8{0}, []uint8{0,
	1}, []uint8{1}, []uint8{2}, []uint8{3}, []uint8{anyPrefix}

var forms, followedForms = formsByKey(table), formsByKey(followedTable)

func formsByKey(table []row) map[formKey]*form {
	forms := map[formKey]*form{}
	for i := range table {
		row := &table[i]
		if row.run == nil {
			row.run = onCopy(true, false)
		}
		for _, opcode := range []byte(row.opcodes) {
			for _, mandatory := range row.mandatory {
				forms[formKey{row.table, opcode, mandatory}] = &row.form
			}
		}
	}
	return forms
}
