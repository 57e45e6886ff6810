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

// writer writes a record. Its file keeps the first error.
type writer struct {
	file  *synced.Writer
	lines uint64 // after the first
	last  time.Duration
	line1 []byte  // being made
	run   runLine // that is not written yet

	wall  func() time.Time
	since time.Time     // when the recorder began to work at a stop; zero: the program runs
	own   time.Duration // that the recorder took before that
	began time.Time
}

// work begins what the recorder does at a stop. The clock of the record stands
// still until rest is called: a program that waits for its device must not be
// recorded as one that waited for the recorder.
func (w *writer) work() { w.since = w.wall() }

// rest ends what the recorder does at a stop.
func (w *writer) rest() {
	w.own += w.wall().Sub(w.since)
	w.since = time.Time{}
}

// programTime is how long the program has run without the recorder.
func (w *writer) programTime() time.Duration {
	now := w.since
	if now.IsZero() {
		now = w.wall()
	}
	return now.Sub(w.began) - w.own
}

// newWriter returns the writer of a record that is synced at an interval, 0: the usual one.
func newWriter(to io.Writer, interval time.Duration) *writer {
	w := &writer{wall: time.Now, began: time.Now()}
	w.file = synced.NewWriter(to, cmp.Or(interval, synced.Interval), nil)
	fmt.Fprintf(w.file, "LMRECORD 2\n")
	return w
}

func (w *writer) line(format string, a ...any) {
	w.put(fmt.Appendf(w.line1[:0], format+"\n", a...))
}

func (w *writer) put(line []byte) {
	w.endRun()
	w.line1 = line
	w.lines++
	_, _ = w.file.Write(line) // close returns the error
}

// access writes how much of the program's time has passed, in nanoseconds, and
// one load or store of at most 8 bytes.
func (w *writer) access(kind byte, bar int, offset uint64, data []byte) {
	w.endRun()
	w.clock()
	b := append(w.line1[:0], kind, ' ')
	b = strconv.AppendInt(b, int64(bar), 10)
	b = strconv.AppendUint(append(b, ' '), offset, 16)
	b = strconv.AppendInt(append(b, ' '), int64(len(data)), 10)
	b = hex.AppendEncode(append(b, ' '), data)
	w.put(append(b, '\n'))
}

// runLine is the accesses of a string instruction that repeats, to neighbours in a BAR.
type runLine struct {
	kind   byte
	bar    int
	offset uint64
	width  int
	data   []byte // empty: there is none
}

// runMax is how many bytes of a run are held.
const runMax = 1 << 20

// addToRun adds accesses of so many bytes each to a run, which becomes one line.
func (w *writer) addToRun(kind byte, bar int, offset uint64, width int, data []byte) {
	r := &w.run
	if kind != r.kind || bar != r.bar || offset != r.offset+uint64(len(r.data)) ||
		width != r.width || len(r.data)+len(data) > runMax {
		w.endRun()
		*r = runLine{kind, bar, offset, width, r.data}
	}
	r.data = append(r.data, data...)
}

// endRun writes the run, if there is one.
func (w *writer) endRun() {
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
	program := w.programTime()
	passed := (program - w.last).Nanoseconds()
	w.last = program
	for passed > 0 {
		w.line("CLK %d", min(passed, most))
		passed -= most
	}
}

// noteTimes writes how long the program ran and how long the recorder worked.
func (w *writer) noteTimes() {
	w.line("NOTE the program ran for %d us; lm worked for %d us more, which no CLK line has",
		w.programTime().Microseconds(), w.own.Microseconds())
}

// close ends the record.
func (w *writer) close() error {
	fmt.Fprintf(w.file, "END %d\n", w.lines)
	return w.file.Close()
}
