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

// found looks for frames in a trace and imports it as they say.
func found(t *testing.T, text string, o Options, which int) (*Frames, *lmb.Image) {
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

// byHand imports a trace with the flags that a search has printed.
func byHand(t *testing.T, text string, o Options, flags []string) *lmb.Image {
	t.Helper()
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, " ")
		var err error
		switch name {
		case "--frame":
			o.Frame, err = ParsePart(value)
		case "--stop":
			o.Stop, err = ParsePart(value)
		case "--input":
			o.Inputs = append(o.Inputs, mustTensor(t, value))
		case "--output":
			o.Outputs = append(o.Outputs, mustTensor(t, value))
		case "--poll":
			o.Poll = append(o.Poll, mustRange(t, value))
		default:
			t.Fatalf("flag %s", flag)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	image, _, err := Import(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func encoded(t *testing.T, image *lmb.Image) []byte { return lmbtest.Encode(t, image) }

func unzipped(t *testing.T, name string) string {
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

// reached is a byte that an access of a frame reached.
type reached struct {
	store   bool
	tile    string
	address uint64
	value   byte
}

// collapsed keeps the last of loads that were made of one place in a row: how
// often a program looks is its own affair.
type collapsed struct {
	list []reached
	last string // load
}

func (c *collapsed) add(store bool, tile string, address uint64, data []byte) {
	key := fmt.Sprint(tile, address, len(data))
	if !store && key == c.last {
		c.list = c.list[:len(c.list)-len(data)]
	}
	if c.last = key; store {
		c.last = ""
	}
	for i, b := range data {
		c.list = append(c.list, reached{store, tile, address + uint64(i), b})
	}
}

// whRecorded reads lines of a record of Wormhole, window 166 alone: it shares no
// code with what it tests.
func whRecorded(t *testing.T, text string, from, to int) *collapsed {
	t.Helper()
	var c collapsed
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
			for len(data) > 0 { // as the processor stores it, at most 8 bytes at once
				n := min(8, len(data))
				c.add(f[0] == "W", fmt.Sprintf("(%d,%d)", config>>12&63, config>>18&63),
					config&0xfff<<24+at-0x0b000000, data[:n])
				data, at = data[n:], at+uint64(n)
			}
		}
	}
	return &c
}

// whReached is the journal of a mock, with the tile's own number.
func whReached(d *mock.Device, tiles map[string]string, from int) *collapsed {
	var c collapsed
	for _, a := range d.Journal()[from:] {
		data := binary.LittleEndian.AppendUint64(nil, a.Value)[:a.Width]
		c.add(a.Op != mock.Load, tiles[fmt.Sprintf("(%d,%d)", a.Place.X, a.Place.Y)],
			a.Place.Address, data)
	}
	return &c
}

// Five frames of a real client: the frame of the image, given the data of each
// recorded one, makes its accesses and gives its results. The stand-in computes
// these.
func TestFramesOfARealClientAreFoundAndDoWhatWasRecorded(t *testing.T) {
	text, o := unzipped(t, "wh.frames.record.gz"), Options{From: FromRecord}
	f, image := found(t, text, o, 0)
	starts := []int{183, 6810, 13437, 20064, 26691, 33317}
	if c := f.Candidates[0]; f.Chosen != 1 || !slices.Equal(c.Starts, starts[:5]) {
		t.Fatalf("\n%s", f)
	}
	want := []string{"--frame 183..6809", "--input in0=18,18,0x20000,int32,128",
		"--input in1=18,18,0x30000,int32,128", "--output out0=18,18,0x50000,int32,128"}
	if !slices.Equal(f.Flags, want) {
		t.Errorf("flags %q", f.Flags)
	}
	if !bytes.Equal(encoded(t, image), encoded(t, byHand(t, text, o, f.Flags))) {
		t.Error("the flags make another image")
	}
	replay, device := load(t, image, runtime.AnyTLBWindow)
	device.Record(true)
	if r := replay.Run(0); r.Code != hal.OK || image.Sequences[0].Name != "init" {
		t.Fatal(r)
	}
	for i, from := range starts[:5] {
		record := whRecorded(t, text, from, starts[i+1]-1)
		take := func(address uint64) (data []byte) {
			for _, r := range record.list {
				if r.address >= address && r.address < address+512 {
					data = append(data, r.value)
				}
			}
			return data
		}
		copy(replay.Input(0), take(0x20000))
		copy(replay.Input(1), take(0x30000))
		before := len(device.Journal())
		if r := replay.Run(1); r.Code != hal.OK {
			t.Fatalf("frame %d: %+v %s", i, r, device.Refusal())
		}
		if !bytes.Equal(replay.Output(2), take(0x50000)) {
			t.Errorf("frame %d gives another result", i)
		}
		// The one tile has another number after the device's translation.
		tile := device.Journal()[before].Place
		tiles := map[string]string{fmt.Sprintf("(%d,%d)", tile.X, tile.Y): "(18,18)"}
		if got := whReached(device, tiles, before); !slices.Equal(got.list, record.list) {
			t.Errorf("frame %d makes other accesses: %d and %d bytes", i, len(got.list),
				len(record.list))
		}
	}
}

// made writes an mmiotrace of frames on a tile: what a frame begins with, an
// input of 16 words, the start, n looks at a flag, an output, and its end.
type made struct{ list []string }

func (m *made) add(lines ...string) { m.list = append(m.list, lines...) }

func (m *made) frame(k, looks int, between ...string) {
	m.add(whPoint(wh166Config, 1, 1, 0), access("W", 4, wh166+0x10000, 0))
	for i := range uint64(8) {
		m.add(access("W", 8, wh166+0x20000+8*i, uint64(1000*k*k)+i*7|(uint64(k*k)+i)<<32))
	}
	m.add(between...)
	m.add(access("W", 4, wh166+0x10004, 1))
	for range looks {
		m.add(access("R", 4, wh166+0x10000, 0))
	}
	m.add(access("R", 4, wh166+0x10000, 0x600df00d))
	for i := range uint64(8) {
		m.add(access("R", 8, wh166+0x30000+8*i, uint64(k*k*3)+i|(uint64(k*k)+7*i)<<32))
	}
}

func (m *made) start() {
	m.add(whPoint(wh166Config, 1, 1, 0), access("W", 8, wh166+0x100, 0x1234),
		access("W", 8, wh166+0x200, 0x5678))
}

func (m *made) text() string { return lines(whDevice, m.list...) }

// roles lists what differs, for a test.
func roles(f *Frames) string {
	var list []string
	for _, v := range f.Candidates[f.Chosen-1].Varies {
		list = append(list, fmt.Sprintf("%s %s 0x%x %d", v.Role, v.Place, v.Address, v.Size))
	}
	return strings.Join(list, ", ")
}

const madeRoles = "input (1,1) 0x20000 64, output (1,1) 0x30000 64"

func TestFramesAreFoundWhateverIsAroundThem(t *testing.T) {
	o := Options{From: FromMmiotrace}
	for name, c := range map[string]struct {
		make  func(m *made)
		times int
		want  string // flags beyond --frame, --input and --output, and notes
	}{
		"nothing": {func(m *made) {
			for k := range 4 {
				m.frame(k, 2)
			}
		}, 4, ""},
		"init and stop": {func(m *made) {
			m.start()
			for k := range 4 {
				m.frame(k, 2)
			}
			m.add(access("W", 4, wh166+0x40000, 7))
		}, 4, "--stop"},
		"waits of other lengths, the first none": {func(m *made) {
			m.start()
			for k := range 5 {
				m.frame(k, k*k)
			}
		}, 5, ""},
		"a last frame that is cut": {func(m *made) {
			m.start()
			for k := range 4 {
				m.frame(k, 1)
			}
			m.list = m.list[:len(m.list)-12]
		}, 3, "cut"},
		"an inner repetition": {func(m *made) {
			m.start()
			for k := range 3 {
				var inner []string
				for i := range uint64(40) { // a port that is fed
					inner = append(inner, access("W", 4, wh166+0x50000, i%2),
						access("R", 4, wh166+0x50008, 1))
				}
				m.frame(k, 1, inner...)
			}
		}, 3, ""},
		"the same again later": {func(m *made) {
			m.start()
			for k := range 4 {
				m.frame(k, 1)
			}
			m.add(access("W", 4, wh166+0x60000, 7), access("R", 4, wh166+0x60004, 7))
			for k := range 3 {
				m.frame(k+9, 1)
			}
			m.add(access("W", 4, wh166+0x40000, 7))
		}, 7, "again --stop"},
	} {
		t.Run(name, func(t *testing.T) {
			var m made
			c.make(&m)
			f, image := found(t, m.text(), o, 0)
			if image == nil || roles(f) != madeRoles ||
				len(f.Candidates[f.Chosen-1].Starts) != c.times {
				t.Fatalf("\n%s", f)
			}
			for _, word := range strings.Fields(c.want) {
				if !strings.Contains(f.String(), word) {
					t.Errorf("no %s in\n%s", word, f)
				}
			}
			if stop := strings.Contains(c.want,
				"--stop"); (image.Sequences[len(image.Sequences)-1].Name == "stop") != stop {
				t.Errorf("stop: %v", image.Sequences[len(image.Sequences)-1].Name)
			}
			if !bytes.Equal(encoded(t, image), encoded(t, byHand(t, m.text(), o, f.Flags))) {
				t.Error("the flags make another image")
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
				t.Errorf("%d polls in a frame, want 1\n%s", polls, show(image))
			}
		})
	}
}

// What is no frame is refused, and the reason is the one.
func TestWhatIsNoFrameIsRefused(t *testing.T) {
	one := func(op string, width int, at, value uint64) string {
		return access(op, width, wh166+at,
			value)
	}
	frames := func(n int, between func(k int) []string) func(m *made) {
		return func(m *made) {
			m.start()
			for k := range n {
				m.frame(k, 1, between(k)...)
			}
		}
	}
	for name, c := range map[string]struct {
		make func(m *made)
		want string
	}{
		"nothing repeated": {func(m *made) {
			m.start()
			m.frame(1, 3)
			m.add(one("W", 4, 0x10010, 1), one("R", 4, 0x10014, 2))
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
			var m made
			c.make(&m)
			f, image := found(t, m.text(), Options{From: FromMmiotrace}, 0)
			if image != nil || !strings.Contains(f.Why, c.want) ||
				!strings.Contains(f.String(), "no frame   ") ||
				!strings.Contains(f.String(), "import without --find-frames") {
				t.Errorf("want %q\n%s", c.want, f)
			}
		})
	}
}

// TestASingleWordIsProposedAsANumber has an input of four bytes that look like no element type.
func TestASingleWordIsProposedAsANumber(t *testing.T) {
	var m made
	m.start()
	for k := range 5 {
		word := uint64(uint32(k*k*k+3) * 0x9e3779b9)
		m.frame(k, 1, access("W", 4, wh166+0x24000, word))
	}
	f, image := found(t, m.text(), Options{From: FromMmiotrace}, 0)
	if image == nil || !strings.Contains(strings.Join(f.Flags, " "), "0x24000,uint32,1") {
		t.Error(f)
	}
}

// Two inputs of a frame in one place are told apart by their lines, in what is
// proposed as by hand; and so are the values of a doorbell that counts on.
func TestInputsInOnePlaceHaveLines(t *testing.T) {
	var m made
	m.start()
	for k := range 4 {
		m.frame(k, 1, access("W", 4, wh166+0x10050, 1),
			access("W", 8, wh166+0x20000, uint64(77*k*k+5)), access("W", 4, wh166+0x10050, 1))
	}
	f, image := found(t, m.text(), Options{From: FromMmiotrace}, 0)
	if image == nil || !slices.Equal(encoded(t, image),
		encoded(t, byHand(t, m.text(), Options{From: FromMmiotrace}, f.Flags))) {
		t.Fatal(f)
	}
	var copies []string
	for _, s := range image.Sequences {
		for _, c := range s.Commands {
			if i, ok := lmb.FromInput(&c.Command); ok {
				copies = append(copies, fmt.Sprint(image.Tensors[i].Name,
					image.Tensors[i].Data[:2]))
			}
		}
	}
	if want := "[in0[0 0] in1[5 0]]"; fmt.Sprint(copies) != want {
		t.Errorf("%v, want %s\n%s", copies, want, f)
	}

	m = made{}
	m.start()
	for k := range uint64(4) {
		m.frame(int(k), 1, access("W", 4, wh166+0x10050, 2*k), access("R", 4, wh166+0x10054, 1),
			access("W", 4, wh166+0x10050, 2*k+1))
	}
	f, _ = found(t, m.text(), Options{From: FromMmiotrace}, 0)
	_, hint, _ := strings.Cut(f.String(), "by hand    ")
	o := Options{From: FromMmiotrace}
	for _, flag := range strings.Fields(hint)[:4] {
		if flag != "--input" {
			o.Inputs = append(o.Inputs, mustTensor(t, flag))
		}
	}
	if f, image = found(t, m.text(), o, 0); image == nil || image.Tensors[0].Data[0] != 0 ||
		image.Tensors[1].Data[0] != 1 {
		t.Errorf("%s\n%s", hint, f)
	}
}

// A place that a frame stores to again and again is a port, refused once.
func TestPortThatIsFedIsNoInput(t *testing.T) {
	for n, want := range map[int]string{16: "", 17: "a data port",
		400: "a data port"} {
		var m made
		m.start()
		for k := range 40 {
			var stores []string
			for i := range n {
				stores = append(stores, access("W", 4, wh166+0x10050, uint64(k*k*7919+i*i*109)),
					access("R", 4, wh166+0x10054, 1))
			}
			m.frame(k, 1, stores...)
		}
		f, err := FindFrames(strings.NewReader(m.text()), Options{From: FromMmiotrace}, 1)
		if err != nil || f.Found != (want == "") || !strings.Contains(f.Why, want) ||
			strings.Contains(f.Why, "more)") {
			t.Errorf("%d stores: %v\n%s", n, err, f)
		}
	}
}

// A ring that has gone round at least twice is a frame of one turn, if its
// slots have places of their own; and what the user names is not judged.
func TestRingsThatGoRoundAndWhatTheUserNames(t *testing.T) {
	var m made
	m.start()
	for k := range uint64(8) {
		m.add(access("W", 4, wh166+0x20000+64*(k%4), 5+k*k), access("W", 4, wh166+0x10020, (k+1)%4),
			access("R", 4, wh166+0x10000, 0), access("R", 4, wh166+0x10000, 1))
	}
	f, image := found(t, m.text(), Options{From: FromMmiotrace}, 0)
	if image == nil || len(f.Candidates[f.Chosen-1].Starts) != 2 ||
		strings.Count(roles(f), "input") != 4 {
		t.Errorf("\n%s", f)
	}
	m = made{}
	m.start()
	for k := range 6 {
		m.frame(k, 1, access("W", 4, wh166+0x10020, uint64(k+1)))
	}
	o := Options{From: FromMmiotrace,
		Inputs: []TensorSpec{mustTensor(t, "tail=1,1,0x10020,uint32,1"),
			mustTensor(t, "in0=1,1,0x20000,int32,16")}}
	f, image = found(t, m.text(), o, 0)
	if image == nil || roles(f) != "output (1,1) 0x30000 64" || len(image.Tensors) != 3 {
		t.Errorf("\n%s", f)
	}
}

// A doorbell of a card that sends, as testpmd's: it is no frame, and is told
// whatever is.
func TestWhatCountsInATraceIsTold(t *testing.T) {
	var m made
	m.start()
	for i := range uint64(9) { // registers that are read and written without end
		m.add(access("W", 4, wh166+0x10010, i%2), access("R", 4, wh166+0x10014, 1))
	}
	for i := range uint64(4) {
		m.add(access("W", 4, wh166+0x3818, 32*i))
	}
	f, err := FindFrames(strings.NewReader(m.text()), Options{From: FromMmiotrace}, 0)
	want := "counts     (1,1) 0x3818, 4 stores from line 24 on: 0x0, 0x20, 0x40, 0x60 ...\n"
	if err != nil || !strings.Contains(f.String(), want) {
		t.Errorf("%v\n%s", err, f)
	}
}

// Counters that begin again after numbers without a common factor are no ring
// that was seen to go round, however long that would take.
func TestTurnsThatMultiplyBeyondTheTraceAreNotTaken(t *testing.T) {
	var m made
	m.start()
	for k := range uint64(5) {
		var between []string
		for i, turn := range []uint64{2, 1<<31 - 1, 1<<31 - 19} {
			between = append(between, access("W", 4, wh166+0x10020+0x10*uint64(i),
				k*min(turn/2, 1e9)%turn))
		}
		m.frame(int(k), 1, between...)
	}
	f, image := found(t, m.text(), Options{From: FromMmiotrace}, 0)
	if image != nil || !strings.Contains(f.Why, "and begins again after 2") ||
		len(f.Candidates[f.Chosen-1].Starts) != 5 {
		t.Errorf("\n%s", f)
	}
}

// A word that counts inside a larger input stays there, and is told.
func TestWhatCountsInsideAnInputIsTold(t *testing.T) {
	for _, times := range []int{3, 5} {
		var m made
		m.start()
		for k := range times {
			var between []string
			for i := range uint64(8) {
				v := uint64(k*k*k*77) + i*uint64(k*k)
				if i == 5 {
					v = 0x40 + 8*uint64(k)
				}
				between = append(between, access("W", 4, wh166+0x20080+4*i, v))
			}
			m.frame(k, 1, between...)
		}
		f, image := found(t, m.text(), Options{From: FromMmiotrace}, 0)
		want := "the input at (1,1) 0x20080 seems to contain 1 counter of 4 bytes (the first is " +
			"at 0x20094: 0x40, 0x48, 0x50 ...); the replaying program must " +
			"set the next value in each run"
		if image == nil || !strings.Contains(f.String(), want) ||
			strings.Count(f.String(), "the replaying program") != 1 {
			t.Errorf("\n%s", f)
		}
	}
}

// Numbers that go by many steps are given up at the third.
func TestNumbersThatDoNotCountAreGivenUpEarly(t *testing.T) {
	list := make([]uint64, 4000)
	for i := range list {
		list[i] = uint64(i * i)
	}
	if n := testing.AllocsPerRun(20, func() { progression(list, 1<<32-1) }); n > 4 {
		t.Errorf("%v allocations", n)
	}
}

// A line that holds the end of one repetition and the beginning of the next
// cannot be cut: another beginning is taken, or the reason told.
func TestRepetitionsThatMeetInsideALineAreNotCutThere(t *testing.T) {
	data := func(k, size int) string { return strings.Repeat(fmt.Sprintf("%02x", k*k+3), size) }
	look := "R 0 20 4 01000000"
	both := func(k int) string { return "W 0 400e0 64 " + data(k, 64) }
	list := []string{"W 0 40100 32 " + data(1, 32), look, both(2), look, both(3), look,
		"W 0 400e0 32 " + data(4, 32)}
	record := func(list []string) string {
		list = append([]string{"DEVICE 0 1234 11e8 0000:00:04.0", "BAR 0 0 0 80000000 100000"},
			list...)
		return "LMRECORD 2\n" + strings.Join(list, "\n") + fmt.Sprintf("\nEND %d\n", len(list))
	}
	f, image := found(t, record(list), Options{From: FromRecord}, 0)
	if image != nil || !strings.HasPrefix(f.Why, "a repetition begins inside a line") {
		t.Errorf("\n%s", f)
	}
	f, image = found(t, record(append(list[:5:5], look, both(5), look)), Options{From: FromRecord},
		0)
	if image == nil || strings.Count(strings.Join(f.Flags, " "), "--input") != 1 {
		t.Errorf("\n%s", f)
	}
	one := func(k int) string { return "W 0 400e0 32 " + data(k, 32) }
	f, image = found(t, record([]string{"W 0 4 4 01000000", look, one(1), look, one(2), look,
		both(3), "R 0 24 4 01000000"}), Options{From: FromRecord}, 0)
	if image != nil || !strings.HasPrefix(f.Why, "the last repetition ends inside a line") {
		t.Errorf("\n%s", f)
	}
}

// A doorbell alone goes round: the frame is a turn of it.
func TestDoorbellThatGoesRoundMakesAFrameOfATurn(t *testing.T) {
	var m made
	m.start()
	for k := range uint64(9) {
		m.add(access("W", 4, wh166+0x10020, (k+1)%2), access("W", 4, wh166+0x10024, 1),
			access("R", 4, wh166+0x10000, 0), access("R", 4, wh166+0x10000, 1))
	}
	f, image := found(t, m.text(), Options{From: FromMmiotrace}, 0)
	if image == nil || !strings.Contains(f.String(),
		"a frame contains 2 repetitions, after which the counters start again") {
		t.Errorf("\n%s", f)
	}
}

// Every format that is read: QEMU's trace of a device of registers.
func TestFramesOfQEMUsTraceAreFound(t *testing.T) {
	text := capture(t, "edu.qemutrace")
	o := Options{From: FromQemu, Board: &boards.Edu,
		Regions: []traces.Region{{Name: "edu-mmio", Base: 0x10000000}}}
	f, image := found(t, text, o, 0)
	if image == nil || roles(f) != "input BAR 0 0x8 4, output BAR 0 0x8 4" {
		t.Fatalf("\n%s", f)
	}
	replay, device := load(t, image, runtime.AnyTLBWindow)
	mustRun(t, replay, device)
	for n, want := range map[uint32]uint32{5: 120, 10: 3628800, 12: 479001600} {
		binary.LittleEndian.PutUint32(replay.Input(0), n)
		if r := replay.Run(1); r.Code != hal.OK ||
			binary.LittleEndian.Uint32(replay.Output(1)) != want {
			t.Errorf("%d: %+v, %x", n, r, replay.Output(1))
		}
	}
	f, image = found(t, text, o, 2)
	if image == nil || f.Chosen != 2 || roles(f) != "input BAR 0 0x4 4, output BAR 0 0x4 4" {
		t.Errorf("\n%s", f)
	}
	if _, err := FindFrames(strings.NewReader(text), o, 99); hal.CodeOf(err) != hal.Usage {
		t.Error(err)
	}
}

// Marks cut as lines do, and a sequence points its windows itself.
func TestFramesAreCutByHandAtMarks(t *testing.T) {
	var m made
	m.start()
	for k := range 3 {
		m.add(fmt.Sprintf("MARK 1.0 frame %d", k))
		m.frame(k, 1)
	}
	m.add("MARK 1.0 end", access("W", 4, wh166+0x40000, 7))
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
			t.Errorf("%s begins with %v", s.Name, first)
		}
	}
	if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got,
		[]string{"frame", "init", "stop"}) {
		t.Errorf("%v; %s", got, did(report, "cut"))
	}
	if want := binary.LittleEndian.AppendUint32(nil, 1000); !bytes.Equal(image.Tensors[0].Data[:4],
		want) {
		t.Errorf("the input is that of another frame: %x", image.Tensors[0].Data[:8])
	}
	refused(t, m.text(), Options{From: FromMmiotrace, Stop: Part{From: "end"}},
		"--stop needs --frame")
	refused(t, m.text(), Options{From: FromMmiotrace, Frame: Part{From: "nowhere"}},
		`the trace has no mark "nowhere", at which the frame must begin`)
}

// memorySession is a record of a device that reaches host memory: four frames,
// each begun by a store and ended by a flag in memory or in a register.
func memorySession(frame func(k int) []string) string {
	list := []string{"MEM 10000000 4000", "DEVICE 0 1234 11e8 0000:00:04.0",
		"BAR 0 0 0 80000000 100000", "W 0 4 4 01000000"}
	for k := range 4 {
		if k == 0 { // what does not change is not told again
			list = append(list, "HR 10000000 8 0102030405060708")
		}
		list = append(list, frame(k)...)
		list = append(list, "W 0 60 4 01000000", "R 0 20 4 80000000")
	}
	return "LMRECORD 2\n" + strings.Join(list, "\n") + fmt.Sprintf("\nEND %d\n", len(list))
}

// Host memory is no command, and what differs there is told: a frame whose
// commands are the same whatever lies there is one.
func TestHostMemoryThatDiffersBetweenFramesIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		frame func(k int) []string
		image bool
		want  string
	}{
		"nothing": {func(int) []string { return nil }, true, "nothing differs"},
		"data": {func(k int) []string {
			return []string{fmt.Sprintf("HR 10000040 4 %02x000000",
				k*k+1)}
		}, true, "input      host0 0x10000040, 4 bytes, line 6: in0, int32 x 1"},
		"a ring": {func(k int) []string {
			return []string{fmt.Sprintf("HR %x 4 %02x000000", 0x10001000+64*k, k*k+1)}
		}, false, "the program stores to a ring in host memory, 64 bytes further each time"},
		"results": {func(k int) []string {
			return []string{"W 0 60 4 02000000", fmt.Sprintf("HW 10002000 4 %02x000000", k*k+1)}
		}, true, "output     host0 0x10002000, 4 bytes, line 6: out0, int32 x 1"},
		"an index": {func(k int) []string {
			return []string{fmt.Sprintf("HR 10003000 4 %02x000000",
				k+1)}
		}, false, "a value that counts: 0x1, 0x2, 0x3"},
		"now then": {func(k int) []string { return []string{"HR 10003000 4 01000000"}[:k/3] }, true,
			"input      host0 0x10003000"},
	} {
		text := memorySession(c.frame)
		f, image := found(t, text, Options{From: FromRecord}, 0)
		if (image != nil) != c.image || !strings.Contains(f.String(), c.want) {
			t.Errorf("%s: want %q\n%s", name, c.want, f)
		}
		if image != nil && !bytes.Equal(encoded(t, image),
			encoded(t, byHand(t, text, Options{From: FromRecord}, f.Flags))) {
			t.Errorf("%s: the flags make another image", name)
		}
	}
}

// TestFramesAreFoundBesideALongerSetUp: a program sets up a tile by many rounds of the same stores,
// which cover more of the trace than the frames that follow. They can be no frame if other things
// cover most of the trace, and else one without inputs and outputs.
func TestFramesAreFoundBesideALongerSetUp(t *testing.T) {
	for name, others := range map[string]uint64{"refused": 700, "without data": 0} {
		t.Run(name, func(t *testing.T) {
			var m made
			m.add(whPoint(wh166Config, 1, 1, 0))
			for range 60 {
				for register := range uint64(9) {
					m.add(access("W", 4, wh166+0x100+16*register, register))
				}
			}
			for i := range others { // nothing of it repeats
				m.add(access("R", 4, wh166+0x40000+8*i, i*i))
			}
			for k := range 4 {
				m.frame(k, 2, access("W", 4, wh166+0x18000, uint64(k*k*k+77)))
			}
			f, image := found(t, m.text(), Options{From: FromMmiotrace}, 0)
			if image == nil || f.Chosen != 2 || f.Candidates[0].Accesses != 9 ||
				(len(f.Candidates[0].Refused) > 0) != (others > 0) {
				t.Fatalf("\n%s", f)
			}
			// In the order of the program, though the second input has the lower address.
			want := "input (1,1) 0x20000 64, input (1,1) 0x18000 4, output (1,1) 0x30000 64"
			if got := roles(f); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			varies := f.Candidates[f.Chosen-1].Varies
			for i, name := range []string{"in0", "in1", "out0"} {
				if varies[i].Name != name {
					t.Errorf("%d is named %s, want %s", i, varies[i].Name, name)
				}
			}
		})
	}
}

// What a driver does over and over while it sets a device up is no frame: a
// register that is asked for again between other things, and two commands that
// happen to come twice.
func TestStepsOfSettingUpAreNoFrame(t *testing.T) {
	head := []string{"DEVICE 0 1234 11e8 0000:00:04.0", "BAR 0 0 0 80000000 100000"}
	asks := func(k int) []string {
		return []string{fmt.Sprintf("W 0 60 4 %02x000000", k), "R 0 20 4 80000000"}
	}
	var between, twice []string
	for k := range 12 {
		between = slices.Concat(between, asks(2*k), asks(2*k+1))
		for at := range 4 + k%3 { // never the same
			between = append(between, fmt.Sprintf("W 0 %x 4 01000000", 0x04+4*((at*k+at)%2)),
				fmt.Sprintf("R 0 %x 4 00000000", 0x24+8*((at+k)%3)))
		}
		twice = append(twice, fmt.Sprintf("R 0 %x 4 00000000", 0x28+4*k),
			fmt.Sprintf("W 0 %x 4 01000000", 0x28+4*k))
	}
	twice = slices.Concat(twice[:6], asks(1), asks(2), twice[6:])
	for want, list := range map[string][]string{"more than in the repetitions, " +
		"and a frame would lack these commands": between,
		"the repetition occurs only twice, with 2 commands each": twice} {
		list = slices.Concat(head, list)
		text := "LMRECORD 2\n" + strings.Join(list, "\n") + fmt.Sprintf("\nEND %d\n", len(list))
		f, err := FindFrames(strings.NewReader(text), Options{From: FromRecord}, 0)
		if err != nil || f.Found || !strings.Contains(f.String(), want) {
			t.Errorf("%v\n%s", err, f)
		}
	}
}

// Frames of a device that fetches its input from host memory and leaves its
// output there: with the data of each frame, and with other data, the stand-in's
// DMA returns what belongs to it.
func TestFramesInHostMemoryTakeNewData(t *testing.T) {
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
	record := "LMRECORD 2\n" + strings.Join(list, "\n") + fmt.Sprintf("\nEND %d\n", len(list))
	f, image := found(t, record, Options{From: FromRecord}, 0)
	if image == nil || roles(f) != "input host0 0x10000100 64, output host0 0x10001000 64" ||
		len(f.Candidates[0].Starts) != 4 {
		t.Fatalf("\n%s", f)
	}
	if !bytes.Equal(image.Tensors[0].Data, data(0)) ||
		!bytes.Equal(image.Tensors[1].Data, data(0)) {
		t.Errorf("recorded data %x %x", image.Tensors[0].Data, image.Tensors[1].Data)
	}
	replay, device := load(t, image, runtime.AnyTLBWindow)
	mustRun(t, replay, device)
	for _, k := range []int{1, 2, 3, 9, 0} {
		copy(replay.Input(0), data(k))
		if r := replay.Run(1); r.Code != hal.OK || !bytes.Equal(replay.Output(1), data(k)) {
			t.Errorf("frame %d: %+v, %x; %s", k, r, replay.Output(1), device.Refusal())
		}
	}
	// The program stored in front of the frame what that fetches.
	once := append(slices.Clone(list[:5]), list[19:32]...)
	record = "LMRECORD 2\n" + strings.Join(once, "\n") + fmt.Sprintf("\nEND %d\n", len(once))
	record = strings.Replace(record, text(data(1)), text(data(0)), 1)
	image, _ = mustImport(t, record, Options{From: FromRecord, Frame: Part{"7", ""},
		Inputs:  []TensorSpec{mustTensor(t, "x=bus:0x10000100,uint8,64")},
		Outputs: []TensorSpec{mustTensor(t, "y=bus:0x10001000,uint8,64")}})
	replay, device = load(t, image, runtime.AnyTLBWindow)
	mustRun(t, replay, device)
	for _, k := range []int{1, 2, 0} {
		copy(replay.Input(0), data(k))
		if r := replay.Run(1); r.Code != hal.OK || !bytes.Equal(replay.Output(1), data(k)) {
			t.Errorf("frame %d that stores nothing: %+v, %x; %s", k, r, replay.Output(1),
				device.Refusal())
		}
	}
	refused(t, record, Options{From: FromRecord,
		Inputs: []TensorSpec{mustTensor(t, "x=bus:0x20000000,uint8,4")}},
		"input x: the recording has no host memory at bus:0x20000000..0x20000003")
	refused(t, record, Options{From: FromRecord,
		Outputs: []TensorSpec{mustTensor(t, "y=bus:0x10000800,uint8,4")}},
		"output y: the recording shows no write by the device to this output")
}

// ringSession is a driver's: it sets up by a loop of registers, and hands the
// device two descriptors of a ring of four at a time, whose index is its doorbell.
// What it sends is in two buffers of a descriptor's own, or in others each time.
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
	return "LMRECORD 2\n" + strings.Join(list, "\n") + fmt.Sprintf("\nEND %d\n", len(list))
}

// A doorbell alone is a frame by what is handed over with it: a turn of the ring.
func TestTurnOfARingInHostMemoryIsAFrame(t *testing.T) {
	text := ringSession(8, func(k int) int { return k % 2 })
	f, image := found(t, text, Options{From: FromRecord}, 0)
	if image == nil || !strings.Contains(f.String(), "a frame contains 2 repetitions") ||
		roles(f) != "input host0 0x10001000 4, input host0 0x10001100 4" {
		t.Fatalf("\n%s", f)
	}
	if !bytes.Equal(encoded(t, image), encoded(t,
		byHand(t, text, Options{From: FromRecord}, f.Flags))) {
		t.Error("the flags make another image")
	}
	if f, image := found(t, ringSession(9, func(k int) int { return (k*k + k/2) % 7 }),
		Options{From: FromRecord}, 0); image != nil ||
		!strings.Contains(f.String(), "a different host memory address in each repetition") {
		t.Errorf("\n%s", f)
	}
	if f, image := found(t, ringSession(3, func(k int) int { return k % 2 }),
		Options{From: FromRecord}, 0); image != nil ||
		!strings.Contains(f.Why, "counts: 0x2, 0x0, 0x2") {
		t.Errorf("\n%s", f)
	}
}
