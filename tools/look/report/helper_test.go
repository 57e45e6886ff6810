package report

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

const testdata = "../../../testdata"

// replayableImages are images that a mock of one board can replay.
var replayableImages = []string{"edu.lmb", "edu-factorial.lmb", "wh.twoop.lmb", "wh.mlp.lmb",
	"bh.twoop.lmb"}

// readImage returns the file of an image in testdata.
func readImage(t testing.TB, name string) []byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(testdata, "images", name))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func verify(t testing.TB, file []byte) *fbs.View { return lmbtest.View(t, file) }

func assemble(t testing.TB, text string) []byte { return lmbtest.File(t, text) }

func encode(t testing.TB, image *lmb.Image) []byte { return lmbtest.Encode(t, image) }

// edu is the header of a listing for the board edu, with a window r of BAR 0.
const edu = "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0 size 1MiB\n"

// recordingMock returns a mock of the image's first board that keeps a journal.
func recordingMock(view *fbs.View) *mock.Device {
	d := mock.New(boards.FindByID(view.Devices[0].Vendor, view.Devices[0].Device))
	d.Record(true)
	return d
}

// runSequence replays a sequence without a profiler.
func runSequence(t testing.TB, view *fbs.View, d hal.Device, sequence string) runtime.Result {
	t.Helper()
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, d)
	if err != nil {
		t.Fatal(err)
	}
	defer replay.Close()
	return replay.Run(view.SequenceByName(sequence))
}

// profileRuns replays a sequence with a profiler, and returns the profile and the result of the
// last run.
func profileRuns(t testing.TB, view *fbs.View, d hal.Device, sequence string, runs int) (*Profile,
	runtime.Result) {
	t.Helper()
	index := view.SequenceByName(sequence)
	p, err := NewProfiler(view, index, runtime.AnyTLBWindow, Clock{"virtual", true}, d)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Replay().Close()
	p.Calibrate()
	var result runtime.Result
	for range runs {
		result = p.Run(index, false)
	}
	return p.Profile(), result
}

// traceFile returns the file of a profile.
func traceFile(t testing.TB, p *Profile) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := p.WriteTrace(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// largeImage returns an image of about count commands: layers of writes, loads and copies to many
// tiles, and calls.
func largeImage(t testing.TB, count int) []byte {
	t.Helper()
	command := func(op gen.Opcode, mode uint8, at int) lmb.Command {
		return lmb.Command{Command: fbs.Command{
			Opcode: op, Mode: mode, Width: 4, Offset: uint32(at*2654435761) % (1 << 18) * 4,
			Value: uint64(at),
		}}
	}
	main := lmb.Sequence{Name: "main"}
	add := func(c lmb.Command) { main.Commands = append(main.Commands, c) }
	for i := 0; len(main.Commands) < count; i++ {
		if i%1000 == 0 {
			add(lmb.Command{Data: []byte("layer"),
				Command: fbs.Command{Opcode: lmb.OpcodeMark, Mode: uint8(gen.MarkKindBegin)}})
			add(lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeCall, Index: 1}})
			target := fbs.TileRoute{X: uint8(1 + i/1000%4), Y: uint8(1 + i/4000%5),
				Ordering: boards.OrderingDefault}
			add(lmb.Command{Command: fbs.Command{Opcode: gen.OpcodePoint, Mask: target.Pack()}})
		}
		switch {
		case i%16 == 5:
			c := command(gen.OpcodeExpect, uint8(gen.ConditionEqual), i)
			c.Option, c.Value = uint8(gen.PolicyFail), 0
			add(c)
		case i%1000 == 999:
			add(lmb.Command{Data: []byte("layer"),
				Command: fbs.Command{Opcode: lmb.OpcodeMark, Mode: uint8(gen.MarkKindEnd)}})
		default:
			add(command(gen.OpcodeWrite, 0, i))
		}
	}
	wormhole := &boards.Wormhole
	return encode(t, &lmb.Image{
		Devices: []lmb.Device{{Board: wormhole.Name, Vendor: wormhole.Vendor,
			Device: wormhole.Device, Bars: [6]uint64{0: 512 << 20}}},
		Windows: []lmb.Window{{Name: "w", Window: fbs.Window{Kind: gen.WindowKindTlb,
			Slot: fbs.AnySlot, Size: 1 << 20}}},
		Sequences: []lmb.Sequence{main, {Name: "callee", Commands: []lmb.Command{
			{Command: fbs.Command{Opcode: gen.OpcodeDelay, Amount: 3}},
		}}},
	})
}
