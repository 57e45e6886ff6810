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
	"lightmetal/tools/check/effort"
	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/image/lmb"
)

func TestFileAtAnOddAddressIsRejected(t *testing.T) {
	file := append(make([]byte, 1), encode(t, sampleImage())...)[1:]
	_, err := fbs.Verify(file)
	wantError(t, err, "image: address in memory must be a multiple of 8")
}

func TestSequencesAndTensorsAreFoundByName(t *testing.T) {
	view, err := fbs.Verify(encode(t, sampleImage()))
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
		t.Errorf("data of tensor a are % x, want 32 bytes of 07", got)
	}
	if got := view.TensorData(&view.Tensors[1]); got != nil {
		t.Errorf("data of tensor d, which has none, are % x", got)
	}
}

func TestTileRoutesPackAndUnpack(t *testing.T) {
	for _, want := range []fbs.TileRoute{
		{X: 1, Y: 2, Ordering: boards.OrderingDefault},
		{X: 9, Y: 11, XStart: 1, YStart: 2, NoC: 1, Ordering: boards.OrderingPosted,
			StaticVCPlusOne: 8,
			Multicast:       true},
	} {
		if got, ok := boards.UnpackTileRoute(want.Pack()); !ok || got != want {
			t.Errorf("%+v is packed and unpacked to %+v, %v", want, got, ok)
		}
	}
	for _, bad := range []fbs.TileRoute{
		{Ordering: 0}, {Ordering: 4}, {Ordering: 1, NoC: 2}, {Ordering: 1, StaticVCPlusOne: 9},
		{Ordering: 1, XStart: 1}, {Ordering: 1, YStart: 1},
	} {
		if _, ok := boards.UnpackTileRoute(bad.Pack()); ok {
			t.Errorf("invalid route %+v is accepted", bad)
		}
	}
	if _, ok := boards.UnpackTileRoute(1<<40 | 2<<56); ok {
		t.Error("a route with the value 2 for multicast is accepted")
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
		t.Errorf("sizes of types %v, want %v", got, want)
	}
	for width, mask := range map[uint8]uint64{1: 0xff, 2: 0xffff, 4: 0xffffffff,
		8: 0xffffffffffffffff} {
		if got := fbs.WidthMask(width); got != mask {
			t.Errorf("mask of width %d: %#x, want %#x", width, got, mask)
		}
	}
}

// TestQuotedNamesHaveNoHiddenCharacters checks Quote, whose results are printed on terminals.
func TestQuotedNamesHaveNoHiddenCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[2J\"\x7f\nb":          `"a?[2J???b"`,
		"\u0085\u202e\u2028\xff\x9b": `"?????"`,
		"s\u200baf\U000e0020e":       `"s?af?e"`,
		"größe €😀":                   `"größe €😀"`,
	} {
		if got := fbs.Quote(text); got != want {
			t.Errorf("Quote(%q) returns %s, want %s", text, got, want)
		}
	}
	if got := fbs.Text("%d is %x, 100%", 255, 255); got != "255 is 0xff, 100%" {
		t.Errorf("Text returns %q", got)
	}
}

// TestImagesAreIdentifiedByEightDigits checks a checksum that begins with zeros.
func TestImagesAreIdentifiedByEightDigits(t *testing.T) {
	if got := fbs.ImageID(0xbcd31); got != "0x000bcd31" {
		t.Errorf("ImageID returns %s, want 0x000bcd31", got)
	}
	file := encode(t, sampleImage())
	want := fmt.Sprintf("0x%08x", binary.LittleEndian.Uint32(file[12:]))
	if view, err := fbs.Verify(file); err != nil || view.ID() != want {
		t.Errorf("error %v; the id of the view must be %s", err, want)
	}
}

func TestPreambleHasTheFieldsOfTheFile(t *testing.T) {
	file := encode(t, sampleImage())
	little := binary.LittleEndian
	p := fbs.ReadStruct[fbs.Preamble](file)
	if p.EnvelopeSize != little.Uint64(file[32:]) || p.SchemaHash != fbs.SchemaHash ||
		p.Checksum != little.Uint32(file[12:]) {
		t.Errorf("preamble %+v; its fields must be those at offsets 12 and 32 of the file and the "+
			"schema hash", p)
	}
	want := fbs.Preamble{RootOffset: little.Uint32(file), Identifier: [4]byte{'L', 'M'}}
	if p := fbs.ReadStruct[fbs.Preamble](file[:6]); p != want {
		t.Errorf("six bytes are read as %+v, want %+v", p, want)
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

// TestFixedBusIsTheOffsetOfAWindowWithTheFlag checks a window with the flag and without it.
func TestFixedBusIsTheOffsetOfAWindowWithTheFlag(t *testing.T) {
	w := fbs.Window{Kind: gen.WindowKindHost, Offset: 0x8_0000_0000, Flags: fbs.FlagFixedBus}
	if got := fbs.FixedBusAddress(&w); got != 0x8_0000_0000 {
		t.Errorf("bus address with the flag: %#x, want %#x", got, w.Offset)
	}
	w.Flags = 0
	if got := fbs.FixedBusAddress(&w); got != 0 {
		t.Errorf("bus address without the flag: %#x, want 0", got)
	}
}

// TestReachedHoldsForHalfOfAllValues counts up from each value of counters of 1 to 6 bits. The
// condition must hold at that value and until the counter is half of its range away. The bits above
// the counter may have any value, and have no effect.
func TestReachedHoldsForHalfOfAllValues(t *testing.T) {
	for bits := range 6 {
		size := uint64(2) << bits
		for value := range size {
			c := fbs.Command{Mode: uint8(gen.ConditionReached), Mask: size - 1, Value: value}
			for steps := range size {
				for _, above := range []uint64{0, size, ^(size - 1)} {
					loaded := (value+steps)%size | above
					if got := fbs.ConditionMet(&c, loaded); got != (steps < size/2) {
						t.Fatalf("%d bits: %#x reached %#x: got %v, want %v", bits+1, loaded,
							value, got, !got)
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
			t.Errorf("64 bits: %#x reached %#x: got %v, want %v", loaded, widest.Value, !want, want)
		}
	}
}

// TestVerifiedCopyIgnoresChangedFields assigns fields of a view. VerifiedCopy must return what
// Verify returned, except TimeLimitUs.
func TestVerifiedCopyIgnoresChangedFields(t *testing.T) {
	view, err := fbs.Verify(encode(t, sampleImage()))
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
		t.Errorf("VerifiedCopy has %d commands, %d sequences, %d windows, limit %d us; want %d, "+
			"%d, %d, 5 us", len(got.Commands), len(got.Sequences), len(got.Windows),
			got.TimeLimitUs, len(want.Commands), len(want.Sequences), len(want.Windows))
	}
	if (&fbs.View{Commands: view.Commands}).VerifiedCopy() != nil {
		t.Error("VerifiedCopy of a view that Verify did not return is not nil")
	}
}

func TestCommandsHaveTheSameLayoutInMemoryAndInAFile(t *testing.T) {
	view, err := fbs.Verify(encode(t, sampleImage()))
	if err != nil {
		t.Fatal(err)
	}
	file := view.Envelope
	fence := []byte{byte(gen.OpcodeFence), 0, 0, 0, 0, 0, 0, 0} // the first command of the image
	first := bytes.Index(file, fence)
	got := fbs.CommandsIn(file[first:][:fbs.CommandSize*len(view.Commands)])
	if !reflect.DeepEqual(got, view.Commands) {
		t.Errorf("CommandsIn returns %+v, want %+v", got, view.Commands)
	}
}

// TestHiddenCharactersAreThoseOfUnicode compares IsHidden with the tables of package unicode, which
// also say that all other letters, digits and signs may be in names.
func TestHiddenCharactersAreThoseOfUnicode(t *testing.T) {
	effort.SkipShort(t)
	ranges := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		got := fbs.IsHidden(r)
		if want := oracle.IsHidden(r); got != want {
			t.Errorf("IsHidden(%U): %v, want %v", r, got, want)
		}
		if got && (r == 0 || !fbs.IsHidden(r-1)) {
			ranges++
		}
		isIgnorable := unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
		if got && !isIgnorable && unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) {
			t.Errorf("IsHidden(%U) is true for a visible character", r)
		}
	}
	if ranges > 25 {
		t.Errorf("the hidden characters have %d ranges, want at most 25", ranges)
	}
}

// TestNamesOfSequencesAreASCIIWithoutBlanks verifies an image with each byte in the name of a
// sequence, and with each byte in the name of a tensor.
func TestNamesOfSequencesAreASCIIWithoutBlanks(t *testing.T) {
	image := sampleImage()
	image.Sequences[0].Name, image.Tensors[0].Name = "mbin", "tensor"
	file := encode(t, image)
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	accepts := func(name fbs.NameRange, b byte) bool {
		old := view.NameBytes(name)[1]
		view.NameBytes(name)[1] = b
		lmb.Stamp(file, uint64(len(view.Envelope)))
		_, err := fbs.Verify(file)
		view.NameBytes(name)[1] = old
		return err == nil
	}
	for i := range 256 {
		b := byte(i)
		if got, want := accepts(view.Sequences[0].Name, b), b > ' ' && b <= '~'; got != want {
			t.Errorf("byte %#x in the name of a sequence: accepted %v, want %v", b, got, want)
		}
		if got, want := accepts(view.Tensors[0].Name, b), b >= ' ' && b <= '~'; got != want {
			t.Errorf("byte %#x in the name of a tensor: accepted %v, want %v", b, got, want)
		}
	}
}
