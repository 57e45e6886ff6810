package main

import (
	"encoding/binary"
	"fmt"

	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// step describes an access to a region that an image requires. A bulk step describes a series of
// accesses that may have any widths.
type step struct {
	command string // the command, such as "main[3]", for messages
	store   bool   // false: a load
	offset  uint64 // offset in the BAR in bytes
	width   uint8  // width in bytes; 0: a bulk step, whose accesses have ascending offsets
	size    uint64 // number of bytes that the accesses of a bulk step cover; otherwise not used

	// These fields are for stores.
	data     []byte // the bytes to store, little endian: as many as width, or size
	keptBits uint64 // bits that have the values that the previous load returned
	anyValue bool   // the value depends on a bus address, and is not compared

	// These fields are for loads.
	isMet   func(loaded uint64) bool // condition on the loaded value; nil: none
	isPoll  bool                     // the load repeats until the condition is met
	endsRun bool                     // the run ends if the condition is not met
	output  []byte                   // receives the loaded bytes; nil: they are dropped
}

// plan is the list of accesses of a run of a sequence to one region.
type plan struct {
	steps   []step
	outputs map[string][]byte // data of output tensors, by name; set by match and applyTo
}

// expander appends the steps of commands to a plan.
type expander struct {
	plan
	image  *lmb.Image
	region region
	tlb    *tlbWindows       // the TLB windows of the image; nil: it has none
	inputs map[string][]byte // data of inputs, by name, instead of the default data
}

// expand returns the accesses that a run of a sequence must make to the traced region. It ignores
// commands on windows outside the region.
func expand(image *lmb.Image, sequence string, traced region,
	inputs map[string][]byte) (*plan, error) {
	return expandWithTLB(image, sequence, traced, nil, inputs)
}

// expandWithTLB is like expand, for an image with TLB windows.
func expandWithTLB(image *lmb.Image, sequence string, traced region, tlb *tlbWindows,
	inputs map[string][]byte) (*plan, error) {
	e := expander{image: image, region: traced, tlb: tlb, inputs: inputs}
	e.outputs = map[string][]byte{}
	for i := range image.Tensors {
		if t := &image.Tensors[i]; t.Role == gen.RoleOutput {
			e.outputs[t.Name] = make([]byte, t.Size())
		}
	}
	for i := range image.Sequences {
		if image.Sequences[i].Name == sequence {
			return &e.plan, e.addSequence(&image.Sequences[i])
		}
	}
	return nil, fmt.Errorf("no sequence %s", sequence)
}

// addSequence appends the steps of all commands of a sequence.
func (e *expander) addSequence(s *lmb.Sequence) error {
	for i := range s.Commands {
		if err := e.addCommand(fmt.Sprintf("%s[%d]", s.Name, i), &s.Commands[i]); err != nil {
			return fmt.Errorf("%s[%d]: %w", s.Name, i, err)
		}
	}
	return nil
}

// addCommand appends the steps of a command. The name is its place in the image, such as "main[3]".
func (e *expander) addCommand(name string, c *lmb.Command) error {
	switch c.Opcode {
	case gen.OpcodeCall:
		return e.addSequence(&e.image.Sequences[c.Index])
	case gen.OpcodeDelay, gen.OpcodeFence, lmb.OpcodeMark:
		return nil
	case gen.OpcodePoint:
		return e.addPoint(name, c)
	}
	offset, ok := e.windowOffset(c.Window)
	if !ok {
		return nil
	}
	return e.addAccess(step{command: name, offset: offset + uint64(c.Offset), width: c.Width}, c)
}

// addAccess appends the steps of a command that accesses the region. The step `next` contains the
// offset and the width of the first access.
func (e *expander) addAccess(next step, c *lmb.Command) error {
	switch c.Opcode {
	case gen.OpcodeWrite, gen.OpcodeModify, gen.OpcodeRelocate:
		e.addWrite(next, c)
	case gen.OpcodeCopyIn, gen.OpcodeFill:
		return e.addCopyIn(next, c)
	case gen.OpcodeCopyOut:
		t := &e.image.Tensors[c.Index-1]
		next.output = e.outputs[t.Name][c.Value : c.Value+uint64(c.Amount)]
		e.addCopy(next, c)
	case gen.OpcodeExpect:
		next.isMet = expectCondition(c)
		next.isPoll = c.Amount != 0
		next.endsRun = gen.Policy(c.Option) == gen.PolicyFail
		e.steps = append(e.steps, next)
	case gen.OpcodeCompare:
		e.addCompare(next, c)
	default:
		return fmt.Errorf("unknown opcode %d", c.Opcode)
	}
	return nil
}

// addWrite appends the store of a Write or Relocate command, or the load and the store of a Modify
// command.
func (e *expander) addWrite(next step, c *lmb.Command) {
	if c.Opcode == gen.OpcodeModify {
		e.steps = append(e.steps, next)
		next.keptBits = widthMask(c.Width) &^ c.Mask
	}
	next.store = true
	next.data = littleEndianBytes(c.Value)[:c.Width]
	next.anyValue = c.Opcode == gen.OpcodeRelocate
	e.steps = append(e.steps, next)
}

// addCopyIn appends the stores of a CopyIn or Fill command.
func (e *expander) addCopyIn(next step, c *lmb.Command) error {
	next.store = true
	switch {
	case c.Opcode == gen.OpcodeFill:
		for len(next.data) < int(c.Amount) {
			next.data = append(next.data, littleEndianBytes(c.Value)[:c.Width]...)
		}
		next.data = next.data[:c.Amount]
	case c.Index == 0:
		next.data = c.Data
	default:
		t := &e.image.Tensors[c.Index-1]
		data, isGiven := e.inputs[t.Name]
		if !isGiven {
			data = t.Data
		}
		if uint64(len(data)) < c.Value+uint64(c.Amount) {
			return fmt.Errorf("input %s has %d bytes of data", t.Name, len(data))
		}
		next.data = data[c.Value : c.Value+uint64(c.Amount)]
	}
	e.addCopy(next, c)
	return nil
}

// addCopy appends the steps of a copy: one bulk step if the command is a bulk copy, otherwise one
// step for each access. The step `next` contains all bytes of the copy.
func (e *expander) addCopy(next step, c *lmb.Command) {
	if gen.Access(c.Mode) == gen.AccessBulk {
		next.width, next.size = 0, uint64(c.Amount)
		e.steps = append(e.steps, next)
		return
	}
	all, width := next, uint64(c.Width)
	for done := uint64(0); done < uint64(c.Amount); done += width {
		if gen.Access(c.Mode) == gen.AccessExact {
			next.offset = all.offset + done
		}
		if all.store {
			next.data = all.data[done : done+width]
		} else {
			next.output = all.output[done : done+width]
		}
		e.steps = append(e.steps, next)
	}
}

// addCompare appends the loads of a Compare command, each with the golden value as its condition.
func (e *expander) addCompare(next step, c *lmb.Command) {
	width := uint64(c.Width)
	next.endsRun = gen.Policy(c.Option) == gen.PolicyFail
	for done := uint64(0); done < uint64(c.Amount); done += width {
		golden := littleEndianValue(c.Data[done : done+width])
		next.isMet = func(loaded uint64) bool { return loaded == golden }
		e.steps = append(e.steps, next)
		next.offset += width
	}
}

// expectCondition returns the condition of an Expect command as FORMAT.md defines it. It
// intentionally does not use the runtime's code.
func expectCondition(c *lmb.Command) func(uint64) bool {
	value, mask := c.Value, c.Mask
	switch gen.Condition(c.Mode) {
	case gen.ConditionEqual:
		return func(loaded uint64) bool { return loaded&mask == value }
	case gen.ConditionNotEqual:
		return func(loaded uint64) bool { return loaded&mask != value }
	case gen.ConditionReached:
		return func(loaded uint64) bool {
			distance := (loaded - value) & mask
			return distance <= mask/2
		}
	}
	return func(uint64) bool { return false }
}

// littleEndianBytes returns the 8 bytes of a number, least significant byte first.
func littleEndianBytes(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// littleEndianValue returns the number whose least significant bytes, up to 8, are given.
func littleEndianValue(data []byte) uint64 {
	var all [8]byte
	copy(all[:], data)
	return binary.LittleEndian.Uint64(all[:])
}
