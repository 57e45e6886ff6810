package fbs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/coverage/corpus"
	"lightmetal/tools/image/lmb"
)

// slow is an independent model of FORMAT.md section 6, which checks every command by
// itself. It returns the index of the first invalid command, -1 if all commands are valid, or
// the number of commands if a sequence is invalid as a whole.
func slow(v *fbs.View) int {
	for _, s := range v.Sequences {
		if v.Commands[s.First+s.Count-1].Opcode != gen.OpcodeEnd {
			return len(v.Commands)
		}
	}
	calls, called := map[int]bool{}, map[int]bool{}
	for s, sequence := range v.Sequences {
		pointed := map[uint16]bool{}
		for i := sequence.First; i < sequence.First+sequence.Count; i++ {
			c := v.Commands[i]
			last := i == sequence.First+sequence.Count-1
			if last != (c.Opcode == gen.OpcodeEnd) || !slowCommand(v, c, pointed) {
				return int(i)
			}
			switch c.Opcode {
			case gen.OpcodePoint:
				pointed[c.Window] = true
			case gen.OpcodeCall:
				calls[s], called[int(c.Index)] = true, true
				clear(pointed)
			}
		}
	}
	for s := range v.Sequences {
		if calls[s] && called[s] {
			return len(v.Commands)
		}
	}
	return -1
}

// used returns a command without its opcode and without the listed fields.
func used(c fbs.Command, fields string) fbs.Command {
	for _, f := range strings.Fields(fields) {
		switch f {
		case "width":
			c.Width = 0
		case "mode":
			c.Mode = 0
		case "option":
			c.Option = 0
		case "window":
			c.Window = 0
		case "index":
			c.Index = 0
		case "offset":
			c.Offset = 0
		case "amount":
			c.Amount = 0
		case "value":
			c.Value = 0
		case "mask":
			c.Mask = 0
		}
	}
	c.Opcode = 0
	return c
}

func slowCommand(v *fbs.View, c fbs.Command, pointed map[uint16]bool) bool {
	row := map[gen.Opcode]string{
		gen.OpcodeWrite:    "width window offset value",
		gen.OpcodeModify:   "width window offset value mask",
		gen.OpcodeRelocate: "width window index offset value",
		gen.OpcodeCopyIn:   "width mode window index offset amount value",
		gen.OpcodeFill:     "width mode window offset amount value",
		gen.OpcodeCopyOut:  "width mode window index offset amount value",
		gen.OpcodeExpect:   "width mode option window index offset amount value mask",
		gen.OpcodeCompare:  "width option window index offset amount value",
		gen.OpcodePoint:    "window value mask", gen.OpcodeFence: "", gen.OpcodeDelay: "amount",
		gen.OpcodeCall: "index", gen.OpcodeEnd: "",
	}
	fields, known := row[c.Opcode]
	if !known || used(c, fields) != (fbs.Command{}) {
		return false
	}
	switch c.Opcode {
	case gen.OpcodeFence, gen.OpcodeEnd:
		return true
	case gen.OpcodeDelay:
		return c.Amount >= 1 && c.Amount <= 10_000_000
	case gen.OpcodeCall:
		return int(c.Index) < len(v.Sequences)
	}
	if int(c.Window) >= len(v.Windows) {
		return false
	}
	w := v.Windows[c.Window]
	if c.Opcode == gen.OpcodePoint {
		t, ok := boards.UnpackTileRange(c.Mask)
		aligned := w.Kind == gen.WindowKindTlb && c.Value%w.Size == 0
		return aligned && ok && t.Pack() == c.Mask && !slowClosed(v, c, w, t)
	}
	return slowAccess(v, c, w, pointed) && slowIndex(v, c) && slowValue(c)
}

// slowClosed reports whether a Point command may show a closed range of a board. It checks
// each tile of a rectangle separately (FORMAT.md section 6.1).
func slowClosed(v *fbs.View, c fbs.Command, w fbs.Window, t fbs.TileRange) bool {
	board := boards.FindByID(v.Devices[w.Device].Vendor, v.Devices[w.Device].Device)
	if board == nil {
		return false
	}
	side := func(start, end uint8) (list []uint8) {
		if !t.Multicast {
			return []uint8{end}
		}
		for i := range uint8(64) {
			if start > end || i >= start && i <= end {
				list = append(list, i)
			}
		}
		return list
	}
	way := t.NoC
	if t.Multicast {
		way += 2
	}
	for _, closed := range board.Closed {
		for _, x := range side(t.XStart, t.X) {
			for _, y := range side(t.YStart, t.Y) {
				if x < 64 && y < 64 && closed.Routes>>way&1 == 1 && closed.X>>x&1 == 1 &&
					closed.Y>>y&1 == 1 &&
					c.Value <= closed.Last && closed.First <= c.Value+(w.Size-1) {
					return true
				}
			}
		}
	}
	return false
}

// slowUs returns the longest time of a sequence in microseconds (FORMAT.md section 6.3). It
// omits the maximum, because the images of these tests stay far below the maximum.
func slowUs(v *fbs.View, sequence int) (us uint64) {
	const query = 10
	for _, c := range v.Commands[v.Sequences[sequence].First:][:v.Sequences[sequence].Count] {
		us++
		if c.Option == 2 {
			us += query * uint64(len(v.Devices))
		}
		switch c.Opcode {
		case gen.OpcodeWrite, gen.OpcodeRelocate:
			us++
		case gen.OpcodeModify:
			us += 2 + query
		case gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut, gen.OpcodeCompare:
			us += uint64(c.Amount) / uint64(c.Width)
			if c.Amount%uint32(c.Width) != 0 {
				us++
			}
			if c.Opcode == gen.OpcodeCopyOut {
				us += query
			}
		case gen.OpcodeExpect:
			us += 1 + uint64(c.Amount) + query
		case gen.OpcodePoint:
			us += 4
		case gen.OpcodeDelay:
			us += uint64(c.Amount)
		case gen.OpcodeCall:
			us += slowUs(v, int(c.Index))
		}
	}
	return us
}

func slowAccess(v *fbs.View, c fbs.Command, w fbs.Window, pointed map[uint16]bool) bool {
	if !slices.Contains([]uint8{1, 2, 4, 8}, c.Width) ||
		w.Kind == gen.WindowKindTlb && !pointed[c.Window] {
		return false
	}
	if w.Kind == gen.WindowKindConfig && (c.Width == 8 || c.Opcode != gen.OpcodeExpect) {
		return false
	}
	width, size, bulk, moves := uint64(c.Width), uint64(c.Width), false, false
	switch c.Opcode {
	case gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut:
		moves = true
		switch gen.Access(c.Mode) {
		case gen.AccessExact:
			size = uint64(c.Amount)
		case gen.AccessFixed:
		case gen.AccessBulk:
			size, bulk = uint64(c.Amount), true
			if c.Opcode == gen.OpcodeFill {
				return false
			}
		default:
			return false
		}
	case gen.OpcodeCompare:
		size, moves = uint64(c.Amount), true
	}
	if moves && c.Amount == 0 || uint64(c.Offset)+size > w.Size {
		return false
	}
	if !bulk && (uint64(c.Offset)%width != 0 || w.Offset%width != 0 ||
		moves && uint64(c.Amount)%width != 0) {
		return false
	}
	if w.Kind != gen.WindowKindBar {
		return true
	}
	first := w.Offset + uint64(c.Offset)
	board := boards.FindByID(v.Devices[w.Device].Vendor, v.Devices[w.Device].Device)
	if board == nil {
		for _, r := range v.Rules {
			if r.Device == w.Device && r.Bar == w.Bar && first >= r.First && first <= r.Last {
				return first+size-1 <= r.Last && r.Widths&c.Width != 0 &&
					(r.Memory == 1 || !bulk && w.Flags == 0)
			}
		}
		return false
	}
	for _, rule := range board.Rules {
		if rule.Bar == w.Bar && first >= rule.First && first <= rule.Last {
			stores := slices.Contains([]gen.Opcode{gen.OpcodeWrite, gen.OpcodeModify,
				gen.OpcodeRelocate, gen.OpcodeCopyIn, gen.OpcodeFill}, c.Opcode)
			return first+size-1 <= rule.Last && rule.Widths&c.Width != 0 &&
				(!bulk || rule.Memory) && !(stores && rule.LoadOnly) &&
				(w.Flags == 0 || rule.Memory)
		}
	}
	return false
}

func slowIndex(v *fbs.View, c fbs.Command) bool {
	switch c.Opcode {
	case gen.OpcodeRelocate:
		return int(c.Index) < len(v.Windows) && (slowStorable(v, v.Windows[c.Index]) ||
			v.Windows[c.Index].Kind == gen.WindowKindHost) &&
			c.Width >= 4 && c.Value <= v.Windows[c.Index].Size
	case gen.OpcodeExpect:
		return (c.Index == 0 || c.Amount != 0) && (c.Mode == 1 || c.Mode == 2 ||
			c.Mode == 3 && slowCounter(c.Mask))
	case gen.OpcodeCopyIn, gen.OpcodeCompare:
		if c.Index == 0 {
			size := uint64(0)
			for _, s := range v.Segments {
				size += s.Size
			}
			return c.Value <= size && uint64(c.Amount) <= size-c.Value
		}
		return slowTensor(v, c, gen.RoleInput)
	case gen.OpcodeCopyOut:
		return slowTensor(v, c, gen.RoleOutput)
	}
	return true
}

// slowCounter reports whether mask has some of its lowest bits set, and no other.
func slowCounter(mask uint64) bool {
	for n := range 64 {
		if mask == math.MaxUint64>>n {
			return true
		}
	}
	return false
}

// slowStorable reports whether a window lies in a BAR and has no registers that an image may
// only load.
func slowStorable(v *fbs.View, w fbs.Window) bool {
	board := boards.FindByID(v.Devices[w.Device].Vendor, v.Devices[w.Device].Device)
	for i := 0; board != nil && i < len(board.Rules); i++ {
		r := board.Rules[i]
		if r.LoadOnly && r.Bar == w.Bar &&
			max(r.First, w.Offset) <= min(r.Last, w.Offset+w.Size-1) {
			return false
		}
	}
	return w.Kind == gen.WindowKindBar
}

func slowTensor(v *fbs.View, c fbs.Command, role gen.Role) bool {
	if c.Index == 0 || int(c.Index) > len(v.Tensors) {
		return false
	}
	t := v.Tensors[c.Index-1]
	return t.Role == role && c.Value <= t.Size && uint64(c.Amount) <= t.Size-c.Value
}

func slowValue(c fbs.Command) bool {
	wide := func(n uint64) bool { return c.Width < 8 && n>>(8*c.Width) != 0 }
	switch c.Opcode {
	case gen.OpcodeWrite, gen.OpcodeFill, gen.OpcodeRelocate:
		return !wide(c.Value)
	case gen.OpcodeModify:
		return !wide(c.Mask) && c.Mask != 0 && c.Value&^c.Mask == 0
	case gen.OpcodeExpect:
		return !wide(c.Mask) && c.Value&^c.Mask == 0 && (c.Option == 1 || c.Option == 2)
	case gen.OpcodeCompare:
		return c.Option == 1 || c.Option == 2
	}
	return true
}

// crowd returns an image with many similar commands.
func crowd(r *rand.Rand) *lmb.Image {
	image := sample()
	image.Devices[0].Bars[2] = 1 << 20
	image.Windows = append(image.Windows,
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindBar, Slot: fbs.NoSlot, Offset: 0x1fc00000,
			Size: 0x400000}},
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Slot: fbs.NoSlot,
			Offset: 0x1000, Size: 0x2000}},
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindBar, Slot: fbs.NoSlot,
			Flags: fbs.FlagWriteCombining, Offset: 0x1e000000, Size: 0x1fe0000}},
		lmb.Window{Window: fbs.Window{Kind: gen.WindowKindBar, Bar: 4, Slot: fbs.NoSlot, Offset: 3,
			Size: 1001}})
	// Some images are short, and others have several blocks of commands.
	rounds := 1 + r.IntN(60)
	body := append(slices.Clone(image.Sequences[0].Commands[:14]),
		command(fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Window: 4, Offset: 0x7fc}),
		command(fbs.Command{Opcode: gen.OpcodeWrite, Width: 8, Window: 4, Offset: 0xa00}),
		command(fbs.Command{Opcode: gen.OpcodeFill, Width: 4, Mode: modeExact, Window: 4,
			Offset: 0x400, Amount: 0x400}),
		command(fbs.Command{Opcode: gen.OpcodeCopyOut, Width: 1, Mode: modeBulk, Window: 5,
			Index: 2, Offset: 3, Amount: 3}))
	var commands []lmb.Command
	commands = append(commands, body[5]) // the Point
	for range rounds {
		commands = append(commands, body[r.IntN(len(body))])
	}
	commands = append(commands, body[9], body[11])
	image.Sequences[0].Commands = append(commands, image.Sequences[0].Commands[14:]...)
	return image
}

var oddNumbers = []uint64{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 255, 256, 0xffff, 0x10000, 0xfff8,
	0xfffc, 0xffffffff, 1 << 32, 1 << 47, 1 << 48, 1 << 63, ^uint64(0)}

// change replaces one field of a command by another number, or the whole command.
func change(r *rand.Rand, list []fbs.Command, i int) {
	c, n := &list[i], oddNumbers[r.IntN(len(oddNumbers))]
	if r.IntN(3) == 0 {
		n = r.Uint64() >> r.IntN(64)
	}
	if c.Opcode == gen.OpcodePoint && r.IntN(2) == 0 { // what may be closed
		c.Mask = c.Mask&^0xffff | r.Uint64N(32) | r.Uint64N(32)<<8
		c.Value = 0x8_8000_0000 * r.Uint64N(3)
		return
	}
	switch r.IntN(12) {
	case 0:
		c.Opcode = gen.Opcode(n % 16)
	case 1:
		c.Width = uint8(n % 10)
	case 2:
		c.Mode = uint8(n % 5)
	case 3:
		c.Option = uint8(n % 4)
	case 4:
		c.Window = uint16(n % 10)
	case 5:
		c.Index = uint16(n % 6)
	case 6:
		c.Offset = uint32(n)
	case 7:
		c.Amount = uint32(n)
	case 8:
		c.Value = n
	case 9:
		c.Mask = n
	case 10:
		*c = list[r.IntN(len(list))]
	case 11:
		c.Offset ^= 1 << r.IntN(20)
	}
}

// TestFastAndSlowVerifierAgree changes one to three commands of random images: both
// verifiers reject the same command, or none.
func TestFastAndSlowVerifierAgree(t *testing.T) {
	rounds := 40_000
	if testing.Short() {
		rounds = 4_000
	}
	r := rand.New(rand.NewPCG(7, 11))
	accepted := 0
	for round := range rounds {
		if round%20 != 0 {
			continue
		}
		file, err := lmb.Encode(crowd(r))
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			changed := slices.Clone(file)
			view, err := fbs.Verify(changed)
			if err != nil {
				t.Fatal(err)
			}
			for range 1 + r.IntN(3) {
				change(r, view.Commands, r.IntN(len(view.Commands)))
			}
			want := slow(view)
			lmb.Stamp(changed, binary.LittleEndian.Uint64(changed[32:]))
			again, err := fbs.Verify(changed)
			got := ""
			if err != nil {
				got = err.(*fbs.Error).Place
			} else {
				for i, us := range again.WorstCaseUs {
					if want := slowUs(again, i); us != want {
						t.Fatalf("round %d: sequence %d may take %d us, slowly counted %d", round,
							i, us, want)
					}
				}
			}
			switch {
			case want == -1 && got == "":
				accepted++
			case want == len(view.Commands) && strings.HasPrefix(got, "sequence"):
			case want == -1, got != fmt.Sprint("command ", want):
				t.Fatalf("round %d: Verify returns %v, slow returns command %d", round, err, want)
			}
		}
	}
	t.Logf("evidence: %d changed images, %d of them still right: both verifiers agree",
		rounds, accepted)
	if accepted < rounds/50 {
		t.Errorf("only %d of %d changed images are valid: too few", accepted, rounds)
	}
}

// TestFastAndSlowVerifierAgreeOnNames puts random bytes and characters in a name. The
// slow verifier is packages utf8 and unicode.
func TestFastAndSlowVerifierAgreeOnNames(t *testing.T) {
	image := sample()
	image.Sequences[1].Name = strings.Repeat("n", 16)
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	control := func(r rune) bool {
		return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
	}
	r := rand.New(rand.NewPCG(3, 5))
	accepted, rounds := 0, 20_000
	name := view.NameBytes(view.Sequences[1].Name)
	for range rounds {
		copy(name, image.Sequences[1].Name)
		for n := range 1 + r.IntN(3) {
			piece := []byte{byte(r.Uint32()), byte(r.Uint32())}
			if r.IntN(2) == 0 {
				piece = utf8.AppendRune(nil, rune(r.Uint32N(unicode.MaxRune)>>r.IntN(20)))
			}
			copy(name[5*n:], piece)
		}
		lmb.Stamp(file, uint64(len(view.Envelope)))
		_, err := fbs.Verify(file)
		want := utf8.Valid(name) && bytes.IndexFunc(name, control) < 0
		if (err == nil) != want {
			t.Fatalf("%q: Verify returns %v, the slow verifier accepts: %v", name, err, want)
		}
		if want {
			accepted++
		}
	}
	if accepted < rounds/10 || accepted > rounds*9/10 {
		t.Errorf("%d of %d names are accepted: too few or too many", accepted, rounds)
	}
}

// many returns an image with segments of one page each, whose commands copy from them in
// random order.
func many(t testing.TB, segments, commands int) []byte {
	t.Helper()
	image := sample()
	image.Tensors, image.Sequences = nil, []lmb.Sequence{{Name: "main"}}
	one := lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeCopyIn, Width: 4, Mode: modeExact},
		Data: make([]byte, segments*fbs.SegmentAlign)}
	image.Sequences[0].Commands = make([]lmb.Command, commands)
	for i := range image.Sequences[0].Commands {
		image.Sequences[0].Commands[i] = lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}}
	}
	image.Sequences[0].Commands[0] = one
	image.Windows[0].Size = 1 << 28
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	return cut(t, file, segments)
}

// cut splits the one segment of a file, and makes its commands copy from all segments.
func cut(t testing.TB, file []byte, segments int) []byte {
	t.Helper()
	whole := corpus.Cut(file, slices.Repeat([]int{1}, segments))
	root := gen.GetRootAsImage(whole, 0)
	var c gen.Command
	r := rand.New(rand.NewPCG(1, 2))
	for i := range root.CommandsLength() - 1 {
		root.Commands(&c, i)
		c.MutateOpcode(gen.OpcodeCopyIn)
		c.MutateWidth(4)
		c.MutateMode(modeExact)
		c.MutateAmount(64)
		c.MutateOffset(uint32(i%1024) * 64)
		c.MutateValue(uint64(r.IntN(segments))*4096 + uint64(r.IntN(64))*64)
	}
	lmb.Stamp(whole, binary.LittleEndian.Uint64(whole[32:]))
	return whole
}

// TestPayloadIsOneRangeOfBytes checks that references may cross the end of a segment.
func TestPayloadIsOneRangeOfBytes(t *testing.T) {
	file := many(t, 100, 400)
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	if slow(view) != -1 || len(view.Segments) != 100 || len(view.Payload) != 100*4096 {
		t.Fatal("the slow verifier rejects it, or the payload has another size")
	}
	for _, test := range []struct {
		value uint64
		ok    bool
	}{{0, true}, {4032, true}, {4064, true}, {4096, true}, {99*4096 + 4032, true},
		{99*4096 + 4036, false}, {100 * 4096, false}, {^uint64(0) - 63, false},
		{1<<48 + 4096, false}} {
		t.Run(fmt.Sprint("value ", test.value), func(t *testing.T) {
			view.Commands[7].Value = test.value
			lmb.Stamp(file, binary.LittleEndian.Uint64(file[32:]))
			_, err := fbs.Verify(file)
			if (err == nil) != test.ok || test.ok != (slow(view) == -1) {
				t.Errorf("payload offset %#x: %v", test.value, err)
			}
		})
	}
}

// TestSegmentsLeaveNoGap checks that every segment except the last has whole pages.
func TestSegmentsLeaveNoGap(t *testing.T) {
	for want, change := range map[string]func(*gen.Segment){
		"segment 3: size 4095 must be a multiple": func(s *gen.Segment) { s.MutateSize(4095) },
		"segment 4: offset is":                    func(s *gen.Segment) { s.MutateSize(8192) },
		"segment 3: checksum is": func(s *gen.Segment) {
			s.MutateCrc32c(s.Crc32c() ^ 1)
		},
	} {
		t.Run(want, func(t *testing.T) {
			file := many(t, 6, 10)
			var s gen.Segment
			gen.GetRootAsImage(file, 0).Segments(&s, 3)
			change(&s)
			lmb.Stamp(file, binary.LittleEndian.Uint64(file[32:]))
			if _, err := fbs.Verify(file); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

// crowded returns an image with many sequences.
func crowded(t testing.TB, sequences, commands int) []byte {
	image := sample()
	image.Tensors, image.Sequences = nil, nil
	for i := range sequences {
		s := lmb.Sequence{Name: fmt.Sprint("s", i)}
		for j := range commands {
			s.Commands = append(s.Commands,
				command(fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Offset: uint32(j%100) * 4,
					Value: uint64(j)}))
		}
		image.Sequences = append(image.Sequences, s)
	}
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func benchmarkVerify(b *testing.B, file []byte) {
	view, err := fbs.Verify(file)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		if _, err := fbs.Verify(file); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(view.Commands)),
		"ns/command")
}

func BenchmarkVerifySequences(b *testing.B) { benchmarkVerify(b, crowded(b, 4096, 244)) }

func BenchmarkVerifySegments(b *testing.B) { benchmarkVerify(b, many(b, 4096, 1_000_000)) }

// BenchmarkVerifyMixed has opcodes in random order, so that branch prediction fails.
func BenchmarkVerifyMixed(b *testing.B) {
	image := sample()
	commands := &image.Sequences[0].Commands
	body, r := slices.Clone(*commands), rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		*commands = append(*commands, body[[]int{0, 1, 3, 4, 8}[r.IntN(5)]])
	}
	file, err := lmb.Encode(image)
	if err != nil {
		b.Fatal(err)
	}
	benchmarkVerify(b, file)
}
