package oracle

// This file checks an image, except its commands (FORMAT.md sections 1 to 5 and 8).

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// Values of the enums in fbs/image.fbs.
const (
	opWrite, opModify, opRelocate, opCopyIn, opFill, opCopyOut, opExpect = 1, 2, 3, 4, 5, 6, 7

	opCompare, opPoint, opFence, opDelay, opCall, opEnd = 8, 9, 10, 11, 12, 13

	opAdvance, opReset, opWith = 14, 15, 16

	placeValue, placeOffset        = 1, 2
	modeExact, modeFixed, modeBulk = 1, 2, 3
	modeEqual, modeNotEqual        = 1, 2
	modeReached                    = 3
	optionFail, optionIgnore       = 1, 2
	kindBar, kindTlb, kindHost     = 1, 2, 3
	kindConfig                     = 4
	roleInput, roleOutput          = 1, 2
	roleScratch                    = 3
)

const (
	page      = 4096
	bytesMost = 1 << 46 // of a tensor or a segment

	scratchMost = 4096 // bytes of the arena

	// Flags of windows.
	flagWriteCombining = 1
	flagFixedBus       = 2
)

func badImage(place string) *Fault { return &Fault{"bad-image", place} }

func roundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }

func sumOf(parts ...[]byte) (sum uint32) {
	for _, part := range parts {
		sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), part)
	}
	return sum
}

// Verify checks every byte of an image file.
func Verify(file []byte) (*Image, *Fault) {
	m := &Image{file: file}
	if !m.splitSignature() {
		return nil, badImage("signature")
	}
	if !m.checkPreamble() {
		return nil, badImage("preamble")
	}
	// A wrong checksum is reported even if the envelope has other errors (FORMAT.md 1.2).
	envelope := m.file[:m.envelope]
	sum := sumOf(envelope[:12], make([]byte, 4), envelope[16:])
	if uint64(sum) != m.number(12, 4) {
		return nil, badImage("checksum")
	}
	if fault := m.checkEnvelope(); fault != nil {
		return nil, fault
	}
	if fault := m.checkPayload(); fault != nil {
		return nil, fault
	}
	return m, nil
}

// splitSignature removes a signature from the file (section 8).
func (m *Image) splitSignature() (ok bool) {
	const size = 128
	image := len(m.file) - size
	if image < preambleBytes || m.number(24, 8) != uint64(image) {
		return true // the file has no signature
	}
	signature := m.file[image:]
	m.file = m.file[:image]
	return string(signature[:8]) == "LMBSIGN1" && isZero(signature[16:32]) &&
		binary.LittleEndian.Uint32(signature[8:]) == sumOf(signature[12:])
}

func isZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

// checkPreamble checks section 1.1.
func (m *Image) checkPreamble() (ok bool) {
	size := uint64(len(m.file))
	if size < preambleBytes {
		return false
	}
	m.envelope = m.number(32, 8)
	return string(m.file[4:8]) == "LMB1" && m.number(8, 2) == 3 && m.number(10, 2) == 0 &&
		m.number(16, 8) == gen.SchemaHash && m.number(24, 8) == size &&
		m.envelope >= preambleBytes && m.envelope <= size && isZero(m.file[40:72])
}

// checkEnvelope checks steps 2 to 5 of section 1.2.
func (m *Image) checkEnvelope() *Fault {
	if !m.readFlatBuffer() {
		return badImage("flatbuffer")
	}
	r := &m.Reservation
	hasAll := len(m.Devices) > 0 && len(m.Windows) > 0 && len(m.Sequences) > 0 &&
		len(m.Commands) > 0
	counts := [6]int{len(m.Devices), len(m.Windows), len(m.Sequences), len(m.Segments),
		len(m.Tensors), len(m.Commands)}
	if !hasAll || counts != [6]int{int(r.Devices), int(r.Windows), int(r.Sequences),
		int(r.Segments), int(r.Tensors), int(r.Commands)} {
		return badImage("counts")
	}
	for _, table := range []struct {
		element string
		count   int
		isRight func(index int) bool
	}{
		{"device", len(m.Devices), m.isDevice}, {"rule", len(m.Rules), m.isRule},
		{"window", len(m.Windows), m.isWindow}, {"sequence", len(m.Sequences), m.isSequence},
		{"segment", len(m.Segments), m.isSegment}, {"tensor", len(m.Tensors), m.isTensor},
		{"ring", len(m.Rings), m.isRing},
	} {
		for i := range table.count {
			if !table.isRight(i) {
				return badImage(fmt.Sprint(table.element, " ", i))
			}
		}
	}
	if !m.hasRightSums() {
		return badImage("sums")
	}
	return m.checkCommands()
}

func (m *Image) isName(name uint32) bool {
	size := name & 0xff
	if size == 0 || uint64(name>>8)+uint64(size) > uint64(len(m.Text)) {
		return false
	}
	text := m.Name(name)
	if !utf8.Valid(text) {
		return false
	}
	return !strings.ContainsFunc(string(text), IsHidden)
}

// IsHidden reports whether names must not contain r, by the tables of package unicode: control
// characters, separators, and what Unicode calls Default_Ignorable_Code_Point (UAX 44, derivation
// in DerivedCoreProperties.txt), with the format characters that Unicode excludes there, except
// those that are drawn.
func IsHidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		unicode.In(r, unicode.Cf) && !unicode.In(r, unicode.Prepended_Concatenation_Mark)
}

// isSequenceName reports whether a name is one of a sequence.
func (m *Image) isSequenceName(name uint32) bool {
	return m.isName(name) && !strings.ContainsFunc(string(m.Name(name)), func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsGraphic(r) || unicode.IsSpace(r)
	})
}

func (m *Image) isDevice(i int) bool {
	d := &m.Devices[i]
	return d.Reserved == 0 && hasRightVectors(d) && m.isName(d.Board)
}

func hasRightVectors(d *Device) bool {
	switch d.Interrupts {
	case 0:
		return d.Vectors == 0
	case 1: // MSI
		return slices.Contains([]uint16{1, 2, 4, 8, 16, 32}, d.Vectors)
	case 2: // MSI-X
		return d.Vectors >= 1 && d.Vectors <= 2048
	}
	return false
}

// knownBoard returns the board with the ids of a device, nil if no board has them.
func (m *Image) knownBoard(device uint8) *boards.Board {
	for _, b := range boards.All {
		if b.Vendor == m.Devices[device].Vendor && b.Device == m.Devices[device].Device {
			return b
		}
	}
	return nil
}

func (m *Image) isRule(i int) bool {
	r := &m.Rules[i]
	if int(r.Device) >= len(m.Devices) || m.knownBoard(r.Device) != nil || r.Bar > 5 {
		return false
	}
	if r.First > r.Last || r.Last >= m.Devices[r.Device].Bars[r.Bar] {
		return false
	}
	least := uint64(1)
	for r.Widths != 0 && uint64(r.Widths)&least == 0 {
		least *= 2
	}
	if r.Widths == 0 || r.Widths > 15 || r.Memory > 1 || r.First%least != 0 ||
		(r.Last+1)%least != 0 {
		return false
	}
	if i > 0 {
		before := &m.Rules[i-1]
		sameBar := r.Device == before.Device && r.Bar == before.Bar
		later := r.Device > before.Device || r.Device == before.Device && r.Bar > before.Bar
		if !later && !(sameBar && r.First > before.Last) {
			return false
		}
	}
	return m.isName(r.Name)
}

func (m *Image) isWindow(i int) bool {
	w := &m.Windows[i]
	if int(w.Device) >= len(m.Devices) || w.Flags > 3 || w.Reserved != 0 || w.Size == 0 ||
		w.Size > 1<<32 || w.Kind != kindTlb && w.Slot != 0xffff {
		return false
	}
	if w.Flags&flagFixedBus != 0 {
		return w.Kind == kindHost && w.Bar == 0 && m.isFixedBus(i)
	}
	if w.Kind != kindBar && (w.Bar != 0 || w.Offset != 0) {
		return false
	}
	switch w.Kind {
	case kindBar:
		if w.Bar > 5 {
			return false
		}
		bar := m.Devices[w.Device].Bars[w.Bar]
		return w.Offset <= bar && w.Size <= bar-w.Offset
	case kindTlb:
		return w.Size&(w.Size-1) == 0
	case kindHost:
		return true
	case kindConfig:
		return w.Size == 256 || w.Size == 4096
	}
	return false
}

// isFixedBus reports whether a Host window may have the bus address that is its offset.
func (m *Image) isFixedBus(i int) bool {
	w := &m.Windows[i]
	end := w.Offset + roundUp(w.Size, page)
	if w.Offset == 0 || w.Offset%page != 0 || end < w.Offset || end == 0 {
		return false
	}
	for _, before := range m.Windows[:i] {
		if before.Flags&flagFixedBus != 0 && before.Device == w.Device &&
			w.Offset < before.Offset+roundUp(before.Size, page) {
			return false
		}
	}
	return true
}

func (m *Image) isSequence(i int) bool {
	s := &m.Sequences[i]
	next := uint64(0)
	for _, before := range m.Sequences[:i] {
		next += uint64(before.Count)
	}
	end, all := next+uint64(s.Count), uint64(len(m.Commands))
	if uint64(s.First) != next || s.Count == 0 || end > all {
		return false
	}
	if i == len(m.Sequences)-1 && end != all {
		return false
	}
	return m.Commands[end-1].Opcode == opEnd && m.isSequenceName(s.Name)
}

func (m *Image) isSegment(i int) bool {
	s := &m.Segments[i]
	start := roundUp(m.envelope, page)
	for _, before := range m.Segments[:i] {
		start += before.Size
	}
	isLast := i == len(m.Segments)-1
	return s.Size != 0 && s.Size <= bytesMost && s.Offset <= bytesMost &&
		(isLast || s.Size%page == 0) && s.Offset == start && s.ReservedSum == 0
}

func (m *Image) payloadBytes() (sum uint64) {
	for _, s := range m.Segments {
		sum += s.Size
	}
	return sum
}

// elementBytes has the size of each element type, in the order of enum DType.
var elementBytes = [...]uint64{0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8}

func (m *Image) isTensor(i int) bool {
	t := &m.Tensors[i]
	if !m.isName(t.Name) || t.Role < roleInput || t.Role > roleScratch ||
		int(t.DType) >= len(elementBytes) || t.Dims > 8 || t.HasData > 1 {
		return false
	}
	size := elementBytes[t.DType]
	for n, dimension := range t.Shape {
		if n >= int(t.Dims) {
			if dimension != 0 {
				return false
			}
			continue
		}
		if dimension == 0 || size > bytesMost/uint64(dimension) {
			return false
		}
		size *= uint64(dimension)
	}
	if size == 0 || t.Size != size || t.ArenaOffset != m.arenaBytes(i) ||
		t.ArenaOffset > bytesMost {
		return false
	}
	if t.Role == roleScratch && (t.HasData != 0 || m.scratchBytes(i+1) > scratchMost) {
		return false
	}
	if t.Role == roleScratch && i > 0 && m.Tensors[i-1].Role != roleScratch {
		return false
	}
	if t.HasData == 0 {
		return t.DataOffset == 0
	}
	return isInside(t.DataOffset, t.Size, m.payloadBytes())
}

// arenaBytes returns the size of the arena for the first tensors.
func (m *Image) arenaBytes(tensors int) uint64 {
	if tensors == 0 {
		return 0
	}
	last := &m.Tensors[tensors-1]
	return roundUp(last.ArenaOffset+last.Size, 64)
}

// scratchBytes returns the size of the arena for the scratch among the first tensors.
func (m *Image) scratchBytes(tensors int) (sum uint64) {
	for _, t := range m.Tensors[:tensors] {
		if t.Role == roleScratch {
			sum += roundUp(t.Size, 64)
		}
	}
	return sum
}

// isInside reports whether a range lies inside a range of `all` bytes.
func isInside(offset, size, all uint64) bool { return offset <= all && size <= all-offset }

func (m *Image) hasRightSums() bool {
	host := uint64(0)
	for _, w := range m.Windows {
		if w.Kind == kindHost {
			host += roundUp(w.Size, page)
		}
	}
	r := &m.Reservation
	arena := m.arenaBytes(len(m.Tensors))
	return r.Host == host && r.Payload == m.payloadBytes() && r.Arena == arena
}

// checkPayload checks step 6 of section 1.2, except the checksum of the envelope.
func (m *Image) checkPayload() *Fault {
	start, size := m.envelope, uint64(len(m.file))
	if len(m.Segments) > 0 {
		start = roundUp(start, page)
	}
	if start > size || m.Reservation.Payload != size-start || !isZero(m.file[m.envelope:start]) {
		return badImage("payload")
	}
	m.Payload = m.file[start:]
	rest := m.Payload
	for i, s := range m.Segments {
		if sumOf(rest[:s.Size]) != s.Sum {
			return badImage(fmt.Sprint("segment ", i))
		}
		rest = rest[s.Size:]
	}
	return nil
}
