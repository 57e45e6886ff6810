package record

import (
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// Writer writes a recording of version 2. Its methods return no errors: To must keep its first
// error, and return it when it is closed.
type Writer struct {
	// To receives the next lines. Each call of its method Write has one line.
	To io.Writer

	// now returns how long the program has run. CLK lines have the differences.
	now       func() time.Duration
	lastClock time.Duration
	lines     uint64    // number of lines after the first line
	buffer    []byte    // buffer for the next line
	run       accessRun // accesses that are not written yet
}

// NewWriter returns a Writer, and writes the first line.
func NewWriter(to io.Writer, now func() time.Duration) *Writer {
	fmt.Fprintln(to, "LMRECORD 2")
	return &Writer{To: to, now: now}
}

// Line writes the current run, and then a line; format has no newline.
func (w *Writer) Line(format string, a ...any) {
	w.FlushRun()
	w.writeLine(fmt.Appendf(w.buffer[:0], format+"\n", a...))
}

func (w *Writer) writeLine(line []byte) {
	w.buffer = line
	w.lines++
	_, _ = w.To.Write(line) // To keeps the error
}

// Device declares a device.
func (w *Writer) Device(number int, vendor, device uint16, name string) {
	w.Line("DEVICE %d %04x %04x %s", number, vendor, device, name)
}

// Bar declares a BAR of a device. index is its number in the device, 0 to 5.
func (w *Writer) Bar(number, device, index int, base, size uint64) {
	w.Line("BAR %d %d %d %x %x", number, device, index, base, size)
}

// Memory writes that devices can access size bytes of host memory from now on. address is their
// bus address.
func (w *Writer) Memory(address, size uint64) { w.Line("MEM %x %x", address, size) }

// HostAccess writes an access to host memory. kind is "HR" for data that the program stored, "HW"
// for data that a device wrote, and "HB" for data of which this is not known.
func (w *Writer) HostAccess(kind string, address uint64, data []byte) {
	w.Line("%s %x %d %x", kind, address, len(data), data)
}

// Access writes the time since the last CLK line, and one load (kind 'R') or store ('W').
func (w *Writer) Access(kind byte, bar int, offset uint64, data []byte) {
	w.Clock()
	b := append(w.buffer[:0], kind, ' ')
	b = strconv.AppendInt(b, int64(bar), 10)
	b = strconv.AppendUint(append(b, ' '), offset, 16)
	b = strconv.AppendInt(append(b, ' '), int64(len(data)), 10)
	b = hex.AppendEncode(append(b, ' '), data)
	w.writeLine(append(b, '\n'))
}

// Interrupt writes the time since the last CLK line, and that a device raised an interrupt. number
// is the number of the interrupt in the device, such as an MSI's, from 0.
func (w *Writer) Interrupt(device, number int) {
	w.Clock()
	w.Line("IRQ %d %d", device, number)
}

// Clock writes the time since the last CLK line, if it is not 0.
func (w *Writer) Clock() {
	w.FlushRun()
	now := w.now()
	passed := (now - w.lastClock).Nanoseconds()
	w.lastClock = now
	for passed > 0 {
		w.Line("CLK %d", min(passed, math.MaxUint32))
		passed -= math.MaxUint32
	}
}

// accessRun is a run of accesses of the same kind and width to consecutive addresses in a BAR.
type accessRun struct {
	kind   byte
	bar    int
	offset uint64
	width  int
	data   []byte // empty: there is no run
}

// runBytesMax limits the size of a run in bytes.
const runBytesMax = 1 << 20

// AddToRun adds accesses of width bytes each to the current run, which becomes one line. It writes
// the current run and starts a new one if the accesses have another kind, BAR or width, if their
// addresses do not follow those of the run, or if the run would exceed runBytesMax.
func (w *Writer) AddToRun(kind byte, bar int, offset uint64, width int, data []byte) {
	r := &w.run
	if kind != r.kind || bar != r.bar || offset != r.offset+uint64(len(r.data)) ||
		width != r.width || len(r.data)+len(data) > runBytesMax {
		w.FlushRun()
		*r = accessRun{kind, bar, offset, width, r.data}
	}
	r.data = append(r.data, data...)
}

// RunKind returns the kind of the accesses of the current run, or 0 if there is no run.
func (w *Writer) RunKind() byte { return w.run.kind }

// FlushRun writes the current run, if there is one.
func (w *Writer) FlushRun() {
	r := w.run
	w.run.kind, w.run.data = 0, r.data[:0]
	switch len(r.data) {
	case 0:
	case r.width:
		w.Access(r.kind, r.bar, r.offset, r.data)
	default:
		w.Clock()
		w.Line("%cS %d %d %x %d %x", r.kind, r.bar, r.width, r.offset, len(r.data), r.data)
	}
}

// End writes the last line.
func (w *Writer) End() {
	w.FlushRun()
	fmt.Fprintf(w.To, "END %d\n", w.lines)
}
