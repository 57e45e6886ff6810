//go:build world

package main

import (
	"math/rand/v2"
	"slices"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/simulate/images"
	"lightmetal/tools/image/lmb"
)

// plainWindows are of a device that nobody knows, hosting of host memory, and moving
// those that are aimed at tiles.
var (
	plainWindows = []lmb.Window{
		{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 0, Slot: fbs.NoSlot, Size: 8192 + 256}},
		{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Slot: fbs.NoSlot, Offset: 8,
			Size: 4096, Flags: fbs.FlagWriteCombining}},
		{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 0, Slot: fbs.NoSlot,
			Offset: 8192 + 256 + 3, Size: 4096}},
	}
	hosting = []lmb.Window{
		{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.NoSlot, Size: 5000}},
		{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.NoSlot, Size: 4096}},
	}
	moving = []lmb.Window{
		{Window: fbs.Window{Kind: gen.WindowKindTlb, Slot: fbs.NoSlot, Size: 1 << 20}},
		{Window: fbs.Window{Kind: gen.WindowKindTlb, Slot: fbs.NoSlot, Size: 2 << 20}},
		{Window: fbs.Window{Kind: gen.WindowKindTlb, Slot: fbs.NoSlot, Size: 1 << 16,
			Flags: fbs.FlagWriteCombining}},
	}
	// errandTargets are what images are for: something unknown, and two boards.
	errandTargets = []lmb.Device{
		{Board: "nothing known", Vendor: 1, Device: 2, Bars: [6]uint64{0: 16384, 2: 8192}},
		{Board: boards.Wormhole.Name, Vendor: 0x1e52, Device: 0x401e,
			Bars: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 20}},
		{Board: boards.Blackhole.Name, Vendor: 0x1e52, Device: 0xb140,
			Bars: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 30}},
	}
)

// registerAt is where a window's address is stored, behind what other commands
// reach.
const registerAt = 8192

// image makes one for a lane.
func (e *errand) image(lane string) *lmb.Image {
	random := e.random()
	m := images.Maker{Rand: random, Aim: images.Wild, Fails: 10 + random.IntN(100)}
	image := m.Empty()
	image.Devices, image.Windows, image.Rules = nil, nil, nil
	m.Aim = func(random *rand.Rand, window fbs.Window) (fbs.TileRoute, uint64) {
		target := &image.Devices[window.Device]
		board := boards.FindByID(target.Vendor, target.Device)
		t, address := images.WildOn(random, board, window)
		switch {
		case lane == "tt": // whose driver knows no channels
			t.StaticVCPlusOne = 0
		case board == &boards.Blackhole:
			t.StaticVCPlusOne = uint8(random.IntN(9))
		default:
			t.StaticVCPlusOne = uint8(random.IntN(2))
		}
		return t, address
	}
	for _, kind := range random.Perm(3)[:1+random.IntN(3)] {
		if lane == "tt" && kind == 0 {
			continue
		}
		e.target(image, kind, uint8(len(image.Devices)))
	}
	if len(image.Devices) == 0 {
		e.target(image, 1, 0)
	}
	m.Windows = image.Windows
	e.sequences(image, &m)
	return image
}

// target adds one, and its windows.
func (e *errand) target(image *lmb.Image, kind int, device uint8) {
	t := errandTargets[kind]
	if e.random().IntN(2) == 0 {
		t.Subsystem = 0x5678_1234
	}
	image.Devices = append(image.Devices, t)
	list := moving[:1+e.random().IntN(3)]
	if kind == 0 {
		list = plainWindows
		image.Rules = append(image.Rules, lmb.Rule{Name: "memory",
			AccessRule: fbs.AccessRule{Device: device, Last: 16383, Widths: 15, Memory: 1}},
			lmb.Rule{Name: "more", AccessRule: fbs.AccessRule{Device: device, Bar: 2, Last: 8191,
				Widths: 15,
				Memory: 1}})
	}
	list = append(slices.Clone(list), hosting[:e.random().IntN(3)]...)
	for _, w := range list {
		w.Device = device
		image.Windows = append(image.Windows, w)
	}
}

// sequences adds all that the runner knows.
func (e *errand) sequences(image *lmb.Image, m *images.Maker) {
	random := e.random()
	main := append(m.Points(), m.Command(gen.OpcodeCopyOut))
	for i, w := range image.Windows { // host memory is told to the first window of its device
		if w.Kind != gen.WindowKindHost {
			continue
		}
		first := slices.IndexFunc(image.Windows,
			func(other lmb.Window) bool { return other.Device == w.Device })
		main = append(main,
			lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeRelocate, Width: 8,
				Window: uint16(first), Offset: uint32(registerAt + 8*i), Index: uint16(i),
				Value: uint64(random.IntN(3)) * 8}})
	}
	main = append(main, m.Commands(1+random.IntN(60))...)
	if random.IntN(10) == 0 {
		main = append(main, m.Commands(600)...)
	}
	if random.IntN(2) == 0 {
		main = append(main,
			lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeDelay,
				Amount: 1 + random.Uint32N(3000)}})
	}
	images.Add(image, "main", append(main, m.Command(gen.OpcodeCopyOut)))
	images.Add(image, "callee", append(m.Points(), m.Command(gen.OpcodeWrite)))
	images.Add(image, "before", append(m.Points(), m.Command(gen.OpcodeWrite),
		m.Command(gen.OpcodeFill)))
	images.Add(image, "after", append(m.Points(), m.Command(gen.OpcodeWrite),
		m.Command(gen.OpcodeExpect)))
	if random.IntN(4) > 0 {
		images.Add(image, "safe", append(m.Points(), m.Command(gen.OpcodeWrite),
			m.Command(gen.OpcodeFill), m.Command(gen.OpcodeExpect)))
	}
	// lets a core run
	if at := slices.IndexFunc(image.Windows,
		func(w lmb.Window) bool { return w.Kind == gen.WindowKindTlb }); at >= 0 &&
		random.IntN(2) == 0 {
		size := image.Windows[at].Size
		let := fbs.TileRoute{X: uint8(1 + random.IntN(8)), Y: uint8(1 + random.IntN(8)),
			Ordering: boards.OrderingStrict}
		const reset = 0xffb121b0
		images.Add(image, "boot",
			[]lmb.Command{{Command: fbs.Command{Opcode: gen.OpcodePoint, Window: uint16(at),
				Value: reset &^ (size - 1), Mask: let.Pack()}},
				{Command: fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Window: uint16(at),
					Offset: uint32(reset & (size - 1))}}})
	}
}
