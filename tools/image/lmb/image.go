// Package lmb represents a Light Metal binary for host tools as plain Go values
// that can be built, changed and compared. Encode writes a file of them,
// Decode reads one back; Decode(Encode(x)) equals x, and Encode is
// deterministic.
package lmb

import (
	"iter"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Image is one .lmb file.
type Image struct {
	Origin    Origin
	Devices   []Device
	Rules     []Rule // of devices whose PCI ids no board has, in order
	Windows   []Window
	Tensors   []Tensor
	Sequences []Sequence
}

// Origin describes where an image comes from.
type Origin struct {
	Tool   string
	Source string
	Time   uint64 // seconds since 1970, 0: unknown
	Git    string
}

// Device is a device that the image is for.
type Device struct {
	Board          string
	Vendor, Device uint16
	Bars           [6]uint64 // least size of each BAR
	Subsystem      uint32    // subsystem id << 16 | subsystem vendor id, 0: any
}

// Rule says which accesses a range of registers or memory of a device accepts.
type Rule struct {
	fbs.AccessRule
	Name string
}

// Window is a range of a device.
type Window struct {
	fbs.Window
	Name string // empty: none
}

// Tensor is a named input or output.
type Tensor struct {
	Name   string
	Role   gen.Role
	DType  gen.DType
	Shape  []uint32
	Data   []byte // default input or golden output; nil: none
	Golden Golden // how an output is compared with Data
}

// Golden says which outputs match the golden data. The zero value requires the same bits.
type Golden struct {
	Kind          gen.Judgement
	First, Second uint32 // bits of float32: absolute and relative tolerance, or threshold and 0
}

// Size returns the number of bytes of the tensor's elements.
func (t *Tensor) Size() uint64 {
	size := uint64(fbs.DTypeSize(t.DType))
	for _, n := range t.Shape {
		size *= uint64(n)
	}
	return size
}

// Sequence is a named run of commands. The End command is not in it: Encode
// appends it, Decode takes it off.
type Sequence struct {
	Name     string
	Commands []Command

	// Stream yields the commands of a sequence that lists none, the same ones in every loop.
	// An image of millions of commands takes less memory so.
	Stream iter.Seq[*Command]
}

// All yields the commands, from Commands or from Stream. Each is valid until the next.
func (s *Sequence) All() iter.Seq[*Command] {
	if s.Stream != nil {
		return s.Stream
	}
	return func(yield func(*Command) bool) {
		for i := range s.Commands {
			if !yield(&s.Commands[i]) {
				return
			}
		}
	}
}

// list replaces the stream of a sequence by a list of its commands.
func (s *Sequence) list(count int) {
	if count > 0 {
		s.Commands = make([]Command, 0, count)
	}
	for c := range s.Stream {
		s.Commands = append(s.Commands, *c)
	}
	s.Stream = nil
}

// OpcodeMark is the opcode of a mark among the commands of a Sequence: its Mode
// is a gen.MarkKind and its Name a name. It is no command of the file:
// Encode puts it into the notes.
const OpcodeMark gen.Opcode = 0xff

// Command is one command. The payload offset of CopyIn and Compare is filled by
// Encode and zero in a decoded image, which has the bytes as Data.
type Command struct {
	fbs.Command
	Data []byte // payload of a CopyIn from payload, golden bytes of a Compare, name of a mark
}

// HasPayload reports whether a command takes bytes of the payload.
func HasPayload(c *fbs.Command) bool {
	return c.Index == 0 && (c.Opcode == gen.OpcodeCompare || c.Opcode == gen.OpcodeCopyIn)
}

// FromInput reports whether a command uses bytes of an input, and returns its index.
func FromInput(c *fbs.Command) (tensor int, ok bool) {
	return int(c.Index) - 1, c.Index != 0 && (c.Opcode == gen.OpcodeCompare ||
		c.Opcode == gen.OpcodeCopyIn)
}
