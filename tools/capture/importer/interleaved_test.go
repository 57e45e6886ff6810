package importer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/image/lmb"
)

// bankPlace is where tt-metal's host library accesses a DRAM bank.
type bankPlace struct {
	x, y   uint8
	offset uint64
}

// wormholeBanks and blackholeBanks list the banks in their order, by
// dram_preferred_worker_endpoint and dram_address_offsets in the descriptors of tt-metal
// (tt_metal/soc_descriptors). They are independent of the package boards.
var (
	wormholeBanks = []bankPlace{{0, 11, 0}, {0, 1, 1 << 30}, {0, 5, 0}, {0, 7, 1 << 30},
		{5, 1, 0}, {5, 11, 1 << 30}, {5, 2, 0}, {5, 9, 1 << 30}, {5, 8, 0}, {5, 3, 1 << 30},
		{5, 5, 0}, {5, 7, 1 << 30}}
	blackholeBanks = []bankPlace{{0, 11, 0}, {0, 3, 0}, {0, 8, 0}, {0, 6, 0}, {9, 11, 0},
		{9, 3, 0}, {9, 8, 0}, {9, 6, 0}}
)

// hostProgram builds the recording of a program that fills an interleaved buffer page by page, and
// reads it back.
type hostProgram struct {
	board  *boards.Board
	banks  []bankPlace
	window uint64 // offset in BAR 0 of the TLB window that pointLines programs
	noc    uint8
	lines  []string
}

// pointWindow points the window to an address of a bank, and returns the offset of the address in
// BAR 0.
func (h *hostProgram) pointWindow(bank int, address uint64) uint64 {
	b, slot := h.banks[bank], 166
	if h.board == &boards.Blackhole {
		slot = 0
	}
	g := h.board.TLB.GroupOf(slot)
	address += b.offset
	tile := fbs.TileRoute{X: b.x, Y: b.y, NoC: h.noc, Ordering: boards.OrderingDefault}
	if h.noc == 1 { // NoC 1 counts from the opposite corner
		rows := chips.ForBoard(h.board).Grid.Rows
		tile.X, tile.Y = uint8(len(rows[0]))-1-b.x, uint8(len(rows))-1-b.y
	}
	words, ok := h.board.TLB.EncodeWindow(g, tile, address&^(g.Size-1))
	if !ok {
		panic("the window cannot encode this target")
	}
	l := h.board.TLB
	for register := uint64(0); register < l.ConfigStride; register += uint64(l.ConfigWidth) {
		data := binary.LittleEndian.AppendUint64(nil,
			chips.LoadRegister(&words, register, l.ConfigWidth))[:l.ConfigWidth]
		h.lines = append(h.lines,
			storeLine(0, l.ConfigOffset+uint64(slot)*l.ConfigStride+register, data...))
	}
	return h.window + address&(g.Size-1)
}

// forEachWord points the window to each page of a buffer of size bytes, and calls do for each word
// of the page, with the word's number and its offset in BAR 0. Pages have page bytes, and follow
// each other in a bank at a distance of stride bytes.
func (h *hostProgram) forEachWord(address, page, stride, size uint64, do func(word, at uint64)) {
	for first, number := uint64(0), 0; first < size; first, number = first+page, number+1 {
		row := uint64(number / len(h.banks))
		at := h.pointWindow(number%len(h.banks), address+row*stride)
		for i := uint64(0); i < min(page, size-first); i += 4 {
			do((first+i)/4, at+i)
		}
	}
}

// fill stores 0x10000000 plus its number to each word.
func (h *hostProgram) fill(address, page, stride, size uint64) {
	h.forEachWord(address, page, stride, size, func(word, at uint64) {
		h.lines = append(h.lines, storeLine(0, at, word32(0x1000_0000+uint32(word))...))
	})
}

// checkFilled compares the words of an image's first tensor with those that fill has stored.
func checkFilled(t *testing.T, image *lmb.Image, words int) {
	t.Helper()
	for i := range words {
		word := binary.LittleEndian.Uint32(image.Tensors[0].Data[4*i:])
		if want := 0x1000_0000 + uint32(i); word != want {
			t.Fatalf("word %d is %#x, want %#x", i, word, want)
		}
	}
}

// readBack loads the words that fill has stored.
func (h *hostProgram) readBack(address, page, stride, size uint64) {
	h.forEachWord(address, page, stride, size, func(word, at uint64) {
		h.lines = append(h.lines, loadLine(0, at, 0x1000_0000+uint32(word)))
	})
}

// The cores of a rectangle of a Wormhole, row by row, in NoC 0 and in translated coordinates.
// Column 5 has DRAM tiles.
var (
	rectangle           = []bankPlace{{4, 1, 0}, {6, 1, 0}, {4, 2, 0}, {6, 2, 0}}
	translatedRectangle = []bankPlace{{21, 18, 0}, {22, 18, 0}, {21, 19, 0}, {22, 19, 0}}
)

// pagedCases has interleaved buffers of both chips, pages whose distance is their size and pages
// that are padded, and buffers that do not fill their last row of pages or their last page.
var pagedCases = []struct {
	name               string
	program            hostProgram
	device             string
	page, stride, size uint64
	cores              string // of a sharded buffer; empty: the buffer is interleaved
}{
	{"wormhole", hostProgram{board: &boards.Wormhole, banks: wormholeBanks, window: wh166},
		whRecord, 64, 64, 64 * 30, ""},
	{"wormhole, padded pages", hostProgram{board: &boards.Wormhole, banks: wormholeBanks,
		window: wh166}, whRecord, 40, 64, 40*25 + 12, ""},
	{"wormhole, one page", hostProgram{board: &boards.Wormhole, banks: wormholeBanks,
		window: wh166}, whRecord, 2048, 2048, 2048, ""},
	{"blackhole", hostProgram{board: &boards.Blackhole, banks: blackholeBanks}, bhRecord, 128, 128,
		128 * 20, ""},
	{"blackhole, translated coordinates", hostProgram{board: &boards.Blackhole,
		banks: []bankPlace{{17, 14, 0}, {17, 15, 0}, {17, 18, 0}, {17, 21, 0}, {18, 14, 0},
			{18, 17, 0}, {18, 20, 0}, {18, 23, 0}}}, bhRecord, 128, 128, 128 * 20, ""},
	{"blackhole, padded pages", hostProgram{board: &boards.Blackhole, banks: blackholeBanks},
		bhRecord, 96, 128, 96*17 + 4, ""},
	{"sharded", hostProgram{board: &boards.Wormhole, banks: rectangle, window: wh166}, whRecord,
		96, 96, 4 * 96, "4,1,6,2"},
	{"sharded, named in translated coordinates", hostProgram{board: &boards.Wormhole,
		banks: rectangle, window: wh166}, whRecord, 96, 96, 4 * 96, "21,18,22,19"},
	{"sharded, stored in translated coordinates", hostProgram{board: &boards.Wormhole,
		banks: translatedRectangle, window: wh166}, whRecord, 96, 96, 4 * 96, "4,1,6,2"},
}

// TestBufferInPagesIsOneTensor imports the recording of a program that fills an interleaved or
// sharded buffer and reads it back. It replays the image on the mock with the recorded and with new
// data, and checks that each page is in its bank.
func TestBufferInPagesIsOneTensor(t *testing.T) {
	const address = 0x30000
	for _, c := range pagedCases {
		t.Run(c.name, func(t *testing.T) {
			h := c.program
			h.fill(address, c.page, c.stride, c.size)
			h.readBack(address, c.page, c.stride, c.size)
			spec := fmt.Sprintf("interleaved:0x%x,%d,uint32,%d", address, c.page, c.size/4)
			if c.cores != "" {
				spec = fmt.Sprintf("sharded:%s,0x%x,uint32,%d", c.cores, address, c.size/4)
			}
			image, report := importRecord(t, recordOf(c.device, h.lines...), Options{
				Inputs:  []TensorSpec{mustTensor(t, "a="+spec)},
				Outputs: []TensorSpec{mustTensor(t, "d="+spec)},
			})
			checkFilled(t, image, int(c.size/4))
			if pages := int((c.size + c.page - 1) / c.page); !strings.Contains(passSummary(report,
				"tensors"), fmt.Sprintf("input a of %d bytes from %d store", c.size, c.size/4)) ||
				len(image.Sequences[0].Commands) < 2*pages {
				t.Errorf("summary of tensors: %s; %d commands for %d pages, want at least 2 a page",
					passSummary(report, "tensors"), len(image.Sequences[0].Commands), pages)
			}
			replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
			mustRun(t, replay, device)
			if !bytes.Equal(replay.Output(1), image.Tensors[0].Data) {
				t.Error("the output of the first run differs from the recorded data")
			}
			data := replay.Input(0)
			for i := range data {
				data[i] = byte(i*7) ^ byte(i>>8)
			}
			mustRun(t, replay, device)
			if !bytes.Equal(replay.Output(1), data) {
				t.Error("the output of the second run differs from the new input")
			}
			for page := uint64(0); page*c.page < c.size; page++ {
				b := h.banks[page%uint64(len(h.banks))]
				at := address + b.offset + page/uint64(len(h.banks))*c.stride
				want := data[page*c.page : min((page+1)*c.page, c.size)]
				got := tileBytes(t, device, b, at, len(want))
				if !bytes.Equal(got, want) {
					t.Fatalf("page %d: %#x of tile %d,%d has other data than the input", page, at,
						b.x, b.y)
				}
			}
		})
	}
}

// tileBytes copies size bytes out of a bank of a device.
func tileBytes(t *testing.T, device hal.Device, b bankPlace, address uint64, size int) []byte {
	t.Helper()
	a, err := device.Map(fbs.Window{Kind: gen.WindowKindTlb, Slot: fbs.AnySlot, Size: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	tile := fbs.TileRoute{X: b.x, Y: b.y, Ordering: boards.OrderingDefault}
	if code := device.ProgramWindow(&a, tile, address&^(1<<20-1)); code != hal.OK {
		t.Fatalf("ProgramWindow: %v", code)
	}
	data := make([]byte, size)
	if code := mock.CopyAt(&a, gen.OpcodeCopyOut, address&(1<<20-1), 4, gen.AccessBulk,
		data); code != hal.OK {
		t.Fatalf("Copy: %v", code)
	}
	return data
}

// TestInterleavedTensorIsFoundThroughNoC1 imports a buffer that was filled through NoC 1, whose
// coordinates count from the opposite corner.
func TestInterleavedTensorIsFoundThroughNoC1(t *testing.T) {
	h := hostProgram{board: &boards.Wormhole, banks: wormholeBanks, window: wh166, noc: 1}
	h.fill(0x40000, 32, 32, 32*24)
	image, _ := importRecord(t, recordOf(whRecord, h.lines...), Options{
		Inputs: []TensorSpec{mustTensor(t, "a=interleaved:0x40000,32,uint32,192")}})
	checkFilled(t, image, 192)
}

// TestInterleavedTensorTakesStoresFromALineOn: the program first fills the buffer with other data.
// Without a line number in the flag, the import is rejected because a byte has two values.
func TestInterleavedTensorTakesStoresFromALineOn(t *testing.T) {
	const firstLine = 6 // after the 5 lines of recordOf's header
	h := hostProgram{board: &boards.Wormhole, banks: wormholeBanks, window: wh166}
	h.forEachWord(0x40000, 64, 64, 64*24, func(_, at uint64) {
		h.lines = append(h.lines, storeLine(0, at, 1, 2, 3, 4))
	})
	line := firstLine + len(h.lines)
	h.fill(0x40000, 64, 64, 64*24)
	text := recordOf(whRecord, h.lines...)
	image, _ := importRecord(t, text, Options{Inputs: []TensorSpec{
		mustTensor(t, fmt.Sprintf("a=interleaved:0x40000@%d,64,uint32,384", line))}})
	checkFilled(t, image, 384)
	wantError(t, text, Options{From: FromRecord, Inputs: []TensorSpec{
		mustTensor(t, "a=interleaved:0x40000,64,uint32,384")}}, "line 415: this line and "+
		"line 7 store different values to byte 0 of input a, but an input has only one value in "+
		"each run; choose one of the stores with --input a=ADDRESS@LINE")
}

// TestInterleavedTensorsMayShareABank: two buffers follow each other in every bank.
func TestInterleavedTensorsMayShareABank(t *testing.T) {
	h := hostProgram{board: &boards.Wormhole, banks: wormholeBanks, window: wh166}
	h.fill(0x40000, 64, 64, 64*24)
	h.fill(0x40080, 64, 64, 64*12)
	text := recordOf(whRecord, h.lines...)
	inputs := func(second string) Options {
		return Options{From: FromRecord, Inputs: []TensorSpec{
			mustTensor(t, "a=interleaved:0x40000,64,uint32,384"), mustTensor(t, second)}}
	}
	image, _ := importRecord(t, text, inputs("b=interleaved:0x40080,64,uint32,192"))
	if len(image.Tensors) != 2 {
		t.Errorf("%d tensors, want 2", len(image.Tensors))
	}
	wantError(t, text, inputs("b=interleaved:0x40040,64,uint32,192"), "input a at interleaved "+
		"0x40000, pages of 64 bytes and input b at interleaved 0x40040, pages of 64 bytes overlap")
	wantError(t, text, inputs("b=interleaved:0x40080,64,uint32,193"), "input b: bytes 768..771 "+
		"are never stored in this trace")
}

func TestInvalidInterleavedTensorsAreRejected(t *testing.T) {
	for spec, want := range map[string]string{
		"a=interleaved:0x1000,64,int32":                "write interleaved:",
		"a=interleaved:0x1000,64,int32,4,5":            "write interleaved:",
		"a=interleaved:x,64,int32,4":                   `address "x" is not a number`,
		"a=interleaved:0x1000@0,64,int32,4":            `a line number of at least 1, not "0"`,
		"a=interleaved:0x1000,0,int32,4":               `page size "0" must be a number of bytes`,
		"a=interleaved:0x1000,64,int3,4":               `element type "int3"`,
		"a=interleaved:0x1000,64,int32,0":              `shape "0"`,
		"a=interleaved:0x1000,64,int32,64,tiled":       "two multiples of 32",
		"a=interleaved:0x1000,64,int32,64x33,tiled":    "two multiples of 32",
		"a=interleaved:0x1000,64,int32,65536x65536":    "more than 4 GiB",
		"a=interleaved:0xffffffffffffff00,64,int8,512": "beyond the last 64-bit address",
	} {
		t.Run(spec, func(t *testing.T) {
			if _, err := ParseTensor(spec); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one with %q", err, want)
			}
		})
	}
	spec := mustTensor(t, "a=interleaved:0x1000,2048,bfloat16,64x96,tiled")
	if got := fmt.Sprint(spec.Shape); got != "[2 3 2 2 16 16]" || spec.Size() != 64*96*2 {
		t.Errorf("shape %s of %d bytes, want [2 3 2 2 16 16] of %d", got, spec.Size(), 64*96*2)
	}
	wantError(t, mmiotrace(eduDevice, "W 4 0x8 0x1"), Options{Inputs: []TensorSpec{spec}},
		"input a is interleaved, but board edu has no DRAM banks")
	wantError(t, mmiotrace(whDevice, access("W", 4, 0x1fe80000, 5)),
		Options{Inputs: []TensorSpec{spec}, Without: []string{"lift"}},
		"input a is interleaved, which needs the pass lift; remove --without lift")
}

// TestFramesHaveInterleavedTensors finds the frames of a program that fills one interleaved buffer
// and reads another one, with other data in each frame.
func TestFramesHaveInterleavedTensors(t *testing.T) {
	for _, c := range pagedCases {
		if c.page == c.size || c.cores != "" {
			continue // one page is in one bank
		}
		h, random := c.program, rand.New(rand.NewPCG(1, 2))
		h.lines = nil
		for range 4 {
			h.forEachWord(0x40000, c.page, c.stride, c.size, func(_, at uint64) {
				h.lines = append(h.lines, storeLine(0, at, word32(random.Uint32())...))
			})
			h.lines = append(h.lines, pointLines(h.board, 1, 2, 0)...)
			h.lines = append(h.lines, storeLine(0, h.window+0x100, 1, 0, 0, 0),
				loadLine(0, h.window+0x104, 0), loadLine(0, h.window+0x104, 1))
			h.forEachWord(0x80000, c.page, c.stride, c.size, func(_, at uint64) {
				h.lines = append(h.lines, loadLine(0, at, random.Uint32()))
			})
		}
		text := recordOf(c.device, h.lines...)
		frames, err := FindFrames(strings.NewReader(text), Options{From: FromRecord}, 0)
		if err != nil || !frames.Found {
			t.Fatalf("%s: no frames, error %v\n%v", c.name, err, frames)
		}
		flags := strings.Join(frames.Flags, " ")
		for _, want := range []string{
			fmt.Sprintf("--input in0=interleaved:0x40000,%d,", c.page),
			fmt.Sprintf("--output out0=interleaved:0x80000,%d,", c.page),
		} {
			if !strings.Contains(flags, want) || strings.Contains(flags, "in1=") ||
				strings.Contains(flags, "out1=") {
				t.Errorf("%s: flags %s, want %s and no second input or output", c.name, flags, want)
			}
		}
		o := Options{From: FromRecord}
		frames.Apply(&o)
		image, _ := importRecord(t, text, o)
		if n := len(image.Tensors); n != 2 || uint64(len(image.Tensors[0].Data)) != c.size {
			t.Errorf("%s: %d tensors, want 2, the first of %d bytes", c.name, n, c.size)
		}
	}
}

// TestInterleavedTensorSkipsADisabledBank uses the translated coordinates that tt-umd assigns to
// the seven other banks of a Blackhole card if bank 1 is disabled.
func TestInterleavedTensorSkipsADisabledBank(t *testing.T) {
	h := hostProgram{board: &boards.Blackhole, banks: []bankPlace{{18, 12, 0}, {18, 15, 0},
		{18, 18, 0}, {17, 12, 0}, {17, 21, 0}, {17, 15, 0}, {17, 18, 0}}}
	const page, size = 128, 128 * 16
	h.fill(0x40000, page, page, size)
	o := Options{DisabledBank: 2, Inputs: []TensorSpec{
		mustTensor(t, "a=interleaved:0x40000,128,uint32,512")}}
	image, _ := importRecord(t, recordOf(bhRecord, h.lines...), o)
	checkFilled(t, image, size/4)
	o.From, o.DisabledBank = FromRecord, 9
	wantError(t, recordOf(bhRecord, h.lines...), o,
		"board blackhole has no DRAM bank 8 that may be disabled")
}

// TestAdjacentInterleavedInputsAreApart finds the frames of a program that fills two adjacent
// buffers, whose addresses it stores for its kernel, as tt-metal does.
func TestAdjacentInterleavedInputsAreApart(t *testing.T) {
	const page, first = 64, 0x40000
	for _, pages := range []uint64{24, 30, 4} {
		h := hostProgram{board: &boards.Wormhole, banks: wormholeBanks, window: wh166}
		second := first + (pages+11)/12*page
		random := rand.New(rand.NewPCG(1, pages))
		for range 4 {
			for _, at := range []uint64{first, second} {
				h.forEachWord(at, page, page, pages*page, func(_, at uint64) {
					h.lines = append(h.lines, storeLine(0, at, word32(random.Uint32())...))
				})
			}
			h.lines = append(h.lines, pointLines(h.board, 1, 2, 0)...)
			for i, word := range []uint32{first, uint32(second), 1} {
				h.lines = append(h.lines, storeLine(0, h.window+0x100+4*uint64(i), word32(word)...))
			}
			h.lines = append(h.lines, loadLine(0, h.window+0x110, 0),
				loadLine(0, h.window+0x110, 1))
		}
		frames, err := FindFrames(strings.NewReader(recordOf(whRecord, h.lines...)),
			Options{From: FromRecord}, 0)
		if err != nil || !frames.Found {
			t.Fatalf("%d pages: no frames, error %v", pages, err)
		}
		flags := strings.Join(frames.Flags, " ")
		for i, at := range []uint64{first, second} {
			want := fmt.Sprintf("--input in%d=interleaved:0x%x,%d,uint8,%d", i, at, page,
				pages*page)
			if !strings.Contains(flags, want) || strings.Contains(flags, "in2=") {
				t.Errorf("%d pages: flags %s, want %s and two inputs", pages, flags, want)
			}
		}
	}
}

func TestWrongShardedTensorIsRejected(t *testing.T) {
	h := hostProgram{board: &boards.Wormhole, banks: rectangle, window: wh166}
	h.fill(0x30000, 96, 96, 96)
	for _, c := range []struct{ spec, want string }{
		{"4,1,6,0x30000,uint32,4", "write sharded:X,Y,X,Y,ADDRESS"},
		{"4,1,6,300,0x30000,uint32,4", `coordinate "300"`},
		{"4,1,6,2,0x30000,uint8,5", "5 bytes cannot be spread equally over 4 cores"},
		{"6,1,4,2,0x30000,uint32,4", "6,1 to 4,2 is no rectangle of cores"},
		{"5,1,5,2,0x30000,uint32,4", "5,1 to 5,2 is no rectangle of cores"},
	} {
		spec, err := ParseTensor("a=sharded:" + c.spec)
		if err == nil {
			_, _, err = Import(strings.NewReader(recordOf(whRecord, h.lines...)),
				Options{From: FromRecord, Inputs: []TensorSpec{spec}})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.spec, err, c.want)
		}
	}
}
