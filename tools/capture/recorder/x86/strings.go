package x86

import "encoding/binary"

// The string instructions move elements between memory at RSI, memory at RDI and the accumulator,
// once or RCX times. The registers are updated after each element, so that an instruction whose
// access fails can continue there.

const (
	rax = 0
	rcx = 1
	rsi = 6
	rdi = 7
)

// repeated executes the elements of an instruction. `one` executes the next element. `more`
// executes as many further elements as it can at once, and returns their number. If an element
// fails in `more`, `one` executes it next and returns the error.
func (m *machine) repeated(one func(size int) error, more func(size int) uint64) error {
	if m.address32 || m.segment != 0 {
		return m.refusal("lm cannot execute a string instruction " +
			"with a segment override or 32-bit addresses")
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

// advance moves the address registers past some elements.
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

// runMemory returns memory that accepts several elements at once. It returns nil if the elements
// must be accessed one by one.
func (m *machine) runMemory() Runs {
	runs, ok := m.memory.(Runs)
	if !ok || !m.repeat && !m.repeatNot || m.Flags&down != 0 {
		return nil
	}
	return runs
}

// moveString returns a function that moves elements between two places in memory, or between memory
// and the accumulator. The fault may be in either memory operand.
func moveString(loads, stores bool) func(*machine) error {
	one := func(m *machine, size int) error {
		var b [8]byte
		data, operand := b[:size], rsi
		if stores {
			m.faultChecked = m.faultChecked || loads && m.fault-m.Reg[rsi] < uint64(size)
			operand = rdi
		}
		err := m.checkFault(m.Reg[operand], size)
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

// loadElement loads one element, which may belong to a run.
func (m *machine) loadElement(address uint64, data []byte) (err error) {
	if runs := m.runMemory(); runs != nil {
		_, err = runs.LoadRun(address, data, len(data))
		return err
	}
	return m.memory.Load(address, data)
}

// storeElement stores one element, which may belong to a run.
func (m *machine) storeElement(address uint64, data []byte) (err error) {
	if runs := m.runMemory(); runs != nil {
		_, err = runs.StoreRun(address, data, len(data))
		return err
	}
	return m.memory.Store(address, data)
}

// runPage is the size of the pages that a run does not leave. The element before the run was in the
// same pages. Therefore memory to which data of a device goes is known to be writable, and the
// device is not loaded from in vain.
const runPage = 4096

// moveRun moves the elements that follow, up to the end of the page of either operand, and returns
// their number. It moves none from device to device, because the order of all accesses matters, and
// none within ordinary memory, because the operands may overlap.
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

// elementsInPage returns the number of elements from an address up to the end of its page. It
// returns 0 at the start of a page, because the element before was in another page.
func elementsInPage(address uint64, size int) uint64 { return -address % runPage / uint64(size) }
