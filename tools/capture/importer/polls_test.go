package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/capture/importer/traces"
)

// eduPollEnd ends the text of a poll of all 32 bits with the default deadline.
const eduPollEnd = " mask 0xffffffff for 1000000 us\n"

func TestFoldDetectsPolls(t *testing.T) {
	for _, c := range []struct {
		name  string
		trace []string
		want  string
	}{
		{"a loop", []string{"R 4 0x40 0x0", "R 4 0x40 0x0", "R 4 0x40 0x1"},
			"poll bar0+0x40 w4 0x1" + eduPollEnd},
		{"a loop with steps in between", []string{"R 4 0x40 0x0", "R 4 0x40 0x1", "R 4 0x40 0x2",
			"R 4 0x40 0x3"},
			"poll bar0+0x40 w4 0x3" + eduPollEnd},
		{"a change after the final value starts another poll",
			[]string{"R 4 0x40 0x0", "R 4 0x40 0x1", "R 4 0x40 0x0", "R 4 0x40 0x1",
				"R 4 0x40 0x1"},
			"poll bar0+0x40 w4 0x1" + eduPollEnd + "poll bar0+0x40 w4 0x1" + eduPollEnd +
				"poll bar0+0x40 w4 0x1" + eduPollEnd},
		{"the final value came first", []string{"R 4 0x40 0x1", "R 4 0x40 0x0", "R 4 0x40 0x1"},
			"poll bar0+0x40 w4 0x1" + eduPollEnd + "poll bar0+0x40 w4 0x1" + eduPollEnd},
		{"equal loads of a quiet register stay single", []string{"R 4 0x40 0x1", "R 4 0x40 0x1"},
			"expect bar0+0x40 w4 0x1 mask 0xffffffff\nexpect bar0+0x40 w4 0x1 mask 0xffffffff\n"},
		{"a store ends a loop", []string{"R 4 0x40 0x0", "W 4 0x44 0x1", "R 4 0x40 0x1"},
			"expect bar0+0x40 w4 0x0 mask 0xffffffff\nwrite bar0+0x44 w4 0x1\n" +
				"expect bar0+0x40 w4 0x1 mask 0xffffffff\n"},
		{"a register that changed once is polled everywhere",
			[]string{"R 4 0x40 0x5", "W 4 0x44 0x1", "R 4 0x40 0x0", "R 4 0x40 0x1", "W 4 0x44 0x2",
				"R 4 0x40 0x7"},
			"poll bar0+0x40 w4 0x5" + eduPollEnd + "write bar0+0x44 w4 0x1\npoll bar0+0x40 w4 0x1" +
				eduPollEnd +
				"write bar0+0x44 w4 0x2\npoll bar0+0x40 w4 0x7" + eduPollEnd},
		{"another width is another loop", []string{"R 4 0x80 0x0", "R 8 0x80 0x1"},
			"expect bar0+0x80 w4 0x0 mask 0xffffffff\n" +
				"expect bar0+0x80 w8 0x1 mask 0xffffffffffffffff\n"},
		{"two registers watched in turn", []string{"R 4 0x40 0x0", "R 4 0x50 0x0", "R 4 0x40 0x1",
			"R 4 0x50 0x0", "R 4 0x50 0x1"},
			"poll bar0+0x40 w4 0x1" + eduPollEnd + "poll bar0+0x50 w4 0x1" + eduPollEnd},
		{"a quiet register inside a loop", []string{"R 4 0x40 0x0", "R 4 0x50 0x9", "R 4 0x40 0x1",
			"R 4 0x50 0x9"},
			"expect bar0+0x50 w4 0x9 mask 0xffffffff\npoll bar0+0x40 w4 0x1" + eduPollEnd +
				"expect bar0+0x50 w4 0x9 mask 0xffffffff\n"},
		{"a mark does not end a loop", []string{"R 4 0x40 0x0", "MARK 1.5 still waiting",
			"R 4 0x40 0x1"},
			"mark still waiting\npoll bar0+0x40 w4 0x1" + eduPollEnd},
		{"a status register is polled, by its bits",
			[]string{"W 4 0x8 0x5", "R 4 0x20 0x81", "R 4 0x20 0x80", "W 4 0x8 0x6",
				"R 4 0x20 0x80"},
			"write bar0+0x8 w4 0x5\npoll bar0+0x20 w4 0x0 mask 0x1 for 1000000 us\n" +
				"write bar0+0x8 w4 0x6\npoll bar0+0x20 w4 0x0 mask 0x1 for 1000000 us\n"},
		{"a change of meaningless bits does not make a loop",
			[]string{"R 4 0x20 0x81", "R 4 0x20 0x1"},
			"poll bar0+0x20 w4 0x1 mask 0x1 for 1000000 us\n"},
		{"a wait that timed out is one poll, whatever else is loaded",
			slices.Concat([]string{"W 4 0x8 0x5", "R 4 0x20 0x1", "R 4 0x20 0x0", "W 4 0x8 0x6"},
				slices.Repeat([]string{"R 4 0x20 0x1", "R 4 0x50 0x9"}, 3),
				[]string{"W 4 0x4 0x1", "R 4 0x20 0x1"}),
			"write bar0+0x8 w4 0x5\npoll bar0+0x20 w4 0x0 mask 0x1 for 1000000 us\n" +
				"write bar0+0x8 w4 0x6\npoll bar0+0x20 w4 0x1 mask 0x1 for 1000000 us\n" +
				strings.Repeat("expect bar0+0x50 w4 0x9 mask 0xffffffff\n", 3) +
				"write bar0+0x4 w4 0x1\npoll bar0+0x20 w4 0x1 mask 0x1 for 1000000 us\n"},
		{"a status register inside a wider load", []string{"R 8 0x98 0x1", "R 8 0x98 0x6"},
			"poll bar0+0x98 w8 0x0 mask 0x1 for 1000000 us\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			image, _ := mustImport(t, mmiotrace(eduDevice, c.trace...), Options{})
			checkCommands(t, image, c.want)
		})
	}
}

// TestWordThatTheDeviceStoredIsPolled: if the program clears a word, and the first load returns
// another value, the device stored that value. A replay may load sooner, so it must poll the word.
func TestWordThatTheDeviceStoredIsPolled(t *testing.T) {
	flag := wh166 + uint64(0x10000)
	done := access("R", 4, flag, 0x600df00d)
	for _, c := range []struct {
		name  string
		trace []string
		poll  bool
	}{
		{"flag", []string{access("W", 4, flag, 0), done}, true},
		{"cleared with its neighbours", []string{access("W", 8, flag, 0), done}, true},
		{"cleared in halves", []string{access("W", 2, flag, 0), access("W", 2, flag+2, 0), done},
			true},
		{"cleared on many tiles", []string{whMulticast(wh166Config, 1, 1, 4, 2, 0),
			access("W", 4, flag, 0), whPoint(wh166Config, 1, 1, 0), done}, true},
		{"cleared on other tiles", []string{whMulticast(wh166Config, 2, 1, 4, 2, 0),
			access("W", 4, flag, 0), whPoint(wh166Config, 1, 1, 0), done}, false},
		{"half cleared", []string{access("W", 2, flag, 0), done}, false},
		{"read back", []string{access("W", 4, flag, 0), access("W", 4, flag, 0x600df00d), done},
			false},
		{"never stored", []string{access("W", 4, flag+8, 0), done}, false},
		{"among results", []string{access("W", 4, flag, 0), done, access("R", 4, flag+4, 1)},
			false},
		{"after results", []string{access("W", 4, flag, 0), access("R", 4, flag-4, 1), done},
			false},
		{"register", []string{whPoint(wh166Config, 1, 1, 0xff000000), access("W", 4, flag, 0),
			done}, false},
	} {
		image, _ := mustImport(t, l1Trace(c.trace...), Options{})
		got := strings.Contains(imageText(image), "poll tlb0+0x10000 w4 0x600df00d")
		if got != c.poll {
			t.Errorf("%s: polled: %v, want %v\n%s", c.name, got, c.poll, imageText(image))
		}
	}
	image, _ := mustImport(t, l1Trace(access("W", 4, flag, 0), done),
		Options{Inputs: []TensorSpec{mustTensor(t, "a=1,1,0x10000,int32,1")}})
	if got := imageText(image); !strings.HasSuffix(got, "expect tlb0+0x10000 w4 0x0 mask 0x0\n") {
		t.Errorf("the load of an input does not ignore its value:\n%s", got)
	}
	image, _ = mustImport(t, mmiotrace(shmDevice, "W 8 2:0x100 0x0", "R 4 2:0x104 0x1"), Options{})
	checkCommands(t, image, "\nwrite bar2+0x100 w8 0x0\npoll bar2+0x104 w4 0x1 mask 0xffffffff "+
		"for 1000000 us\n")
}

func TestDeadlineIsTenTimesTheDurationOfTheLoop(t *testing.T) {
	loop := func(store, first, last string) string {
		return mmiotrace(eduDevice, "@"+store+" W 4 0x8 0x5", "@"+first+" R 4 0x40 0x0",
			"@"+last+" R 4 0x40 0x1")
	}
	for _, c := range []struct {
		name, text string
		deadlineUs uint32
		want       string
	}{
		{"fast", loop("1.0", "1.001", "1.002"), 0, "1000000 us"},
		{"slow", loop("1.0", "1.0", "3.5"), 0, "25000000 us"},
		{"the program slept before it looked", loop("1.0", "3.4", "3.5"), 0, "25000000 us"},
		{"longer than the format can express", loop("1.0", "1.0", "9999.0"), 0, "4294967295 us"},
		{"time goes back", loop("5.0", "5.0", "2.0"), 0, "1000000 us"},
		{"as the user says", loop("1.0", "1.0", "3.5"), 77, "77 us"},
	} {
		image, _ := mustImport(t, c.text, Options{DeadlineUs: c.deadlineUs})
		if got := imageText(image); !strings.HasSuffix(got, "for "+c.want+"\n") {
			t.Errorf("%s: want a deadline of %s:\n%s", c.name, c.want, got)
		}
	}
}

// TestWaitThatTimedOutIsOnePoll: repeated loads of one value between two stores, of a register that
// changes elsewhere, are a wait that timed out. They become one poll, with or without time stamps.
func TestWaitThatTimedOutIsOnePoll(t *testing.T) {
	loads := func(format string) (list []string) {
		for n := range 60 {
			list = append(list, fmt.Sprintf(format, n))
		}
		return list
	}
	want := "write bar0+0x8 w4 0x5\npoll bar0+0x20 w4 0x1 mask 0x1 for 1000000 us\n" +
		"write bar0+0x8 w4 0x0\n"
	timed, report := mustImport(t, mmiotrace(eduDevice,
		slices.Concat([]string{"@1.0 W 4 0x8 0x5"}, loads("@1.%03d R 4 0x20 0x1"),
			[]string{"@1.06 W 4 0x8 0x0"})...), Options{})
	checkCommands(t, timed, want)
	wantSummary(t, report, "fold",
		"60 single loads of registers that change by themselves became 1 poll")
	untimed, _ := mustImport(t,
		eduTrace(slices.Concat([]string{"w 08 4 0x5"}, slices.Repeat([]string{"r 20 4 0x1"}, 60),
			[]string{"w 08 4 0x0"})...),
		forEdu(Options{Regions: []traces.Region{{Base: eduBase}}}))
	checkCommands(t, untimed, want)
}

func TestMarksAreImported(t *testing.T) {
	text := mmiotrace(eduDevice, "MARK 1.0   load  program\t", "MARK 1.0 ", "MARK 1.0 a\x00b\xffc",
		"W 4 0x4 0x1", "MARK 1.0 "+strings.Repeat("é", 200))
	image, report := mustImport(t, text, Options{})
	checkCommands(t, image, "\nmark load  program\nmark a b\uFFFDc\nwrite bar0+0x4 w4 0x1\nmark "+
		strings.Repeat("é", 127)+"\n")
	wantSummary(t, report, "mark", "3 marks; 1 mark without text dropped")
	image, report = mustImport(t, text, Options{Without: []string{"mark"}})
	checkCommands(t, image, "\nwrite bar0+0x4 w4 0x1\n")
	wantSummary(t, report, "mark", "")
}

// TestRangesWithoutALoadCauseAWarning: a misspelled range has no effect, so the import warns of it.
// A range with loads does not cause a warning, even if the board already describes the register as
// one that changes.
func TestRangesWithoutALoadCauseAWarning(t *testing.T) {
	trace := eduTrace("w 08 4 0x5", "r 20 4 0x1", "r 20 4 0x0", "r 08 4 0x78", "r 10 4 0x1")
	_, report := mustImport(t, trace, forEdu(Options{Regions: []traces.Region{{Base: eduBase}},
		Poll:   []Range{mustRange(t, "0x20"), mustRange(t, "0x8"), mustRange(t, "0x9990")},
		Ignore: []Range{mustRange(t, "0x10-0x13"), mustRange(t, "bar0+0x80-0x87")}}))
	got := ""
	for _, w := range report.Warnings {
		got += w.String() + "\n"
	}
	want := "--poll 0x9990-0x9990 has no effect: no load is in this range\n" +
		"--ignore bar0+0x80-0x87 has no effect: no load is in this range\n"
	if got != want {
		t.Errorf("warnings\n%s\nwant\n%s", got, want)
	}
}
