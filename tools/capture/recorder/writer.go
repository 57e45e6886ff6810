//go:build linux && (amd64 || arm64)

package recorder

import (
	"cmp"
	"io"
	"time"

	"lightmetal/tools/capture/record"
	"lightmetal/tools/image/synced"
)

// writer writes a record, with the time for which the program has run. file keeps the first error,
// and close returns it.
type writer struct {
	*record.Writer
	file *synced.Writer

	now func() time.Time
	// time at which the recorder began to handle the current stop; zero: the program runs
	stopBegan    time.Time
	recorderTime time.Duration // total time of the recorder's work at earlier stops
	began        time.Time
}

// newWriter returns a writer of a record that is synced at an interval. With 0 the interval is
// synced.Interval.
func newWriter(to io.Writer, interval time.Duration) *writer {
	w := &writer{now: time.Now, began: time.Now()}
	w.file = synced.NewWriter(to, cmp.Or(interval, synced.Interval), nil)
	w.Writer = record.NewWriter(w.file, w.programTime)
	return w
}

// beginStop begins the handling of a stop. The clock of the record is stopped until endStop is
// called. Otherwise a program that waits for its device would be recorded as waiting for the
// recorder.
func (w *writer) beginStop() { w.stopBegan = w.now() }

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

func (w *writer) hostChanges(list []change) {
	for _, c := range list {
		kind := "HW"
		switch c.author {
		case byProgram:
			kind = "HR"
		case byBoth:
			kind = "HB"
		}
		w.Clock()
		w.HostAccess(kind, c.bus, c.data)
	}
}

// noteTimes writes a NOTE line with the program's time and the recorder's time.
func (w *writer) noteTimes() {
	w.Line("NOTE the program ran for %d us; lm used %d us more, which CLK lines do not count",
		w.programTime().Microseconds(), w.recorderTime.Microseconds())
}

// close writes the END line, and returns the first error of the writer.
func (w *writer) close() error {
	w.End()
	return w.file.Close()
}
