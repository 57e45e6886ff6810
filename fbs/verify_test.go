package fbs_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/lmb"
)

const (
	equal     = uint8(gen.ConditionEqual)
	fail      = uint8(gen.PolicyFail)
	modeExact = uint8(gen.AccessExact)
	modeBulk  = uint8(gen.AccessBulk)
)

func command(c fbs.Command) lmb.Command { return lmb.Command{Command: c} }

// sample is an image that uses everything the format has.
func sample() *lmb.Image {
	target := fbs.TileRange{X: 1, Y: 2, Ordering: gen.OrderingStrict, StaticVC: 3}
	return &lmb.Image{
		Origin: lmb.Origin{Tool: "test", Source: "sample", Time: 7, Git: "abc"},
		Devices: []lmb.Device{{Board: "wormhole", Vendor: 0x1e52, Device: 0x401e,
			Bars: [6]uint64{0: 1 << 29, 4: 1 << 25}},
			{Board: "stranger", Vendor: 0xffff, Device: 1, Subsystem: 0x11001af4,
				Bars: [6]uint64{1: 0x2000, 2: 1 << 20}},
			{Board: "ivshmem", Vendor: 0x1af4, Device: 0x1110, Bars: [6]uint64{2: 1 << 29}}},
		Rules: []lmb.Rule{
			{Name: "registers", Rule: fbs.Rule{Device: 1, Bar: 1, Last: 0x7ff, Widths: 4}},
			{Name: "doorbells", Rule: fbs.Rule{Device: 1, Bar: 1, First: 0xa00, Last: 0x1fff,
				Widths: 4 | 8}},
			{Name: "memory", Rule: fbs.Rule{Device: 1, Bar: 2, Last: 1<<20 - 1, Widths: 15,
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
			}},
		},
	}
}

// ofWormhole makes window 0 one of the Wormhole's BARs.
func ofWormhole(i *lmb.Image, bar uint8, offset uint64) {
	w := &i.Windows[0]
	w.Device, w.Bar, w.Offset, w.Size = 0, bar, offset, min(w.Size, i.Devices[0].Bars[bar]-offset)
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
		t.Error("encoding the decoded image gives other bytes")
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
		if want := *target.UnPack(); got.DeviceT != want || got.BarSizes()[5] != want.Bar5 {
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

// TestARuleOfTheImageHoldsAsABoardsDoes: where a device is of no known board, what
// the image's own rules do not say is refused.
func TestARuleOfTheImageHoldsAsABoardsDoes(t *testing.T) {
	for _, test := range []struct {
		want string // empty: accepted
		c    fbs.Command
	}{
		{"", fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Window: 4, Offset: 0x7fc}},
		{"", fbs.Command{Opcode: gen.OpcodeWrite, Width: 8, Window: 4, Offset: 0xa00}},
		{"", fbs.Command{Opcode: gen.OpcodeFill, Width: 1, Mode: modeExact, Window: 5, Offset: 1,
			Amount: 3}},
		{"width 8 is not accepted by stranger BAR 1 at 0x7f8 (registers)",
			fbs.Command{Opcode: gen.OpcodeWrite, Width: 8, Window: 4, Offset: 0x7f8}},
		{"width 2 is not accepted by stranger BAR 1 at 0xa00 (doorbells)",
			fbs.Command{Opcode: gen.OpcodeWrite, Width: 2, Window: 4, Offset: 0xa00}},
		{"nothing at 0x800 of BAR 1 is a register of stranger",
			fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Window: 4, Offset: 0x800}},
		{"nothing at 0x9fc of BAR 1 is a register of stranger",
			fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Window: 4, Offset: 0x9fc}},
		{"or outside one register: 0x0 to 0x800",
			fbs.Command{Opcode: gen.OpcodeFill, Width: 4, Mode: modeExact, Window: 4, Offset: 0x400,
				Amount: 0x404}},
		{"bulk access, which is for memory that takes every width, is not accepted by stranger " +
			"BAR 1 at 0xa00", fbs.Command{Opcode: gen.OpcodeCopyOut, Width: 4, Mode: modeBulk,
			Window: 4, Index: 2, Offset: 0xa00, Amount: 4}},
	} {
		image := sample()
		image.Sequences[1].Commands = []lmb.Command{command(test.c)}
		_, err := lmb.Encode(image)
		if test.want == "" && err != nil || test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: %v, want %q", test.c, err, test.want)
		}
	}
	image := sample()
	image.Rules = nil
	image.Sequences[1].Commands = []lmb.Command{command(fbs.Command{Opcode: gen.OpcodeWrite,
		Width: 4, Window: 4})}
	if _, err := lmb.Encode(image); err == nil ||
		!strings.Contains(err.Error(), "nothing at 0x0 of BAR 1") {
		t.Errorf("without rules: %v", err)
	}
	image.Devices[1].Board = "\x1b[2J"
	if _, err := lmb.Encode(image); err == nil ||
		!strings.Contains(err.Error(), "has a control character") {
		t.Errorf("a name that clears a terminal: %q", err)
	}
}

// TestFlatcReadsAnImage holds the format against a reader that is not ours.
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
		Targets []struct{ Vendor int }
	}
	if err := json.Unmarshal(text, &image); err != nil {
		t.Fatal(err)
	}
	if len(image.Commands) != 19 || image.Commands[1].Opcode != "Write" ||
		image.Commands[1].Value != 5 ||
		image.Tensors[1].Dtype != "Float16" || image.Targets[0].Vendor != 0x1e52 {
		t.Errorf("flatc reads %+v", image)
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
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

func TestEveryFlippedBitIsRefused(t *testing.T) {
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

// TestFlippedBitsBehindARightChecksumAreReadSafely flips every bit of the
// envelope and mends the checksum, so that the verifier behind it is reached:
// what it accepts must be consistent enough to decode and encode again.
func TestFlippedBitsBehindARightChecksumAreReadSafely(t *testing.T) {
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
	t.Logf("%d of the flips give another valid image", accepted)
	t.Logf("evidence: %d files with one flipped bit behind a right checksum verified",
		8*(int(envelope)-72))
}

func TestBadPreamblesAreRefusedWithAReason(t *testing.T) {
	for _, test := range []struct {
		name  string
		wound func([]byte) []byte
		want  string
	}{
		{"empty", func([]byte) []byte { return nil }, "the file is empty"},
		{"short", func(b []byte) []byte { return b[:71] }, "the file has 71 bytes"},
		{"another format", func(b []byte) []byte { b[4] = 'X'; return b },
			"not a Light Metal image"},
		{"newer major", func(b []byte) []byte { b[8] = 3; return b },
			"format 3.0, this program reads 2.0"},
		{"newer minor", func(b []byte) []byte { b[10] = 1; return b },
			"format 2.1, this program reads 2.0"},
		{"other schema", func(b []byte) []byte { b[16] ^= 1; return b }, "made by another version"},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, "and should have"},
		{"reserved", func(b []byte) []byte { b[50] = 1; return b }, "reserved bytes are not zero"},
		{"envelope size", func(b []byte) []byte { b[39] = 1; return b }, "in a file of"},
		{"checksum", func(b []byte) []byte { b[100] ^= 1; return b }, "envelope checksum is"},
	} {
		_, err := fbs.Verify(test.wound(encode(t, sample())))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// TestBadImagesAreRefusedWithAReason has one wound for each thing the verifier
// says.
func TestBadImagesAreRefusedWithAReason(t *testing.T) {
	set := func(index int, change func(*fbs.Command)) func(*lmb.Image) {
		return func(image *lmb.Image) { change(&image.Sequences[0].Commands[index].Command) }
	}
	for _, test := range []struct {
		want  string
		wound func(*lmb.Image)
	}{
		{"has no target", func(i *lmb.Image) { i.Devices = nil }},
		{"has no window", func(i *lmb.Image) { i.Windows = nil }},
		{"has no sequence", func(i *lmb.Image) { i.Sequences = nil }},
		{"target 0: name \"\" has 0 bytes", func(i *lmb.Image) { i.Devices[0].Board = "" }},
		{"window 0: name \"xxx",
			func(i *lmb.Image) { i.Windows[0].Name = strings.Repeat("x", 256) }},
		{"rule 0: target 9 does not exist", func(i *lmb.Image) { i.Rules[0].Device = 9 }},
		{"rule 0: target 0 is of a board that is known",
			func(i *lmb.Image) { i.Rules[0].Device = 0 }},
		{"rule 0: 0x0 to 0x7ff do not lie in BAR 6", func(i *lmb.Image) { i.Rules[0].Bar = 6 }},
		{"rule 0: 0x0 to 0x7ff do not lie in BAR 0", func(i *lmb.Image) { i.Rules[0].Bar = 0 }},
		{"rule 1: 0xa00 to 0x2000 do not lie in BAR 1", func(i *lmb.Image) { i.Rules[1].Last++ }},
		{"rule 1: 0xa00 to 0xffffffffffffffff do not lie in BAR 1",
			func(i *lmb.Image) { i.Rules[1].Last = ^uint64(0) }},
		{"rule 1: 0x2000 to 0x1fff do not lie in BAR 1",
			func(i *lmb.Image) { i.Rules[1].First = 0x2000 }},
		{"rule 0: widths 0x0 are none of 1, 2, 4 and 8",
			func(i *lmb.Image) { i.Rules[0].Widths = 0 }},
		{"rule 0: widths 0x10 are none of 1, 2, 4 and 8",
			func(i *lmb.Image) { i.Rules[0].Widths = 16 }},
		{"rule 2: widths 0xf are none of 1, 2, 4 and 8, or memory 2",
			func(i *lmb.Image) { i.Rules[2].Memory = 2 }},
		{"rule 0: 0x2 to 0x7ff begin or end inside an access",
			func(i *lmb.Image) { i.Rules[0].First = 2 }},
		{"rule 0: 0x0 to 0x7fd begin or end inside an access",
			func(i *lmb.Image) { i.Rules[0].Last = 0x7fd }},
		{"rule 1: 0x7fc to 0x1fff overlap the rule before",
			func(i *lmb.Image) { i.Rules[1].First = 0x7fc }},
		{"rule 1: 0x7ff to 0x1fff overlap the rule before", func(i *lmb.Image) { // by a byte
			i.Rules[0].Widths, i.Rules[1].Widths, i.Rules[1].First = 15, 15, 0x7ff
		}},
		{"rule 1: 0x0 to 0x7ff overlap the rule before, or belong in front",
			func(i *lmb.Image) { i.Rules[0], i.Rules[1] = i.Rules[1], i.Rules[0] }},
		{"rule 2: 0xa00 to 0x1fff overlap the rule before, or belong in front",
			func(i *lmb.Image) { i.Rules[1], i.Rules[2] = i.Rules[2], i.Rules[1] }},
		{"rule 0: name \"\" has 0 bytes", func(i *lmb.Image) { i.Rules[0].Name = "" }},
		{"rules: count 257 is over the limit of 256", func(i *lmb.Image) {
			i.Rules = make([]lmb.Rule, 257)
			for n := range i.Rules {
				i.Rules[n].Name = "r"
			}
		}},
		{"window 0: unknown kind 9", func(i *lmb.Image) { i.Windows[0].Kind = 9 }},
		{"window 0: target 3 does not exist", func(i *lmb.Image) { i.Windows[0].Device = 3 }},
		{"window 0: unknown flags 0x4", func(i *lmb.Image) { i.Windows[0].Flags = 4 }},
		{"window 0: reserved field is not zero", func(i *lmb.Image) { i.Windows[0].Reserved = 4 }},
		{"window 0: size 0x0 is not between", func(i *lmb.Image) { i.Windows[0].Size = 0 }},
		{"window 0: size 0x100000001 is not between",
			func(i *lmb.Image) { i.Windows[0].Size = 1<<32 + 1 }},
		{"window 0: only a TLB window has a slot", func(i *lmb.Image) { i.Windows[0].Slot = 1 }},
		{"window 1: only a BAR window has", func(i *lmb.Image) { i.Windows[1].Bar = 1 }},
		{"window 0: BAR 6 does not exist", func(i *lmb.Image) { i.Windows[0].Bar = 6 }},
		{"do not fit BAR 2 of 0x20000000", func(i *lmb.Image) { i.Windows[0].Offset = 1<<29 - 4 }},
		{"is not a power of two", func(i *lmb.Image) { i.Windows[1].Size = 3 << 20 }},
		{"configuration space has 256 or 4096", func(i *lmb.Image) { i.Windows[3].Size = 512 }},
		{"unknown role 0", func(i *lmb.Image) { i.Tensors[0].Role = 0 }},
		{"element type 99 or shape is unknown", func(i *lmb.Image) { i.Tensors[1].DType = 99 }},
		{"or shape is unknown, has a zero",
			func(i *lmb.Image) { i.Tensors[1].Shape = []uint32{0} }},
		{"or more than 64 TiB",
			func(i *lmb.Image) { i.Tensors[1].Shape = []uint32{1 << 31, 1 << 31, 4} }},
		{"9 dimensions, at most 8",
			func(i *lmb.Image) { i.Tensors[1].Shape = []uint32{1, 1, 1, 1, 1, 1, 1, 1, 3} }},
		{"lie outside the payload", func(i *lmb.Image) { i.Tensors[0].Shape = []uint32{4096} }},

		{"command 1: unknown opcode 77", set(1, func(c *fbs.Command) { c.Opcode = 77 })},
		{"command 1: unknown opcode 0", set(1, func(c *fbs.Command) { c.Opcode = 0 })},
		{"command 1: End must be the last", set(1,
			func(c *fbs.Command) { *c = fbs.Command{Opcode: gen.OpcodeEnd} })},
		{"command 1: width 3 is not one of write", set(1, func(c *fbs.Command) { c.Width = 3 })},
		{"command 1: width 0 is not one of write", set(1, func(c *fbs.Command) { c.Width = 0 })},
		{"command 1: window 9 does not exist", set(1, func(c *fbs.Command) { c.Window = 9 })},
		{"4 bytes at 0x10000 reach outside the window",
			set(1, func(c *fbs.Command) { c.Offset = 0x10000 })},
		{"4 bytes at 0x0 reach outside the window of 0x2 bytes", func(i *lmb.Image) {
			i.Windows[0].Size = 2
			i.Sequences[0].Commands[1].Offset = 0
		}},
		{"4 bytes at 0xfffffffc reach outside the window",
			set(1, func(c *fbs.Command) { c.Offset = 0xfffffffc })},
		{"4 bytes at 0xa are not aligned to the width 4",
			set(1, func(c *fbs.Command) { c.Offset = 10 })},
		{"the window starts at 0x1001, which is not aligned",
			func(i *lmb.Image) { i.Windows[0].Offset = 0x1001 }},
		{"command 1: a field that this command does not use",
			set(1, func(c *fbs.Command) { c.Amount = 1 })},
		{"command 1: a field that this command does not use",
			set(1, func(c *fbs.Command) { c.Index = 1 })},
		{"command 1: a field that this command does not use",
			set(1, func(c *fbs.Command) { c.Mask = 1 })},
		{"has bits that 4 bytes have not", set(1, func(c *fbs.Command) { c.Value = 1 << 32 })},
		{"unknown mode 2 of write", set(1, func(c *fbs.Command) { c.Mode = 2 })},
		{"unknown mode 200 of write", set(1, func(c *fbs.Command) { c.Mode = 200 })},
		{"unknown option 1 of write", set(1, func(c *fbs.Command) { c.Option = 1 })},
		{"width 2 is not one of address", set(2, func(c *fbs.Command) { c.Width = 2 })},
		{"command 2: window 8 does not exist", set(2, func(c *fbs.Command) { c.Index = 8 })},
		{"only BAR and host windows have a bus address",
			set(2, func(c *fbs.Command) { c.Index = 3 })},
		{"bus address 0x1389 beyond the start of window 2",
			set(2, func(c *fbs.Command) { c.Value = 5001 })},
		{"command 3: an interval without a deadline", set(3, func(c *fbs.Command) { c.Index = 1 })},
		{"unknown mode 9 of check", set(3, func(c *fbs.Command) { c.Mode = 9 })},
		{"unknown option 0 of check", set(3, func(c *fbs.Command) { c.Option = 0 })},
		{"value 0x5 has bits outside the mask 0x1", set(3, func(c *fbs.Command) { c.Mask = 1 })},
		{"has bits that 2 bytes have not", set(3, func(c *fbs.Command) { c.Mask = 0x10000 })},
		{"command 3: can never hold",
			set(3, func(c *fbs.Command) {
				c.Mode, c.Mask, c.Value = uint8(gen.ConditionNotEqual), 0,
					0
			})},
		{"command 4: can never hold: mask is zero", set(4, func(c *fbs.Command) { c.Mask = 0 })},
		{"command 4: poll of no bits", set(4, func(c *fbs.Command) { c.Mode, c.Mask = equal, 0 })},
		{"command 5: point does not go to window 0, which is a BAR window",
			set(5, func(c *fbs.Command) { c.Window = 0 })},
		{"address 0x1000 is not a multiple of the window's 0x1000000",
			set(5, func(c *fbs.Command) { c.Value = 0x1000 })},
		{"has impossible fields", set(5, func(c *fbs.Command) { c.Mask |= 2 << 56 })},
		{"has impossible fields", set(5, func(c *fbs.Command) { c.Mask |= 1 << 16 })},
		{"command 5: a field that this command does not use",
			set(5, func(c *fbs.Command) { c.Offset = 1 })},
		{"command 5: width 1 is not one of point", set(5, func(c *fbs.Command) { c.Width = 1 })},
		{"command 6: window 1 is used before it is pointed", func(i *lmb.Image) {
			i.Sequences[0].Commands[5] = command(fbs.Command{Opcode: gen.OpcodeDelay, Amount: 1})
		}},
		{"command 6: copy in of no bytes",
			func(i *lmb.Image) { i.Sequences[0].Commands[6].Data = nil }},
		{"unknown mode 0 of copy in", set(6, func(c *fbs.Command) { c.Mode = 0 })},
		{"unknown option 1 of copy in", set(6, func(c *fbs.Command) { c.Option = 1 })},
		{"command 7: memory 5 does not exist", set(7, func(c *fbs.Command) { c.Index = 5 })},
		{"tensor \"d\" is on the wrong side", set(7, func(c *fbs.Command) { c.Index = 2 })},
		{"30 bytes at 0x8 reach outside the tensor", set(7, func(c *fbs.Command) { c.Value = 8 })},
		{"99 bytes are no whole number of accesses of 2",
			set(8, func(c *fbs.Command) { c.Width = 2 })},
		{"unknown mode 3 of fill", set(8, func(c *fbs.Command) { c.Mode = modeBulk })},
		{"has bits that 1 bytes have not", set(8, func(c *fbs.Command) { c.Value = 256 })},
		{"memory 0 does not exist, or is none of copy out",
			set(9, func(c *fbs.Command) { c.Index = 0 })},
		{"tensor \"a\" is on the wrong side", set(9, func(c *fbs.Command) { c.Index = 1 })},
		{"command 10: unknown mode 1 of compare", set(10, func(c *fbs.Command) { c.Mode = 1 })},
		{"command 10: a field that this command does not use",
			set(10, func(c *fbs.Command) { c.Mask = 1 })},
		{"4 bytes at 0x2 are not aligned to the width 4",
			set(10, func(c *fbs.Command) { c.Offset = 2 })},
		{"command 0: width 4 is not one of fence", set(0, func(c *fbs.Command) { c.Width = 4 })},
		{"command 0: a field that this command does not use",
			set(0, func(c *fbs.Command) { c.Window = 1 })},
		{"command 0: a field that this command does not use",
			set(0, func(c *fbs.Command) { c.Value = 1 })},
		{"delay of 0 us", set(13, func(c *fbs.Command) { c.Amount = 0 })},
		{"delay of 10000001 us", set(13, func(c *fbs.Command) { c.Amount = 10_000_001 })},
		{"command 14: sequence 5 does not exist", set(14, func(c *fbs.Command) { c.Index = 5 })},
		{"calls do not nest", set(14, func(c *fbs.Command) { c.Index = 0 })},
		{"command 16: mask is zero", func(i *lmb.Image) { i.Sequences[1].Commands[0].Mask = 0 }},
		{"command 17: width 8 is not accepted by configuration space",
			func(i *lmb.Image) { i.Sequences[1].Commands[1].Width = 8 }},
		{"fill does not go to window 3, which is configuration space, read-only",
			set(8, func(c *fbs.Command) { c.Window = 3 })},

		// What the board says.
		{"nothing at 0x1f000000 of BAR 0 is a register of wormhole",
			func(i *lmb.Image) { ofWormhole(i, 0, 0x1f000000-8) }},
		{"width 2 is not accepted by wormhole BAR 0 at 0x1fe80008 (ARC CSM)", func(i *lmb.Image) {
			ofWormhole(i, 0, 0x1fe80000)
			i.Sequences[0].Commands[1].Width = 2
		}},
		{"command 1: a store (declare a TLB or a host window instead) is not accepted by " +
			"wormhole BAR 2 at 0x1208 (iATU)", func(i *lmb.Image) {
			i.Devices[0].Bars[2] = 1 << 20
			ofWormhole(i, 2, 0x1200)
		}},
		{"a write-combining window, which is for memory, is not accepted by wormhole BAR 0 at " +
			"0x1fe80008 (ARC CSM)", func(i *lmb.Image) {
			ofWormhole(i, 0, 0x1fe80000)
			i.Windows[0].Flags = fbs.FlagWriteCombining
		}},
		{"bulk access, which is for memory that takes every width, is not accepted by wormhole",
			func(i *lmb.Image) {
				ofWormhole(i, 0, 0x1fe80000)
				c := &i.Sequences[0].Commands
				*c = append([]lmb.Command{{Command: fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 4,
					Mode: modeBulk}, Data: []byte("1234")}}, *c...)
			}},
		{"16 bytes at 0xfff8 reach outside the window, or outside one register",
			func(i *lmb.Image) {
				ofWormhole(i, 0, 0x1efffff8-0xfff8)
				c := &i.Sequences[0].Commands
				*c = append([]lmb.Command{command(fbs.Command{Opcode: gen.OpcodeCopyOut, Width: 8,
					Mode: modeBulk, Index: 2, Offset: 0xfff8, Amount: 16})}, *c...)
			}},

		// What harms no target and nobody means.
		{"the name \"main\" is taken", func(i *lmb.Image) { i.Sequences[1].Name = "main" }},
		{"the name \"a\" is taken", func(i *lmb.Image) { i.Tensors[1].Name = "a" }},
		{"has a control character, or is not UTF-8",
			func(i *lmb.Image) { i.Tensors[1].Name = "\xff" }},
		{"is an output that no CopyOut fills", func(i *lmb.Image) {
			i.Tensors = append(i.Tensors, lmb.Tensor{Name: "f", Role: gen.RoleOutput, DType: 1,
				Shape: []uint32{1}})
		}},
		{"tolerances are not finite",
			func(i *lmb.Image) { i.Tensors[2].Golden.First = math.Float32bits(float32(math.NaN())) }},
		{"correlation threshold is not between", func(i *lmb.Image) {
			i.Tensors[2].Golden = lmb.Golden{Kind: gen.JudgementCorrelation,
				First: math.Float32bits(2)}
		}},
		{"is no output with recorded data", func(i *lmb.Image) { i.Tensors[2].Data = nil }},
		{"unknown judgement 9", func(i *lmb.Image) { i.Tensors[2].Golden.Kind = 9 }},
		{"is of no kind", func(i *lmb.Image) { i.Sequences[0].Commands[15].Mode = 9 }},
	} {
		image := sample()
		test.wound(image)
		if _, err := lmb.Encode(image); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v\n\twant %q", err, test.want)
		}
	}
}

func TestAWindowPointedByACalleeMustBePointedAgain(t *testing.T) {
	image := sample()
	commands := &image.Sequences[0].Commands
	*commands = append(*commands, (*commands)[6])
	if _, err := lmb.Encode(image); err == nil ||
		!strings.Contains(err.Error(), "command 15: window 1 is used before it is pointed") {
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

// TestWriteLikeTheOneBeforeIsCheckedAsMuch has two stores in a row that are
// alike but for what is wrong with the second.
func TestWriteLikeTheOneBeforeIsCheckedAsMuch(t *testing.T) {
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
			{"not aligned", func(c *fbs.Command) { c.Offset = 1 }},
			{"not aligned", func(c *fbs.Command) { c.Offset = uint32(width) / 2 }},
			{"does not use is not zero", func(c *fbs.Command) { c.Amount = 1 }},
			{"does not use is not zero", func(c *fbs.Command) { c.Index = 1 }},
			{"does not use is not zero", func(c *fbs.Command) { c.Mask = 1 }},
			{"option", func(c *fbs.Command) { c.Option = 1 }},
			{"does not exist", func(c *fbs.Command) { c.Window = 999 }},
			{"before it is pointed", func(c *fbs.Command) { c.Window = 1 }},
			{"mode", func(c *fbs.Command) { c.Mode = 99 }},
			{"width", func(c *fbs.Command) { c.Width = 3 }},
			{"unknown opcode", func(c *fbs.Command) { c.Opcode = 99 }},
		} {
			second := good
			test.change(&second)
			image := sample()
			image.Sequences[0].Commands = append([]lmb.Command{command(good), command(good),
				command(second)}, image.Sequences[0].Commands...)
			_, err := lmb.Encode(image) // verifies what it made
			if test.want == "" && err != nil ||
				test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) ||
					!strings.Contains(err.Error(), "command 2:")) {
				t.Errorf("width %d, %s: %v", width, test.want, err)
			}
		}
	}
	// A command of zeros is none, wherever it stands.
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
	// What is wider than a register of four bytes.
	image := sample()
	wide := fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Value: 5}
	wider := wide
	wider.Value = 1 << 32
	image.Sequences[0].Commands = append([]lmb.Command{command(wide), command(wider)},
		image.Sequences[0].Commands...)
	if _, err := lmb.Encode(image); err == nil ||
		!strings.Contains(err.Error(), "command 1: value") {
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

// meant decodes a file that is right and that an encoder would make.
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
			// Mend what would otherwise hide the verifier behind the checksum.
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
