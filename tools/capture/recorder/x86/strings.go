package x86

import "encoding/binary"

// The string instructions move elements between RSI, RDI and the accumulator,
// once or RCX times. Registers follow each element, so that one that fails can
// be taken up where it stood.

const (
	rax = 0
	rcx = 1
	rsi = 6
	rdi = 7
)

// repeated executes the elements of an instruction. one executes the next; more executes
// further ones at once, as many as it can, and returns how many: if one of them fails, it is
// the next of one, which returns its error.
func (m *machine) repeated(one func(size int) error, more func(size int) uint64) error {
	if m.address32 || m.segment != 0 {
		return m.refuse("a string instruction with a segment override or 32-bit addresses")
	}
	size := m.integerSize()
	if !m.repeat && !m.repeatNot {
		return one(size)
	}
	for m.Reg[rcx] > 0 {
		if err := one(size); err != nil {
			return err
		}
		m.Reg[rcx]--
		m.Reg[rcx] -= more(size)
	}
	return nil
}

// advance moves the registers behind so many elements.
func (m *machine) advance(loads, stores bool, size int, count uint64) {
	bytes := count * uint64(size)
	if m.Flags&down != 0 {
		bytes = -bytes
	}
	if loads {
		m.Reg[rsi] += bytes
	}
	if stores {
		m.Reg[rdi] += bytes
	}
}

// runMemory returns memory that takes several elements at once, nil if they are to be accessed
// one by one.
func (m *machine) runMemory() Runs {
	runs, ok := m.memory.(Runs)
	if !ok || !m.repeat && !m.repeatNot || m.Flags&down != 0 {
		return nil
	}
	return runs
}

// moveString moves elements from memory or the accumulator to memory or the
// accumulator. The fault may lie in either operand in memory.
func moveString(loads, stores bool) func(*machine) error {
	one := func(m *machine, size int) error {
		var b [8]byte
		data, operand := b[:size], rsi
		if stores {
			m.seen = m.seen || loads && m.fault-m.Reg[rsi] < uint64(size)
			operand = rdi
		}
		err := m.within(m.Reg[operand], size)
		binary.LittleEndian.PutUint64(b[:], m.Reg[rax])
		if err == nil && loads {
			err = m.loadElement(m.Reg[rsi], data)
		}
		if err == nil && stores {
			err = m.storeElement(m.Reg[rdi], data)
		}
		if err != nil {
			return err
		}
		m.advance(loads, stores, size, 1)
		if !stores {
			m.setRegister(rax, size, binary.LittleEndian.Uint64(b[:]))
		}
		return nil
	}
	return func(m *machine) error {
		return m.repeated(func(size int) error { return one(m, size) },
			func(size int) uint64 { return m.moveRun(loads, stores, size) })
	}
}

// loadElement loads one element, which may be of a run.
func (m *machine) loadElement(address uint64, data []byte) (err error) {
	if runs := m.runMemory(); runs != nil {
		_, err = runs.LoadRun(address, data, len(data))
		return err
	}
	return m.memory.Load(address, data)
}

// storeElement stores one element, which may be of a run.
func (m *machine) storeElement(address uint64, data []byte) (err error) {
	if runs := m.runMemory(); runs != nil {
		_, err = runs.StoreRun(address, data, len(data))
		return err
	}
	return m.memory.Store(address, data)
}

// runPage is the size of the pages that a run does not leave. The element before it was in
// the same ones: so memory that a device's data goes to can be stored to, and no load of the
// device is in vain.
const runPage = 4096

// moveRun moves the elements that follow one up to the end of the page in either operand, and
// returns how many. It moves none from device to device, where the order of all accesses
// counts, nor in ordinary memory, where the operands may overlap.
func (m *machine) moveRun(loads, stores bool, size int) (count uint64) {
	runs := m.runMemory()
	if runs == nil || !stores ||
		loads && runs.IsDevice(m.Reg[rsi]) == runs.IsDevice(m.Reg[rdi]) {
		return 0
	}
	count = min(m.Reg[rcx], elementsInPage(m.Reg[rdi], size))
	if loads {
		count = min(count, elementsInPage(m.Reg[rsi], size))
	}
	data := make([]byte, count*uint64(size))
	done := len(data)
	if loads {
		done, _ = runs.LoadRun(m.Reg[rsi], data, size)
		done -= done % size
	} else {
		var element [8]byte
		binary.LittleEndian.PutUint64(element[:], m.Reg[rax])
		for i := 0; i < done; i += size {
			copy(data[i:], element[:size])
		}
	}
	done, _ = runs.StoreRun(m.Reg[rdi], data[:done], size)
	count = uint64(done / size)
	m.advance(loads, stores, size, count)
	return count
}

// elementsInPage returns the number of elements from an address on that the rest of a page
// holds. It is 0 at the start of a page: the element before was in another.
func elementsInPage(address uint64, size int) uint64 { return -address % runPage / uint64(size) }
