package lmb

import (
	"encoding/binary"

	"lightmetal/fbs"

	flatbuffers "github.com/google/flatbuffers/go"
)

const (
	payloadAlign      = 64     // each payload starts at a multiple of it
	preambleInsertion = 72 - 8 // bytes of the preamble behind the identifier
)

// payload is data on its way into a file: where each piece of it goes. Nothing
// is copied before the file is there.
type payload struct {
	pieces []piece
	size   uint64
}

type piece struct {
	offset uint64
	data   []byte
}

// place gives data a place behind what is there, and its offset.
func (p *payload) place(data []byte) uint64 {
	if len(data) == 0 {
		return 0
	}
	offset := fbs.RoundUp(p.size, payloadAlign)
	p.pieces = append(p.pieces, piece{offset, data})
	p.size = offset + uint64(len(data))
	return offset
}

// segments is how many segments the data lies in.
func (p *payload) segments() int {
	if p.size == 0 {
		return 0
	}
	return 1
}

// assemble makes the file: in one buffer, with room in front of the envelope,
// which FlatBuffers build from its end. write writes the envelope, and gives the
// place of its segments, which depend on the size of the envelope.
func (p *payload) assemble(room int, write func(b *flatbuffers.Builder) flatbuffers.UOffsetT) []byte {
	buffer, envelope, segments := p.built(room, write)
	size := uint64(len(envelope))
	file := envelope
	if p.size > 0 {
		start := fbs.RoundUp(size, fbs.SegmentAlign)
		file = buffer[cap(buffer)-cap(envelope):][:start+p.size]
		for _, piece := range p.pieces {
			copy(file[start+piece.offset:], piece.data)
		}
		segment := envelope[len(envelope)-int(segments)+4:] // counted from the end; behind the length
		binary.LittleEndian.PutUint64(segment, start)
		binary.LittleEndian.PutUint64(segment[8:], p.size)
		binary.LittleEndian.PutUint32(segment[16:], fbs.Checksum(file[start:]))
	}
	Stamp(file, size)
	return file
}

// built writes the envelope into a buffer that has room for the payload behind
// it, and gives both; the envelope's capacity reaches to the buffer's end.
func (p *payload) built(room int, write func(b *flatbuffers.Builder) flatbuffers.UOffsetT) (buffer, envelope []byte, segments flatbuffers.UOffsetT) {
	for {
		room = int(fbs.RoundUp(uint64(room), payloadAlign)) // the envelope begins where the buffer is aligned
		buffer = make([]byte, uint64(room)+fbs.SegmentAlign+p.size)
		b := flatbuffers.NewBuilder(0)
		b.Bytes = buffer[:room:room] // written from its end on
		b.Reset()
		segments = write(b)
		flat := b.FinishedBytes()
		start := room - len(flat) - preambleInsertion
		if len(b.Bytes) == room && start >= 0 {
			envelope = buffer[start:room]
			insertPreamble(envelope)
			return buffer, envelope, segments
		}
		room = len(b.Bytes) + preambleInsertion
	}
}

// insertPreamble makes room for the preamble behind the file identifier of an
// envelope that has as many bytes in front. Its size is a multiple of every
// alignment in the schema, so all objects stay aligned.
func insertPreamble(envelope []byte) {
	head := envelope[preambleInsertion:][:8]
	root := binary.LittleEndian.Uint32(head)
	copy(envelope, head)
	clear(head)
	clear(envelope[8:][:preambleInsertion])
	binary.LittleEndian.PutUint32(envelope, root+preambleInsertion)
}
