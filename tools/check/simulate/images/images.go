// Package images generates valid images with random commands, for tests that execute them in
// several implementations, or on devices and hosts that fail.
package images

import (
	"math/rand/v2"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// defaultWindows are the windows of all images that do not set Generator.Windows: three ranges of
// two BARs, one of which begins at an unaligned offset, host memory, and two TLB windows.
var defaultWindows = []lmb.Window{
	{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 0, Slot: fbs.AnySlot, Size: 8192}},
	{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Slot: fbs.AnySlot, Offset: 8, Size: 4096,
		Flags: fbs.FlagWriteCombining}},
	{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.AnySlot, Size: 5000}},
	{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.AnySlot, Size: 4096}},
	{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 0, Slot: fbs.AnySlot, Offset: unalignedOffset,
		Size: 4096}},
	{Window: fbs.Window{Kind: gen.WindowKindTlb, Device: 1, Slot: fbs.AnySlot, Size: 1 << 20}},
	{Window: fbs.Window{Kind: gen.WindowKindTlb, Device: 2, Slot: fbs.AnySlot, Size: 2 << 20}},
}

const (
	unalignedOffset = 3
	firstTLBWindow  = 5

	// TensorBytes is the size of each tensor.
	TensorBytes = 512
)

// Generator generates random images and commands.
type Generator struct {
	*rand.Rand
	// PickTarget returns a target for a Point command.
	PickTarget func(random *rand.Rand, window fbs.Window) (target fbs.TileRoute, address uint64)
	// FailOdds is n if one in n Expect or Compare commands ends the run when it fails.
	FailOdds int

	// Windows replaces defaultWindows if it is not nil. Then no Relocate commands are generated.
	Windows []lmb.Window
}

func (g *Generator) windowList() []lmb.Window {
	if g.Windows == nil {
		return defaultWindows
	}
	return g.Windows
}

// tlbWindows returns the indexes of the TLB windows.
func (g *Generator) tlbWindows() (list []uint16) {
	for i, w := range g.windowList() {
		if w.Kind == gen.WindowKindTlb {
			list = append(list, uint16(i))
		}
	}
	return list
}

// RandomTarget returns a random target for a Point command, for a window of an image that
// ImageWithoutSequences returned. It returns no target in a range that is forbidden to images.
func RandomTarget(random *rand.Rand, window fbs.Window) (t fbs.TileRoute, address uint64) {
	if window.Device > 1 {
		return RandomTargetOn(random, &boards.Blackhole, window)
	}
	return RandomTargetOn(random, &boards.Wormhole, window)
}

// RandomTargetOn returns a random target on a board that is in no range forbidden to images.
func RandomTargetOn(random *rand.Rand, board *boards.Board, window fbs.Window) (fbs.TileRoute,
	uint64) {
	for {
		t, address := encodableTarget(random, window)
		if board.FindForbiddenRange(t, address, window.Size) == nil {
			return t, address
		}
	}
}

// encodableTarget returns a random target that a Point command can encode.
func encodableTarget(random *rand.Rand, window fbs.Window) (t fbs.TileRoute, address uint64) {
	t = fbs.TileRoute{X: uint8(random.IntN(64)), Y: uint8(random.IntN(64)),
		NoC: uint8(random.IntN(2)), Ordering: boards.Ordering(1 + random.IntN(3))}
	if t.StaticVCPlusOne = uint8(random.IntN(2)); window.Device > 1 {
		t.StaticVCPlusOne = uint8(random.IntN(9))
	}
	if t.Multicast = random.IntN(2) == 0; t.Multicast {
		t.XStart, t.YStart = uint8(random.IntN(64)), uint8(random.IntN(64))
	}
	return t, random.Uint64N(1<<14) * window.Size
}

// Random returns a random image with the sequences main and callee, and in half of the cases safe.
func Random(random *rand.Rand) *lmb.Image {
	g := Generator{Rand: random, PickTarget: RandomTarget, FailOdds: 60}
	image := g.ImageWithoutSequences()
	callee := append(g.PointCommands(), g.RandomCommand(gen.OpcodeWrite),
		g.RandomCommand(gen.OpcodeCopyIn))
	// The image writes the output in any case.
	commands := append(g.PointCommands(), g.RandomCommand(gen.OpcodeCopyOut))
	AddSequence(image, "main", append(commands, g.RandomCommands(1+random.IntN(200))...))
	AddSequence(image, "callee", callee)
	if random.IntN(2) == 0 {
		AddSequence(image, "safe", append(g.PointCommands(), g.RandomCommand(gen.OpcodeWrite)))
	}
	return image
}

// AddSequence adds a sequence to an image.
func AddSequence(image *lmb.Image, name string, commands []lmb.Command) {
	image.Sequences = append(image.Sequences, lmb.Sequence{Name: name, Commands: commands})
}

// ImageWithoutSequences returns an image with devices, windows and tensors, but without sequences.
func (g *Generator) ImageWithoutSequences() *lmb.Image {
	data := make([]byte, TensorBytes)
	for i := range data {
		data[i] = byte(g.Uint32())
	}
	return &lmb.Image{
		Devices: []lmb.Device{
			{Board: "nothing known", Vendor: 1, Device: 2, Bars: [6]uint64{0: 8192, 2: 8192}},
			{Board: boards.Wormhole.Name, Vendor: boards.Wormhole.Vendor,
				Device: boards.Wormhole.Device},
			{Board: boards.Blackhole.Name, Vendor: boards.Blackhole.Vendor,
				Device: boards.Blackhole.Device},
		},
		Rules: []lmb.Rule{
			{Name: "memory", AccessRule: fbs.AccessRule{Last: 8191, Widths: 15, Memory: 1}},
			{Name: "more", AccessRule: fbs.AccessRule{Bar: 2, Last: 8191, Widths: 15, Memory: 1}},
		},
		Windows: defaultWindows,
		Tensors: []lmb.Tensor{
			{Name: "in", Role: gen.RoleInput, DType: gen.DTypeUint8, Shape: []uint32{TensorBytes},
				Data: data},
			{Name: "out", Role: gen.RoleOutput, DType: gen.DTypeUint8,
				Shape: []uint32{TensorBytes}},
		},
	}
}

// PointCommands returns a Point command for each TLB window.
func (g *Generator) PointCommands() (list []lmb.Command) {
	for _, window := range g.tlbWindows() {
		list = append(list, g.pointCommand(window))
	}
	return list
}

// weightedOpcodes contains each opcode as often as its share of random commands. A Call command
// calls sequence 1.
var weightedOpcodes = []gen.Opcode{gen.OpcodeWrite, gen.OpcodeWrite, gen.OpcodeModify,
	gen.OpcodeRelocate, gen.OpcodeCopyIn, gen.OpcodeCopyIn, gen.OpcodeFill,
	gen.OpcodeCopyOut, gen.OpcodeExpect, gen.OpcodeExpect, gen.OpcodeCompare, gen.OpcodePoint,
	gen.OpcodeFence, gen.OpcodeCall}

// RandomCommands returns count random commands. After each Call, it adds Point commands, because
// the called sequence moves the TLB windows.
func (g *Generator) RandomCommands(count int) (list []lmb.Command) {
	for range count {
		opcode := weightedOpcodes[g.IntN(len(weightedOpcodes))]
		if g.Windows != nil && (opcode == gen.OpcodeRelocate ||
			opcode == gen.OpcodePoint && len(g.tlbWindows()) == 0) {
			opcode = gen.OpcodeFence
		}
		c := g.RandomCommand(opcode)
		list = append(list, c)
		if c.Opcode == gen.OpcodeCall {
			list = append(list, g.PointCommands()...)
		}
	}
	return list
}

// pointCommand returns a Point command for a TLB window.
func (g *Generator) pointCommand(window uint16) lmb.Command {
	target, address := g.PickTarget(g.Rand, g.windowList()[window].Window)
	return withoutData(fbs.Command{Opcode: gen.OpcodePoint, Window: window, Value: address,
		Mask: target.Pack()})
}

// withoutData returns a command without data in the payload.
func withoutData(c fbs.Command) lmb.Command { return lmb.Command{Command: c} }

// RandomCommand returns a valid random command with the opcode.
func (g *Generator) RandomCommand(opcode gen.Opcode) lmb.Command {
	width := uint8(1) << g.IntN(4)
	window := uint16(g.IntN(len(g.windowList())))
	isUnaligned := g.windowList()[window].Offset%8 != 0
	isCopy := opcode == gen.OpcodeCopyIn || opcode == gen.OpcodeCopyOut
	if isUnaligned && !isCopy || opcode == gen.OpcodeRelocate && isUnaligned {
		width = 1
	}
	if opcode == gen.OpcodeRelocate && isUnaligned {
		window = 0 // an unaligned window cannot store an address
	}
	mask := fbs.WidthMask(width)
	offsetLimit := uint32(min(g.windowList()[window].Size, 8192)) - TensorBytes
	c := fbs.Command{Opcode: opcode, Width: width, Window: window,
		Offset: g.Uint32N(offsetLimit) &^ 7}
	switch opcode {
	case gen.OpcodeWrite:
		c.Value = g.Uint64() & mask
	case gen.OpcodeModify:
		c.Mask = max(g.Uint64()&mask, 1)
		c.Value = g.Uint64() & c.Mask
	case gen.OpcodeRelocate:
		c.Width, c.Index, c.Value = max(width, 4), uint16(g.IntN(firstTLBWindow)), g.Uint64N(4096)
	case gen.OpcodeCopyIn, gen.OpcodeCopyOut, gen.OpcodeFill:
		return g.copyCommand(c)
	case gen.OpcodeExpect:
		return g.expectCommand(c)
	case gen.OpcodeCompare:
		c.Option = g.randomPolicy(g.FailOdds)
		return lmb.Command{Command: c, Data: g.randomBytes(8*(1+g.IntN(60)), 4)}
	case gen.OpcodePoint:
		list := g.tlbWindows()
		return g.pointCommand(list[g.IntN(len(list))])
	case gen.OpcodeFence:
		c = fbs.Command{Opcode: opcode}
	case gen.OpcodeCall:
		c = fbs.Command{Opcode: opcode, Index: 1}
	}
	return withoutData(c)
}

// randomPolicy returns PolicyFail in one of failOdds cases, and otherwise PolicyIgnore, so that
// most runs reach the commands that follow.
func (g *Generator) randomPolicy(failOdds int) uint8 {
	if g.IntN(failOdds) == 0 {
		return uint8(gen.PolicyFail)
	}
	return uint8(gen.PolicyIgnore)
}

// randomBytes returns random bytes, each of them less than limit.
func (g *Generator) randomBytes(size, limit int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(g.IntN(limit))
	}
	return data
}

// expectCommand completes an Expect command.
func (g *Generator) expectCommand(c fbs.Command) lmb.Command {
	mask := fbs.WidthMask(c.Width)
	c.Option, c.Mode = g.randomPolicy(g.FailOdds), uint8(1+g.IntN(2))
	c.Mask = max(g.Uint64()&g.Uint64()&mask, 1)
	c.Value = g.Uint64() & g.Uint64() & c.Mask
	if c.Value%4 == 3 { // a counter with a random number of bits
		c.Mode = uint8(gen.ConditionReached)
		c.Mask = mask >> (c.Value / 4 % (8 * uint64(c.Width)))
		c.Value &= c.Mask
	}
	if g.IntN(2) == 0 {
		c.Amount, c.Index = 1+g.Uint32N(20), uint16(g.IntN(3))
		c.Option = g.randomPolicy(max(g.FailOdds/5, 1))
	}
	return withoutData(c)
}

// copyCommand completes a CopyIn, CopyOut or Fill command.
func (g *Generator) copyCommand(c fbs.Command) lmb.Command {
	c.Mode, c.Amount = uint8(1+g.IntN(3)), uint32(c.Width)*uint32(1+g.IntN(64))
	if c.Opcode == gen.OpcodeFill {
		c.Mode, c.Value = uint8(1+g.IntN(2)), g.Uint64()&fbs.WidthMask(c.Width)
		return withoutData(c)
	}
	if g.windowList()[c.Window].Offset%8 != 0 {
		c.Mode = uint8(gen.AccessBulk)
	}
	if gen.Access(c.Mode) == gen.AccessBulk { // a bulk copy may begin and end at any byte
		c.Offset += g.Uint32N(8)
		c.Amount = 1 + g.Uint32N(500)
	}
	if c.Opcode == gen.OpcodeCopyIn && g.IntN(2) == 0 {
		return lmb.Command{Command: c, Data: g.randomBytes(int(c.Amount), 256)}
	}
	if c.Index = 1; c.Opcode == gen.OpcodeCopyOut {
		c.Index = 2
	}
	c.Amount = min(c.Amount, TensorBytes)
	c.Value = g.Uint64N(uint64(TensorBytes-c.Amount) + 1)
	return withoutData(c)
}
