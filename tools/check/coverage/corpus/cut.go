package corpus

import (
	"bytes"
	"encoding/binary"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// Cut divides the only segment of a file into several, with the given numbers of pages, which no
// tool writes. It appends the vector of segments to the envelope.
func Cut(file []byte, pages []int) []byte {
	const page = fbs.SegmentAlign
	envelope := bytes.Clone(file[:binary.LittleEndian.Uint64(file[32:])])
	payload := file[fbs.RoundUp(uint64(len(envelope)), page):]
	for len(envelope)%8 != 4 {
		envelope = append(envelope, 0)
	}
	at := len(envelope)
	start := fbs.RoundUp(uint64(at+4+24*len(pages)), page)
	envelope = binary.LittleEndian.AppendUint32(envelope, uint32(len(pages)))
	from := 0
	for _, count := range pages {
		part := payload[from:min(from+count*page, len(payload))]
		envelope = binary.LittleEndian.AppendUint64(envelope, start+uint64(from))
		envelope = binary.LittleEndian.AppendUint64(envelope, uint64(len(part)))
		envelope = binary.LittleEndian.AppendUint32(envelope, fbs.Checksum(part))
		envelope = binary.LittleEndian.AppendUint32(envelope, 0)
		from += count * page
	}
	root := gen.GetRootAsImage(envelope, 0)
	table := root.Table()
	field := int(table.Pos) + int(table.Offset(4+2*5)) // the field of the segments
	binary.LittleEndian.PutUint32(envelope[field:], uint32(at-field))
	reservation := root.Reservation(nil)
	reservation.MutateSegments(uint32(len(pages)))
	result := append(envelope, make([]byte, int(start)-len(envelope))...)
	result = append(result, payload...)
	lmb.Stamp(result, uint64(len(envelope)))
	return result
}
