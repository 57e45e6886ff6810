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

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/check/vectors/reader"
	"lightmetal/tools/image/listing"
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

// sampleListing describes an image that uses every feature of the format.
const sampleListing = `lightmetal 1
origin tool "test" source "sample" git "abc" time 7
device wormhole 1e52:401e bar0 512MiB bar4 32MiB
device unknown ffff:0001 subsystem 1af4:1100 bar1 8KiB bar2 1MiB
device ivshmem 1af4:1110 bar2 512MiB
rule registers bar1 offset 0x0 size 2KiB widths 4 device 1
rule doorbells bar1 offset 0xa00 size 5632 widths 4 8 device 1
rule memory bar2 offset 0x0 size 1MiB widths 1 2 4 8 memory device 1
window regs bar2 offset 0x1000 size 64KiB device 2
window l1 tlb size 16MiB slot 166 wc
window w2 host size 5000
window w3 config size 256
window own bar1 offset 0x0 size 8KiB device 1
window w5 bar2 offset 0x0 size 1MiB wc device 1
window queue host size 5000 bus 0x800000000
window results host size 4KiB bus 0x800002000
tensor a input int32[4x2] = hex 0707070707070707070707070707070707070707070707070707070707070707
tensor d output float16[3]
tensor e output float32[1] = float32 1 absolute 0.5
main:
  fence
  write.4 regs+0x8 0x5
  write.8 regs+0x10 bus(w2)+0x40
  expect.2 regs+0x8 & 0xff == 0x5
  poll.4 regs+0x4 & 0x1 != 0x0 within 1ms every 5us
  point l1 tile 1,2 address 0x1000000 ordering strict vc 2
  copy.4 l1+0x0 <- hex 3132333435363738
  copy.8 l1+0x3 <- a[2:32] bulk
  fill.1 regs+0x0 <- 0x55 size 99 fifo
  copy.2 d[0:6] <- l1+0x0
  compare.4 l1+0x0 uint32 == hex 0000803f
  copy.4 e[0:4] <- l1+0x0
  read.4 regs+0x0
  delay 10us
  call safe
  mark "end"
safe:
  write.2 regs+0x4 0x0 mask 0x4
  expect.4 w3+0x0 == 0x401e1e52
  poll.4 w2+0x0 & 0xffff reached 0x10 within 1ms
`

func sampleImage() *lmb.Image {
	image, err := listing.Parse("sample.lms", []byte(sampleListing), nil)
	if err != nil {
		panic(err)
	}
	return image
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
func checkElements[E any, T comparable, A unpacker[T]](t *testing.T, what string, view []E,
	count int, accessor A, get func(accessor A, i int) bool, of func(*E) T) {
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
			t.Fatalf("the first %d bytes of %d: error %v, want one unless they are the image of %d",
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
	step := effort.Cases(7, 1, 1)
	for bit := 0; bit < 8*len(file); bit += step {
		file[bit/8] ^= 1 << (bit % 8)
		if _, err := fbs.Verify(file); err == nil {
			t.Fatalf("bit %d of byte %d flipped: Verify accepts the file, want an error", bit%8,
				bit/8)
		}
		file[bit/8] ^= 1 << (bit % 8)
	}
	t.Logf("evidence: %d files with one flipped bit rejected", 8*len(file)/step)
}

// TestFlippedBitsWithAValidChecksumAreReadSafely flips every bit of the envelope and
// fixes up the checksum, so that all checks are reached. An accepted image must be
// consistent enough to decode and encode again.
func TestFlippedBitsWithAValidChecksumAreReadSafely(t *testing.T) {
	file := encode(t, sampleImage())
	envelope := binary.LittleEndian.Uint64(file[32:])
	accepted := 0
	step := effort.Cases(7, 1, 1)
	for bit := 72 * 8; bit < 8*int(envelope); bit += step {
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
		8*(int(envelope)-72)/step)
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
		{"has an invisible or control character, or is not UTF-8",
			func(i *lmb.Image) { i.Tensors[1].Name = "\xff" }},
		{`sequence 1: the name "s\u200bafe" must be printable ASCII without blanks`,
			func(i *lmb.Image) { i.Sequences[1].Name = "s\u200bafe" }},
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
