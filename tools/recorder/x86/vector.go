package x86

// vectorKey is how a vector instruction is found: the mandatory prefix is 0
// for none, 1 for 66, 2 for F3, 3 for F2.
type vectorKey struct{ table, opcode, mandatory uint8 }

const (
	sse    = legacy | vex | evex // as in SSE, AVX and AVX-512
	ssevex = legacy | vex
)

var vectors = vectorForms()

func vectorForms() map[vectorKey]*form {
	forms := map[vectorKey]*form{}
	addMoves(forms)
	addParts(forms)
	addBroadcasts(forms)
	addMaskedMoves(forms)
	addComputed(forms)
	addTests(forms)
	return forms
}

// addMoves adds the moves of whole vectors, and of one number to the bottom of
// a vector that it clears.
func addMoves(forms map[vectorKey]*form) {
	both := func(table, load, store, mandatory uint8, f form) {
		for opcode, run := range map[uint8]func(*machine) error{load: (*machine).vectorLoad, store: (*machine).vectorStore} {
			if f.run = run; opcode != 0 {
				one := f
				forms[vectorKey{table, opcode, mandatory}] = &one
			}
		}
	}
	for _, f := range []struct {
		table, load, store, mandatory uint8 // an opcode of 0: there is none
		vectors                       encoding
		masked                        bool
		element                       func(*instruction) int
		w                             wide // in EVEX
	}{
		{1, 0x10, 0x11, 0, sse, true, fixed(4), w0},         // MOVUPS
		{1, 0x10, 0x11, 1, sse, true, fixed(8), w1},         // MOVUPD
		{1, 0x28, 0x29, 0, sse, true, fixed(4), w0},         // MOVAPS
		{1, 0x28, 0x29, 1, sse, true, fixed(8), w1},         // MOVAPD
		{1, 0, 0x2b, 0, sse, false, nil, w0},                // MOVNTPS
		{1, 0, 0x2b, 1, sse, false, nil, w1},                // MOVNTPD
		{1, 0x6f, 0x7f, 1, sse, true, wideElement, anyW},    // MOVDQA, VMOVDQA32 and 64
		{1, 0x6f, 0x7f, 2, sse, true, wideElement, anyW},    // MOVDQU, VMOVDQU32 and 64
		{1, 0x6f, 0x7f, 3, evex, true, narrowElement, anyW}, // VMOVDQU8 and 16
		{1, 0, 0xe7, 1, sse, false, nil, w0},                // MOVNTDQ
		{1, 0xf0, 0, 3, ssevex, false, nil, anyW},           // LDDQU
		{2, 0x2a, 0, 1, sse, false, nil, w0},                // MOVNTDQA
	} {
		both(f.table, f.load, f.store, f.mandatory, form{size: vectorSize, vectors: f.vectors, masked: f.masked, element: f.element, wEvex: f.w})
	}
	for _, f := range []struct {
		load, store, mandatory uint8
		size                   func(*instruction) int
		w                      wide
		lengths                uint8
	}{
		{0x10, 0x11, 2, fixed(4), w0, 0},      // MOVSS
		{0x10, 0x11, 3, fixed(8), w1, 0},      // MOVSD
		{0x6e, 0x7e, 1, wideElement, anyW, 1}, // MOVD, MOVQ
		{0x7e, 0, 2, fixed(8), w1, 1},         // MOVQ
		{0, 0xd6, 1, fixed(8), w1, 1},         // MOVQ
	} {
		both(1, f.load, f.store, f.mandatory, form{size: f.size, vectors: sse, wEvex: f.w, lengths: f.lengths})
	}
}

// wideElement is 4 bytes, or 8 with W.
func wideElement(i *instruction) int {
	if i.wide {
		return 8
	}
	return 4
}

// narrowElement is 1 byte, or 2 with W.
func narrowElement(i *instruction) int {
	if i.wide {
		return 2
	}
	return 1
}

// put is the bottom of a vector register. Without SSE's encoding all above it
// is cleared, with it all above 16 bytes stays.
func (m *machine) put(data []byte) {
	z := &m.vectors.Z[m.reg]
	whole := z[:]
	if m.encoding == legacy {
		whole = z[:16]
	}
	clear(whole[copy(whole, data):])
	m.VectorsChanged = true
}

func (m *machine) vectorLoad() error {
	var b [64]byte
	data := b[:m.memoryWidth()]
	if m.mask != 0 {
		return onCopy(true, false)(m) // merged, or cleared, with what the mask leaves out
	}
	if err := m.load(data); err != nil {
		return err
	}
	m.put(data)
	return nil
}

func (m *machine) vectorStore() error {
	if m.zeroing {
		return m.refuse("a store that clears")
	}
	data := m.vectors.Z[m.reg][:m.memoryWidth()]
	if m.mask != 0 {
		return m.runs(data, m.vectors.K[m.mask], m.memory.Store)
	}
	return m.store(data)
}

// A masked move touches the elements whose bit is set. What a processor makes
// of it on a device is its own affair; here runs of elements become accesses
// of 8 bytes where the address allows, and of less at their ends.

// runs makes the accesses of a masked move.
func (m *machine) runs(data []byte, mask uint64, access func(uint64, []byte) error) error {
	if err := m.within(m.address, len(data)); err != nil {
		return err
	}
	element := m.form.element(&m.instruction)
	for at := 0; at < len(data); {
		end := at
		for end < len(data) && mask>>(end/element)&1 == 1 {
			end += element
		}
		if end == at {
			at += element
			continue
		}
		for at < end {
			n := 8
			for n > end-at || (m.address+uint64(at))%uint64(n) != 0 && n > element {
				n /= 2
			}
			if err := access(m.address+uint64(at), data[at:at+n]); err != nil {
				return err
			}
			at += n
		}
	}
	return nil
}
