//go:build linux && (amd64 || arm64)

package recorder

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"lightmetal/tools/capture/record"
)

// TestTimesExcludeTheRecordersOwn: time that the recorder needs between two accesses, for example
// to compare host memory, does not count as a wait of the program.
func TestTimesExcludeTheRecordersOwn(t *testing.T) {
	var out bytes.Buffer
	w := newWriter(&out, 0)
	now := w.began
	w.now = func() time.Time { return now }
	stop := func(took time.Duration) {
		w.beginStop()
		now = now.Add(took / 2)
		w.Access('R', 0, 0, []byte{1})
		now = now.Add(took / 2)
		w.endStop()
	}
	w.Line("DEVICE 0 1af4 1110 file")
	w.Line("BAR 0 0 2 0 1000")
	stop(time.Second)
	now = now.Add(3 * time.Millisecond) // time of the program
	stop(97 * time.Second)
	now = now.Add(2 * time.Millisecond)
	stop(time.Minute)
	w.noteTimes()
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	capture, err := record.Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	var times []string
	for _, r := range capture.Records {
		switch r.Kind {
		case record.Clock:
			times = append(times, fmt.Sprint(r.Clocks))
		case record.Note:
			times = append(times, string(r.Data))
		}
	}
	const want = "3000000 2000000 the program ran for 5000 us; lm used 158000000 us more, " +
		"which CLK lines do not count"
	if got := strings.Join(times, " "); got != want {
		t.Errorf("times in the record: %s, want %s", got, want)
	}
}

// TestRecorderCountsItsOwnTimeAtEveryStop: the sum of the times in a record is at most the time for
// which the program ran.
func TestRecorderCountsItsOwnTimeAtEveryStop(t *testing.T) {
	r := runRecorded(t, nil, Options{}, compileProgram(t, patternsSource, "-O2"), "volatile")
	var all, ran, own uint64
	for _, a := range r.capture.Records {
		all += uint64(a.Clocks)
		if a.Kind == record.Note {
			_, _ = fmt.Sscanf(string(a.Data), "the program ran for %d us; lm used %d us more",
				&ran, &own)
		}
	}
	if ran == 0 || own == 0 || all/1000 > ran {
		t.Errorf("%d us between accesses, the program ran for %d us, the recorder worked for %d us",
			all/1000, ran, own)
	}
}
