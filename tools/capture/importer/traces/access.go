package traces

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"lightmetal/hal"
	"lightmetal/tools/capture/record"
)

// Op is what a line of a trace records.
type Op uint8

const (
	OpInvalid Op = iota
	OpLoad
	OpStore
	OpMark // text that somebody wrote into the trace
)

func (o Op) String() string { return [...]string{"invalid", "load", "store", "mark"}[o] }

// Access is one recorded access to the device, or a mark between accesses.
type Access struct {
	Line   int    // in the trace, from 1
	Time   int64  // nanoseconds since an origin of the trace's own, 0: not recorded
	Offset uint64 // bytes into the BAR, a multiple of Width
	Value  uint64 // stored or loaded; no bits outside Width
	Name   string // of a mark
	Op     Op
	Width  uint8 // bytes: 1, 2, 4 or 8
	Bar    uint8 // 0..5
}

// Error is why a trace or an option is refused.
type Error struct {
	Line   int // in the trace, 0: the fault lies in no single line
	Reason string
	Code   hal.Code // Usage for options, BadImage for the trace
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Reason)
}

// Unwrap lets hal.CodeOf find the code.
func (e *Error) Unwrap() error { return e.Code }

// Refuse is the error for a trace, Usage that for an option.
func Refuse(line int, format string, a ...any) error {
	return &Error{Line: line, Reason: fmt.Sprintf(format, a...), Code: hal.BadImage}
}

func Usage(format string, a ...any) error {
	return &Error{Reason: fmt.Sprintf(format, a...), Code: hal.Usage}
}

const (
	lineMax       = 1 << 20 // bytes; the longest real line is a MARK of a few hundred
	progressBytes = 1 << 20 // between two calls of Source.Progress
)

// lineReader goes through the lines of a trace and counts them.
type lineReader struct {
	r    io.Reader
	line int // number of the line that is looked at
}

func newLineReader(r io.Reader, progress func(int64)) *lineReader {
	return &lineReader{r: record.Plain(&counter{r: r, progress: progress})}
}

// each gives the lines without their ends, each valid until the next.
func (l *lineReader) each(do func(text []byte) error) error {
	lines := bufio.NewScanner(l.r)
	lines.Buffer(make([]byte, 64<<10), lineMax+2)
	lines.Split(wholeLines)
	for lines.Scan() {
		l.line++
		if err := do(lines.Bytes()); err != nil {
			return err
		}
	}
	err := lines.Err()
	var packed *record.Error
	switch {
	case err == nil || errors.As(err, new(*Error)):
		return err
	case errors.As(err, &packed):
		return Refuse(0, "%v", packed.Err)
	case err == errCut || err == io.ErrUnexpectedEOF: // the latter where it is compressed
		return Refuse(l.line+1,
			"the last line has no newline, so the trace was cut there (if it is complete, "+
				"add a newline)")
	case err == bufio.ErrTooLong:
		return Refuse(l.line+1, "longer than %d bytes: this is not a trace", lineMax)
	}
	return &Error{Line: l.line + 1, Reason: err.Error(), Code: hal.IO}
}

var errCut = errors.New("cut")

// wholeLines is bufio.ScanLines for a text whose last line ends, too. Whoever
// writes a trace ends each line; so a file was cut where one does not, and how
// much is missing cannot be told from what is there: the last field may be cut
// and still parse, and more lines may have followed.
func wholeLines(data []byte, last bool) (advance int, line []byte, err error) {
	if last && len(data) > 0 && bytes.IndexByte(data, '\n') < 0 {
		return 0, nil, errCut
	}
	return bufio.ScanLines(data, last)
}

// counter tells how much of a trace is read.
type counter struct {
	r           io.Reader
	progress    func(int64) // nil: nobody
	bytes, told int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.bytes += int64(n)
	if c.progress != nil && (c.bytes-c.told >= progressBytes || err == io.EOF && c.bytes > c.told) {
		c.told = c.bytes
		c.progress(c.bytes)
	}
	return n, err
}

// Little is the number that up to 8 bytes are, lowest first.
func Little(b []byte) uint64 {
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:])
}

// Bytes are the lowest bytes of a number, lowest first.
func Bytes(value uint64, width uint8) []byte {
	return binary.LittleEndian.AppendUint64(make([]byte, 0, 8), value)[:width:width]
}

// shown is a piece of a trace as it stands in an error.
func shown(b []byte) string {
	if len(b) > 60 {
		return fmt.Sprintf("%q...", b[:60])
	}
	return fmt.Sprintf("%q", b)
}

// checkAccess says what is wrong with an access that a trace records, empty if nothing
// is. One of another device, which is not taken, may be misaligned: ports are.
func checkAccess(width, address, value uint64, taken bool) string {
	switch {
	case width != 1 && width != 2 && width != 4 && width != 8:
		return fmt.Sprintf("width %d is not 1, 2, 4 or 8", width)
	case taken && address%width != 0:
		return fmt.Sprintf("address 0x%x is not a multiple of the width %d", address, width)
	case width < 8 && value>>(8*width) != 0:
		return fmt.Sprintf("value 0x%x is wider than %d bytes", value, width)
	}
	return ""
}
