package fbs_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

const (
	equal     = uint8(gen.ConditionEqual)
	fail      = uint8(gen.PolicyFail)
	modeExact = uint8(gen.AccessExact)
	modeBulk  = uint8(gen.AccessBulk)
)

func command(c fbs.Command) lmb.Command { return lmb.Command{Command: c} }

// sample returns an image that uses every feature of the format.
func sample() *lmb.Image {
	target := fbs.TileRoute{X: 1, Y: 2, Ordering: boards.OrderingStrict, StaticVCPlusOne: 3}
	return &lmb.Image{
		Origin: lmb.Origin{Tool: "test", Source: "sample", Time: 7, Git: "abc"},
		Devices: []lmb.Device{{Board: "wormhole", Vendor: 0x1e52, Device: 0x401e,
			Bars: [6]uint64{0: 1 << 29, 4: 1 << 25}},
			{Board: "unknown", Vendor: 0xffff, Device: 1, Subsystem: 0x11001af4,
				Bars: [6]uint64{1: 0x2000, 2: 1 << 20}},
			{Board: "ivshmem", Vendor: 0x1af4, Device: 0x1110, Bars: [6]uint64{2: 1 << 29}}},
		Rules: []lmb.Rule{
			{Name: "registers", AccessRule: fbs.AccessRule{Device: 1, Bar: 1, Last: 0x7ff,
				Widths: 4}},
			{Name: "doorbells", AccessRule: fbs.AccessRule{Device: 1, Bar: 1, First: 0xa00,
				Last:   0x1fff,
				Widths: 4 | 8}},
			{Name: "memory", AccessRule: fbs.AccessRule{Device: 1, Bar: 2, Last: 1<<20 - 1,
				Widths: 15,
				Memory: 1}},
		},
		Windows: []lmb.Window{
			{Name: "regs", Window: fbs.Window{Kind: gen.WindowKindBar, Device: 2, Bar: 2,
				Slot: fbs.NoSlot, Offset: 0x1000, Size: 1 << 16}},
			{Name: "l1", Window: fbs.Window{Kind: gen.WindowKindTlb, Slot: 166, Size: 1 << 24,
				Flags: fbs.FlagWriteCombining}},
			{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.NoSlot, Size: 5000}},
			{Window: fbs.Window{Kind: gen.WindowKindConfig, Slot: fbs.NoSlot, Size: 256}},
			{Name: "own", Window: fbs.Window{Kind: gen.WindowKindBar, Device: 1, Bar: 1,
				Slot: fbs.NoSlot, Size: 0x2000}},
			{Window: fbs.Window{Kind: gen.WindowKindBar, Device: 1, Bar: 2, Slot: fbs.NoSlot,
				Size: 1 << 20, Flags: fbs.FlagWriteCombining}},
			{Name: "queue", Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.NoSlot,
				Flags: fbs.FlagFixedBus, Offset: 0x8_0000_0000, Size: 5000}},
			{Name: "results", Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.NoSlot,
				Flags: fbs.FlagFixedBus, Offset: 0x8_0000_2000, Size: 4096}},
		},
		Tensors: []lmb.Tensor{
			{Name: "a", Role: gen.RoleInput, DType: gen.DTypeInt32, Shape: []uint32{4, 2},
				Data: bytes.Repeat([]byte{7}, 32)},
			{Name: "d", Role: gen.RoleOutput, DType: gen.DTypeFloat16, Shape: []uint32{3}},
			{Name: "e", Role: gen.RoleOutput, DType: gen.DTypeFloat32, Shape: []uint32{1},
				Data:   []byte{0, 0, 0x80, 0x3f},
				Golden: lmb.Golden{Kind: gen.JudgementTolerance, First: math.Float32bits(0.5)}},
		},
		Sequences: []lmb.Sequence{
			{Name: "main", Commands: []lmb.Command{
				command(fbs.Command{Opcode: gen.OpcodeFence}),
				command(fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Offset: 8, Value: 5}),
				command(fbs.Command{Opcode: gen.OpcodeRelocate, Width: 8, Offset: 16, Index: 2,
					Value: 64}),
				command(fbs.Command{Opcode: gen.OpcodeExpect, Width: 2, Mode: equal, Option: fail,
					Offset: 8, Value: 5, Mask: 0xff}),
				command(fbs.Command{Opcode: gen.OpcodeExpect, Width: 4,
					Mode: uint8(gen.ConditionNotEqual), Option: fail, Offset: 4, Mask: 1,
					Amount: 1000, Index: 5}),
				command(fbs.Command{Opcode: gen.OpcodePoint, Window: 1, Value: 1 << 24,
					Mask: target.Pack()}),
				{Command: fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 4, Mode: modeExact,
					Window: 1, Amount: 8}, Data: []byte("12345678")},
				command(fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 8, Mode: modeBulk, Window: 1,
					Index: 1, Offset: 3, Amount: 30, Value: 2}),
				command(fbs.Command{Opcode: gen.OpcodeFill, Width: 1, Mode: uint8(gen.AccessFixed),
					Amount: 99, Value: 0x55}),
				command(fbs.Command{Opcode: gen.OpcodeCopyOut, Width: 2, Mode: modeExact, Window: 1,
					Index: 2, Amount: 6}),
				{Command: fbs.Command{Opcode: gen.OpcodeCompare, Width: 4, Option: fail, Window: 1,
					Amount: 4}, Data: []byte{0, 0, 0x80, 0x3f}},
				command(fbs.Command{Opcode: gen.OpcodeCopyOut, Width: 4, Mode: modeExact, Window: 1,
					Index: 3, Amount: 4}),
				command(fbs.Command{Opcode: gen.OpcodeExpect, Width: 4, Mode: equal, Option: fail}),
				command(fbs.Command{Opcode: gen.OpcodeDelay, Amount: 10}),
				command(fbs.Command{Opcode: gen.OpcodeCall, Index: 1}),
				{Command: fbs.Command{Opcode: lmb.OpcodeMark, Mode: uint8(gen.MarkKindPoint)},
					Data: []byte("end")},
			}},
			{Name: "safe", Commands: []lmb.Command{
				command(fbs.Command{Opcode: gen.OpcodeModify, Width: 2, Offset: 4, Mask: 4}),
				command(fbs.Command{Opcode: gen.OpcodeExpect, Width: 4, Mode: equal, Option: fail,
					Window: 3, Value: 0x401e1e52, Mask: 0xffffffff}),
				command(fbs.Command{Opcode: gen.OpcodeExpect, Width: 4,
					Mode: uint8(gen.ConditionReached), Option: fail, Window: 2, Value: 0x10,
					Mask: 0xffff, Amount: 1000}),
			}},
		},
	}
}

// ofWormhole makes window 0 a window of a BAR of the Wormhole.
func ofWormhole(i *lmb.Image, bar uint8, offset uint64) {
	w := &i.Windows[0]
	w.Device, w.Bar, w.Offset, w.Size = 0, bar, offset, min(w.Size, i.Devices[0].Bars[bar]-offset)
}

// wantError checks that an error contains a text, or that there is no error if the text
// is empty.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "":
		if err != nil {
			t.Error(err)
		}
	case err == nil:
		t.Errorf("no error, want %q", want)
	case !strings.Contains(err.Error(), want):
		t.Errorf("%v, want %q", err, want)
	}
}

func encode(t *testing.T, image *lmb.Image) []byte {
	t.Helper()
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestImageSurvivesEncodingAndDecoding(t *testing.T) {
	file := encode(t, sample())
	decoded, err := lmb.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	want := sample()
	want.Sequences[0].Commands[6].Amount = 8
	want.Sequences[0].Commands[10].Amount = 4
	if !reflect.DeepEqual(decoded.Tensors, want.Tensors) ||
		!reflect.DeepEqual(decoded.Windows, want.Windows) ||
		!reflect.DeepEqual(decoded.Sequences, want.Sequences) || decoded.Origin != want.Origin ||
		!reflect.DeepEqual(decoded.Devices, want.Devices) ||
		!reflect.DeepEqual(decoded.Rules, want.Rules) {
		t.Errorf("decoded %+v\nwant %+v", decoded, want)
	}
	if again := encode(t, decoded); !bytes.Equal(again, file) {
		t.Error("encoding the decoded image returns other bytes")
	}
}

func TestViewAgreesWithGeneratedAccessors(t *testing.T) {
	image := sample()
	image.Tensors[1].Shape = []uint32{3, 1, 2, 4, 5, 6, 7, 8} // no two alike
	file := encode(t, image)
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	root := gen.GetRootAsImage(file, 0)
	if root.CommandsLength() != len(view.Commands) {
		t.Fatalf("%d commands, view has %d", root.CommandsLength(), len(view.Commands))
	}
	var c gen.Command
	for i, got := range view.Commands {
		root.Commands(&c, i)
		if want := *c.UnPack(); got != want {
			t.Errorf("command %d: view %+v, accessors %+v", i, got, want)
		}
	}
	var w gen.Window
	for i, got := range view.Windows {
		root.Windows(&w, i)
		if want := *w.UnPack(); got != want {
			t.Errorf("window %d: view %+v, accessors %+v", i, got, want)
		}
	}
	want := *root.Reservation(nil).UnPack()
	if view.Reservation != want {
		t.Errorf("reservation: view %+v, accessors %+v", view.Reservation, want)
	}
	var s gen.Segment
	for i, got := range view.Segments {
		root.Segments(&s, i)
		if want := *s.UnPack(); got != want {
			t.Errorf("segment %d: view %+v, accessors %+v", i, got, want)
		}
	}
	var tensor gen.Tensor
	for i, got := range view.Tensors {
		root.Tensors(&tensor, i)
		if want := *tensor.UnPack(); got.TensorT != want || got.Shape()[7] != want.Shape7 {
			t.Errorf("tensor %d: view %+v, accessors %+v", i, got, want)
		}
	}
	var sequence gen.Sequence
	for i, got := range view.Sequences {
		root.Sequences(&sequence, i)
		if want := *sequence.UnPack(); got != want {
			t.Errorf("sequence %d: view %+v, accessors %+v", i, got, want)
		}
	}
	var target gen.Device
	for i, got := range view.Devices {
		root.Devices(&target, i)
		if want := *target.UnPack(); got.DeviceT != want || got.MinBarSizes()[5] != want.Bar5 {
			t.Errorf("target %d: view %+v, accessors %+v", i, got, want)
		}
	}
}

func TestRulesAgreeWithGeneratedAccessors(t *testing.T) {
	file := encode(t, sample())
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	root := gen.GetRootAsImage(file, 0)
	var r gen.Rule
	for i, got := range view.Rules {
		root.Rules(&r, i)
		if want := *r.UnPack(); got != want {
			t.Errorf("rule %d: view %+v, accessors %+v", i, got, want)
		}
	}
	if len(view.Rules) != root.RulesLength() || len(view.Rules) != 3 {
		t.Errorf("%d rules", len(view.Rules))
	}
}

// TestRulesOfTheImageApplyToAnUnknownBoard checks that accesses without a rule of the image
// are rejected.
func TestRulesOfTheImageApplyToAnUnknownBoard(t *testing.T) {
	for _, test := range []struct {
		want string // of wantError
		c    fbs.Command
	}{
		{"", fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Window: 4, Offset: 0x7fc}},
		{"", fbs.Command{Opcode: gen.OpcodeWrite, Width: 8, Window: 4, Offset: 0xa00}},
		{"", fbs.Command{Opcode: gen.OpcodeFill, Width: 1, Mode: modeExact, Window: 5, Offset: 1,
			Amount: 3}},
		{"width 8 is not accepted by unknown's BAR 1 at offset 0x7f8 (registers)",
			fbs.Command{Opcode: gen.OpcodeWrite, Width: 8, Window: 4, Offset: 0x7f8}},
		{"width 2 is not accepted by unknown's BAR 1 at offset 0xa00 (doorbells)",
			fbs.Command{Opcode: gen.OpcodeWrite, Width: 2, Window: 4, Offset: 0xa00}},
		{"unknown has no memory or register at offset 0x800 of BAR 1",
			fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Window: 4, Offset: 0x800}},
		{"unknown has no memory or register at offset 0x9fc of BAR 1",
			fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Window: 4, Offset: 0x9fc}},
		{"outside the range of its rule, 0x0 to 0x7ff",
			fbs.Command{Opcode: gen.OpcodeFill, Width: 4, Mode: modeExact, Window: 4, Offset: 0x400,
				Amount: 0x404}},
		{"bulk access is only for memory that accepts every width, not for " +
			"unknown's BAR 1 at offset 0xa00 (", fbs.Command{Opcode: gen.OpcodeCopyOut, Width: 4,
			Mode: modeBulk, Window: 4, Index: 2, Offset: 0xa00, Amount: 4}},
	} {
		t.Run(fmt.Sprintf("%v at %#x", test.c.Opcode, test.c.Offset), func(t *testing.T) {
			image := sample()
			image.Sequences[1].Commands = []lmb.Command{command(test.c)}
			_, err := lmb.Encode(image)
			wantError(t, err, test.want)
		})
	}
	image := sample()
	image.Rules = nil
	image.Sequences[1].Commands = []lmb.Command{command(fbs.Command{Opcode: gen.OpcodeWrite,
		Width: 4, Window: 4})}
	if _, err := lmb.Encode(image); err == nil ||
		!strings.Contains(err.Error(), "has no memory or register at offset 0x0 of BAR 1") {
		t.Errorf("without rules: %v", err)
	}
	image.Devices[1].Board = "\x1b[2J"
	if _, err := lmb.Encode(image); err == nil ||
		!strings.Contains(err.Error(), "has a control character") {
		t.Errorf("a name that clears a terminal: %q", err)
	}
}

// TestFlatcReadsAnImage compares the format with an independent reader.
func TestFlatcReadsAnImage(t *testing.T) {
	flatc, err := exec.LookPath("flatc")
	if err != nil {
		if os.Getenv("LM_TEST_REQUIRED") != "" {
			t.Fatal("flatc is required (Debian: flatbuffers-compiler)")
		}
		t.Skip("flatc is not installed (Debian: flatbuffers-compiler)")
	}
	path := filepath.Join(t.TempDir(), "sample.lmb")
	if err := os.WriteFile(path, encode(t, sample()), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(flatc, "--json", "--strict-json", "--raw-binary", "-o",
		filepath.Dir(path), "image.fbs", "--", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(strings.TrimSuffix(path, ".lmb") + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var image struct {
		Commands []struct {
			Opcode string
			Value  uint64
		}
		Tensors []struct{ Dtype string }
		Devices []struct{ Vendor int }
	}
	if err := json.Unmarshal(text, &image); err != nil {
		t.Fatal(err)
	}
	if len(image.Commands) != 20 || image.Commands[1].Opcode != "Write" ||
		image.Commands[1].Value != 5 ||
		image.Tensors[1].Dtype != "Float16" || image.Devices[0].Vendor != 0x1e52 {
		t.Errorf("flatc reads %+v", image)
	}
}

func TestEveryTruncationIsRejected(t *testing.T) {
	file := encode(t, sample())
	for size := range len(file) {
		if _, err := fbs.Verify(file[:size:size]); err == nil {
			t.Fatalf("the first %d bytes of %d are accepted", size, len(file))
		}
	}
	if _, err := fbs.Verify(append(bytes.Clone(file), 0)); err == nil {
		t.Fatal("a byte too many is accepted")
	}
	t.Logf("evidence: %d truncated files refused", len(file))
}

func TestEveryFlippedBitIsRejected(t *testing.T) {
	file := encode(t, sample())
	for bit := range 8 * len(file) {
		file[bit/8] ^= 1 << (bit % 8)
		if _, err := fbs.Verify(file); err == nil {
			t.Fatalf("byte %d bit %d flipped is accepted", bit/8, bit%8)
		}
		file[bit/8] ^= 1 << (bit % 8)
	}
	t.Logf("evidence: %d files with one flipped bit refused", 8*len(file))
}

// TestFlippedBitsWithARightChecksumAreReadSafely flips every bit of the envelope and
// fixes up the checksum, so that all checks are reached. An accepted image must be
// consistent enough to decode and encode again.
func TestFlippedBitsWithARightChecksumAreReadSafely(t *testing.T) {
	file := encode(t, sample())
	envelope := binary.LittleEndian.Uint64(file[32:])
	accepted := 0
	for bit := 72 * 8; bit < 8*int(envelope); bit++ {
		flipped := bytes.Clone(file)
		flipped[bit/8] ^= 1 << (bit % 8)
		binary.LittleEndian.PutUint32(flipped[12:], fbs.EnvelopeChecksum(flipped[:envelope]))
		image, ok := meant(flipped)
		if !ok {
			continue
		}
		accepted++
		if _, err := lmb.Encode(image); err != nil {
			t.Errorf("byte %d bit %d: accepted, but not encoded again: %v", bit/8, bit%8, err)
		}
	}
	t.Logf("%d of the flips make another valid image", accepted)
	t.Logf("evidence: %d files with one flipped bit behind a right checksum verified",
		8*(int(envelope)-72))
}

func TestCorruptedPreamblesAreRejectedWithAReason(t *testing.T) {
	for _, test := range []struct {
		name    string
		corrupt func([]byte) []byte
		want    string
	}{
		{"empty", func([]byte) []byte { return nil }, "the file is empty"},
		{"short", func(b []byte) []byte { return b[:71] }, "the file is 71 bytes long"},
		{"another format", func(b []byte) []byte { b[4] = 'X'; return b },
			"not a Light Metal image"},
		{"newer major", func(b []byte) []byte { b[8] = 3; return b },
			"this version (format 3.0, this program reads 2.0)"},
		{"newer minor", func(b []byte) []byte { b[10] = 1; return b },
			"this version (format 2.1, this program reads 2.0)"},
		{"other schema", func(b []byte) []byte { b[16] ^= 1; return b },
			"this version (schema hash"},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, "but its preamble says"},
		{"reserved", func(b []byte) []byte { b[50] = 1; return b }, "reserved bytes are not zero"},
		{"envelope size", func(b []byte) []byte { b[39] = 1; return b }, "invalid envelope size"},
		{"checksum", func(b []byte) []byte { b[100] ^= 1; return b }, "envelope checksum is"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := fbs.Verify(test.corrupt(encode(t, sample())))
			wantError(t, err, test.want)
		})
	}
}

// TestCorruptedImagesAreRejectedWithAReason has one corruption for each reason.
func TestCorruptedImagesAreRejectedWithAReason(t *testing.T) {
	set := func(index int, change func(*fbs.Command)) func(*lmb.Image) {
		return func(image *lmb.Image) { change(&image.Sequences[0].Commands[index].Command) }
	}
	safe := func(change func(*fbs.Command)) func(*lmb.Image) {
		return func(image *lmb.Image) { change(&image.Sequences[1].Commands[2].Command) }
	}
	bus := func(window int, address uint64) func(*lmb.Image) {
		return func(image *lmb.Image) { image.Windows[window].Offset = address }
	}
	for _, test := range []struct {
		want    string
		corrupt func(*lmb.Image)
	}{
		{"has no device", func(i *lmb.Image) { i.Devices = nil }},
		{"has no window", func(i *lmb.Image) { i.Windows = nil }},
		{"has no sequence", func(i *lmb.Image) { i.Sequences = nil }},
		{"device 0: name \"\" has 0 bytes", func(i *lmb.Image) { i.Devices[0].Board = "" }},
		{"window 0: name \"xxx",
			func(i *lmb.Image) { i.Windows[0].Name = strings.Repeat("x", 256) }},
		{"rule 0: the image has no device 9", func(i *lmb.Image) { i.Rules[0].Device = 9 }},
		{"rule 0: device 0 has a known board",
			func(i *lmb.Image) { i.Rules[0].Device = 0 }},
		{"rule 0: bytes 0x0 to 0x7ff do not lie in BAR 6",
			func(i *lmb.Image) { i.Rules[0].Bar = 6 }},
		{"rule 0: bytes 0x0 to 0x7ff do not lie in BAR 0",
			func(i *lmb.Image) { i.Rules[0].Bar = 0 }},
		{"rule 1: bytes 0xa00 to 0x2000 do not lie in BAR 1",
			func(i *lmb.Image) { i.Rules[1].Last++ }},
		{"rule 1: bytes 0xa00 to 0xffffffffffffffff do not lie in BAR 1",
			func(i *lmb.Image) { i.Rules[1].Last = ^uint64(0) }},
		{"rule 1: bytes 0x2000 to 0x1fff do not lie in BAR 1",
			func(i *lmb.Image) { i.Rules[1].First = 0x2000 }},
		{"rule 0: invalid widths 0x0; must be a sum of 1, 2, 4 and 8",
			func(i *lmb.Image) { i.Rules[0].Widths = 0 }},
		{"rule 0: invalid widths 0x10; must be a sum of 1, 2, 4 and 8",
			func(i *lmb.Image) { i.Rules[0].Widths = 16 }},
		{"rule 2: memory is 2, but must be 0 or 1",
			func(i *lmb.Image) { i.Rules[2].Memory = 2 }},
		{"rule 0: bytes 0x2 to 0x7ff are not aligned to the smallest width",
			func(i *lmb.Image) { i.Rules[0].First = 2 }},
		{"rule 0: bytes 0x0 to 0x7fd are not aligned to the smallest width",
			func(i *lmb.Image) { i.Rules[0].Last = 0x7fd }},
		{"rule 1: bytes 0x7fc to 0x1fff overlap the previous rule",
			func(i *lmb.Image) { i.Rules[1].First = 0x7fc }},
		{"rule 1: bytes 0x7ff to 0x1fff overlap the previous rule",
			func(i *lmb.Image) { // by a byte
				i.Rules[0].Widths, i.Rules[1].Widths, i.Rules[1].First = 15, 15, 0x7ff
			}},
		{"rule 1: bytes 0x0 to 0x7ff overlap the previous rule or belong before it",
			func(i *lmb.Image) { i.Rules[0], i.Rules[1] = i.Rules[1], i.Rules[0] }},
		{"rule 2: bytes 0xa00 to 0x1fff overlap the previous rule or belong before it",
			func(i *lmb.Image) { i.Rules[1], i.Rules[2] = i.Rules[2], i.Rules[1] }},
		{"rule 0: name \"\" has 0 bytes", func(i *lmb.Image) { i.Rules[0].Name = "" }},
		{"rules: count 257 is over the limit of 256", func(i *lmb.Image) {
			i.Rules = make([]lmb.Rule, 257)
			for n := range i.Rules {
				i.Rules[n].Name = "r"
			}
		}},
		{"window 0: unknown kind 9", func(i *lmb.Image) { i.Windows[0].Kind = 9 }},
		{"window 0: the image has no device 3", func(i *lmb.Image) { i.Windows[0].Device = 3 }},
		{"window 0: unknown flags 0x4", func(i *lmb.Image) { i.Windows[0].Flags = 4 }},
		{"window 0: reserved bytes are not zero", func(i *lmb.Image) { i.Windows[0].Reserved = 4 }},
		{"window 0: size 0x0 is not between", func(i *lmb.Image) { i.Windows[0].Size = 0 }},
		{"window 0: size 0x100000001 is not between",
			func(i *lmb.Image) { i.Windows[0].Size = 1<<32 + 1 }},
		{"window 0: slot must be 65535: only a TLB window has a slot",
			func(i *lmb.Image) { i.Windows[0].Slot = 1 }},
		{"window 1: BAR and offset must be 0: only a BAR window has",
			func(i *lmb.Image) { i.Windows[1].Bar = 1 }},
		{"window 0: flag 2 (fixed bus address) is set, but only a host window may have it",
			func(i *lmb.Image) { i.Windows[0].Flags = fbs.FlagFixedBus }},
		{"window 1: flag 2 (fixed bus address) is set",
			func(i *lmb.Image) { i.Windows[1].Flags |= fbs.FlagFixedBus }},
		{"window 2: BAR and offset must be 0: only a BAR window has", bus(2, 4096)},
		{"window 6: bus address 0x0 must be a multiple of 4096, and not 0", bus(6, 0)},
		{"window 6: bus address 0x1800 must be a multiple of 4096", bus(6, 0x1800)},
		{"window 6: 0x1388 bytes at bus address 0xfffffffffffff000 exceed 64-bit",
			bus(6, math.MaxUint64-4095)},
		{"window 7: 0x1000 bytes at bus address 0xfffffffffffff000 exceed 64-bit",
			bus(7, math.MaxUint64-4095)},
		{"window 7: bus address 0x800001000 is below 0x800002000, the end of an earlier",
			bus(7, 0x8_0000_1000)},
		{"window 7: bus address 0x1000 is below 0x800002000", bus(7, 0x1000)},
		{"", bus(7, 0x9_0000_0000)},
		{"", func(i *lmb.Image) { i.Windows[7].Offset, i.Windows[7].Device = 0x8_0000_0000, 1 }},
		{"window 0: BAR 6 does not exist", func(i *lmb.Image) { i.Windows[0].Bar = 6 }},
		{"do not fit in BAR 2, which has 0x20000000",
			func(i *lmb.Image) { i.Windows[0].Offset = 1<<29 - 4 }},
		{"is not a power of two", func(i *lmb.Image) { i.Windows[1].Size = 3 << 20 }},
		{"configuration space has 256 or 4096", func(i *lmb.Image) { i.Windows[3].Size = 512 }},
		{"unknown role 0", func(i *lmb.Image) { i.Tensors[0].Role = 0 }},
		{"unknown element type 99", func(i *lmb.Image) { i.Tensors[1].DType = 99 }},
		{"invalid shape",
			func(i *lmb.Image) { i.Tensors[1].Shape = []uint32{0} }},
		{"or over 64 TiB in total",
			func(i *lmb.Image) { i.Tensors[1].Shape = []uint32{1 << 31, 1 << 31, 4} }},
		{"9 dimensions; at most 8",
			func(i *lmb.Image) { i.Tensors[1].Shape = []uint32{1, 1, 1, 1, 1, 1, 1, 1, 3} }},
		{"16384 bytes of data at payload offset 0x0 reach outside the payload of",
			func(i *lmb.Image) { i.Tensors[0].Shape = []uint32{4096} }},

		{"command 1: unknown opcode 77", set(1, func(c *fbs.Command) { c.Opcode = 77 })},
		{"command 1: unknown opcode 0", set(1, func(c *fbs.Command) { c.Opcode = 0 })},
		{"command 1: end: must be the last", set(1,
			func(c *fbs.Command) { *c = fbs.Command{Opcode: gen.OpcodeEnd} })},
		{"command 1: write: invalid width 3; must be 1, 2, 4 or 8",
			set(1, func(c *fbs.Command) { c.Width = 3 })},
		{"command 1: write: invalid width 0; must be 1, 2, 4 or 8",
			set(1, func(c *fbs.Command) { c.Width = 0 })},
		{"command 1: write: window 9 does not exist",
			set(1, func(c *fbs.Command) { c.Window = 9 })},
		{"0x4 bytes at offset 0x10000 reach outside the window",
			set(1, func(c *fbs.Command) { c.Offset = 0x10000 })},
		{"0x4 bytes at offset 0x0 reach outside the window of 0x2 bytes", func(i *lmb.Image) {
			i.Windows[0].Size = 2
			i.Sequences[0].Commands[1].Offset = 0
		}},
		{"0x4 bytes at offset 0xfffffffc reach outside the window",
			set(1, func(c *fbs.Command) { c.Offset = 0xfffffffc })},
		{"offset 0xa is not a multiple of the width 4",
			set(1, func(c *fbs.Command) { c.Offset = 10 })},
		{"the window starts at 0x1001 of its BAR, which is not a multiple",
			func(i *lmb.Image) { i.Windows[0].Offset = 0x1001 }},
		{"command 1: write: mode, option, index, amount and mask must be 0",
			set(1, func(c *fbs.Command) { c.Amount = 1 })},
		{"command 1: write: mode, option, index, amount and mask must be 0",
			set(1, func(c *fbs.Command) { c.Index = 1 })},
		{"command 1: write: mode, option, index, amount and mask must be 0",
			set(1, func(c *fbs.Command) { c.Mask = 1 })},
		{"command 1: write: value 0x100000000 is too large for width 4",
			set(1, func(c *fbs.Command) { c.Value = 1 << 32 })},
		{"command 1: write: mode, option, index, amount and mask must be 0",
			set(1, func(c *fbs.Command) { c.Mode = 2 })},
		{"command 1: write: mode, option, index, amount and mask must be 0",
			set(1, func(c *fbs.Command) { c.Mode = 200 })},
		{"command 1: write: mode, option, index, amount and mask must be 0",
			set(1, func(c *fbs.Command) { c.Option = 1 })},
		{"relocate: invalid width 2; must be 4 or 8", set(2, func(c *fbs.Command) { c.Width = 2 })},
		{"relocate: value 0x100000000 is too large for width 4",
			set(2, func(c *fbs.Command) { c.Width, c.Value = 4, 1<<32 })},
		{"command 2: relocate: window 8 does not exist",
			set(2, func(c *fbs.Command) { c.Index = 8 })},
		{"has no bus address; only BAR and host windows have one",
			set(2, func(c *fbs.Command) { c.Index = 3 })},
		{"addend 0x1389 is beyond the end of window 2",
			set(2, func(c *fbs.Command) { c.Value = 5001 })},
		{"command 3: expect: index sets an interval, but amount sets no deadline",
			set(3, func(c *fbs.Command) { c.Index = 1 })},
		{"expect: invalid mode 9; must be 1 (equal), 2 (not equal) or 3 (reached)",
			set(3, func(c *fbs.Command) { c.Mode = 9 })},
		{"invalid mode 4", set(3, func(c *fbs.Command) { c.Mode = 4 })},
		{"command 18: expect: mask 0xfffe must be 2^n - 1",
			safe(func(c *fbs.Command) { c.Mask = 0xfffe })},
		{"mask 0x80000000 must be 2^n - 1",
			safe(func(c *fbs.Command) { c.Mask, c.Value = 1<<31, 0 })},
		{"mask 0x0 must be 2^n - 1",
			safe(func(c *fbs.Command) { c.Mask, c.Value = 0, 0 })},
		{"value 0x10 has bits outside the mask 0xf",
			safe(func(c *fbs.Command) { c.Mask = 0xf })},
		{"expect: invalid option 0; must be 1 (fail) or 2 (ignore)",
			set(3, func(c *fbs.Command) { c.Option = 0 })},
		{"value 0x5 has bits outside the mask 0x1", set(3, func(c *fbs.Command) { c.Mask = 1 })},
		{"mask 0x10000 is too large for width 2",
			set(3, func(c *fbs.Command) { c.Mask = 0x10000 })},
		{"command 3: the condition can never hold",
			set(3, func(c *fbs.Command) {
				c.Mode, c.Mask, c.Value = uint8(gen.ConditionNotEqual), 0,
					0
			})},
		{"command 4: the condition can never hold, because the mask is 0",
			set(4, func(c *fbs.Command) { c.Mask = 0 })},
		{"command 4: a poll with mask 0 waits for nothing",
			set(4, func(c *fbs.Command) { c.Mode, c.Mask = equal, 0 })},
		{"command 5: point: window 0 must be a TLB window, not a BAR window",
			set(5, func(c *fbs.Command) { c.Window = 0 })},
		{"address 0x1000 is not a multiple of the window's size 0x1000000",
			set(5, func(c *fbs.Command) { c.Value = 0x1000 })},
		{"is not a valid tile range", set(5, func(c *fbs.Command) { c.Mask |= 2 << 56 })},
		{"is not a valid tile range", set(5, func(c *fbs.Command) { c.Mask |= 1 << 16 })},
		{"command 5: point: all fields except window, value and mask must be 0",
			set(5, func(c *fbs.Command) { c.Offset = 1 })},
		{"command 5: point: all fields except window, value and mask must be 0",
			set(5, func(c *fbs.Command) { c.Width = 1 })},
		{"command 6: copy in: window 1 needs a point command first", func(i *lmb.Image) {
			i.Sequences[0].Commands[5] = command(fbs.Command{Opcode: gen.OpcodeDelay, Amount: 1})
		}},
		{"command 6: copy in: amount must not be 0",
			func(i *lmb.Image) { i.Sequences[0].Commands[6].Data = nil }},
		{"copy in: invalid mode 0; must be 1 (exact), 2 (fixed) or 3 (bulk)",
			set(6, func(c *fbs.Command) { c.Mode = 0 })},
		{"copy in: option and mask must be 0", set(6, func(c *fbs.Command) { c.Option = 1 })},
		{"command 7: copy in: index 5 selects no tensor",
			set(7, func(c *fbs.Command) { c.Index = 5 })},
		{"tensor \"d\" is an output, not an input", set(7, func(c *fbs.Command) { c.Index = 2 })},
		{"0x1e bytes at offset 0x8 reach outside the tensor",
			set(7, func(c *fbs.Command) { c.Value = 8 })},
		{"amount 99 is not a multiple of the width 2",
			set(8, func(c *fbs.Command) { c.Width = 2 })},
		{"fill: invalid mode 3; must be 1 (exact) or 2 (fixed)",
			set(8, func(c *fbs.Command) { c.Mode = modeBulk })},
		{"value 0x100 is too large for width 1", set(8, func(c *fbs.Command) { c.Value = 256 })},
		{"copy out: index 0 selects no tensor",
			set(9, func(c *fbs.Command) { c.Index = 0 })},
		{"tensor \"a\" is an input, not an output", set(9, func(c *fbs.Command) { c.Index = 1 })},
		{"command 10: compare: mode and mask must be 0",
			set(10, func(c *fbs.Command) { c.Mode = 1 })},
		{"command 10: compare: mode and mask must be 0",
			set(10, func(c *fbs.Command) { c.Mask = 1 })},
		{"offset 0x2 is not a multiple of the width 4",
			set(10, func(c *fbs.Command) { c.Offset = 2 })},
		{"command 0: fence: all fields must be 0", set(0, func(c *fbs.Command) { c.Width = 4 })},
		{"command 0: fence: all fields must be 0",
			set(0, func(c *fbs.Command) { c.Window = 1 })},
		{"command 0: fence: all fields must be 0",
			set(0, func(c *fbs.Command) { c.Value = 1 })},
		{"delay: amount is 0 us, but must be between 1 and 10000000",
			set(13, func(c *fbs.Command) { c.Amount = 0 })},
		{"delay: amount is 10000001 us, but must be between 1 and 10000000",
			set(13, func(c *fbs.Command) { c.Amount = 10_000_001 })},
		{"command 14: call: sequence 5 does not exist",
			set(14, func(c *fbs.Command) { c.Index = 5 })},
		{"but calls do not nest", set(14, func(c *fbs.Command) { c.Index = 0 })},
		{"command 16: modify: mask must not be 0",
			func(i *lmb.Image) { i.Sequences[1].Commands[0].Mask = 0 }},
		{"command 17: expect: width 8 is not accepted by configuration space",
			func(i *lmb.Image) { i.Sequences[1].Commands[1].Width = 8 }},
		{"fill: window 3 is configuration space, which only expect commands may access",
			set(8, func(c *fbs.Command) { c.Window = 3 })},

		// Rules of boards.
		{"wormhole has no memory or register at offset 0x1f000000 of BAR 0",
			func(i *lmb.Image) { ofWormhole(i, 0, 0x1f000000-8) }},
		{"width 2 is not accepted by wormhole's BAR 0 at offset 0x1fe80008 (ARC CSM)",
			func(i *lmb.Image) {
				ofWormhole(i, 0, 0x1fe80000)
				i.Sequences[0].Commands[1].Width = 2
			}},
		{"command 1: write: images must not store to " +
			"wormhole's BAR 2 at offset 0x1208 (iATU)", func(i *lmb.Image) {
			i.Devices[0].Bars[2] = 1 << 20
			ofWormhole(i, 2, 0x1200)
		}},
		{"window 0 is write-combining, but wormhole's BAR 0 at offset 0x1fe80008 (ARC CSM) is " +
			"not memory; remove write-combining", func(i *lmb.Image) {
			ofWormhole(i, 0, 0x1fe80000)
			i.Windows[0].Flags = fbs.FlagWriteCombining
		}},
		{"bulk access is only for memory that accepts every width, not for wormhole's BAR 0",
			func(i *lmb.Image) {
				ofWormhole(i, 0, 0x1fe80000)
				c := &i.Sequences[0].Commands
				*c = append([]lmb.Command{{Command: fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 4,
					Mode: modeBulk}, Data: []byte("1234")}}, *c...)
			}},
		{"0x10 bytes at offset 0xfff8 reach outside the window of 0x10000 bytes",
			func(i *lmb.Image) {
				ofWormhole(i, 0, 0x1efffff8-0xfff8)
				c := &i.Sequences[0].Commands
				*c = append([]lmb.Command{command(fbs.Command{Opcode: gen.OpcodeCopyOut, Width: 8,
					Mode: modeBulk, Index: 2, Offset: 0xfff8, Amount: 16})}, *c...)
			}},

		// Mistakes that only the encoder rejects.
		{"the name \"main\" is used twice", func(i *lmb.Image) { i.Sequences[1].Name = "main" }},
		{"the name \"a\" is used twice", func(i *lmb.Image) { i.Tensors[1].Name = "a" }},
		{"has a control character or is not UTF-8",
			func(i *lmb.Image) { i.Tensors[1].Name = "\xff" }},
		{"is an output that no copy out fills", func(i *lmb.Image) {
			i.Tensors = append(i.Tensors, lmb.Tensor{Name: "f", Role: gen.RoleOutput, DType: 1,
				Shape: []uint32{1}})
		}},
		{"a tolerance is negative or not finite",
			func(i *lmb.Image) {
				i.Tensors[2].Golden.First = math.Float32bits(float32(math.NaN()))
			}},
		{"correlation threshold is not between", func(i *lmb.Image) {
			i.Tensors[2].Golden = lmb.Golden{Kind: gen.JudgementCorrelation,
				First: math.Float32bits(2)}
		}},
		{"is not an output with golden data", func(i *lmb.Image) { i.Tensors[2].Data = nil }},
		{"unknown kind of golden comparison, 9",
			func(i *lmb.Image) { i.Tensors[2].Golden.Kind = 9 }},
		{"has an unknown kind", func(i *lmb.Image) { i.Sequences[0].Commands[15].Mode = 9 }},
	} {
		t.Run(test.want, func(t *testing.T) {
			image := sample()
			test.corrupt(image)
			_, err := lmb.Encode(image)
			wantError(t, err, test.want)
		})
	}
}

func TestAWindowPointedByACalleeMustBePointedAgain(t *testing.T) {
	image := sample()
	commands := &image.Sequences[0].Commands
	*commands = append(*commands, (*commands)[6])
	if _, err := lmb.Encode(image); err == nil ||
		!strings.Contains(err.Error(),
			"command 15: copy in: window 1 needs a point command first") {
		t.Error(err)
	}
}

func TestVerifyingAllocatesNothingPerCommand(t *testing.T) {
	measure := func(n int) float64 {
		image := sample()
		for range n {
			image.Sequences[1].Commands = append(image.Sequences[1].Commands,
				image.Sequences[0].Commands[1])
		}
		file := encode(t, image)
		return testing.AllocsPerRun(20, func() { _, _ = fbs.Verify(file) })
	}
	if few, many := measure(1), measure(10000); few != many {
		t.Errorf("%v allocations for 1 command, %v for 10,000", few, many)
	}
}

// TestRepeatedWriteIsCheckedCompletely repeats a Write twice, the second time with a change:
// the checker remembers a range of each window.
func TestRepeatedWriteIsCheckedCompletely(t *testing.T) {
	for _, width := range []uint8{4, 8} {
		good := fbs.Command{Opcode: gen.OpcodeWrite, Width: width, Value: 5}
		window := sample().Windows[0]
		for _, test := range []struct {
			want   string
			change func(*fbs.Command)
		}{
			{"", func(*fbs.Command) {}},
			{"", func(c *fbs.Command) { c.Value = fbs.WidthMask(width) }},
			{"", func(c *fbs.Command) { c.Offset = uint32(window.Size) - uint32(width) }},
			{"reach outside", func(c *fbs.Command) { c.Offset = uint32(window.Size) }},
			{"reach outside", func(c *fbs.Command) { c.Offset = math.MaxUint32 &^ 7 }},
			{"not a multiple of the width", func(c *fbs.Command) { c.Offset = 1 }},
			{"not a multiple of the width", func(c *fbs.Command) { c.Offset = uint32(width) / 2 }},
			{"must be 0", func(c *fbs.Command) { c.Amount = 1 }},
			{"must be 0", func(c *fbs.Command) { c.Index = 1 }},
			{"must be 0", func(c *fbs.Command) { c.Mask = 1 }},
			{"mode, option,", func(c *fbs.Command) { c.Option = 1 }},
			{"does not exist", func(c *fbs.Command) { c.Window = 999 }},
			{"needs a point command first", func(c *fbs.Command) { c.Window = 1 }},
			{"mode, option,", func(c *fbs.Command) { c.Mode = 99 }},
			{"width", func(c *fbs.Command) { c.Width = 3 }},
			{"unknown opcode", func(c *fbs.Command) { c.Opcode = 99 }},
		} {
			t.Run(fmt.Sprint("width ", width, " ", test.want), func(t *testing.T) {
				third := good
				test.change(&third)
				commands := []lmb.Command{command(good), command(good), command(third)}
				image := sample()
				image.Sequences[0].Commands = append(commands, image.Sequences[0].Commands...)
				_, err := lmb.Encode(image) // verifies the image
				wantError(t, err, test.want)
				if test.want != "" {
					wantError(t, err, "command 2:")
				}
			})
		}
	}
	// A command of zeros is rejected everywhere.
	for at := range sample().Sequences[0].Commands {
		image := sample()
		image.Sequences[0].Commands[at] = lmb.Command{}
		if _, err := lmb.Encode(image); err == nil {
			t.Errorf("zeros as command %d are accepted", at)
		}
		image = sample()
		image.Sequences[0].Commands = slices.Insert(image.Sequences[0].Commands, at, lmb.Command{})
		if _, err := lmb.Encode(image); err == nil ||
			!strings.Contains(err.Error(), "unknown opcode 0") {
			t.Errorf("zeros before command %d: %v", at, err)
		}
	}
	// A value of more than four bytes.
	image := sample()
	wide := fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Value: 5}
	wider := wide
	wider.Value = 1 << 32
	image.Sequences[0].Commands = append([]lmb.Command{command(wide), command(wider)},
		image.Sequences[0].Commands...)
	if _, err := lmb.Encode(image); err == nil ||
		!strings.Contains(err.Error(), "command 1: write: value") {
		t.Error(err)
	}
}

func BenchmarkVerify(b *testing.B) {
	image := sample()
	for range 1_000_000 {
		image.Sequences[1].Commands = append(image.Sequences[1].Commands,
			image.Sequences[0].Commands[1])
	}
	file, err := lmb.Encode(image)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		if _, err := fbs.Verify(file); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1_000_000, "ns/command")
}

// meant returns the image of a valid file, and whether an encoder could have made it.
func meant(file []byte) (*lmb.Image, bool) {
	view, err := fbs.Verify(file)
	if err != nil || lmb.Quality(view) != nil {
		return nil, false
	}
	image, err := lmb.FromView(view)
	return image, err == nil
}

func FuzzVerify(f *testing.F) {
	file, err := lmb.Encode(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file) // with rules of its own
	for _, name := range []string{"m\nin", "m\u0085n", "m\u202e", "m\xffin"} {
		f.Add(bytes.Replace(file, []byte("main"), []byte(name), 1))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = append(make([]byte, 0, len(data)+8), data...)
		if len(data) >= 72 {
			// Fix up the checksum, so that all checks are reached.
			lmb.Stamp(data, min(max(72, binary.LittleEndian.Uint64(data[32:])), uint64(len(data))))
		}
		image, ok := meant(data)
		if !ok {
			return
		}
		if _, err := lmb.Encode(image); err != nil {
			t.Errorf("accepted, but not encoded again: %v", err)
		}
	})
}
