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

// Op is the operation that a line of a trace records.
type Op uint8

const (
	OpInvalid Op = iota
	OpLoad
	OpStore
	OpMark // text that a user wrote into the trace
	// No image can repeat the next two, for the reason in Name: an error, unless they are left out
	OpRejected  // an access that the trace describes
	OpLost      // accesses that the trace lacks, of which nothing is known
	OpInterrupt // the device raised an interrupt
)

func (o Op) String() string {
	return [...]string{"invalid", "load", "store", "mark", "rejected", "lost", "interrupt"}[o]
}

// Access is one recorded access to the device, or a mark between accesses.
type Access struct {
	Line   int    // line number in the trace, from 1
	Time   int64  // nanoseconds since an origin that depends on the trace; 0: not recorded
	Offset uint64 // offset in the BAR in bytes, a multiple of Width
	Value  uint64 // value that was stored or loaded; bits outside Width are 0
	Name   string // text of a mark, or reason of OpRejected and OpLost
	Op     Op
	Width  uint8 // bytes: 1, 2, 4 or 8
	Bar    uint8 // 0..5
}

// Error is the reason why a trace or an option is rejected.
type Error struct {
	Line   int // line number in the trace; 0: no single line is the cause
	Reason string
	Code   hal.Code // Usage for options, BadImage for the trace
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Reason)
}

// Unwrap makes the code available to hal.CodeOf.
func (e *Error) Unwrap() error { return e.Code }

// TraceError returns an *Error with the code BadImage. line is 0 if no single line is the cause.
func TraceError(line int, format string, a ...any) error {
	return &Error{Line: line, Reason: fmt.Sprintf(format, a...), Code: hal.BadImage}
}

// UsageError returns an *Error with the code Usage.
func UsageError(format string, a ...any) error {
	return &Error{Reason: fmt.Sprintf(format, a...), Code: hal.Usage}
}

const (
	lineMax       = 1 << 20 // bytes; the longest lines in practice are MARKs of some hundred bytes
	progressBytes = 1 << 20 // bytes between two calls of Source.Progress
)

type lineReader struct {
	r    io.Reader
	line int // number of the current line
}

func newLineReader(r io.Reader, progress func(int64)) *lineReader {
	return &lineReader{r: record.NewTextReader(&progressReader{r: r, progress: progress})}
}

// eachLine calls `do` with each line, without its newline. The text is valid only during the call.
func (l *lineReader) eachLine(do func(text []byte) error) error {
	lines := bufio.NewScanner(l.r)
	lines.Buffer(make([]byte, 64<<10), lineMax+2)
	lines.Split(scanCompleteLines)
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
		return TraceError(0, "%v", packed.Err)
	// io.ErrUnexpectedEOF: a compressed trace is cut
	case err == errCut || err == io.ErrUnexpectedEOF:
		return TraceError(l.line+1,
			"the last line has no newline, so the trace was cut there (if it is complete, "+
				"add a newline)")
	case err == bufio.ErrTooLong:
		return TraceError(l.line+1, "the line is longer than %d bytes, so the file is not a trace",
			lineMax)
	}
	return &Error{Line: l.line + 1, Reason: err.Error(), Code: hal.IO}
}

var errCut = errors.New("cut")

// scanCompleteLines is like bufio.ScanLines, but requires a newline after the last line, too.
// Programs that write traces end each line. A trace without the last newline was therefore cut: its
// last field may be incomplete although it parses, and more lines may be missing.
func scanCompleteLines(data []byte, last bool) (advance int, line []byte, err error) {
	if last && len(data) > 0 && bytes.IndexByte(data, '\n') < 0 {
		return 0, nil, errCut
	}
	return bufio.ScanLines(data, last)
}

// progressReader counts the bytes that are read from a trace, and reports them to progress.
type progressReader struct {
	r               io.Reader
	progress        func(int64) // may be nil
	bytes, reported int64       // reported: bytes at the last call of progress
}

func (c *progressReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.bytes += int64(n)
	if c.progress != nil && (c.bytes-c.reported >= progressBytes ||
		err == io.EOF && c.bytes > c.reported) {
		c.reported = c.bytes
		c.progress(c.bytes)
	}
	return n, err
}

// Little returns the little-endian number in up to 8 bytes.
func Little(b []byte) uint64 {
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:])
}

// Bytes returns the lowest bytes of a number in little-endian order.
func Bytes(value uint64, width uint8) []byte {
	return binary.LittleEndian.AppendUint64(make([]byte, 0, 8), value)[:width:width]
}

// quoteStart returns the first 60 bytes of a part of a trace, quoted for an error.
func quoteStart(b []byte) string {
	if len(b) > 60 {
		return fmt.Sprintf("%q...", b[:60])
	}
	return fmt.Sprintf("%q", b)
}

// checkAccess returns the reason why a recorded access is invalid, or "".
func checkAccess(width, value uint64) string {
	switch {
	case width != 1 && width != 2 && width != 4 && width != 8:
		return fmt.Sprintf("the width must be 1, 2, 4 or 8 bytes, not %d", width)
	case width < 8 && value>>(8*width) != 0:
		return fmt.Sprintf("value 0x%x is wider than %d bytes", value, width)
	}
	return ""
}

// alignmentText returns the reason why an image cannot contain a misaligned access, or "".
func alignmentText(width, address uint64) string {
	if address%width == 0 {
		return ""
	}
	return fmt.Sprintf("address 0x%x must be a multiple of the width of %d bytes", address, width)
}
