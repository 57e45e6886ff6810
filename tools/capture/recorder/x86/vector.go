package x86

const (
	sse    = legacy | vex | evex // as in SSE, AVX and AVX-512
	ssevex = legacy | vex
)

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
		return m.refuse("a store with zeroing (EVEX.z)")
	}
	data := m.vectors.Z[m.reg][:m.memoryWidth()]
	if m.mask != 0 {
		return m.runs(data, m.vectors.K[m.mask], m.memory.Store)
	}
	return m.store(data)
}

// storeHigh stores the upper half of 16 bytes.
func (m *machine) storeHigh() error { return m.store(m.vectors.Z[m.reg][8:16]) }

// A masked move touches the elements whose bit is set. What a processor makes
// of it on a device is its own affair; here runs of elements become accesses
// of 8 bytes where the address allows, and of less at their ends.

// runs makes the accesses of a masked move.
func (m *machine) runs(data []byte, mask uint64, access func(uint64, []byte) error) error {
	if err := m.within(m.address, len(data)); err != nil {
		return err
	}
	element := m.form.element(m.instruction)
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

// signs is a mask of the elements whose top bit is set.
func (m *machine) signs() (mask uint64) {
	element := m.form.element(m.instruction)
	for n := range m.memoryWidth() / element {
		mask |= uint64(m.vectors.Z[m.second][(n+1)*element-1]>>7) << n
	}
	return mask
}

func (m *machine) signedStore() error {
	return m.runs(m.vectors.Z[m.reg][:m.memoryWidth()], m.signs(), m.memory.Store)
}
