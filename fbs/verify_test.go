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
	equal   = uint8(gen.ConditionEqual)
	fail    = uint8(gen.PolicyFail)
	exact   = uint8(gen.AccessExact)
	payload = uint8(gen.SourcePayload)
	tensor  = uint8(gen.SourceTensor)
	now     = uint8(gen.SourceImmediate)
)

func command(c fbs.Command) lmb.Command { return lmb.Command{Command: c} }

// sample is an image that uses everything the format has.
func sample() *lmb.Image {
	target := fbs.Target{X: 1, Y: 2, Ordering: gen.OrderingStrict, StaticVC: 3}
	return &lmb.Image{
		Origin:  lmb.Origin{Tool: "test", Source: "sample", Time: 7, Git: "abc"},
		Targets: []lmb.Target{{Board: "wormhole", Vendor: 0x1e52, Device: 0x401e, Bars: [6]uint64{0: 1 << 29, 4: 1 << 25}}},
		Windows: []lmb.Window{
			{Name: "regs", Window: fbs.Window{Kind: gen.WindowKindBar, Slot: fbs.NoSlot, Offset: 0x1000, Size: 1 << 16}},
			{Name: "l1", Window: fbs.Window{Kind: gen.WindowKindTlb, Slot: 166, Size: 1 << 24, Flags: fbs.FlagWriteCombining}},
			{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.NoSlot, Size: 5000}},
			{Window: fbs.Window{Kind: gen.WindowKindConfig, Slot: fbs.NoSlot, Size: 256}},
		},
		Tensors: []lmb.Tensor{
			{Name: "a", Role: gen.RoleInput, DType: gen.DTypeInt32, Shape: []uint32{4, 2}, Data: bytes.Repeat([]byte{7}, 32)},
			{Name: "d", Role: gen.RoleOutput, DType: gen.DTypeFloat16, Shape: []uint32{3}},
		},
		Sequences: []lmb.Sequence{
			{Name: "main", Commands: []lmb.Command{
				{Command: fbs.Command{Opcode: gen.OpcodeMark, Mode: uint8(gen.MarkKindPoint)}, Name: "start"},
				command(fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Mode: now, Offset: 8, Value: 5, Mask: 0xffffffff}),
				command(fbs.Command{Opcode: gen.OpcodeWrite, Width: 8, Mode: uint8(gen.SourceBusAddress), Offset: 16, Index: 2, Value: 64, Mask: math.MaxUint64}),
				command(fbs.Command{Opcode: gen.OpcodeExpect, Width: 2, Mode: equal, Option: fail, Offset: 8, Value: 5, Mask: 0xff}),
				command(fbs.Command{Opcode: gen.OpcodePoll, Width: 4, Mode: uint8(gen.ConditionAnySet), Option: fail, Offset: 4, Mask: 1, Amount: 1000, Index: 5}),
				command(fbs.Command{Opcode: gen.OpcodePoint, Window: 1, Value: 1 << 24, Mask: target.Pack()}),
				{Command: fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 4, Mode: payload, Option: exact, Window: 1, Amount: 8}, Data: []byte("12345678")},
				command(fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 8, Mode: tensor, Option: uint8(gen.AccessBulk), Window: 1, Offset: 3, Amount: 30, Value: 2}),
				command(fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 1, Mode: now, Option: uint8(gen.AccessFixed), Amount: 99, Value: 0x55}),
				command(fbs.Command{Opcode: gen.OpcodeCopyOut, Width: 2, Mode: tensor, Option: exact, Window: 1, Index: 1, Amount: 6}),
				{Command: fbs.Command{Opcode: gen.OpcodeCompare, Width: 4, Mode: uint8(gen.CompareModeTolerance), Option: fail, Window: 1, Index: uint16(gen.DTypeFloat32),
					Amount: 4, Mask: uint64(math.Float32bits(0.5))}, Data: []byte{0, 0, 0x80, 0x3f}},
				command(fbs.Command{Opcode: gen.OpcodeFence, Mode: uint8(gen.FenceModeStore)}),
				command(fbs.Command{Opcode: gen.OpcodeFence, Mode: uint8(gen.FenceModeReadBack), Width: 4}),
				command(fbs.Command{Opcode: gen.OpcodeDelay, Amount: 10}),
				command(fbs.Command{Opcode: gen.OpcodeCall, Index: 1}),
			}},
			{Name: "safe", Commands: []lmb.Command{
				command(fbs.Command{Opcode: gen.OpcodeExpect, Width: 2, Mode: equal, Option: fail, Window: 3, Offset: 4, Value: 4, Mask: 4}),
			}},
		},
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
	want.Tensors[1].Data = nil
	if !reflect.DeepEqual(decoded.Tensors, want.Tensors) || !reflect.DeepEqual(decoded.Windows, want.Windows) ||
		!reflect.DeepEqual(decoded.Sequences, want.Sequences) || decoded.Origin != want.Origin {
		t.Errorf("decoded %+v\nwant %+v", decoded, want)
	}
	if again := encode(t, decoded); !bytes.Equal(again, file) {
		t.Error("encoding the decoded image gives other bytes")
	}
}

func TestViewAgreesWithGeneratedAccessors(t *testing.T) {
	file := encode(t, sample())
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
		want := fbs.Command{Opcode: c.Opcode(), Width: c.Width(), Mode: c.Mode(), Option: c.Option(), Window: c.Window(),
			Index: c.Index(), Offset: c.Offset(), Amount: c.Amount(), Value: c.Value(), Mask: c.Mask()}
		if got != want {
			t.Errorf("command %d: view %+v, accessors %+v", i, got, want)
		}
	}
	var w gen.Window
	for i, got := range view.Windows {
		root.Windows(&w, i)
		want := fbs.Window{Kind: w.Kind(), Device: w.Device(), Bar: w.Bar(), Flags: w.Flags(), Slot: w.Slot(), Name: w.Name(), Offset: w.Offset(), Size: w.Size()}
		if got != want {
			t.Errorf("window %d: view %+v, accessors %+v", i, got, want)
		}
	}
	r := root.Reservation(nil)
	want := fbs.Reservation{ArenaBytes: r.ArenaBytes(), HostBytes: r.HostBytes(), PayloadBytes: r.PayloadBytes(), Commands: r.Commands(),
		Windows: r.Windows(), Tensors: r.Tensors(), Sequences: r.Sequences(), Segments: r.Segments(), Names: r.Names()}
	if view.Reservation != want {
		t.Errorf("reservation: view %+v, accessors %+v", view.Reservation, want)
	}
	var s gen.Segment
	for i, got := range view.Segments {
		root.Segments(&s, i)
		if want := (fbs.Segment{Offset: s.Offset(), Size: s.Size(), CRC32C: s.Crc32c(), Reserved: s.Reserved()}); got != want {
			t.Errorf("segment %d: view %+v, accessors %+v", i, got, want)
		}
	}
	var tensor gen.Tensor
	for i, got := range view.Tensors {
		root.Tensors(&tensor, i)
		if string(tensor.Name()) != got.Name || tensor.Size() != got.Size || tensor.ArenaOffset() != got.ArenaOffset ||
			tensor.Recorded() != got.Recorded || tensor.RecordedOffset() != got.RecordedOffset || tensor.Dtype() != got.DType {
			t.Errorf("tensor %d: %+v", i, got)
		}
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
	out, err := exec.Command(flatc, "--json", "--strict-json", "--raw-binary", "-o", filepath.Dir(path), "image.fbs", "--", path).CombinedOutput()
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
		Tensors []struct{ Name, Dtype string }
		Targets []struct{ Board string }
	}
	if err := json.Unmarshal(text, &image); err != nil {
		t.Fatal(err)
	}
	if len(image.Commands) != 18 || image.Commands[1].Opcode != "Write" || image.Commands[1].Value != 5 ||
		image.Tensors[0].Name != "a" || image.Tensors[1].Dtype != "Float16" || image.Targets[0].Board != "wormhole" {
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
		image, err := lmb.Decode(flipped)
		if err != nil {
			continue
		}
		accepted++
		if _, err := lmb.Encode(image); err != nil {
			t.Errorf("byte %d bit %d: accepted, but not encoded again: %v", bit/8, bit%8, err)
		}
	}
	t.Logf("%d of the flips give another valid image", accepted)
	t.Logf("evidence: %d files with one flipped bit behind a right checksum verified", 8*(int(envelope)-72))
}

func TestBadPreamblesAreRefusedWithAReason(t *testing.T) {
	for _, test := range []struct {
		name  string
		wound func([]byte) []byte
		want  string
	}{
		{"empty", func([]byte) []byte { return nil }, "the file is empty"},
		{"short", func(b []byte) []byte { return b[:71] }, "the file has 71 bytes"},
		{"another format", func(b []byte) []byte { b[4] = 'X'; return b }, "not a Light Metal image"},
		{"newer major", func(b []byte) []byte { b[8] = 2; return b }, "format 2.0, this program reads 1.0"},
		{"newer minor", func(b []byte) []byte { b[10] = 1; return b }, "format 1.1, this program reads 1.0"},
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
		{"has no target", func(i *lmb.Image) { i.Targets = nil }},
		{"has no window", func(i *lmb.Image) { i.Windows = nil }},
		{"has no sequence", func(i *lmb.Image) { i.Sequences = nil }},
		{"target 0 board: has 0 bytes and should have 1 to 255", func(i *lmb.Image) { i.Targets[0].Board = "" }},
		{"name 0: has 256 bytes and should have 1 to 255", func(i *lmb.Image) { i.Windows[0].Name = strings.Repeat("x", 256) }},
		{"window 0: unknown kind 9", func(i *lmb.Image) { i.Windows[0].Kind = 9 }},
		{"window 0: target 3 does not exist", func(i *lmb.Image) { i.Windows[0].Device = 3 }},
		{"window 0: unknown flags 0x4", func(i *lmb.Image) { i.Windows[0].Flags = 4 }},
		{"window 0: size 0x0 is not between", func(i *lmb.Image) { i.Windows[0].Size = 0 }},
		{"window 0: size 0x100000001 is not between", func(i *lmb.Image) { i.Windows[0].Size = 1<<32 + 1 }},
		{"window 0: only a TLB window has a slot", func(i *lmb.Image) { i.Windows[0].Slot = 1 }},
		{"window 1: only a BAR window has", func(i *lmb.Image) { i.Windows[1].Bar = 1 }},
		{"window 0: BAR 6 does not exist", func(i *lmb.Image) { i.Windows[0].Bar = 6 }},
		{"do not fit BAR 0 of 0x20000000", func(i *lmb.Image) { i.Windows[0].Offset = 1<<29 - 4 }},
		{"is not a power of two", func(i *lmb.Image) { i.Windows[1].Size = 3 << 20 }},
		{"configuration space has 256 or 4096", func(i *lmb.Image) { i.Windows[3].Size = 512 }},
		{"the name \"main\" is taken", func(i *lmb.Image) { i.Sequences[1].Name = "main" }},
		{"the name \"a\" is taken", func(i *lmb.Image) { i.Tensors[1].Name = "a" }},
		{"unknown role 0", func(i *lmb.Image) { i.Tensors[0].Role = 0 }},
		{"unknown element type 99", func(i *lmb.Image) { i.Tensors[1].DType = 99 }},
		{"shape has a zero", func(i *lmb.Image) { i.Tensors[1].Shape = []uint32{0} }},
		{"more than 64 TiB", func(i *lmb.Image) { i.Tensors[1].Shape = []uint32{1 << 31, 1 << 31, 4} }},
		{"lie outside every segment", func(i *lmb.Image) { i.Tensors[0].Shape = []uint32{4096} }},
		{"is an output that no CopyOut fills", func(i *lmb.Image) {
			i.Tensors = append(i.Tensors, lmb.Tensor{Name: "e", Role: gen.RoleOutput, DType: 1, Shape: []uint32{1}})
		}},

		{"command 2: 0x1389 bytes on is beyond window 2 of 0x1388 bytes", set(2, func(c *fbs.Command) { c.Value = 5001 })},
		{"configuration space is read-only to images", set(1, func(c *fbs.Command) { c.Window, c.Offset = 3, 4 })},
		{"origin source: has 4097 bytes", func(i *lmb.Image) { i.Origin.Source = strings.Repeat("x", fbs.OriginMax+1) }},
		{"command 1: unknown opcode 77", set(1, func(c *fbs.Command) { c.Opcode = 77 })},
		{"command 1: unknown opcode 0", set(1, func(c *fbs.Command) { c.Opcode = 0 })},
		{"command 1: End must be the last", set(1, func(c *fbs.Command) { c.Opcode = gen.OpcodeEnd })},
		{"command 1: width 3 is not", set(1, func(c *fbs.Command) { c.Width = 3 })},
		{"command 1: window 9 does not exist", set(1, func(c *fbs.Command) { c.Window = 9 })},
		{"4 bytes at 0x10000 reach outside the window", set(1, func(c *fbs.Command) { c.Offset = 0x10000 })},
		{"4 bytes at 0xfffffffc reach outside the window", set(1, func(c *fbs.Command) { c.Offset = 0xfffffffc })},
		{"4 bytes at 0xa are not aligned to the width 4", set(1, func(c *fbs.Command) { c.Offset = 10 })},
		{"the window starts at 0x1001, which is not aligned", func(i *lmb.Image) { i.Windows[0].Offset = 0x1001 }},
		{"command 1: a field that this command does not use", set(1, func(c *fbs.Command) { c.Amount = 1 })},
		{"command 1: a field that this command does not use", set(1, func(c *fbs.Command) { c.Index = 1 })},
		{"is wider than 4 bytes", set(1, func(c *fbs.Command) { c.Value = 1 << 32 })},
		{"mask is zero", set(1, func(c *fbs.Command) { c.Mask, c.Value = 0, 0 })},
		{"has bits outside the mask", set(1, func(c *fbs.Command) { c.Mask = 2 })},
		{"source 2 is not one of Write", set(1, func(c *fbs.Command) { c.Mode = payload })},
		{"a bus address is written whole", set(2, func(c *fbs.Command) { c.Mask = 1 })},
		{"command 2: window 8 does not exist", set(2, func(c *fbs.Command) { c.Index = 8 })},
		{"only BAR and host windows have a bus address", set(2, func(c *fbs.Command) { c.Index = 3 })},
		{"command 3: a field that this command does not use", set(3, func(c *fbs.Command) { c.Amount = 1 })},
		{"unknown condition 9", set(3, func(c *fbs.Command) { c.Mode = 9 })},
		{"unknown policy 0", set(3, func(c *fbs.Command) { c.Option = 0 })},
		{"can never hold: value 0x5 has bits outside the mask 0x1", set(3, func(c *fbs.Command) { c.Mask = 1 })},
		{"is wider than 2 bytes", set(3, func(c *fbs.Command) { c.Mask = 0x10000 })},
		{"always holds or never", set(3, func(c *fbs.Command) { c.Mode, c.Mask, c.Value = uint8(gen.ConditionNotEqual), 0, 0 })},
		{"command 4: poll has no deadline", set(4, func(c *fbs.Command) { c.Amount = 0 })},
		{"command 4: can never hold: mask is zero", set(4, func(c *fbs.Command) { c.Mask = 0 })},
		{"command 4: poll of no bits", set(4, func(c *fbs.Command) { c.Mode, c.Mask = equal, 0 })},
		{"command 4: a field that this command does not use", set(4, func(c *fbs.Command) { c.Value = 1 })},
		{"command 5: window 0 is not a TLB window", set(5, func(c *fbs.Command) { c.Window = 0 })},
		{"address 0x1000 is not a multiple of the window's 0x1000000", set(5, func(c *fbs.Command) { c.Value = 0x1000 })},
		{"has impossible fields", set(5, func(c *fbs.Command) { c.Mask |= 2 << 56 })},
		{"has impossible fields", set(5, func(c *fbs.Command) { c.Mask |= 1 << 16 })},
		{"command 5: a field that this command does not use", set(5, func(c *fbs.Command) { c.Offset = 1 })},
		{"command 6: window 1 is used before it is pointed", func(i *lmb.Image) {
			i.Sequences[0].Commands[5] = command(fbs.Command{Opcode: gen.OpcodeDelay, Amount: 1})
		}},
		{"command 6: moves no bytes", func(i *lmb.Image) { i.Sequences[0].Commands[6].Data = nil }},
		{"unknown access 0", set(6, func(c *fbs.Command) { c.Option = 0 })},
		{"source 4 is not one of CopyIn", set(6, func(c *fbs.Command) { c.Mode = 4; c.Amount = 8 })},
		{"command 7: tensor 4 does not exist", set(7, func(c *fbs.Command) { c.Index = 4 })},
		{"tensor \"d\" is on the wrong side", set(7, func(c *fbs.Command) { c.Index = 1 })},
		{"30 bytes at 0x8 reach outside tensor \"a\" of 32 bytes", set(7, func(c *fbs.Command) { c.Value = 8 })},
		{"99 bytes are no whole number of accesses", set(8, func(c *fbs.Command) { c.Width = 2 })},
		{"a fill is a whole number", set(8, func(c *fbs.Command) { c.Option, c.Width = uint8(gen.AccessBulk), 2 })},
		{"is wider than 1 bytes", set(8, func(c *fbs.Command) { c.Value = 256 })},
		{"CopyOut goes to a tensor", set(9, func(c *fbs.Command) { c.Mode = payload })},
		{"command 10: unknown element type 0", set(10, func(c *fbs.Command) { c.Index = 0 })},
		{"command 10: unknown compare mode 0", set(10, func(c *fbs.Command) { c.Mode = 0 })},
		{"tolerances are not finite", set(10, func(c *fbs.Command) { c.Mask = uint64(math.Float32bits(float32(math.NaN()))) })},
		{"correlation threshold is not between", set(10, func(c *fbs.Command) {
			c.Mode, c.Mask = uint8(gen.CompareModeCorrelation), uint64(math.Float32bits(2))
		})},
		{"no whole elements of 8 bytes", set(10, func(c *fbs.Command) { c.Index = uint16(gen.DTypeInt64) })},
		{"command 11: unknown fence 0", set(11, func(c *fbs.Command) { c.Mode = 0 })},
		{"command 11: a field that this command does not use", set(11, func(c *fbs.Command) { c.Width = 4 })},
		{"a flush reads a device, not host memory", set(12, func(c *fbs.Command) { c.Window = 2 })},
		{"delay of 0 us", set(13, func(c *fbs.Command) { c.Amount = 0 })},
		{"command 14: sequence 5 does not exist", set(14, func(c *fbs.Command) { c.Index = 5 })},
		{"calls do not nest", set(14, func(c *fbs.Command) { c.Index = 0 })},
		{"configuration space is read-only to images", func(i *lmb.Image) { c := &i.Sequences[1].Commands[0]; c.Width, c.Offset = 8, 8 }},
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
	if _, err := lmb.Encode(image); err == nil || !strings.Contains(err.Error(), "command 15: window 1 is used before it is pointed") {
		t.Error(err)
	}
}

func TestVerifyingAllocatesNothingPerCommand(t *testing.T) {
	measure := func(n int) float64 {
		image := sample()
		for range n {
			image.Sequences[1].Commands = append(image.Sequences[1].Commands, image.Sequences[0].Commands[1])
		}
		file := encode(t, image)
		return testing.AllocsPerRun(5, func() { _, _ = fbs.Verify(file) })
	}
	if few, many := measure(1), measure(10000); few != many {
		t.Errorf("%v allocations for 1 command, %v for 10,000", few, many)
	}
}

// TestWriteLikeTheOneBeforeIsCheckedAsMuch has two stores in a row that are
// alike but for what is wrong with the second.
func TestWriteLikeTheOneBeforeIsCheckedAsMuch(t *testing.T) {
	for _, width := range []uint8{4, 8} {
		good := fbs.Command{Opcode: gen.OpcodeWrite, Width: width, Mode: uint8(gen.SourceImmediate), Value: 5, Mask: fbs.WidthMask(width)}
		window := sample().Windows[0]
		for _, test := range []struct {
			want   string
			change func(*fbs.Command)
		}{
			{"", func(*fbs.Command) {}},
			{"", func(c *fbs.Command) { c.Value = c.Mask }},
			{"", func(c *fbs.Command) { c.Offset = uint32(window.Size) - uint32(width) }},
			{"reach outside", func(c *fbs.Command) { c.Offset = uint32(window.Size) }},
			{"reach outside", func(c *fbs.Command) { c.Offset = math.MaxUint32 &^ 7 }},
			{"not aligned", func(c *fbs.Command) { c.Offset = 1 }},
			{"not aligned", func(c *fbs.Command) { c.Offset = uint32(width) / 2 }},
			{"does not use is not zero", func(c *fbs.Command) { c.Amount = 1 }},
			{"does not use is not zero", func(c *fbs.Command) { c.Index = 1 }},
			{"does not use is not zero", func(c *fbs.Command) { c.Option = 1 }},
			{"mask is zero", func(c *fbs.Command) { c.Mask, c.Value = 0, 0 }},
			{"outside the mask", func(c *fbs.Command) { c.Mask, c.Value = 1, 2 }},
			{"does not exist", func(c *fbs.Command) { c.Window = 999 }},
			{"before it is pointed", func(c *fbs.Command) { c.Window = 1 }},
			{"source", func(c *fbs.Command) { c.Mode = 99 }},
			{"width", func(c *fbs.Command) { c.Width = 3 }},
			{"unknown opcode", func(c *fbs.Command) { c.Opcode = 99 }},
		} {
			second := good
			test.change(&second)
			image := sample()
			image.Sequences[0].Commands = append([]lmb.Command{command(good), command(good), command(second)}, image.Sequences[0].Commands...)
			_, err := lmb.Encode(image) // verifies what it made
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "command 2:")) {
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
		if _, err := lmb.Encode(image); err == nil || !strings.Contains(err.Error(), "unknown opcode 0") {
			t.Errorf("zeros before command %d: %v", at, err)
		}
	}
	// What is wider than a register of four bytes.
	image := sample()
	wide := fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Mode: uint8(gen.SourceImmediate), Value: 5, Mask: fbs.WidthMask(4)}
	wider := wide
	wider.Value = 1 << 32
	image.Sequences[0].Commands = append([]lmb.Command{command(wide), command(wider)}, image.Sequences[0].Commands...)
	if _, err := lmb.Encode(image); err == nil || !strings.Contains(err.Error(), "command 1: value") {
		t.Error(err)
	}
}

func BenchmarkVerify(b *testing.B) {
	image := sample()
	for range 1_000_000 {
		image.Sequences[1].Commands = append(image.Sequences[1].Commands, image.Sequences[0].Commands[1])
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

func FuzzVerify(f *testing.F) {
	file, err := lmb.Encode(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	for _, s := range sharedImages {
		s.nameBytes, s.originBytes = min(s.nameBytes, 300), min(s.originBytes, 5000)
		f.Add(sharedImage(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = append(make([]byte, 0, len(data)+8), data...)
		if len(data) >= 72 {
			// Mend what would otherwise hide the verifier behind the checksum.
			lmb.Stamp(data, min(max(72, binary.LittleEndian.Uint64(data[32:])), uint64(len(data))))
		}
		image, err := lmb.Decode(data)
		if err != nil {
			return
		}
		if _, err := lmb.Encode(image); err != nil {
			t.Errorf("accepted, but not encoded again: %v", err)
		}
	})
}
