package x86

// The processor executes instructions that compute with the data that they load: the recorder loads
// the memory operand, and the thread executes the instruction on a copy of it.

func half(i *instruction) int    { return i.vectorSize() / 2 }
func quarter(i *instruction) int { return i.vectorSize() / 4 }
func eighth(i *instruction) int  { return i.vectorSize() / 8 }

// halfOrWide returns the size of an operand with an element of 4 bytes for each 8 bytes of the
// vector. With W of EVEX the elements have 8 bytes.
func halfOrWide(i *instruction) int {
	if i.encoding == evex && i.bitW {
		return i.vectorSize()
	}
	return half(i)
}

// onCopy returns a function that loads the memory operand, makes the thread execute the instruction
// on a copy of the operand, and stores the copy. With loads or stores false, it leaves out this
// step.
func onCopy(loads, stores bool) func(*machine) error {
	return func(m *machine) error {
		if m.Run == nil || m.segment != 0 || m.address32 {
			return m.refusal("lm cannot execute this instruction on a copy of its memory " +
				"operand if the operand uses FS, GS or a 32-bit address")
		}
		code := m.withRelativeOperand()
		if len(code) > 15 {
			return m.refusal("redirected to a copy of its memory operand, the instruction would "+
				"have %d bytes, but x86 allows 15", len(code))
		}
		var data [64]byte
		operand := data[:m.memoryWidth()]
		err := m.checkFault(m.address, len(operand))
		if err == nil {
			err = m.Prepare(code)
		}
		switch {
		case err != nil || !loads:
		case m.mask != 0:
			err = m.maskedAccesses(operand, m.vectors.K[m.mask], m.memory.Load)
		case m.form.maskedBySigns:
			err = m.maskedAccesses(operand, m.signMask(), m.memory.Load)
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

// withRelativeOperand returns the code of the instruction with its memory operand replaced by one
// that is relative to the instruction pointer, at the address of the copy.
func (m *machine) withRelativeOperand() []byte {
	rest := m.code[m.operandEnd:m.length]
	code := append([]byte(nil), m.code[:m.operandStart]...)
	return append(append(code, m.code[m.operandStart]&0x38|5,
		byte(DataOffset-m.operandStart-5-len(rest)), 0,
		0, 0), rest...)
}
