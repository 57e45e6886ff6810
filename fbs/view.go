package fbs

// This file defines View, a verified image, and Verify, which returns a View.

import (
	"hash/crc32"

	"lightmetal/boards"
)

// Checksum returns the CRC-32C of data.
func Checksum(data []byte) uint32 { return checksum(0, data) }

// checksum returns the CRC-32C of some bytes followed by data. sumBefore is the CRC-32C of
// the bytes before data. The table is made at the first call, because a table in a package
// variable would delay the start of every program.
func checksum(sumBefore uint32, data []byte) uint32 {
	return crc32.Update(sumBefore, crc32.MakeTable(crc32.Castagnoli), data)
}

// View is a verified image. All slices except WorstCaseUs point into the file.
type View struct {
	Reservation Reservation
	Devices     []DeviceInfo
	Rules       []Rule // accesses that devices without a known board accept
	Windows     []Window
	Sequences   []Sequence
	Tensors     []Tensor
	Segments    []Segment
	Commands    []Command
	Text        []byte // characters of all names
	Notes       []byte // FlatBuffer for host tools; Verify does not check it
	Payload     []byte // bytes of all segments
	Envelope    []byte // first part of the file: everything before the padding and the payload

	// WorstCaseUs has the longest time of each sequence in microseconds (FORMAT.md
	// section 6.3), at most 1 << 62. It includes the time of called sequences.
	WorstCaseUs []uint64

	// TimeLimitUs is a limit in microseconds: Load rejects an image with a sequence that may
	// take longer, and a run that takes longer ends. Verify sets it to one hour; the caller
	// may change it.
	TimeLimitUs uint64

	// NeedsFixup reports whether the image has Point or Relocate commands. Load replaces
	// some of their fields with values of the device.
	NeedsFixup bool

	// BusMasters has bit n set if device n needs bus mastering: the device has a Host window,
	// or a Relocate command stores a bus address to it.
	BusMasters uint8

	original *View // copy of this view that Verify made; nil if Verify did not return this view
}

// Original returns a copy of the view as Verify returned it, but with the current
// TimeLimitUs. Therefore fields that a caller has changed since have their verified values
// in the copy. The slices of both views share memory. Original returns nil if Verify did
// not return the view.
func (v *View) Original() *View {
	if v.original == nil {
		return nil
	}
	original := *v.original
	original.TimeLimitUs = v.TimeLimitUs
	return &original
}

// NameBytes returns the text of a name as a slice of the file.
func (v *View) NameBytes(n Name) []byte { return v.Text[n>>8:][:n&NameMax] }

// Name returns the text of a name.
func (v *View) Name(n Name) string { return string(v.NameBytes(n)) }

// TensorData returns the default data of an input or the golden data of an output. It
// returns nil if the image has no data for the tensor.
func (v *View) TensorData(t *Tensor) []byte {
	if t.HasData == 0 {
		return nil
	}
	return v.Payload[t.DataOffset : t.DataOffset+t.Size]
}

// Board returns the board of a device. If no board has the PCI ids of the device, Board
// returns a new board with the rules that the image has for the device.
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
			b.Rules = append(b.Rules, v.newBoardRule(r))
		}
	}
	return b
}

// newBoardRule returns a rule of the image as a rule of a board.
func (v *View) newBoardRule(r *Rule) boards.Rule {
	return boards.Rule{
		Bar:    r.Bar,
		First:  r.First,
		Last:   r.Last,
		Widths: r.Widths,
		Memory: r.Memory != 0,
		Name:   v.Name(r.Name),
	}
}

// SequenceByName returns the index of the first sequence with the given name. It returns -1
// if no sequence has the name.
func (v *View) SequenceByName(name string) int {
	for i := range v.Sequences {
		if string(v.NameBytes(v.Sequences[i].Name)) == name {
			return i
		}
	}
	return -1
}

// TensorByName returns the index of the first tensor with the given name. It returns -1 if
// no tensor has the name.
func (v *View) TensorByName(name string) int {
	for i := range v.Tensors {
		if string(v.NameBytes(v.Tensors[i].Name)) == name {
			return i
		}
	}
	return -1
}

// Verify checks every byte of a file except the notes, and returns a view of the file. The
// slices of the view point into data. The caller must not change data afterwards. The
// address of data must be a multiple of 8; that of a mapped file is. If the file has a
// signature, Verify checks only the checksum of the signature. The returned error is an
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

// VerifyEnvelope is the first half of Verify: it checks everything except the checksums of
// the payload. Until VerifyPayload has returned nil, a caller may copy the payload, but must
// not use its bytes.
func VerifyEnvelope(data []byte) (*View, error) {
	data, _, err := SplitSignature(data)
	if err != nil {
		return nil, err
	}
	p := ReadStruct[Preamble](data)
	if problem := p.checkFields(uint64(len(data))); problem != "" {
		return nil, &Error{"preamble", problem}
	}
	envelope := data[:p.Envelope]
	v, sum, failure := readEnvelope(envelope)
	if failure != nil {
		// Compute the checksum of the whole envelope. If the checksum is wrong, report it instead
		// of the failure, because a damaged file explains every other failure.
		sum = EnvelopeChecksum(envelope)
	}
	if sum != p.Checksum {
		problem := Text("envelope checksum is %x, but should be %x",
			uint64(sum), uint64(p.Checksum))
		return nil, &Error{"preamble", problem}
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

// readEnvelope returns a view of an envelope, and the checksum of the envelope. The caller
// must compare the checksum with the preamble. readEnvelope computes the checksum while it
// checks the commands; if it returns an error, the checksum is not valid.
func readEnvelope(envelope []byte) (v *View, sum uint32, err *Error) {
	const fieldCount = 10 // number of fields of table Image in image.fbs
	// The fields of a table are numbered from 0 in the order of their declaration.
	t := RootTable(envelope, PreambleSize, fieldCount, "image")
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
	// The capacities of both slices end at the same byte. Therefore their difference is the
	// offset of the first command in the envelope.
	first := cap(envelope) - cap(commands)
	sum, err = v.verifyCommands(commands, EnvelopeChecksum(envelope[:first]))
	return v, checksum(sum, envelope[first+len(commands):]), err
}

// checkFields returns the problem of an invalid preamble, or an empty string. size is the
// size of the file in bytes. checkFields does not compare the checksum.
func (p *Preamble) checkFields(size uint64) (problem string) {
	if size == 0 {
		return "the file is empty"
	}
	if size < PreambleSize {
		return Text("the file is %d bytes long, but an image is longer than %d", size, PreambleSize)
	}
	if string(p.Identifier[:]) != Identifier {
		return "identifier at byte 4 is not " + Identifier + ": not a Light Metal image"
	}
	if p.Major != FormatMajor || p.Minor > FormatMinor {
		return Text("format is %d.%d, but this program reads %d.%d",
			uint64(p.Major), uint64(p.Minor), FormatMajor, FormatMinor)
	}
	if p.Schema != SchemaHash {
		return Text("schema hash is %x, but this program needs %x: made by another version",
			p.Schema, SchemaHash)
	}
	if p.File != size {
		return Text("the file is %d bytes long, but its preamble says %d", size, p.File)
	}
	if p.Envelope < PreambleSize || p.Envelope > size {
		return Text("invalid envelope size %d; must be %d to %d", p.Envelope, PreambleSize, size)
	}
	if p.Reserved != [32]byte{} {
		return "reserved bytes are not zero"
	}
	return ""
}

// EnvelopeChecksum returns the CRC-32C of an envelope, or of the first part of an envelope.
// The four bytes of Preamble.Checksum count as zero.
func EnvelopeChecksum(envelope []byte) uint32 {
	sum := checksum(0, envelope[:checksumOffset])
	sum = checksum(sum, make([]byte, 4))
	return checksum(sum, envelope[checksumOffset+4:])
}
