package a64

import "fmt"

// bulk is an instruction of a copy or a set of FEAT_MOPS. A copy or a set consists of three
// instructions with the same registers: prologue, main and epilogue. Each of them may move any part
// of the bytes. The prologue leaves the registers in one of two formats, which the processor
// chooses (State.OptionB):
//
//	option A: size is minus the number of remaining bytes, and the addresses are
//	the ends; a backward copy has the lowest addresses and a size above 0; C is 0
//	option B: size is the number of remaining bytes, and the addresses are those of
//	the next byte, in a backward copy of the last moved byte; C is 1, N 1 if backward
type bulk struct {
	stage       stage
	set         bool
	forwardOnly bool // CPYF

	to, from, size uint8 // numbers of the registers; for a set, from is the data register
}

type stage uint8

const (
	prologue stage = iota
	mainPart
	epilogue
)

// The class "Memory Copy and Memory Set" of C4.1.94. Bits 15 to 12 select unprivileged and
// streaming accesses, which are ordinary accesses in a program. For sets, bits 15 and 14 select the
// stage instead.
const (
	bulkMask  = 0xfb200c00
	bulkValue = 0x19000400
)

// bulkPatterns are the rows of this class, by bits 26 (o0), 23 and 22 (op1), and for sets 15 and 14
// (op2). A name is the title of a section in C6.2 of the Arm ARM (DDI 0487).
var bulkPatterns = []struct {
	mask, value uint32
	name        string
	bulk        bulk
}{
	{0xffe00c00, 0x19000400, "CPYFP", bulk{stage: prologue, forwardOnly: true}},
	{0xffe00c00, 0x19400400, "CPYFM", bulk{stage: mainPart, forwardOnly: true}},
	{0xffe00c00, 0x19800400, "CPYFE", bulk{stage: epilogue, forwardOnly: true}},
	{0xffe0cc00, 0x19c00400, "SETP", bulk{stage: prologue, set: true}},
	{0xffe0cc00, 0x19c04400, "SETM", bulk{stage: mainPart, set: true}},
	{0xffe0cc00, 0x19c08400, "SETE", bulk{stage: epilogue, set: true}},
	{0xffe00c00, 0x1d000400, "CPYP", bulk{stage: prologue}},
	{0xffe00c00, 0x1d400400, "CPYM", bulk{stage: mainPart}},
	{0xffe00c00, 0x1d800400, "CPYE", bulk{stage: epilogue}},
}

// decodeBulk decodes a copy or a set, or returns a reason to refuse it.
func decodeBulk(code uint32) (*bulk, string) {
	for _, p := range bulkPatterns {
		if code&p.mask != p.value {
			continue
		}
		b := p.bulk
		b.to, b.from = uint8(bits(code, 4, 0)), uint8(bits(code, 20, 16))
		b.size = uint8(bits(code, 9, 5))
		if b.to == b.from || b.to == b.size || b.from == b.size ||
			b.to == 31 || b.size == 31 || b.from == 31 && !b.set {
			return nil, p.name + ": its three registers must differ, " +
				"and only the data register of a SET may be XZR"
		}
		return &b, ""
	}
	if bits(code, 31, 22) == 0x077 { // o0 1, op1 3
		return nil, "SETG: memory tags are not recorded; boot the kernel with arm64.nomops"
	}
	return nil, "unknown instruction"
}

// remainder describes the bytes that a copy or a set has not moved yet, by their lowest addresses.
type remainder struct {
	to, from, left uint64
	backward       bool
}

const (
	flagN     = 1 << 31
	flagC     = 1 << 29
	flagsNZCV = 0xf << 28

	copyLimit = 1<<55 - 1 // largest size of CPY, and mask of the address bits that are compared
	bulkLimit = 1<<63 - 1 // largest size of CPYF and SET
)

// remaining returns the bytes that remain according to the registers. ok is false if the registers
// have no valid format for the stage.
func (m *machine) remaining() (p remainder, ok bool) {
	b := m.bulk
	p = remainder{to: m.X[b.to], left: m.X[b.size]}
	if !b.set {
		p.from = m.X[b.from]
	}
	switch {
	case b.stage == prologue:
		p.left = min(p.left, bulkLimit)
		if !b.set && !b.forwardOnly {
			p.left = min(p.left, copyLimit)
			p.backward = mustCopyBackward(p.from, p.to, p.left)
		}
	case m.Flags&flagC != 0: // option B
		if m.Flags&flagN != 0 {
			p.backward = true
			p.to, p.from = p.to-p.left, p.from-p.left
		}
	case p.left > bulkLimit: // option A, forward
		p.to, p.from = p.to+p.left, p.from+p.left
		p.left = -p.left
	default:
		p.backward = true
	}
	return p, !p.backward || !b.set && !b.forwardOnly || p.left == 0
}

// mustCopyBackward reports whether the source begins below the destination and overlaps it, so that
// CPY must copy backward. If they do not overlap, a processor may choose the direction, and this
// package copies forward. Bits 63 to 56 of an address may be a tag.
func mustCopyBackward(from, to, size uint64) bool {
	const address = 1<<56 - 1
	from, to = from&address, to&address
	return from < to && from+size > to
}

// saveProgress writes the remaining bytes to the registers, in the format for the next instruction:
// the same one, or the main part after the prologue.
func (m *machine) saveProgress(p remainder) {
	if optionB := m.Flags&flagC != 0; optionB == p.backward {
		p.to, p.from = p.to+p.left, p.from+p.left
	}
	if !p.backward && m.Flags&flagC == 0 {
		p.left = -p.left
	}
	m.saveOperands(p)
}

// saveOperands writes the remaining bytes to the registers as operands of a prologue, which is
// executed again.
func (m *machine) saveOperands(p remainder) {
	b := m.bulk
	m.X[b.to], m.X[b.size] = p.to, p.left
	if !b.set {
		m.X[b.from] = p.from
	}
}

// setFormat sets the flags with which a prologue ends.
func (m *machine) setFormat(backward bool) {
	m.Flags &^= flagsNZCV
	if m.OptionB() {
		m.Flags |= flagC
		if backward {
			m.Flags |= flagN
		}
	}
}

// bulkPartSize is the number of bytes after which the program continues and faults again, so that
// signals, other threads and the limits of the recorder take effect. The last access may exceed it.
const bulkPartSize = 4096

// moveBulk executes a stage of a copy or a set. It moves all remaining bytes, up to bulkPartSize.
// The processor executes the next stages: they have nothing to do, or fault again. If the memory
// fails during a prologue, the registers are still the operands of the prologue, reduced by the
// moved bytes.
func (m *machine) moveBulk(fault uint64) error {
	p, ok := m.remaining()
	if !ok {
		size := m.X[m.bulk.size]
		return &Refusal{m.code, fmt.Sprintf("the size register contains %#x, "+
			"which is not valid for this stage (prologue, main or epilogue)", size)}
	}
	if fault-p.to >= p.left && (m.bulk.set || fault-p.from >= p.left) {
		return m.refuseOperand(p.left, p.to, fault)
	}
	var err error
	moved := uint64(0)
	for p.left > 0 && moved < bulkPartSize && err == nil {
		width := m.bulkWidth(p)
		if err = m.movePiece(p, width); err == nil {
			moved += width
			p.advance(width)
		}
	}
	switch {
	case m.bulk.stage == prologue && err == nil:
		m.setFormat(p.backward)
		m.saveProgress(p)
		return nil
	case m.bulk.stage == prologue && moved > 0:
		m.saveOperands(p)
	case moved > 0:
		m.saveProgress(p)
	}
	m.unfinished = p.left > 0
	return err
}

// advance removes moved bytes from the remainder.
func (p *remainder) advance(bytes uint64) {
	p.left -= bytes
	if !p.backward {
		p.to, p.from = p.to+bytes, p.from+bytes
	}
}

// bulkWidth returns the width of the next access, which the architecture does not specify. It is
// the largest width for which the remaining bytes suffice, and to which the addresses that belong
// to a device are aligned.
func (m *machine) bulkWidth(p remainder) uint64 {
	width := uint64(pieceWidth(0, int(min(p.left, widestAccess))))
	fits := func(at uint64) bool {
		if p.backward {
			at += p.left - width
		}
		return at%width == 0 || !m.memory.IsDevice(at) && !m.memory.IsDevice(at+width-1)
	}
	for !fits(p.to) || !m.bulk.set && !fits(p.from) {
		width /= 2
	}
	return width
}

// movePiece moves the first `width` of the remaining bytes, or the last ones in a backward copy.
func (m *machine) movePiece(p remainder, width uint64) error {
	if p.backward {
		p.to, p.from = p.to+p.left-width, p.from+p.left-width
	}
	var buffer [widestAccess]byte
	data := buffer[:width]
	if m.bulk.set {
		for i := range data {
			data[i] = byte(m.x(m.bulk.from))
		}
	} else if err := m.memory.Load(p.from, data); err != nil {
		return err
	}
	return m.memory.Store(p.to, data)
}
