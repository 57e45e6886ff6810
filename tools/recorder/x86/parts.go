package x86

// addParts adds the moves between memory and a part of a vector.
func addParts(forms map[vectorKey]*form) {
	for mandatory := range uint8(2) {
		for half, opcode := range []uint8{0x12, 0x16} { // MOVLPS, MOVLPD, MOVHPS, MOVHPD
			at := 8 * half
			forms[vectorKey{1, opcode, mandatory}] = &form{size: fixed(8), vectors: sse, three: true, lengths: 1, wEvex: w0 + wide(mandatory),
				run: onCopy(true, false)}
			forms[vectorKey{1, opcode + 1, mandatory}] = &form{size: fixed(8), vectors: sse, lengths: 1, wEvex: w0 + wide(mandatory),
				run: func(m *machine) error { return m.extract(at) }}
		}
	}
	numbered := func(m *machine) int { // by an immediate, among those that fit the 16 bytes
		width := m.memoryWidth()
		return int(m.instruction.immediate) & (16/width - 1) * width
	}
	insert := onCopy(true, false)
	extract := func(m *machine) error { return m.extract(numbered(m)) }
	// PEXTRB, W, D and Q, EXTRACTPS
	for opcode, size := range map[uint8]func(*instruction) int{0x14: fixed(1), 0x15: fixed(2), 0x16: wideElement, 0x17: fixed(4)} {
		forms[vectorKey{3, opcode, 1}] = &form{size: size, wants: oneByte, vectors: sse, lengths: 1, run: extract}
	}
	for opcode, size := range map[uint8]func(*instruction) int{0x20: fixed(1), 0x22: wideElement} { // PINSRB, D and Q
		forms[vectorKey{3, opcode, 1}] = &form{size: size, wants: oneByte, vectors: sse, three: true, lengths: 1, run: insert}
	}
	forms[vectorKey{1, 0xc4, 1}] = &form{size: fixed(2), wants: oneByte, vectors: sse, three: true, lengths: 1, run: insert} // PINSRW
	for _, f := range []struct {
		opcode, width uint8
		vectors       encoding
		lengths       uint8
	}{{0x19, 16, vex | evex, 0b110}, {0x39, 16, vex | evex, 0b110}, {0x1b, 32, evex, 0b100}, {0x3b, 32, evex, 0b100}} { // VEXTRACTF128 and the like
		width := int(f.width)
		forms[vectorKey{3, f.opcode, 1}] = &form{size: fixed(width), wants: oneByte, vectors: f.vectors, lengths: f.lengths, wVex: w0,
			run: func(m *machine) error {
				return m.extract(int(m.instruction.immediate) & (m.vectorSize()/width - 1) * width)
			}}
	}
}

func (m *machine) extract(at int) error {
	return m.store(m.vectors.Z[m.reg][at : at+m.memoryWidth()])
}

// addBroadcasts adds loads of one element into all places of a vector.
func addBroadcasts(forms map[vectorKey]*form) {
	for _, f := range []struct {
		opcode, width uint8
		vectors       encoding
		lengths       uint8
		w             wide // in EVEX
	}{
		{0x18, 4, vex | evex, 0, w0}, {0x19, 8, vex | evex, 0b110, w1}, {0x1a, 16, vex, 0b110, anyW}, // VBROADCASTSS, SD, F128
		{0x78, 1, vex | evex, 0, w0}, {0x79, 2, vex | evex, 0, w0}, {0x58, 4, vex | evex, 0, w0}, {0x59, 8, vex | evex, 0, w1}, // VPBROADCASTB, W, D, Q
		{0x5a, 16, vex, 0b110, anyW}, // VBROADCASTI128
	} {
		forms[vectorKey{2, f.opcode, 1}] = &form{size: fixed(int(f.width)), vectors: f.vectors, lengths: f.lengths, wVex: w0, wEvex: f.w,
			run: onCopy(true, false)}
	}
	forms[vectorKey{1, 0x12, 3}] = &form{size: fixed(8), vectors: legacy, run: onCopy(true, false)} // MOVDDUP
}

// addMaskedMoves adds AVX's moves under the signs of another vector.
func addMaskedMoves(forms map[vectorKey]*form) {
	for opcode, element := range map[uint8]func(*instruction) int{
		0x2c: fixed(4), 0x2d: fixed(8), 0x2e: fixed(4), 0x2f: fixed(8), 0x8c: wideElement, 0x8e: wideElement, // VMASKMOVPS and PD, VPMASKMOVD and Q
	} {
		f := &form{size: vectorSize, vectors: vex, three: true, element: element, run: (*machine).signedStore}
		if opcode < 0x80 {
			f.wVex = w0
		}
		if opcode == 0x2c || opcode == 0x2d || opcode == 0x8c {
			f.run, f.bySign = onCopy(true, false), true
		}
		forms[vectorKey{2, opcode, 1}] = f
	}
}

// signs is a mask of the elements whose top bit is set.
func (m *machine) signs() (mask uint64) {
	element := m.form.element(&m.instruction)
	for n := range m.memoryWidth() / element {
		mask |= uint64(m.vectors.Z[m.second][(n+1)*element-1]>>7) << n
	}
	return mask
}

func (m *machine) signedStore() error {
	return m.runs(m.vectors.Z[m.reg][:m.memoryWidth()], m.signs(), m.memory.Store)
}
