package fbs

import (
	"hash/crc32"

	"lightmetal/boards"
)

// Checksum returns the CRC-32C of data. All checksums in an image are of this kind.
func Checksum(data []byte) uint32 { return continueChecksum(0, data) }

// continueChecksum extends the CRC-32C sumBefore by data. MakeTable computes its table in the first
// call; a package variable would delay the start of every program.
func continueChecksum(sumBefore uint32, data []byte) uint32 {
	return crc32.Update(sumBefore, crc32.MakeTable(crc32.Castagnoli), data)
}

// View is a verified image. All slices except WorstCaseUs and NeededRings point into the bytes of
// the file.
type View struct {
	Reservation Reservation
	Devices     []DeviceInfo
	Rules       []AccessRule // rules for devices that package boards does not know
	Windows     []Window
	Sequences   []Sequence
	Tensors     []Tensor
	Segments    []Segment
	Rings       []Ring
	Commands    []Command
	Text        []byte // characters of all names
	Notes       []byte // FlatBuffer for host tools, not verified
	Payload     []byte // data that commands copy and compare: the bytes of all segments
	Envelope    []byte // the file before the padding and the payload

	// WorstCaseUs[i] is the longest time of sequence i in microseconds, with the sequences that it
	// calls, at most 1 << 62 (FORMAT.md section 6.3).
	WorstCaseUs []uint64

	// TimeLimitUs is the limit for each sequence in microseconds. runtime.Load rejects an image
	// with a larger WorstCaseUs, and the runtime ends a run that takes longer. Verify sets one
	// hour; the caller may change it.
	TimeLimitUs uint64

	// NeededRings[i] is the set of the rings that sequence i advances before it resets them: bit n
	// for ring n. It is nil if the image has no rings.
	NeededRings []uint32

	// NeedsFixup is true if the image has Point or Relocate commands: runtime.Load completes a copy
	// of them for its devices.
	NeedsFixup bool

	// Bit n of BusMasters is set if device n needs bus mastering: it has a Host window, or a
	// Relocate stores a bus address to it.
	BusMasters uint8

	// Version is the image version in the signature, which may not be authentic; 0: no signature.
	Version uint32

	scratchBytes uint64 // of the arena; scratch is at its start

	verified *View // see VerifiedCopy; nil if VerifyEnvelope has not made the view
}

// VerifiedCopy returns a copy of the view as Verify returned it, except that TimeLimitUs is the
// present one. The slices share memory. VerifiedCopy returns nil if neither Verify nor
// VerifyEnvelope has created the view.
func (v *View) VerifiedCopy() *View {
	if v.verified == nil {
		return nil
	}
	verified := *v.verified
	verified.TimeLimitUs = v.TimeLimitUs
	return &verified
}

// ID returns the ImageID of the image.
func (v *View) ID() string { return ImageID(ReadStruct[Preamble](v.Envelope).Checksum) }

// NameBytes returns the characters of a name, without a copy.
func (v *View) NameBytes(n NameRange) []byte { return v.Text[n>>8:][:n&NameMax] }

// Name returns a copy of a name. Inlining would make the program larger.
//
//go:noinline
func (v *View) Name(n NameRange) string { return string(v.NameBytes(n)) }

// TensorData returns the default data of an input, or the golden data (the expected result) of an
// output. It returns nil if the image has none.
func (v *View) TensorData(t *Tensor) []byte {
	if t.HasData == 0 {
		return nil
	}
	return v.Payload[t.DataOffset : t.DataOffset+t.Size]
}

// Board returns the board in package boards with the PCI ids of v.Devices[device], else a new board
// with the BAR sizes and rules of the image.
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

// SequenceByName returns the index of the first sequence with this name, or -1.
func (v *View) SequenceByName(name string) int {
	for i := range v.Sequences {
		if string(v.NameBytes(v.Sequences[i].Name)) == name {
			return i
		}
	}
	return -1
}

// TensorByName returns the index of the first tensor with this name, or -1.
func (v *View) TensorByName(name string) int {
	for i := range v.Tensors {
		if string(v.NameBytes(v.Tensors[i].Name)) == name {
			return i
		}
	}
	return -1
}

// Verify checks every byte of an image; of the notes, and of a signature after the image, only that
// they are undamaged. The view points into data, so the caller must not change data afterwards. The
// address of data must be a multiple of 8, as that of a mapped file is. Errors are *Error.
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

// VerifyEnvelope is Verify without the checksums of the payload. Until VerifyPayload has returned
// nil, the caller may copy the bytes of the payload, but must not use them in any other way.
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
		// If the checksum is wrong, the damage is reported instead of the failure.
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

// setPayload sets v.Payload from the file without its signature, and checks that the payload ends
// the file, and that the padding before it is zero.
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

// VerifyPayload checks the checksums of all segments. Errors are *Error.
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

// readEnvelope also computes the checksum of the envelope, while it checks the commands: sum is not
// valid after an error. The caller compares it with Preamble.Checksum.
func readEnvelope(envelope []byte) (v *View, sum uint32, err *Error) {
	const fieldCount = 11 // of table Image in image.fbs; the first field has number 0
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
		Rings:       VectorField[Ring](t, 10, 8, RingsMax, "rings"),
	}
	if err = t.Err; err == nil {
		err = v.verifyTables()
	}
	if err != nil {
		return nil, 0, err
	}
	// The capacities of both slices end at the same byte.
	first := cap(envelope) - cap(commands)
	sum, err = v.verifyCommands(commands, EnvelopeChecksum(envelope[:first]))
	return v, continueChecksum(sum, envelope[first+len(commands):]), err
}

const (
	otherVersionProblem = "another version of lm made the image; "
	makeAgain           = otherVersionProblem + "make it again with lm of this version "
	upgradeIt           = otherVersionProblem +
		"lm upgrade writes it in the format of this version "
)

// checkFields checks all fields except RootOffset and Checksum, for an image of `size` bytes.
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
		advice := makeAgain
		if p.Major == FormatMajor-1 {
			advice = upgradeIt
		}
		return advice + Text("(format %d.%d, this program reads %d.%d)",
			uint64(p.Major), uint64(p.Minor), FormatMajor, FormatMinor)
	}
	if p.SchemaHash != SchemaHash {
		return makeAgain + Text("(schema hash %x, this program needs %x)",
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

// EnvelopeChecksum returns the CRC-32C of an envelope, or of its first part, as if
// Preamble.Checksum were zero.
func EnvelopeChecksum(envelope []byte) uint32 {
	sum := continueChecksum(0, envelope[:checksumOffset])
	sum = continueChecksum(sum, make([]byte, 4))
	return continueChecksum(sum, envelope[checksumOffset+4:])
}
