package oracle

// This file checks the commands of an image (FORMAT.md section 6).

import (
	"encoding/binary"
	"fmt"

	"lightmetal/boards"
)

// Sets of kinds of windows.
const (
	barTlbHost = 1<<kindBar | 1<<kindTlb | 1<<kindHost
	anyKind    = barTlbHost | 1<<kindConfig
	onlyTlb    = 1 << kindTlb
)

// row is a row of the table of commands in FORMAT.md section 6.
type row struct {
	widths  uint8  // accepted widths, ORed; 0: the field is empty
	modes   []int  // accepted modes; nil: the field is empty
	options []int  // accepted options; nil: the field is empty
	kinds   int    // accepted kinds of windows; 0: the field is empty
	index   string // meaning of index; "": the field is empty
	offset  bool   // the command has an offset
	amount  string // meaning of amount; "": the field is empty
	value   string // meaning of value; "": the field is empty
	mask    string // meaning of mask; "": the field is empty
	stores  bool   // the command stores
}

var (
	copyModes = []int{modeExact, modeFixed, modeBulk}
	policies  = []int{optionFail, optionIgnore}
)

var rows = map[uint8]row{
	opWrite: {widths: 15, kinds: barTlbHost, offset: true, value: "datum", stores: true},
	opModify: {widths: 15, kinds: barTlbHost, offset: true, value: "in mask", mask: "not 0",
		stores: true},
	opRelocate: {widths: 4 | 8, kinds: barTlbHost, index: "bus", offset: true, value: "addend",
		stores: true},
	opCopyIn: {widths: 15, modes: copyModes, kinds: barTlbHost, index: "source", offset: true,
		amount: "bytes", value: "data", stores: true},
	opFill: {widths: 15, modes: []int{modeExact, modeFixed}, kinds: barTlbHost, offset: true,
		amount: "bytes", value: "datum", stores: true},
	opCopyOut: {widths: 15, modes: copyModes, kinds: barTlbHost, index: "output", offset: true,
		amount: "bytes", value: "data"},
	opExpect: {widths: 15, modes: []int{modeEqual, modeNotEqual, modeReached}, options: policies,
		kinds: anyKind, index: "interval", offset: true, amount: "deadline", value: "in mask",
		mask: "any"},
	opCompare: {widths: 15, options: policies, kinds: barTlbHost, index: "source", offset: true,
		amount: "bytes", value: "data"},
	opPoint: {kinds: onlyTlb, value: "address", mask: "tiles"},
	opFence: {},
	opDelay: {amount: "delay"},
	opCall:  {index: "sequence"},
	opEnd:   {},

	opAdvance: {index: "ring", value: "step"},
	opReset:   {index: "ring"},
	opWith: {modes: []int{placeValue, placeOffset}, index: "ring", amount: "shift",
		mask: "parity"},
}

func (m *Image) checkCommands() *Fault {
	calls, called := map[int]bool{}, map[int]bool{}
	for s, sequence := range m.Sequences {
		pointed, loaded := map[uint16]bool{}, map[scratchByte]uint8{}
		advanced := map[uint16]uint64{}
		for i := sequence.First; i < sequence.First+sequence.Count; i++ {
			c := &m.Commands[i]
			isLast := i == sequence.First+sequence.Count-1
			isRight := func(c *Command) bool {
				return m.isCommand(c, pointed) && m.isRightScratch(c, loaded)
			}
			if isLast != (c.Opcode == opEnd) || !isRight(c) ||
				c.Opcode == opWith && !m.isRightWith(int(i), advanced, isRight) {
				return badImage(fmt.Sprint("command ", i))
			}
			switch c.Opcode {
			case opAdvance:
				advanced[c.Index] = c.Value
			case opReset:
				delete(advanced, c.Index)
			case opPoint:
				pointed[c.Window] = true
			case opCall:
				calls[s], called[int(c.Index)] = true, true
				clear(pointed)
				clear(loaded)
				clear(advanced)
			}
		}
	}
	for s := range m.Sequences {
		if calls[s] && called[s] {
			return badImage(fmt.Sprint("sequence ", s))
		}
	}
	m.addTimes()
	return m.checkRings()
}

// scratchByte is the number of a tensor, and a byte of it.
type scratchByte struct {
	tensor uint16
	at     uint64
}

// isRightScratch checks a command that may copy to or from scratch (section 4). The map has the
// device from which each byte was loaded.
func (m *Image) isRightScratch(c *Command, loaded map[scratchByte]uint8) bool {
	if c.Opcode != opCopyIn && c.Opcode != opCopyOut || c.Index == 0 ||
		m.Tensors[c.Index-1].Role != roleScratch {
		return true
	}
	if c.Mode != modeExact || c.Amount != uint32(c.Width) {
		return false
	}
	device := m.Windows[c.Window].Device
	for n := range uint64(c.Amount) {
		b := scratchByte{c.Index, c.Value + n}
		if c.Opcode == opCopyOut {
			loaded[b] = device
		} else if from, ok := loaded[b]; !ok || from != device {
			return false
		}
	}
	return true
}

// acceptsValue reports whether a list of accepted values contains n. A nil list accepts only 0.
func acceptsValue(list []int, n uint8) bool {
	for _, element := range list {
		if element == int(n) {
			return true
		}
	}
	return list == nil && n == 0
}

func (m *Image) isCommand(c *Command, pointed map[uint16]bool) bool {
	r, known := rows[c.Opcode]
	if !known || !acceptsValue(r.modes, c.Mode) || !acceptsValue(r.options, c.Option) {
		return false
	}
	if r.widths == 0 && c.Width != 0 || r.kinds == 0 && c.Window != 0 ||
		r.index == "" && c.Index != 0 || !r.offset && c.Offset != 0 ||
		r.amount == "" && c.Amount != 0 || r.value == "" && c.Value != 0 ||
		r.mask == "" && c.Mask != 0 {
		return false
	}
	if r.widths != 0 && (c.Width&(c.Width-1) != 0 || c.Width&r.widths == 0) {
		return false
	}
	if r.kinds != 0 && (int(c.Window) >= len(m.Windows) ||
		r.kinds>>m.Windows[c.Window].Kind&1 == 0) {
		return false
	}
	return m.hasRightAmount(r, c) && m.hasRightValue(r, c) && m.hasRightIndex(r, c) &&
		(!r.offset || m.isAllowedAccess(r, c, pointed))
}

func (m *Image) hasRightAmount(r row, c *Command) bool {
	switch r.amount {
	case "bytes":
		return c.Amount != 0
	case "deadline":
		return c.Amount != 0 || c.Index == 0
	case "shift":
		return c.Amount < 64
	case "delay":
		return c.Amount >= 1 && c.Amount <= 10_000_000
	}
	return true
}

// widthBits returns the largest value of a width, all bits if the command has none.
func widthBits(width uint8) uint64 {
	if width == 0 {
		return ^uint64(0)
	}
	return 1<<(8*width-1)<<1 - 1
}

func (m *Image) hasRightValue(r row, c *Command) bool {
	bits := widthBits(c.Width)
	switch r.value {
	case "datum", "addend":
		if c.Value&^bits != 0 {
			return false
		}
	case "in mask":
		if c.Value&^c.Mask != 0 || c.Mask&^bits != 0 || r.mask == "not 0" && c.Mask == 0 {
			return false
		}
		if c.Opcode == opExpect && c.Mode == modeReached {
			return c.Mask != 0 && c.Mask&(c.Mask+1) == 0
		}
	case "address":
		w := &m.Windows[c.Window]
		return c.Value%w.Size == 0 && m.isAllowedPoint(w, c)
	}
	return true
}

func (m *Image) hasRightIndex(r row, c *Command) bool {
	size := m.payloadBytes()
	switch r.index {
	case "sequence":
		return int(c.Index) < len(m.Sequences)
	case "ring":
		if int(c.Index) >= len(m.Rings) {
			return false
		}
		r := &m.Rings[c.Index]
		return c.Opcode != opAdvance || c.Value >= 1 && c.Value <= r.End-r.Begin
	case "bus":
		if int(c.Index) >= len(m.Windows) {
			return false
		}
		w := &m.Windows[c.Index]
		return (c.Value < w.Size || c.Value == w.Size && w.Kind == kindHost) && m.hasBusAddress(w)
	case "source":
		if c.Index == 0 {
			return isInside(c.Value, uint64(c.Amount), size)
		}
		return m.isInTensor(c, roleInput, c.Opcode == opCopyIn)
	case "output":
		return c.Index != 0 && m.isInTensor(c, roleOutput, true)
	}
	return true
}

func (m *Image) isInTensor(c *Command, role uint8, orScratch bool) bool {
	if int(c.Index) > len(m.Tensors) {
		return false
	}
	t := &m.Tensors[c.Index-1]
	return (t.Role == role || orScratch && t.Role == roleScratch) &&
		isInside(c.Value, uint64(c.Amount), t.Size)
}

// hasBusAddress reports whether a Relocate may add the bus address of a window.
func (m *Image) hasBusAddress(w *Window) bool {
	if w.Kind == kindHost {
		return true
	}
	if w.Kind != kindBar {
		return false
	}
	first, last := w.Offset/page*page, (w.Offset+w.Size-1)/page*page+page-1
	// Rules are ranges, so the first byte without a rule is `first` or follows the end of a rule.
	candidates := []uint64{first, m.Devices[w.Device].Bars[w.Bar]}
	if board := m.knownBoard(w.Device); board != nil {
		for _, r := range board.Rules {
			candidates = append(candidates, r.First, r.Last+1)
		}
	}
	for _, r := range m.Rules {
		candidates = append(candidates, r.Last+1)
	}
	for _, offset := range candidates {
		if offset >= first && offset <= last && !m.acceptsStore(w, offset) {
			return false
		}
	}
	return true
}

// acceptsStore reports whether a byte of the BAR of a window accepts stores of any width.
func (m *Image) acceptsStore(w *Window, offset uint64) bool {
	if offset >= m.Devices[w.Device].Bars[w.Bar] {
		return false
	}
	if board := m.knownBoard(w.Device); board != nil {
		for _, r := range board.Rules {
			if r.Bar == w.Bar && r.First <= offset && offset <= r.Last {
				return !r.LoadOnly
			}
		}
		return false
	}
	for _, r := range m.Rules {
		if r.Device == w.Device && r.Bar == w.Bar && r.First <= offset && offset <= r.Last {
			return true
		}
	}
	return false
}

// isAllowedAccess checks section 6.1, and the rule of section 5 on Tlb windows.
func (m *Image) isAllowedAccess(r row, c *Command, pointed map[uint16]bool) bool {
	w := &m.Windows[c.Window]
	hasBytes := r.amount == "bytes"
	isBulk := hasBytes && r.modes != nil && c.Mode == modeBulk
	isFixed := hasBytes && r.modes != nil && c.Mode == modeFixed
	size := uint64(c.Width)
	if hasBytes && !isFixed {
		size = uint64(c.Amount)
	}
	if !isInside(uint64(c.Offset), size, w.Size) || w.Kind == kindTlb && !pointed[c.Window] {
		return false
	}
	width := uint64(c.Width)
	isAligned := uint64(c.Offset)%width == 0 && w.Offset%width == 0 &&
		(!hasBytes || uint64(c.Amount)%width == 0)
	if !isBulk && !isAligned {
		return false
	}
	switch w.Kind {
	case kindConfig:
		return c.Width <= 4
	case kindBar:
		return m.isAllowedByRule(w, c, size, isBulk, r.stores)
	}
	return true
}

// isAllowedByRule checks an access of `size` bytes to a Bar window.
func (m *Image) isAllowedByRule(w *Window, c *Command, size uint64, isBulk, isStore bool) bool {
	first := w.Offset + uint64(c.Offset)
	last := first + size - 1
	allows := func(lastOfRule uint64, widths uint8, memory, loadOnly bool) bool {
		return last <= lastOfRule && widths&c.Width != 0 && (!isBulk || memory && widths == 15) &&
			(w.Flags&flagWriteCombining == 0 || memory) && !(isStore && loadOnly)
	}
	if board := m.knownBoard(w.Device); board != nil {
		for _, r := range board.Rules {
			if r.Bar == w.Bar && r.First <= first && first <= r.Last {
				return allows(r.Last, r.Widths, r.IsMemory, r.LoadOnly)
			}
		}
		return false
	}
	for _, r := range m.Rules {
		if r.Device == w.Device && r.Bar == w.Bar && r.First <= first && first <= r.Last {
			return allows(r.Last, r.Widths, r.Memory == 1, false)
		}
	}
	return false
}

// tiles is the packed tile range of a Point.
type tiles struct{ X, Y, XStart, YStart, NoC, Ordering, StaticVC, Multicast uint8 }

func unpackTiles(mask uint64) (t tiles) {
	_, _ = binary.Decode(binary.LittleEndian.AppendUint64(nil, mask), binary.LittleEndian, &t)
	return t
}

func (t *tiles) isValid() bool {
	return t.NoC <= 1 && t.Ordering >= 1 && t.Ordering <= 3 && t.StaticVC <= 8 &&
		t.Multicast <= 1 && (t.Multicast == 1 || t.XStart == 0 && t.YStart == 0)
}

// coordinates returns the coordinates from start to end, or every one if start is larger.
func coordinates(start, end uint8) (list []uint8) {
	for n := range uint8(64) {
		if start > end || n >= start && n <= end {
			list = append(list, n)
		}
	}
	return list
}

func (m *Image) isAllowedPoint(w *Window, c *Command) bool {
	t := unpackTiles(c.Mask)
	if !t.isValid() {
		return false
	}
	board := m.knownBoard(w.Device)
	if board == nil {
		return true
	}
	xs, ys := []uint8{t.X}, []uint8{t.Y}
	if t.Multicast == 1 {
		xs, ys = coordinates(t.XStart, t.X), coordinates(t.YStart, t.Y)
	}
	for i := range board.ForbiddenRanges {
		if isForbidden(&board.ForbiddenRanges[i], t, xs, ys, c.Value, c.Value+(w.Size-1)) {
			return false
		}
	}
	return true
}

// isForbidden reports whether f forbids the Point: f has the route of t, at least one of the
// columns xs, at least one of the rows ys, and overlaps the bytes first to last.
func isForbidden(f *boards.ForbiddenRange, t tiles, xs, ys []uint8, first, last uint64) bool {
	route := t.NoC + 2*t.Multicast
	if f.Routes>>route&1 == 0 || last < f.First || first > f.Last {
		return false
	}
	containsOne := func(set uint64, list []uint8) bool {
		for _, n := range list {
			if n < 64 && set>>n&1 == 1 {
				return true
			}
		}
		return false
	}
	return containsOne(f.Columns, xs) && containsOne(f.Rows, ys)
}

// addTimes computes the longest time of each sequence (section 6.3).
func (m *Image) addTimes() {
	const most = 1 << 62
	m.LongestUs = make([]uint64, len(m.Sequences))
	own := make([]uint64, len(m.Sequences))
	for s, sequence := range m.Sequences {
		for _, c := range m.Commands[sequence.First:][:sequence.Count] {
			own[s] += m.timeOf(&c)
		}
	}
	for s, sequence := range m.Sequences {
		m.LongestUs[s] = own[s]
		for _, c := range m.Commands[sequence.First:][:sequence.Count] {
			if c.Opcode == opCall {
				m.LongestUs[s] = min(m.LongestUs[s]+own[c.Index], most)
			}
		}
	}
}

func (m *Image) timeOf(c *Command) (us uint64) {
	us = 1
	switch c.Opcode {
	case opWrite, opRelocate:
		us++
	case opModify:
		us += 2 + 10
	case opCopyIn, opFill, opCopyOut, opCompare:
		us += (uint64(c.Amount) + uint64(c.Width) - 1) / uint64(c.Width)
		if c.Opcode == opCopyOut {
			us += 10
		}
	case opExpect:
		us += 1 + 10 + uint64(c.Amount)
	case opPoint:
		us += 4
	case opDelay:
		us += uint64(c.Amount)
	}
	if (c.Opcode == opExpect || c.Opcode == opCompare) && c.Option == optionIgnore {
		us += 10 * uint64(len(m.Devices))
	}
	return us
}
