//go:build linux && (amd64 || arm64)

package recorder

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"strconv"
	"time"
)

// flushEvery bounds what is lost where the recorder itself is killed.
const flushEvery = time.Second

// writer writes a record. It keeps its first error.
type writer struct {
	zip     *gzip.Writer
	buffer  *bufio.Writer
	lines   uint64 // after the first
	last    time.Time
	flushed time.Time
	line1   []byte // being made
	err     error
}

func newWriter(to io.Writer) *writer {
	w := &writer{last: time.Now(), flushed: time.Now()}
	w.zip, _ = gzip.NewWriterLevel(to, gzip.BestSpeed)
	w.buffer = bufio.NewWriterSize(w.zip, 64<<10)
	fmt.Fprintf(w.buffer, "LMRECORD 2\n")
	return w
}

func (w *writer) line(format string, a ...any) {
	w.put(fmt.Appendf(w.line1[:0], format+"\n", a...))
}

func (w *writer) put(line []byte) {
	w.line1 = line
	w.lines++
	_, err := w.buffer.Write(line)
	w.keep(err)
}

// access writes how much time has passed, in nanoseconds, and one load or
// store of at most 8 bytes.
func (w *writer) access(kind byte, bar int, offset uint64, data []byte) {
	w.clock()
	b := append(w.line1[:0], kind, ' ')
	b = strconv.AppendInt(b, int64(bar), 10)
	b = strconv.AppendUint(append(b, ' '), offset, 16)
	b = strconv.AppendInt(append(b, ' '), int64(len(data)), 10)
	b = fmt.Appendf(append(b, ' '), "%x\n", data)
	w.put(b)
}

// host writes what has changed in host memory.
func (w *writer) host(c change) {
	kind := "HW"
	if c.who == byProgram {
		kind = "HR"
	}
	w.clock()
	w.line("%s %x %d %x", kind, c.bus, len(c.data), c.data)
}

func (w *writer) clock() {
	const most = 1<<32 - 1 // what a CLK line holds
	now := time.Now()
	passed := now.Sub(w.last).Nanoseconds()
	w.last = now
	for passed > 0 {
		w.line("CLK %d", min(passed, most))
		passed -= most
	}
	if now.Sub(w.flushed) > flushEvery {
		w.flushed = now
		w.keep(w.buffer.Flush())
		w.keep(w.zip.Flush())
	}
}

func (w *writer) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

// close ends the record.
func (w *writer) close() error {
	fmt.Fprintf(w.buffer, "END %d\n", w.lines)
	w.keep(w.buffer.Flush())
	w.keep(w.zip.Close())
	return w.err
}
