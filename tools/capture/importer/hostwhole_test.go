package importer

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/image/lmb"
)

// hostRingDevice has its queue and its results in host memory: at base+0x80 entries of 0x70 bytes
// (an event number and 24 words) and of 0x30 bytes, at base+0x800 results (the event number and
// 3x+1), and at base+0x40 the place of the next result / 16, with the lap in bit 31. Each doorbell
// is the size of an entry / 16; bit 31 is a flag without effect. Register 0x20 is what the driver
// has read.
type hostRingDevice struct {
	host           func(bus, size uint64) []byte
	log            func(kind string, bus uint64, data []byte)
	base           uint64
	bells          []uint64
	queue, results hostRing
	entry          []byte
	laps           [2]int
	wait           int64
	read, written  uint64
}

type hostRing struct{ begin, end, at, lap uint64 }

// take returns the place of an entry; one that does not fit is at the begin.
func (r *hostRing) take(size uint64) uint64 {
	if r.at+size > r.end {
		r.at, r.lap = r.begin, r.lap^1
	}
	r.at += size
	return r.at - size
}

const (
	inputEntry, runEntry = 0x70, 0x30
	wordsOfEntry         = 24
	hostRingBase         = 0x10000000
)

var hostRingBoard = boards.Board{Name: "hostrings", Vendor: 0x1234, Device: 0x5679,
	BarSizes: [6]uint64{0: 0x1000},
	Rules:    []boards.AccessRule{{Last: 0xfff, Widths: 4 | 8, Name: "registers"}}}

func newHostRingDevice() *hostRingDevice {
	return &hostRingDevice{queue: hostRing{0x80, 0x4b4, 0x80, 0},
		results: hostRing{0x800, 0xa00, 0x800, 0}, log: func(string, uint64, []byte) {}}
}

// Connect implements mock.BusMaster.
func (d *hostRingDevice) Connect(host *mock.Host) { d.host = host.Bytes }

// Load implements mock.Model.
func (d *hostRingDevice) Load(mock.Place, uint8) (uint64, hal.Code) { return 0, hal.OK }

// Store implements mock.Model.
func (d *hostRingDevice) Store(at mock.Place, _ uint8, value uint64) hal.Code {
	switch at.Address {
	case 0:
		d.base = value
	case 0x10:
		d.bells = append(d.bells, value<<4&0xffffffff)
	case 0x20:
		if value != d.written {
			return hal.Refused
		}
		d.read = value
	}
	return hal.OK
}

// Advance implements mock.Clocked.
func (d *hostRingDevice) Advance(nanoseconds int64) {
	const work = 5000
	for d.wait += nanoseconds; d.wait >= work && len(d.bells) > 0; d.wait -= work {
		d.execute()
	}
	if len(d.bells) == 0 {
		d.wait = 0
	}
}

func (d *hostRingDevice) execute() {
	at, lap := d.base, d.queue.lap
	place := d.queue.take(d.bells[0])
	data := d.host(at+place, d.bells[0])
	d.log("HR", at+place, data[:0x10])
	d.log("HR", at+place+0x10, data[0x10:])
	d.bells = d.bells[1:]
	if d.queue.lap != lap {
		d.laps[0]++
	}
	if len(data) == inputEntry {
		d.entry = slices.Clone(data)
		return
	}
	if lap = d.results.lap; d.entry == nil {
		return
	}
	place = d.results.take(inputEntry)
	if d.results.lap != lap {
		d.laps[1]++
	}
	result := d.host(at+place, inputEntry)
	copy(result, data[:4])
	for i := 16; i < inputEntry; i += 4 {
		binary.LittleEndian.PutUint32(result[i:],
			3*binary.LittleEndian.Uint32(d.entry[i:])+1)
	}
	d.log("HW", at+place, result[:0x40])
	d.log("HW", at+place+0x40, result[0x40:])
	d.entry = nil
	next := d.results
	d.written = next.take(inputEntry)>>4 | next.lap<<31
	pointer := d.host(at+0x40, 4)
	binary.LittleEndian.PutUint32(pointer, uint32(d.written))
	d.log("HW", at+0x40, pointer)
}

// hostRingRecording is what the simulator's recorder writes of a driver: the device's accesses of
// host memory, and the driver's of registers. The device is faster in some repetitions.
func hostRingRecording(times int) string {
	memory := make([]byte, 0x1000)
	d := newHostRingDevice()
	lines := []string{"DEVICE 0 1234 5679 0000:00:04.0", "BAR 0 0 0 80000000 1000"}
	d.host = func(bus, size uint64) []byte { return memory[bus-hostRingBase:][:size] }
	d.log = func(kind string, bus uint64, data []byte) {
		lines = append(lines, fmt.Sprintf("%s %x %d %x", kind, bus, len(data), data))
	}
	store := func(at uint64, width uint8, value uint64) {
		d.Store(mock.Place{Address: at}, width, value)
		lines = append(lines, fmt.Sprintf("W 0 %x %d %x", at, width,
			binary.LittleEndian.AppendUint64(nil, value)[:width]))
	}
	store(0, 8, hostRingBase)
	queue, random := d.queue, rand.New(rand.NewPCG(1, 2))
	for event := range uint32(times) {
		for n, size := range []uint64{inputEntry, runEntry} {
			entry := memory[queue.take(size):][:size]
			clear(entry)
			binary.LittleEndian.PutUint32(entry, event+1)
			for i := 16; i < inputEntry && n == 0; i += 4 {
				binary.LittleEndian.PutUint32(entry[i:], random.Uint32())
			}
			if event == 9 && n == 1 {
				lines = append(lines, "R 0 24 4 00000000") // is there room?
			}
		}
		store(0x10, 4, inputEntry>>4)
		if event%4 == 1 {
			d.execute()
		}
		store(0x10, 4, runEntry>>4|1<<31)
		for len(d.bells) > 0 {
			d.execute()
			lines = append(lines, "CLK 100")
		}
		store(0x20, 4, d.written)
	}
	return recordText(lines)
}

// TestRingsInARecordingOfTheSimulator has a queue and results in host memory. The queue wraps
// inside a repetition and between two.
func TestRingsInARecordingOfTheSimulator(t *testing.T) {
	text := hostRingRecording(24)
	image, frames := importFrames(t, text, Options{Board: &hostRingBoard, DetectCounters: true})
	got := frames.String()
	for _, want := range []string{"23 repetitions of 58 ",
		"bus:0x10000120, addresses from 0x10000080 to 0x100004b0, 0xa0 a ",
		"bus:0x10000870, addresses from 0x10000800 to 0x100009c0, 0x70 a ",
		"bar0+0x20, values from 0x80 to 0x9c, 0x7 a ",
		"bus:0x10000040, values from 0x80 to 0x9c, 0x7 a ",
		"input      bus: 0x10000130, 96 bytes", "output     bus: 0x10000880, 96 bytes",
		"the device returns the number of line"} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}
	replayHostRings(t, image)
}

// TestEntriesHaveTheSizesThatDoorbellsStore has a recording without a wrap, in which nothing is
// between two entries: a replay wraps between them.
func TestEntriesHaveTheSizesThatDoorbellsStore(t *testing.T) {
	rings := []string{"bus:0x10000080-0x100004b3=0x10000080..0x100004b4",
		"bus:0x10000800-0x100009ff=0x10000800..0x10000a00", "bar0+0x20=0x80..0x9c,31",
		"bus:0x10000040=0x80..0x9c,31"}
	o := queueOptions(t, rings...)
	o.Board, o.DetectCounters = &hostRingBoard, true
	image, _ := importFrames(t, hostRingRecording(6), o)
	replayHostRings(t, image)
}

// replayHostRings runs frames with new inputs.
func replayHostRings(t *testing.T, image *lmb.Image) {
	t.Helper()
	d := newHostRingDevice()
	device := mock.NewWith(&hostRingBoard, d)
	replay := loadOn(t, image, 0, device)
	run := func(name string) {
		n := slices.IndexFunc(image.Sequences, func(s lmb.Sequence) bool { return s.Name == name })
		if r := replay.Run(n); r.Code != hal.OK {
			t.Fatalf("%s: %+v: %s", name, r, device.Refusal())
		}
	}
	run("init")
	random := rand.New(rand.NewPCG(3, 4))
	for frame := range 200 {
		in := replay.Input(0)
		for i := range in {
			in[i] = byte(random.Uint32())
		}
		run("frame")
		out := replay.Output(1)
		for i := 0; i < 4*wordsOfEntry; i += 4 {
			x, y := binary.LittleEndian.Uint32(in[i:]), binary.LittleEndian.Uint32(out[i:])
			if y != 3*x+1 {
				t.Fatalf("frame %d, word %d: %#x of %#x", frame, i/4, y, x)
			}
		}
	}
	if d.laps[0] < 3 || d.laps[1] < 3 {
		t.Errorf("the rings started again %d times, want at least 3", d.laps)
	}
}
