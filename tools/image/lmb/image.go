// Package lmb represents Light Metal binaries as plain Go values, which host tools can build,
// change and compare. Encode returns a file, and Decode reads one; Decode(Encode(x)) equals x, and
// Encode is deterministic.
package lmb

import (
	"iter"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Image is one .lmb file.
type Image struct {
	Origin    Origin
	Captures  []Capture
	Devices   []Device
	Rules     []Rule // rules of devices whose PCI ids belong to no known board, sorted
	Windows   []Window
	Rings     []Ring
	Tensors   []Tensor
	Sequences []Sequence
}

// Origin describes how an image was made.
type Origin struct {
	Tool   string
	Source string
	Time   uint64 // seconds since 1970, 0: unknown
	Git    string

	Arguments string // flags of the tool
	Verdict   string // what the tool said about the loaded values that the image expects
}

// Capture is a file from which an image was made.
type Capture struct {
	Name   string
	Size   uint64
	SHA256 [32]byte
}

// Device is a device that the image is for.
type Device struct {
	Board          string
	Vendor, Device uint16
	Bars           [6]uint64 // minimum size of each BAR
	Subsystem      uint32    // subsystem id << 16 | subsystem vendor id; 0: any
	Interrupts     gen.InterruptKind
	Vectors        uint16 // number of interrupt vectors; 0: none
}

// Rule describes the accesses that a range of registers or memory of a device accepts.
type Rule struct {
	fbs.AccessRule
	Name string
}

// Window is a range of a device.
type Window struct {
	fbs.Window
	Name string // empty: none
}

// Ring is a position that moves from run to run (FORMAT.md section 6.4).
type Ring struct {
	Name              string
	Begin, End, First uint64
}

// Tensor is a named input, output or scratch.
type Tensor struct {
	Name   string
	Role   gen.Role
	DType  gen.DType
	Shape  []uint32
	Data   []byte // default input or golden output; nil: none
	Golden Golden // how an output is compared with Data
}

// Golden specifies when an output matches its golden data. The zero value requires equal bits.
type Golden struct {
	Kind          gen.Judgement
	First, Second uint32 // bits of float32: absolute and relative tolerance, or threshold and 0
}

// Size returns the size of the tensor in bytes.
func (t *Tensor) Size() uint64 {
	size := uint64(fbs.DTypeSize(t.DType))
	for _, n := range t.Shape {
		size *= uint64(n)
	}
	return size
}

// Sequence is a named list of commands, without the End command: Encode appends it, and Decode
// removes it.
type Sequence struct {
	Name     string
	Commands []Command

	// If Stream is not nil, it yields the commands instead of Commands, the same in each loop. It
	// saves memory for images of millions of commands.
	Stream iter.Seq[*Command]
}

// All yields the commands, from Commands or from Stream. Each pointer is valid only until the next
// command.
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

// OpcodeMark is the opcode of a mark in the commands of a Sequence. Its Mode is a gen.MarkKind, and
// its Data is a name. The commands of a file have no marks: Encode puts them into the notes.
const OpcodeMark gen.Opcode = 0xff

// Command is one command. Encode sets the payload offset of CopyIn and Compare. In a decoded image
// the offset is zero, and Data has the bytes.
type Command struct {
	fbs.Command
	Data []byte // payload of a CopyIn from payload, golden bytes of a Compare, name of a mark
}

// HasPayload reports whether a command uses bytes of the payload.
func HasPayload(c *fbs.Command) bool {
	return c.Index == 0 && (c.Opcode == gen.OpcodeCompare || c.Opcode == gen.OpcodeCopyIn)
}

// TensorOf returns the index of the tensor whose bytes a command uses or stores, if there is one.
func TensorOf(c *fbs.Command) (tensor int, ok bool) {
	return int(c.Index) - 1, c.Index != 0 && (c.Opcode == gen.OpcodeCompare ||
		c.Opcode == gen.OpcodeCopyIn || c.Opcode == gen.OpcodeCopyOut)
}
