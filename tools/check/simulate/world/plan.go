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

// fate is what a seed decides: an image, how the runner is called, and what goes
// wrong.
type fate struct {
	image   []byte
	ours    bool // the image is made here
	marked  bool // and not spoilt: its sequences begin with their number
	options args.Options
	inputs  int
	piped   bool
	closes  bool // inputs end
	slow    bool // who reads results
	cuts    int  // bytes that a pipe's last frame lacks
	ring    int  // 1: one was begun and is not finished

	faults      []faultOf
	events      []event
	calls       []syscallFault
	mapFails    int
	masterFails bool
}

type faultOf struct {
	device int
	fault
}

// Where each sequence stores its number first.
const markWindow, markOffset = 0, 8192 - 8

// tame aims a window at memory that the mocks have.
func tame(random *rand.Rand, window fbs.Window) (fbs.TileRoute, uint64) {
	tiles := [][2]uint8{{1, 1}, {2, 1}, {1, 2}}
	if window.Device == 2 {
		tiles = [][2]uint8{{1, 2}, {2, 2}, {1, 3}}
	}
	tile := tiles[random.IntN(len(tiles))]
	return fbs.TileRoute{X: tile[0], Y: tile[1], Ordering: boards.Ordering(1 + random.IntN(3))}, 0
}

// ourImage is one with every kind of sequence that the runner knows.
func ourImage(random *rand.Rand) *lmb.Image {
	m := images.Maker{Rand: random, Aim: tame, Fails: 20 + random.IntN(200)}
	image := m.Empty()
	add := func(name string, commands []lmb.Command) {
		mark := lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeWrite, Width: 4,
			Window: markWindow, Offset: markOffset, Value: uint64(len(image.Sequences) + 1)}}
		images.Add(image, name, append([]lmb.Command{mark}, commands...))
	}
	main := append(m.Points(), m.Command(gen.OpcodeCopyOut))
	main = append(main, m.Commands(1+random.IntN(60))...)
	if random.IntN(10) == 0 {
		main = append(main, m.Commands(600)...)
	}
	if random.IntN(3) == 0 {
		main = append(main,
			lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeDelay,
				Amount: 1 + random.Uint32N(3000)}})
	}
	for i := range main { // long enough to look less often
		if c := &main[i]; c.Opcode == gen.OpcodeExpect && random.IntN(4) == 0 {
			c.Amount *= 500
		}
	}
	add("main", append(main, m.Command(gen.OpcodeCopyOut)))
	// What is called has no number of its own: it is no run.
	images.Add(image, "callee", append(m.Points(), m.Commands(3)[0]))
	last := &image.Sequences[1].Commands[2]
	if last.Opcode == gen.OpcodeCall {
		*last = m.Command(gen.OpcodeWrite)
	}
	add("before", append(m.Points(), m.Command(gen.OpcodeWrite)))
	add("after", append(m.Points(), m.Command(gen.OpcodeWrite), m.Command(gen.OpcodeExpect)))
	if random.IntN(4) > 0 {
		add("safe", append(m.Points(), m.Command(gen.OpcodeWrite), m.Command(gen.OpcodeFill),
			m.Command(gen.OpcodeExpect)))
	}
	if random.IntN(4) == 0 { // lets a core run, which a driver is told of
		let := fbs.TileRoute{X: 1, Y: 1, Ordering: boards.OrderingStrict}
		add("boot", []lmb.Command{{Command: fbs.Command{Opcode: gen.OpcodePoint, Window: 5,
			Value: 0xffb00000, Mask: let.Pack()}},
			{Command: fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Window: 5, Offset: 0x121b0}}})
	}
	return image
}

// newFate decides everything but what happens by chance on the way.
func newFate(w *world) (p fate, err error) {
	random := w.random
	p.options = args.Options{Sequence: "main", Image: w.file("image"), Longest: 3600e9, Loop: 1,
		Window: runtime.AnyTLBWindow, JSON: random.IntN(2) == 0}
	p.mapFails = -1
	if random.IntN(20) == 0 && len(samples) > 0 {
		p.image, err = os.ReadFile(samples[random.IntN(len(samples))])
	} else {
		p.ours, p.marked = true, true
		p.image, err = lmb.Encode(ourImage(random))
	}
	if err != nil {
		return p, err
	}
	if p.marked {
		p.frame(w)
	}
	p.misfortune(random)
	if p.marked && random.IntN(10) == 0 {
		p.spoil(random)
	}
	return p, nil
}

// frame decides where data come from and go to, and how often.
func (p *fate) frame(w *world) {
	random, o := w.random, &p.options
	p.inputs, p.closes = min(random.IntN(13), 1+random.IntN(100)), random.IntN(5) > 0
	binding := func(name, path string) args.Binding { return args.Binding{Name: name, Path: path} }
	o.Loop = uint64(1 + random.IntN(5))
	switch random.IntN(4) {
	case 0:
		o.Inputs = []args.Binding{binding("in", "ring:"+w.file("in.ring"))}
	case 1:
		o.Inputs, p.piped = []args.Binding{binding("in", w.file("in.pipe"))}, true
		if random.IntN(4) == 0 {
			p.cuts = random.IntN(images.TensorBytes)
		}
	case 2:
		o.Inputs = []args.Binding{binding("in", w.file("in"))}
	}
	if len(o.Inputs) > 0 && random.IntN(2) == 0 {
		o.Loop = 0
	}
	switch random.IntN(4) {
	case 0, 1:
		o.Outputs = []args.Binding{binding("out", "ring:"+w.file("out.ring"))}
	case 2:
		o.Outputs = []args.Binding{binding("out", w.file("out")), binding("out", w.file("again"))}
	}
	p.ring, p.slow = random.IntN(4), random.IntN(2) == 0
	for _, name := range []struct {
		to   *string
		name string
	}{{&o.Before, "before"}, {&o.After, "after"}} {
		if random.IntN(2) == 0 {
			*name.to = name.name
		}
	}
	if random.IntN(3) == 0 {
		o.Deadline = 1000 << random.IntN(14)
	}
	if random.IntN(4) == 0 {
		o.Watchdog = w.file("watchdog")
	}
}

// soon is a number that is small as often as it is large.
func soon(random *rand.Rand, bits int) int { return 1 + random.IntN(1<<random.IntN(bits)) }

func (p *fate) misfortune(random *rand.Rand) {
	for random.IntN(2) == 0 {
		f := fault{kind: byte(random.IntN(int(faultKinds))), at: soon(random, 11),
			length: soon(random, 8), bit: 1 << random.IntN(64)}
		p.faults = append(p.faults, faultOf{random.IntN(3), f})
	}
	for p.marked && random.IntN(3) == 0 {
		p.events = append(p.events, event{byte(random.IntN(int(eventKinds))), soon(random, 12)})
	}
	for p.marked && random.IntN(4) == 0 {
		f := failable[random.IntN(len(failable))]
		f.at, f.length = soon(random, 5), soon(random, 2)
		p.calls = append(p.calls, f)
	}
	if p.marked && random.IntN(30) == 0 {
		p.mapFails = random.IntN(7)
	}
	p.masterFails = p.marked && random.IntN(20) == 0
}

// spoil changes a byte of a command; what says that it is whole is right.
func (p *fate) spoil(random *rand.Rand) {
	view, err := fbs.Verify(p.image)
	if err != nil {
		return
	}
	commands := len(view.Envelope) - 32*len(view.Commands)
	for at := 72; at < len(view.Envelope)-32; at += 4 {
		if p.image[at] == 1 && p.image[at+1] == 4 &&
			binary.LittleEndian.Uint32(p.image[at+8:]) == markOffset {
			commands = at
			break
		}
	}
	if random.IntN(3) == 0 {
		at := commands + 32*random.IntN(len(view.Commands))
		clear(p.image[at : at+32])
	}
	at := commands + random.IntN(min(32*len(view.Commands), len(view.Envelope)-commands))
	p.image[at] = []byte{p.image[at] ^ 1<<random.IntN(8), 0, byte(random.Uint32())}[random.IntN(3)]
	binary.LittleEndian.PutUint32(p.image[12:], fbs.EnvelopeChecksum(p.image[:len(view.Envelope)]))
	p.marked, p.options = false, args.Options{Sequence: "main", Image: p.options.Image,
		Longest: 500e6, Loop: 1, Window: runtime.AnyTLBWindow}
	p.events, p.calls, p.mapFails, p.masterFails = nil, nil, -1, false
}

// samples are images of testdata: those that stand-ins carry out in little time.
var samples, _ = filepath.Glob("testdata/images/edu*.lmb")

// build makes the devices of an image anew. Memory outlives a process.
func (w *world) build() (list []hal.Device) {
	w.devices, w.buses, w.slots = nil, nil, map[int]uint16{}
	for i := range w.view.Devices {
		board := w.view.Board(i)
		d := &device{w: w, index: i}
		if chips.Of(board).Grid == nil && !w.ours {
			d.Device = mock.New(board)
		} else {
			for len(w.memories) <= i {
				w.memories = append(w.memories, &memory{})
			}
			d.memory = w.memories[i]
			d.Device = mock.NewWith(board, d.memory)
		}
		for _, f := range w.faults {
			// it is no master
			lacks := w.ours && i == 2 && (f.kind == lostDMA || f.kind == noMaster)
			if (f.device == i || len(w.view.Devices) == 1) && !lacks {
				d.faults = append(d.faults, f.fault)
			}
		}
		w.devices = append(w.devices, d)
		if w.ours && i == 2 {
			list = append(list, d)
		} else {
			list = append(list, mastering{d})
		}
	}
	return list
}

func (w *world) file(name string) string { return filepath.Join(w.dir, name) }

func (f faultOf) String() string {
	return fmt.Sprintf("device %d, access %d, for %d: %s", f.device, f.at, f.length,
		[...]string{"bus error", "unplugged", "all ones", "wrong bit", "late", "stuck bit", "reset",
			"DMA lost", "no master"}[f.kind])
}
