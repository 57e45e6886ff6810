package a64

import "fmt"

// bulk is a copy or a set of FEAT_MOPS: one of three instructions, prologue,
// main and epilogue, that follow each other with the same registers. Each may
// move any part of the bytes. What a prologue leaves in the registers is of one
// of two formats, which the processor chooses (State.OptionB):
//
//	option A: size is minus what is left, and the addresses are those of the
//	ends; a backward copy has the lowest addresses and a size above 0; C is 0
//	option B: size is what is left, and the addresses are those of the next
//	byte, in a backward copy of the last moved one; C is 1, N 1 if backward
type bulk struct {
	stage       stage
	set         bool
	forwardOnly bool // CPYF

	to, from, size uint8 // registers; of a set, from is the data
}

type stage uint8

const (
	prologue stage = iota
	mainPart
	epilogue
)

// The class "Memory Copy and Memory Set" of C4.1.94. Bits 15 to 12 choose among
// unprivileged and streaming accesses, which are the same ones in a program, and
// for sets, in bits 15 and 14, the stage.
const (
	bulkMask  = 0xfb200c00
	bulkValue = 0x19000400
)

// bulkPatterns are its rows: bits 26 (o0), 23 and 22 (op1), 15 and 14 of sets
// (op2). A name is the section in C6.2 of the Arm ARM (DDI 0487).
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
			return nil, p.name + ": its three registers must differ, and only the data register " +
				"of a SET may be XZR"
		}
		return &b, ""
	}
	if bits(code, 31, 22) == 0x077 { // o0 1, op1 3
		return nil, "SETG: tags are not recorded; boot the kernel with arm64.nomops"
	}
	return nil, "not known to the recorder"
}

// part is what a copy or a set has left to move: addresses are the lowest ones.
type part struct {
	to, from, left uint64
	backward       bool
}

const (
	flagN     = 1 << 31
	flagC     = 1 << 29
	flagsNZCV = 0xf << 28

	copyLimit = 1<<55 - 1 // the largest copy (CPY), and the bits of addresses in comparisons
	bulkLimit = 1<<63 - 1 // the largest one of CPYF and SET
)

// remaining reads from the registers what is left to move. ok is false if their
// format is that of no stage.
func (m *machine) remaining() (p part, ok bool) {
	b := m.bulk
	p = part{to: m.X[b.to], left: m.X[b.size]}
	if !b.set {
		p.from = m.X[b.from]
	}
	switch {
	case b.stage == prologue:
		p.left = min(p.left, bulkLimit)
		if !b.set && !b.forwardOnly {
			p.left = min(p.left, copyLimit)
			p.backward = startsBelow(p.from, p.to, p.left)
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

// startsBelow reports whether a source begins below the destination and reaches
// into it, so that CPY must copy backward. Where they do not overlap a processor
// may choose, and here copies forward. Bits 63 to 56 may be tags.
func startsBelow(from, to, size uint64) bool {
	const address = 1<<56 - 1
	from, to = from&address, to&address
	return from < to && from+size > to
}

// save writes to the registers what is left to move, for the stage that comes
// next: the same one, or the main part after the prologue.
func (m *machine) save(p part) {
	if optionB := m.Flags&flagC != 0; optionB == p.backward {
		p.to, p.from = p.to+p.left, p.from+p.left
	}
	if !p.backward && m.Flags&flagC == 0 {
		p.left = -p.left
	}
	m.saveOperands(p)
}

// saveOperands writes to the registers the operands of a copy or a set of what is
// left to move, as a prologue has them that is to be executed again.
func (m *machine) saveOperands(p part) {
	b := m.bulk
	m.X[b.to], m.X[b.size] = p.to, p.left
	if !b.set {
		m.X[b.from] = p.from
	}
}

// setFormat sets the flags that a prologue ends with.
func (m *machine) setFormat(backward bool) {
	m.Flags &^= flagsNZCV
	if m.OptionB() {
		m.Flags |= flagC
		if backward {
			m.Flags |= flagN
		}
	}
}

// bulkPart is how many bytes are moved, with those of the last access, before the
// program goes on and faults again: signals, other threads and the recorder's
// limit come between.
const bulkPart = 4096

// moveBulk executes a stage of a copy or a set. It moves all that is left, up to
// bulkPart, so that the next stages, executed by the processor, have nothing to
// do or fault again. A prologue whose memory fails has not happened but for what
// it moved.
func (m *machine) moveBulk(fault uint64) error {
	p, ok := m.remaining()
	if !ok {
		size := m.X[m.bulk.size]
		return &Refusal{m.code, fmt.Sprintf("size register %#x has no format of this stage", size)}
	}
	if fault-p.to >= p.left && (m.bulk.set || fault-p.from >= p.left) {
		return m.refuseOperand(p.left, p.to, fault)
	}
	var err error
	moved := uint64(0)
	for p.left > 0 && moved < bulkPart && err == nil {
		width := m.bulkWidth(p)
		if err = m.movePiece(p, width); err == nil {
			moved += width
			p.advance(width)
		}
	}
	switch {
	case m.bulk.stage == prologue && err == nil:
		m.setFormat(p.backward)
		m.save(p)
		return nil
	case m.bulk.stage == prologue && moved > 0:
		m.saveOperands(p)
	case moved > 0:
		m.save(p)
	}
	m.unfinished = p.left > 0
	return err
}

// advance leaves out bytes that have been moved.
func (p *part) advance(bytes uint64) {
	p.left -= bytes
	if !p.backward {
		p.to, p.from = p.to+bytes, p.from+bytes
	}
}

// bulkWidth returns the width of the next access: the widest one that what is
// left has and to which both addresses are aligned, as far as it is a device's.
// The architecture leaves it open.
func (m *machine) bulkWidth(p part) uint64 {
	width := uint64(pieceWidth(0, int(min(p.left, widest))))
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

// movePiece moves the first bytes of what is left, or the last ones.
func (m *machine) movePiece(p part, width uint64) error {
	if p.backward {
		p.to, p.from = p.to+p.left-width, p.from+p.left-width
	}
	var buffer [widest]byte
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
