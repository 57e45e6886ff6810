package importer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"lightmetal/boards"
	"lightmetal/tools/record"
)

// readRecord reads what tools/record writes. Clocks of the simulator count as
// nanoseconds.
func readRecord(r io.Reader, o Options) (*Trace, error) {
	capture, err := record.Read(r)
	var place *record.Error
	if errors.As(err, &place) {
		return nil, refuse(place.Line, "%v", place.Err)
	}
	if err != nil {
		return nil, err
	}
	t := &Trace{Board: o.Board, Vendor: capture.Vendor, Device: capture.Device}
	if t.Board == nil {
		t.Board = boards.ByID(capture.Vendor, capture.Device)
	}
	if t.Board == nil {
		return nil, usage("the recording is of %04x:%04x, which no board is: name one; boards: %s", capture.Vendor, capture.Device, boardList())
	}
	time, configuration := int64(1), 0
	for i := range capture.Records {
		rec := &capture.Records[i]
		t.Lines = max(t.Lines, rec.Line)
		switch rec.Kind {
		case record.BarWrite:
			t.Accesses = split(t.Accesses, rec, OpStore, time)
		case record.BarRead:
			t.Accesses = split(t.Accesses, rec, OpLoad, time)
		case record.HostWrite, record.HostRead:
			return nil, refuse(rec.Line, "the device reaches for host memory at 0x%x, which an image of this capture would not have", rec.Offset)
		case record.ConfigWrite:
			t.Warnings = append(t.Warnings, Warning{rec.Line, "store to PCI configuration space left out: opening a device does what it needs"})
		case record.ConfigRead:
			configuration++
		case record.Clock:
			time += int64(rec.Clocks)
		}
	}
	if configuration > 0 {
		t.Ignored = append(t.Ignored, Count{"loads of PCI configuration space", configuration})
	}
	return t, nil
}

// split cuts a call of any size into naturally aligned accesses of at most 8
// bytes, lowest address first.
func split(list []Access, rec *record.Record, op Op, time int64) []Access {
	for offset, data := rec.Offset, rec.Data; len(data) > 0; {
		width := 8
		for width > len(data) || offset%uint64(width) != 0 {
			width /= 2
		}
		var value [8]byte
		copy(value[:], data[:width])
		list = append(list, Access{
			Line: rec.Line, Time: time, Op: op, Bar: rec.Bar, Width: uint8(width), Offset: offset, Value: binary.LittleEndian.Uint64(value[:]),
		})
		offset, data = offset+uint64(width), data[width:]
	}
	return list
}

func summarizeRecord(r io.Reader, o Options) (*Summary, error) {
	t, err := readRecord(r, o)
	if err != nil {
		return nil, err
	}
	s := &Summary{Lines: t.Lines, Other: t.Ignored}
	for bar := range uint8(6) {
		region := RegionSummary{Name: fmt.Sprintf("BAR %d", bar)}
		for _, a := range t.Accesses {
			if a.Bar == bar {
				region.count(a)
			}
		}
		if region.Loads+region.Stores > 0 {
			s.Regions = append(s.Regions, region)
		}
	}
	return s, nil
}
