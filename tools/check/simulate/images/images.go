// Package images makes valid images of random commands, for what plays them by
// more than one player, or on devices and hosts that fail.
package images

import (
	"math/rand/v2"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// windows are those of every image: three ranges of two BARs, one that begins at an odd
// place, host memory, and two windows onto tiles.
var windows = []lmb.Window{
	{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 0, Slot: fbs.NoSlot, Size: 8192}},
	{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Slot: fbs.NoSlot, Offset: 8, Size: 4096,
		Flags: fbs.FlagWriteCombining}},
	{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.NoSlot, Size: 5000}},
	{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.NoSlot, Size: 4096}},
	{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 0, Slot: fbs.NoSlot, Offset: odd,
		Size: 4096}},
	{Window: fbs.Window{Kind: gen.WindowKindTlb, Device: 1, Slot: fbs.NoSlot, Size: 1 << 20}},
	{Window: fbs.Window{Kind: gen.WindowKindTlb, Device: 2, Slot: fbs.NoSlot, Size: 2 << 20}},
}

const (
	odd      = 3
	firstTlb = 5

	// TensorBytes is the size of each tensor.
	TensorBytes = 512
)

// Maker makes random commands.
type Maker struct {
	*rand.Rand
	// of a Point
	Aim   func(random *rand.Rand, window fbs.Window) (target fbs.TileRoute, address uint64)
	Fails int // one of so many checks ends the run where it does not hold

	Windows []lmb.Window // nil: those of Empty. Others have no Address commands
}

func (m *Maker) windows() []lmb.Window {
	if m.Windows == nil {
		return windows
	}
	return m.Windows
}

// movable are the windows that a Point aims.
func (m *Maker) movable() (list []uint16) {
	for i, w := range m.windows() {
		if w.Kind == gen.WindowKindTlb {
			list = append(list, uint16(i))
		}
	}
	return list
}

// Wild points a window of an image of Empty anywhere that a command can say.
func Wild(random *rand.Rand, window fbs.Window) (t fbs.TileRoute, address uint64) {
	if window.Device > 1 {
		return WildOn(random, &boards.Blackhole, window)
	}
	return WildOn(random, &boards.Wormhole, window)
}

// WildOn points a window of a board anywhere that is not forbidden to images.
func WildOn(random *rand.Rand, board *boards.Board, window fbs.Window) (fbs.TileRoute, uint64) {
	for {
		t, address := anyTarget(random, window)
		if board.FindForbiddenRange(t, address, window.Size) == nil {
			return t, address
		}
	}
}

// anyTarget returns a target that a command can express.
func anyTarget(random *rand.Rand, window fbs.Window) (t fbs.TileRoute, address uint64) {
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

// Any is an image with the sequences main and callee, and mostly safe.
func Any(random *rand.Rand) *lmb.Image {
	m := Maker{Rand: random, Aim: Wild, Fails: 60}
	image := m.Empty()
	callee := append(m.Points(), m.Command(gen.OpcodeWrite), m.Command(gen.OpcodeCopyIn))
	commands := append(m.Points(), m.Command(gen.OpcodeCopyOut)) // an output has to be filled
	Add(image, "main", append(commands, m.Commands(1+random.IntN(200))...))
	Add(image, "callee", callee)
	if random.IntN(2) == 0 {
		Add(image, "safe", append(m.Points(), m.Command(gen.OpcodeWrite)))
	}
	return image
}

// Add adds a sequence.
func Add(image *lmb.Image, name string, commands []lmb.Command) {
	image.Sequences = append(image.Sequences, lmb.Sequence{Name: name, Commands: commands})
}

// Empty is an image without sequences.
func (m *Maker) Empty() *lmb.Image {
	data := make([]byte, TensorBytes)
	for i := range data {
		data[i] = byte(m.Uint32())
	}
	return &lmb.Image{
		Devices: []lmb.Device{
			{Board: "nothing known", Vendor: 1, Device: 2, Bars: [6]uint64{0: 8192, 2: 5000}},
			{Board: boards.Wormhole.Name, Vendor: boards.Wormhole.Vendor,
				Device: boards.Wormhole.Device},
			{Board: boards.Blackhole.Name, Vendor: boards.Blackhole.Vendor,
				Device: boards.Blackhole.Device},
		},
		Rules: []lmb.Rule{
			{Name: "memory", AccessRule: fbs.AccessRule{Last: 8191, Widths: 15, Memory: 1}},
			{Name: "more", AccessRule: fbs.AccessRule{Bar: 2, Last: 4999, Widths: 15, Memory: 1}},
		},
		Windows: windows,
		Tensors: []lmb.Tensor{
			{Name: "in", Role: gen.RoleInput, DType: gen.DTypeUint8, Shape: []uint32{TensorBytes},
				Data: data},
			{Name: "out", Role: gen.RoleOutput, DType: gen.DTypeUint8,
				Shape: []uint32{TensorBytes}},
		},
	}
}

// Points aims all windows.
func (m *Maker) Points() (list []lmb.Command) {
	for _, window := range m.movable() {
		list = append(list, m.point(window))
	}
	return list
}

// kinds is how often each opcode comes. A Call is of sequence 1.
var kinds = []gen.Opcode{gen.OpcodeWrite, gen.OpcodeWrite, gen.OpcodeModify, gen.OpcodeRelocate,
	gen.OpcodeCopyIn, gen.OpcodeCopyIn, gen.OpcodeFill,
	gen.OpcodeCopyOut, gen.OpcodeExpect, gen.OpcodeExpect, gen.OpcodeCompare, gen.OpcodePoint,
	gen.OpcodeFence, gen.OpcodeCall}

// Commands is count commands of any kind, and what has to stand behind a Call.
func (m *Maker) Commands(count int) (list []lmb.Command) {
	for range count {
		opcode := kinds[m.IntN(len(kinds))]
		if m.Windows != nil && (opcode == gen.OpcodeRelocate ||
			opcode == gen.OpcodePoint && len(m.movable()) == 0) {
			opcode = gen.OpcodeFence
		}
		c := m.Command(opcode)
		list = append(list, c)
		if c.Opcode == gen.OpcodeCall {
			list = append(list, m.Points()...)
		}
	}
	return list
}

func (m *Maker) point(window uint16) lmb.Command {
	target, address := m.Aim(m.Rand, m.windows()[window].Window)
	return single(fbs.Command{Opcode: gen.OpcodePoint, Window: window, Value: address,
		Mask: target.Pack()})
}

func single(c fbs.Command) lmb.Command { return lmb.Command{Command: c} }

// Command is a valid command of a kind.
func (m *Maker) Command(opcode gen.Opcode) lmb.Command {
	width := uint8(1) << m.IntN(4)
	window := uint16(m.IntN(len(m.windows())))
	uneven := m.windows()[window].Offset%8 != 0
	copies := opcode == gen.OpcodeCopyIn || opcode == gen.OpcodeCopyOut
	if uneven && !copies || opcode == gen.OpcodeRelocate && uneven {
		width = 1
	}
	if opcode == gen.OpcodeRelocate && uneven {
		window = 0 // which takes no narrow addresses
	}
	mask := fbs.WidthMask(width)
	reach := uint32(min(m.windows()[window].Size, 8192)) - TensorBytes
	c := fbs.Command{Opcode: opcode, Width: width, Window: window, Offset: m.Uint32N(reach) &^ 7}
	switch opcode {
	case gen.OpcodeWrite:
		c.Value = m.Uint64() & mask
	case gen.OpcodeModify:
		c.Mask = max(m.Uint64()&mask, 1)
		c.Value = m.Uint64() & c.Mask
	case gen.OpcodeRelocate:
		c.Width, c.Index, c.Value = max(width, 4), uint16(m.IntN(firstTlb)), m.Uint64N(4096)
	case gen.OpcodeCopyIn, gen.OpcodeCopyOut, gen.OpcodeFill:
		return m.copy(c)
	case gen.OpcodeExpect:
		return m.check(c)
	case gen.OpcodeCompare:
		c.Option = m.option(m.Fails)
		return lmb.Command{Command: c, Data: m.data(8*(1+m.IntN(60)), 4)}
	case gen.OpcodePoint:
		list := m.movable()
		return m.point(list[m.IntN(len(list))])
	case gen.OpcodeFence:
		c = fbs.Command{Opcode: opcode}
	case gen.OpcodeCall:
		c = fbs.Command{Opcode: opcode, Index: 1}
	}
	return single(c)
}

// option is mostly to go on, so that what comes behind is played too.
func (m *Maker) option(of int) uint8 {
	if m.IntN(of) == 0 {
		return uint8(gen.PolicyFail)
	}
	return uint8(gen.PolicyIgnore)
}

func (m *Maker) data(size, below int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(m.IntN(below))
	}
	return data
}

func (m *Maker) check(c fbs.Command) lmb.Command {
	mask := fbs.WidthMask(c.Width)
	c.Option, c.Mode = m.option(m.Fails), uint8(1+m.IntN(2))
	c.Mask = max(m.Uint64()&m.Uint64()&mask, 1)
	c.Value = m.Uint64() & m.Uint64() & c.Mask
	if c.Value%4 == 3 { // a counter, of any number of bits
		c.Mode = uint8(gen.ConditionReached)
		c.Mask = mask >> (c.Value / 4 % (8 * uint64(c.Width)))
		c.Value &= c.Mask
	}
	if m.IntN(2) == 0 {
		c.Amount, c.Index = 1+m.Uint32N(20), uint16(m.IntN(3))
		c.Option = m.option(max(m.Fails/5, 1))
	}
	return single(c)
}

func (m *Maker) copy(c fbs.Command) lmb.Command {
	c.Mode, c.Amount = uint8(1+m.IntN(3)), uint32(c.Width)*uint32(1+m.IntN(64))
	if c.Opcode == gen.OpcodeFill {
		c.Mode, c.Value = uint8(1+m.IntN(2)), m.Uint64()&fbs.WidthMask(c.Width)
		return single(c)
	}
	if m.windows()[c.Window].Offset%8 != 0 {
		c.Mode = uint8(gen.AccessBulk)
	}
	if gen.Access(c.Mode) == gen.AccessBulk { // which begins and ends anywhere
		c.Offset += m.Uint32N(8)
		c.Amount = 1 + m.Uint32N(500)
	}
	if c.Opcode == gen.OpcodeCopyIn && m.IntN(2) == 0 {
		return lmb.Command{Command: c, Data: m.data(int(c.Amount), 256)}
	}
	if c.Index = 1; c.Opcode == gen.OpcodeCopyOut {
		c.Index = 2
	}
	c.Amount = min(c.Amount, TensorBytes)
	c.Value = m.Uint64N(uint64(TensorBytes-c.Amount) + 1)
	return single(c)
}
