// Package traces reads what others write while they watch a driver at work:
// Linux's mmiotrace, QEMU's memory_region_ops and vfio_region trace events, and
// what tools/capture/record writes. A reader, one a format, turns the text into accesses.
//
// Whatever a trace does not hold is refused with the line it stands in. Nothing
// is left out silently: what is, is counted.
package traces

import (
	"fmt"
	"io"
	"iter"
	"slices"

	"lightmetal/boards"
)

// The formats that Scan reads.
const FromMmiotrace, FromQemu, FromRecord = "mmiotrace", "qemu", "record"

// Source says what a trace is of.
type Source struct {
	From  string        // FromMmiotrace, FromQemu or FromRecord
	Board *boards.Board // nil: by the PCI ids in the trace; one without ids is of any device
	// mmiotrace: VVVV:DDDD or BB:DD.F, record: VVVV:DDDD or DDDD:BB:DD.F, where a trace has several
	// devices, or one that no board has the ids of
	Device string

	Incomplete bool // record: take one that is not whole

	Regions []Region // of QEMU's, that are the device

	Progress func(bytes int64) // told now and then how much of the trace is read; may be nil
}

// Trace is what a reader finds in a file.
type Trace struct {
	Board          *boards.Board
	Vendor, Device uint16 // PCI ids in the trace, 0: the board's
	Lines          int
	Ignored        []Count // lines that hold no access to the device
	Reached        int     // accesses of the device to host memory, of which Read gives none
	Warnings       []Warning
}

// Warning is something in a trace that a user should look at.
type Warning struct {
	Line int    `json:"line"` // 0: in no single line
	Text string `json:"text"`
}

func (w Warning) String() string {
	if w.Line == 0 {
		return w.Text
	}
	return fmt.Sprintf("line %d: %s", w.Line, w.Text)
}

// Count is how often something was seen.
type Count struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

// Sink takes what a reader finds, in order. Start comes first.
type Sink interface {
	Start(b *boards.Board)

	// Access is a load or store of a natural width, or a mark.
	Access(a *Access) error

	// Block is an access of any size, from a.Offset on; where a.Width is not 0 it is several
	// of that width, one after the other.
	Block(a *Access, data []byte) error

	// Device is an access of the device to host memory.
	Device(line int, time int64, write bool, bus uint64, data []byte) error

	// Memory is host memory that the device reaches from here on, of zeros. Then
	// what Device gives are not the device's accesses: what the program stored
	// there before what follows, and what it could see that the device wrote.
	Memory(line int, bus, size uint64) error
}

// Scan has a sink take what a trace holds. The error is an *Error.
func Scan(r io.Reader, s Source, to Sink) (*Trace, error) {
	switch s.From {
	case FromMmiotrace:
		return readMmiotrace(r, s, to)
	case FromQemu:
		return readQemu(r, s, to)
	case FromRecord:
		return readRecord(r, s, to)
	}
	return nil, s.unknown()
}

func (s *Source) unknown() error {
	return Usage("unknown format %q; it must be %s, %s or %s", s.From, FromMmiotrace, FromQemu,
		FromRecord)
}

// Read gives the accesses to the device, and marks, in order. The error is an *Error.
func Read(r io.Reader, s Source) (*Trace, []Access, error) {
	var list []Access
	c := tally{each: func(a *Access) { list = append(list, *a) }}
	t, err := Scan(r, s, &c)
	if err != nil {
		return nil, nil, err
	}
	t.Reached = c.transfers
	return t, list, nil
}

// tally is the sink of Read, and of summaries.
type tally struct {
	each                     func(a *Access) // loads, stores and marks
	bars                     [6]RegionSummary
	transfers                int // of the device to and from host memory
	reached, stored, written int // bytes of it
}

func (s *tally) Start(*boards.Board) {}

func (s *tally) Access(a *Access) error {
	if a.Op != OpMark {
		s.bars[a.Bar].count(*a)
	}
	if s.each != nil {
		s.each(a)
	}
	return nil
}

func (s *tally) Block(a *Access, data []byte) error { return Single(a, data, s.Access) }

func (s *tally) Device(_ int, _ int64, write bool, _ uint64, data []byte) error {
	s.transfers++
	if write {
		s.written += len(data)
	} else {
		s.stored += len(data)
	}
	return nil
}

func (s *tally) Memory(_ int, _, size uint64) error {
	s.reached += int(size)
	return nil
}

// Natural cuts one access of any size into naturally aligned ones of at most 8 bytes, lowest
// address first. Neighbours of 8 bytes come together, as the first of them and the bytes of
// all.
func Natural(a Access, data []byte) iter.Seq2[*Access, []byte] {
	return func(yield func(*Access, []byte) bool) {
		for at, size := a.Offset, 0; len(data) > 0; data, at = data[size:], at+uint64(size) {
			e := a
			e.Width, e.Offset = 8, at
			for int(e.Width) > len(data) || at%uint64(e.Width) != 0 {
				e.Width /= 2
			}
			if size = int(e.Width); size == 8 {
				size = len(data) &^ 7
			}
			if !yield(&e, data[:size:size]) {
				return
			}
		}
	}
}

// Neighbours has do take what Block says as naturally aligned accesses, lowest address first:
// those of one width together, as the first of them and the bytes of all.
func Neighbours(a *Access, data []byte, do func(a *Access, data []byte) error) error {
	if a.Width != 0 && a.Offset%uint64(a.Width) == 0 {
		return do(a, data)
	}
	size := len(data)
	if a.Width != 0 {
		size = int(a.Width)
	}
	for one := *a; len(data) > 0; one.Offset += uint64(size) {
		for first, part := range Natural(one, data[:size]) {
			if err := do(first, part); err != nil {
				return err
			}
		}
		data = data[size:]
	}
	return nil
}

// Single is Neighbours with every access by itself.
func Single(a *Access, data []byte, do func(a *Access) error) error {
	return Neighbours(a, data, func(first *Access, data []byte) error {
		for part := range slices.Chunk(data, int(first.Width)) {
			e := *first
			e.Value = Little(part)
			if err := do(&e); err != nil {
				return err
			}
			first.Offset += uint64(first.Width)
		}
		return nil
	})
}
