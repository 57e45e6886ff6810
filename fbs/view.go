package fbs

import (
	"hash/crc32"

	"lightmetal/fbs/gen"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Checksum is the CRC-32C of data.
func Checksum(data []byte) uint32 { return checksum(0, data) }

// checksum goes on from the checksum of what comes before data. The table is
// built once, by the first call and not at start-up.
func checksum(before uint32, data []byte) uint32 {
	return crc32.Update(before, crc32.MakeTable(crc32.Castagnoli), data)
}

// View is a verified image. Commands, Windows and Segments are the file's own
// bytes; everything is read-only.
type View struct {
	Reservation Reservation
	Origin      Origin
	Targets     []Identity
	Windows     []Window
	Names       []string
	Sequences   []Sequence
	Tensors     []Tensor
	Segments    []Segment
	Commands    []Command
	Payload     []byte // the payload area: all segments and the gaps between
	Envelope    []byte // all in front of it
	AllowedUs   uint64 // of LongestUs, for Load: an hour, or what the caller puts here
}

// Origin says where an image comes from.
type Origin struct {
	Tool, Source, Git string
	Time              uint64 // seconds since 1970, 0: not recorded
}

// Sequence is a named run of commands: Commands[First : First+Count], the last
// of them End.
type Sequence struct {
	Name         string
	First, Count uint32
}

// Tensor is a named input or output.
type Tensor struct {
	Name           string
	Role           gen.Role
	DType          gen.DType
	Recorded       bool // the payload holds Size bytes of default or golden data
	Shape          []uint32
	Size           uint64 // bytes
	ArenaOffset    uint64
	RecordedOffset uint64 // bytes into Payload
}

// Data is the tensor's recorded data, nil if there is none.
func (v *View) Data(t *Tensor) []byte {
	if !t.Recorded {
		return nil
	}
	return v.Payload[t.RecordedOffset : t.RecordedOffset+t.Size]
}

// SequenceByName gives the index of a sequence, -1 if there is none.
func (v *View) SequenceByName(name string) int {
	for i := range v.Sequences {
		if v.Sequences[i].Name == name {
			return i
		}
	}
	return -1
}

// TensorByName gives the index of a tensor, -1 if there is none.
func (v *View) TensorByName(name string) int {
	for i := range v.Tensors {
		if v.Tensors[i].Name == name {
			return i
		}
	}
	return -1
}

// Verify checks every byte of a file and gives the view of it. The view refers
// to data, which must not change and must start at a multiple of 8 (a mapped
// file does). A signature is checked for damage and not for who made it. The
// error is an *Error.
func Verify(data []byte) (*View, error) {
	data, _, err := SplitSignature(data)
	if err != nil {
		return nil, err
	}
	envelope, err := verifyPreamble(data)
	if err != nil {
		return nil, err
	}
	f := &flat{data: envelope}
	v := f.image()
	v.Envelope, v.AllowedUs = envelope, 3600e6
	if f.err != nil {
		return nil, f.err
	}
	if err := v.verifyCounts(); err != nil {
		return nil, err
	}
	if err := v.verifySegments(data, uint64(len(envelope))); err != nil {
		return nil, err
	}
	if err := v.verifyTables(); err != nil {
		return nil, err
	}
	if err := v.verifyCommands(); err != nil {
		return nil, err
	}
	return v, nil
}

// EnvelopeSize is the size of an envelope as a file says it. Nothing is verified.
func EnvelopeSize(data []byte) uint64 {
	if len(data) < preambleEnd {
		return 0
	}
	return flatbuffers.GetUint64(data[preambleEnvelope:])
}

// verifyPreamble gives the envelope of a file, its checksum verified.
func verifyPreamble(data []byte) ([]byte, error) {
	bad := func(reason string) ([]byte, error) { return nil, &Error{"preamble", reason} }
	size := uint64(len(data))
	switch {
	case size == 0:
		return bad("the file is empty")
	case size < preambleEnd:
		return bad(Text("the file has %d bytes, an image has more than %d", size, preambleEnd))
	case string(data[4:8]) != Identifier:
		return bad("no identifier " + Identifier + " at byte 4: not a Light Metal image")
	case !aligned(data):
		return bad("the file lies in memory at an address that is not a multiple of 8")
	}
	major, minor := flatbuffers.GetUint16(data[preambleMajor:]), flatbuffers.GetUint16(data[preambleMinor:])
	schema := flatbuffers.GetUint64(data[preambleSchema:])
	file, envelope := flatbuffers.GetUint64(data[preambleFile:]), flatbuffers.GetUint64(data[preambleEnvelope:])
	switch {
	case major != FormatMajor || minor > FormatMinor:
		return bad(Text("format %d.%d, this program reads 1.0", uint64(major), uint64(minor)))
	case schema != SchemaHash:
		return bad(Text("schema hash %x, this program has %x: made by another version", schema, SchemaHash))
	case file != size:
		return bad(Text("the file has %d bytes and should have %d", size, file))
	case envelope < preambleEnd || envelope > size:
		return bad(Text("envelope of %d bytes in a file of %d", envelope, size))
	}
	for _, b := range data[preambleReserved:preambleEnd] {
		if b != 0 {
			return bad("reserved bytes are not zero")
		}
	}
	want := flatbuffers.GetUint32(data[preambleChecksum:])
	if got := EnvelopeChecksum(data[:envelope]); got != want {
		return bad(Text("envelope checksum is %x and should be %x", uint64(got), uint64(want)))
	}
	return data[:envelope], nil
}

// EnvelopeChecksum is the CRC-32C of an envelope with the checksum's own four
// bytes taken as zero.
func EnvelopeChecksum(envelope []byte) uint32 {
	c := checksum(Checksum(envelope[:preambleChecksum]), make([]byte, 4))
	return checksum(c, envelope[preambleChecksum+4:])
}

// Fields of the tables of image.fbs, in the order of their declaration.
const (
	imageOrigin = iota
	imageReservation
	imageTargets
	imageWindows
	imageNames
	imageSequences
	imageTensors
	imageSegments
	imageCommands
	imageFields
)

// image reads the root table and everything below it.
func (f *flat) image() *View {
	root := f.table(uint64(flatbuffers.GetUOffsetT(f.data)), imageFields, only("image"))
	v := &View{
		Windows:  structs[Window](&root, imageWindows, WindowsMax, only("windows")),
		Segments: structs[Segment](&root, imageSegments, SegmentsMax, only("segments")),
		Commands: structs[Command](&root, imageCommands, CommandsMax, only("commands")),
	}
	v.Reservation = structure[Reservation](&root, imageReservation, " reservation")
	v.Origin = f.origin(&root)
	v.Targets = tables(&root, imageTargets, TargetsMax, "target", 4, (*flat).target)
	v.Sequences = tables(&root, imageSequences, SequencesMax, "sequence", 3, (*flat).sequence)
	v.Tensors = tables(&root, imageTensors, TensorsMax, "tensor", 8, (*flat).tensor)
	first, count := root.vector(imageNames, 4, 4, NamesMax, only("names"))
	v.Names = make([]string, count)
	for i := range v.Names {
		v.Names[i] = f.stringAt(f.reference(first+4*uint64(i)), 1, NameMax, place{what: "name", index: i})
	}
	return v
}

// tables reads a vector of tables.
func tables[T any](root *table, id int, countMax uint64, what string, fields int, read func(*flat, table) T) []T {
	first, count := root.vector(id, 4, 4, countMax, only(what+"s"))
	list := make([]T, count)
	for i := range list {
		list[i] = read(root.f, root.f.table(root.f.reference(first+4*uint64(i)), fields, place{what: what, index: i}))
	}
	return list
}

func (f *flat) origin(root *table) Origin {
	t := root.child(imageOrigin, 4, only("origin"))
	if t.vtable == nil {
		f.fail(root.place, "has no origin")
	}
	return Origin{
		Tool:   t.text(0, 0, OriginMax, " tool"),
		Source: t.text(1, 0, OriginMax, " source"),
		Time:   t.number(2, 8),
		Git:    t.text(3, 0, OriginMax, " git"),
	}
}

// Identity is what an image asks of a device it is for.
type Identity struct {
	Board          string
	Vendor, Device uint16
	Bars           [6]uint64 // least size in bytes, 0: not used
}

func (f *flat) target(t table) Identity {
	target := Identity{
		Board:  t.text(0, 1, NameMax, " board"),
		Vendor: uint16(t.number(1, 2)),
		Device: uint16(t.number(2, 2)),
	}
	copy(target.Bars[:], structs[uint64](&t, 3, uint64(len(target.Bars)), t.of(" bars")))
	return target
}

func (f *flat) sequence(t table) Sequence {
	return Sequence{
		Name:  t.text(0, 1, NameMax, " name"),
		First: uint32(t.number(1, 4)),
		Count: uint32(t.number(2, 4)),
	}
}

func (f *flat) tensor(t table) Tensor {
	tensor := Tensor{
		Name:           t.text(0, 1, NameMax, " name"),
		Role:           gen.Role(t.number(1, 1)),
		DType:          gen.DType(t.number(2, 1)),
		Shape:          structs[uint32](&t, 3, DimsMax, t.of(" shape")),
		Size:           t.number(4, 8),
		ArenaOffset:    t.number(5, 8),
		RecordedOffset: t.number(7, 8),
	}
	recorded := t.number(6, 1)
	if recorded > 1 {
		f.fail(t.place, Text("recorded is %d and should be 0 or 1", recorded))
	}
	tensor.Recorded = recorded == 1
	return tensor
}
