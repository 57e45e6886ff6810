package importer

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	hexadecimal "encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

// findAndImport searches a trace for frames and imports the trace with the flags that the search
// proposes. The image is nil if there is no frame.
func findAndImport(t *testing.T, text string, o Options, which int) (*Frames, *lmb.Image) {
	t.Helper()
	f, err := FindFrames(strings.NewReader(text), o, which)
	if err != nil {
		t.Fatal(err)
	}
	if !f.Found {
		return f, nil
	}
	f.Apply(&o)
	image, _, err := Import(strings.NewReader(text), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, f)
	}
	return f, image
}

// importWithFlags imports a trace with the flags that a search for frames has printed.
func importWithFlags(t *testing.T, text string, o Options, flags []string) *lmb.Image {
	t.Helper()
	setFlags(t, &o, flags)
	image, _, err := Import(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func imageBytes(t *testing.T, image *lmb.Image) []byte { return lmbtest.Encode(t, image) }

// unzippedCapture returns the text of a capture that gzip has compressed.
func unzippedCapture(t *testing.T, name string) string {
	t.Helper()
	file, err := os.Open(filepath.Join(captureFolder, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// accessedByte is one byte of an access of a frame.
type accessedByte struct {
	store   bool
	tile    string
	address uint64
	value   byte
}

// byteAccesses lists the bytes of accesses. Of consecutive loads of one address it keeps only the
// last, because the number of loads in a wait may differ between the recording and a replay.
type byteAccesses struct {
	list     []accessedByte
	lastLoad string // "" after a store
}

func (c *byteAccesses) add(store bool, tile string, address uint64, data []byte) {
	key := fmt.Sprint(tile, address, len(data))
	if !store && key == c.lastLoad {
		c.list = c.list[:len(c.list)-len(data)]
	}
	if c.lastLoad = key; store {
		c.lastLoad = ""
	}
	for i, b := range data {
		c.list = append(c.list, accessedByte{store, tile, address + uint64(i), b})
	}
}

// wormholeRecordAccesses reads the accesses through window 166 from lines of a recording of
// Wormhole. It shares no code with the importer that it tests.
func wormholeRecordAccesses(t *testing.T, text string, from, to int) *byteAccesses {
	t.Helper()
	var c byteAccesses
	config := uint64(0)
	for i, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if i+1 > to || len(f) < 5 || f[0] != "W" && f[0] != "R" {
			continue
		}
		at, err := strconv.ParseUint(f[2], 16, 64)
		data, err2 := hexadecimal.DecodeString(f[4])
		if err != nil || err2 != nil {
			t.Fatal(line)
		}
		switch {
		case at == 0x1fc00530:
			config = binary.LittleEndian.Uint64(data)
		case i+1 >= from:
			for len(data) > 0 { // the processor accesses at most 8 bytes at once
				n := min(8, len(data))
				c.add(f[0] == "W", fmt.Sprintf("(%d,%d)", config>>12&63, config>>18&63),
					config&0xfff<<24+at-0x0b000000, data[:n])
				data, at = data[n:], at+uint64(n)
			}
		}
	}
	return &c
}

// wormholeMockAccesses returns the accesses in the journal of a mock from an index on. tiles
// translates the coordinates of the mock's tiles to those of the recording.
func wormholeMockAccesses(d *mock.Device, tiles map[string]string, from int) *byteAccesses {
	var c byteAccesses
	for _, a := range d.Journal()[from:] {
		data := binary.LittleEndian.AppendUint64(nil, a.Value)[:a.Width]
		c.add(a.Op != mock.Load, tiles[fmt.Sprintf("(%d,%d)", a.Place.X, a.Place.Y)],
			a.Place.Address, data)
	}
	return &c
}

// TestFramesOfARealClientReplayAsRecorded imports five frames of a real client as one frame. With
// the input of each recorded frame, the replay makes the accesses of that frame and returns its
// results, which the mock computes.
func TestFramesOfARealClientReplayAsRecorded(t *testing.T) {
	text, o := unzippedCapture(t, "wh.frames.record.gz"), Options{From: FromRecord}
	f, image := findAndImport(t, text, o, 0)
	starts := []int{183, 6810, 13437, 20064, 26691, 33317}
	if c := f.Candidates[0]; f.Chosen != 1 || !slices.Equal(c.Starts, starts[:5]) {
		t.Fatalf("\n%s", f)
	}
	want := []string{"--frame 183..6809", "--input in0=18,18,0x20000,int32,128",
		"--input in1=18,18,0x30000,int32,128", "--output out0=18,18,0x50000,int32,128"}
	if !slices.Equal(f.Flags, want) {
		t.Errorf("flags %q, want %q", f.Flags, want)
	}
	if !bytes.Equal(imageBytes(t, image), imageBytes(t, importWithFlags(t, text, o, f.Flags))) {
		t.Error("importing with the printed flags makes a different image")
	}
	replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
	device.Record(true)
	if r := replay.Run(0); r.Code != hal.OK || image.Sequences[0].Name != "init" {
		t.Fatalf("sequence %s: %+v, want OK of sequence init", image.Sequences[0].Name, r)
	}
	for i, from := range starts[:5] {
		record := wormholeRecordAccesses(t, text, from, starts[i+1]-1)
		recordedBytes := func(address uint64) (data []byte) {
			for _, r := range record.list {
				if r.address >= address && r.address < address+512 {
					data = append(data, r.value)
				}
			}
			return data
		}
		copy(replay.Input(0), recordedBytes(0x20000))
		copy(replay.Input(1), recordedBytes(0x30000))
		before := len(device.Journal())
		if r := replay.Run(1); r.Code != hal.OK {
			t.Fatalf("frame %d: %+v %s", i, r, device.Refusal())
		}
		if !bytes.Equal(replay.Output(2), recordedBytes(0x50000)) {
			t.Errorf("frame %d: the output differs from the recorded result", i)
		}
		// The mock's journal has the coordinates of the tile after the device's translation.
		tile := device.Journal()[before].Place
		tiles := map[string]string{fmt.Sprintf("(%d,%d)", tile.X, tile.Y): "(18,18)"}
		got := wormholeMockAccesses(device, tiles, before)
		if !slices.Equal(got.list, record.list) {
			t.Errorf("frame %d: the replay accessed %d bytes; want the %d recorded ones", i,
				len(got.list), len(record.list))
		}
	}
}

// frameTrace builds an mmiotrace of frames on a tile. addFrame adds one frame: a store that clears
// the flag, an input of 16 words, other lines, the start, loads of the flag, and an output.
type frameTrace struct{ list []string }

func (m *frameTrace) addLines(lines ...string) { m.list = append(m.list, lines...) }

// addFrame adds frame k, whose flag is not set yet in the first pollLoads loads. The data depend
// on k. The lines of between come before the start.
func (m *frameTrace) addFrame(k, pollLoads int, between ...string) {
	m.addLines(whPoint(wh166Config, 1, 1, 0), access("W", 4, wh166+0x10000, 0))
	for i := range uint64(8) {
		m.addLines(access("W", 8, wh166+0x20000+8*i, uint64(1000*k*k)+i*7|(uint64(k*k)+i)<<32))
	}
	m.addLines(between...)
	m.addLines(access("W", 4, wh166+0x10004, 1))
	for range pollLoads {
		m.addLines(access("R", 4, wh166+0x10000, 0))
	}
	m.addLines(access("R", 4, wh166+0x10000, 0x600df00d))
	for i := range uint64(8) {
		m.addLines(access("R", 8, wh166+0x30000+8*i, uint64(k*k*3)+i|(uint64(k*k)+7*i)<<32))
	}
}

func (m *frameTrace) addSetUp() {
	m.addLines(whPoint(wh166Config, 1, 1, 0), access("W", 8, wh166+0x100, 0x1234),
		access("W", 8, wh166+0x200, 0x5678))
}

func (m *frameTrace) text() string { return mmiotrace(whDevice, m.list...) }

// variedPlaces lists role, place, address and size of the data that differ between frames.
func variedPlaces(f *Frames) string {
	var list []string
	for _, v := range f.Candidates[f.Chosen-1].Varies {
		list = append(list, fmt.Sprintf("%s %s 0x%x %d", v.Role, v.Place, v.Address, v.Size))
	}
	return strings.Join(list, ", ")
}

const frameTracePlaces = "input (1,1) 0x20000 64, output (1,1) 0x30000 64"

func TestFramesAreFoundAmongOtherAccesses(t *testing.T) {
	o := Options{From: FromMmiotrace}
	for name, c := range map[string]struct {
		make  func(m *frameTrace)
		times int
		want  string // words of the text: flags beyond --frame, --input and --output, and notes
	}{
		"nothing": {func(m *frameTrace) {
			for k := range 4 {
				m.addFrame(k, 2)
			}
		}, 4, "nothing follows"},
		"init and stop": {func(m *frameTrace) {
			m.addSetUp()
			for k := range 4 {
				m.addFrame(k, 2)
			}
			m.addLines(access("W", 4, wh166+0x40000, 7))
		}, 4, "--stop"},
		"waits of other lengths, the first none": {func(m *frameTrace) {
			m.addSetUp()
			for k := range 5 {
				m.addFrame(k, k*k)
			}
		}, 5, ""},
		"a last frame that is cut": {func(m *frameTrace) {
			m.addSetUp()
			for k := range 4 {
				m.addFrame(k, 1)
			}
			m.list = m.list[:len(m.list)-12]
		}, 3, "cut"},
		"an inner repetition": {func(m *frameTrace) {
			m.addSetUp()
			for k := range 3 {
				var inner []string
				for i := range uint64(40) { // stores to a data port
					inner = append(inner, access("W", 4, wh166+0x50000, i%2),
						access("R", 4, wh166+0x50008, 1))
				}
				m.addFrame(k, 1, inner...)
			}
		}, 3, ""},
		"the same again later": {func(m *frameTrace) {
			m.addSetUp()
			for k := range 4 {
				m.addFrame(k, 1)
			}
			m.addLines(access("W", 4, wh166+0x60000, 7), access("R", 4, wh166+0x60004, 7))
			for k := range 3 {
				m.addFrame(k+9, 1)
			}
			m.addLines(access("W", 4, wh166+0x40000, 7))
		}, 7, "again --stop"},
	} {
		t.Run(name, func(t *testing.T) {
			var m frameTrace
			c.make(&m)
			f, image := findAndImport(t, m.text(), o, 0)
			if image == nil || variedPlaces(f) != frameTracePlaces ||
				len(f.Candidates[f.Chosen-1].Starts) != c.times {
				t.Fatalf("\n%s", f)
			}
			for _, word := range strings.Fields(c.want) {
				if !strings.Contains(f.String(), word) {
					t.Errorf("the text of the frames lacks %q:\n%s", word, f)
				}
			}
			if stop := strings.Contains(c.want,
				"--stop"); (image.Sequences[len(image.Sequences)-1].Name == "stop") != stop {
				t.Errorf("the last sequence is %q, want stop: %v",
					image.Sequences[len(image.Sequences)-1].Name, stop)
			}
			again := importWithFlags(t, m.text(), o, f.Flags)
			if !bytes.Equal(imageBytes(t, image), imageBytes(t, again)) {
				t.Error("importing with the printed flags makes a different image")
			}
			polls := 0
			for _, s := range image.Sequences {
				for _, command := range s.Commands {
					if s.Name == "frame" && command.Opcode == gen.OpcodeExpect &&
						command.Amount != 0 {
						polls++
					}
				}
			}
			if polls != 1 {
				t.Errorf("%d polls in a frame, want 1\n%s", polls, imageText(image))
			}
		})
	}
}

// TestTraceWithoutAFrameIsReportedWithTheReason searches traces whose repetitions cannot be frames.
func TestTraceWithoutAFrameIsReportedWithTheReason(t *testing.T) {
	one := func(op string, width int, at, value uint64) string {
		return access(op, width, wh166+at, value)
	}
	frames := func(n int, between func(k int) []string) func(m *frameTrace) {
		return func(m *frameTrace) {
			m.addSetUp()
			for k := range n {
				m.addFrame(k, 1, between(k)...)
			}
		}
	}
	for name, c := range map[string]struct {
		make func(m *frameTrace)
		want string
	}{
		"nothing repeated": {func(m *frameTrace) {
			m.addSetUp()
			m.addFrame(1, 3)
			m.addLines(one("W", 4, 0x10010, 1), one("R", 4, 0x10014, 2))
		}, "the trace has no repetition"},
		"a doorbell that counts": {frames(5,
			func(k int) []string { return []string{one("W", 4, 0x10020, uint64(k+1))} }),
			"counts: 0x1, 0x2, 0x3 ..., so the value is neither an input nor a constant"},
		"an index in strides, down": {frames(5,
			func(k int) []string { return []string{one("W", 2, 0x10020, uint64(0x100-32*k))} }),
			"counts: 0x100, 0xe0, 0xc0 ..., so the value is neither"},
		"a ring whose turn is not seen twice": {frames(6,
			func(k int) []string { return []string{one("W", 4, 0x10020, uint64(k%4))} }),
			"and begins again after 4"},
		"a wait for a number that counts": {frames(4, func(k int) []string {
			return []string{one("R", 4, 0x10030, uint64(k)), one("R", 4, 0x10030, uint64(k+1))}
		}), "the program waits for a value that counts"},
		"a register that is changed as it was": {frames(4, func(k int) []string {
			v := uint64(k * k * 16)
			return []string{one("R", 4, 0x10040, v), one("W", 4, 0x10040, v^1)}
		}), "the program computes the stored value from the value that it loaded there"},
		"a doorbell that counts on within a frame": {frames(2, func(k int) []string {
			return []string{one("W", 4, 0x10050, uint64(2*k)), one("R", 4, 0x10054, 1),
				one("W", 4, 0x10050, uint64(2*k+1))}
		}), "counts from store to store: 0x0, 0x1, 0x2 ..., so the value is neither"},
	} {
		t.Run(name, func(t *testing.T) {
			var m frameTrace
			c.make(&m)
			f, image := findAndImport(t, m.text(), Options{From: FromMmiotrace}, 0)
			if image != nil || !strings.Contains(f.Why, c.want) ||
				!strings.Contains(f.String(), "no frame   ") ||
				!strings.Contains(f.String(), "import without --find-frames") {
				t.Errorf("no frame with reason %q; got\n%s", c.want, f)
			}
			for _, candidate := range f.Candidates {
				for _, v := range candidate.Varies {
					isTensor := v.Role == "input" || v.Role == "output"
					if isTensor != (v.Name != "") {
						t.Errorf("%s at 0x%x has the name %q", v.Role, v.Address, v.Name)
					}
				}
			}
		})
	}
}

// TestSingleWordIsProposedAsUint32 has an input of four bytes whose values suggest no element type.
func TestSingleWordIsProposedAsUint32(t *testing.T) {
	var m frameTrace
	m.addSetUp()
	for k := range 5 {
		word := uint64(uint32(k*k*k+3) * 0x9e3779b9)
		m.addFrame(k, 1, access("W", 4, wh166+0x24000, word))
	}
	f, image := findAndImport(t, m.text(), Options{From: FromMmiotrace}, 0)
	if image == nil || !strings.Contains(strings.Join(f.Flags, " "), "0x24000,uint32,1") {
		t.Error(f)
	}
}

// TestInputsAtOneAddressAreDistinguishedByLine has two inputs at one address, which differ in the
// line of their stores. The same distinguishes two values of a doorbell that counts, which the user
// declares by hand.
func TestInputsAtOneAddressAreDistinguishedByLine(t *testing.T) {
	var m frameTrace
	m.addSetUp()
	for k := range 4 {
		m.addFrame(k, 1, access("W", 4, wh166+0x10050, 1),
			access("W", 8, wh166+0x20000, uint64(77*k*k+5)), access("W", 4, wh166+0x10050, 1))
	}
	f, image := findAndImport(t, m.text(), Options{From: FromMmiotrace}, 0)
	if image == nil || !slices.Equal(imageBytes(t, image),
		imageBytes(t, importWithFlags(t, m.text(), Options{From: FromMmiotrace}, f.Flags))) {
		t.Fatal(f)
	}
	var copies []string
	for _, s := range image.Sequences {
		for _, c := range s.Commands {
			if i, ok := lmb.TensorOf(&c.Command); ok && c.Opcode == gen.OpcodeCopyIn {
				copies = append(copies, fmt.Sprint(image.Tensors[i].Name,
					image.Tensors[i].Data[:2]))
			}
		}
	}
	if want := "[in0[0 0] in1[5 0]]"; fmt.Sprint(copies) != want {
		t.Errorf("inputs %v, want %s\n%s", copies, want, f)
	}

	m = frameTrace{}
	m.addSetUp()
	for k := range uint64(4) {
		m.addFrame(int(k), 1, access("W", 4, wh166+0x10050, 2*k), access("R", 4, wh166+0x10054, 1),
			access("W", 4, wh166+0x10050, 2*k+1))
	}
	f, _ = findAndImport(t, m.text(), Options{From: FromMmiotrace}, 0)
	_, hint, _ := strings.Cut(f.String(), "by hand    ")
	o := Options{From: FromMmiotrace}
	for _, flag := range strings.Fields(hint)[:4] {
		if flag != "--input" {
			o.Inputs = append(o.Inputs, mustTensor(t, flag))
		}
	}
	if f, image = findAndImport(t, m.text(), o, 0); image == nil || image.Tensors[0].Data[0] != 0 ||
		image.Tensors[1].Data[0] != 1 {
		t.Errorf("%s\n%s", hint, f)
	}
}

// TestDataPortIsNotAnInput stores to one address 17 and 400 times a frame, which is a data port. It
// is reported once. 16 stores still are inputs.
func TestDataPortIsNotAnInput(t *testing.T) {
	for n, want := range map[int]string{16: "", 17: "a data port",
		400: "a data port"} {
		var m frameTrace
		m.addSetUp()
		for k := range 40 {
			var stores []string
			for i := range n {
				stores = append(stores, access("W", 4, wh166+0x10050, uint64(k*k*7919+i*i*109)),
					access("R", 4, wh166+0x10054, 1))
			}
			m.addFrame(k, 1, stores...)
		}
		f, err := FindFrames(strings.NewReader(m.text()), Options{From: FromMmiotrace}, 1)
		if err != nil || f.Found != (want == "") || !strings.Contains(f.Why, want) ||
			strings.Contains(f.Why, "more)") {
			t.Errorf("%d stores a frame: error %v, want reason %q\n%s", n, err, want, f)
		}
	}
}

// TestRingTurnIsAFrameAndNamedTensorsAreAccepted has a ring that wrapped twice, with an address for
// each slot: a turn of the ring is a frame. It also has a counter that the user declares as an
// input, which the search accepts.
func TestRingTurnIsAFrameAndNamedTensorsAreAccepted(t *testing.T) {
	var m frameTrace
	m.addSetUp()
	for k := range uint64(8) {
		m.addLines(access("W", 4, wh166+0x20000+64*(k%4), 5+k*k),
			access("W", 4, wh166+0x10020, (k+1)%4),
			access("R", 4, wh166+0x10000, 0), access("R", 4, wh166+0x10000, 1))
	}
	f, image := findAndImport(t, m.text(), Options{From: FromMmiotrace}, 0)
	if image == nil || len(f.Candidates[f.Chosen-1].Starts) != 2 ||
		strings.Count(variedPlaces(f), "input") != 4 {
		t.Errorf("\n%s", f)
	}
	m = frameTrace{}
	m.addSetUp()
	for k := range 6 {
		m.addFrame(k, 1, access("W", 4, wh166+0x10020, uint64(k+1)))
	}
	o := Options{From: FromMmiotrace,
		Inputs: []TensorSpec{mustTensor(t, "tail=1,1,0x10020,uint32,1"),
			mustTensor(t, "in0=1,1,0x20000,int32,16")}}
	f, image = findAndImport(t, m.text(), o, 0)
	if image == nil || variedPlaces(f) != "output (1,1) 0x30000 64" || len(image.Tensors) != 3 {
		t.Errorf("\n%s", f)
	}
}

// TestCounterInATraceIsReported has the doorbell of a network card that sends, as testpmd writes
// it. The doorbell is in no frame, but its counter is reported.
func TestCounterInATraceIsReported(t *testing.T) {
	var m frameTrace
	m.addSetUp()
	for i := range uint64(9) { // registers that are stored and loaded all the time
		m.addLines(access("W", 4, wh166+0x10010, i%2), access("R", 4, wh166+0x10014, 1))
	}
	for i := range uint64(4) {
		m.addLines(access("W", 4, wh166+0x3818, 32*i))
	}
	f, err := FindFrames(strings.NewReader(m.text()), Options{From: FromMmiotrace}, 0)
	want := "counts     (1,1) 0x3818, 4 stores from line 24 on: 0x0, 0x20, 0x40, 0x60 ...\n"
	if err != nil || !strings.Contains(f.String(), want) {
		t.Errorf("error %v, want the line %q in\n%s", err, want, f)
	}
}

// TestCountersWithAHugeCommonPeriodAreNoRing has counters whose periods have no common factor, so
// that all three start again together only after more frames than the trace has.
func TestCountersWithAHugeCommonPeriodAreNoRing(t *testing.T) {
	var m frameTrace
	m.addSetUp()
	for k := range uint64(5) {
		var between []string
		for i, turn := range []uint64{2, 1<<31 - 1, 1<<31 - 19} {
			between = append(between, access("W", 4, wh166+0x10020+0x10*uint64(i),
				k*min(turn/2, 1e9)%turn))
		}
		m.addFrame(int(k), 1, between...)
	}
	f, image := findAndImport(t, m.text(), Options{From: FromMmiotrace}, 0)
	if image != nil || !strings.Contains(f.Why, "and begins again after 2") ||
		len(f.Candidates[f.Chosen-1].Starts) != 5 {
		t.Errorf("\n%s", f)
	}
}

// TestCounterInsideAnInputIsReported: a word that counts inside a larger input stays in the input.
func TestCounterInsideAnInputIsReported(t *testing.T) {
	for _, times := range []int{3, 5} {
		var m frameTrace
		m.addSetUp()
		for k := range times {
			var between []string
			for i := range uint64(8) {
				v := uint64(k*k*k*77) + i*uint64(k*k)
				if i == 5 {
					v = 0x40 + 8*uint64(k)
				}
				between = append(between, access("W", 4, wh166+0x20080+4*i, v))
			}
			m.addFrame(k, 1, between...)
		}
		f, image := findAndImport(t, m.text(), Options{From: FromMmiotrace}, 0)
		want := "the input at (1,1) 0x20080 seems to contain 1 counter of 4 bytes (the first is " +
			"at 0x20094: 0x40, 0x48, 0x50 ...); the replaying program must " +
			"set the next value in each run"
		if image == nil || !strings.Contains(f.String(), want) ||
			strings.Count(f.String(), "the replaying program") != 1 {
			t.Errorf("%d frames: want %q once in\n%s", times, want, f)
		}
	}
}

// TestNumbersThatDoNotCountAreRejectedEarly checks that progression stops at the third difference.
func TestNumbersThatDoNotCountAreRejectedEarly(t *testing.T) {
	list := make([]uint64, 4000)
	for i := range list {
		list[i] = uint64(i * i)
	}
	if n := testing.AllocsPerRun(20, func() { progression(list, 1<<32-1) }); n > 4 {
		t.Errorf("progression made %v allocations, want at most 4", n)
	}
}

// TestFramesAreNotCutInsideALine has lines that contain the end of one repetition and the beginning
// of the next. The search chooses another beginning, or reports the reason.
func TestFramesAreNotCutInsideALine(t *testing.T) {
	data := func(k, size int) string { return strings.Repeat(fmt.Sprintf("%02x", k*k+3), size) }
	load := "R 0 20 4 01000000"
	both := func(k int) string { return "W 0 400e0 64 " + data(k, 64) }
	list := []string{"W 0 40100 32 " + data(1, 32), load, both(2), load, both(3), load,
		"W 0 400e0 32 " + data(4, 32)}
	record := func(list []string) string {
		list = append([]string{"DEVICE 0 1234 11e8 0000:00:04.0", "BAR 0 0 0 80000000 100000"},
			list...)
		return recordText(list)
	}
	f, image := findAndImport(t, record(list), Options{From: FromRecord}, 0)
	if image != nil || !strings.HasPrefix(f.Why, "a repetition begins inside a line") {
		t.Errorf("\n%s", f)
	}
	f, image = findAndImport(t, record(append(list[:5:5], load, both(5), load)),
		Options{From: FromRecord}, 0)
	if image == nil || strings.Count(strings.Join(f.Flags, " "), "--input") != 1 {
		t.Errorf("\n%s", f)
	}
	one := func(k int) string { return "W 0 400e0 32 " + data(k, 32) }
	f, image = findAndImport(t, record([]string{"W 0 4 4 01000000", load, one(1), load, one(2),
		load, both(3), "R 0 24 4 01000000"}), Options{From: FromRecord}, 0)
	if image != nil || !strings.HasPrefix(f.Why, "the last repetition ends inside a line") {
		t.Errorf("\n%s", f)
	}
}

// TestDoorbellThatWrapsMakesOneTurnAFrame has a doorbell that alternates between two values.
func TestDoorbellThatWrapsMakesOneTurnAFrame(t *testing.T) {
	var m frameTrace
	m.addSetUp()
	for k := range uint64(9) {
		m.addLines(access("W", 4, wh166+0x10020, (k+1)%2), access("W", 4, wh166+0x10024, 1),
			access("R", 4, wh166+0x10000, 0), access("R", 4, wh166+0x10000, 1))
	}
	f, image := findAndImport(t, m.text(), Options{From: FromMmiotrace}, 0)
	if image == nil || !strings.Contains(f.String(),
		"a frame contains 2 repetitions, after which the counters start again") {
		t.Errorf("\n%s", f)
	}
}

// TestFramesOfAQEMUTraceAreFound searches another format than the tests above: a trace of QEMU.
func TestFramesOfAQEMUTraceAreFound(t *testing.T) {
	text := captureText(t, "edu.qemutrace")
	o := Options{From: FromQemu, Board: &boards.Edu,
		Regions: []traces.Region{{Name: "edu-mmio", Base: 0x10000000}}}
	f, image := findAndImport(t, text, o, 0)
	if image == nil || variedPlaces(f) != "input BAR 0 0x8 4, output BAR 0 0x8 4" {
		t.Fatalf("\n%s", f)
	}
	replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
	mustRun(t, replay, device)
	for n, want := range map[uint32]uint32{5: 120, 10: 3628800, 12: 479001600} {
		binary.LittleEndian.PutUint32(replay.Input(0), n)
		if r := replay.Run(1); r.Code != hal.OK ||
			binary.LittleEndian.Uint32(replay.Output(1)) != want {
			t.Errorf("factorial of %d: %+v, output %x, want %d", n, r, replay.Output(1), want)
		}
	}
	f, image = findAndImport(t, text, o, 2)
	if image == nil || f.Chosen != 2 ||
		variedPlaces(f) != "input BAR 0 0x4 4, output BAR 0 0x4 4" {
		t.Errorf("\n%s", f)
	}
	carry, err := ParseCarry("0x4=0x8")
	if err != nil {
		t.Fatal(err)
	}
	wrong := o
	wrong.Carry = []Carry{carry}
	if _, err := FindFrames(strings.NewReader(text), wrong, 0); err == nil ||
		!strings.Contains(err.Error(), "leave out --carry 0x4=0x8") {
		t.Errorf("with a value that is not carried: %v, want an error that names the flag", err)
	}
	if _, err := FindFrames(strings.NewReader(text), o, 99); hal.CodeOf(err) != hal.Usage {
		t.Errorf("candidate 99: %v, want a usage error", err)
	}
}

// TestFramesAreCutAtNamedMarks checks that marks cut like line numbers, and that each sequence
// programs its windows itself.
func TestFramesAreCutAtNamedMarks(t *testing.T) {
	var m frameTrace
	m.addSetUp()
	for k := range 3 {
		m.addLines(fmt.Sprintf("MARK 1.0 frame %d", k))
		m.addFrame(k, 1)
	}
	m.addLines("MARK 1.0 end", access("W", 4, wh166+0x40000, 7))
	o := Options{From: FromMmiotrace, Inputs: []TensorSpec{mustTensor(t, "x=1,1,0x20000,int32,16")}}
	var err error
	if o.Frame, err = ParsePart("frame 1..frame 2"); err != nil {
		t.Fatal(err)
	}
	o.Stop = Part{From: "end"}
	image, report := mustImport(t, m.text(), o)
	names := map[string]int{}
	for _, s := range image.Sequences {
		names[s.Name] = len(s.Commands)
		if first := s.Commands[0].Opcode; first != gen.OpcodePoint && first != lmb.OpcodeMark {
			t.Errorf("sequence %s begins with %v, want a point or a mark", s.Name, first)
		}
	}
	if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got,
		[]string{"frame", "init", "stop"}) {
		t.Errorf("sequences %v, want frame, init and stop; %s", got, passSummary(report, "cut"))
	}
	if want := binary.LittleEndian.AppendUint32(nil, 1000); !bytes.Equal(image.Tensors[0].Data[:4],
		want) {
		t.Errorf("the input begins with %x, want %x of frame 1", image.Tensors[0].Data[:8], want)
	}
	wantError(t, m.text(), Options{From: FromMmiotrace, Stop: Part{From: "end"}},
		"--stop needs --frame")
	wantError(t, m.text(), Options{From: FromMmiotrace, Frame: Part{From: "nowhere"}},
		`the trace has no mark "nowhere", at which the frame must begin`)
}

// memorySession returns a recording of a device that accesses host memory, in four frames. A frame
// has the lines that the function frame returns, a store to a doorbell and a load of a flag.
func memorySession(frame func(k int) []string) string {
	list := []string{"MEM 10000000 4000", "DEVICE 0 1234 11e8 0000:00:04.0",
		"BAR 0 0 0 80000000 100000", "W 0 4 4 01000000"}
	for k := range 4 {
		if k == 0 { // a recording has only changes of the memory
			list = append(list, "HR 10000000 8 0102030405060708")
		}
		list = append(list, frame(k)...)
		list = append(list, "W 0 60 4 01000000", "R 0 20 4 80000000")
	}
	return recordText(list)
}

// TestHostMemoryThatDiffersBetweenFramesIsReported has frames whose accesses to BARs are equal, and
// whose data in host memory differ.
func TestHostMemoryThatDiffersBetweenFramesIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		frame func(k int) []string
		image bool
		want  string
	}{
		"nothing": {func(int) []string { return nil }, true, "nothing differs"},
		"data": {func(k int) []string {
			return []string{fmt.Sprintf("HR 10000040 4 %02x000000", k*k+1)}
		}, true, "input      host0 0x10000040, 4 bytes, line 6: in0, int32 x 1"},
		"a ring": {func(k int) []string {
			return []string{fmt.Sprintf("HR %x 4 %02x000000", 0x10001000+64*k, k*k+1)}
		}, false, "the program stores to a ring in host memory, 64 bytes further each time"},
		"results": {func(k int) []string {
			return []string{"W 0 60 4 02000000", "R 0 20 4 80000000",
				fmt.Sprintf("HW 10002000 4 %02x000000", k*k+1)}
		}, true, "output     host0 0x10002000, 4 bytes, line 6: out0, int32 x 1"},
		"an index": {func(k int) []string {
			return []string{fmt.Sprintf("HR 10003000 4 %02x000000", k+1)}
		}, false, "a value that counts: 0x1, 0x2, 0x3"},
		"now then": {func(k int) []string { return []string{"HR 10003000 4 01000000"}[:k/3] }, true,
			"input      host0 0x10003000"},
	} {
		text := memorySession(c.frame)
		f, image := findAndImport(t, text, Options{From: FromRecord}, 0)
		if (image != nil) != c.image || !strings.Contains(f.String(), c.want) {
			t.Errorf("%s: image %v, want image %v and %q in\n%s", name, image != nil, c.image,
				c.want, f)
		}
		if image != nil && !bytes.Equal(imageBytes(t, image),
			imageBytes(t, importWithFlags(t, text, Options{From: FromRecord}, f.Flags))) {
			t.Errorf("%s: importing with the printed flags makes a different image", name)
		}
	}
}

// TestFramesAreFoundAfterALongerSetUp: a program sets up a tile by repeating the same stores, which
// cover more of the trace than the frames that follow. If other accesses cover most of the trace,
// the search refuses the repeated stores; if not, they are a candidate without inputs and outputs.
func TestFramesAreFoundAfterALongerSetUp(t *testing.T) {
	for name, others := range map[string]uint64{"refused": 700, "without data": 0} {
		t.Run(name, func(t *testing.T) {
			var m frameTrace
			m.addLines(whPoint(wh166Config, 1, 1, 0))
			for range 60 {
				for register := range uint64(9) {
					m.addLines(access("W", 4, wh166+0x100+16*register, register))
				}
			}
			for i := range others { // these loads do not repeat
				m.addLines(access("R", 4, wh166+0x40000+8*i, i*i))
			}
			for k := range 4 {
				m.addFrame(k, 2, access("W", 4, wh166+0x18000, uint64(k*k*k+77)))
			}
			f, image := findAndImport(t, m.text(), Options{From: FromMmiotrace}, 0)
			if image == nil || f.Chosen != 2 || f.Candidates[0].Accesses != 9 ||
				(len(f.Candidates[0].Refused) > 0) != (others > 0) {
				t.Fatalf("\n%s", f)
			}
			// In the order of the program, though the second input has the lower address.
			want := "input (1,1) 0x20000 64, input (1,1) 0x18000 4, output (1,1) 0x30000 64"
			if got := variedPlaces(f); got != want {
				t.Errorf("inputs and outputs %s, want %s", got, want)
			}
			varies := f.Candidates[f.Chosen-1].Varies
			for i, name := range []string{"in0", "in1", "out0"} {
				if varies[i].Name != name {
					t.Errorf("tensor %d is named %s, want %s", i, varies[i].Name, name)
				}
			}
		})
	}
}

// TestRepeatedSetUpStepsAreNoFrame has repeated steps of a driver that sets up a device: a register
// that is queried again between other accesses, and two commands that happen to occur twice.
func TestRepeatedSetUpStepsAreNoFrame(t *testing.T) {
	head := []string{"DEVICE 0 1234 11e8 0000:00:04.0", "BAR 0 0 0 80000000 100000"}
	queries := func(k int) []string {
		return []string{fmt.Sprintf("W 0 60 4 %02x000000", k), "R 0 20 4 80000000"}
	}
	var between, twice []string
	for k := range 12 {
		between = slices.Concat(between, queries(2*k), queries(2*k+1))
		for at := range 4 + k%3 { // never the same
			between = append(between, fmt.Sprintf("W 0 %x 4 01000000", 0x04+4*((at*k+at)%2)),
				fmt.Sprintf("R 0 %x 4 00000000", 0x24+8*((at+k)%3)))
		}
		twice = append(twice, fmt.Sprintf("R 0 %x 4 00000000", 0x28+4*k),
			fmt.Sprintf("W 0 %x 4 01000000", 0x28+4*k))
	}
	twice = slices.Concat(twice[:6], queries(1), queries(2), twice[6:])
	for want, list := range map[string][]string{"more than in the repetitions, " +
		"and a frame would lack these commands": between,
		"the repetition occurs only twice, with 2 commands each": twice} {
		list = slices.Concat(head, list)
		text := recordText(list)
		f, err := FindFrames(strings.NewReader(text), Options{From: FromRecord}, 0)
		if err != nil || f.Found || !strings.Contains(f.String(), want) {
			t.Errorf("error %v, want no frame and %q in\n%s", err, want, f)
		}
	}
}

// TestFramesInHostMemoryAcceptNewData has frames of a device that fetches its input from host
// memory and writes its output to host memory. For the data of each frame, and for other data, the
// mock's DMA returns the matching output.
func TestFramesInHostMemoryAcceptNewData(t *testing.T) {
	const size = 64
	data := func(k int) []byte {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(k*k*31 + i*7 + k*i)
		}
		return b
	}
	text := func(b []byte) string { return hexadecimal.EncodeToString(b) }
	register := func(at int, v uint64) string {
		return fmt.Sprintf("W 0 %x 8 %s", at, text(binary.LittleEndian.AppendUint64(nil, v)))
	}
	list := []string{"MEM 10000000 2000", "DEVICE 0 1234 11e8 0000:00:04.0",
		"BAR 0 0 0 80000000 100000", "W 0 4 4 01000000"}
	for k := range 4 {
		list = append(list, fmt.Sprintf("HR 10000100 %d %s", size, text(data(k))),
			register(0x80, 0x10000100), register(0x88, 0x40000), register(0x90, size),
			register(0x98, 1), "R 0 98 4 01000000", "R 0 98 4 00000000",
			register(0x80, 0x40000), register(0x88, 0x10001000), register(0x90, size),
			register(0x98, 3), "R 0 98 4 01000000", "R 0 98 4 00000000",
			fmt.Sprintf("HW 10001000 %d %s", size, text(data(k))))
	}
	record := recordText(list)
	f, image := findAndImport(t, record, Options{From: FromRecord}, 0)
	if image == nil ||
		variedPlaces(f) != "input host0 0x10000100 64, output host0 0x10001000 64" ||
		len(f.Candidates[0].Starts) != 4 {
		t.Fatalf("\n%s", f)
	}
	if !bytes.Equal(image.Tensors[0].Data, data(0)) ||
		!bytes.Equal(image.Tensors[1].Data, data(0)) {
		t.Errorf("input %x and output %x, want the data of frame 0 in both",
			image.Tensors[0].Data, image.Tensors[1].Data)
	}
	replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
	mustRun(t, replay, device)
	for _, k := range []int{1, 2, 3, 9, 0} {
		copy(replay.Input(0), data(k))
		if r := replay.Run(1); r.Code != hal.OK || !bytes.Equal(replay.Output(1), data(k)) {
			t.Errorf("data %d: %+v, output %x, want %x; %s", k, r, replay.Output(1), data(k),
				device.Refusal())
		}
	}
	// The program stores the input before the frame that fetches it.
	once := append(slices.Clone(list[:5]), list[19:32]...)
	record = recordText(once)
	record = strings.Replace(record, text(data(1)), text(data(0)), 1)
	image, _ = mustImport(t, record, Options{From: FromRecord, Frame: Part{"7", ""},
		Inputs:  []TensorSpec{mustTensor(t, "x=bus:0x10000100,uint8,64")},
		Outputs: []TensorSpec{mustTensor(t, "y=bus:0x10001000,uint8,64")}})
	replay, device = loadOnMock(t, image, runtime.AnyTLBWindow)
	mustRun(t, replay, device)
	for _, k := range []int{1, 2, 0} {
		copy(replay.Input(0), data(k))
		if r := replay.Run(1); r.Code != hal.OK || !bytes.Equal(replay.Output(1), data(k)) {
			t.Errorf("data %d, stored before the frame: %+v, output %x, want %x; %s", k, r,
				replay.Output(1), data(k), device.Refusal())
		}
	}
	wantError(t, record, Options{From: FromRecord,
		Inputs: []TensorSpec{mustTensor(t, "x=bus:0x20000000,uint8,4")}},
		"input x: the recording has no host memory at bus:0x20000000..0x20000003")
	wantError(t, record, Options{From: FromRecord,
		Outputs: []TensorSpec{mustTensor(t, "y=bus:0x10000800,uint8,4")}},
		"output y: the recording shows no write by the device to this output")
}

// ringSession returns the recording of a driver that sets up registers in a loop, and hands the
// device two descriptors of a ring of four at a time, whose index it stores to a doorbell. buffer
// returns the number of the buffer that burst k sends.
func ringSession(bursts int, buffer func(k int) int) string {
	text := func(v uint64) string {
		return hexadecimal.EncodeToString(binary.LittleEndian.AppendUint64(nil, v))
	}
	list := []string{"MEM 10000000 8000", "DEVICE 0 1234 11e8 0000:00:04.0",
		"BAR 0 0 0 80000000 100000"}
	for k := range 16 {
		list = append(list, fmt.Sprintf("W 0 4 4 %02x000000", 16*k),
			fmt.Sprintf("R 0 4 4 %02xffffff", 255-16*k), "R 0 20 4 00000000",
			fmt.Sprintf("W 0 4 4 %02x000000", 16*k+1))
	}
	for k := range bursts {
		at := 0x10000000 + 32*(k%2)
		data := 0x10001000 + 0x100*buffer(k)
		list = append(list, fmt.Sprintf("HR %x 8 %s", data, text(uint64(k*k*0x1234567+99))),
			fmt.Sprintf("HR %x 32 %s%s%s%s", at, text(uint64(data)), text(64),
				text(uint64(data+0x40)), text(64)), fmt.Sprintf("W 0 60 4 %02x000000", (k+1)%2*2),
			fmt.Sprintf("HW %x 4 01000000", at+12), fmt.Sprintf("HW %x 4 01000000", at+28))
	}
	return recordText(list)
}

// TestTurnOfARingInHostMemoryIsAFrame: a frame is one turn of the ring, or moves with it if the
// data are at a new address in each burst. Two bursts show no ring.
func TestTurnOfARingInHostMemoryIsAFrame(t *testing.T) {
	text := ringSession(8, func(k int) int { return k % 2 })
	f, image := findAndImport(t, text, Options{From: FromRecord}, 0)
	if image == nil || !strings.Contains(f.String(), "a frame contains 2 repetitions") ||
		variedPlaces(f) != "input host0 0x10001000 4, input host0 0x10001100 4" {
		t.Fatalf("\n%s", f)
	}
	if !bytes.Equal(imageBytes(t, image), imageBytes(t,
		importWithFlags(t, text, Options{From: FromRecord}, f.Flags))) {
		t.Error("importing with the printed flags makes a different image")
	}
	f, image = findAndImport(t, ringSession(9, func(k int) int { return (k*k + k/2) % 7 }),
		Options{From: FromRecord}, 0)
	if image == nil || !strings.Contains(f.String(), "ring       bus:0x10000000, addresses from "+
		"0x10000000 to 0x10000040, 0x20 a repetition, from line 69 on (starts again in line 79)") ||
		variedPlaces(f) != "input bus: 0x10001000 4" {
		t.Fatalf("\n%s", f)
	}
	const frame = `advance ring0 0x20
with ring0 offset
copy.8 host0+0x0 <- hex 00100010 00000000 40000000 00000000 ... (32 bytes)
with ring0 offset
write.8 host0+0x0 bus(host0)+0x1000
with ring0 offset
write.8 host0+0x10 bus(host0)+0x1040
copy.4 host0+0x1004 <- hex 00000000 bulk
copy.4 host0+0x1000 <- in0[0:4]
fence
advance ring1 0x2
with ring1 value
write.4 bar0+0x60 0x0
with ring0 offset
poll.2 host0+0x1c == 0x1 within 1s
fence
with ring0 offset
expect.4 host0+0xc == 0x1
with ring0 offset
expect.4 host0+0x1c == 0x1
`
	if got := sequenceText(image, "frame"); got != frame {
		t.Errorf("the frame is\n%s\nwant\n%s", got, frame)
	}
	if f, image := findAndImport(t, ringSession(2, func(k int) int { return k % 2 }),
		Options{From: FromRecord}, 0); image != nil {
		t.Errorf("\n%s", f)
	}
}
