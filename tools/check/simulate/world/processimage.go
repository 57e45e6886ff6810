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

// Windows of the images: genericWindows are BARs of a device without a board, hostWindows are host
// memory, and tlbWindows are TLB windows of a board.
var (
	genericWindows = []lmb.Window{
		{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 0, Slot: fbs.AnySlot, Size: 8192 + 256}},
		{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Slot: fbs.AnySlot, Offset: 8,
			Size: 4096, Flags: fbs.FlagWriteCombining}},
		{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 0, Slot: fbs.AnySlot,
			Offset: 8192 + 256 + 3, Size: 4096}},
	}
	hostWindows = []lmb.Window{
		{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.AnySlot, Size: 5000}},
		{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.AnySlot, Size: 4096}},
	}
	tlbWindows = []lmb.Window{
		{Window: fbs.Window{Kind: gen.WindowKindTlb, Slot: fbs.AnySlot, Size: 1 << 20}},
		{Window: fbs.Window{Kind: gen.WindowKindTlb, Slot: fbs.AnySlot, Size: 2 << 20}},
		{Window: fbs.Window{Kind: gen.WindowKindTlb, Slot: fbs.AnySlot, Size: 1 << 16,
			Flags: fbs.FlagWriteCombining}},
	}
	// imageDevices are the devices for which images are made: one without a known board, and two
	// boards.
	imageDevices = []lmb.Device{
		{Board: "nothing known", Vendor: 1, Device: 2, Bars: [6]uint64{0: 16384, 2: 8192}},
		{Board: boards.Wormhole.Name, Vendor: 0x1e52, Device: 0x401e,
			Bars: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 20}},
		{Board: boards.Blackhole.Name, Vendor: 0x1e52, Device: 0xb140,
			Bars: [6]uint64{0: 512 << 20, 2: 1 << 20, 4: 32 << 30}},
	}
)

// addressRegisters is the offset of the registers in which Relocate commands store addresses. Other
// commands do not reach this offset.
const addressRegisters = 8192

// randomImage returns a random image for a backend.
func (e *processRun) randomImage(backend string) *lmb.Image {
	random := e.random()
	g := images.Generator{Rand: random, PickTarget: images.RandomTarget,
		FailOdds: 10 + random.IntN(100)}
	image := g.ImageWithoutSequences()
	image.Devices, image.Windows, image.Rules = nil, nil, nil
	g.PickTarget = func(random *rand.Rand, window fbs.Window) (fbs.TileRoute, uint64) {
		target := &image.Devices[window.Device]
		board := boards.FindByID(target.Vendor, target.Device)
		t, address := images.RandomTargetOn(random, board, window)
		switch {
		case backend == "tt": // tt-kmd does not support static virtual channels
			t.StaticVCPlusOne = 0
		case board == &boards.Blackhole:
			t.StaticVCPlusOne = uint8(random.IntN(9))
		default:
			t.StaticVCPlusOne = uint8(random.IntN(2))
		}
		return t, address
	}
	for _, kind := range random.Perm(3)[:1+random.IntN(3)] {
		if backend == "tt" && kind == 0 {
			continue
		}
		e.addDevice(image, kind, uint8(len(image.Devices)))
	}
	if len(image.Devices) == 0 {
		e.addDevice(image, 1, 0)
	}
	g.Windows = image.Windows
	e.addSequences(image, &g)
	return image
}

// addDevice adds a device and its windows to an image.
func (e *processRun) addDevice(image *lmb.Image, kind int, device uint8) {
	t := imageDevices[kind]
	if e.random().IntN(2) == 0 {
		t.Subsystem = 0x5678_1234
	}
	image.Devices = append(image.Devices, t)
	windows := tlbWindows[:1+e.random().IntN(3)]
	if kind == 0 {
		windows = genericWindows
		image.Rules = append(image.Rules, lmb.Rule{Name: "memory",
			AccessRule: fbs.AccessRule{Device: device, Last: 16383, Widths: 15, Memory: 1}},
			lmb.Rule{Name: "more", AccessRule: fbs.AccessRule{Device: device, Bar: 2, Last: 8191,
				Widths: 15,
				Memory: 1}})
	}
	windows = append(slices.Clone(windows), hostWindows[:e.random().IntN(3)]...)
	for _, w := range windows {
		w.Device = device
		image.Windows = append(image.Windows, w)
	}
}

// addSequences adds all sequences whose names the runner knows.
func (e *processRun) addSequences(image *lmb.Image, g *images.Generator) {
	random := e.random()
	main := append(g.PointCommands(), g.RandomCommand(gen.OpcodeCopyOut))
	// Relocate commands store the addresses of host memory in the first window of the device.
	for i, w := range image.Windows {
		if w.Kind != gen.WindowKindHost {
			continue
		}
		first := slices.IndexFunc(image.Windows,
			func(other lmb.Window) bool { return other.Device == w.Device })
		main = append(main,
			lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeRelocate, Width: 8,
				Window: uint16(first), Offset: uint32(addressRegisters + 8*i), Index: uint16(i),
				Value: uint64(random.IntN(3)) * 8}})
	}
	main = append(main, g.RandomCommands(1+random.IntN(60))...)
	if random.IntN(10) == 0 {
		main = append(main, g.RandomCommands(600)...)
	}
	if random.IntN(2) == 0 {
		main = append(main,
			lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeDelay,
				Amount: 1 + random.Uint32N(3000)}})
	}
	images.AddSequence(image, "main", append(main, g.RandomCommand(gen.OpcodeCopyOut)))
	images.AddSequence(image, "callee", append(g.PointCommands(), g.RandomCommand(gen.OpcodeWrite)))
	images.AddSequence(image, "before", append(g.PointCommands(), g.RandomCommand(gen.OpcodeWrite),
		g.RandomCommand(gen.OpcodeFill)))
	images.AddSequence(image, "after", append(g.PointCommands(), g.RandomCommand(gen.OpcodeWrite),
		g.RandomCommand(gen.OpcodeExpect)))
	if random.IntN(4) > 0 {
		images.AddSequence(image, "safe",
			append(g.PointCommands(), g.RandomCommand(gen.OpcodeWrite),
				g.RandomCommand(gen.OpcodeFill), g.RandomCommand(gen.OpcodeExpect)))
	}
	// The sequence boot releases a core from reset.
	if at := slices.IndexFunc(image.Windows,
		func(w lmb.Window) bool { return w.Kind == gen.WindowKindTlb }); at >= 0 &&
		random.IntN(2) == 0 {
		size := image.Windows[at].Size
		target := fbs.TileRoute{X: uint8(1 + random.IntN(8)), Y: uint8(1 + random.IntN(8)),
			Ordering: boards.OrderingStrict}
		const reset = 0xffb121b0
		images.AddSequence(image, "boot",
			[]lmb.Command{{Command: fbs.Command{Opcode: gen.OpcodePoint, Window: uint16(at),
				Value: reset &^ (size - 1), Mask: target.Pack()}},
				{Command: fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Window: uint16(at),
					Offset: uint32(reset & (size - 1))}}})
	}
}
