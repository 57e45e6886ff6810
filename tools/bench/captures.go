package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/bench/plain"
	"lightmetal/tools/importer"
	"lightmetal/tools/listing"
	"lightmetal/tools/lmb"
)

// captured are the recordings and listings whose commands are measured, with
// what their imports need: testdata/captures/README.md has more of them.
var captured = []struct {
	file    string // in testdata
	options importer.Options
	tensors string // inputs, then outputs behind a |
}{
	{"captures/edu.qemutrace", importer.Options{From: importer.FromQemu, Board: &boards.Edu, Region: "edu-mmio", Base: 0x10000000}, "|"},
	{"captures/wh.twoop.mmiotrace", importer.Options{From: importer.FromMmiotrace},
		"a=1,1,0x20000,int32,256 b=1,1,0x21000,int32,256|d=1,1,0x23000,int32,256"},
	{"captures/bh.twoop.mmiotrace", importer.Options{From: importer.FromMmiotrace},
		"a=1,2,0x20000,int32,256 b=1,2,0x21000,int32,256|d=1,2,0x23000,int32,256"},
	{"captures/wh.mlp.mmiotrace", importer.Options{From: importer.FromMmiotrace}, "x=1,1,0x20000,int8,64|y=1,1,0x25000,int32,10"},
	{"captures/wh.mlp4.record", importer.Options{From: importer.FromRecord}, "|"},
	{"captures/bh.mlp4.record", importer.Options{From: importer.FromRecord}, "|"},
	{"listings/nvme.lms", importer.Options{}, ""},
}

// captures measures the commands of real recordings on memory: whole, and bare,
// which leaves out what waits for the device's side of a fence. Each is repeated
// within one run, so that what a run costs beside its commands counts little.
func (b *bench) captures() error {
	for i := range captured {
		image, err := b.recorded(i)
		if err != nil {
			return err
		}
		name := filepath.Base(captured[i].file)
		for _, goal := range []struct {
			what string
			bare bool
			most float64
		}{{"whole", false, 1.5}, {"bare", true, 1.4}} {
			repeated, memory, err := quiet(repeatMain(image, goal.bare))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			count := float64(len(repeated.Sequences[0].Commands))
			if err := b.onMemory("capture", repeated, memory, func(p *pair, _ int64) error {
				r, err := b.besideBest("goals", name+", "+goal.what, 0, 1/count, p)
				if err == nil {
					b.add(r.atMost(*r.Ratio, goal.most, fmt.Sprintf("<= %.1f x best C", goal.most)))
				}
				return err
			}); err != nil {
				return fmt.Errorf("%s, %s: %w", name, goal.what, err)
			}
		}
	}
	return nil
}

// recorded is the image of a recording.
func (b *bench) recorded(i int) (*lmb.Image, error) {
	c := &captured[i]
	path := filepath.Join(b.testdata, c.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, ".lms") {
		return listing.Parse(path, text, nil)
	}
	options := c.options
	inputs, outputs, _ := strings.Cut(c.tensors, "|")
	for specs, list := range map[string]*[]importer.TensorSpec{inputs: &options.Inputs, outputs: &options.Outputs} {
		for _, spec := range strings.Fields(specs) {
			tensor, err := importer.ParseTensor(spec)
			if err != nil {
				return nil, err
			}
			*list = append(*list, tensor)
		}
	}
	image, _, err := importer.Import(bytes.NewReader(text), options)
	return image, err
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
		case c.Opcode == lmb.OpcodeMark, c.Opcode == gen.OpcodeDelay, bare && c.Opcode == gen.OpcodeFence:
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
	// No BAR is larger than what its windows show.
	repeated.Targets = append([]lmb.Target(nil), image.Targets...)
	for i := range repeated.Targets {
		repeated.Targets[i].Bars = [6]uint64{}
	}
	for _, w := range image.Windows {
		if w.Kind == gen.WindowKindBar {
			least := &repeated.Targets[w.Device].Bars[w.Bar]
			*least = max(*least, w.Offset+w.Size)
		}
	}
	return &repeated
}

// quiet makes every Check and Compare of an image hold on plain memory, however
// often it runs. It gives what the memory holds before each run.
func quiet(image *lmb.Image) (*lmb.Image, []byte, error) {
	file, err := lmb.Encode(image)
	if err != nil {
		return nil, nil, err
	}
	view, err := fbs.Verify(file)
	if err != nil {
		return nil, nil, err
	}
	memory := make([]byte, plain.Size(view))
	var apertures []hal.Aperture
	devices := plain.Devices(view, memory)
	for _, w := range view.Windows {
		a, err := devices[w.Device].Map(w)
		if err != nil {
			return nil, nil, err
		}
		apertures = append(apertures, a)
	}
	// What the first round leaves is what each further one begins with.
	for range 2 {
		for i := range image.Sequences[0].Commands {
			simulate(&image.Sequences[0].Commands[i], apertures, image.Tensors)
		}
	}
	return image, memory, nil
}

// simulate carries out one command and has it expect what it finds.
func simulate(c *lmb.Command, apertures []hal.Aperture, tensors []lmb.Tensor) {
	if int(c.Window) >= len(apertures) {
		return
	}
	a, offset := &apertures[c.Window], uint64(c.Offset)
	switch c.Opcode {
	case gen.OpcodeWrite:
		a.Store(uint32(offset), c.Width, c.Value)
	case gen.OpcodeAddress:
		a.Store(uint32(offset), c.Width, c.Value+apertures[c.Index].Bus)
	case gen.OpcodeChange:
		was, _ := a.Load(uint32(offset), c.Width)
		a.Store(uint32(offset), c.Width, c.Value|was&^c.Mask)
	case gen.OpcodeFill:
		for i := uint64(0); i < uint64(c.Amount); i += uint64(c.Width) {
			if a.Store(uint32(offset), c.Width, c.Value); gen.Access(c.Mode) != gen.AccessFixed {
				offset += uint64(c.Width)
			}
		}
	case gen.OpcodeCopyIn:
		data := c.Data
		if c.Index != 0 {
			data = tensors[c.Index-1].Data[c.Value:][:c.Amount]
		}
		a.Copy(gen.OpcodeCopyIn, offset, c.Width, gen.Access(c.Mode), data)
	case gen.OpcodeCheck:
		found, _ := a.Load(uint32(offset), c.Width)
		c.Mode, c.Value = uint8(gen.ConditionEqual), found&c.Mask
	case gen.OpcodeCompare:
		c.Data = bytes.Clone(c.Data)
		a.Copy(gen.OpcodeCopyOut, offset, c.Width, gen.AccessExact, c.Data)
	}
}
