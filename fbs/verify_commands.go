package fbs

import (
	"math"
	"unsafe"

	"lightmetal/fbs/gen"
)

// DelayMaxUs is the longest Delay.
const DelayMaxUs = 10_000_000

// checker carries what is known while the commands of an image are checked in
// order.
type checker struct {
	view     *View
	sequence int
	pointed  []bool // Tlb windows aimed so far in this sequence
	calls    []bool // sequences that hold a Call
	called   []bool // sequences that some Call names
	filled   []bool // tensors that some CopyOut writes
}

// verifyCommands checks every command, so that the loop that carries them out
// need not check anything again.
func (v *View) verifyCommands() error {
	c := checker{
		view:    v,
		pointed: make([]bool, len(v.Windows)),
		calls:   make([]bool, len(v.Sequences)),
		called:  make([]bool, len(v.Sequences)),
		filled:  make([]bool, len(v.Tensors)),
	}
	for i := range v.Sequences {
		if err := c.verifySequence(i); err != nil {
			return err
		}
	}
	for i := range v.Sequences {
		if c.calls[i] && c.called[i] {
			return &Error{"sequence " + Quote(v.Sequences[i].Name), "calls and is called: calls do not nest"}
		}
	}
	for i := range v.Tensors {
		if v.Tensors[i].Role == gen.RoleOutput && !c.filled[i] {
			return &Error{"tensor " + Quote(v.Tensors[i].Name), "is an output that no CopyOut fills"}
		}
	}
	return nil
}

func (v *View) commandsOf(sequence int) []Command {
	s := &v.Sequences[sequence]
	return v.Commands[s.First : s.First+s.Count]
}

func (c *checker) verifySequence(index int) error {
	c.sequence = index
	clear(c.pointed)
	commands := c.view.commandsOf(index)
	like := likeness{}
	for i := range commands {
		if like.covers(&commands[i]) {
			continue
		}
		var reason string
		if last := i == len(commands)-1; last != (commands[i].Opcode == gen.OpcodeEnd) {
			reason = "End must be the last command of a sequence, and only that"
		} else if last {
			reason = endReason(commands)
		} else {
			reason = c.reason(&commands[i])
		}
		if reason != "" {
			return &Error{Text("command %d", uint64(c.view.Sequences[index].First)+uint64(i)), reason}
		}
		like = c.likenessOf(&commands[i])
	}
	return nil
}

// likeness is what a Write must be like to be as right as the one before it, in
// the same sequence: images are mostly runs of such, and checking one alone
// takes longer than carrying it out.
type likeness struct {
	head   uint64 // all of a command in front of the offset; 0: nothing is alike
	mask   uint64
	offset uint32 // the last one inside the window
}

func head(m *Command) uint64 { return *(*uint64)(unsafe.Pointer(m)) }

// likenessOf takes a command that is right. Only a whole immediate Write has a
// likeness.
func (c *checker) likenessOf(m *Command) likeness {
	if m.Opcode != gen.OpcodeWrite || gen.Source(m.Mode) != gen.SourceImmediate || m.Mask != WidthMask(m.Width) {
		return likeness{}
	}
	last := c.view.Windows[m.Window].Size - uint64(m.Width)
	return likeness{head(m), m.Mask, uint32(min(last, math.MaxUint32))}
}

func (l *likeness) covers(m *Command) bool {
	return l.head != 0 && head(m) == l.head && m.Mask == l.mask && m.Amount == 0 && m.Offset <= l.offset &&
		m.Offset&uint32(m.Width-1) == 0 && m.Value&^m.Mask == 0
}

// reason says what is wrong with a command, empty if nothing is.
func (c *checker) reason(m *Command) string {
	switch m.Opcode {
	case gen.OpcodeWrite:
		return c.writeReason(m)
	case gen.OpcodeCopyIn:
		return c.copyInReason(m)
	case gen.OpcodeCopyOut:
		return c.copyOutReason(m)
	case gen.OpcodePoll:
		if m.Amount == 0 {
			return "poll has no deadline"
		}
		return c.checkReason(m)
	case gen.OpcodeExpect:
		if m.Amount != 0 || m.Index != 0 {
			return stray
		}
		return c.checkReason(m)
	case gen.OpcodeCompare:
		return c.compareReason(m)
	case gen.OpcodePoint:
		return c.pointReason(m)
	case gen.OpcodeFence:
		return c.fenceReason(m)
	case gen.OpcodeDelay:
		if *m != (Command{Opcode: m.Opcode, Amount: m.Amount}) {
			return stray
		}
		if m.Amount == 0 || m.Amount > DelayMaxUs {
			return Text("delay of %d us is not between 1 and 10000000", uint64(m.Amount))
		}
	case gen.OpcodeCall:
		return c.callReason(m)
	case gen.OpcodeMark:
		return c.markReason(m)
	default:
		return Text("unknown opcode %d", uint64(m.Opcode))
	}
	return ""
}

const stray = "a field that this command does not use is not zero"

// access checks that size bytes at m.Offset can be reached through m.Window by
// naturally aligned accesses of m.Width, or of any width where bulk is set.
func (c *checker) access(m *Command, size uint64, bulk bool) string {
	if m.Width > 8 || m.Width == 0 || m.Width&(m.Width-1) != 0 {
		return Text("width %d is not 1, 2, 4 or 8", uint64(m.Width))
	}
	if int(m.Window) >= len(c.view.Windows) {
		return Text("window %d does not exist", uint64(m.Window))
	}
	w := &c.view.Windows[m.Window]
	width, offset := uint64(m.Width), uint64(m.Offset)
	switch {
	case size == 0:
		return "moves no bytes"
	case offset > w.Size || size > w.Size-offset:
		return Text("%d bytes at %x reach outside the window of %x bytes", size, offset, w.Size)
	case !bulk && (offset|size)&(width-1) != 0:
		return Text("%d bytes at %x are not aligned to the width %d", size, offset, width)
	case !bulk && w.Offset&(width-1) != 0:
		return Text("the window starts at %x, which is not aligned to the width %d", w.Offset, width)
	case w.Kind == gen.WindowKindTlb && !c.pointed[m.Window]:
		return Text("window %d is used before it is pointed in this sequence", uint64(m.Window))
	case w.Kind == gen.WindowKindConfig && !configAllows(m):
		return "configuration space is read-only to images: it takes Poll and Expect, of 1, 2 or 4 bytes"
	case w.Kind == gen.WindowKindHost && m.Opcode == gen.OpcodeFence:
		return "a flush reads a device, not host memory"
	}
	return ""
}

func configAllows(m *Command) bool {
	return m.Width <= 4 && (m.Opcode == gen.OpcodePoll || m.Opcode == gen.OpcodeExpect)
}

// outside tells whether n has bits that an access of the command's width has not.
func outside(m *Command, n uint64) bool { return n&^WidthMask(m.Width) != 0 }

func (c *checker) writeReason(m *Command) string {
	if reason := c.access(m, uint64(m.Width), false); reason != "" {
		return reason
	}
	switch {
	case m.Option != 0 || m.Amount != 0:
		return stray
	case outside(m, m.Value) || outside(m, m.Mask):
		return Text("value %x or mask %x is wider than %d bytes", m.Value, m.Mask, uint64(m.Width))
	case m.Mask == 0:
		return "mask is zero: nothing would be written"
	}
	switch gen.Source(m.Mode) {
	case gen.SourceImmediate:
		if m.Index != 0 {
			return stray
		}
		if m.Value&^m.Mask != 0 {
			return Text("value %x has bits outside the mask %x", m.Value, m.Mask)
		}
	case gen.SourceBusAddress:
		if m.Width < 4 || m.Mask != WidthMask(m.Width) {
			return "a bus address is written whole, with 4 or 8 bytes"
		}
		if int(m.Index) >= len(c.view.Windows) {
			return Text("window %d does not exist", uint64(m.Index))
		}
		of := &c.view.Windows[m.Index]
		if of.Kind != gen.WindowKindBar && of.Kind != gen.WindowKindHost {
			return "only BAR and host windows have a bus address"
		}
		if m.Value > of.Size { // what has a limit register is told the end
			return Text("%x bytes on is beyond window %d of %x bytes", m.Value, uint64(m.Index), of.Size)
		}
	default:
		return Text("source %d is not one of Write", uint64(m.Mode))
	}
	return ""
}

// span checks the device side of a copy.
func (c *checker) span(m *Command) string {
	switch gen.Access(m.Option) {
	case gen.AccessExact, gen.AccessBulk:
		return c.access(m, uint64(m.Amount), gen.Access(m.Option) == gen.AccessBulk)
	case gen.AccessFixed:
		if m.Width != 0 && m.Amount%uint32(m.Width) != 0 || m.Amount == 0 {
			return Text("%d bytes are no whole number of accesses", uint64(m.Amount))
		}
		return c.access(m, uint64(m.Width), false)
	}
	return Text("unknown access %d", uint64(m.Option))
}

func (c *checker) copyInReason(m *Command) string {
	if reason := c.span(m); reason != "" {
		return reason
	}
	switch gen.Source(m.Mode) {
	case gen.SourcePayload:
		if m.Index != 0 || m.Mask != 0 {
			return stray
		}
		if !c.view.payloadHas(m.Value, uint64(m.Amount)) {
			return Text("%d bytes at payload offset %x lie outside every segment", uint64(m.Amount), m.Value)
		}
	case gen.SourceTensor:
		return c.tensorSide(m, gen.RoleInput)
	case gen.SourceImmediate:
		if m.Index != 0 || m.Mask != 0 {
			return stray
		}
		if outside(m, m.Value) {
			return Text("value %x is wider than %d bytes", m.Value, uint64(m.Width))
		}
		if m.Amount%uint32(m.Width) != 0 || m.Offset%uint32(m.Width) != 0 {
			return "a fill is a whole number of aligned values"
		}
	default:
		return Text("source %d is not one of CopyIn", uint64(m.Mode))
	}
	return ""
}

func (c *checker) copyOutReason(m *Command) string {
	if reason := c.span(m); reason != "" {
		return reason
	}
	if gen.Source(m.Mode) != gen.SourceTensor {
		return Text("CopyOut goes to a tensor, not to source %d", uint64(m.Mode))
	}
	if reason := c.tensorSide(m, gen.RoleOutput); reason != "" {
		return reason
	}
	c.filled[m.Index] = true
	return ""
}

// tensorSide checks the tensor side of a copy.
func (c *checker) tensorSide(m *Command, role gen.Role) string {
	if m.Mask != 0 {
		return stray
	}
	if int(m.Index) >= len(c.view.Tensors) {
		return Text("tensor %d does not exist", uint64(m.Index))
	}
	t := &c.view.Tensors[m.Index]
	if t.Role != role {
		return "tensor " + Quote(t.Name) + " is on the wrong side: CopyIn takes inputs, CopyOut fills outputs"
	}
	if m.Value > t.Size || uint64(m.Amount) > t.Size-m.Value {
		return Text("%d bytes at %x reach outside tensor ", uint64(m.Amount), m.Value) + Quote(t.Name) + Text(" of %d bytes", t.Size)
	}
	return ""
}

func policyReason(option uint8) string {
	if p := gen.Policy(option); p < gen.PolicyFail || p > gen.PolicyDefer {
		return Text("unknown policy %d", uint64(option))
	}
	return ""
}

// checkReason checks a Poll or an Expect.
func (c *checker) checkReason(m *Command) string {
	if reason := c.access(m, uint64(m.Width), false); reason != "" {
		return reason
	}
	if reason := policyReason(m.Option); reason != "" {
		return reason
	}
	if outside(m, m.Value) || outside(m, m.Mask) {
		return Text("value %x or mask %x is wider than %d bytes", m.Value, m.Mask, uint64(m.Width))
	}
	switch gen.Condition(m.Mode) {
	case gen.ConditionEqual:
		if m.Value&^m.Mask != 0 {
			return Text("can never hold: value %x has bits outside the mask %x", m.Value, m.Mask)
		}
		if m.Mask == 0 && m.Opcode == gen.OpcodePoll {
			return "poll of no bits"
		}
	case gen.ConditionNotEqual:
		if m.Mask == 0 || m.Value&^m.Mask != 0 {
			return Text("always holds or never: value %x, mask %x", m.Value, m.Mask)
		}
	case gen.ConditionAnySet, gen.ConditionAnyClear:
		if m.Value != 0 {
			return stray
		}
		if m.Mask == 0 {
			return "can never hold: mask is zero"
		}
	default:
		return Text("unknown condition %d", uint64(m.Mode))
	}
	return ""
}

func (c *checker) compareReason(m *Command) string {
	if reason := c.access(m, uint64(m.Amount), false); reason != "" {
		return reason
	}
	if reason := policyReason(m.Option); reason != "" {
		return reason
	}
	if m.Index > 0xff || DTypeSize(gen.DType(m.Index)) == 0 {
		return Text("unknown element type %d", uint64(m.Index))
	}
	element := uint32(DTypeSize(gen.DType(m.Index)))
	if m.Amount%element != 0 || m.Offset%element != 0 {
		return Text("%d bytes at %x are no whole elements of %d bytes", uint64(m.Amount), uint64(m.Offset), uint64(element))
	}
	if !c.view.payloadHas(m.Value, uint64(m.Amount)) {
		return Text("%d golden bytes at payload offset %x lie outside every segment", uint64(m.Amount), m.Value)
	}
	low, high := math.Float32frombits(uint32(m.Mask)), math.Float32frombits(uint32(m.Mask>>32))
	switch gen.CompareMode(m.Mode) {
	case gen.CompareModeExact:
		if m.Mask != 0 {
			return stray
		}
	case gen.CompareModeTolerance:
		if !(low >= 0 && low <= math.MaxFloat32 && high >= 0 && high <= math.MaxFloat32) {
			return "tolerances are not finite and positive"
		}
	case gen.CompareModeCorrelation:
		if !(low >= -1 && low <= 1) || m.Mask>>32 != 0 {
			return "correlation threshold is not between -1 and 1"
		}
	default:
		return Text("unknown compare mode %d", uint64(m.Mode))
	}
	return ""
}

func (c *checker) pointReason(m *Command) string {
	if *m != (Command{Opcode: m.Opcode, Window: m.Window, Value: m.Value, Mask: m.Mask}) {
		return stray
	}
	if int(m.Window) >= len(c.view.Windows) || c.view.Windows[m.Window].Kind != gen.WindowKindTlb {
		return Text("window %d is not a TLB window", uint64(m.Window))
	}
	if size := c.view.Windows[m.Window].Size; m.Value&(size-1) != 0 {
		return Text("address %x is not a multiple of the window's %x bytes", m.Value, size)
	}
	if _, ok := UnpackTarget(m.Mask); !ok {
		return Text("target %x has impossible fields", m.Mask)
	}
	c.pointed[m.Window] = true
	return ""
}

func (c *checker) fenceReason(m *Command) string {
	switch gen.FenceMode(m.Mode) {
	case gen.FenceModeStore:
		if *m != (Command{Opcode: m.Opcode, Mode: m.Mode}) {
			return stray
		}
	case gen.FenceModeReadBack:
		if *m != (Command{Opcode: m.Opcode, Mode: m.Mode, Width: m.Width, Window: m.Window, Offset: m.Offset}) {
			return stray
		}
		return c.access(m, uint64(m.Width), false)
	default:
		return Text("unknown fence %d", uint64(m.Mode))
	}
	return ""
}

func (c *checker) callReason(m *Command) string {
	switch {
	case *m != (Command{Opcode: m.Opcode, Index: m.Index}):
		return stray
	case int(m.Index) >= len(c.view.Sequences):
		return Text("sequence %d does not exist", uint64(m.Index))
	}
	c.calls[c.sequence], c.called[m.Index] = true, true
	// The callee may have moved any window.
	clear(c.pointed)
	return ""
}

func (c *checker) markReason(m *Command) string {
	switch {
	case *m != (Command{Opcode: m.Opcode, Mode: m.Mode, Index: m.Index}):
		return stray
	case gen.MarkKind(m.Mode) < gen.MarkKindPoint || gen.MarkKind(m.Mode) > gen.MarkKindEnd:
		return Text("unknown mark %d", uint64(m.Mode))
	case int(m.Index) >= len(c.view.Names):
		return Text("name %d does not exist", uint64(m.Index))
	}
	return ""
}

// endReason holds the End of a sequence against the commands before it.
func endReason(commands []Command) string {
	body, end := commands[:len(commands)-1], commands[len(commands)-1]
	if want := End(body); end != want {
		return Text("count or digest of the sequence is wrong: %d, %x and should be %d, %x", end.Value, end.Mask, want.Value, want.Mask)
	}
	return ""
}

// End is the last command of a sequence: count and digest of the others.
func End(body []Command) Command {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(body))), len(body)*commandSize)
	return Command{Opcode: gen.OpcodeEnd, Value: uint64(len(body)), Mask: uint64(Checksum(bytes))}
}
