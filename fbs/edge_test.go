package fbs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"testing"
	"unicode"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

func TestFileAtAnOddAddressIsRejected(t *testing.T) {
	file := append(make([]byte, 1), encode(t, sample())...)[1:]
	_, err := fbs.Verify(file)
	wantError(t, err, "image: address in memory must be a multiple of 8")
}

func TestNamesAreFoundOrNot(t *testing.T) {
	view, err := fbs.Verify(encode(t, sample()))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"main": 0, "safe": 1, "none": -1, "": -1} {
		if got := view.SequenceByName(name); got != want {
			t.Errorf("sequence %q: %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]int{"a": 0, "d": 1, "main": -1} {
		if got := view.TensorByName(name); got != want {
			t.Errorf("tensor %q: %d, want %d", name, got, want)
		}
	}
	if got := view.TensorData(&view.Tensors[0]); !bytes.Equal(got, bytes.Repeat([]byte{7}, 32)) {
		t.Errorf("data are % x", got)
	}
	if got := view.TensorData(&view.Tensors[1]); got != nil {
		t.Errorf("data of a tensor without data are % x", got)
	}
}

func TestTileRangesPackAndUnpack(t *testing.T) {
	for _, want := range []fbs.TileRoute{
		{X: 1, Y: 2, Ordering: boards.OrderingDefault},
		{X: 9, Y: 11, XStart: 1, YStart: 2, NoC: 1, Ordering: boards.OrderingPosted,
			StaticVCPlusOne: 8,
			Multicast:       true},
	} {
		if got, ok := boards.UnpackTileRoute(want.Pack()); !ok || got != want {
			t.Errorf("%+v comes back as %+v, %v", want, got, ok)
		}
	}
	for _, bad := range []fbs.TileRoute{
		{Ordering: 0}, {Ordering: 4}, {Ordering: 1, NoC: 2}, {Ordering: 1, StaticVCPlusOne: 9},
		{Ordering: 1, XStart: 1}, {Ordering: 1, YStart: 1},
	} {
		if _, ok := boards.UnpackTileRoute(bad.Pack()); ok {
			t.Errorf("%+v is accepted", bad)
		}
	}
	if _, ok := boards.UnpackTileRoute(1<<40 | 2<<56); ok {
		t.Error("a multicast of 2 is accepted")
	}
}

func TestElementSizes(t *testing.T) {
	want := map[gen.DType]uint8{0: 0, 1: 1, 2: 1, 3: 2, 4: 2, 5: 4, 6: 4, 7: 8, 8: 8, 9: 2, 10: 2,
		11: 4, 12: 8, 13: 0}
	got := map[gen.DType]uint8{}
	for d := range gen.DType(14) {
		got[d] = fbs.DTypeSize(d)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for width, mask := range map[uint8]uint64{1: 0xff, 2: 0xffff, 4: 0xffffffff,
		8: 0xffffffffffffffff} {
		if got := fbs.WidthMask(width); got != mask {
			t.Errorf("width %d: %#x", width, got)
		}
	}
}

// TestNamesInMessagesAreHarmless checks Quote, whose results go to terminals.
func TestNamesInMessagesAreHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[2J\"\x7f\nb":          `"a?[2J???b"`,
		"\u0085\u202e\u2028\xff\x9b": `"?????"`,
		"größe €😀":                   `"größe €😀"`,
	} {
		if got := fbs.Quote(text); got != want {
			t.Errorf("%q becomes %s, want %s", text, got, want)
		}
	}
	if got := fbs.Text("%d is %x, 100%", 255, 255); got != "255 is 0xff, 100%" {
		t.Error(got)
	}
}

func TestPreambleHasTheFieldsOfTheFile(t *testing.T) {
	file := encode(t, sample())
	little := binary.LittleEndian
	p := fbs.ReadStruct[fbs.Preamble](file)
	if p.EnvelopeSize != little.Uint64(file[32:]) || p.SchemaHash != fbs.SchemaHash ||
		p.Checksum != little.Uint32(file[12:]) {
		t.Errorf("%+v", p)
	}
	want := fbs.Preamble{RootOffset: little.Uint32(file), Identifier: [4]byte{'L', 'M'}}
	if p := fbs.ReadStruct[fbs.Preamble](file[:6]); p != want {
		t.Errorf("six bytes are read as %+v, want %+v", p, want)
	}
}

// TestLongestTimeIncludesEveryOpcode computes the longest time of the sample image, which has
// every opcode.
func TestLongestTimeIncludesEveryOpcode(t *testing.T) {
	view, err := fbs.Verify(encode(t, sample()))
	if err != nil {
		t.Fatal(err)
	}
	// The commands of main in their order, then those of safe, which main calls.
	const safe = 13 + 12 + 1012 + 1
	const main = 1 + 2 + 2 + 12 + 1012 + 5 + (1 + 2) + (1 + 4) + (1 + 99) + (11 + 3) + (1 + 1) +
		(11 + 1) + 12 + 11 + 1 + 1
	if got := view.WorstCaseUs; got[0] != main+safe || got[1] != safe {
		t.Error(got)
	}
}

// TestConditionsCompareBitsInsideTheMask covers Equal and NotEqual; bits outside the mask do not
// count.
func TestConditionsCompareBitsInsideTheMask(t *testing.T) {
	for _, test := range []struct {
		condition gen.Condition
		loaded    uint64
		want      bool
	}{
		{gen.ConditionEqual, 0x1234, true},
		{gen.ConditionEqual, 0x1235, false},
		{gen.ConditionEqual, 0xff34, true},
		{gen.ConditionNotEqual, 0x1234, false},
		{gen.ConditionNotEqual, 0x1235, true},
		{gen.ConditionNotEqual, 0xff34, false},
	} {
		t.Run(fmt.Sprintf("%v %#x", test.condition, test.loaded), func(t *testing.T) {
			c := fbs.Command{Mode: uint8(test.condition), Mask: 0xff, Value: 0x34}
			if got := fbs.ConditionMet(&c, test.loaded); got != test.want {
				t.Errorf("condition met: %v, want %v", got, test.want)
			}
		})
	}
}

// TestFixedBusIsTheOffsetOfAWindowWithTheFlag covers windows with and without the flag.
func TestFixedBusIsTheOffsetOfAWindowWithTheFlag(t *testing.T) {
	w := fbs.Window{Kind: gen.WindowKindHost, Offset: 0x8_0000_0000, Flags: fbs.FlagFixedBus}
	if got := fbs.FixedBusAddress(&w); got != 0x8_0000_0000 {
		t.Errorf("with the flag: %#x", got)
	}
	w.Flags = 0
	if got := fbs.FixedBusAddress(&w); got != 0 {
		t.Errorf("without the flag: %#x", got)
	}
}

// TestReachedHoldsForHalfOfAllValues counts up from each value of counters of 1 to 6 bits: the
// condition holds at that value and until the counter is half of its range away. The bits above
// the counter, which the device may set as it likes, change nothing.
func TestReachedHoldsForHalfOfAllValues(t *testing.T) {
	for bits := range 6 {
		size := uint64(2) << bits
		for value := range size {
			c := fbs.Command{Mode: uint8(gen.ConditionReached), Mask: size - 1, Value: value}
			for steps := range size {
				for _, above := range []uint64{0, size, ^(size - 1)} {
					loaded := (value+steps)%size | above
					if got := fbs.ConditionMet(&c, loaded); got != (steps < size/2) {
						t.Fatalf("%d bits: %#x reached %#x: %v", bits+1, loaded, value, got)
					}
				}
			}
		}
	}
	widest := fbs.Command{Mode: uint8(gen.ConditionReached), Mask: math.MaxUint64,
		Value: math.MaxUint64 - 1}
	for loaded, want := range map[uint64]bool{
		math.MaxUint64 - 1: true, math.MaxUint64: true, 0: true, 1<<63 - 3: true,
		1<<63 - 2: false, math.MaxUint64 - 2: false,
	} {
		if fbs.ConditionMet(&widest, loaded) != want {
			t.Errorf("64 bits: %#x reached %#x: %v", loaded, widest.Value, !want)
		}
	}
}

// TestOriginalIsWhatVerifyReturned assigns fields of a view. Original must ignore them.
func TestOriginalIsWhatVerifyReturned(t *testing.T) {
	view, err := fbs.Verify(encode(t, sample()))
	if err != nil {
		t.Fatal(err)
	}
	want := *view
	changed := *view
	changed.Commands, changed.Sequences, changed.Windows = changed.Commands[:1], nil, nil
	changed.TimeLimitUs = 5
	want.TimeLimitUs = 5
	if got := changed.VerifiedCopy(); len(got.Commands) != len(want.Commands) ||
		len(got.Sequences) != len(want.Sequences) || len(got.Windows) != len(want.Windows) ||
		got.TimeLimitUs != 5 {
		t.Errorf("%d commands, %d us", len(got.Commands), got.TimeLimitUs)
	}
	if (&fbs.View{Commands: view.Commands}).VerifiedCopy() != nil {
		t.Error("a view that Verify did not return has an original")
	}
}

// TestIgnoredFailureCountsAQueryOfEachDevice checks that the longest time of a sequence
// includes a query of every device of the image.
func TestIgnoredFailureCountsAQueryOfEachDevice(t *testing.T) {
	for targets := 2; targets <= 3; targets++ {
		image := sample()
		image.Tensors, image.Sequences[0].Commands = nil, image.Sequences[0].Commands[:4]
		if targets == 2 { // without the one in the middle, which has rules and windows of its own
			image.Devices = []lmb.Device{image.Devices[0], image.Devices[2]}
			image.Rules, image.Windows = nil, image.Windows[:4]
			image.Windows[0].Device = 1
		}
		before, err := fbs.Verify(encode(t, image))
		if err != nil {
			t.Fatal(err)
		}
		image.Sequences[0].Commands[3].Option = uint8(gen.PolicyIgnore)
		after, err := fbs.Verify(encode(t, image))
		if err != nil {
			t.Fatal(err)
		}
		if got := after.WorstCaseUs[0] - before.WorstCaseUs[0]; got != uint64(10*targets) {
			t.Errorf("%d targets: an ignored failure counts %d us", targets, got)
		}
	}
}

func TestCommandsLieInMemoryAsInAFile(t *testing.T) {
	view, err := fbs.Verify(encode(t, sample()))
	if err != nil {
		t.Fatal(err)
	}
	file := view.Envelope
	fence := []byte{byte(gen.OpcodeFence), 0, 0, 0, 0, 0, 0, 0} // the first command of the sample
	first := bytes.Index(file, fence)
	got := fbs.CommandsIn(file[first:][:fbs.CommandSize*len(view.Commands)])
	if !reflect.DeepEqual(got, view.Commands) {
		t.Errorf("%+v", got)
	}
}

// TestControlCharactersAreThoseOfUnicode compares with Unicode's own tables.
func TestControlCharactersAreThoseOfUnicode(t *testing.T) {
	tables := []*unicode.RangeTable{unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if want := unicode.In(r, tables...); fbs.IsControl(r) != want {
			t.Errorf("%U: %v, want %v", r, fbs.IsControl(r), want)
		}
	}
}
