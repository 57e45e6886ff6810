//go:build world

package main

import (
	"bytes"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// memory is what a command's index names.
func (m *model) memory(c *fbs.Command) []byte {
	if c.Index == 0 {
		return m.w.payload[c.Value:][:c.Amount]
	}
	return m.arena[c.Index-1][c.Value:][:c.Amount]
}

func (m *model) copy(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
	data, in := m.memory(c), c.Opcode == gen.OpcodeCopyIn
	if !in {
		a.kind = load
	}
	if gen.Access(c.Mode) == gen.AccessBulk {
		if code := m.bulk(do, c, a, data); code != hal.OK {
			return code
		}
		data = data[max(0, len(data)-int(c.Width)):]
	} else {
		for ; len(data) > 0; data = data[c.Width:] {
			a.value = get(data[:c.Width])
			if code := do(a); code != hal.OK {
				return code
			}
			if !in {
				put(data[:c.Width], m.got)
			}
			if gen.Access(c.Mode) == gen.AccessExact {
				a.offset += uint64(c.Width)
			}
		}
		data = m.memory(c)
		data = data[len(data)-int(c.Width):]
	}
	if !in && bytes.Count(data, []byte{0xff}) == len(data) && m.dead(c) {
		return hal.DeviceGone
	}
	return hal.OK
}

// bulk is accesses in any order and width that take every byte once.
func (m *model) bulk(do func(access) hal.Code, c *fbs.Command, a access, data []byte) hal.Code {
	if m.still != nil {
		return m.single(do, a, data)
	}
	a.bulk, a.any = c.Amount, true
	done := make([]bool, len(data))
	for left := len(data); left > 0; left -= int(m.did.width) {
		if code := do(a); code != hal.OK {
			return code
		}
		part := data[m.did.offset-a.offset:][:m.did.width]
		if a.kind == load {
			put(part, m.got)
		} else if get(part) != m.did.value {
			m.w.violate("a bulk copy stores %x, the data are %x", m.did.value, part)
		}
		for i := range part {
			if at := int(m.did.offset-a.offset) + i; done[at] {
				m.w.violate("a bulk copy takes byte %d twice", at)
			} else {
				done[at] = true
			}
		}
	}
	return hal.OK
}

// single is a bulk copy, byte by byte.
func (m *model) single(do func(access) hal.Code, a access, data []byte) hal.Code {
	a.width = 1
	for i := range data {
		if a.value = uint64(data[i]); do(a) != hal.OK {
			return m.code
		}
		if a.kind == load {
			data[i] = byte(m.got)
		}
		a.offset++
	}
	return hal.OK
}
