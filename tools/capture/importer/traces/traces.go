// Package traces reads traces of a driver at work: Linux's mmiotrace and rwmmio, QEMU's
// memory_region_ops and vfio_region trace events, and the recordings of tools/capture/record. Each
// format has a reader that turns the text into accesses.
//
// If a trace lacks something, the error names the line. Nothing is left out silently: lines that
// are left out are counted.
package traces

import (
	"fmt"
	"io"
	"iter"
	"slices"

	"lightmetal/boards"
)

// The formats that Scan reads.
const FromMmiotrace, FromRwmmio, FromQemu, FromRecord = "mmiotrace", "rwmmio", "qemu", "record"

// Source describes a trace.
type Source struct {
	From string // FromMmiotrace, FromRwmmio, FromQemu or FromRecord
	// Nil: the board with the PCI ids of the trace. A board without ids: any device
	Board *boards.Board
	// Selects the device if a trace has several, or one with ids of no known board. mmiotrace:
	// VVVV:DDDD or BB:DD.F; record: VVVV:DDDD or DDDD:BB:DD.F
	Device string

	Incomplete bool // record: accept an incomplete recording

	// QEMU: the memory regions that are BARs of the device. rwmmio: their bases in the kernel
	Regions []Region
	// rwmmio: the device's BARs may be smaller than Board says, so their bases may be nearer
	BarSizesAreLimits bool

	// Called from time to time with the number of bytes of the trace that were read; may be nil
	Progress func(bytes int64)
}

// Trace is the result of reading a trace.
type Trace struct {
	Board          *boards.Board
	Vendor, Device uint16 // PCI ids in the trace; 0: those of the board
	Lines          int
	Ignored        []Count    // lines without an access to the device, by kind
	HostAccesses   int        // accesses of the device to host memory, which Read does not return
	MSIX           *MSIXTable // nil: not known
	Vectors        Vectors    // that the program enabled in configuration space
	Warnings       []Warning
}

// Warning is a text about a trace for the user.
type Warning struct {
	Line int    `json:"line"` // 0: not about a single line
	Text string `json:"text"`
}

func (w Warning) String() string {
	if w.Line == 0 {
		return w.Text
	}
	return fmt.Sprintf("line %d: %s", w.Line, w.Text)
}

// Count is the number of lines of one kind.
type Count struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

// Sink receives the contents of a trace, in order. Start is called first.
type Sink interface {
	Start(b *boards.Board)

	// Access receives a load or store of a natural width, a mark, or a line that no image can
	// repeat.
	Access(a *Access) error

	// Block receives an access of any size that starts at a.Offset. If a.Width is not 0, the block
	// is several consecutive accesses of that width.
	Block(a *Access, data []byte) error

	// Device receives an access of the device to host memory.
	Device(line int, time int64, write bool, bus uint64, data []byte) error

	// Both receives a change of host memory that the program or the device made; the recording does
	// not show which of them.
	Both(line int, time int64, bus uint64, data []byte) error

	// Memory receives a range of host memory that the device can access from here on. It initially
	// contains zeros. After a call of Memory, Device does not receive accesses of the device, but
	// changes of this memory: what the program stored before the next record, and what the program
	// could observe that the device wrote.
	Memory(line int, bus, size uint64) error
}

// Scan reads a trace and passes its contents to a sink. The error is an *Error.
func Scan(r io.Reader, s Source, to Sink) (*Trace, error) {
	switch s.From {
	case FromMmiotrace:
		return readMmiotrace(r, s, to)
	case FromRwmmio:
		return readRwmmio(r, s, to)
	case FromQemu:
		return readQemu(r, s, to)
	case FromRecord:
		return readRecord(r, s, to)
	}
	return nil, s.formatError()
}

func (s *Source) formatError() error {
	return UsageError("unknown format %q; it must be %s, %s, %s or %s", s.From, FromMmiotrace,
		FromRwmmio, FromQemu, FromRecord)
}

// Read returns the accesses to the device, and marks, in order. The error is an *Error.
func Read(r io.Reader, s Source) (t *Trace, list []Access, err error) {
	if t, err = Each(r, s, func(a *Access) { list = append(list, *a) }); err != nil {
		return nil, nil, err
	}
	return t, list, nil
}

// Each calls do with each access that Read returns, which is valid until do returns.
func Each(r io.Reader, s Source, do func(a *Access)) (*Trace, error) {
	c := tally{onAccess: do}
	t, err := Scan(r, s, &c)
	if err != nil {
		return nil, err
	}
	t.HostAccesses = c.transfers
	return t, nil
}

// tally is the sink of Each and of summaries.
type tally struct {
	onAccess   func(a *Access) // loads, stores and marks
	bars       [6]RegionSummary
	transfers  int // number of accesses of the device to host memory
	interrupts int

	hostBytes, storedBytes, writtenBytes, bothBytes int // bytes of host memory
}

func (s *tally) Start(*boards.Board) {}

func (s *tally) Access(a *Access) error {
	switch a.Op {
	case OpRejected, OpLost:
		return TraceError(a.Line, "%s", a.Name)
	case OpInterrupt:
		s.interrupts++
		return nil
	case OpLoad, OpStore:
		s.bars[a.Bar].count(*a)
	}
	if s.onAccess != nil {
		s.onAccess(a)
	}
	return nil
}

func (s *tally) Block(a *Access, data []byte) error { return EachAccess(a, data, s.Access) }

func (s *tally) Device(_ int, _ int64, write bool, _ uint64, data []byte) error {
	s.transfers++
	if write {
		s.writtenBytes += len(data)
	} else {
		s.storedBytes += len(data)
	}
	return nil
}

func (s *tally) Both(_ int, _ int64, _ uint64, data []byte) error {
	s.transfers++
	s.bothBytes += len(data)
	return nil
}

func (s *tally) Memory(_ int, _, size uint64) error {
	s.hostBytes += int(size)
	return nil
}

// NaturalAccesses splits an access of any size into naturally aligned accesses of at most 8 bytes,
// lowest address first. It yields consecutive accesses of 8 bytes together: the first of them, with
// the bytes of all.
func NaturalAccesses(a Access, data []byte) iter.Seq2[*Access, []byte] {
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

// SplitBlock splits a block (see Sink.Block) into naturally aligned accesses, lowest address first.
// It calls `do` for each sequence of accesses of one width, with the first of them and the bytes of
// all.
func SplitBlock(a *Access, data []byte, do func(a *Access, data []byte) error) error {
	if a.Width != 0 && a.Offset%uint64(a.Width) == 0 {
		return do(a, data)
	}
	size := len(data)
	if a.Width != 0 {
		size = int(a.Width)
	}
	for one := *a; len(data) > 0; one.Offset += uint64(size) {
		for first, part := range NaturalAccesses(one, data[:size]) {
			if err := do(first, part); err != nil {
				return err
			}
		}
		data = data[size:]
	}
	return nil
}

// EachAccess splits a block like SplitBlock, and calls `do` for each access, with its value.
func EachAccess(a *Access, data []byte, do func(a *Access) error) error {
	return SplitBlock(a, data, func(first *Access, data []byte) error {
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
