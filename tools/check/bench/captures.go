package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/capture/importer"
	"lightmetal/tools/check/bench/plain"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// recordings are the images, recordings and listings of testdata whose commands are measured.
// testdata/captures/README.md describes what was recorded.
var recordings = []string{
	"images/edu.lmb",
	"images/wh.twoop.lmb",
	"images/bh.twoop.lmb",
	"images/wh.mlp.lmb",
	"captures/wh.mlp4.record",
	"captures/bh.mlp4.record",
	// 42 % of its commands are Points: a user of tt-umd polls two tiles in turn.
	"captures/wh.frames.record.gz",
	"listings/nvme.lms",
}

// measureCaptures measures the commands of real recordings on memory. Each recording is measured
// completely and bare: without fences and repeated Point commands, which wait for the device. One
// run repeats the commands of a recording, so that the fixed costs of a run count little.
func (b *bench) measureCaptures() {
	for _, path := range recordings {
		image, name := b.readRecording(path), filepath.Base(path)
		for _, kind := range []struct {
			name     string
			bare     bool
			maxRatio float64
		}{{"whole", false, 1.1}, {"bare", true, 1.2}} {
			repeated := repeatMain(image, kind.bare)
			memory := makeChecksPass(repeated)
			b.compareRuns(comparison{what: name + ", " + kind.name, unit: "ns",
				goal: goal{ratioAtMost, kind.maxRatio}},
				repeated, memory, perCommand(len(repeated.Sequences[0].Commands)))
		}
	}
}

// readRecording returns the image of a path in testdata.
func (b *bench) readRecording(path string) *lmb.Image {
	text := fail.Must(os.ReadFile(filepath.Join(b.testdata, path)))
	switch filepath.Ext(path) {
	case ".lmb":
		return fail.Must(lmb.Decode(text))
	case ".lms":
		return fail.Must(listing.Parse(path, text, nil))
	}
	image, _, err := importer.Import(bytes.NewReader(text),
		importer.Options{From: importer.FromRecord})
	fail.On(err)
	return image
}

// minRepeatedCommands is the least number of commands of a repeated recording.
const minRepeatedCommands = 2000

// inlineCalls returns the commands of the first sequence, with each call replaced by the commands
// of the called sequence.
func inlineCalls(image *lmb.Image) (commands []lmb.Command) {
	for _, c := range image.Sequences[0].Commands {
		if c.Opcode == gen.OpcodeCall {
			commands = append(commands, image.Sequences[c.Index].Commands...)
			continue
		}
		commands = append(commands, c)
	}
	return commands
}

// repeatMain returns an image with the first sequence alone, whose commands are repeated without
// delays. If bare is true, only the first Point of each window remains, and no Fence.
func repeatMain(image *lmb.Image, bare bool) *lmb.Image {
	var first, each []lmb.Command
	pointed := map[uint16]bool{}
	for _, c := range inlineCalls(image) {
		switch {
		case c.Opcode == lmb.OpcodeMark, c.Opcode == gen.OpcodeDelay, bare &&
			c.Opcode == gen.OpcodeFence:
		case bare && c.Opcode == gen.OpcodePoint:
			if !pointed[c.Window] {
				first = append(first, c)
			}
			pointed[c.Window] = true
		default:
			each = append(each, c)
		}
	}
	repeated := *image
	repeated.Sequences = []lmb.Sequence{{Name: "main", Commands: first}}
	main := &repeated.Sequences[0]
	for len(main.Commands) < minRepeatedCommands {
		main.Commands = append(main.Commands, each...)
	}
	// Any TLB window of the right size will do.
	repeated.Windows = slices.Clone(image.Windows)
	for i := range repeated.Windows {
		repeated.Windows[i].Slot = fbs.AnySlot
	}
	// A BAR need not be larger than its windows.
	repeated.Devices = append([]lmb.Device(nil), image.Devices...)
	for i := range repeated.Devices {
		repeated.Devices[i].Bars = [6]uint64{}
	}
	for _, w := range image.Windows {
		if w.Kind == gen.WindowKindBar {
			least := &repeated.Devices[w.Device].Bars[w.Bar]
			*least = max(*least, w.Offset+w.Size)
		}
	}
	return &repeated
}

// makeChecksPass changes the expected values of an image, so that every Expect and Compare passes
// on plain memory, however often the image runs. It gets the values from a run that copies out the
// checked bytes. It returns the contents of the memory that each run must begin with.
func makeChecksPass(image *lmb.Image) []byte {
	copying := *image
	commands, size := slices.Clone(image.Sequences[0].Commands), uint32(0)
	for i := range commands {
		if c := &commands[i]; checkedBytes(c) > 0 {
			*c = withoutData(fbs.Command{Opcode: gen.OpcodeCopyOut, Mode: uint8(gen.AccessExact),
				Width: c.Width, Window: c.Window, Offset: c.Offset,
				Index: uint16(len(image.Tensors) + 1), Value: uint64(size),
				Amount: checkedBytes(c)})
			size += c.Amount
		}
	}
	copying.Sequences = []lmb.Sequence{{Name: "main", Commands: commands}}
	all := lmb.Tensor{Name: "looked at", Role: gen.RoleOutput, DType: gen.DTypeUint8,
		Shape: []uint32{size}}
	copying.Tensors = append(slices.Clone(image.Tensors), all)
	view := fail.Must(fbs.Verify(fail.Must(lmb.Encode(&copying))))
	memory := make([]byte, plain.Size(view))
	replay := fail.Must(runtime.Load(view, runtime.AnyTLBWindow, plain.Devices(view, memory)...))
	defer replay.Close()
	// The second run begins with the memory that the first one has left, as every further run does.
	for range 2 {
		if r := replay.Run(0); r.Code != hal.OK {
			fail.On(r.Code)
		}
	}
	found := replay.Output(len(image.Tensors))
	for i := range image.Sequences[0].Commands {
		c := &image.Sequences[0].Commands[i]
		data := found[:checkedBytes(c)]
		found = found[len(data):]
		switch c.Opcode {
		case gen.OpcodeExpect:
			var word [8]byte
			copy(word[:], data)
			c.Mode, c.Value = uint8(gen.ConditionEqual), binary.LittleEndian.Uint64(word[:])&c.Mask
		case gen.OpcodeCompare:
			c.Data = bytes.Clone(data)
		}
	}
	return memory
}

// checkedBytes returns the number of bytes that a command compares with expected values.
func checkedBytes(c *lmb.Command) uint32 {
	switch c.Opcode {
	case gen.OpcodeExpect:
		return uint32(c.Width)
	case gen.OpcodeCompare:
		return uint32(len(c.Data))
	}
	return 0
}
