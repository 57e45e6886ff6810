package lmb

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Encode returns the file of an image, or an error if the file does not pass fbs.Verify, ReadNotes
// and Quality. Data that overlap in memory share payload in the file. Equal images whose data
// overlap in the same way have equal files.
func Encode(image *Image) ([]byte, error) {
	file, view, err := encode(image)
	if err != nil {
		return nil, err
	}
	if err := Quality(view); err != nil {
		return nil, err
	}
	return file, nil
}

// encode is like Encode, but does not check Quality.
func encode(image *Image) ([]byte, *fbs.View, error) {
	e := encoder{image: image, text: text{names: map[string]fbs.NameRange{}}, notes: notesOf(image)}
	e.assignPositions()
	if e.err != nil {
		return nil, nil, e.err
	}
	noted, err := e.notes.build()
	if err != nil {
		return nil, nil, err
	}
	b := e.payload.builder(e.envelopeMax(len(noted)))
	segments := e.build(b, noted)
	file := e.payload.assemble(b.FinishedBytes(), segments)
	view, err := fbs.Verify(file)
	if err != nil {
		return nil, nil, err
	}
	_, err = ReadNotes(view)
	return file, view, err
}

// encoder turns an image into the tables of image.fbs.
type encoder struct {
	image          *Image
	text           text
	notes          *Notes
	payload        payload
	dataOffsets    []uint64 // payload offset of each tensor's data
	payloadOffsets []uint64 // payload offsets of the commands' data, in their order
	commands       int
	arena          uint64 // bytes of the tensors built so far
	sequences      []fbs.Sequence
	err            error
}

// text collects all names; equal names share bytes.
type text struct {
	bytes []byte
	names map[string]fbs.NameRange
}

func (t *text) addName(name string) (fbs.NameRange, error) {
	if len(name) == 0 || len(name) > fbs.NameMax || len(t.bytes)+len(name) > fbs.TextMax {
		return 0,
			fmt.Errorf("name %q has %d bytes; a name must have 1 to %d bytes, "+
				"and all names together at most %d bytes",
				name, len(name), fbs.NameMax, fbs.TextMax)
	}
	if !fbs.IsPlainText([]byte(name)) {
		return 0, fmt.Errorf("name %+q has an invisible or control character, or is not UTF-8; "+
			"rename it", name)
	}
	n, ok := t.names[name]
	if !ok {
		n = fbs.NameRange(len(t.bytes)<<8 | len(name))
		t.names[name] = n
		t.bytes = append(t.bytes, name...)
	}
	return n, nil
}

// addName adds a name to the text and keeps the first error.
func (e *encoder) addName(what, name string) fbs.NameRange {
	n, err := e.text.addName(name)
	if err != nil && e.err == nil {
		e.err = fmt.Errorf("%s: %w", what, err)
	}
	return n
}

// assignPositions assigns the positions of payload and names, and the ranges of the sequences.
func (e *encoder) assignPositions() {
	offsets := e.payload.assignOffsets(e.image.pieces())
	tensors := len(e.image.Tensors)
	e.dataOffsets, e.payloadOffsets = offsets[:tensors], offsets[tensors:]
	for i := range e.image.Devices {
		e.addName(fmt.Sprintf("device %d", i), e.image.Devices[i].Board)
	}
	for i := range e.image.Rules {
		e.addName(fmt.Sprintf("rule %d", i), e.image.Rules[i].Name)
	}
	for i := range e.image.Tensors {
		e.addName(fmt.Sprintf("tensor %d", i), e.image.Tensors[i].Name)
		if n := len(e.image.Tensors[i].Shape); n > fbs.DimsMax && e.err == nil {
			e.err = fmt.Errorf("tensor %d has %d dimensions; at most %d are possible", i, n,
				fbs.DimsMax)
		}
	}
	for i := range e.image.Rings {
		e.addName(fmt.Sprintf("ring %d", i), e.image.Rings[i].Name)
	}
	for i := range e.image.Sequences {
		e.addSequence(i)
	}
}

func (e *encoder) addSequence(index int) {
	s := &e.image.Sequences[index]
	first := e.commands
	for c := range s.All() {
		if c.Opcode == OpcodeMark {
			e.notes.Marks = append(e.notes.Marks,
				Mark{e.commands, gen.MarkKind(c.Mode), string(c.Data)})
			continue
		}
		e.commands++
	}
	e.commands++ // End
	if !fbs.IsSequenceName([]byte(s.Name)) && e.err == nil {
		e.err = fmt.Errorf("sequence %d: the name %+q must be printable ASCII without blanks; "+
			"rename it", index, s.Name)
	}
	e.sequences = append(e.sequences, fbs.Sequence{Name: e.addName(fmt.Sprintf("sequence %d",
		index), s.Name),
		First: uint32(first),
		Count: uint32(e.commands - first)})
}

// buildCommands writes the commands of all sequences directly to the envelope. A separate list of
// them would double the memory that encoding needs.
func (e *encoder) buildCommands(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	offsets := e.payloadOffsets
	gen.ImageStartCommandsVector(b, e.commands)
	b.Pad(e.commands * fbs.CommandSize)
	list := b.Bytes[b.Head():]
	add := func(c *fbs.Command) {
		copy(list, unsafe.Slice((*byte)(unsafe.Pointer(c)), fbs.CommandSize))
		list = list[fbs.CommandSize:]
	}
	for i := range e.image.Sequences {
		for c := range e.image.Sequences[i].All() {
			command := c.Command
			switch {
			case command.Opcode == OpcodeMark:
				continue
			case HasPayload(&command):
				command.Amount, command.Value = uint32(len(c.Data)), offsets[0]
				offsets = offsets[1:]
			}
			add(&command)
		}
		add(&fbs.Command{Opcode: gen.OpcodeEnd})
	}
	return b.EndVector(e.commands)
}

// envelopeMax returns an upper limit of the size of the envelope.
func (e *encoder) envelopeMax(notes int) int {
	// Maximum size of any struct, and of all objects that occur once, in bytes
	const structs, fixed = 256, 1 << 12
	i := e.image
	return e.commands*fbs.CommandSize + len(e.text.bytes) + notes + fixed + structs*(len(i.Devices)+
		len(i.Rules)+len(i.Windows)+len(i.Rings)+len(i.Tensors)+len(i.Sequences)+
		e.payload.segments())
}

// build writes the FlatBuffer, and returns the position of the vector of segments, which
// are still zero.
func (e *encoder) build(b *flatbuffers.Builder, noted []byte) flatbuffers.UOffsetT {
	commands := e.buildCommands(b)
	segments := vector(b, gen.ImageStartSegmentsVector, make([]fbs.Segment, e.payload.segments()),
		func(fbs.Segment) {
			gen.CreateSegment(b, 0, 0, 0, 0)
		})
	tensors := e.buildTensors(b)
	sequences := vector(b, gen.ImageStartSequencesVector, e.sequences, func(s fbs.Sequence) {
		gen.CreateSequence(b, s.Name, s.First, s.Count)
	})
	windows := vector(b, gen.ImageStartWindowsVector, e.image.Windows, func(w Window) {
		gen.CreateWindow(b, w.Kind, w.Device, w.Bar, w.Flags, w.Slot, w.Reserved, w.Offset, w.Size)
	})
	devices := vector(b, gen.ImageStartDevicesVector, e.image.Devices, func(t Device) {
		gen.CreateDevice(b, t.Bars[0], t.Bars[1], t.Bars[2], t.Bars[3], t.Bars[4], t.Bars[5],
			e.text.names[t.Board], t.Vendor, t.Device,
			t.Subsystem, t.Vectors, t.Interrupts, 0)
	})
	rules := vector(b, gen.ImageStartRulesVector, e.image.Rules, func(r Rule) {
		gen.CreateRule(b, r.First, r.Last, r.Device, r.Bar, r.Widths, r.Memory,
			e.text.names[r.Name])
	})
	var rings flatbuffers.UOffsetT
	if len(e.image.Rings) > 0 { // an absent vector takes no bytes
		rings = vector(b, gen.ImageStartRingsVector, e.image.Rings, func(r Ring) {
			gen.CreateRing(b, r.Begin, r.End, r.First, e.text.names[r.Name], 0)
		})
	}
	text := vector(b, gen.ImageStartTextVector, e.text.bytes, b.PrependByte)
	// The notes are a separate FlatBuffer, which is read in place.
	notes := vector(b, func(b *flatbuffers.Builder,
		n int) flatbuffers.UOffsetT {
		return b.StartVector(1, n, 8)
	}, noted, b.PrependByte)

	gen.ImageStart(b)
	r := e.reservation()
	gen.ImageAddReservation(b, gen.CreateReservation(b, r.ArenaBytes, r.HostBytes, r.PayloadBytes,
		r.Commands, r.Windows, r.Tensors, r.Sequences, r.Segments, r.Devices))
	gen.ImageAddDevices(b, devices)
	gen.ImageAddWindows(b, windows)
	gen.ImageAddSequences(b, sequences)
	gen.ImageAddTensors(b, tensors)
	gen.ImageAddSegments(b, segments)
	gen.ImageAddCommands(b, commands)
	gen.ImageAddText(b, text)
	gen.ImageAddNotes(b, notes)
	gen.ImageAddRules(b, rules)
	gen.ImageAddRings(b, rings)
	b.FinishWithFileIdentifier(gen.ImageEnd(b), []byte(fbs.FileIdentifier))
	return segments
}

// vector writes a vector of structs or numbers; FlatBuffers are built from the end.
func vector[T any](b *flatbuffers.Builder, start func(*flatbuffers.Builder,
	int) flatbuffers.UOffsetT, list []T, add func(T)) flatbuffers.UOffsetT {
	start(b, len(list))
	for _, element := range slices.Backward(list) {
		add(element)
	}
	return b.EndVector(len(list))
}

func (e *encoder) buildTensors(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	var tensors []fbs.Tensor
	e.arena = 0
	for i := range e.image.Tensors {
		t := &e.image.Tensors[i]
		tensor := fbs.Tensor{TensorT: gen.TensorT{Name: e.text.names[t.Name], Role: t.Role,
			Dtype: t.DType, Dims: uint8(len(t.Shape)), Size: t.Size(),
			ArenaOffset: e.arena, DataOffset: e.dataOffsets[i]}}
		copy(tensor.Shape()[:], t.Shape)
		if t.Data != nil {
			tensor.HasData = 1
		}
		tensors = append(tensors, tensor)
		e.arena = fbs.RoundUp(e.arena+t.Size(), fbs.ArenaAlign)
	}
	return vector(b, gen.ImageStartTensorsVector, tensors, func(t fbs.Tensor) {
		gen.CreateTensor(b, t.Name, t.Role, t.HasData, t.Dtype, t.Dims, t.Size, t.ArenaOffset,
			t.DataOffset,
			t.Shape0, t.Shape1, t.Shape2, t.Shape3, t.Shape4, t.Shape5, t.Shape6, t.Shape7)
	})
}

func (e *encoder) reservation() fbs.Reservation {
	r := fbs.Reservation{
		ArenaBytes:   e.arena,
		PayloadBytes: e.payload.size,
		Commands:     uint32(e.commands),
		Windows:      uint32(len(e.image.Windows)),
		Tensors:      uint32(len(e.image.Tensors)),
		Sequences:    uint32(len(e.sequences)),
		Segments:     uint32(e.payload.segments()),
		Devices:      uint32(len(e.image.Devices)),
	}
	for _, w := range e.image.Windows {
		if w.Kind == gen.WindowKindHost {
			r.HostBytes += fbs.RoundUp(w.Size, fbs.SegmentAlign)
		}
	}
	return r
}

// Stamp writes the preamble of a file with an envelope of envelopeSize bytes: version, schema hash,
// sizes and checksum.
func Stamp(file []byte, envelopeSize uint64) {
	little := binary.LittleEndian
	little.PutUint16(file[8:], fbs.FormatMajor)
	little.PutUint16(file[10:], fbs.FormatMinor)
	little.PutUint64(file[16:], fbs.SchemaHash)
	little.PutUint64(file[24:], uint64(len(file)))
	little.PutUint64(file[32:], envelopeSize)
	little.PutUint32(file[12:], fbs.EnvelopeChecksum(file[:envelopeSize]))
}
