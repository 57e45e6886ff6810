package main

import (
	"encoding/binary"
	"fmt"

	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// step is what an image says about one access to a region, or about a run of
// them.
type step struct {
	place  string // "main[3]", for messages
	store  bool
	offset uint64 // bytes into the BAR
	width  uint8  // bytes; 0: any, and the accesses cover size bytes in ascending order
	size   uint64 // where width is 0

	// Of a store.
	data    []byte // little endian, width or size bytes
	keep    uint64 // bits that keep what the load before it gave
	unknown bool   // depends on a bus address; any value will do

	// Of a load.
	holds  func(loaded uint64) bool // nil: any value will do
	repeat bool                     // until it holds
	fail   bool                     // the run ends when it does not
	output []byte                   // gets the bytes loaded, nil: none does
}

// plan is what a run of a sequence does to one region.
type plan struct {
	steps   []step
	outputs map[string][]byte // by tensor; filled by match and apply
}

// expander turns commands into steps.
type expander struct {
	plan
	image   *lmb.Image
	region  region
	windows *windows          // nil: there are none
	inputs  map[string][]byte // data instead of what was recorded
}

// expand gives the accesses that a run of a sequence must make to a region.
// Windows elsewhere leave no trace there and are passed over.
func expand(image *lmb.Image, sequence string, of region, inputs map[string][]byte) (*plan, error) {
	return expandIn(image, sequence, of, nil, inputs)
}

// expandIn is expand for a run whose windows are known.
func expandIn(image *lmb.Image, sequence string, of region, in *windows,
	inputs map[string][]byte) (*plan, error) {
	e := expander{image: image, region: of, windows: in, inputs: inputs}
	e.outputs = map[string][]byte{}
	for i := range image.Tensors {
		if t := &image.Tensors[i]; t.Role == gen.RoleOutput {
			e.outputs[t.Name] = make([]byte, t.Size())
		}
	}
	for i := range image.Sequences {
		if image.Sequences[i].Name == sequence {
			return &e.plan, e.sequence(&image.Sequences[i])
		}
	}
	return nil, fmt.Errorf("no sequence %s", sequence)
}

func (e *expander) sequence(s *lmb.Sequence) error {
	for i := range s.Commands {
		if err := e.command(fmt.Sprintf("%s[%d]", s.Name, i), &s.Commands[i]); err != nil {
			return fmt.Errorf("%s[%d]: %w", s.Name, i, err)
		}
	}
	return nil
}

func (e *expander) command(place string, c *lmb.Command) error {
	switch c.Opcode {
	case gen.OpcodeCall:
		return e.sequence(&e.image.Sequences[c.Index])
	case gen.OpcodeDelay, gen.OpcodeFence, lmb.OpcodeMark:
		return nil
	case gen.OpcodePoint:
		return e.point(place, c)
	}
	offset, ok := e.where(c.Window)
	if !ok {
		return nil
	}
	return e.access(step{place: place, offset: offset + uint64(c.Offset), width: c.Width}, c)
}

// access adds the steps of a command that touches the region. at says where it
// begins and how wide it is.
func (e *expander) access(at step, c *lmb.Command) error {
	switch c.Opcode {
	case gen.OpcodeWrite, gen.OpcodeModify, gen.OpcodeRelocate:
		e.write(at, c)
	case gen.OpcodeCopyIn, gen.OpcodeFill:
		return e.copyIn(at, c)
	case gen.OpcodeCopyOut:
		t := &e.image.Tensors[c.Index-1]
		at.output = e.outputs[t.Name][c.Value : c.Value+uint64(c.Amount)]
		e.run(at, c)
	case gen.OpcodeExpect:
		at.holds = condition(c)
		at.repeat = c.Amount != 0
		at.fail = gen.Policy(c.Option) == gen.PolicyFail
		e.steps = append(e.steps, at)
	case gen.OpcodeCompare:
		e.compare(at, c)
	default:
		return fmt.Errorf("unknown opcode %d", c.Opcode)
	}
	return nil
}

func (e *expander) write(at step, c *lmb.Command) {
	if c.Opcode == gen.OpcodeModify {
		e.steps = append(e.steps, at)
		at.keep = bits(c.Width) &^ c.Mask
	}
	at.store = true
	at.data = littleEndian(c.Value)[:c.Width]
	at.unknown = c.Opcode == gen.OpcodeRelocate
	e.steps = append(e.steps, at)
}

func (e *expander) copyIn(at step, c *lmb.Command) error {
	at.store = true
	switch {
	case c.Opcode == gen.OpcodeFill:
		for len(at.data) < int(c.Amount) {
			at.data = append(at.data, littleEndian(c.Value)[:c.Width]...)
		}
		at.data = at.data[:c.Amount]
	case c.Index == 0:
		at.data = c.Data
	default:
		t := &e.image.Tensors[c.Index-1]
		data, given := e.inputs[t.Name]
		if !given {
			data = t.Data
		}
		if uint64(len(data)) < c.Value+uint64(c.Amount) {
			return fmt.Errorf("input %s has %d bytes of data", t.Name, len(data))
		}
		at.data = data[c.Value : c.Value+uint64(c.Amount)]
	}
	e.run(at, c)
	return nil
}

// run adds a copy: one step an access, or one for all where the range is
// memory and accesses may be widened.
func (e *expander) run(at step, c *lmb.Command) {
	if gen.Access(c.Mode) == gen.AccessBulk {
		at.width, at.size = 0, uint64(c.Amount)
		e.steps = append(e.steps, at)
		return
	}
	all, width := at, uint64(c.Width)
	for done := uint64(0); done < uint64(c.Amount); done += width {
		if gen.Access(c.Mode) == gen.AccessExact {
			at.offset = all.offset + done
		}
		if all.store {
			at.data = all.data[done : done+width]
		} else {
			at.output = all.output[done : done+width]
		}
		e.steps = append(e.steps, at)
	}
}

// compare adds the loads of a comparison and what each of them gives.
func (e *expander) compare(at step, c *lmb.Command) {
	width := uint64(c.Width)
	at.fail = gen.Policy(c.Option) == gen.PolicyFail
	for done := uint64(0); done < uint64(c.Amount); done += width {
		golden := number(c.Data[done : done+width])
		at.holds = func(loaded uint64) bool { return loaded == golden }
		e.steps = append(e.steps, at)
		at.offset += width
	}
}

// condition is FORMAT.md's, written down a second time on purpose.
func condition(c *lmb.Command) func(uint64) bool {
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

func littleEndian(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// number is the value of up to 8 bytes, little endian.
func number(data []byte) uint64 {
	var all [8]byte
	copy(all[:], data)
	return binary.LittleEndian.Uint64(all[:])
}
