package fbs

import (
	"hash/crc32"

	"lightmetal/boards"
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
	Devices     []DeviceInfo
	Rules       []Rule // of targets that no board is known of
	Windows     []Window
	Sequences   []Sequence
	Tensors     []Tensor
	Segments    []Segment
	Commands    []Command
	Text        []byte // what names are runs of
	Notes       []byte // for host tools; nothing in it has been verified
	Payload     []byte // the payload area: all segments
	Envelope    []byte // all in front of it

	// LongestUs is the longest time of each sequence in microseconds by FORMAT.md
	// section 6.3, with the sequences that it calls; 1 << 62 for that and more.
	WorstCaseUs []uint64

	// AllowedUs is the longest time that Load accepts for a sequence, and after
	// which a run ends: an hour, unless the caller sets another.
	TimeLimitUs uint64

	NeedsFixup bool // it holds a Point or an Address, which Load completes
	// targets that are told a bus address or have a Host window, a bit each: those master the bus
	BusMasters uint8

	original *View // as Verify made it
}

// Original returns the view as Verify returned it, with AllowedUs as it is now, or
// nil if Verify did not return it. What a caller assigns to other fields, or puts
// into a View of its own, has not been verified. The slices are the same memory.
func (v *View) Original() *View {
	if v.original == nil {
		return nil
	}
	original := *v.original
	original.TimeLimitUs = v.TimeLimitUs
	return &original
}

// Bytes is the text of a name in the file itself.
func (v *View) NameBytes(n Name) []byte { return v.Text[n>>8:][:n&NameMax] }

// Name is the text of a name.
func (v *View) Name(n Name) string { return string(v.NameBytes(n)) }

// Data is the tensor's recorded data, nil if there is none.
func (v *View) TensorData(t *Tensor) []byte {
	if t.HasData == 0 {
		return nil
	}
	return v.Payload[t.DataOffset : t.DataOffset+t.Size]
}

// Board is what is known of a target: by its ids, or as the image itself says.
func (v *View) Board(target int) *boards.Board {
	t := &v.Devices[target]
	if known := boards.FindByID(t.Vendor, t.Device); known != nil {
		return known
	}
	b := &boards.Board{Name: v.Name(t.Board), Vendor: t.Vendor, Device: t.Device,
		Bars: *t.BarSizes()}
	for _, r := range v.Rules {
		if int(r.Device) == target {
			b.Rules = append(b.Rules, boards.Rule{Bar: r.Bar, First: r.First, Last: r.Last,
				Widths: r.Widths, Memory: r.Memory != 0, Name: v.Name(r.Name)})
		}
	}
	return b
}

// SequenceByName gives the index of the first sequence of that name, -1 if
// there is none.
func (v *View) SequenceByName(name string) int {
	return v.indexByName(name, len(v.Sequences), func(i int) Name { return v.Sequences[i].Name })
}

// TensorByName does so for tensors.
func (v *View) TensorByName(name string) int {
	return v.indexByName(name, len(v.Tensors), func(i int) Name { return v.Tensors[i].Name })
}

func (v *View) indexByName(name string, count int, of func(i int) Name) int {
	for i := range count {
		if string(v.NameBytes(of(i))) == name {
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
	v, err := VerifyEnvelope(data)
	if err == nil {
		err = v.VerifyPayload()
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// VerifyEnvelope is the first half of Verify: it reads everything but the payload. Nothing in
// the view may be used before VerifyPayload, but to see which bytes of the payload to copy:
// what was copied by then is what is verified.
func VerifyEnvelope(data []byte) (*View, error) {
	data, _, err := SplitSignature(data)
	if err != nil {
		return nil, err
	}
	p := ReadStruct[Preamble](data)
	if reason := p.check(uint64(len(data))); reason != "" {
		return nil, &Error{"preamble", reason}
	}
	envelope := data[:p.Envelope]
	v, sum, failure := readEnvelope(envelope)
	if failure != nil {
		// Damage explains whatever else is wrong.
		sum = EnvelopeChecksum(envelope)
	}
	if sum != p.Checksum {
		return nil,
			&Error{"preamble", Text("envelope checksum is %x and should be %x", uint64(sum),
				uint64(p.Checksum))}
	}
	if failure == nil {
		failure = v.findPayload(data)
	}
	if failure != nil {
		return nil, failure
	}
	original := *v
	v.original = &original
	return v, nil
}

// read verifies an envelope but for its checksum, which it computes meanwhile.
func readEnvelope(envelope []byte) (v *View, sum uint32, err *Error) {
	const fields = 10 // of table Image, numbered in the order of their declaration
	t := RootTable(envelope, PreambleSize, fields, "image")
	commands := t.vectorBytes(6, 8, CommandSize, CommandsMax, "commands")
	v = &View{
		Envelope:    envelope,
		TimeLimitUs: 3600e6,
		Reservation: StructField[Reservation](t, 0),
		Devices:     VectorField[DeviceInfo](t, 1, 8, DevicesMax, "targets"),
		Windows:     VectorField[Window](t, 2, 8, WindowsMax, "windows"),
		Sequences:   VectorField[Sequence](t, 3, 4, SequencesMax, "sequences"),
		Tensors:     VectorField[Tensor](t, 4, 8, TensorsMax, "tensors"),
		Segments:    VectorField[Segment](t, 5, 8, SegmentsMax, "segments"),
		Commands:    CommandsIn(commands),
		Text:        VectorField[byte](t, 7, 1, TextMax, "text"),
		Notes:       VectorField[byte](t, 8, 8, NotesMax, "notes"),
		Rules:       VectorField[Rule](t, 9, 8, RulesMax, "rules"),
	}
	if err = t.Err; err == nil {
		err = v.verifyTables()
	}
	if err != nil {
		return nil, 0, err
	}
	first := cap(envelope) - cap(commands) // both slices could go on to the same end
	sum, err = v.verifyCommands(commands, EnvelopeChecksum(envelope[:first]))
	return v, checksum(sum, envelope[first+len(commands):]), err
}

// reason says what is wrong with the preamble of a file, empty if nothing is.
// The checksum is not looked at.
func (p *Preamble) check(size uint64) string {
	return firstNonEmpty(
		failIf(size == 0, "the file is empty"),
		failIf(size < PreambleSize, "the file has %d bytes, an image has more than %d", size,
			PreambleSize),
		failIf(string(p.Identifier[:]) != Identifier,
			"no identifier "+Identifier+" at byte 4: not a Light Metal image"),
		failIf(p.Major != FormatMajor || p.Minor > FormatMinor,
			"format %d.%d, this program reads %d.%d", uint64(p.Major), uint64(p.Minor), FormatMajor,
			FormatMinor),
		failIf(p.Schema != SchemaHash,
			"schema hash %x, this program has %x: made by another version", p.Schema, SchemaHash),
		failIf(p.File != size, "the file has %d bytes and should have %d", size, p.File),
		failIf(p.Envelope < PreambleSize || p.Envelope > size,
			"envelope of %d bytes in a file of %d", p.Envelope, size),
		failIf(p.Reserved != [32]byte{}, "reserved bytes are not zero"))
}

// EnvelopeChecksum is the CRC-32C of an envelope, or of what it begins with, with
// the checksum's own four bytes taken as zero.
func EnvelopeChecksum(envelope []byte) uint32 {
	sum := checksum(checksum(0, envelope[:checksumOffset]), make([]byte, 4))
	return checksum(sum, envelope[checksumOffset+4:])
}
