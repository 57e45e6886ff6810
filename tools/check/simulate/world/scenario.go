//go:build world

package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/check/simulate/images"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/args"
)

// scenario contains the choices that a seed makes: an image, the options of the runner, and the
// faults.
type scenario struct {
	image        []byte
	generated    bool // the image was generated, not read from testdata
	hasMarks     bool // each sequence stores its number first; false for corrupted images
	options      args.Options
	inputCount   int
	inputIsPipe  bool
	inputsEnd    bool // the input ends after the last frame
	slowReader   bool // the reader of outputs is slow
	missingBytes int  // missing at the end of the last frame in a pipe
	ringVariant  int  // 1: the ring exists, but its writer has not finished it

	deviceFaults   []deviceFault
	events         []event
	callFailures   []callFailure
	failingMap     int // index of the window that cannot be mapped; -1: none
	busMasterFails bool
}

// deviceFault is a fault of one device of the image.
type deviceFault struct {
	device int
	fault
}

// The register in which each sequence first stores its number.
const markWindow, markOffset = 0, 8192 - 8

// mockTarget returns a target in memory that the mocks have.
func mockTarget(random *rand.Rand, window fbs.Window) (fbs.TileRoute, uint64) {
	tiles := [][2]uint8{{1, 1}, {2, 1}, {1, 2}}
	if window.Device == 2 {
		tiles = [][2]uint8{{1, 2}, {2, 2}, {1, 3}}
	}
	tile := tiles[random.IntN(len(tiles))]
	return fbs.TileRoute{X: tile[0], Y: tile[1], Ordering: boards.Ordering(1 + random.IntN(3))}, 0
}

// generatedImage returns an image with all sequences whose names the runner knows.
func generatedImage(random *rand.Rand) *lmb.Image {
	g := images.Generator{Rand: random, PickTarget: mockTarget, FailOdds: 20 + random.IntN(200)}
	image := g.ImageWithoutSequences()
	add := func(name string, commands []lmb.Command) {
		mark := lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeWrite, Width: 4,
			Window: markWindow, Offset: markOffset, Value: uint64(len(image.Sequences) + 1)}}
		images.AddSequence(image, name, append([]lmb.Command{mark}, commands...))
	}
	main := append(g.PointCommands(), g.RandomCommand(gen.OpcodeCopyOut))
	main = append(main, g.RandomCommands(1+random.IntN(60))...)
	if random.IntN(10) == 0 {
		main = append(main, g.RandomCommands(600)...)
	}
	if random.IntN(3) == 0 {
		main = append(main, lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeDelay,
			Amount: 1 + random.Uint32N(3000)}})
	}
	for i := range main { // polls long enough for longer pauses
		if c := &main[i]; c.Opcode == gen.OpcodeExpect && random.IntN(4) == 0 {
			c.Amount *= 500
		}
	}
	add("main", append(main, g.RandomCommand(gen.OpcodeCopyOut)))
	// A called sequence stores no number, because calling it begins no run.
	images.AddSequence(image, "callee", append(g.PointCommands(), g.RandomCommands(3)[0]))
	last := &image.Sequences[1].Commands[2]
	if last.Opcode == gen.OpcodeCall {
		*last = g.RandomCommand(gen.OpcodeWrite)
	}
	add("before", append(g.PointCommands(), g.RandomCommand(gen.OpcodeWrite)))
	add("after", append(g.PointCommands(), g.RandomCommand(gen.OpcodeWrite),
		g.RandomCommand(gen.OpcodeExpect)))
	if random.IntN(4) > 0 {
		add("safe", append(g.PointCommands(), g.RandomCommand(gen.OpcodeWrite),
			g.RandomCommand(gen.OpcodeFill), g.RandomCommand(gen.OpcodeExpect)))
	}
	if random.IntN(4) == 0 { // releases a core from reset, which the runner reports to the driver
		target := fbs.TileRoute{X: 1, Y: 1, Ordering: boards.OrderingStrict}
		add("boot", []lmb.Command{{Command: fbs.Command{Opcode: gen.OpcodePoint, Window: 5,
			Value: 0xffb00000, Mask: target.Pack()}},
			{Command: fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Window: 5, Offset: 0x121b0}}})
	}
	return image
}

// newScenario makes the choices of a world before it begins.
func newScenario(w *world) (s scenario, err error) {
	random := w.random
	s.options = args.Options{Sequence: "main", Image: w.path("image"), MaxSequenceNs: 3600e9,
		RunCount: 1, FirstTLBWindow: runtime.AnyTLBWindow, PrintJSON: random.IntN(2) == 0}
	s.failingMap = -1
	if random.IntN(20) == 0 && len(sampleImages) > 0 {
		s.image, err = os.ReadFile(sampleImages[random.IntN(len(sampleImages))])
	} else {
		s.generated, s.hasMarks = true, true
		s.image, err = lmb.Encode(generatedImage(random))
	}
	if err != nil {
		return s, err
	}
	if s.hasMarks {
		s.chooseStreams(w)
	}
	s.addFaults(random)
	if s.hasMarks && random.IntN(10) == 0 {
		s.corruptCommand(random)
	}
	return s, nil
}

// chooseStreams chooses the inputs and outputs, and the number of runs.
func (s *scenario) chooseStreams(w *world) {
	random, o := w.random, &s.options
	s.inputCount, s.inputsEnd = min(random.IntN(13), 1+random.IntN(100)), random.IntN(5) > 0
	binding := func(name, path string) args.Binding { return args.Binding{Name: name, Path: path} }
	o.RunCount = uint64(1 + random.IntN(5))
	switch random.IntN(4) {
	case 0:
		o.Inputs = []args.Binding{binding("in", "ring:"+w.path("in.ring"))}
	case 1:
		o.Inputs, s.inputIsPipe = []args.Binding{binding("in", w.path("in.pipe"))}, true
		if random.IntN(4) == 0 {
			s.missingBytes = random.IntN(images.TensorBytes)
		}
	case 2:
		o.Inputs = []args.Binding{binding("in", w.path("in"))}
	}
	if len(o.Inputs) > 0 && random.IntN(2) == 0 {
		o.RunCount = 0
	}
	switch random.IntN(4) {
	case 0, 1:
		o.Outputs = []args.Binding{binding("out", "ring:"+w.path("out.ring"))}
	case 2:
		o.Outputs = []args.Binding{binding("out", w.path("out")), binding("out", w.path("again"))}
	}
	s.ringVariant, s.slowReader = random.IntN(4), random.IntN(2) == 0
	for _, name := range []struct {
		to   *string
		name string
	}{{&o.SequenceBefore, "before"}, {&o.SequenceAfter, "after"}} {
		if random.IntN(2) == 0 {
			*name.to = name.name
		}
	}
	if random.IntN(3) == 0 {
		o.DeadlineNs = 1000 << random.IntN(14)
	}
	if random.IntN(4) == 0 {
		o.Watchdog = w.path("watchdog")
	}
}

// randomSmall returns a number from 1 to 1<<(bits-1). Small and large numbers are equally frequent.
func randomSmall(random *rand.Rand, bits int) int { return 1 + random.IntN(1<<random.IntN(bits)) }

// addFaults adds faults of devices, events of the host, and failures of system calls.
func (s *scenario) addFaults(random *rand.Rand) {
	for random.IntN(2) == 0 {
		f := fault{kind: byte(random.IntN(int(faultKinds))), first: randomSmall(random, 11),
			count: randomSmall(random, 8), bit: 1 << random.IntN(64)}
		s.deviceFaults = append(s.deviceFaults, deviceFault{random.IntN(3), f})
	}
	for s.hasMarks && random.IntN(3) == 0 {
		s.events = append(s.events, event{byte(random.IntN(int(eventKinds))),
			randomSmall(random, 12)})
	}
	for s.hasMarks && random.IntN(4) == 0 {
		f := possibleFailures[random.IntN(len(possibleFailures))]
		f.at, f.length = randomSmall(random, 5), randomSmall(random, 2)
		s.callFailures = append(s.callFailures, f)
	}
	if s.hasMarks && random.IntN(30) == 0 {
		s.failingMap = random.IntN(7)
	}
	s.busMasterFails = s.hasMarks && random.IntN(20) == 0
}

// corruptCommand changes a byte of a command. The checksum of the image stays valid.
func (s *scenario) corruptCommand(random *rand.Rand) {
	view, err := fbs.Verify(s.image)
	if err != nil {
		return
	}
	commands := len(view.Envelope) - 32*len(view.Commands)
	for at := 72; at < len(view.Envelope)-32; at += 4 {
		if s.image[at] == 1 && s.image[at+1] == 4 &&
			binary.LittleEndian.Uint32(s.image[at+8:]) == markOffset {
			commands = at
			break
		}
	}
	if random.IntN(3) == 0 {
		at := commands + 32*random.IntN(len(view.Commands))
		clear(s.image[at : at+32])
	}
	at := commands + random.IntN(min(32*len(view.Commands), len(view.Envelope)-commands))
	s.image[at] = []byte{s.image[at] ^ 1<<random.IntN(8), 0, byte(random.Uint32())}[random.IntN(3)]
	binary.LittleEndian.PutUint32(s.image[12:], fbs.EnvelopeChecksum(s.image[:len(view.Envelope)]))
	s.hasMarks, s.options = false, args.Options{Sequence: "main", Image: s.options.Image,
		MaxSequenceNs: 500e6, RunCount: 1, FirstTLBWindow: runtime.AnyTLBWindow}
	s.events, s.callFailures, s.failingMap, s.busMasterFails = nil, nil, -1, false
}

// sampleImages are the images of testdata that mocks execute in a short time.
var sampleImages, _ = filepath.Glob("testdata/images/edu*.lmb")

// buildDevices builds the mocks of an image's devices. The memory of a mock keeps its content when
// the process ends.
func (w *world) buildDevices() (list []hal.Device) {
	w.devices, w.busAddresses, w.windowByTLB = nil, nil, map[int]uint16{}
	for i := range w.view.Devices {
		board := w.view.Board(i)
		d := &device{w: w, index: i}
		if chips.ForBoard(board).Grid == nil && !w.generated {
			d.Device = mock.New(board)
		} else {
			for len(w.memories) <= i {
				w.memories = append(w.memories, &plainMemory{})
			}
			d.memory = w.memories[i]
			d.Device = mock.NewWith(board, d.memory)
		}
		for _, f := range w.deviceFaults {
			// a device without bus mastering
			cannotFail := w.generated && i == 2 && (f.kind == dmaFault || f.kind == busMasterOff)
			if (f.device == i || len(w.view.Devices) == 1) && !cannotFail {
				d.faults = append(d.faults, f.fault)
			}
		}
		w.devices = append(w.devices, d)
		if w.generated && i == 2 {
			list = append(list, d)
		} else {
			list = append(list, busMasterDevice{d})
		}
	}
	return list
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (f deviceFault) String() string {
	return fmt.Sprintf("device %d, from access %d for %d accesses: %s", f.device, f.first, f.count,
		[...]string{"bus error", "unplugged", "all ones", "wrong bit", "late", "stuck bit", "reset",
			"DMA fault", "bus mastering off"}[f.kind])
}
