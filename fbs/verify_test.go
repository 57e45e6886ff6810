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
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/vectors/reader"
	"lightmetal/tools/image/lmb"
)

const (
	equal     = uint8(gen.ConditionEqual)
	fail      = uint8(gen.PolicyFail)
	modeExact = uint8(gen.AccessExact)
	modeBulk  = uint8(gen.AccessBulk)
)

// command returns a command without data.
func command(c fbs.Command) lmb.Command { return lmb.Command{Command: c} }

// sampleImage returns an image that uses every feature of the format.
func sampleImage() *lmb.Image {
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
				Slot: fbs.AnySlot, Offset: 0x1000, Size: 1 << 16}},
			{Name: "l1", Window: fbs.Window{Kind: gen.WindowKindTlb, Slot: 166, Size: 1 << 24,
				Flags: fbs.FlagWriteCombining}},
			{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.AnySlot, Size: 5000}},
			{Window: fbs.Window{Kind: gen.WindowKindConfig, Slot: fbs.AnySlot, Size: 256}},
			{Name: "own", Window: fbs.Window{Kind: gen.WindowKindBar, Device: 1, Bar: 1,
				Slot: fbs.AnySlot, Size: 0x2000}},
			{Window: fbs.Window{Kind: gen.WindowKindBar, Device: 1, Bar: 2, Slot: fbs.AnySlot,
				Size: 1 << 20, Flags: fbs.FlagWriteCombining}},
			{Name: "queue", Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.AnySlot,
				Flags: fbs.FlagFixedBus, Offset: 0x8_0000_0000, Size: 5000}},
			{Name: "results", Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.AnySlot,
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

// wantError checks that an error contains a text, or that there is no error if the text
// is empty.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "":
		if err != nil {
			t.Errorf("error %q, want none", err)
		}
	case err == nil:
		t.Errorf("no error, want %q", want)
	case !strings.Contains(err.Error(), want):
		t.Errorf("error %q, want %q", err, want)
	}
}

// encode returns the file of an image. lmb.Encode also verifies it.
func encode(t *testing.T, image *lmb.Image) []byte {
	t.Helper()
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestImageSurvivesEncodingAndDecoding(t *testing.T) {
	file := encode(t, sampleImage())
	decoded, err := lmb.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	want := sampleImage()
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
		t.Errorf("encoding the decoded image returns %d bytes that differ from the %d bytes of "+
			"the file", len(again), len(file))
	}
}

// unpacker is a generated accessor of an element.
type unpacker[T any] interface{ UnPack() *T }

// checkElements compares the elements of a view with those that generated accessors read. get reads
// an element, and `of` returns the part of the view's element that the accessors have, too.
func checkElements[E any, T comparable, A unpacker[T]](t *testing.T, what string, view []E, count int,
	accessor A, get func(accessor A, i int) bool, of func(*E) T) {
	t.Helper()
	if len(view) != count || count == 0 {
		t.Errorf("the view has %d elements %s, accessors have %d; want the same, and at least one",
			len(view), what, count)
		return
	}
	for i := range view {
		get(accessor, i)
		if got, want := of(&view[i]), *accessor.UnPack(); got != want {
			t.Errorf("%s %d: view %+v, accessors %+v", what, i, got, want)
		}
	}
}

func TestViewAgreesWithGeneratedAccessors(t *testing.T) {
	image := sampleImage()
	image.Tensors[1].Shape = []uint32{3, 1, 2, 4, 5, 6, 7, 8} // all different
	file := encode(t, image)
	v, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	root := gen.GetRootAsImage(file, 0)
	if want := *root.Reservation(nil).UnPack(); v.Reservation != want {
		t.Errorf("reservation: view %+v, accessors %+v", v.Reservation, want)
	}
	checkElements(t, "command", v.Commands, root.CommandsLength(), new(gen.Command), root.Commands,
		func(c *fbs.Command) gen.CommandT { return *c })
	checkElements(t, "window", v.Windows, root.WindowsLength(), new(gen.Window), root.Windows,
		func(w *fbs.Window) gen.WindowT { return *w })
	checkElements(t, "segment", v.Segments, root.SegmentsLength(), new(gen.Segment), root.Segments,
		func(s *fbs.Segment) gen.SegmentT { return *s })
	checkElements(t, "sequence", v.Sequences, root.SequencesLength(), new(gen.Sequence),
		root.Sequences, func(s *fbs.Sequence) gen.SequenceT { return *s })
	checkElements(t, "rule", v.Rules, root.RulesLength(), new(gen.Rule), root.Rules,
		func(r *fbs.AccessRule) gen.RuleT { return *r })
	checkElements(t, "tensor", v.Tensors, root.TensorsLength(), new(gen.Tensor), root.Tensors,
		func(x *fbs.Tensor) gen.TensorT { return x.TensorT })
	checkElements(t, "device", v.Devices, root.DevicesLength(), new(gen.Device), root.Devices,
		func(d *fbs.DeviceInfo) gen.DeviceT { return d.DeviceT })
	for i := range v.Tensors {
		if x := &v.Tensors[i]; x.Shape()[7] != x.Shape7 {
			t.Errorf("tensor %d: shape %v, want %d as the last dimension", i, x.Shape(), x.Shape7)
		}
	}
	for i := range v.Devices {
		if d := &v.Devices[i]; d.MinBarSizes()[5] != d.Bar5 {
			t.Errorf("device %d: BARs %v, want %d bytes of BAR 5", i, d.MinBarSizes(), d.Bar5)
		}
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
	if err := os.WriteFile(path, encode(t, sampleImage()), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(flatc, "--json", "--strict-json", "--raw-binary", "-o",
		filepath.Dir(path), "image.fbs", "--", path).CombinedOutput()
	if err != nil {
		t.Fatalf("flatc: %v: %s", err, out)
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
		t.Errorf("flatc reads %+v, want 20 commands, command 1 Write of 5, tensor 1 Float16, and "+
			"vendor 0x1e52 of device 0", image)
	}
}

// TestEveryTruncationIsRejected truncates an image, and the signature after it. A signature that is
// cut off completely leaves a valid image.
func TestEveryTruncationIsRejected(t *testing.T) {
	image, file := signedFile(t)
	for size := range len(file) {
		if _, err := fbs.Verify(file[:size:size]); (err == nil) != (size == len(image)) {
			t.Fatalf("the first %d bytes of %d: error %v, want one unless they are the %d of the image",
				size, len(file), err, len(image))
		}
	}
	for what, more := range map[string][]byte{"a byte": {0}, "a signature": file[len(image):]} {
		if _, err := fbs.Verify(append(bytes.Clone(file), more...)); err == nil {
			t.Errorf("Verify accepts a signed file with %s more, want an error", what)
		}
	}
	if _, err := fbs.Verify(append(bytes.Clone(image), 0)); err == nil {
		t.Error("Verify accepts an image with one more byte, want an error")
	}
	t.Logf("evidence: %d truncated files rejected", len(file))
}

func TestEveryFlippedBitIsRejected(t *testing.T) {
	_, file := signedFile(t)
	for bit := range 8 * len(file) {
		file[bit/8] ^= 1 << (bit % 8)
		if _, err := fbs.Verify(file); err == nil {
			t.Fatalf("bit %d of byte %d flipped: Verify accepts the file, want an error", bit%8,
				bit/8)
		}
		file[bit/8] ^= 1 << (bit % 8)
	}
	t.Logf("evidence: %d files with one flipped bit rejected", 8*len(file))
}

// TestFlippedBitsWithAValidChecksumAreReadSafely flips every bit of the envelope and
// fixes up the checksum, so that all checks are reached. An accepted image must be
// consistent enough to decode and encode again.
func TestFlippedBitsWithAValidChecksumAreReadSafely(t *testing.T) {
	file := encode(t, sampleImage())
	envelope := binary.LittleEndian.Uint64(file[32:])
	accepted := 0
	for bit := 72 * 8; bit < 8*int(envelope); bit++ {
		flipped := bytes.Clone(file)
		flipped[bit/8] ^= 1 << (bit % 8)
		binary.LittleEndian.PutUint32(flipped[12:], fbs.EnvelopeChecksum(flipped[:envelope]))
		image, ok := decodeValid(flipped)
		if !ok {
			continue
		}
		accepted++
		if _, err := lmb.Encode(image); err != nil {
			t.Errorf("bit %d of byte %d flipped: the file is accepted, but encoding it again "+
				"fails: %v", bit%8, bit/8, err)
		}
	}
	t.Logf("%d of the files with a flipped bit are valid images", accepted)
	t.Logf("evidence: %d files with one flipped bit and a valid checksum verified",
		8*(int(envelope)-72))
}

const vectors = "../testdata/vectors"

// readReasons reads testdata/vectors/reasons.txt, which contains the error of Verify for each
// vector whose image is rejected. The keys are the names of vectors.
func readReasons(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(vectors, "reasons.txt"))
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, reason, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		reasons[name] = reason
	}
	return reasons
}

// TestCorruptedImagesAreRejectedWithAReason verifies the images of all vectors and compares each
// complete message with the one in reasons.txt. There is a vector with a corrupted image for each
// rule of the format. An image of a vector that reasons.txt does not list must be accepted.
func TestCorruptedImagesAreRejectedWithAReason(t *testing.T) {
	reasons := readReasons(t)
	rejected := 0
	for _, list := range reader.Vectors(t, vectors) {
		for _, v := range list {
			t.Run(v.Name, func(t *testing.T) {
				got := ""
				if _, err := fbs.Verify(reader.ImageOf(t, vectors, v)); err != nil {
					rejected++
					got = err.Error()
				}
				if want := reasons[v.Name]; got != want {
					t.Errorf("Verify: error %q, want %q (none if empty); after a change of a "+
						"message, run `go run ./tools/check/vectors`", got, want)
				}
			})
		}
	}
	if rejected < 300 {
		t.Errorf("only %d images are rejected, want at least 300", rejected)
	}
}

// TestMistakesThatOnlyTheEncoderRejects encodes images with mistakes that a reader does not check,
// or that no file can have.
func TestMistakesThatOnlyTheEncoderRejects(t *testing.T) {
	set := func(index int, change func(*fbs.Command)) func(*lmb.Image) {
		return func(image *lmb.Image) { change(&image.Sequences[0].Commands[index].Command) }
	}
	for _, test := range []struct {
		want    string
		corrupt func(*lmb.Image)
	}{
		{"device 0: name \"\" has 0 bytes", func(i *lmb.Image) { i.Devices[0].Board = "" }},
		{"window 0: name \"xxx",
			func(i *lmb.Image) { i.Windows[0].Name = strings.Repeat("x", 256) }},
		{"rule 0: name \"\" has 0 bytes", func(i *lmb.Image) { i.Rules[0].Name = "" }},
		{"9 dimensions; at most 8",
			func(i *lmb.Image) { i.Tensors[1].Shape = []uint32{1, 1, 1, 1, 1, 1, 1, 1, 3} }},
		{"command 3: the condition can never hold",
			set(3, func(c *fbs.Command) {
				c.Mode, c.Mask, c.Value = uint8(gen.ConditionNotEqual), 0, 0
			})},
		{"command 4: the condition can never hold, because the mask is 0",
			set(4, func(c *fbs.Command) { c.Mask = 0 })},
		{"command 4: the poll never waits, because the mask is 0",
			set(4, func(c *fbs.Command) { c.Mode, c.Mask = equal, 0 })},
		{"the name \"main\" is used twice", func(i *lmb.Image) { i.Sequences[1].Name = "main" }},
		{"the name \"a\" is used twice", func(i *lmb.Image) { i.Tensors[1].Name = "a" }},
		{"has a control character or is not UTF-8",
			func(i *lmb.Image) { i.Tensors[1].Name = "\xff" }},
		{"no copy command copies data from the device to this output", func(i *lmb.Image) {
			i.Tensors = append(i.Tensors, lmb.Tensor{Name: "f", Role: gen.RoleOutput, DType: 1,
				Shape: []uint32{1}})
		}},
		{"a tolerance must be finite and not negative",
			func(i *lmb.Image) {
				i.Tensors[2].Golden.First = math.Float32bits(float32(math.NaN()))
			}},
		{"the required correlation must be between", func(i *lmb.Image) {
			i.Tensors[2].Golden = lmb.Golden{Kind: gen.JudgementCorrelation,
				First: math.Float32bits(2)}
		}},
		{"must be an output with golden data", func(i *lmb.Image) { i.Tensors[2].Data = nil }},
		{"the kind 9 of the comparison is unknown",
			func(i *lmb.Image) { i.Tensors[2].Golden.Kind = 9 }},
		{"the kind 9 of the mark is unknown",
			func(i *lmb.Image) { i.Sequences[0].Commands[15].Mode = 9 }},
	} {
		t.Run(test.want, func(t *testing.T) {
			image := sampleImage()
			test.corrupt(image)
			_, err := lmb.Encode(image)
			wantError(t, err, test.want)
		})
	}
}

func TestVerifyingAllocatesNothingPerCommand(t *testing.T) {
	measure := func(n int) float64 {
		image := sampleImage()
		for range n {
			image.Sequences[1].Commands = append(image.Sequences[1].Commands,
				image.Sequences[0].Commands[1])
		}
		file := encode(t, image)
		return testing.AllocsPerRun(20, func() { _, _ = fbs.Verify(file) })
	}
	if few, many := measure(1), measure(10000); few != many {
		t.Errorf("Verify makes %v allocations with 1 additional command and %v with 10,000, want "+
			"the same number", few, many)
	}
}

func BenchmarkVerify(b *testing.B) {
	image := sampleImage()
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

// decodeValid decodes a file. It returns false if Verify rejects the file, or if no encoder would
// write it.
func decodeValid(file []byte) (*lmb.Image, bool) {
	view, err := fbs.Verify(file)
	if err != nil || lmb.Quality(view) != nil {
		return nil, false
	}
	image, err := lmb.FromView(view)
	return image, err == nil
}

// FuzzVerify verifies any bytes, with a valid checksum. An image that Verify accepts must be
// consistent enough to decode and encode again.
func FuzzVerify(f *testing.F) {
	file, err := lmb.Encode(sampleImage())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file) // has rules
	for _, name := range []string{"m\nin", "m\u0085n", "m\u202e", "m\xffin"} {
		f.Add(bytes.Replace(file, []byte("main"), []byte(name), 1))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = append(make([]byte, 0, len(data)+8), data...)
		if len(data) >= 72 {
			// Fix up the checksum, so that all checks are reached.
			lmb.Stamp(data, min(max(72, binary.LittleEndian.Uint64(data[32:])), uint64(len(data))))
		}
		image, ok := decodeValid(data)
		if !ok {
			return
		}
		if _, err := lmb.Encode(image); err != nil {
			t.Errorf("the file is accepted, but encoding it again fails: %v", err)
		}
	})
}
