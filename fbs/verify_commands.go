package fbs

import (
	"math"
	"strconv"
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
	filled   []bool // tensors that some CopyOut writes
}

// verifyCommands checks every command, so that the loop that carries them out
// need not check anything again.
func (v *View) verifyCommands() error {
	c := checker{
		view:    v,
		pointed: make([]bool, len(v.Windows)),
		calls:   make([]bool, len(v.Sequences)),
		filled:  make([]bool, len(v.Tensors)),
	}
	for i := range v.Sequences {
		for _, command := range v.commandsOf(i) {
			c.calls[i] = c.calls[i] || command.Opcode == gen.OpcodeCall
		}
	}
	for i := range v.Sequences {
		if err := c.verifySequence(i); err != nil {
			return err
		}
	}
	for i := range v.Tensors {
		if v.Tensors[i].Role == gen.RoleOutput && !c.filled[i] {
			return &Error{"tensor " + strconv.Quote(v.Tensors[i].Name), "is an output that no CopyOut fills"}
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
	for i := range commands {
		var reason string
		if last := i == len(commands)-1; last != (commands[i].Opcode == gen.OpcodeEnd) {
			reason = "End must be the last command of a sequence, and only that"
		} else if last {
			reason = endReason(commands)
		} else {
			reason = c.reason(&commands[i])
		}
		if reason != "" {
			return &Error{"command " + strconv.Itoa(int(c.view.Sequences[index].First)+i), reason}
		}
	}
	return nil
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
			return "delay of " + decimal(uint64(m.Amount)) + " us is not between 1 and 10000000"
		}
	case gen.OpcodeCall:
		return c.callReason(m)
	case gen.OpcodeMark:
		return c.markReason(m)
	default:
		return "unknown opcode " + decimal(uint64(m.Opcode))
	}
	return ""
}

const stray = "a field that this command does not use is not zero"

// access checks that size bytes at m.Offset can be reached through m.Window by
// naturally aligned accesses of m.Width, or of any width where bulk is set.
func (c *checker) access(m *Command, size uint64, bulk bool) string {
	if m.Width > 8 || m.Width == 0 || m.Width&(m.Width-1) != 0 {
		return "width " + decimal(uint64(m.Width)) + " is not 1, 2, 4 or 8"
	}
	if int(m.Window) >= len(c.view.Windows) {
		return "window " + decimal(uint64(m.Window)) + " does not exist"
	}
	w := &c.view.Windows[m.Window]
	width, offset := uint64(m.Width), uint64(m.Offset)
	switch {
	case size == 0:
		return "moves no bytes"
	case offset > w.Size || size > w.Size-offset:
		return decimal(size) + " bytes at " + hex(offset) + " reach outside the window of " + hex(w.Size) + " bytes"
	case !bulk && (offset|size)&(width-1) != 0:
		return decimal(size) + " bytes at " + hex(offset) + " are not aligned to the width " + decimal(width)
	case !bulk && w.Offset&(width-1) != 0:
		return "the window starts at " + hex(w.Offset) + ", which is not aligned to the width " + decimal(width)
	case w.Kind == gen.WindowKindTlb && !c.pointed[m.Window]:
		return "window " + decimal(uint64(m.Window)) + " is used before it is pointed in this sequence"
	case w.Kind == gen.WindowKindConfig && !configAllows(m):
		return "configuration space takes only Write, Poll and Expect of 1, 2 or 4 bytes"
	case w.Kind == gen.WindowKindHost && m.Opcode == gen.OpcodeFence:
		return "a flush reads a device, not host memory"
	}
	return ""
}

func configAllows(m *Command) bool {
	return m.Width <= 4 && (m.Opcode == gen.OpcodeWrite || m.Opcode == gen.OpcodePoll || m.Opcode == gen.OpcodeExpect)
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
		return "value " + hex(m.Value) + " or mask " + hex(m.Mask) + " is wider than " + decimal(uint64(m.Width)) + " bytes"
	case m.Mask == 0:
		return "mask is zero: nothing would be written"
	}
	switch gen.Source(m.Mode) {
	case gen.SourceImmediate:
		if m.Index != 0 {
			return stray
		}
		if m.Value&^m.Mask != 0 {
			return "value " + hex(m.Value) + " has bits outside the mask " + hex(m.Mask)
		}
	case gen.SourceBusAddress:
		if m.Width < 4 || m.Mask != WidthMask(m.Width) {
			return "a bus address is written whole, with 4 or 8 bytes"
		}
		if int(m.Index) >= len(c.view.Windows) {
			return "window " + decimal(uint64(m.Index)) + " does not exist"
		}
		if kind := c.view.Windows[m.Index].Kind; kind != gen.WindowKindBar && kind != gen.WindowKindHost {
			return "only BAR and host windows have a bus address"
		}
	default:
		return "source " + decimal(uint64(m.Mode)) + " is not one of Write"
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
			return decimal(uint64(m.Amount)) + " bytes are no whole number of accesses"
		}
		return c.access(m, uint64(m.Width), false)
	}
	return "unknown access " + decimal(uint64(m.Option))
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
			return decimal(uint64(m.Amount)) + " bytes at payload offset " + hex(m.Value) + " lie outside every segment"
		}
	case gen.SourceTensor:
		return c.tensorSide(m, gen.RoleInput)
	case gen.SourceImmediate:
		if m.Index != 0 || m.Mask != 0 {
			return stray
		}
		if outside(m, m.Value) {
			return "value " + hex(m.Value) + " is wider than " + decimal(uint64(m.Width)) + " bytes"
		}
		if m.Amount%uint32(m.Width) != 0 || m.Offset%uint32(m.Width) != 0 {
			return "a fill is a whole number of aligned values"
		}
	default:
		return "source " + decimal(uint64(m.Mode)) + " is not one of CopyIn"
	}
	return ""
}

func (c *checker) copyOutReason(m *Command) string {
	if reason := c.span(m); reason != "" {
		return reason
	}
	if gen.Source(m.Mode) != gen.SourceTensor {
		return "CopyOut goes to a tensor, not to source " + decimal(uint64(m.Mode))
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
		return "tensor " + decimal(uint64(m.Index)) + " does not exist"
	}
	t := &c.view.Tensors[m.Index]
	if t.Role != role {
		return "tensor " + strconv.Quote(t.Name) + " is on the wrong side: CopyIn takes inputs, CopyOut fills outputs"
	}
	if m.Value > t.Size || uint64(m.Amount) > t.Size-m.Value {
		return decimal(uint64(m.Amount)) + " bytes at " + hex(m.Value) + " reach outside tensor " + strconv.Quote(t.Name) + " of " + decimal(t.Size) + " bytes"
	}
	return ""
}

func policyReason(option uint8) string {
	if p := gen.Policy(option); p < gen.PolicyFail || p > gen.PolicyDefer {
		return "unknown policy " + decimal(uint64(option))
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
		return "value " + hex(m.Value) + " or mask " + hex(m.Mask) + " is wider than " + decimal(uint64(m.Width)) + " bytes"
	}
	switch gen.Condition(m.Mode) {
	case gen.ConditionEqual:
		if m.Value&^m.Mask != 0 {
			return "can never hold: value " + hex(m.Value) + " has bits outside the mask " + hex(m.Mask)
		}
		if m.Mask == 0 && m.Opcode == gen.OpcodePoll {
			return "poll of no bits"
		}
	case gen.ConditionNotEqual:
		if m.Mask == 0 || m.Value&^m.Mask != 0 {
			return "always holds or never: value " + hex(m.Value) + ", mask " + hex(m.Mask)
		}
	case gen.ConditionAnySet, gen.ConditionAnyClear:
		if m.Value != 0 {
			return stray
		}
		if m.Mask == 0 {
			return "can never hold: mask is zero"
		}
	default:
		return "unknown condition " + decimal(uint64(m.Mode))
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
		return "unknown element type " + decimal(uint64(m.Index))
	}
	element := uint32(DTypeSize(gen.DType(m.Index)))
	if m.Amount%element != 0 || m.Offset%element != 0 {
		return decimal(uint64(m.Amount)) + " bytes at " + hex(uint64(m.Offset)) + " are no whole elements of " + decimal(uint64(element)) + " bytes"
	}
	if !c.view.payloadHas(m.Value, uint64(m.Amount)) {
		return decimal(uint64(m.Amount)) + " golden bytes at payload offset " + hex(m.Value) + " lie outside every segment"
	}
	low, high := Float32(uint32(m.Mask)), Float32(uint32(m.Mask>>32))
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
		return "unknown compare mode " + decimal(uint64(m.Mode))
	}
	return ""
}

// Float32 is the number with these bits.
func Float32(bits uint32) float32 { return math.Float32frombits(bits) }

func (c *checker) pointReason(m *Command) string {
	if *m != (Command{Opcode: m.Opcode, Window: m.Window, Value: m.Value, Mask: m.Mask}) {
		return stray
	}
	if int(m.Window) >= len(c.view.Windows) || c.view.Windows[m.Window].Kind != gen.WindowKindTlb {
		return "window " + decimal(uint64(m.Window)) + " is not a TLB window"
	}
	if size := c.view.Windows[m.Window].Size; m.Value&(size-1) != 0 {
		return "address " + hex(m.Value) + " is not a multiple of the window's " + hex(size) + " bytes"
	}
	if _, ok := UnpackTarget(m.Mask); !ok {
		return "target " + hex(m.Mask) + " has impossible fields"
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
		return "unknown fence " + decimal(uint64(m.Mode))
	}
	return ""
}

func (c *checker) callReason(m *Command) string {
	switch {
	case *m != (Command{Opcode: m.Opcode, Index: m.Index}):
		return stray
	case int(m.Index) >= len(c.view.Sequences):
		return "sequence " + decimal(uint64(m.Index)) + " does not exist"
	case c.calls[m.Index]:
		return "calls " + strconv.Quote(c.view.Sequences[m.Index].Name) + ", which calls itself or another: calls do not nest"
	}
	// The callee may have moved any window.
	clear(c.pointed)
	return ""
}

func (c *checker) markReason(m *Command) string {
	switch {
	case *m != (Command{Opcode: m.Opcode, Mode: m.Mode, Index: m.Index}):
		return stray
	case gen.MarkKind(m.Mode) < gen.MarkKindPoint || gen.MarkKind(m.Mode) > gen.MarkKindEnd:
		return "unknown mark " + decimal(uint64(m.Mode))
	case int(m.Index) >= len(c.view.Names):
		return "name " + decimal(uint64(m.Index)) + " does not exist"
	}
	return ""
}

// endReason holds the End of a sequence against the commands before it.
func endReason(commands []Command) string {
	body, end := commands[:len(commands)-1], commands[len(commands)-1]
	if want := End(body); end != want {
		return "count or digest of the sequence is wrong: " + decimal(end.Value) + ", " + hex(end.Mask) +
			" and should be " + decimal(want.Value) + ", " + hex(want.Mask)
	}
	return ""
}

// End is the last command of a sequence: count and digest of the others.
func End(body []Command) Command {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(body))), len(body)*commandSize)
	return Command{Opcode: gen.OpcodeEnd, Value: uint64(len(body)), Mask: uint64(Checksum(bytes))}
}
