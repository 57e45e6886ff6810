package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// counterTrace is the trace of a program that waits for a completion pointer three times. The
// pointer overflows before the third time.
var counterTrace = []string{
	"W 4 0x8 0x1", "R 4 0x40 0x0", "R 4 0x40 0xfffff004",
	"W 4 0x8 0x2", "R 4 0x40 0xfffff004", "R 4 0x40 0xfffff804",
	"W 4 0x8 0x3", "R 4 0x40 0x4",
}

const reachedWarning = "the polls of 1 register wait for rising values (0xfffff004 to 0x4), " +
	"and fail if the value is already higher; if these are counters, " +
	"use --reached bar0+0x40 or --reached rising"

// TestPollsOfACounterCauseAWarningUnlessAFlagChangesThem imports waits for a counter that
// overflows.
func TestPollsOfACounterCauseAWarningUnlessAFlagChangesThem(t *testing.T) {
	body := func(condition string) string {
		return strings.ReplaceAll("write bar0+0x8 w4 0x1\nP 0xfffff004 M\n"+
			"write bar0+0x8 w4 0x2\nP 0xfffff804 M\nwrite bar0+0x8 w4 0x3\nP 0x4 M\n", "P",
			condition)
	}
	equal := strings.ReplaceAll(body("poll bar0+0x40 w4"), "M", "mask 0xffffffff for 1000000 us")
	reached := strings.ReplaceAll(body("poll bar0+0x40 w4 reached"), "M", "mask 0xffffffff")
	for _, c := range []struct {
		name, want string
		flags      []string
		warns      bool
	}{
		{"without a flag", equal, nil, true},
		{"by place", reached, []string{"bar0+0x40"}, false},
		{"all that rise", reached, []string{"rising"}, false},
		{"another place", equal, []string{"bar0+0x80"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var o Options
			if err := o.SetReached(c.flags); err != nil {
				t.Fatal(err)
			}
			image, report := mustImport(t, mmiotrace(eduDevice, counterTrace...), o)
			checkCommands(t, image, c.want)
			if got := hasWarning(report, reachedWarning); got != c.warns {
				t.Errorf("warned: %v, want %v; warnings %v", got, c.warns, report.Warnings)
			}
			const counted = "3 polls wait until a counter has reached a value"
			summary := passSummary(report, "fold")
			if got := strings.Contains(summary, counted); got == c.warns {
				t.Errorf("summary of the pass fold: %q contains %q: %v, want %v", summary, counted,
					got, !c.warns)
			}
		})
	}
}

func hasWarning(r *Report, text string) bool {
	for _, w := range r.Warnings {
		if w.Text == text {
			return true
		}
	}
	return false
}

// TestOtherValuesAreNotReportedAsCounters imports values that fall, values that stay, and states of
// a few bits.
func TestOtherValuesAreNotReportedAsCounters(t *testing.T) {
	wait := func(list ...string) (trace []string) {
		for _, value := range list {
			trace = append(trace, "W 4 0x8 0x1", "R 4 0x40 0xffffffff", "R 4 0x40 "+value)
		}
		return trace
	}
	for name, trace := range map[string][]string{
		"falls":             wait("0x1000", "0x2000", "0x1fff"),
		"stays":             wait("0x1000", "0x1000", "0x1000"),
		"a flag":            wait("0x0", "0x1"),
		"back to the start": wait("0x1000", "0x2000", "0x1000"),
		"a status register": {"W 4 0x8 0x1", "R 4 0x20 0x1", "R 4 0x20 0x80", "W 4 0x8 0x1",
			"R 4 0x20 0x180", "W 4 0x8 0x1", "R 4 0x20 0x280"},
	} {
		t.Run(name, func(t *testing.T) {
			image, report := mustImport(t, mmiotrace(eduDevice, trace...),
				Options{DetectCounters: true})
			if text := imageText(image); strings.Contains(text, "reached") ||
				slices.ContainsFunc(strings.Split(report.String(), "\n"),
					func(s string) bool { return strings.Contains(s, "rising") }) {
				t.Errorf("the import treats the value as a counter: want no poll for a reached "+
					"value and no word \"rising\"; commands:\n%sreport:\n%s", text, report)
			}
		})
	}
}

// TestNoLoadOfACounterInHostMemoryNeedsItsRecordedValue imports a completion pointer that the
// device writes three times. With --reached, each load of the pointer accepts higher values.
func TestNoLoadOfACounterInHostMemoryNeedsItsRecordedValue(t *testing.T) {
	record := []string{"MEM 10000000 4000", "DEVICE 0 1234 11e8 0000:00:04.0",
		"BAR 0 0 0 80000000 100000", "HR 10000000 8 0100000000000000"}
	for _, value := range []string{"00100003", "00190003", "001a0003"} {
		record = append(record, "W 0 4 4 01000000", "HW 10000040 4 "+value)
	}
	text := "LMRECORD 2\n" + strings.Join(append(record, "W 0 4 4 02000000"), "\n") +
		fmt.Sprintf("\nEND %d\n", len(record)+1)
	for _, place := range []string{"bus:0x10000040", "rising"} {
		o := Options{From: FromRecord}
		if err := o.SetReached([]string{place}); err != nil {
			t.Fatal(err)
		}
		image, _ := mustImport(t, text, o)
		text := imageText(image)
		if n := strings.Count(text, "host0+0x40 w4 reached"); n < 3 {
			t.Errorf("--reached %s: %d polls for a reached value, want at least 3; commands:\n%s",
				place, n, text)
		}
		if strings.Contains(text, "expect host0+0x40") || strings.Contains(text, "compare host0") {
			t.Errorf("--reached %s: the image has an expect or compare command for a load of "+
				"host0, want only polls for reached values; commands:\n%s", place, text)
		}
	}
}

func TestReachedRangesAreChecked(t *testing.T) {
	var o Options
	if err := o.SetReached([]string{"x"}); err == nil {
		t.Error("SetReached accepts x, which is not a range; want an error")
	}
	_, report := mustImport(t, mmiotrace(eduDevice, counterTrace...),
		Options{CounterRanges: []Range{mustRange(t, "0x999")}})
	if !strings.Contains(report.String(), "--reached 0x999-0x999 has no effect") {
		t.Errorf("the report lacks the warning that --reached 0x999-0x999 has no effect; "+
			"report:\n%v", report)
	}
	// Only bit 0 of edu's status register counts: a counter of one bit.
	image, _ := mustImport(t, mmiotrace(eduDevice, "W 4 0x8 0x5", "R 4 0x20 0x81", "R 4 0x20 0x80"),
		Options{CounterRanges: []Range{mustRange(t, "0x20")}})
	checkCommands(t, image, "write bar0+0x8 w4 0x5\npoll bar0+0x20 w4 reached 0x0 mask 0x1\n")
}
