// Package mutate changes images at random.
package mutate

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/simulate/images"
	"lightmetal/tools/check/vectors/vector"
	"lightmetal/tools/image/lmb"
)

// Mutator changes images. Most checksums are right again afterwards.
type Mutator struct {
	*rand.Rand
	Bases [][]byte // images that are changed
}

// oddNumbers are at the ends of ranges.
var oddNumbers = []uint64{0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 14, 15, 16, 63, 64, 71, 72, 127, 128,
	255, 256, 4095, 4096, 4097, 0xffff, 0x10000, 1<<20 - 1, 1 << 20, 1<<24 + 1, 1<<31 - 1, 1 << 31,
	1<<32 - 1, 1 << 32, 1<<46 + 1, 1 << 47, 1 << 62, 1 << 63, ^uint64(0), ^uint64(0) - 7}

func (m *Mutator) number() uint64 {
	if m.IntN(2) == 0 {
		return oddNumbers[m.IntN(len(oddNumbers))]
	}
	return m.Uint64() >> m.IntN(64)
}

// Image returns a changed image.
func (m *Mutator) Image() []byte {
	var file []byte
	if m.IntN(8) == 0 {
		made, err := lmb.Encode(images.Random(m.Rand))
		if err != nil {
			panic(err)
		}
		file = made
		m.Bases = append(m.Bases[:min(len(m.Bases), 40)], made)
	} else {
		file = m.Bases[m.IntN(len(m.Bases))]
	}
	file = vector.Aligned(file)
	view, err := fbs.Verify(file)
	if err != nil {
		panic(err)
	}
	envelope := uint64(len(view.Envelope))
	for range m.IntN(3) {
		m.change(file, view)
	}
	isStamped := m.IntN(50) != 0
	if m.IntN(24) == 0 {
		file = m.resize(file)
	}
	if m.IntN(40) == 0 {
		m.changePreamble(file)
	}
	if isStamped && len(file) >= int(envelope) && m.IntN(20) != 0 {
		binary.LittleEndian.PutUint64(file[24:], uint64(len(file)))
	}
	if isStamped && len(file) >= int(envelope) {
		sum := fbs.EnvelopeChecksum(file[:envelope])
		binary.LittleEndian.PutUint32(file[12:], sum)
	}
	if m.IntN(30) == 0 {
		file = m.sign(file)
	}
	return vector.Aligned(file)
}

// change makes one change. The tables of the view are those of the file.
func (m *Mutator) change(file []byte, view *fbs.View) {
	switch m.IntN(16) {
	case 0, 1, 2, 3, 4:
		m.ChangeCommand(view)
	case 5:
		i := m.IntN(len(view.Commands))
		view.Commands[i] = view.Commands[m.IntN(len(view.Commands))]
	case 6:
		i, k := m.IntN(len(view.Commands)), m.IntN(len(view.Commands))
		view.Commands[i], view.Commands[k] = view.Commands[k], view.Commands[i]
	case 7:
		m.changeTable(view)
	case 8, 9: // a word of the envelope
		at := m.IntN(len(view.Envelope)-fbs.PreambleSize-8) + fbs.PreambleSize
		at &^= 3
		if m.IntN(2) == 0 {
			binary.LittleEndian.PutUint32(file[at:], uint32(m.number()))
		} else {
			word := binary.LittleEndian.Uint32(file[at:])
			binary.LittleEndian.PutUint32(file[at:], word+m.Uint32N(17)-8)
		}
	case 10: // a byte of the envelope
		at := m.IntN(len(view.Envelope)-fbs.PreambleSize) + fbs.PreambleSize
		file[at] = byte(m.number())
	case 11: // a bit of the envelope
		at := m.IntN(len(view.Envelope)-fbs.PreambleSize) + fbs.PreambleSize
		file[at] ^= 1 << m.IntN(8)
	case 12: // payload, with its checksum
		if len(view.Segments) > 0 {
			s := &view.Segments[m.IntN(len(view.Segments))]
			size := uint64(len(file))
			if s.Size == 0 || s.Offset > size || s.Size > size-s.Offset {
				return // an earlier change
			}
			data := file[s.Offset:][:s.Size]
			data[m.IntN(len(data))] = byte(m.number())
			s.Crc32c = fbs.Checksum(data)
		}
	case 13: // anything after the envelope
		if rest := file[len(view.Envelope):]; len(rest) > 0 {
			rest[m.IntN(len(rest))] ^= 1 << m.IntN(8)
		}
	case 14:
		m.changePoint(view)
	case 15: // the vtable
		root := int(binary.LittleEndian.Uint32(file))
		if root > len(view.Envelope)-4 {
			return // an earlier change
		}
		at := root - int(int32(binary.LittleEndian.Uint32(file[root:]))) + m.IntN(24)&^1
		if at >= fbs.PreambleSize && at+2 <= len(view.Envelope) {
			binary.LittleEndian.PutUint16(file[at:], uint16(m.IntN(80)))
		}
	}
}

// ChangeCommand changes one field of a command.
func (m *Mutator) ChangeCommand(view *fbs.View) {
	c, n := &view.Commands[m.IntN(len(view.Commands))], m.number()
	if c.Opcode == gen.OpcodePoint && m.IntN(2) == 0 {
		m.changeTiles(view, c)
		return
	}
	switch m.IntN(16) {
	case 0:
		c.Opcode = gen.Opcode(n % 18)
	case 1:
		c.Width = uint8(n % 10)
	case 2:
		c.Mode = uint8(n % 5)
	case 3:
		c.Option = uint8(n % 4)
	case 4:
		c.Window = uint16(n % uint64(len(view.Windows)+1))
	case 5:
		c.Index = uint16(n % 6)
	case 6:
		c.Offset = uint32(n)
	case 7:
		c.Amount = uint32(n)
	case 8:
		c.Value = n
	case 9:
		c.Mask = n
	case 10:
		c.Offset ^= 1 << m.IntN(16)
	case 11:
		c.Amount = uint32(n % 64)
	case 12:
		c.Value = n & c.Mask
	default: // a counter
		if c.Opcode == gen.OpcodeExpect {
			c.Mode, c.Mask = uint8(gen.ConditionReached), 1<<(1+m.IntN(64))-1
			c.Mask &= fbs.WidthMask(c.Width)
			c.Value = n & c.Mask
		}
	}
}

// changePoint changes the tiles of a Point, if it finds one.
func (m *Mutator) changePoint(view *fbs.View) {
	for range 20 {
		c := &view.Commands[m.IntN(len(view.Commands))]
		if c.Opcode == gen.OpcodePoint {
			m.changeTiles(view, c)
			return
		}
	}
}

// changeTiles changes the tiles that a Point shows, mostly to what its board may close.
func (m *Mutator) changeTiles(view *fbs.View, c *fbs.Command) {
	coordinates := []uint64{0, 2, 3, 8, 9, 10, 11, 16, 17, 19, 24}
	coordinate := func() uint64 { return coordinates[m.IntN(len(coordinates))] }
	addresses := []uint64{0, 0x8_8003_0078, 0x8_9000_0000, 0x9000_0000, 0x8_8000_0000,
		0x11_0000_0000, 1<<64 - 1}
	switch m.IntN(3) {
	case 0:
		field, value := m.IntN(8), m.Uint64N(32)
		if field >= 4 {
			value = m.Uint64N(10)
		}
		c.Mask = c.Mask&^(0xff<<(8*field)) | value<<(8*field)
		c.Value = m.Uint64N(1<<12) << m.IntN(40)
	default:
		c.Mask = c.Mask&^0xffff | coordinate() | coordinate()<<8
		if c.Mask>>56 == 1 {
			c.Mask = c.Mask&^0xffff0000 | coordinate()<<16 | coordinate()<<24
		}
		c.Value = addresses[m.IntN(len(addresses))]
		if int(c.Window) < len(view.Windows) {
			c.Value &^= view.Windows[c.Window].Size - 1
		}
	}
}

// changeTable changes a field of an element of a table.
func (m *Mutator) changeTable(view *fbs.View) {
	switch m.IntN(6) {
	case 5:
		if len(view.Rings) > 0 {
			m.changeRing(&view.Rings[m.IntN(len(view.Rings))])
		}
	case 0:
		m.changeDevice(&view.Devices[m.IntN(len(view.Devices))])
	case 1:
		m.changeWindow(&view.Windows[m.IntN(len(view.Windows))], len(view.Devices))
	case 2:
		s := &view.Sequences[m.IntN(len(view.Sequences))]
		if m.IntN(2) == 0 {
			s.First += m.Uint32N(5) - 2
		} else {
			s.Count += m.Uint32N(5) - 2
		}
	case 3:
		if len(view.Tensors) > 0 {
			m.changeTensor(&view.Tensors[m.IntN(len(view.Tensors))])
		}
	case 4:
		if len(view.Rules) > 0 {
			m.changeRule(&view.Rules[m.IntN(len(view.Rules))])
		}
	}
}

func (m *Mutator) changeDevice(d *fbs.DeviceInfo) {
	if m.IntN(2) == 0 {
		d.MinBarSizes()[m.IntN(6)] = m.number()
		return
	}
	ids := [][2]uint16{{0x1e52, 0x401e}, {0x1e52, 0xb140}, {0x1b36, 0x10}, {0x1234, 0x11e8},
		{0x1af4, 0x1110}, {1, 2}}
	pair := ids[m.IntN(len(ids))]
	d.Vendor, d.Device = pair[0], pair[1]
}

func (m *Mutator) changeWindow(w *fbs.Window, devices int) {
	n := m.number()
	switch m.IntN(11) {
	case 9: // the pages that a Relocate gives away
		w.Offset ^= 8 << m.IntN(12)
	case 10:
		w.Size ^= 8 << m.IntN(12)
	case 0:
		w.Kind = gen.WindowKind(n % 6)
	case 1:
		w.Device = uint8(n % uint64(devices+1))
	case 2:
		w.Bar = uint8(n % 7)
	case 3:
		w.Flags = uint8(n % 5)
	case 4:
		w.Slot = uint16(n)
	case 5:
		w.Offset = n
	case 6:
		w.Size = n
	default:
		bases := []uint64{1 << 12, 2 << 12, 3 << 12, 4 << 12, 1 << 32, 0x8_0000_0000, 4 << 58}
		w.Flags |= fbs.FlagFixedBus
		w.Offset = bases[m.IntN(len(bases))] + m.Uint64N(6)<<12
	}
}

func (m *Mutator) changeTensor(t *fbs.Tensor) {
	n := m.number()
	switch m.IntN(4) {
	case 0:
		t.Role = gen.Role(n % 4)
	case 1:
		t.HasData, t.DataOffset = uint8(n%2), 0
	case 2:
		t.Dtype = gen.DType(n % 14)
	case 3:
		t.DataOffset = n
	}
}

func (m *Mutator) changeRing(r *fbs.Ring) {
	fields := []*uint64{&r.Begin, &r.End, &r.First}
	if n := m.number(); m.IntN(2) == 0 {
		*fields[m.IntN(3)] = n
	} else {
		*fields[m.IntN(3)] ^= 1 << m.IntN(12)
	}
}

func (m *Mutator) changeRule(r *fbs.AccessRule) {
	n := m.number()
	switch m.IntN(5) {
	case 3:
		r.First ^= 8 << m.IntN(12)
	case 4:
		r.Last ^= 8 << m.IntN(12)
	case 0:
		r.Widths = uint8(n % 18)
	case 1:
		r.Memory = uint8(n % 3)
	case 2:
		r.Last = n
	}
}

// resize cuts or extends a file.
func (m *Mutator) resize(file []byte) []byte {
	switch m.IntN(4) {
	case 0:
		return file[:m.IntN(len(file)+1)]
	case 1:
		return file[:max(0, len(file)-1-m.IntN(8))]
	}
	return append(file, make([]byte, 1+m.IntN(200))...)
}

func (m *Mutator) changePreamble(file []byte) {
	if len(file) < fbs.PreambleSize {
		return
	}
	switch m.IntN(4) {
	case 0:
		binary.LittleEndian.PutUint64(file[32:], m.number())
	case 1:
		binary.LittleEndian.PutUint64(file[24:], m.number())
	default:
		file[m.IntN(fbs.PreambleSize)] ^= 1 << m.IntN(8)
	}
}

// sign appends a signature, and may damage it.
func (m *Mutator) sign(file []byte) []byte {
	block := lmb.SignatureBlock(0, bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 64))
	if m.IntN(2) == 0 {
		block[m.IntN(len(block))] ^= 1 << m.IntN(8)
	}
	return append(file, block...)
}
