package x86

// Instructions that compute with what they load. The processor itself does it:
// the memory is loaded here, and the thread carries the instruction out on a copy.

func half(i *instruction) int    { return i.vectorSize() / 2 }
func quarter(i *instruction) int { return i.vectorSize() / 4 }
func eighth(i *instruction) int  { return i.vectorSize() / 8 }

// halfOrWide is half a vector of 4 bytes each, or, with EVEX's W, all of one of 8.
func halfOrWide(i *instruction) int {
	if i.encoding == evex && i.wide {
		return i.vectorSize()
	}
	return half(i)
}

// onCopy loads the operand, has the thread carry the instruction out with a copy
// in its place, and stores what that is then; or one of both.
func onCopy(loads, stores bool) func(*machine) error {
	return func(m *machine) error {
		if m.Run == nil || m.segment != 0 || m.address32 {
			return m.refuse("lm cannot replace its operand (FS, GS or a 32-bit address)")
		}
		code := m.moved()
		if len(code) > 15 {
			return m.refuse("with a replaced operand it would have %d bytes, more than the 15 of "+
				"an instruction", len(code))
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
	return append(append(code, m.code[m.operandAt]&0x38|5, byte(DataAt-m.operandAt-5-len(rest)), 0,
		0, 0), rest...)
}
