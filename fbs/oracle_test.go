package fbs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/coverage/corpus"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/check/vectors/mutate"
	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

// randomImage returns an image with many similar commands in random order.
func randomImage(r *rand.Rand) *lmb.Image {
	image := sampleImage()
	image.Devices[0].Bars[2] = 1 << 20
	image.Windows = append(image.Windows,
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindBar, Slot: fbs.AnySlot,
			Offset: 0x1fc00000,
			Size:   0x400000}},
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Slot: fbs.AnySlot,
			Offset: 0x1000, Size: 0x2000}},
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindBar, Slot: fbs.AnySlot,
			Flags: fbs.FlagWriteCombining, Offset: 0x1e000000, Size: 0x1fe0000}},
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 4, Slot: fbs.AnySlot, Offset: 3,
			Size: 1001}})
	// Some images are short, and others have several blocks of commands.
	rounds := 1 + r.IntN(60)
	body := append(slices.Clone(image.Sequences[0].Commands[:14]),
		command(fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Window: 4, Offset: 0x7fc}),
		command(fbs.Command{Opcode: gen.OpcodeWrite, Width: 8, Window: 4, Offset: 0xa00}),
		command(fbs.Command{Opcode: gen.OpcodeFill, Width: 4, Mode: modeExact, Window: 4,
			Offset: 0x400, Amount: 0x400}),
		command(fbs.Command{Opcode: gen.OpcodeCopyOut, Width: 1, Mode: modeBulk, Window: 5,
			Index: 2, Offset: 3, Amount: 3}))
	var commands []lmb.Command
	commands = append(commands, body[5]) // the Point
	for range rounds {
		commands = append(commands, body[r.IntN(len(body))])
	}
	commands = append(commands, body[9], body[11])
	image.Sequences[0].Commands = append(commands, image.Sequences[0].Commands[14:]...)
	return image
}

// TestFastAndSlowVerifierAgree changes one to three commands of random images. Verify and the
// oracle must reject the same command or sequence, or accept the image and compute the same longest
// times.
func TestFastAndSlowVerifierAgree(t *testing.T) {
	rounds := effort.Cases(1_000, 40_000, 400_000)
	m := &mutate.Mutator{Rand: rand.New(rand.NewPCG(7, 11))}
	accepted := 0
	for round := range rounds / 20 {
		file := lmbtest.Encode(t, randomImage(m.Rand))
		for range 20 {
			changed := slices.Clone(file)
			view, err := fbs.Verify(changed)
			if err != nil {
				t.Fatal(err)
			}
			for range 1 + m.IntN(3) {
				m.ChangeCommand(view)
			}
			lmb.Stamp(changed, uint64(len(view.Envelope)))
			got, err := fbs.Verify(changed)
			place := ""
			if err != nil {
				place = err.(*fbs.Error).Place
			}
			want, fault := oracle.Verify(changed)
			switch {
			case fault == nil && err == nil:
				accepted++
				if !slices.Equal(got.WorstCaseUs, want.LongestUs) {
					t.Fatalf("round %d: sequences take %d us, the oracle computes %d", round,
						got.WorstCaseUs, want.LongestUs)
				}
			case fault == nil || err == nil || fault.Place != place:
				t.Fatalf("round %d: Verify returns %v, the oracle %v", round, err, fault)
			}
		}
	}
	t.Logf("evidence: %d changed images, %d of them still valid: both verifiers agree",
		rounds, accepted)
	if accepted < rounds/50 {
		t.Errorf("only %d of %d changed images are valid, want at least %d", accepted, rounds,
			rounds/50)
	}
}

// TestFastAndSlowVerifierAgreeOnNames puts random bytes and characters in a name. The slow verifier
// uses packages utf8 and unicode.
func TestFastAndSlowVerifierAgreeOnNames(t *testing.T) {
	image := sampleImage()
	image.Tensors[0].Name = strings.Repeat("n", 16)
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 5))
	accepted, rounds := 0, effort.Cases(2_000, 20_000, 20_000)
	name := view.NameBytes(view.Tensors[0].Name)
	for range rounds {
		copy(name, image.Tensors[0].Name)
		for n := range 1 + r.IntN(3) {
			random := []byte{byte(r.Uint32()), byte(r.Uint32())}
			if r.IntN(2) == 0 {
				random = utf8.AppendRune(nil, rune(r.Uint32N(unicode.MaxRune)>>r.IntN(20)))
			}
			copy(name[5*n:], random)
		}
		lmb.Stamp(file, uint64(len(view.Envelope)))
		_, err := fbs.Verify(file)
		want := utf8.Valid(name) && !bytes.ContainsFunc(name, oracle.IsHidden)
		if (err == nil) != want {
			t.Fatalf("name %q: Verify returns %v, the slow verifier accepts it: %v", name, err,
				want)
		}
		if want {
			accepted++
		}
	}
	if accepted < rounds/10 || accepted > rounds*9/10 {
		t.Errorf("%d of %d names are accepted, want a tenth to nine tenths", accepted, rounds)
	}
}

// imageWithSegments returns an image with segments of one page each, whose commands copy from them
// in random order.
func imageWithSegments(t testing.TB, segments, commands int) []byte {
	t.Helper()
	image := sampleImage()
	image.Tensors, image.Sequences = nil, []lmb.Sequence{{Name: "main"}}
	copyIn := lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 4, Mode: modeExact},
		Data: make([]byte, segments*fbs.SegmentAlign)}
	image.Sequences[0].Commands = make([]lmb.Command, commands)
	for i := range image.Sequences[0].Commands {
		image.Sequences[0].Commands[i] = lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}}
	}
	image.Sequences[0].Commands[0] = copyIn
	image.Windows[0].Size = 1 << 28
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	return splitSegment(t, file, segments)
}

// splitSegment splits the only segment of a file into several, and makes its commands copy from all
// of them.
func splitSegment(t testing.TB, file []byte, segments int) []byte {
	t.Helper()
	split := corpus.Cut(file, slices.Repeat([]int{1}, segments))
	root := gen.GetRootAsImage(split, 0)
	var c gen.Command
	r := rand.New(rand.NewPCG(1, 2))
	for i := range root.CommandsLength() - 1 {
		root.Commands(&c, i)
		c.MutateOpcode(gen.OpcodeCopyIn)
		c.MutateWidth(4)
		c.MutateMode(modeExact)
		c.MutateAmount(64)
		c.MutateOffset(uint32(i%1024) * 64)
		c.MutateValue(uint64(r.IntN(segments))*4096 + uint64(r.IntN(64))*64)
	}
	lmb.Stamp(split, binary.LittleEndian.Uint64(split[32:]))
	return split
}

// imageWithSequences returns an image with sequences of Write commands.
func imageWithSequences(t testing.TB, sequences, commands int) []byte {
	image := sampleImage()
	image.Tensors, image.Sequences = nil, nil
	for i := range sequences {
		s := lmb.Sequence{Name: fmt.Sprint("s", i)}
		for j := range commands {
			s.Commands = append(s.Commands,
				command(fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Offset: uint32(j%100) * 4,
					Value: uint64(j)}))
		}
		image.Sequences = append(image.Sequences, s)
	}
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// benchmarkVerify measures Verify of a valid file, and reports the time for each command.
func benchmarkVerify(b *testing.B, file []byte) {
	view, err := fbs.Verify(file)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		if _, err := fbs.Verify(file); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(view.Commands)),
		"ns/command")
}

func BenchmarkVerifySequences(b *testing.B) {
	benchmarkVerify(b, imageWithSequences(b, 4096, 244))
}

func BenchmarkVerifySegments(b *testing.B) {
	benchmarkVerify(b, imageWithSegments(b, 4096, 1_000_000))
}

// BenchmarkVerifyMixed has opcodes in random order, so that branch prediction fails.
func BenchmarkVerifyMixed(b *testing.B) {
	image := sampleImage()
	commands := &image.Sequences[0].Commands
	body, r := slices.Clone(*commands), rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		*commands = append(*commands, body[[]int{0, 1, 3, 4, 8}[r.IntN(5)]])
	}
	file, err := lmb.Encode(image)
	if err != nil {
		b.Fatal(err)
	}
	benchmarkVerify(b, file)
}
