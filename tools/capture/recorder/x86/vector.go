package x86

const (
	sse         = legacy | vex | evex // SSE, AVX and AVX-512
	legacyOrVEX = legacy | vex
)

// wideElement returns 4 bytes, or 8 with W.
func wideElement(i *instruction) int {
	if i.bitW {
		return 8
	}
	return 4
}

// narrowElement returns 1 byte, or 2 with W.
func narrowElement(i *instruction) int {
	if i.bitW {
		return 2
	}
	return 1
}

// setLoaded sets the low bytes of the vector register reg. In the legacy encoding of SSE it clears
// the rest of the first 16 bytes, and does not change the bytes above. In other encodings it clears
// all other bytes.
func (m *machine) setLoaded(data []byte) {
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
		// the thread merges or clears the elements outside of the mask
		return onCopy(true, false)(m)
	}
	if err := m.load(data); err != nil {
		return err
	}
	m.setLoaded(data)
	return nil
}

func (m *machine) vectorStore() error {
	if m.zeroing {
		return m.refusal("lm cannot execute a store with zeroing (EVEX.z)")
	}
	data := m.vectors.Z[m.reg][:m.memoryWidth()]
	if m.mask != 0 {
		return m.maskedAccesses(data, m.vectors.K[m.mask], m.memory.Store)
	}
	return m.store(data)
}

// storeHigh stores bytes 8 to 15 of the register.
func (m *machine) storeHigh() error { return m.store(m.vectors.Z[m.reg][8:16]) }

// A masked move accesses the elements whose mask bit is set. Processors differ in the accesses that
// they make to a device. Here runs of elements become accesses of 8 bytes where the address is
// aligned, and smaller accesses at the ends of the runs.

func (m *machine) maskedAccesses(data []byte, mask uint64,
	access func(uint64, []byte) error) error {
	if err := m.checkFault(m.address, len(data)); err != nil {
		return err
	}
	element := m.form.elementSize(m.instruction)
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

// signMask returns a mask of the elements of the vector vvvv whose top bit is set.
func (m *machine) signMask() (mask uint64) {
	element := m.form.elementSize(m.instruction)
	for n := range m.memoryWidth() / element {
		mask |= uint64(m.vectors.Z[m.vvvv][(n+1)*element-1]>>7) << n
	}
	return mask
}

func (m *machine) signedStore() error {
	return m.maskedAccesses(m.vectors.Z[m.reg][:m.memoryWidth()], m.signMask(), m.memory.Store)
}
