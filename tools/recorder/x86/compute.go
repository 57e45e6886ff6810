package x86

// Instructions that compute with what they load. The processor itself does it:
// the memory is loaded here, and the thread carries the instruction out on a copy.

// computed are those on vectors, by what they have in common.
var computed = []struct {
	table     uint8
	mandatory []uint8
	opcodes   string
	size      func(*instruction) int
	vectors   encoding
	three     bool
	wants     immediateSize
	wEvex     wide
	lengths   uint8
}{
	// Bytes and words; bits; PMINSB to PMAXUD, PMULLD.
	{1, one, "\x60\x61\x63\x67\x68\x69\xd5\xd8\xd9\xda\xdb\xdc\xdd\xde\xdf\xe0", vectorSize, sse, true, noImmediate, anyW, 0},
	{1, one, "\xe3\xe4\xe5\xe8\xe9\xea\xeb\xec\xed\xee\xef\xf5\xf6\xf8\xf9\xfc\xfd", vectorSize, sse, true, noImmediate, anyW, 0},
	{2, one, "\x00\x04\x0b\x38\x39\x3a\x3b\x3c\x3d\x3e\x3f\x40", vectorSize, sse, true, noImmediate, anyW, 0},
	{1, one, "\x62\x6a\x6b\xfa\xfe", vectorSize, sse, true, noImmediate, w0, 0},
	{2, one, "\x2b", vectorSize, sse, true, noImmediate, w0, 0},
	{1, one, "\x6c\x6d\xd4\xf4\xfb", vectorSize, sse, true, noImmediate, w1, 0},
	{2, one, "\x28", vectorSize, sse, true, noImmediate, w1, 0},
	{1, one, "\xd0", vectorSize, ssevex, true, noImmediate, anyW, 0}, // ADDSUBPD
	{2, one, "\x01\x02\x03\x05\x06\x07\x08\x09\x0a", vectorSize, ssevex, true, noImmediate, anyW, 0},
	{2, one, "\x17", vectorSize, ssevex, false, noImmediate, anyW, 0},       // PTEST
	{2, one, "\x1c\x1d", vectorSize, sse, false, noImmediate, anyW, 0},      // PABSB, W
	{2, one, "\x1e", vectorSize, sse, false, noImmediate, w0, 0},            // PABSD
	{2, one, "\x20\x23\x30\x33", half, sse, false, noImmediate, anyW, 0},    // PMOVSX, PMOVZX: BW, WD
	{2, one, "\x25\x35", half, sse, false, noImmediate, w0, 0},              // DQ
	{2, one, "\x21\x24\x31\x34", quarter, sse, false, noImmediate, anyW, 0}, // BD, WQ
	{2, one, "\x22\x32", eighth, sse, false, noImmediate, anyW, 0},          // BQ
	{1, one, "\x70", vectorSize, sse, false, oneByte, w0, 0},                // PSHUFD
	{1, []uint8{2, 3}, "\x70", vectorSize, sse, false, oneByte, anyW, 0},    // PSHUFHW, PSHUFLW
	{1, none, "\xc6", vectorSize, sse, true, oneByte, w0, 0},                // SHUFPS
	{1, one, "\xc6", vectorSize, sse, true, oneByte, w1, 0},                 // SHUFPD
	{1, none, "\x14\x15", vectorSize, sse, true, noImmediate, w0, 0},        // UNPCKLPS, UNPCKHPS
	{1, one, "\x14\x15", vectorSize, sse, true, noImmediate, w1, 0},
	{3, one, "\x0f", vectorSize, sse, true, oneByte, anyW, 0},                          // PALIGNR
	{3, one, "\x0e", vectorSize, ssevex, true, oneByte, anyW, 0},                       // PBLENDW
	{2, one, "\x16\x36", vectorSize, vex | evex, true, noImmediate, anyW, 0b110},       // VPERMPS, VPERMD
	{2, one, "\x75\x76\x77\x7d\x7e\x7f", vectorSize, evex, true, noImmediate, anyW, 0}, // VPERMI2, VPERMT2
	{3, one, "\x25", vectorSize, evex, true, oneByte, anyW, 0},                         // VPTERNLOGD, Q

	// Numbers with a point.
	{1, []uint8{0, 1}, "\x54\x55\x56\x57", vectorSize, ssevex, true, noImmediate, anyW, 0}, // AND, ANDN, OR, XOR
	{1, none, "\x51", vectorSize, sse, false, noImmediate, w0, 0},                          // SQRT
	{1, one, "\x51", vectorSize, sse, false, noImmediate, w1, 0},
	{1, none, "\x58\x59\x5c\x5d\x5e\x5f", vectorSize, sse, true, noImmediate, w0, 0}, // ADD, MUL, SUB, MIN, DIV, MAX
	{1, one, "\x58\x59\x5c\x5d\x5e\x5f", vectorSize, sse, true, noImmediate, w1, 0},
	{1, []uint8{2}, "\x51\x58\x59\x5a\x5c\x5d\x5e\x5f", fixed(4), sse, true, noImmediate, w0, 0}, // of one; CVTSS2SD
	{1, []uint8{3}, "\x51\x58\x59\x5a\x5c\x5d\x5e\x5f", fixed(8), sse, true, noImmediate, w1, 0},
	{1, none, "\xc2", vectorSize, ssevex, true, oneByte, anyW, 0}, // CMPPS
	{1, one, "\xc2", vectorSize, ssevex, true, oneByte, anyW, 0},
	{1, []uint8{2}, "\xc2", fixed(4), ssevex, true, oneByte, anyW, 0},
	{1, []uint8{3}, "\xc2", fixed(8), ssevex, true, oneByte, anyW, 0},
	{1, none, "\x2e\x2f", fixed(4), sse, false, noImmediate, w0, 0}, // UCOMISS, COMISS
	{1, one, "\x2e\x2f", fixed(8), sse, false, noImmediate, w1, 0},
	{1, []uint8{2, 3}, "\x2a", wideElement, sse, true, noImmediate, anyW, 0},   // CVTSI2SS, CVTSI2SD
	{1, []uint8{2}, "\x2c\x2d", fixed(4), ssevex, false, noImmediate, anyW, 0}, // CVTSS2SI and truncated
	{1, []uint8{3}, "\x2c\x2d", fixed(8), ssevex, false, noImmediate, anyW, 0}, // CVTSD2SI
	{1, none, "\x5a", half, sse, false, noImmediate, w0, 0},                    // CVTPS2PD
	{1, one, "\x5a\xe6", vectorSize, sse, false, noImmediate, w1, 0},           // CVTPD2PS, CVTTPD2DQ
	{1, []uint8{3}, "\xe6", vectorSize, sse, false, noImmediate, w1, 0},        // CVTPD2DQ
	{1, []uint8{2}, "\xe6", half, sse, false, noImmediate, w0, 0},              // CVTDQ2PD
	{1, []uint8{0, 1, 2}, "\x5b", vectorSize, sse, false, noImmediate, w0, 0},  // CVTDQ2PS, CVTPS2DQ and truncated
	{1, []uint8{3}, "\x7a", vectorSize, evex, false, noImmediate, w0, 0},       // VCVTUDQ2PS
	{1, none, "\x78\x79", vectorSize, evex, false, noImmediate, w0, 0},         // VCVTPS2UDQ and truncated
	{1, []uint8{2}, "\x7a", half, evex, false, noImmediate, w0, 0},             // VCVTUDQ2PD
	{1, []uint8{2, 3}, "\x7b", wideElement, evex, true, noImmediate, anyW, 0},  // VCVTUSI2SS, VCVTUSI2SD
	// FMA
	{2, one, "\x96\x97\x98\x9a\x9c\x9e\xa6\xa7\xa8\xaa\xac\xae\xb6\xb7\xb8\xba\xbc\xbe", vectorSize, vex | evex, true, noImmediate, anyW, 0},
	{2, one, "\x99\x9b\x9d\x9f\xa9\xab\xad\xaf\xb9\xbb\xbd\xbf", wideElement, vex | evex, true, noImmediate, anyW, 0},
}

var none, one = []uint8{0}, []uint8{1}

func half(i *instruction) int    { return i.vectorSize() / 2 }
func quarter(i *instruction) int { return i.vectorSize() / 4 }
func eighth(i *instruction) int  { return i.vectorSize() / 8 }

func addComputed(forms map[vectorKey]*form) {
	for _, c := range computed {
		for _, opcode := range []byte(c.opcodes) {
			for _, mandatory := range c.mandatory {
				f := &form{size: c.size, wants: c.wants, vectors: c.vectors, three: c.three, wEvex: c.wEvex, lengths: c.lengths, run: onCopy(true, false)}
				if c.lengths != 0 {
					f.wVex = w0
				}
				forms[vectorKey{c.table, opcode, mandatory}] = f
			}
		}
	}
	// VPMOVWB, DB, QB, DW, QW, QD, and saturated
	for n, size := range []func(*instruction) int{half, quarter, eighth, half, quarter, half} {
		for _, saturated := range []uint8{0x10, 0x20, 0x30} {
			forms[vectorKey{2, saturated + uint8(n), 2}] = &form{size: size, vectors: evex, wEvex: w0, run: onCopy(false, true)}
		}
	}
	// POPCNT, BSF and TZCNT, BSR and LZCNT
	for _, key := range []vectorKey{{1, 0xb8, 2}, {1, 0xbc, 0}, {1, 0xbc, 1}, {1, 0xbc, 2}, {1, 0xbd, 0}, {1, 0xbd, 1}, {1, 0xbd, 2}} {
		forms[key] = &form{size: operandSize, vectors: legacy, run: onCopy(true, false)}
	}
	// ANDN, BZHI, PEXT, PDEP, MULX, BEXTR, SHLX, SARX, SHRX
	for _, key := range []vectorKey{{2, 0xf2, 0}, {2, 0xf5, 0}, {2, 0xf5, 2}, {2, 0xf5, 3}, {2, 0xf6, 3}, {2, 0xf7, 0}, {2, 0xf7, 1}, {2, 0xf7, 2},
		{2, 0xf7, 3}} {
		forms[key] = &form{size: wideElement, vectors: vex, three: true, lengths: 1, run: onCopy(true, false)}
	}
}

// onCopy loads the operand, has the thread carry the instruction out with a copy
// in its place, and stores what that is then; or one of both.
func onCopy(loads, stores bool) func(*machine) error {
	return func(m *machine) error {
		if m.Run == nil || m.segment != 0 || m.address32 {
			return m.refuse("its operand cannot be another")
		}
		code := m.moved()
		if len(code) > 15 {
			return m.refuse("with another operand it would have %d bytes, more than an instruction can", len(code))
		}
		var data [64]byte
		operand := data[:m.memoryWidth()]
		err := m.within(m.address, len(operand))
		if err == nil {
			err = m.Prepare(code)
		}
		switch {
		case err != nil || !loads:
		case m.mask != 0:
			err = m.runs(operand, m.vectors.K[m.mask], m.memory.Load)
		case m.form.bySign:
			err = m.runs(operand, m.signs(), m.memory.Load)
		default:
			err = m.memory.Load(m.address, operand)
		}
		if err == nil {
			m.Ran = true
			err = m.Run(data[:])
		}
		if err == nil && stores {
			err = m.memory.Store(m.address, operand)
		}
		return err
	}
}

// moved is the instruction with an operand by the address of its own end.
func (m *machine) moved() []byte {
	rest := m.code[m.operandEnd:m.length]
	code := append([]byte(nil), m.code[:m.operandAt]...)
	return append(append(code, m.code[m.operandAt]&0x38|5, byte(DataAt-m.operandAt-5-len(rest)), 0, 0, 0), rest...)
}
