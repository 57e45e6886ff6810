package fbs

import (
	"hash/crc32"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Checksum is the CRC-32C of data.
func Checksum(data []byte) uint32 { return checksum(0, data) }

// checksum goes on from the checksum of what comes before data. The table is
// built once, by the first call and not at start-up.
func checksum(before uint32, data []byte) uint32 {
	return crc32.Update(before, crc32.MakeTable(crc32.Castagnoli), data)
}

// View is a verified image. Its slices but LongestUs are the file's own bytes.
type View struct {
	Reservation Reservation
	Targets     []Identity
	Rules       []Rule // of targets that no board is known of
	Windows     []Window
	Sequences   []Sequence
	Tensors     []Tensor
	Segments    []Segment
	Commands    []Command
	Text        []byte   // what names are runs of
	Notes       []byte   // for host tools; nothing in it has been verified
	Payload     []byte   // the payload area: all segments and the gaps between
	Envelope    []byte   // all in front of it
	LongestUs   []uint64 // that each sequence may take where an access takes one, called ones included; 1 << 62 for more
	AllowedUs   uint64   // of LongestUs, for Load: an hour, or what the caller puts here

	stride uint64                           // bytes from one segment to the next, on average
	marked [CommandsMax / Block / 64]uint64 // a bit for each Block of commands that Visit goes over
}

// Bytes is the text of a name in the file itself.
func (v *View) Bytes(n Name) []byte { return v.Text[n>>8:][:n&NameMax] }

// Name is the text of a name.
func (v *View) Name(n Name) string { return string(v.Bytes(n)) }

// Data is the tensor's recorded data, nil if there is none.
func (v *View) Data(t *Tensor) []byte {
	if t.Recorded == 0 {
		return nil
	}
	return v.Payload[t.RecordedOffset : t.RecordedOffset+t.Size]
}

// SequenceByName gives the index of the first sequence of that name, -1 if
// there is none.
func (v *View) SequenceByName(name string) int {
	return v.named(name, len(v.Sequences), func(i int) Name { return v.Sequences[i].Name })
}

// TensorByName does so for tensors.
func (v *View) TensorByName(name string) int {
	return v.named(name, len(v.Tensors), func(i int) Name { return v.Tensors[i].Name })
}

func (v *View) named(name string, count int, of func(i int) Name) int {
	for i := range count {
		if v.Name(of(i)) == name {
			return i
		}
	}
	return -1
}

// Verify checks every byte of a file but its notes and gives the view of it.
// The view refers to data, which must not change and must start at a multiple
// of 8 (a mapped file does). A signature is checked for damage and not for who
// made it. The error is an *Error.
func Verify(data []byte) (*View, error) {
	data, _, err := SplitSignature(data)
	if err != nil {
		return nil, err
	}
	envelope, err := verifyPreamble(data)
	if err != nil {
		return nil, err
	}
	v, sum, failure := read(envelope)
	want := flatbuffers.GetUint32(data[preambleChecksum:])
	if failure != nil {
		// Damage explains whatever else is wrong.
		sum = EnvelopeChecksum(envelope)
	}
	if sum != want {
		return nil, &Error{"preamble", Text("envelope checksum is %x and should be %x", uint64(sum), uint64(want))}
	}
	if failure == nil {
		failure = v.verifySegments(data, uint64(len(envelope)))
	}
	if failure != nil {
		return nil, failure
	}
	return v, nil
}

// read verifies an envelope but for its checksum, which it computes meanwhile.
func read(envelope []byte) (v *View, sum uint32, err *Error) {
	t := Root(envelope, preambleEnd, imageFields, "image")
	v = &View{
		Envelope:    envelope,
		AllowedUs:   3600e6,
		Reservation: Struct[Reservation](t, imageReservation),
		Targets:     Vector[Identity](t, imageTargets, 8, TargetsMax, "targets"),
		Rules:       Vector[Rule](t, imageRules, 8, RulesMax, "rules"),
		Windows:     Vector[Window](t, imageWindows, 8, WindowsMax, "windows"),
		Sequences:   Vector[Sequence](t, imageSequences, 4, SequencesMax, "sequences"),
		Tensors:     Vector[Tensor](t, imageTensors, 8, TensorsMax, "tensors"),
		Segments:    Vector[Segment](t, imageSegments, 8, SegmentsMax, "segments"),
		Commands:    Vector[Command](t, imageCommands, 8, CommandsMax, "commands"),
		Text:        Vector[byte](t, imageText, 1, TextMax, "text"),
		Notes:       Vector[byte](t, imageNotes, 8, NotesMax, "notes"),
	}
	if err = t.Err; err == nil {
		err = v.verifyTables()
	}
	if err != nil {
		return nil, 0, err
	}
	first := placeIn(envelope, v.Commands)
	sum = checksum(checksum(0, envelope[:preambleChecksum]), make([]byte, 4))
	sum, err = v.verifyCommands(checksum(sum, envelope[preambleChecksum+4:first]))
	return v, checksum(sum, envelope[first+len(bytesOf(v.Commands)):]), err
}

// Fields of table Image, in the order of their declaration.
const (
	imageReservation = iota
	imageTargets
	imageWindows
	imageSequences
	imageTensors
	imageSegments
	imageCommands
	imageText
	imageNotes
	imageRules
	imageFields
)

// EnvelopeSize is the size of an envelope as a file says it. Nothing is verified.
func EnvelopeSize(data []byte) uint64 {
	if len(data) < preambleEnd {
		return 0
	}
	return flatbuffers.GetUint64(data[preambleEnvelope:])
}

// verifyPreamble gives the envelope of a file, its checksum not verified yet.
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
	}
	major, minor := flatbuffers.GetUint16(data[preambleMajor:]), flatbuffers.GetUint16(data[preambleMinor:])
	schema := flatbuffers.GetUint64(data[preambleSchema:])
	file, envelope := flatbuffers.GetUint64(data[preambleFile:]), flatbuffers.GetUint64(data[preambleEnvelope:])
	switch {
	case major != FormatMajor || minor > FormatMinor:
		return bad(Text("format %d.%d, this program reads %d.%d", uint64(major), uint64(minor), FormatMajor, FormatMinor))
	case schema != SchemaHash:
		return bad(Text("schema hash %x, this program has %x: made by another version", schema, SchemaHash))
	case file != size:
		return bad(Text("the file has %d bytes and should have %d", size, file))
	case envelope < preambleEnd || envelope > size:
		return bad(Text("envelope of %d bytes in a file of %d", envelope, size))
	case !zeros(data[preambleReserved:preambleEnd]):
		return bad("reserved bytes are not zero")
	}
	return data[:envelope], nil
}

// EnvelopeChecksum is the CRC-32C of an envelope with the checksum's own four
// bytes taken as zero.
func EnvelopeChecksum(envelope []byte) uint32 {
	sum := checksum(checksum(0, envelope[:preambleChecksum]), make([]byte, 4))
	return checksum(sum, envelope[preambleChecksum+4:])
}

func zeros(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}
