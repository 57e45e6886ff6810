package fbs

// This file has View, and Verify, which returns it.

import (
	"hash/crc32"

	"lightmetal/boards"
)

// Checksum returns the CRC-32C of data.
func Checksum(data []byte) uint32 { return checksum(0, data) }

// checksum continues the checksum of the bytes before data. The first call builds the
// table, so that start-up does not.
func checksum(before uint32, data []byte) uint32 {
	return crc32.Update(before, crc32.MakeTable(crc32.Castagnoli), data)
}

// View is a verified image. Its slices except WorstCaseUs refer to the file.
type View struct {
	Reservation Reservation
	Devices     []DeviceInfo
	Rules       []Rule // of devices without a known board
	Windows     []Window
	Sequences   []Sequence
	Tensors     []Tensor
	Segments    []Segment
	Commands    []Command
	Text        []byte // the characters of all names
	Notes       []byte // for host tools; not verified
	Payload     []byte // all segments
	Envelope    []byte // the file up to the payload, without padding

	// WorstCaseUs is the longest time of each sequence in microseconds (FORMAT.md
	// section 6.3), including the sequences that it calls, and at most 1 << 62.
	WorstCaseUs []uint64

	// TimeLimitUs is the longest time that Load accepts for a sequence, and after
	// which a run ends: an hour, unless the caller sets another.
	TimeLimitUs uint64

	// NeedsFixup reports whether Load has to complete Point or Relocate commands.
	NeedsFixup bool

	// BusMasters has a bit for each device that gets a bus address or has a Host
	// window: these need bus mastering.
	BusMasters uint8

	original *View // a copy, made by Verify
}

// Original returns the view as Verify returned it, except TimeLimitUs, which is the
// current one. It returns nil for a view that Verify did not return. Values that a
// caller has assigned to other fields are not verified. The slices share memory.
func (v *View) Original() *View {
	if v.original == nil {
		return nil
	}
	original := *v.original
	original.TimeLimitUs = v.TimeLimitUs
	return &original
}

// NameBytes returns the text of a name, in the file.
func (v *View) NameBytes(n Name) []byte { return v.Text[n>>8:][:n&NameMax] }

// Name returns the text of a name.
func (v *View) Name(n Name) string { return string(v.NameBytes(n)) }

// TensorData returns the default data of an input or the golden data of an output, or nil
// if the image has none.
func (v *View) TensorData(t *Tensor) []byte {
	if t.HasData == 0 {
		return nil
	}
	return v.Payload[t.DataOffset : t.DataOffset+t.Size]
}

// Board returns the board of a device: the one with its PCI ids, or one with the rules of
// the image.
func (v *View) Board(device int) *boards.Board {
	d := &v.Devices[device]
	if known := boards.FindByID(d.Vendor, d.Device); known != nil {
		return known
	}
	b := &boards.Board{
		Name:   v.Name(d.Board),
		Vendor: d.Vendor,
		Device: d.Device,
		Bars:   *d.BarSizes(),
	}
	for i := range v.Rules {
		if r := &v.Rules[i]; int(r.Device) == device {
			b.Rules = append(b.Rules, v.boardRule(r))
		}
	}
	return b
}

func (v *View) boardRule(r *Rule) boards.Rule {
	return boards.Rule{
		Bar:    r.Bar,
		First:  r.First,
		Last:   r.Last,
		Widths: r.Widths,
		Memory: r.Memory != 0,
		Name:   v.Name(r.Name),
	}
}

// SequenceByName returns the index of the first sequence with a name, or -1.
func (v *View) SequenceByName(name string) int {
	for i := range v.Sequences {
		if string(v.NameBytes(v.Sequences[i].Name)) == name {
			return i
		}
	}
	return -1
}

// TensorByName returns the index of the first tensor with a name, or -1.
func (v *View) TensorByName(name string) int {
	for i := range v.Tensors {
		if string(v.NameBytes(v.Tensors[i].Name)) == name {
			return i
		}
	}
	return -1
}

// Verify checks every byte of a file except its notes, and returns a view of it. The
// view refers to data, which must not change. The address of data is a multiple of 8, as
// that of a mapped file. Of a signature it checks only the checksum. The error is an
// *Error.
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

// VerifyEnvelope is the first half of Verify: it checks everything but the payload. Before
// VerifyPayload the view may only be used to find bytes of the payload and to copy them,
// so that the copy is verified.
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
		// A wrong checksum is reported first: damage explains other failures.
		sum = EnvelopeChecksum(envelope)
	}
	if sum != p.Checksum {
		reason := Text("envelope checksum is %x and should be %x", uint64(sum), uint64(p.Checksum))
		return nil, &Error{"preamble", reason}
	}
	if failure == nil {
		failure = v.setPayload(data)
	}
	if failure != nil {
		return nil, failure
	}
	original := *v
	v.original = &original
	return v, nil
}

// readEnvelope returns a view of an envelope and its checksum, which it computes while it
// checks the commands. The caller compares the checksum.
func readEnvelope(envelope []byte) (v *View, sum uint32, err *Error) {
	const fields = 10 // of table Image, numbered in the order of their declaration
	t := RootTable(envelope, PreambleSize, fields, "image")
	commands := t.vectorBytes(6, 8, CommandSize, CommandsMax, "commands")
	v = &View{
		Envelope:    envelope,
		TimeLimitUs: 3600e6,
		Reservation: StructField[Reservation](t, 0),
		Devices:     VectorField[DeviceInfo](t, 1, 8, DevicesMax, "devices"),
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
	first := cap(envelope) - cap(commands) // both slices end their capacity at the same byte
	sum, err = v.verifyCommands(commands, EnvelopeChecksum(envelope[:first]))
	return v, checksum(sum, envelope[first+len(commands):]), err
}

// check returns why the preamble of a file of size bytes is rejected, or an empty string.
// It does not compare the checksum.
func (p *Preamble) check(size uint64) string {
	if size == 0 {
		return "the file is empty"
	}
	if size < PreambleSize {
		return Text("the file has %d bytes, an image has more than %d", size, PreambleSize)
	}
	if string(p.Identifier[:]) != Identifier {
		return "no identifier " + Identifier + " at byte 4: not a Light Metal image"
	}
	if p.Major != FormatMajor || p.Minor > FormatMinor {
		return Text("format %d.%d, this program reads %d.%d",
			uint64(p.Major), uint64(p.Minor), FormatMajor, FormatMinor)
	}
	if p.Schema != SchemaHash {
		return Text("schema hash %x, this program has %x: made by another version",
			p.Schema, SchemaHash)
	}
	if p.File != size {
		return Text("the file has %d bytes and should have %d", size, p.File)
	}
	if p.Envelope < PreambleSize || p.Envelope > size {
		return Text("envelope of %d bytes in a file of %d", p.Envelope, size)
	}
	if p.Reserved != [32]byte{} {
		return "reserved bytes are not zero"
	}
	return ""
}

// EnvelopeChecksum returns the CRC-32C of an envelope, or of the first bytes of one. The
// four bytes of the checksum itself count as zero.
func EnvelopeChecksum(envelope []byte) uint32 {
	sum := checksum(0, envelope[:checksumOffset])
	sum = checksum(sum, make([]byte, 4))
	return checksum(sum, envelope[checksumOffset+4:])
}
