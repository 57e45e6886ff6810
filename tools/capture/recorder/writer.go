//go:build linux && (amd64 || arm64)

package recorder

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"time"

	"lightmetal/tools/image/synced"
)

// writer writes a record. Its methods return no errors, because file keeps the first error, and
// close returns it.
type writer struct {
	file       *synced.Writer
	lines      uint64 // number of lines after the first line
	lastClock  time.Duration
	lineBuffer []byte    // buffer for the next line
	run        accessRun // accesses that are not written yet

	now func() time.Time
	// time at which the recorder began to handle the current stop; zero: the program runs
	stopBegan    time.Time
	recorderTime time.Duration // total time of the recorder's work at earlier stops
	began        time.Time
}

// beginStop begins the handling of a stop. The clock of the record is stopped until endStop is
// called. Otherwise a program that waits for its device would be recorded as waiting for the
// recorder.
func (w *writer) beginStop() { w.stopBegan = w.now() }

// endStop ends the handling of a stop.
func (w *writer) endStop() {
	w.recorderTime += w.now().Sub(w.stopBegan)
	w.stopBegan = time.Time{}
}

// programTime returns how long the program has run, without the time of the recorder.
func (w *writer) programTime() time.Duration {
	now := w.stopBegan
	if now.IsZero() {
		now = w.now()
	}
	return now.Sub(w.began) - w.recorderTime
}

// newWriter returns a writer of a record that is synced at an interval. With 0 the interval is
// synced.Interval.
func newWriter(to io.Writer, interval time.Duration) *writer {
	w := &writer{now: time.Now, began: time.Now()}
	w.file = synced.NewWriter(to, cmp.Or(interval, synced.Interval), nil)
	fmt.Fprintf(w.file, "LMRECORD 2\n")
	return w
}

func (w *writer) line(format string, a ...any) {
	w.writeLine(fmt.Appendf(w.lineBuffer[:0], format+"\n", a...))
}

func (w *writer) writeLine(line []byte) {
	w.flushRun()
	w.lineBuffer = line
	w.lines++
	_, _ = w.file.Write(line) // close returns the error
}

// access writes a line with the program's time since the last such line, in nanoseconds, and a line
// with one load or store of at most 8 bytes.
func (w *writer) access(kind byte, bar int, offset uint64, data []byte) {
	w.flushRun()
	w.clock()
	b := append(w.lineBuffer[:0], kind, ' ')
	b = strconv.AppendInt(b, int64(bar), 10)
	b = strconv.AppendUint(append(b, ' '), offset, 16)
	b = strconv.AppendInt(append(b, ' '), int64(len(data)), 10)
	b = hex.AppendEncode(append(b, ' '), data)
	w.writeLine(append(b, '\n'))
}

// accessRun is a run of accesses to consecutive addresses in a BAR, made by one string instruction.
type accessRun struct {
	kind   byte
	bar    int
	offset uint64
	width  int
	data   []byte // empty: there is no run
}

// runBytesMax limits the size of a run in bytes.
const runBytesMax = 1 << 20

// addToRun adds accesses of width bytes each to the current run, which becomes one line. If they do
// not continue the run, it starts a new run.
func (w *writer) addToRun(kind byte, bar int, offset uint64, width int, data []byte) {
	r := &w.run
	if kind != r.kind || bar != r.bar || offset != r.offset+uint64(len(r.data)) ||
		width != r.width || len(r.data)+len(data) > runBytesMax {
		w.flushRun()
		*r = accessRun{kind, bar, offset, width, r.data}
	}
	r.data = append(r.data, data...)
}

// flushRun writes the current run, if there is one.
func (w *writer) flushRun() {
	r := w.run
	w.run.kind, w.run.data = 0, r.data[:0]
	switch len(r.data) {
	case 0:
	case r.width:
		w.access(r.kind, r.bar, r.offset, r.data)
	default:
		w.clock()
		w.line("%cS %d %d %x %d %x", r.kind, r.bar, r.width, r.offset, len(r.data), r.data)
	}
}

// hostChange writes a line with a change of host memory.
func (w *writer) hostChange(c change) {
	kind := "HW"
	if c.author == byProgram {
		kind = "HR"
	}
	w.clock()
	w.line("%s %x %d %x", kind, c.bus, len(c.data), c.data)
}

func (w *writer) clock() {
	const most = 1<<32 - 1 // largest number in a CLK line
	program := w.programTime()
	passed := (program - w.lastClock).Nanoseconds()
	w.lastClock = program
	for passed > 0 {
		w.line("CLK %d", min(passed, most))
		passed -= most
	}
}

// noteTimes writes a NOTE line with the program's time and the recorder's time.
func (w *writer) noteTimes() {
	w.line("NOTE the program ran for %d us; lm used %d us more, which CLK lines do not count",
		w.programTime().Microseconds(), w.recorderTime.Microseconds())
}

// close writes the END line, and returns the first error of the writer.
func (w *writer) close() error {
	fmt.Fprintf(w.file, "END %d\n", w.lines)
	return w.file.Close()
}
