package fbs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// changed returns the sample's file after a change through flatc's accessors, with the
// checksum fixed up.
func changed(t *testing.T, change func(*gen.Image)) []byte {
	t.Helper()
	file := encode(t, sample())
	change(gen.GetRootAsImage(file, 0))
	lmb.Stamp(file, binary.LittleEndian.Uint64(file[32:]))
	return file
}

// TestFilesThatNoEncoderWritesAreRejectedWithAReason has corruptions of fields that
// lmb.Encode computes itself.
func TestFilesThatNoEncoderWritesAreRejectedWithAReason(t *testing.T) {
	tensor := func(i *gen.Image) *gen.Tensor { x := new(gen.Tensor); i.Tensors(x, 1); return x }
	sequence := func(i *gen.Image) *gen.Sequence {
		x := new(gen.Sequence)
		i.Sequences(x, 1)
		return x
	}
	segment := func(i *gen.Image) *gen.Segment { x := new(gen.Segment); i.Segments(x, 0); return x }
	window := func(i *gen.Image) *gen.Window { x := new(gen.Window); i.Windows(x, 0); return x }
	for _, test := range []struct {
		want   string
		change func(*gen.Image)
	}{
		{"payload bytes are ",
			func(i *gen.Image) { i.Reservation(nil).MutatePayloadBytes(7) }},
		{"host bytes are 4096, but the windows need",
			func(i *gen.Image) { i.Reservation(nil).MutateHostBytes(4096) }},
		{"arena bytes are 64, but the tensors need",
			func(i *gen.Image) { i.Reservation(nil).MutateArenaBytes(64) }},
		{"arena offset is 0x80, but should be 0x40",
			func(i *gen.Image) { tensor(i).MutateArenaOffset(128) }},
		{"size is 8, but shape and element type need 6",
			func(i *gen.Image) { tensor(i).MutateSize(8) }},
		{"first must be ", func(i *gen.Image) { sequence(i).MutateFirst(3) }},
		{"sequence 0: last command 15 is not an end command",
			func(i *gen.Image) {
				x := new(gen.Command)
				i.Commands(x, 15)
				x.MutateOpcode(gen.OpcodeFence)
			}},
		{"the last sequence ends after 17 of 20 commands",
			func(i *gen.Image) { sequence(i).MutateCount(1) }},
		{"offset is 0x2000, but should be", func(i *gen.Image) { segment(i).MutateOffset(0x2000) }},
		{"payload bytes are ",
			func(i *gen.Image) { segment(i).MutateSize(1 << 40) }},
		{"payload: should end at 0x1000000", func(i *gen.Image) {
			segment(i).MutateSize(1 << 40)
			i.Reservation(nil).MutatePayloadBytes(1 << 40)
		}},
		{"segment 0: size must not be 0", func(i *gen.Image) { segment(i).MutateSize(0) }},
		{"is over the limit of 64 TiB",
			func(i *gen.Image) { segment(i).MutateSize(1 << 47) }},
		{"reserved bytes are not zero", func(i *gen.Image) { segment(i).MutateReserved(1) }},
		{"segment 0: checksum is", func(i *gen.Image) { segment(i).MutateCrc32c(1) }},
		{"reserved bytes are not zero", func(i *gen.Image) { window(i).MutateReserved(99) }},
		{"device 1: reserved bytes are not zero",
			func(i *gen.Image) { x := new(gen.Device); i.Devices(x, 1); x.MutateReserved(1) }},
		{"rule 2: name of 255 bytes at offset 65535 lies outside the text of",
			func(i *gen.Image) { x := new(gen.Rule); i.Rules(x, 2); x.MutateName(0xffffff) }},
		{"lies outside the text of", func(i *gen.Image) { tensor(i).MutateName(0xffff01) }},
		{"sequence 1: has no name", func(i *gen.Image) { sequence(i).MutateName(0x100) }},
		{"has_data is 2, but must be", func(i *gen.Image) { tensor(i).MutateHasData(2) }},
		{"invalid shape", func(i *gen.Image) { tensor(i).MutateDims(9) }},
		{"invalid shape", func(i *gen.Image) { tensor(i).MutateShape7(1) }},
	} {
		t.Run(test.want, func(t *testing.T) {
			_, err := fbs.Verify(changed(t, test.change))
			wantError(t, err, test.want)
		})
	}
}

// TestCountsAreCheckedBeforeTables checks the order of FORMAT.md section 1.2: all readers
// report the same one of two faults.
func TestCountsAreCheckedBeforeTables(t *testing.T) {
	_, err := fbs.Verify(changed(t, func(i *gen.Image) {
		target := new(gen.Device)
		i.Devices(target, 0)
		target.MutateReserved(1)
		i.Reservation(nil).MutateTensors(77)
	}))
	want := "reservation: tensor count is 77, but the image has"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

func TestFileLongerThanItsSegmentsIsRejected(t *testing.T) {
	file := append(encode(t, sample()), 0)
	lmb.Stamp(file, binary.LittleEndian.Uint64(file[32:]))
	if _, err := fbs.Verify(file); err == nil ||
		!strings.Contains(err.Error(), "payload: should end at") {
		t.Error(err)
	}
}

func TestDataOffsetWithoutDataIsRejected(t *testing.T) {
	image := sample()
	image.Tensors[1].Data = []byte{1, 2, 3, 4, 5, 6}
	file := encode(t, image)
	var tensor gen.Tensor
	gen.GetRootAsImage(file, 0).Tensors(&tensor, 1)
	tensor.MutateHasData(0)
	lmb.Stamp(file, binary.LittleEndian.Uint64(file[32:]))
	if _, err := fbs.Verify(file); err == nil ||
		!strings.Contains(err.Error(), "the tensor has no data") {
		t.Error(err)
	}
}

func TestFileAtAnOddAddressIsRejected(t *testing.T) {
	file := append(make([]byte, 1), encode(t, sample())...)[1:]
	if _, err := fbs.Verify(file); err == nil ||
		!strings.Contains(err.Error(), "its address in memory must be a multiple of 8") {
		t.Error(err)
	}
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

func TestPayloadOfAFileWithoutAnyIsRejected(t *testing.T) {
	image := sample()
	image.Tensors, image.Sequences = nil,
		[]lmb.Sequence{{Name: "main", Commands: []lmb.Command{{}}}}
	image.Sequences[0].Commands[0].Opcode = gen.OpcodeFence
	file := encode(t, image)
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	copyIn := fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 4, Mode: modeExact, Amount: 4}
	view.Commands[0] = copyIn
	lmb.Stamp(file, uint64(len(file)))
	_, err = fbs.Verify(file)
	wantError(t, err, "outside the payload of")
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

// TestNamesWithControlCharactersAreRejected checks every table that has names.
func TestNamesWithControlCharactersAreRejected(t *testing.T) {
	bad := []string{"a\nb", "\x00bc", "ab\x1b", "a\x7fb", "\u0085b", "\u2028", "\u202e", "\u2066",
		"\u200f", "\u061cb",
		"\xffbc", "ab\xc3", "\xed\xa0\x80", "\xc0\x8ab"}
	for _, text := range append(bad, "\u00e4b", "\u5b57", "a\"b") {
		want := slices.Contains(bad, text)
		for _, place := range []string{"device 0", "rule 0", "tensor 0", "sequence 0"} {
			image := sample()
			const name = "QXZ" // of which the text is to take the place
			switch place {
			case "device 0":
				image.Devices[0].Board = name
			case "rule 0":
				image.Rules[0].Name = name
			case "tensor 0":
				image.Tensors[0].Name = name
			case "sequence 0":
				image.Sequences[0].Name = name
			}
			file := encode(t, image)
			copy(file[bytes.Index(file, []byte(name)):][:len(name)], text)
			lmb.Stamp(file, binary.LittleEndian.Uint64(file[32:]))
			_, err := fbs.Verify(file)
			rejected := err != nil && strings.Contains(err.Error(), place+": name of 3 bytes at")
			if rejected != want || err != nil && !want {
				t.Errorf("%s %q: %v", place, text, err)
			}
		}
	}
}
