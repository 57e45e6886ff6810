package mock_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
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
	"lightmetal/tools/image/lmb/lmbtest"
)

const listings = "../../testdata/listings/"

// replaySetup is a listing that is loaded on mocks on one bus.
type replaySetup struct {
	*testing.T
	view    *fbs.View
	replay  *runtime.Replay
	devices []*mock.Device
	nvme    *mock.Nvme // model of the NVMe device, or nil
}

func readListing(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(listings + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func loadListing(t *testing.T, name string) *replaySetup {
	t.Helper()
	return loadListingText(t, readListing(t, name))
}

// loadListingText assembles and verifies a listing, and loads it on a mock for each of its devices.
func loadListingText(t *testing.T, text string) *replaySetup {
	t.Helper()
	view := lmbtest.View(t, lmbtest.File(t, text))
	g := &replaySetup{T: t, view: view}
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
	var err error
	if g.replay, err = runtime.Load(view, runtime.AnyTLBWindow, devices...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.replay.Close() })
	return g
}

func (g *replaySetup) run(sequence string) runtime.Result {
	g.Helper()
	return g.replay.Run(g.view.SequenceByName(sequence))
}

func (g *replaySetup) mustRun(sequence string) {
	g.Helper()
	if result := g.run(sequence); result.Code != hal.OK || result.IgnoredFailures != 0 {
		g.Fatalf("%s ends with %+v: %s", sequence, result, g.devices[0].Refusal())
	}
}

func (g *replaySetup) output(name string) []byte {
	return g.replay.Output(g.view.TensorByName(name))
}

func TestListingsTransferDefaultAndNewInputs(t *testing.T) {
	for name, tensors := range map[string][2]string{"edu-dma.lms": {"data", "result"},
		"nvme.lms": {"blocks", "result"}, "nvme-p2p.lms": {"blocks", "result"}} {
		t.Run(name, func(t *testing.T) {
			g := loadListing(t, name)
			g.mustRun("main")
			view := g.view
			input := g.replay.Input(view.TensorByName(tensors[0]))
			if got := g.output(tensors[1]); !bytes.Equal(got, input) ||
				!bytes.Equal(got, view.TensorData(&view.Tensors[view.TensorByName(tensors[1])])) {
				t.Errorf("%s: the output of main differs from its input, or from the golden data",
					name)
			}
			for i := range input {
				input[i] = byte(i * 13)
			}
			g.mustRun("transfer")
			if !bytes.Equal(g.output(tensors[1]), input) {
				t.Errorf("%s: the output of transfer differs from its input", name)
			}
			if g.nvme != nil && !bytes.Equal(g.nvme.Disk()[:len(input)], input) {
				t.Errorf("%s: the disk has other data than the input of transfer", name)
			}
			if result := g.run("main"); result.Code != hal.CompareFailed || !result.SafeRan ||
				result.SafeSequenceCode != hal.OK {
				t.Errorf("%s: main with another input ends with %+v, want %v and a successful "+
					"safe sequence", name, result, hal.CompareFailed)
			}
		})
	}
}

// TestTransfersSeeHostMemoryInTheOrderOfCommands checks that a transfer reads the values that were
// in host memory when it started, and that a load after its poll returns the values that the
// transfer wrote. A store after the poll and the fence must not affect the transfer.
func TestTransfersSeeHostMemoryInTheOrderOfCommands(t *testing.T) {
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
	g := loadListingText(t,
		"lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0x0 size 1MiB\n"+
			"window from host size 4KiB\nwindow to host size 4KiB\nmain:\n"+
			frame("0x11")+frame("0x22")+frame("0x33"))
	g.mustRun("main")
}

// TestNvmeFramesRepeatWithoutLimit runs a sequence that must leave the queues unchanged, including
// their phase, so that it can run any number of times.
func TestNvmeFramesRepeatWithoutLimit(t *testing.T) {
	for _, name := range []string{"nvme.lms", "nvme-p2p.lms"} {
		g := loadListing(t, name)
		input := g.replay.Input(g.view.TensorByName("blocks"))
		g.mustRun("init")
		for frame := range 20 {
			input[frame] = byte(frame + 1)
			g.mustRun("frame")
			if !bytes.Equal(g.output("result"), input) {
				t.Fatalf("%s: the output of frame %d differs from its input", name, frame)
			}
		}
		if n := testing.AllocsPerRun(20, func() { g.mustRun("frame") }); n != 0 {
			t.Errorf("%s: %v allocations in a frame, want 0", name, n)
		}
		g.mustRun("stop")
		g.mustRun("init") // repeat after stop
		g.mustRun("frame")
		// As if the process was killed: init without stop.
		if result := g.run("init"); result.Code != hal.OK {
			t.Errorf("%s: init on a running controller ends with %+v", name, result)
		}
		g.mustRun("frame")
	}
}

// TestNvmeSequencesShareARingInAnyOrder writes and reads random pages by two sequences in random
// order. The queues wrap hundreds of times, in both sequences.
func TestNvmeSequencesShareARingInAnyOrder(t *testing.T) {
	g := loadListing(t, "nvme-rings.lms")
	if result := g.run("write"); result.Code != hal.RingUnset || result.SafeRan {
		t.Errorf("write before init ends with %+v, want %v", result, hal.RingUnset)
	}
	g.mustRun("init")
	const pages, blocks = 32, 8
	random := rand.New(rand.NewPCG(5, 6))
	var want [pages][blocks * 512]byte
	input := func(name string) []byte { return g.replay.Input(g.view.TensorByName(name)) }
	for n := range 2000 {
		page := random.IntN(pages)
		if random.IntN(2) == 0 {
			binary.LittleEndian.PutUint32(input("to"), uint32(page*blocks))
			for i := range want[page] {
				want[page][i] = byte(random.Uint32())
			}
			copy(input("blocks"), want[page][:])
			g.mustRun("write")
			continue
		}
		binary.LittleEndian.PutUint32(input("from"), uint32(page*blocks))
		g.mustRun("read")
		if !bytes.Equal(g.output("result"), want[page][:]) {
			t.Fatalf("command %d reads other data than were written to page %d", n, page)
		}
	}
	for page := range want {
		if got := g.nvme.Disk()[page*len(want[page]):]; !bytes.HasPrefix(got, want[page][:]) {
			t.Errorf("the disk has other data in page %d", page)
		}
	}
	g.mustRun("stop")
}

// The listings nvme.lms and nvme-p2p.lms have the same tensors and sequences.
func TestPeerToPeerListingDiffersInItsWindowsOnly(t *testing.T) {
	program := func(name string) string {
		_, rest, ok := strings.Cut(readListing(t, name), "\ntensor")
		if !ok {
			t.Fatalf("%s declares no tensor", name)
		}
		return rest
	}
	if program("nvme.lms") != program("nvme-p2p.lms") {
		t.Error("nvme.lms and nvme-p2p.lms differ after their windows")
	}
}

// TestNvmeIsQuiescedAfterAFaultAtAnyOperation makes each operation of a run fail in turn. The run
// must end there, and its safe sequence must stop the controller's accesses to host memory.
func TestNvmeIsQuiescedAfterAFaultAtAnyOperation(t *testing.T) {
	text := readNvmeListing(t)
	good := loadListing(t, "nvme.lms")
	good.mustRun("main")
	operations := good.devices[0].Operations()
	if operations < 30 {
		t.Fatalf("main makes only %d operations, want at least 30", operations)
	}
	for n := 1; n <= operations; n++ {
		g := loadListingText(t, text)
		g.devices[0].Inject(mock.Fault{Kind: mock.BusFault, Operation: n})
		result := g.run("main")
		if result.Code != hal.BusFault || !result.SafeRan || result.SafeSequenceCode != hal.OK {
			t.Errorf("bus fault at operation %d: %+v: %s", n, result, g.devices[0].Refusal())
		}
		if result := g.run("main"); result.Code != hal.Disabled {
			t.Errorf("bus fault at operation %d: the next run ends with %+v, want %v", n, result,
				hal.Disabled)
		}
		g = loadListingText(t, text)
		g.devices[0].Inject(mock.Fault{Kind: mock.AllOnes, Operation: n})
		if result := g.run("main"); result.Code != hal.DeviceGone && n < operations {
			t.Errorf("device gone from operation %d on: %+v, want %v", n, result, hal.DeviceGone)
		}
	}
}

// readNvmeListing returns nvme.lms with short deadlines, because a poll of 2 s is many loads of
// 100 ns.
func readNvmeListing(t *testing.T) string {
	t.Helper()
	return strings.ReplaceAll(readListing(t, "nvme.lms"), " within 2s", " within 1ms")
}

// TestNvmeMistakesAreDetected changes nvme.lms. Each mistake must end the run with its code and
// loaded value, or must make listing.Parse fail.
func TestNvmeMistakesAreDetected(t *testing.T) {
	text := readNvmeListing(t)
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
				t.Fatalf("%s: the listing does not contain %q", m.name, m.from)
			}
			if m.code == hal.OK {
				if _, err := listing.Parse("nvme.lms", []byte(wrong), nil); err == nil {
					t.Errorf("%s: listing.Parse accepts the listing", m.name)
				}
				return
			}
			g := loadListingText(t, wrong)
			result := g.run("main")
			if result.Code != m.code || result.Got != m.got || result.SafeSequenceCode != hal.OK ||
				!result.SafeRan {
				t.Errorf("%s: %+v, want %v, loaded value %#x, and a successful safe sequence",
					m.name, result, m.code, m.got)
			}
		})
	}
}
