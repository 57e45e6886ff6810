package mock_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

const listings = "../../testdata/listings/"

// rig is a listing of testdata, loaded on mocks that are on one bus.
type rig struct {
	*testing.T
	r       *runtime.Replay
	devices []*mock.Device
	nvme    *mock.Nvme // model of the first device, where it is one
}

func newRig(t *testing.T, name string) *rig {
	t.Helper()
	text, err := os.ReadFile(listings + name)
	if err != nil {
		t.Fatal(err)
	}
	return rigOf(t, name, string(text))
}

func rigOf(t *testing.T, name, text string) *rig {
	t.Helper()
	image, err := listing.Parse(name, []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{T: t}
	var devices []hal.Device
	for _, target := range view.Devices {
		d := mock.New(chips.BoardByName(view.Name(target.Board)))
		if view.Name(target.Board) == "nvme" {
			g.nvme = mock.NewNvme()
			d = mock.NewWith(&boards.Nvme, g.nvme)
		}
		g.devices, devices = append(g.devices, d), append(devices, d)
	}
	mock.Connect(g.devices...)
	if g.r, err = runtime.Load(view, runtime.AnyTLBWindow, devices...); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() { g.r.Close() })
	return g
}

func (g *rig) run(sequence string) runtime.Result {
	g.Helper()
	return g.r.Run(g.r.View().SequenceByName(sequence))
}

func (g *rig) runs(sequence string) {
	g.Helper()
	if result := g.run(sequence); result.Code != hal.OK || result.IgnoredFailures != 0 {
		g.Fatalf("%s ends with %+v: %s", sequence, result, g.devices[0].Refusal())
	}
}

func (g *rig) output(name string) []byte { return g.r.Output(g.r.View().TensorByName(name)) }

func TestListingsMoveRecordedAndNewData(t *testing.T) {
	for name, tensors := range map[string][2]string{"edu-dma.lms": {"data", "result"},
		"nvme.lms": {"blocks", "result"}, "nvme-p2p.lms": {"blocks", "result"}} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, name)
			g.runs("main")
			view := g.r.View()
			input := g.r.Input(view.TensorByName(tensors[0]))
			if got := g.output(tensors[1]); !bytes.Equal(got, input) ||
				!bytes.Equal(got, view.TensorData(&view.Tensors[view.TensorByName(tensors[1])])) {
				t.Errorf("%s: main returns other data than its input", name)
			}
			for i := range input {
				input[i] = byte(i * 13)
			}
			g.runs("transfer")
			if !bytes.Equal(g.output(tensors[1]), input) {
				t.Errorf("%s: transfer returns other data than its input", name)
			}
			if g.nvme != nil && !bytes.Equal(g.nvme.Disk()[:len(input)], input) {
				t.Errorf("%s: the disk holds other data", name)
			}
			if result := g.run("main"); result.Code != hal.CompareFailed || !result.SafeRan ||
				result.SafeSequenceCode != hal.OK {
				t.Errorf("%s: main with other data ends with %+v", name, result)
			}
		})
	}
}

// TestHostMemoryAndDeviceKeepTheOrderOfCommands: a transfer takes what was in host
// memory before it was started, and gives what is loaded after its poll; what is
// stored behind a fence after the poll comes too late for it.
func TestHostMemoryAndDeviceKeepTheOrderOfCommands(t *testing.T) {
	frame := func(value string) string {
		return "  write.4 from+0x0 " + value + "\n  write.4 to+0x0 0x0\n  fence\n" +
			"  write.8 r+0x80 bus(from)\n  write.8 r+0x88 0x40000\n  write.8 r+0x90 4\n" +
			"  write.8 r+0x98 0x1\n" +
			"  poll.8 r+0x98 & 0x1 == 0 within 1s every 100us\n  write.4 from+0x0 0x77\n  fence\n" +
			"  write.8 r+0x80 0x40000\n  write.8 r+0x88 bus(to)\n  write.8 r+0x90 4\n" +
			"  write.8 r+0x98 0x3\n" +
			"  poll.8 r+0x98 & 0x1 == 0 within 1s every 100us\n  fence\n  expect.4 to+0x0 == " +
			value + "\n"
	}
	g := rigOf(t, "order.lms",
		"lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0x0 size 1MiB\n"+
			"window from host size 4KiB\nwindow to host size 4KiB\nmain:\n"+
			frame("0x11")+frame("0x22")+frame("0x33"))
	g.runs("main")
}

// A frame leaves the queues as it found them, the phase among it.
func TestNvmeFramesRepeatWithoutLimit(t *testing.T) {
	for _, name := range []string{"nvme.lms", "nvme-p2p.lms"} {
		g := newRig(t, name)
		input := g.r.Input(g.r.View().TensorByName("blocks"))
		g.runs("init")
		for frame := range 20 {
			input[frame] = byte(frame + 1)
			g.runs("frame")
			if !bytes.Equal(g.output("result"), input) {
				t.Fatalf("%s: frame %d returns other data than its input", name, frame)
			}
		}
		if n := testing.AllocsPerRun(20, func() { g.runs("frame") }); n != 0 {
			t.Errorf("%s: %v allocations a frame", name, n)
		}
		g.runs("stop")
		g.runs("init") // and once more
		g.runs("frame")
		if result := g.run("init"); result.Code != hal.OK { // as after a kill
			t.Errorf("%s: init on a running controller ends with %+v", name, result)
		}
		g.runs("frame")
	}
}

// The two listings are one program.
func TestPeerToPeerListingDiffersInItsWindowsOnly(t *testing.T) {
	program := func(name string) string {
		text, err := os.ReadFile(listings + name)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, ok := strings.Cut(string(text), "\ntensor")
		if !ok {
			t.Fatalf("%s has no tensors", name)
		}
		return rest
	}
	if program("nvme.lms") != program("nvme-p2p.lms") {
		t.Error("nvme.lms and nvme-p2p.lms differ after their windows")
	}
}

// Whatever operation fails, the run ends there and leaves a controller that
// reaches for no memory; the next replay finds it usable.
func TestNvmeIsQuiescedAfterAFaultAtAnyOperation(t *testing.T) {
	text := nvmeListing(t)
	good := newRig(t, "nvme.lms")
	good.runs("main")
	operations := good.devices[0].Operations()
	if operations < 30 {
		t.Fatalf("%d operations", operations)
	}
	for n := 1; n <= operations; n++ {
		g := rigOf(t, "nvme.lms", text)
		g.devices[0].Inject(mock.Fault{Kind: mock.BusFault, Operation: n})
		result := g.run("main")
		if result.Code != hal.BusFault || !result.SafeRan || result.SafeSequenceCode != hal.OK {
			t.Errorf("bus fault at operation %d: %+v: %s", n, result, g.devices[0].Refusal())
		}
		if result := g.run("main"); result.Code != hal.Disabled {
			t.Errorf("bus fault at operation %d: then %+v", n, result)
		}
		g = rigOf(t, "nvme.lms", text)
		g.devices[0].Inject(mock.Fault{Kind: mock.AllOnes, Operation: n})
		if result := g.run("main"); result.Code != hal.DeviceGone && n < operations {
			t.Errorf("gone from operation %d on: %+v", n, result)
		}
	}
}

// nvmeListing is nvme.lms with short deadlines: 2 s are many loads of 100 ns.
func nvmeListing(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(listings + "nvme.lms")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), " within 2s", " within 1ms")
}

// Each mistake in the listing ends with a different code.
func TestNvmeMistakesEndWithDifferentCodes(t *testing.T) {
	text := nvmeListing(t)
	for _, m := range []struct {
		name, from, to string
		code           hal.Code
		got            uint64
	}{
		{"admin completions out of reach", "bus(acq)", "0x7010000000", hal.ExpectFailed, 2},
		{"admin submissions out of reach", "bus(asq)", "0x7010000000", hal.ExpectFailed, 2},
		{"data out of reach", "bus(data)+0x7000", "0x7010000000", hal.ExpectFailed,
			0x4<<17 | 1<<16 | 2},
		{"data misaligned", "bus(data)+0x7000", "bus(data)+0x7100", hal.ExpectFailed,
			0x13<<17 | 1<<16 | 2},
		{"blocks beyond the end", "0x10001 0x1 0 0 0 0 0 0 0 0 0 0 0x1f",
			"0x10001 0x1 0 0 0 0 0 0 0 0 0x7e1 0 0x1f", hal.ExpectFailed, 0x80<<17 | 1<<16 | 1},
		{"doorbell not rung", "regs+0x1008 1", "regs+0x1000 6", hal.DeadlinePassed, 0},
		{"doorbell of no queue", "regs+0x1008 1", "regs+0x1010 1", hal.Refused, 0},
		{"buffer too small", "window data host size 32KiB", "window data host size 28KiB", hal.OK,
			0},
	} {
		t.Run(m.name, func(t *testing.T) {
			wrong := strings.ReplaceAll(text, m.from, m.to)
			if wrong == text {
				t.Fatalf("%s: %q is not in the listing", m.name, m.from)
			}
			if m.code == hal.OK {
				if _, err := listing.Parse("nvme.lms", []byte(wrong), nil); err == nil {
					t.Errorf("%s: accepted", m.name)
				}
				return
			}
			g := rigOf(t, m.name, wrong)
			result := g.run("main")
			if result.Code != m.code || result.Got != m.got || result.SafeSequenceCode != hal.OK ||
				!result.SafeRan {
				t.Errorf("%s: %+v, want %v, got %#x", m.name, result, m.code, m.got)
			}
		})
	}
}
