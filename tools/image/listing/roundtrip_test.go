package listing

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/npy"
)

// generator generates valid images that use everything that FORMAT.md allows.
type generator struct {
	*rand.Rand
	image   *lmb.Image
	pointed map[uint16]bool // windows that the current sequence has pointed
	goldens int             // number of outputs of compare commands
	used    map[string]bool // opcodes, modes and options that were generated so far
	pool    []byte          // overlapping data are parts of the pool
}

// awkwardNames are names that a listing has to quote, or that are easy to confuse with words of the
// language.
var awkwardNames = []string{
	"w0", "w1", "w99999", "hex", "end", "main:", "two words", "\"", "\\", "#", "{", "µs", "0x10",
	"-", "bus", "a.b-c_d", "_", "\u00a0",
	strings.Repeat("n", fbs.NameMax),
}

// newName returns a name that is not in used, often an awkward name, and adds it to used.
func (g *generator) newName(used map[string]bool) string {
	for {
		name := fmt.Sprintf("name%d", g.IntN(1000))
		if g.IntN(2) == 0 {
			name = awkwardNames[g.IntN(len(awkwardNames))]
		}
		if !used[name] {
			used[name] = true
			return name
		}
	}
}

func (g *generator) flip() bool { return g.IntN(2) == 0 }

// dataBytes returns n new bytes, or a part of the pool, which may overlap other data.
func (g *generator) dataBytes(n uint32) []byte {
	if n <= uint32(len(g.pool)) && g.IntN(3) == 0 {
		from := g.Uint32N(uint32(len(g.pool)) - n + 1)
		g.used["shared data"] = true
		return g.pool[from : from+n : from+n]
	}
	return g.randomBytes(n)
}

func (g *generator) randomBytes(n uint32) []byte {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(g.Uint32())
	}
	return data
}

// upTo returns a random multiple of unit in [0, most].
func (g *generator) upTo(most, unit uint64) uint64 { return g.Uint64N(most/unit+1) * unit }

func (g *generator) generateImage() *lmb.Image {
	g.image, g.goldens, g.pool = &lmb.Image{}, 0, g.randomBytes(256)
	if g.flip() {
		g.image.Origin = lmb.Origin{Tool: "lm \"1\"", Source: strings.Repeat("s", g.IntN(3)),
			Time: g.Uint64N(3) << 62, Git: "\u2027", Arguments: "--wait 0x100c",
			Verdict: strings.Repeat("v", g.IntN(3))}
		g.image.Captures = []lmb.Capture{{Name: "a b", Size: g.Uint64(), SHA256: [32]byte{31: 1}}}
	}
	g.addDevices()
	g.addWindows()
	g.addTensors()
	names := map[string]bool{}
	for range 1 + g.IntN(4) {
		name := g.newName(names)
		for !fbs.IsSequenceName([]byte(name)) {
			name = g.newName(names)
		}
		g.image.Sequences = append(g.image.Sequences, lmb.Sequence{Name: name})
	}
	for i := range g.image.Sequences {
		g.fillSequence(i)
	}
	return g.image
}

// addDevices adds 1 to 3 devices with access rules for all their BARs.
func (g *generator) addDevices() {
	for range 1 + g.IntN(3) {
		t := lmb.Device{Board: g.newName(map[string]bool{}), Vendor: uint16(g.Uint32()),
			Device: uint16(g.Uint32())}
		for bar := range t.Bars {
			if g.flip() {
				t.Bars[bar] = g.Uint64() >> g.IntN(64)
			}
		}
		t.Bars[0] = 1 << 33
		if g.flip() {
			t.Subsystem = g.Uint32()
		}
		for bar, size := range t.Bars {
			if size != 0 {
				g.image.Rules = append(g.image.Rules, lmb.Rule{Name: g.newName(map[string]bool{}),
					AccessRule: fbs.AccessRule{Device: uint8(len(g.image.Devices)), Bar: uint8(bar),
						Last: size - 1, Widths: 15, Memory: 1}})
			}
		}
		g.image.Devices = append(g.image.Devices, t)
	}
}

// addWindows adds 4 to 9 windows, at least one of each kind. Several may have the same name.
func (g *generator) addWindows() {
	names := map[string]bool{}
	for i := range 4 + g.IntN(6) {
		w := lmb.Window{Window: fbs.Window{Slot: fbs.AnySlot,
			Device: uint8(g.IntN(len(g.image.Devices)))}}
		switch g.IntN(4) {
		case 0: // a window without a name
		case 1:
			w.Name = "shared"
		default:
			w.Name = g.newName(names)
		}
		if g.flip() {
			w.Flags = fbs.FlagWriteCombining
		}
		kind := gen.WindowKind(1 + i%4)
		w.Kind = kind
		switch kind {
		case gen.WindowKindBar:
			w.Offset = g.upTo(1<<20, 8)
			w.Size = 64 + g.Uint64N(fbs.WindowSizeMax-63)
		case gen.WindowKindTlb:
			w.Size = 1 << (6 + g.IntN(27))
			if g.flip() {
				w.Slot = uint16(g.IntN(fbs.AnySlot))
			}
		case gen.WindowKindHost:
			w.Size = 64 + g.Uint64N(1<<20)
			if g.flip() { // later windows need higher addresses
				w.Flags |= fbs.FlagFixedBus
				w.Offset = uint64(1+i)<<32 + g.upTo(1<<30, fbs.SegmentAlign)
			}
		case gen.WindowKindConfig:
			w.Size = []uint64{256, 4096}[g.IntN(2)]
		}
		g.image.Windows = append(g.image.Windows, w)
	}
}

// addTensors adds up to 2 scratch tensors, then 2 to 6 tensors, inputs and outputs in turn.
func (g *generator) addTensors() {
	names := map[string]bool{}
	for range g.IntN(3) {
		g.image.Tensors = append(g.image.Tensors, lmb.Tensor{Name: g.newName(names),
			Role: gen.RoleScratch, DType: gen.DTypeUint64, Shape: []uint32{1 + g.Uint32N(9)}})
	}
	for i := range 2 + g.IntN(5) {
		t := lmb.Tensor{Name: g.newName(names), Role: gen.Role(1 + i%2),
			DType: gen.DType(1 + g.IntN(12))}
		for range g.IntN(fbs.DimsMax + 1) {
			t.Shape = append(t.Shape, 1+g.Uint32N(3))
		}
		if g.flip() {
			t.Data = g.dataBytes(uint32(t.Size()))
		}
		g.image.Tensors = append(g.image.Tensors, t)
	}
}

// fillSequence adds commands to a sequence. Only sequence 0 has calls, and it copies to every
// output.
func (g *generator) fillSequence(index int) {
	g.pointed = map[uint16]bool{}
	s := &g.image.Sequences[index]
	for range g.IntN(30) {
		s.Commands = append(s.Commands, g.newCommands(index, s)...)
	}
	for i := range g.image.Tensors {
		if index == 0 && g.image.Tensors[i].Role == gen.RoleOutput {
			c := lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeCopyOut, Width: 1,
				Mode: uint8(gen.AccessBulk), Index: uint16(1 + i), Amount: 1}}
			s.Commands = append(s.Commands, c)
		}
	}
}

// newCommands returns a random command, and before it a point command if the command needs one. It
// returns nil if the command would be a call that is not possible.
func (g *generator) newCommands(sequence int, s *lmb.Sequence) []lmb.Command {
	opcode := gen.Opcode(1 + g.IntN(13))
	if opcode == gen.OpcodeEnd {
		opcode = lmb.OpcodeMark
	}
	if opcode == gen.OpcodeCall && (sequence != 0 || len(g.image.Sequences) == 1) {
		return nil
	}
	if opcode == gen.OpcodeCopyIn && g.image.Tensors[0].Role == gen.RoleScratch && g.flip() {
		return g.newCarriedValue()
	}
	c := lmb.Command{Command: fbs.Command{Opcode: opcode}}
	g.used[fmt.Sprint("opcode ", opcode)] = true
	switch opcode {
	case gen.OpcodeWrite, gen.OpcodeModify, gen.OpcodeRelocate:
		g.fillWrite(&c)
	case gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut:
		g.fillCopy(&c)
	case gen.OpcodeExpect:
		g.fillCondition(&c)
	case gen.OpcodeCompare:
		g.fillCompare(&c)
	case gen.OpcodePoint:
		g.fillPoint(&c, uint16(1))
	case gen.OpcodeDelay:
		c.Amount = 1 + uint32(g.upTo(fbs.DelayMaxUs-1, 1))
		if g.flip() {
			c.Amount = 1000 * (1 + c.Amount/1001)
		}
	case gen.OpcodeCall:
		c.Index = uint16(1 + g.IntN(len(g.image.Sequences)-1))
		clear(g.pointed)
	case lmb.OpcodeMark:
		c.Mode = uint8(1 + g.IntN(3))
		c.Data = []byte(g.newName(map[string]bool{}))
	}
	g.used[fmt.Sprint(c.Opcode, " mode ", c.Mode)] = true
	g.used[fmt.Sprint(c.Opcode, " option ", c.Option)] = true
	if c.Width == 0 || g.image.Windows[c.Window].Kind != gen.WindowKindTlb || g.pointed[c.Window] {
		return []lmb.Command{c}
	}
	point := lmb.Command{Command: fbs.Command{Opcode: gen.OpcodePoint}}
	g.fillPoint(&point, c.Window)
	return []lmb.Command{point, c}
}

// newCarriedValue returns a load into scratch from window 0, and a store of it to the same window.
func (g *generator) newCarriedValue() []lmb.Command {
	width := uint8(1 << g.IntN(4))
	load := lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeCopyOut, Width: width,
		Mode: uint8(gen.AccessExact), Index: 1, Amount: uint32(width),
		Value: g.upTo(g.image.Tensors[0].Size()-8, 1), Offset: uint32(g.upTo(24, 8))}}
	store := load
	store.Opcode, store.Offset = gen.OpcodeCopyIn, uint32(g.upTo(24, 8))
	return []lmb.Command{load, store}
}

// chooseWindow sets the window of a command to one of the given kinds, a width, and an aligned
// offset with room for 32 bytes.
func (g *generator) chooseWindow(c *lmb.Command, kinds uint, widthMax uint8) *lmb.Window {
	for {
		c.Window = uint16(g.IntN(len(g.image.Windows)))
		if w := &g.image.Windows[c.Window]; kinds>>w.Kind&1 == 1 {
			for c.Width = 1 << g.IntN(4); c.Width > widthMax ||
				w.Kind == gen.WindowKindConfig && c.Width > 4; {
				c.Width = 1 << g.IntN(4)
			}
			c.Offset = uint32(g.upTo(w.Size-32, 8))
			return w
		}
	}
}

const (
	anyKind = 1<<gen.WindowKindBar | 1<<gen.WindowKindTlb | 1<<gen.WindowKindHost |
		1<<gen.WindowKindConfig
	bulkKind = anyKind &^ (1 << gen.WindowKindConfig)
)

// randomValue returns a value of at most the width of a command.
func (g *generator) randomValue(c *lmb.Command) uint64 {
	return g.Uint64() >> g.IntN(64) & fbs.WidthMask(c.Width)
}

// randomMask returns a mask that is not 0.
func (g *generator) randomMask(c *lmb.Command) uint64 {
	if g.flip() {
		return fbs.WidthMask(c.Width)
	}
	return g.randomValue(c) | 1<<g.IntN(8)
}

// fillWrite sets the operands of a Write, Modify or Relocate.
func (g *generator) fillWrite(c *lmb.Command) {
	g.chooseWindow(c, bulkKind, 8)
	c.Offset += uint32(c.Width)
	c.Value = g.randomValue(c)
	switch c.Opcode {
	case gen.OpcodeModify:
		c.Mask = g.randomMask(c)
		c.Value &= c.Mask
	case gen.OpcodeRelocate:
		for kinds := uint(1<<gen.WindowKindBar | 1<<gen.WindowKindHost); ; {
			c.Index = uint16(g.IntN(len(g.image.Windows)))
			if w := &g.image.Windows[c.Index]; kinds>>w.Kind&1 == 1 {
				c.Offset &^= 7
				c.Width = 4 << g.IntN(2)
				c.Value = min(g.randomValue(c), w.Size)
				if w.Kind == gen.WindowKindBar {
					c.Value = min(c.Value, w.Size-1)
				}
				return
			}
		}
	}
}

// fillCopy sets the operands of a CopyIn, Fill or CopyOut.
func (g *generator) fillCopy(c *lmb.Command) {
	g.chooseWindow(c, bulkKind, 8)
	c.Mode = uint8(1 + g.IntN(3))
	if c.Opcode == gen.OpcodeFill {
		c.Mode = uint8(1 + g.IntN(2))
	}
	c.Amount = uint32(c.Width) * (1 + g.Uint32N(uint32(32/c.Width)))
	bulk := gen.Access(c.Mode) == gen.AccessBulk
	if bulk {
		c.Offset += g.Uint32N(8)
		c.Amount = 1 + g.Uint32N(20)
	}
	switch {
	case c.Opcode == gen.OpcodeFill:
		c.Value = g.randomValue(c)
	case c.Opcode == gen.OpcodeCopyOut || g.flip():
		g.chooseTensor(c, bulk)
	default:
		if gen.Access(c.Mode) == gen.AccessFixed {
			c.Amount *= 1 + g.Uint32N(9)
		}
		c.Data = g.dataBytes(c.Amount)
	}
}

// chooseTensor sets the tensor of a copy, and the part of the tensor.
func (g *generator) chooseTensor(c *lmb.Command, bulk bool) {
	role := gen.RoleInput
	if c.Opcode == gen.OpcodeCopyOut {
		role = gen.RoleOutput
	}
	for {
		at := g.IntN(len(g.image.Tensors))
		if t := &g.image.Tensors[at]; t.Role == role {
			if !bulk {
				c.Width = 1
			}
			c.Index = uint16(1 + at)
			c.Amount = uint32(min(uint64(c.Amount), t.Size()))
			c.Value = g.upTo(t.Size()-uint64(c.Amount), 1)
			return
		}
	}
}

// fillCondition sets the operands of an expect or poll.
func (g *generator) fillCondition(c *lmb.Command) {
	g.chooseWindow(c, anyKind, 8)
	c.Mode, c.Option, c.Mask = uint8(1+g.IntN(3)), uint8(1+g.IntN(2)), g.randomMask(c)
	if gen.Condition(c.Mode) == gen.ConditionReached {
		c.Mask = fbs.WidthMask(c.Width) >> g.IntN(8*int(c.Width))
	}
	c.Value = g.randomValue(c) & c.Mask
	switch {
	case g.flip():
		c.Amount = 1 + g.Uint32()>>g.IntN(31)/2
		c.Index = uint16(g.Uint32()) >> g.IntN(17)
	case g.IntN(4) == 0:
		c.Mode, c.Value, c.Mask = uint8(gen.ConditionEqual), 0, 0
	}
}

// fillCompare sets the operands of a comparison: with payload, with an input, or with golden data.
func (g *generator) fillCompare(c *lmb.Command) {
	g.chooseWindow(c, bulkKind, 8)
	c.Option = uint8(1 + g.IntN(2))
	c.Amount = 8 * (1 + g.Uint32N(4))
	switch g.IntN(3) {
	case 0:
		c.Data = g.dataBytes(c.Amount)
	case 1:
		g.chooseTensor(c, false)
	default:
		g.addGolden(c)
	}
}

// addGolden turns a comparison into a CopyOut to a new output with golden data.
func (g *generator) addGolden(c *lmb.Command) {
	dtype := gen.DType(1 + g.IntN(12))
	golden := lmb.Golden{Kind: gen.JudgementTolerance, First: g.randomTolerance(),
		Second: g.randomTolerance()}
	if g.flip() {
		golden = lmb.Golden{Kind: gen.JudgementCorrelation,
			First: math.Float32bits(2*g.Float32() - 1)}
	}
	elements := c.Amount / uint32(fbs.DTypeSize(dtype))
	g.image.Tensors = append(g.image.Tensors,
		lmb.Tensor{Name: fmt.Sprint("golden:", g.goldens), Role: gen.RoleOutput, DType: dtype,
			Shape: []uint32{elements}, Data: g.dataBytes(c.Amount), Golden: golden})
	g.goldens++
	c.Opcode, c.Mode, c.Option, c.Index = gen.OpcodeCopyOut, uint8(gen.AccessExact), 0,
		uint16(len(g.image.Tensors))
}

// randomTolerance returns the bits of a float32 that is finite and not negative, or minus zero.
func (g *generator) randomTolerance() uint32 {
	edgeCases := []uint32{0, 1 << 31, 1, 0x007fffff, 0x7f7fffff, math.Float32bits(1e-3),
		math.Float32bits(1e21)}
	if g.flip() {
		return edgeCases[g.IntN(len(edgeCases))]
	}
	return g.Uint32N(0x7f800000)
}

// fillPoint sets the operands of a Point.
func (g *generator) fillPoint(c *lmb.Command, window uint16) {
	t := fbs.TileRoute{
		X: uint8(g.Uint32()), Y: uint8(g.Uint32()), NoC: uint8(g.IntN(2)),
		Ordering: boards.Ordering(1 + g.IntN(3)), StaticVCPlusOne: uint8(g.IntN(9)),
		Multicast: g.flip(),
	}
	if t.Multicast {
		t.XStart, t.YStart = uint8(g.Uint32()), uint8(g.Uint32())
	}
	c.Window, c.Mask = window, t.Pack()
	c.Value = g.Uint64() &^ (g.image.Windows[window].Size - 1)
	g.pointed[window] = true
}

// TestImagesSurvivePrintAndParse prints, parses and encodes random images. Image, listing and file
// must stay the same.
func TestImagesSurvivePrintAndParse(t *testing.T) {
	used := map[string]bool{}
	for seed := range uint64(400) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), used: used}
		image := g.generateImage()
		file, err := lmb.Encode(image)
		if err != nil {
			t.Fatalf("seed %d: the generator made an invalid image: %v", seed, err)
		}
		text := mustPrint(t, image)
		back, err := Parse("printed", []byte(text), nil)
		if err != nil {
			t.Fatalf("seed %d: the printed listing does not parse: %v\n%s", seed, err, text)
		}
		if !reflect.DeepEqual(image, back) {
			t.Fatalf("seed %d: the parsed image differs from the printed one; the listing:\n%s",
				seed, text)
		}
		again, err := lmb.Encode(back)
		if err != nil {
			t.Fatalf("seed %d: Encode of the parsed image: %v", seed, err)
		}
		if !bytes.Equal(file, again) {
			t.Fatalf("seed %d: the parsed image is encoded as %d bytes that differ from the %d "+
				"bytes of the original; the listing:\n%s", seed, len(again), len(file), text)
		}
		if second := mustPrint(t, back); second != text {
			t.Fatalf("seed %d: the parsed image is printed as\n%s\nwant\n%s", seed, second, text)
		}
		decoded, err := lmb.Decode(file)
		if err != nil {
			t.Fatalf("seed %d: Decode: %v", seed, err)
		}
		if got := mustPrint(t, decoded); got != text {
			t.Fatalf("seed %d: the decoded file is printed as\n%s\nwant\n%s", seed, got, text)
		}
	}
	// FORMAT.md section 6 has 12 opcodes without End. With marks, these are the numbers of modes
	// and of options of each opcode, from Write to Call and mark. Shared data count as one more.
	modes, options := 1+1+1+3+2+3+3+1+1+1+1+1+3, 1+1+1+1+1+1+2+2+1+1+1+1+1
	if len(used) != 13+modes+options+1 {
		t.Errorf("%d opcodes, modes and options were generated, want %d: %v", len(used),
			13+modes+options+1, used)
	}
}

func TestInvalidTolerancesSurvivePrintAndParse(t *testing.T) {
	image := mustParse(t,
		header+"main:\n  compare.4 regs+0x0 float32 == hex 00112233 absolute 0\n"+
			"  compare.4 regs+0x0 float32 == hex 00112233 correlation 0\n")
	for _, bits := range []uint32{0x7fc00000, 0x7f800001, 0xffffffff, 0x7f800000, 0xff800000,
		0xbf800000, 0x80000000, 0xc0000000} {
		image.Tensors[2].Golden.First, image.Tensors[2].Golden.Second = bits, bits
		image.Tensors[3].Golden.First = bits
		if got := mustParse(t, mustPrint(t, image)); !reflect.DeepEqual(got, image) {
			t.Errorf("tolerance %#x: print and parse of the image return tensors %+v, want %+v",
				bits, got.Tensors, image.Tensors)
		}
	}
}

func TestCRLFLineEndsAreAccepted(t *testing.T) {
	source := readListing(t, "all-opcodes.lms")
	image, err := Parse("x", bytes.ReplaceAll(source, []byte("\n"), []byte("\r\n")), nil)
	if err != nil {
		t.Fatalf("Parse of all-opcodes.lms with CRLF line ends: %v", err)
	}
	if want := mustParse(t, string(source)); !reflect.DeepEqual(image, want) {
		t.Errorf("all-opcodes.lms with CRLF line ends is parsed as\n%s\nwant, as with LF,\n%s",
			mustPrint(t, image), mustPrint(t, want))
	}
}

func TestNarrowFloatsReadBackExactly(t *testing.T) {
	for bits := range uint64(1 << 16) {
		if x := math.Float32frombits(uint32(bits) << 16); x == x {
			text := fmt.Sprintf("%g", x)
			text = strings.TrimPrefix(strings.ToLower(text), "+")
			if got, ok := npy.Bits(gen.DTypeBfloat16, text); !ok || got != bits {
				t.Fatalf("bfloat16 %s is read as %#x, want %#x", text, got, bits)
			}
		}
		if x := float16(uint16(bits)); x == x {
			text := strings.TrimPrefix(strings.ToLower(fmt.Sprintf("%g", x)), "+")
			if got, ok := npy.Bits(gen.DTypeFloat16, text); !ok || got != bits {
				t.Fatalf("float16 %s is read as %#x, want %#x", text, got, bits)
			}
		}
	}
}

// float16 returns the value of an IEEE binary16 number.
func float16(bits uint16) float64 {
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	x := math.Ldexp(fraction, -24)
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		x = math.Inf(1)
	case exponent > 0:
		x = math.Ldexp(1024+fraction, exponent-25)
	}
	if bits>>15 == 1 {
		return -x
	}
	return x
}

func TestNarrowFloatsRoundToEven(t *testing.T) {
	for _, test := range []struct {
		dtype gen.DType
		text  string
		bits  uint64
		ok    bool
	}{
		{gen.DTypeFloat16, "2049", 0x6800, true},          // a tie, down to 2048
		{gen.DTypeFloat16, "2051", 0x6802, true},          // a tie, up to 2052
		{gen.DTypeFloat16, "65519.9", 0x7bff, true},       // the largest number
		{gen.DTypeFloat16, "65520", 0, false},             // would round to infinity
		{gen.DTypeFloat16, "2.98e-8", 0, true},            // less than half the smallest number
		{gen.DTypeFloat16, "2.99e-8", 1, true},            // more than half
		{gen.DTypeFloat16, "-6.1e-5", 0x83ff, true},       // subnormal
		{gen.DTypeFloat16, "6.1034e-5", 0x0400, true},     // rounds up to the smallest normal one
		{gen.DTypeFloat16, "-inf", 0xfc00, true},          //
		{gen.DTypeFloat16, "nan", 0x7e00, true},           //
		{gen.DTypeBfloat16, "1.00390625", 0x3f80, true},   // a tie, down
		{gen.DTypeBfloat16, "1.01171875", 0x3f82, true},   // a tie, up
		{gen.DTypeBfloat16, "3.4e38", 0, false},           //
		{gen.DTypeBfloat16, "0x3f80", 0x3f80, true},       // the bits themselves
		{gen.DTypeInt8, "-128", 0xffffffffffffff80, true}, // cut to a byte later
	} {
		if got, ok := npy.Bits(test.dtype, test.text); ok != test.ok || ok && got != test.bits {
			t.Errorf("%s is read as %#x (%v), want %#x (%v)", test.text, got, ok, test.bits,
				test.ok)
		}
	}
}
