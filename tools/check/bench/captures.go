package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/capture/importer"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/check/bench/plain"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// captured are the recordings and listings whose commands are measured, with
// what their imports need: testdata/captures/README.md has more of them.
var captured = []struct {
	file    string // in testdata
	options importer.Options
	tensors string // inputs, then outputs behind a |
}{
	{"captures/edu.qemutrace", importer.Options{From: importer.FromQemu, Board: &boards.Edu,
		Regions: []traces.Region{{Name: "edu-mmio", Base: 0x10000000}}}, "|"},
	{"captures/wh.twoop.mmiotrace", importer.Options{From: importer.FromMmiotrace},
		"a=1,1,0x20000,int32,256 b=1,1,0x21000,int32,256|d=1,1,0x23000,int32,256"},
	{"captures/bh.twoop.mmiotrace", importer.Options{From: importer.FromMmiotrace},
		"a=1,2,0x20000,int32,256 b=1,2,0x21000,int32,256|d=1,2,0x23000,int32,256"},
	{"captures/wh.mlp.mmiotrace", importer.Options{From: importer.FromMmiotrace},
		"x=1,1,0x20000,int8,64|y=1,1,0x25000,int32,10"},
	{"captures/wh.mlp4.record", importer.Options{From: importer.FromRecord}, "|"},
	{"captures/bh.mlp4.record", importer.Options{From: importer.FromRecord}, "|"},
	{"listings/nvme.lms", importer.Options{}, ""},
}

// captures measures the commands of real recordings on memory: whole, and bare,
// which leaves out what waits for the device's side of a fence. Each is repeated
// within one run, so that what a run costs beside its commands counts little.
func (b *bench) captures() {
	for i := range captured {
		image, name := b.recorded(i), filepath.Base(captured[i].file)
		for _, goal := range []struct {
			what string
			bare bool
			most float64
		}{{"whole", false, 1.5}, {"bare", true, 1.4}} {
			repeated := repeatMain(image, goal.bare)
			memory := quiet(repeated)
			count := float64(len(repeated.Sequences[0].Commands))
			b.onMemory("capture", repeated, memory, func(p *pair, _ int64) {
				r := b.besideBest("goals", name+", "+goal.what, 0, 1/count, p)
				b.add(r.atMost(*r.Ratio, goal.most, fmt.Sprintf("<= %.1f x best C", goal.most)))
			})
		}
	}
}

// recorded is the image of a recording.
func (b *bench) recorded(i int) *lmb.Image {
	c := &captured[i]
	path := filepath.Join(b.testdata, c.file)
	text := fail.Must(os.ReadFile(path))
	if strings.HasSuffix(path, ".lms") {
		return fail.Must(listing.Parse(path, text, nil))
	}
	options := c.options
	inputs, outputs, _ := strings.Cut(c.tensors, "|")
	for specs, list := range map[string]*[]importer.TensorSpec{inputs: &options.Inputs,
		outputs: &options.Outputs} {
		for _, spec := range strings.Fields(specs) {
			*list = append(*list, fail.Must(importer.ParseTensor(spec)))
		}
	}
	image, _, err := importer.Import(bytes.NewReader(text), options)
	fail.On(err)
	return image
}

// capturedCommands is how many commands a repeated recording has at least.
const capturedCommands = 2000

// flat is the commands of the first sequence, with those of others in place of
// their calls.
func flat(image *lmb.Image) (commands []lmb.Command) {
	for _, c := range image.Sequences[0].Commands {
		if c.Opcode == gen.OpcodeCall {
			commands = append(commands, image.Sequences[c.Index].Commands...)
			continue
		}
		commands = append(commands, c)
	}
	return commands
}

// repeatMain is an image of the first sequence alone, repeated. Delays are left
// out. What is bare has no Point but the first of each window, and no Fence.
func repeatMain(image *lmb.Image, bare bool) *lmb.Image {
	var first, each []lmb.Command
	pointed := map[uint16]bool{}
	for _, c := range flat(image) {
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
	for len(main.Commands) < capturedCommands {
		main.Commands = append(main.Commands, each...)
	}
	// Any TLB window of the right size will do.
	repeated.Windows = slices.Clone(image.Windows)
	for i := range repeated.Windows {
		repeated.Windows[i].Slot = fbs.NoSlot
	}
	// No BAR is larger than what its windows show.
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

// quiet makes every Check and Compare of an image hold on plain memory, however
// often it runs: a run that copies out what they look at says what that is. It gives
// what the memory holds before each run.
func quiet(image *lmb.Image) []byte {
	looking := *image
	commands, size := slices.Clone(image.Sequences[0].Commands), uint32(0)
	for i := range commands {
		if c := &commands[i]; looked(c) > 0 {
			*c = single(fbs.Command{Opcode: gen.OpcodeCopyOut, Mode: uint8(gen.AccessExact),
				Width: c.Width, Window: c.Window, Offset: c.Offset,
				Index: uint16(len(image.Tensors) + 1), Value: uint64(size), Amount: looked(c)})
			size += c.Amount
		}
	}
	looking.Sequences = []lmb.Sequence{{Name: "main", Commands: commands}}
	all := lmb.Tensor{Name: "looked at", Role: gen.RoleOutput, DType: gen.DTypeUint8,
		Shape: []uint32{size}}
	looking.Tensors = append(slices.Clone(image.Tensors), all)
	view := fail.Must(fbs.Verify(fail.Must(lmb.Encode(&looking))))
	memory := make([]byte, plain.Size(view))
	replay := fail.Must(runtime.Load(view, runtime.AnyTLBWindow, plain.Devices(view, memory)...))
	defer replay.Close()
	// What the first round leaves is what each further one begins with.
	for range 2 {
		if r := replay.Run(0); r.Code != hal.OK {
			fail.On(r.Code)
		}
	}
	found := replay.Output(len(image.Tensors))
	for i := range image.Sequences[0].Commands {
		c := &image.Sequences[0].Commands[i]
		data := found[:looked(c)]
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

// looked is how many bytes a command holds against something.
func looked(c *lmb.Command) uint32 {
	switch c.Opcode {
	case gen.OpcodeExpect:
		return uint32(c.Width)
	case gen.OpcodeCompare:
		return uint32(len(c.Data))
	}
	return 0
}
