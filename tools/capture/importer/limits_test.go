package importer

import (
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/capture/record"
)

func TestNamesHaveALengthAndVisibleCharacters(t *testing.T) {
	longest := strings.Repeat("x", fbs.NameMax)
	for name, want := range map[string]string{
		"": "is empty", longest: "", longest + "x": "longer than", "weights.0/é": "",
		"a b": "blanks", "a,b": "commas", "a\tb": "control", "a\u200bb": "invisible", "\xff": "blanks",
	} {
		if got := nameReason(name); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("name %q: reason %q, want %q", name, got, want)
		}
	}
}

func TestRuleCoversTheWholeRangeOrIsNotOfIt(t *testing.T) {
	l := &lifter{program: &program{}}
	l.board = &boards.Board{Rules: []boards.AccessRule{{Bar: 2, First: 0x10, Last: 0x1f},
		{Bar: 2, First: 0x20, Last: 0x20}}}
	for _, c := range []struct {
		bar          uint8
		offset, size uint64
		want         int
	}{
		{2, 0x10, 16, 0}, {2, 0x1f, 1, 0}, {2, 0x20, 1, 1}, {2, 0x10, 17, -1}, {2, 0xf, 1, -1},
		{2, 0x1f, 2, -1}, {2, 0x21, 1, -1}, {0, 0x10, 1, -1},
	} {
		if got := l.ruleIndex(c.bar, c.offset, c.size); got != c.want {
			t.Errorf("%d bytes at BAR %d + %#x: rule %d, want %d", c.size, c.bar, c.offset, got,
				c.want)
		}
	}
}

func TestDeviceReachesNoByteBeyondTheFileOfHostMemory(t *testing.T) {
	for _, c := range []struct {
		bus, size uint64
		fits      bool
	}{{0x1000, 0x100, true}, {0x10ff, 1, true}, {0x10f8, 8, true}, {0x10f9, 8, false},
		{0x1000, 0x101, false}} {
		l := &lifter{program: &program{}}
		l.hostSpaces = []hostSpace{{name: "given", bus: 0x1000, size: 0x100, fromUser: true}}
		i, offset, err := l.hostSpaceAt(7, c.bus, c.size)
		if c.fits && (err != nil || i != 0 || offset != c.bus-0x1000) ||
			!c.fits && (err == nil || !strings.Contains(err.Error(), "host memory given")) {
			t.Errorf("%d bytes at %#x: memory %d + %#x, %v; fits: %v", c.size, c.bus, i, offset, err,
				c.fits)
		}
	}
}

// TestOnlyACutRecordingIsAcceptedAsIncomplete: a wrong line stays an error.
func TestOnlyACutRecordingIsAcceptedAsIncomplete(t *testing.T) {
	whole := recordOf(whRecord, storeLine(2, 0, 1, 0, 0, 0), storeLine(2, 4, 2, 0, 0, 0))
	cut, _, _ := strings.Cut(whole, "END ")
	wrong := strings.Replace(whole, "W 2 4 4", "W 2 4 five", 1)
	for what, c := range map[string]struct {
		text        string
		accesses    int
		isTruncated bool
	}{"cut": {cut, 2, true}, "wrong": {wrong, 0, false}, "empty": {"", 0, true}} {
		source := traces.Source{From: FromRecord, Incomplete: true}
		trace, list, err := traces.Read(strings.NewReader(c.text), source)
		if len(list) != c.accesses || (err == nil) != (c.accesses > 0) ||
			err == nil && len(trace.Warnings) != 1 ||
			err != nil && (hal.CodeOf(err) == hal.Internal || record.Incomplete(err) && !c.isTruncated) {
			t.Errorf("%s: %d accesses, %v", what, len(list), err)
		}
		source.Incomplete = false
		if _, _, err := traces.Read(strings.NewReader(c.text), source); err == nil {
			t.Errorf("%s: accepted as a complete recording", what)
		}
	}
}
