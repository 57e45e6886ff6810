package importer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
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
			ignored(0x40) + ignored(0x50) +
				"poll bar0+0x40 w4 0x1" + eduPollEnd + "poll bar0+0x50 w4 0x1" + eduPollEnd},
		{"a quiet register inside a loop", []string{"R 4 0x40 0x0", "R 4 0x50 0x9", "R 4 0x40 0x1",
			"R 4 0x50 0x9"},
			ignored(0x40) + "expect bar0+0x50 w4 0x9 mask 0xffffffff\n" +
				"poll bar0+0x40 w4 0x1" + eduPollEnd + "expect bar0+0x50 w4 0x9 mask 0xffffffff\n"},
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
		{"a wait that timed out keeps its loads if other registers are loaded",
			slices.Concat([]string{"W 4 0x8 0x5", "R 4 0x20 0x1", "R 4 0x20 0x0", "W 4 0x8 0x6"},
				slices.Repeat([]string{"R 4 0x20 0x1", "R 4 0x50 0x9"}, 3),
				[]string{"W 4 0x4 0x1", "R 4 0x20 0x1"}),
			"write bar0+0x8 w4 0x5\npoll bar0+0x20 w4 0x0 mask 0x1 for 1000000 us\n" +
				"write bar0+0x8 w4 0x6\n" +
				strings.Repeat("poll bar0+0x20 w4 0x1 mask 0x1 for 1000000 us\n"+
					"expect bar0+0x50 w4 0x9 mask 0xffffffff\n", 3) +
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

// ignored returns the text of a load of 4 bytes whose value is not compared.
func ignored(offset uint64) string {
	return fmt.Sprintf("expect bar0+0x%x w4 0x0 mask 0x0\n", offset)
}

// loopTrace returns a trace of loads of 4 bytes: "a3" is a load of register 0x100 that returns 3,
// "b" one of 0x110, and so on; "|" is a store.
func loopTrace(loads string) string {
	var list []string
	for _, l := range strings.Fields(loads) {
		if l == "|" {
			list = append(list, "W 4 0x200 0x0")
			continue
		}
		list = append(list, fmt.Sprintf("R 4 0x%x 0x%s", 0x100+16*int(l[0]-'a'), l[1:]))
	}
	return mmiotrace(eduDevice, list...)
}

// loopText returns the loads of an image in the form of loopTrace: "b?" is a load whose value is
// not compared, and "b=3" a poll.
func loopText(image *lmb.Image) string {
	var list []string
	for _, c := range image.Sequences[0].Commands {
		name, value := string(rune('a'+(c.Offset-0x100)/16)), fmt.Sprintf("%x", c.Value)
		switch {
		case c.Opcode != gen.OpcodeExpect:
			name, value = "|", ""
		case c.Amount != 0:
			value = "=" + value
		case c.Mask == 0:
			value = "?"
		}
		list = append(list, name+value)
	}
	return strings.Join(list, " ")
}

// TestFoldKeepsTheFirstAndTheLastTurnOfALoop: in a loop of several registers, a load of one may
// change what another returns. The first turn and the last one stay as they were recorded.
func TestFoldKeepsTheFirstAndTheLastTurnOfALoop(t *testing.T) {
	for _, c := range []struct {
		name, loads, want string
		warns             bool
	}{
		{"low latches high", "a1 b7 a2 b7", "a? b7 a=2 b7", false},
		{"many turns", "a1 b7 a1 b7 a2 b7 a3 b7 a4 b7", "a? b7 a=4 b7", false},
		{"left in the middle", "a1 b7 a2 b7 a3 b7 a4", "a? b7 a? b7 a=4", false},
		{"both change", "a1 b1 a2 b1 a3 b2 a4 b2", "a? b? a=4 b=2", false},
		{"one is final before the other", "a0 b0 a1 b0 a1 b0 a1 b1", "a? b? a=1 b=1", false},
		{"three registers", "a0 b7 c8 a0 b7 c8 a0 b7 c8 a1 b7 c8", "a? b7 c8 a=1 b7 c8", false},
		{"high, low, high", "b1 a8 b2 b2 a9 b3 b3 a1 b3", "b? a? b? a=1 b=3", false},
		{"other loads before the loop", "a0 d5 e6 a1 b7 a1 b7 a2 b7",
			"a? d5 e6 a? b7 a=2 b7", true},
		{"another order in each turn", "a1 b7 c8 a2 c8 b7 a3", "a? b7 c8 a? c8 b7 a=3", true},
		{"a store starts again", "a1 b7 a2 b7 | a1 b7 a1 b7 a2 b7",
			"a? b7 a=2 b7 | a? b7 a=2 b7", false},
		{"only one register", "a1 a2 a3 b7", "a=3 b7", false},
		{"again and again", "a0 b7 a1 b7 a0 b7 a1 b7", "a? b7 a=1 b7 a? b7 a=1 b7", false},
		{"a long turn", "a0" + strings.Repeat(" b1 c1", 32) + " a1" + strings.Repeat(" b1 c1", 32) +
			" a2", "a?" + strings.Repeat(" b1 c1", 32) + " a?" + strings.Repeat(" b1 c1", 32) +
			" a=2", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			image, report := mustImport(t, loopTrace(c.loads), Options{})
			if got := loopText(image); got != c.want {
				t.Errorf("loads %s became\n%s, want\n%s", c.loads, got, c.want)
			}
			if got := strings.Contains(report.String(), "--loads-have-no-effect"); got != c.warns {
				t.Errorf("names --loads-have-no-effect: %v, want %v:\n%s", got, c.warns, report)
			}
		})
	}
}

// TestLoadsWithoutEffectAreLeftOut: with LoadsHaveNoEffect, only the last load of a loop stays.
func TestLoadsWithoutEffectAreLeftOut(t *testing.T) {
	for loads, want := range map[string]string{
		"a1 b7 a2 b7":               "b7 a=2 b7",
		"a1 b7 c8 a2 c8 b7 a3":      "b7 c8 c8 b7 a=3",
		"a0 a1 | a1 b7 a1 b7 a1 b7": "a=1 | a=1 b7 b7 b7",
		"a0 b0 a1 b0 a1 b0 a1 b1":   "a=1 a=1 b=1",
	} {
		image, report := mustImport(t, loopTrace(loads), Options{LoadsHaveNoEffect: true})
		if got := loopText(image); got != want || len(report.Warnings) > 0 {
			t.Errorf("loads %s became\n%s, want\n%s; warnings "+
				"%v", loads, got, want, report.Warnings)
		}
	}
}

// TestFoldLoadsNothingInAnotherOrder imports random loops: whatever the fold does, each load in the
// image follows a register that it followed in the trace, and the first and last ones are the same.
func TestFoldLoadsNothingInAnotherOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	folded := 0
	for range 1000 {
		var loads []string
		for range 1 + random.IntN(3) {
			turn := randomTurn(random)
			for range random.IntN(6) {
				for _, r := range turn {
					loads = append(loads, fmt.Sprintf("%c%d", r, random.IntN(1+random.IntN(3))))
				}
			}
			loads = append(loads, fmt.Sprintf("%c%d", randomTurn(random)[0], random.IntN(2)))
		}
		text := strings.Join(loads, " ")
		image, _ := mustImport(t, loopTrace(text), Options{})
		got := loopText(image)
		want, have := registerPairs(text), registerPairs(got)
		for pair := range have {
			if !want[pair] {
				t.Fatalf("loads %s became\n%s: %q is new", text, got, pair)
			}
		}
		if len(strings.Fields(got)) < len(loads) {
			folded++
		}
	}
	if folded < 300 {
		t.Errorf("only %d traces became shorter", folded)
	}
}

func randomTurn(random *rand.Rand) (registers string) {
	for range 1 + random.IntN(3) {
		registers += string(rune('a' + random.IntN(4)))
	}
	return registers
}

// registerPairs returns which register is loaded after which other one, from "^" to "$".
func registerPairs(loads string) map[string]bool {
	pairs, before := map[string]bool{}, "^"
	for _, l := range append(strings.Fields(loads), "$") {
		if l[:1] != before {
			pairs[before+l[:1]] = true
		}
		before = l[:1]
	}
	return pairs
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
