package traces

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"lightmetal/hal"
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

// lineReader gives the lines of a trace one by one and counts them.
type lineReader struct {
	r        *bufio.Reader
	line     int // number of the line read last
	bytes    int64
	told     int64
	long     []byte // a line that does not fit the buffer of r
	progress func(bytes int64)
}

func newLineReader(r io.Reader, progress func(int64)) *lineReader {
	if progress == nil {
		progress = func(int64) {}
	}
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), progress: progress}
}

// next gives a line without its end, valid until the next call, or io.EOF.
//
// A last line without a newline is refused. Whoever writes a trace ends each
// line; so the file was cut, and how much is missing cannot be told from what
// is there: the last field may be cut and still parse, and more lines may have
// followed.
func (l *lineReader) next() ([]byte, error) {
	text, err := l.r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		text, err = l.nextLong(text)
	}
	l.bytes += int64(len(text))
	l.tell(err != nil)
	if len(text) == 0 && err == io.EOF {
		return nil, io.EOF
	}
	l.line++
	switch {
	case err == io.EOF:
		return nil, Refuse(l.line, "the last line has no newline: the trace was cut here (if it is whole, end it with a newline)")
	case err != nil:
		var e *Error
		if errors.As(err, &e) {
			return nil, err
		}
		return nil, &Error{Line: l.line, Reason: err.Error(), Code: hal.IO}
	}
	text = text[:len(text)-1]
	if n := len(text); n > 0 && text[n-1] == '\r' {
		text = text[:n-1]
	}
	return text, nil
}

// each goes through the lines.
func (l *lineReader) each(do func(text []byte) error) error {
	for {
		text, err := l.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = do(text)
		}
		if err != nil {
			return err
		}
	}
}

func (l *lineReader) nextLong(start []byte) ([]byte, error) {
	l.long = append(l.long[:0], start...)
	for {
		text, err := l.r.ReadSlice('\n')
		l.long = append(l.long, text...)
		switch {
		case len(l.long) > lineMax:
			return nil, Refuse(l.line+1, "longer than %d bytes: this is no trace", lineMax)
		case err != bufio.ErrBufferFull:
			return l.long, err
		}
	}
}

func (l *lineReader) tell(last bool) {
	if l.bytes-l.told >= progressBytes || last && l.bytes > l.told {
		l.told = l.bytes
		l.progress(l.bytes)
	}
}

// Counted is n things.
func Counted(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "y"):
		thing = strings.TrimSuffix(thing, "y") + "ies"
	case strings.HasSuffix(thing, "s"):
		thing += "es"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Little is the number that up to 8 bytes are, lowest first.
func Little(b []byte) uint64 {
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:])
}

// shown is a piece of a trace as it stands in an error.
func shown(b []byte) string {
	if len(b) > 60 {
		return fmt.Sprintf("%q...", b[:60])
	}
	return fmt.Sprintf("%q", b)
}

// checkAccess says what is wrong with an access that a trace records, empty if
// nothing is.
func checkAccess(width, address, value uint64) string {
	switch {
	case width != 1 && width != 2 && width != 4 && width != 8:
		return fmt.Sprintf("width %d is not 1, 2, 4 or 8", width)
	case address%width != 0:
		return fmt.Sprintf("address 0x%x is not a multiple of the width %d", address, width)
	case width < 8 && value>>(8*width) != 0:
		return fmt.Sprintf("value 0x%x is wider than %d bytes", value, width)
	}
	return ""
}
