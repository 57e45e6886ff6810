package x86

// Instructions that compare or combine a vector with memory: what functions
// such as memcmp and what vectorising compilers use.

// byWidth is what EVEX wants of W for elements of 1, 2, 4 and 8 bytes.
var byWidth = [4]wide{anyW, anyW, w0, w1}

// lane combines bytes of the first operand with those of memory, in place.
type lane func(a, b []byte)

func addLogic(forms map[vectorKey]*form) {
	equal := func(a, b []byte) {
		same := string(a) == string(b)
		for n := range a {
			a[n] = 0
			if same {
				a[n] = 0xff
			}
		}
	}
	bitwise := func(f func(a, b byte) byte) lane {
		return func(a, b []byte) {
			for n := range a {
				a[n] = f(a[n], b[n])
			}
		}
	}
	and := bitwise(func(a, b byte) byte { return a & b })
	andNot := bitwise(func(a, b byte) byte { return ^a & b })
	or := bitwise(func(a, b byte) byte { return a | b })
	xor := bitwise(func(a, b byte) byte { return a ^ b })
	least := bitwise(func(a, b byte) byte { return min(a, b) })
	most := bitwise(func(a, b byte) byte { return max(a, b) })
	add := func(key vectorKey, width int, f lane) {
		forms[key] = &form{size: vectorSize, vectors: ssevex, three: true, element: fixed(width), run: func(m *machine) error { return m.combine(f) }}
	}
	for n, width := range []int{1, 2, 4} { // PCMPEQB, W, D
		add(vectorKey{1, 0x74 + uint8(n), 1}, width, equal)
	}
	add(vectorKey{2, 0x29, 1}, 8, equal)                                                  // PCMPEQQ
	for opcode, f := range map[uint8]lane{0xdb: and, 0xdf: andNot, 0xeb: or, 0xef: xor} { // PAND, PANDN, POR, PXOR, and VPANDD, Q and so on
		add(vectorKey{1, opcode, 1}, 1, f)
		forms[vectorKey{1, opcode, 1}].vectors = sse
	}
	add(vectorKey{1, 0xda, 1}, 1, least) // PMINUB
	forms[vectorKey{1, 0xda, 1}].vectors = sse
	add(vectorKey{1, 0xde, 1}, 1, most) // PMAXUB
	forms[vectorKey{1, 0xde, 1}].vectors = sse
	for mandatory := range uint8(2) {
		for n, f := range []lane{and, andNot, or, xor} { // ANDPS, ANDNPS, ORPS, XORPS and PD
			add(vectorKey{1, 0x54 + uint8(n), mandatory}, 1, f)
		}
	}
	for n, width := range []int{1, 2, 4, 8} { // PADDB, W, D, Q and PSUB
		add(vectorKey{1, []uint8{0xfc, 0xfd, 0xfe, 0xd4}[n], 1}, width, sum)
		add(vectorKey{1, 0xf8 + uint8(n), 1}, width, difference)
		for _, opcode := range []uint8{0xf8 + uint8(n), []uint8{0xfc, 0xfd, 0xfe, 0xd4}[n]} {
			forms[vectorKey{1, opcode, 1}].vectors, forms[vectorKey{1, opcode, 1}].wEvex = sse, byWidth[n]
		}
	}
	addTests(forms)
}

// addTests adds what sets bits of a mask register, and VPTERNLOG.
func addTests(forms map[vectorKey]*form) {
	stated := func(m *machine) error {
		signed := m.opcode&1 == 1
		return m.compare(signed, ordered(signed, uint8(m.instruction.immediate)))
	}
	add := func(key vectorKey, wants immediateSize, element func(*instruction) int, run func(*machine) error) {
		forms[key] = &form{size: vectorSize, wants: wants, vectors: evex, three: true, masked: true, toMask: true, element: element, run: run}
	}
	for n := range uint8(2) {
		add(vectorKey{3, 0x3e + n, 1}, oneByte, narrowElement, stated) // VPCMPUB and UW, VPCMPB and W
		add(vectorKey{3, 0x1e + n, 1}, oneByte, wideElement, stated)   // VPCMPUD and UQ, VPCMPD and Q
	}
	for mandatory, wanted := range map[uint8]bool{1: true, 2: false} { // VPTESTM, VPTESTNM
		test := func(m *machine) error {
			return m.compare(false, func(a, b uint64) bool { return (a&b != 0) == wanted })
		}
		add(vectorKey{2, 0x26, mandatory}, noImmediate, narrowElement, test)
		add(vectorKey{2, 0x27, mandatory}, noImmediate, wideElement, test)
	}
	for n, key := range []vectorKey{{1, 0x74, 1}, {1, 0x75, 1}, {1, 0x76, 1}, {2, 0x29, 1}} { // VPCMPEQB, W, D, Q
		older := forms[key]
		forms[key] = &form{size: vectorSize, vectors: sse, three: true, masked: true, toMask: true, element: fixed(1 << n), wEvex: byWidth[n],
			run: func(m *machine) error {
				if m.encoding == evex {
					return m.compare(false, ordered(false, 0))
				}
				return older.run(m)
			}}
	}
	// VPTERNLOGD and Q
	forms[vectorKey{3, 0x25, 1}] = &form{size: vectorSize, wants: oneByte, vectors: evex, three: true, element: vectorSize, run: (*machine).ternary}
}

// ternary looks each bit of three operands up in the immediate.
func (m *machine) ternary() error {
	table := uint8(m.instruction.immediate)
	first := m.vectors.Z[m.reg]
	return m.combine(func(a, b []byte) {
		for n := range a {
			var z byte
			for bit := range 8 {
				index := first[n]>>bit&1<<2 | a[n]>>bit&1<<1 | b[n]>>bit&1
				z |= table >> index & 1 << bit
			}
			a[n] = z
		}
	})
}

// sum and difference take little-endian numbers of any size.
func sum(a, b []byte) {
	carry := uint32(0)
	for n := range a {
		s := uint32(a[n]) + uint32(b[n]) + carry
		a[n], carry = byte(s), s>>8
	}
}

func difference(a, b []byte) {
	borrow := uint32(0)
	for n := range a {
		d := uint32(a[n]) - uint32(b[n]) - borrow
		a[n], borrow = byte(d), d>>8&1
	}
}

func (m *machine) combine(f lane) error {
	var b [64]byte
	data := b[:m.memoryWidth()]
	if err := m.load(data); err != nil {
		return err
	}
	from := m.reg
	if m.encoding != legacy {
		from = m.second
	}
	result := m.vectors.Z[from]
	width := m.form.element(&m.instruction)
	for at := 0; at < len(data); at += width {
		f(result[at:at+width], data[at:at+width])
	}
	m.put(result[:len(data)])
	return nil
}

// compare sets the bits of a mask register by the elements of a register and
// of memory.
func (m *machine) compare(signed bool, is func(a, b uint64) bool) error {
	var b [64]byte
	data := b[:m.memoryWidth()]
	wanted, err := ^uint64(0), error(nil)
	if m.mask != 0 {
		wanted = m.vectors.K[m.mask]
		err = m.runs(data, wanted, m.memory.Load)
	} else {
		err = m.load(data)
	}
	if err != nil {
		return err
	}
	width := m.form.element(&m.instruction)
	var mask uint64
	for at := 0; at < len(data); at += width {
		if is(number(m.vectors.Z[m.second][at:at+width], signed), number(data[at:at+width], signed)) {
			mask |= 1 << (at / width)
		}
	}
	m.vectors.K[m.reg&7] = mask & wanted
	m.VectorsChanged = true
	return nil
}

func number(b []byte, signed bool) (v uint64) {
	for n, x := range b {
		v |= uint64(x) << (8 * n)
	}
	if signed {
		return extend(v, len(b))
	}
	return v
}

// ordered compares by a number: EQ LT LE FALSE NEQ NLT NLE TRUE.
func ordered(signed bool, predicate uint8) func(a, b uint64) bool {
	return func(a, b uint64) bool {
		less := a < b
		if signed {
			less = int64(a) < int64(b)
		}
		is := [4]bool{a == b, less, less || a == b, false}[predicate&3]
		return is != (predicate&4 != 0)
	}
}
