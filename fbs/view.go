package fbs

// This file defines View, which provides access to a verified image, and Verify, which returns a
// View.

import (
	"hash/crc32"

	"lightmetal/boards"
)

// Checksum returns the CRC-32C of the given bytes. All checksums in an image are CRC-32Cs.
func Checksum(data []byte) uint32 { return continueChecksum(0, data) }

// continueChecksum extends a checksum: if sumBefore is the CRC-32C of some bytes, continueChecksum
// returns the CRC-32C of these bytes followed by the bytes in `data`. crc32.MakeTable computes its
// table only in the first call. A package variable with the table would delay the start of every
// program.
func continueChecksum(sumBefore uint32, data []byte) uint32 {
	return crc32.Update(sumBefore, crc32.MakeTable(crc32.Castagnoli), data)
}

// View provides access to the contents of an image. Verify returns views of verified images.
// All slices except WorstCaseUs point into the bytes of the file.
type View struct {
	Reservation Reservation
	Devices     []DeviceInfo
	Rules       []AccessRule // rules for devices that package boards does not know
	Windows     []Window
	Sequences   []Sequence
	Tensors     []Tensor
	Segments    []Segment
	Commands    []Command
	Text        []byte // characters of all names
	Notes       []byte // FlatBuffer for host tools; Verify does not check its contents
	Payload     []byte // data that commands copy and compare: the bytes of all segments
	Envelope    []byte // first part of the file: everything before the padding and the payload

	// WorstCaseUs[i] is the longest time that sequence i can take, in microseconds, including the
	// sequences that it calls. The largest value is 1 << 62. FORMAT.md section 6.3 defines the
	// computation.
	WorstCaseUs []uint64

	// TimeLimitUs is the time limit for each sequence in microseconds. runtime.Load rejects an
	// image if WorstCaseUs of a sequence exceeds this limit. The runtime also ends a run that
	// actually takes longer. Verify sets the limit to one hour. The caller may change it.
	TimeLimitUs uint64

	// NeedsFixup is true if the image has Point or Relocate commands. runtime.Load replaces
	// some fields of these commands by values that depend on the addresses of windows.
	NeedsFixup bool

	// BusMasters has one bit for each device. Bit n is set if device n needs bus mastering,
	// because the device has a Host window, or because a Relocate command stores a bus address
	// to the device.
	BusMasters uint8

	// Version is the image version in the signature, or 0 if the file has no signature. Verify does
	// not check that the signature is authentic.
	Version uint32

	// verified is the copy that VerifiedCopy returns. VerifyEnvelope makes this copy. In all other
	// views, verified is nil.
	verified *View
}

// VerifiedCopy returns a copy of the view as Verify returned it. The copy has none of the changes
// that the caller has made to the view since then, except a change of TimeLimitUs. The slices of
// the view and of the copy share memory. VerifiedCopy returns nil if neither Verify nor
// VerifyEnvelope has created the view.
func (v *View) VerifiedCopy() *View {
	if v.verified == nil {
		return nil
	}
	verified := *v.verified
	verified.TimeLimitUs = v.TimeLimitUs
	return &verified
}

// NameBytes returns the characters of a name. The slice points into the file.
func (v *View) NameBytes(n NameRange) []byte { return v.Text[n>>8:][:n&NameMax] }

// Name returns a copy of the characters of a name. The compiler must not inline Name, because the
// inlined copies would make the program larger.
//
//go:noinline
func (v *View) Name(n NameRange) string { return string(v.NameBytes(n)) }

// TensorData returns the data that the image has for a tensor: the default data of an input, or
// the golden data (the expected result) of an output. TensorData returns nil if the image has
// no data for the tensor.
func (v *View) TensorData(t *Tensor) []byte {
	if t.HasData == 0 {
		return nil
	}
	return v.Payload[t.DataOffset : t.DataOffset+t.Size]
}

// Board returns the board in package boards that has the PCI ids of a device. If there is no
// such board, Board returns a new board with the BAR sizes and rules that the image has for the
// device. The parameter `device` is an index in v.Devices.
func (v *View) Board(device int) *boards.Board {
	d := &v.Devices[device]
	if known := boards.FindByID(d.Vendor, d.Device); known != nil {
		return known
	}
	b := &boards.Board{
		Name:     v.Name(d.Board),
		Vendor:   d.Vendor,
		Device:   d.Device,
		BarSizes: *d.MinBarSizes(),
	}
	for i := range v.Rules {
		if r := &v.Rules[i]; int(r.Device) == device {
			b.Rules = append(b.Rules, v.newBoardRule(r))
		}
	}
	return b
}

// newBoardRule converts a rule of the image to a rule of a board.
func (v *View) newBoardRule(r *AccessRule) boards.AccessRule {
	return boards.AccessRule{
		Bar:      r.Bar,
		First:    r.First,
		Last:     r.Last,
		Widths:   r.Widths,
		IsMemory: r.Memory != 0,
		Name:     v.Name(r.Name),
	}
}

// SequenceByName returns the index of the first sequence with the given name, or -1 if no
// sequence has the name.
func (v *View) SequenceByName(name string) int {
	for i := range v.Sequences {
		if string(v.NameBytes(v.Sequences[i].Name)) == name {
			return i
		}
	}
	return -1
}

// TensorByName returns the index of the first tensor with the given name, or -1 if no tensor
// has the name.
func (v *View) TensorByName(name string) int {
	for i := range v.Tensors {
		if string(v.NameBytes(v.Tensors[i].Name)) == name {
			return i
		}
	}
	return -1
}

// Verify checks every byte of an image, and returns a view of the image. For the notes, it checks
// only the checksum. The parameter `data` contains the bytes of the file. The slices of the view
// point into these bytes, so the caller must not change the bytes afterwards. The address of the
// bytes must be a multiple of 8; the address of a mapped file always is. If a signature follows the
// image, Verify checks that the signature is undamaged, but not that the signature is authentic.
// The returned error is an *Error.
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

// VerifyEnvelope checks everything that Verify checks, except the checksums of the payload. Until
// VerifyPayload has returned nil, the caller may copy the bytes of the payload, but must not use
// them in any other way.
func VerifyEnvelope(data []byte) (*View, error) {
	data, signature, err := SplitSignature(data)
	if err != nil {
		return nil, err
	}
	p := ReadStruct[Preamble](data)
	if problem := p.checkFields(uint64(len(data))); problem != "" {
		return nil, &Error{Place: "preamble", Reason: problem}
	}
	envelope := data[:p.EnvelopeSize]
	v, sum, failure := readEnvelope(envelope)
	if failure != nil {
		// After a failure, readEnvelope has not computed the checksum. Compute the checksum here.
		// If the checksum is wrong, the file is damaged, and the error below reports the damage
		// instead of the failure.
		sum = EnvelopeChecksum(envelope)
	}
	if sum != p.Checksum {
		problem := Text("envelope "+checksumFormat, uint64(sum), uint64(p.Checksum))
		return nil, &Error{Place: "preamble", Reason: problem}
	}
	if failure == nil {
		failure = v.setPayload(data)
	}
	if failure != nil {
		return nil, failure
	}
	if signature != nil {
		v.Version = signature.Version
	}
	verified := *v
	v.verified = &verified
	return v, nil
}

// setPayload sets v.Payload to the payload. The parameter `file` is the image file, excluding any
// signature. setPayload checks that the payload ends at the end of `file`, and that all bytes
// between the envelope and the payload are zero.
func (v *View) setPayload(file []byte) *Error {
	size, start := uint64(len(file)), uint64(len(v.Envelope))
	if len(v.Segments) > 0 {
		start = RoundUp(start, SegmentAlign)
	}
	if end := start + v.Reservation.PayloadBytes; end != size {
		problem := Text("should end at %x, but the file ends at %x", end, size)
		return &Error{Place: "payload", Reason: problem}
	}
	v.Payload = file[start:]
	for _, padding := range file[len(v.Envelope):start] {
		if padding != 0 {
			const problem = "padding bytes before the segment are not zero"
			return &Error{Place: "segment 0", Reason: problem}
		}
	}
	return nil
}

// VerifyPayload computes the checksum of each segment of the payload, and compares the checksum
// with Segment.Crc32c. The returned error is an *Error.
func (v *View) VerifyPayload() error {
	rest := v.Payload
	for i := range v.Segments {
		s := &v.Segments[i]
		got := Checksum(rest[:s.Size])
		rest = rest[s.Size:]
		if got != s.Crc32c {
			problem := Text(checksumFormat, uint64(got), uint64(s.Crc32c))
			return &Error{Place: Text("segment %d", uint64(i)), Reason: problem}
		}
	}
	return nil
}

// readEnvelope checks an envelope, and returns a view of the envelope. The result `sum` is the
// CRC-32C of the envelope, which the caller must compare with Preamble.Checksum. readEnvelope
// computes the CRC-32C while it checks the commands. Therefore `sum` is not valid if `err` is not
// nil.
func readEnvelope(envelope []byte) (v *View, sum uint32, err *Error) {
	const fieldCount = 10 // number of fields that image.fbs declares for table Image
	// The number of a field is its position in the declaration of table Image, counted from 0.
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
		Rules:       VectorField[AccessRule](t, 9, 8, RulesMax, "rules"),
	}
	if err = t.Err; err == nil {
		err = v.verifyTables()
	}
	if err != nil {
		return nil, 0, err
	}
	// The slice `commands` is a part of the slice `envelope`, and the capacities of both slices
	// end at the same byte. Therefore the difference of the capacities is the offset of the first
	// command.
	first := cap(envelope) - cap(commands)
	sum, err = v.verifyCommands(commands, EnvelopeChecksum(envelope[:first]))
	return v, continueChecksum(sum, envelope[first+len(commands):]), err
}

// otherVersionProblem is the beginning of messages about an image of another version.
const otherVersionProblem = "another version of lm made the image; " +
	"make it again with lm of this version "

// checkFields checks all fields of a preamble except RootOffset and Checksum. It returns a
// description of the problem, or an empty string if the fields are valid. The parameter `size`
// is the size of the image in bytes.
func (p *Preamble) checkFields(size uint64) (problem string) {
	if size == 0 {
		return "the file is empty"
	}
	if size < PreambleSize {
		return Text("the file is %d bytes long, but an image is longer than %d", size, PreambleSize)
	}
	if string(p.Identifier[:]) != FileIdentifier {
		return "not a Light Metal image: identifier at byte 4 is not " + FileIdentifier
	}
	if p.Major != FormatMajor || p.Minor > FormatMinor {
		return otherVersionProblem + Text("(format %d.%d, this program reads %d.%d)",
			uint64(p.Major), uint64(p.Minor), FormatMajor, FormatMinor)
	}
	if p.SchemaHash != SchemaHash {
		return otherVersionProblem + Text("(schema hash %x, this program needs %x)",
			p.SchemaHash, SchemaHash)
	}
	if p.FileSize != size {
		return Text("the file is %d bytes long, but its preamble says %d", size, p.FileSize)
	}
	if p.EnvelopeSize < PreambleSize || p.EnvelopeSize > size {
		return Text("invalid envelope size %d; must be %d to %d",
			p.EnvelopeSize, PreambleSize, size)
	}
	if p.Reserved != [32]byte{} {
		return reservedProblem
	}
	return ""
}

// EnvelopeChecksum returns the CRC-32C of an envelope, or of the first part of an envelope. The
// computation treats the four bytes of Preamble.Checksum as zero.
func EnvelopeChecksum(envelope []byte) uint32 {
	sum := continueChecksum(0, envelope[:checksumOffset])
	sum = continueChecksum(sum, make([]byte, 4))
	return continueChecksum(sum, envelope[checksumOffset+4:])
}
