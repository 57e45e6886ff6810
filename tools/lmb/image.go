// Package lmb is a Light Metal binary as host tools handle it: plain Go values
// that can be built, changed and compared. Encode writes a file of them,
// Decode reads one back; Decode(Encode(x)) equals x, and Encode is
// deterministic.
package lmb

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Image is one .lmb file.
type Image struct {
	Origin    Origin
	Targets   []Target
	Windows   []Window
	Tensors   []Tensor
	Sequences []Sequence
}

// Origin says where an image comes from.
type Origin struct {
	Tool   string
	Source string
	Time   uint64 // seconds since 1970, 0: not recorded
	Git    string
}

// Target is a device the image is for.
type Target struct {
	Board          string
	Vendor, Device uint16
	Bars           [6]uint64 // least size of each BAR
}

// Window is a range of a device. The Name field inside fbs.Window is filled by
// Encode.
type Window struct {
	fbs.Window
	Name string // empty: none
}

// Tensor is a named input or output.
type Tensor struct {
	Name  string
	Role  gen.Role
	DType gen.DType
	Shape []uint32
	Data  []byte // default input or golden output; nil: none
}

// Size is the number of bytes of the tensor's elements.
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
}

// Command is one command. Fields of fbs.Command that refer by number to what
// is here in full are filled by Encode and zero in a decoded image: the payload
// offset of CopyIn and Compare (Data), the name of a Mark (Name).
type Command struct {
	fbs.Command
	Data []byte // payload of a CopyIn from payload, golden bytes of a Compare
	Name string // of a Mark
}
