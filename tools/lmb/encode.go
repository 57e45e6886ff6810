package lmb

import (
	"encoding/binary"
	"fmt"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Encode gives the file of an image. The file has passed fbs.Verify; an image
// that cannot is an error. Equal images give equal bytes.
func Encode(image *Image) ([]byte, error) {
	e := encoder{image: image, names: map[string]uint16{}}
	e.layOut()
	if e.err != nil {
		return nil, e.err
	}
	file := e.payload.assemble(e.room(), e.build, func(s fbs.Segment) { e.segments = []fbs.Segment{s} })
	if _, err := fbs.Verify(file); err != nil {
		return nil, err
	}
	return file, nil
}

// encoder turns an image into the tables of image.fbs.
type encoder struct {
	image    *Image
	names    map[string]uint16
	nameList []string
	payload  payload
	recorded []uint64 // payload offset of each tensor's data
	commands []fbs.Command
	runs     []fbs.Sequence
	segments []fbs.Segment
	err      error
}

// layOut places payload and names, and resolves the commands' references.
func (e *encoder) layOut() {
	commands := len(e.image.Sequences)
	for i := range e.image.Sequences {
		commands += len(e.image.Sequences[i].Commands)
	}
	e.commands = make([]fbs.Command, 0, commands)
	e.segments = []fbs.Segment{{}} // as many as there will be
	for _, w := range e.image.Windows {
		if w.Name != "" {
			e.name(w.Name)
		}
	}
	for i := range e.image.Tensors {
		e.recorded = append(e.recorded, e.payload.place(e.image.Tensors[i].Data))
	}
	for i := range e.image.Sequences {
		e.sequence(&e.image.Sequences[i])
	}
	if e.payload.size == 0 {
		e.segments = nil
	}
}

func (e *encoder) sequence(s *Sequence) {
	first := len(e.commands)
	for i := range s.Commands {
		c := s.Commands[i].Command
		switch {
		case c.Opcode == gen.OpcodeMark:
			c.Index = e.name(s.Commands[i].Name)
		case hasPayload(&c):
			c.Amount = uint32(len(s.Commands[i].Data))
			c.Value = e.payload.place(s.Commands[i].Data)
		}
		e.commands = append(e.commands, c)
	}
	e.commands = append(e.commands, fbs.End(e.commands[first:]))
	e.runs = append(e.runs, fbs.Sequence{Name: s.Name, First: uint32(first), Count: uint32(len(e.commands) - first)})
}

func hasPayload(c *fbs.Command) bool {
	return c.Opcode == gen.OpcodeCompare || c.Opcode == gen.OpcodeCopyIn && gen.Source(c.Mode) == gen.SourcePayload
}

func (e *encoder) name(name string) uint16 {
	index, ok := e.names[name]
	if !ok {
		if len(e.nameList) >= fbs.NoName {
			e.err = fmt.Errorf("more than %d names", fbs.NoName)
			return 0
		}
		index = uint16(len(e.nameList))
		e.names[name] = index
		e.nameList = append(e.nameList, name)
	}
	return index
}

// room is about how many bytes the envelope has, rather too many.
func (e *encoder) room() int {
	text := 0
	for _, name := range e.nameList {
		text += len(name) + 16
	}
	return 32*len(e.commands) + text + 512*(len(e.image.Tensors)+len(e.runs)+len(e.image.Windows)+len(e.image.Targets)) + 4096
}

// build writes the FlatBuffer.
func (e *encoder) build(b *flatbuffers.Builder) {
	commands := e.buildCommands(b)
	segments := vector(b, gen.ImageStartSegmentsVector, e.segments, func(s fbs.Segment) {
		gen.CreateSegment(b, s.Offset, s.Size, s.CRC32C, s.Reserved)
	})
	tensors := offsets(b, gen.ImageStartTensorsVector, e.buildTensors(b))
	sequences := offsets(b, gen.ImageStartSequencesVector, e.buildSequences(b))
	names := offsets(b, gen.ImageStartNamesVector, texts(b, e.nameList))
	windows := vector(b, gen.ImageStartWindowsVector, e.image.Windows, func(w Window) {
		name := uint16(fbs.NoName)
		if w.Name != "" {
			name = e.names[w.Name]
		}
		gen.CreateWindow(b, w.Kind, w.Device, w.Bar, w.Flags, w.Slot, name, w.Offset, w.Size)
	})
	targets := offsets(b, gen.ImageStartTargetsVector, e.buildTargets(b))
	origin := e.buildOrigin(b)

	gen.ImageStart(b)
	gen.ImageAddOrigin(b, origin)
	r := e.reservation()
	gen.ImageAddReservation(b, gen.CreateReservation(b, r.ArenaBytes, r.HostBytes, r.PayloadBytes,
		r.Commands, r.Windows, r.Tensors, r.Sequences, r.Segments, r.Names))
	gen.ImageAddTargets(b, targets)
	gen.ImageAddWindows(b, windows)
	gen.ImageAddNames(b, names)
	gen.ImageAddSequences(b, sequences)
	gen.ImageAddTensors(b, tensors)
	gen.ImageAddSegments(b, segments)
	gen.ImageAddCommands(b, commands)
	b.FinishWithFileIdentifier(gen.ImageEnd(b), []byte(fbs.Identifier))
}

func (e *encoder) buildCommands(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	return vector(b, gen.ImageStartCommandsVector, e.commands, func(c fbs.Command) {
		gen.CreateCommand(b, c.Opcode, c.Width, c.Mode, c.Option, c.Window, c.Index, c.Offset, c.Amount, c.Value, c.Mask)
	})
}

// vector writes a vector of structs; FlatBuffers are built from the end.
func vector[T any](b *flatbuffers.Builder, start func(*flatbuffers.Builder, int) flatbuffers.UOffsetT, list []T, add func(T)) flatbuffers.UOffsetT {
	start(b, len(list))
	for _, element := range slices.Backward(list) {
		add(element)
	}
	return b.EndVector(len(list))
}

// offsets writes a vector of references to what has been written.
func offsets(b *flatbuffers.Builder, start func(*flatbuffers.Builder, int) flatbuffers.UOffsetT, list []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	return vector(b, start, list, func(o flatbuffers.UOffsetT) { b.PrependUOffsetT(o) })
}

func texts(b *flatbuffers.Builder, list []string) (written []flatbuffers.UOffsetT) {
	for _, text := range list {
		written = append(written, b.CreateString(text))
	}
	return written
}

func (e *encoder) buildOrigin(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	o := &e.image.Origin
	strings := texts(b, []string{o.Tool, o.Source, o.Git})
	gen.OriginStart(b)
	gen.OriginAddTool(b, strings[0])
	gen.OriginAddSource(b, strings[1])
	gen.OriginAddTime(b, o.Time)
	gen.OriginAddGit(b, strings[2])
	return gen.OriginEnd(b)
}

func (e *encoder) buildTargets(b *flatbuffers.Builder) (written []flatbuffers.UOffsetT) {
	for _, t := range e.image.Targets {
		board := b.CreateString(t.Board)
		bars := vector(b, gen.TargetStartBarsVector, t.Bars[:], b.PrependUint64)
		gen.TargetStart(b)
		gen.TargetAddBoard(b, board)
		gen.TargetAddVendor(b, t.Vendor)
		gen.TargetAddDevice(b, t.Device)
		gen.TargetAddBars(b, bars)
		written = append(written, gen.TargetEnd(b))
	}
	return written
}

func (e *encoder) buildSequences(b *flatbuffers.Builder) (written []flatbuffers.UOffsetT) {
	for _, s := range e.runs {
		name := b.CreateString(s.Name)
		gen.SequenceStart(b)
		gen.SequenceAddName(b, name)
		gen.SequenceAddFirst(b, s.First)
		gen.SequenceAddCount(b, s.Count)
		written = append(written, gen.SequenceEnd(b))
	}
	return written
}

func (e *encoder) buildTensors(b *flatbuffers.Builder) (written []flatbuffers.UOffsetT) {
	arena := uint64(0)
	for i := range e.image.Tensors {
		t := &e.image.Tensors[i]
		name := b.CreateString(t.Name)
		shape := vector(b, gen.TensorStartShapeVector, t.Shape, b.PrependUint32)
		gen.TensorStart(b)
		gen.TensorAddName(b, name)
		gen.TensorAddRole(b, t.Role)
		gen.TensorAddDtype(b, t.DType)
		gen.TensorAddShape(b, shape)
		gen.TensorAddSize(b, t.Size())
		gen.TensorAddArenaOffset(b, arena)
		gen.TensorAddRecorded(b, t.Data != nil)
		gen.TensorAddRecordedOffset(b, e.recorded[i])
		written = append(written, gen.TensorEnd(b))
		arena = roundUp(arena+t.Size(), fbs.ArenaAlign)
	}
	return written
}

func (e *encoder) reservation() fbs.Reservation {
	r := fbs.Reservation{
		PayloadBytes: e.payload.size,
		Commands:     uint32(len(e.commands)),
		Windows:      uint32(len(e.image.Windows)),
		Tensors:      uint32(len(e.image.Tensors)),
		Sequences:    uint32(len(e.runs)),
		Segments:     uint32(len(e.segments)),
		Names:        uint32(len(e.nameList)),
	}
	for i := range e.image.Tensors {
		r.ArenaBytes = roundUp(r.ArenaBytes+e.image.Tensors[i].Size(), fbs.ArenaAlign)
	}
	for _, w := range e.image.Windows {
		if w.Kind == gen.WindowKindHost {
			r.HostBytes += roundUp(w.Size, fbs.SegmentAlign)
		}
	}
	return r
}

// Stamp fills the preamble of a file whose envelope has this many bytes:
// version, schema hash, sizes and checksum.
func Stamp(file []byte, envelopeSize uint64) {
	little := binary.LittleEndian
	little.PutUint16(file[8:], fbs.FormatMajor)
	little.PutUint16(file[10:], fbs.FormatMinor)
	little.PutUint64(file[16:], fbs.SchemaHash)
	little.PutUint64(file[24:], uint64(len(file)))
	little.PutUint64(file[32:], envelopeSize)
	little.PutUint32(file[12:], fbs.EnvelopeChecksum(file[:envelopeSize]))
}

func roundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }
