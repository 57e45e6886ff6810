//go:build world

package main

import (
	"bytes"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// commandData returns the bytes of the payload or tensor that a command's index names.
func (m *model) commandData(c *fbs.Command) []byte {
	if c.Index == 0 {
		return m.w.payload[c.Value:][:c.Amount]
	}
	return m.arena[c.Index-1][c.Value:][:c.Amount]
}

// runCopy executes a CopyIn or CopyOut command.
func (m *model) runCopy(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
	data, isCopyIn := m.commandData(c), c.Opcode == gen.OpcodeCopyIn
	if !isCopyIn {
		a.kind = load
	}
	if gen.Access(c.Mode) == gen.AccessBulk {
		if code := m.runBulkCopy(do, c, a, data); code != hal.OK {
			return code
		}
		data = data[max(0, len(data)-int(c.Width)):]
	} else {
		for ; len(data) > 0; data = data[c.Width:] {
			a.value = littleEndian(data[:c.Width])
			if code := do(a); code != hal.OK {
				return code
			}
			if !isCopyIn {
				putLittleEndian(data[:c.Width], m.value)
			}
			if gen.Access(c.Mode) == gen.AccessExact {
				a.offset += uint64(c.Width)
			}
		}
		data = m.commandData(c)
		data = data[len(data)-int(c.Width):]
	}
	if !isCopyIn && bytes.Count(data, []byte{0xff}) == len(data) && m.isDeviceGone(c) {
		return hal.DeviceGone
	}
	return hal.OK
}

// runBulkCopy accepts accesses of any order and width, and checks that they cover each byte exactly
// once.
func (m *model) runBulkCopy(do func(access) hal.Code, c *fbs.Command, a access,
	data []byte) hal.Code {
	if m.reference != nil {
		return m.runBytewiseCopy(do, a, data)
	}
	a.bulkBytes, a.anyValue = c.Amount, true
	done := make([]bool, len(data))
	for left := len(data); left > 0; left -= int(m.last.width) {
		if code := do(a); code != hal.OK {
			return code
		}
		part := data[m.last.offset-a.offset:][:m.last.width]
		if a.kind == load {
			putLittleEndian(part, m.value)
		} else if littleEndian(part) != m.last.value {
			m.w.errorf("bulk copy stored %x, expected %x", m.last.value, part)
		}
		for i := range part {
			if at := int(m.last.offset-a.offset) + i; done[at] {
				m.w.errorf("bulk copy accessed byte %d twice", at)
			} else {
				done[at] = true
			}
		}
	}
	return hal.OK
}

// runBytewiseCopy executes a bulk copy byte by byte.
func (m *model) runBytewiseCopy(do func(access) hal.Code, a access, data []byte) hal.Code {
	a.width = 1
	for i := range data {
		if a.value = uint64(data[i]); do(a) != hal.OK {
			return m.code
		}
		if a.kind == load {
			data[i] = byte(m.value)
		}
		a.offset++
	}
	return hal.OK
}
