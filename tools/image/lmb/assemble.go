package lmb

import (
	"encoding/binary"

	"lightmetal/fbs"

	flatbuffers "github.com/google/flatbuffers/go"
)

const (
	payloadAlign      = 64     // each payload starts at a multiple of it
	preambleInsertion = 72 - 8 // bytes of the preamble after the identifier
)

// payload collects data for a file and assigns their offsets. The data are not copied before the
// file is allocated.
type payload struct {
	pieces []piece
	size   uint64
	buffer []byte // memory for the file: preamble, envelope and payload
}

type piece struct {
	offset uint64
	data   []byte
}

// addPiece appends data and returns its offset.
func (p *payload) addPiece(data []byte) uint64 {
	if len(data) == 0 {
		return 0
	}
	offset := fbs.RoundUp(p.size, payloadAlign)
	p.pieces = append(p.pieces, piece{offset, data})
	p.size = offset + uint64(len(data))
	return offset
}

// segments returns the number of segments of the file: 0 or 1.
func (p *payload) segments() int {
	if p.size == 0 {
		return 0
	}
	return 1
}

// builder returns a builder for an envelope of up to max bytes. It writes directly to p.buffer,
// which has space for the preamble before the envelope and for the payload after it. So no part of
// a large file is in memory twice.
func (p *payload) builder(max int) *flatbuffers.Builder {
	end := fbs.RoundUp(uint64(preambleInsertion+max), payloadAlign)
	p.buffer = make([]byte, end+fbs.SegmentAlign+p.size)
	b := flatbuffers.NewBuilder(0)
	b.Bytes = p.buffer[preambleInsertion:end:end]
	b.Reset()
	return b
}

// assemble returns the file: the finished envelope of the builder, with the preamble inserted after
// its identifier, and the payload. segments is the position of the envelope's segments, counted
// from its end. The preamble's size is a multiple of every alignment in the schema, so all objects
// stay aligned.
func (p *payload) assemble(flat []byte, segments flatbuffers.UOffsetT) []byte {
	little, size := binary.LittleEndian, uint64(preambleInsertion+len(flat))
	start := fbs.RoundUp(size, fbs.SegmentAlign)
	end := len(p.buffer) - fbs.SegmentAlign - int(p.size)
	file := p.buffer[end-int(size):][:start+p.size]
	copy(file, flat[:8])
	clear(file[8 : 8+preambleInsertion])
	little.PutUint32(file, little.Uint32(file)+preambleInsertion)
	if p.size == 0 {
		file = file[:size]
	} else {
		for _, piece := range p.pieces {
			copy(file[start+piece.offset:], piece.data)
		}
		segment := file[size-uint64(segments)+4:] // after the length
		little.PutUint64(segment, start)
		little.PutUint64(segment[8:], p.size)
		little.PutUint32(segment[16:], fbs.Checksum(file[start:]))
	}
	Stamp(file, size)
	return file
}
