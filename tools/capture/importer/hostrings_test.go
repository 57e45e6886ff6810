package importer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// queueRecorder writes the recording of a driver of an NVMe controller, as lm record does: of host
// memory only the words that have changed, before the next store to a BAR.
type queueRecorder struct {
	lines    []string
	memory   map[uint64]uint64 // by bus address, words of 8 bytes
	recorded map[uint64]uint64
	entries  [2]int // of the submission queue and of the completion queue
	tail     int
	done     int // completions
	id       int
	sameID   bool
	requests int // structures of Linux's driver that are used in turn: a field counts their uses
	pool     int // buffers that are used in turn; 0: always the same two
	buffers  int // used so far
	disk     map[uint32][]byte
	random   *rand.Rand
	firstLBA uint32
	before   int
	probes   int  // reads before the repetitions, as Linux looks for partitions
	pages    int  // of a transfer; 0: 1
	shared   bool // both write to a page that has nothing to do with the work
	// Both doorbells are also in one word of host memory, and reads use the buffer of writes, which
	// is not empty before
	shadow bool
}

const (
	adminSQ, adminCQ = 0x43080000, 0x43081000
	ioSQ, ioCQ       = 0x43084000, 0x43088000
	bufferPool       = 0x44000000
	pageList         = 0x43084800
	shadowDoorbells  = 0x43088808
	blocksOfTransfer = 8
)

func newQueueRecorder(sq, cq int) *queueRecorder {
	q := &queueRecorder{memory: map[uint64]uint64{}, recorded: map[uint64]uint64{},
		entries: [2]int{sq, cq}, disk: map[uint32][]byte{}, random: rand.New(rand.NewPCG(3, 4))}
	q.lines = []string{"DEVICE 0 1b36 0010 0000:00:04.0", "BAR 0 0 0 80000000 4000",
		"MEM 43080000 2000", "MEM 43084000 1000", "MEM 43088000 1000", "MEM 44000000 40000"}
	return q
}

func (q *queueRecorder) word(at uint64, value uint64) { q.memory[at] = value }

func (q *queueRecorder) set(at uint64, data []byte) {
	for i := 0; i < len(data); i += 8 {
		q.word(at+uint64(i), binary.LittleEndian.Uint64(data[i:]))
	}
}

// changed adds lines for the words that have changed.
func (q *queueRecorder) changed(kind string) {
	words := slices.Sorted(maps.Keys(q.memory))
	words = slices.DeleteFunc(words, func(at uint64) bool {
		return q.memory[at] == q.recorded[at]
	})
	for len(words) > 0 {
		n := 1
		for n < len(words) && words[n] == words[n-1]+8 {
			n++
		}
		var data []byte
		for _, at := range words[:n] {
			data = binary.LittleEndian.AppendUint64(data, q.memory[at])
			q.recorded[at] = q.memory[at]
		}
		q.lines = append(q.lines, fmt.Sprintf("%s %x %d %x", kind, words[0], len(data), data))
		words = words[n:]
	}
}

func (q *queueRecorder) store(offset int, value uint32) {
	if q.shadow && offset >= 0x1008 {
		q.word(shadowDoorbells, uint64(q.tail)|uint64(q.done%q.entries[1])<<32)
	}
	q.changed("HR")
	q.lines = append(q.lines, fmt.Sprintf("W 0 %x 4 %x", offset,
		binary.LittleEndian.AppendUint32(nil, value)))
}

// start enables the controller and makes its queues.
func (q *queueRecorder) start() {
	q.store(0x14, 0)
	q.lines = append(q.lines, "R 0 1c 4 00000000")
	q.store(0x24, 0xf000f)
	q.lines = append(q.lines, fmt.Sprintf("W 0 28 8 %x", binary.LittleEndian.AppendUint64(nil,
		adminSQ)), fmt.Sprintf("W 0 30 8 %x", binary.LittleEndian.AppendUint64(nil, adminCQ)))
	q.store(0x14, 0x460001)
	q.lines = append(q.lines, "R 0 1c 4 00000000", "R 0 1c 4 01000000")
	for i, c := range [][3]uint64{{0x10005, ioCQ, uint64(q.entries[1]-1)<<16 | 1 | 1<<32},
		{0x20001, ioSQ, uint64(q.entries[0]-1)<<16 | 1 | 0x10001<<32}} {
		at := uint64(adminSQ + 64*i)
		q.word(at, c[0])
		q.word(at+0x18, c[1])
		q.word(at+0x28, c[2])
		q.store(0x1000, uint32(i+1))
		q.word(uint64(adminCQ+16*i+8), uint64(i+1)|(c[0]>>16|1<<16)<<32)
		q.changed("HW")
		q.store(0x1004, uint32(i+1))
	}
}

// transfer makes a command, which moves data from a buffer to the disk or back.
func (q *queueRecorder) transfer(isWrite bool, block uint32) {
	buffer := uint64(bufferPool)
	pages := uint64(max(q.pages, 1))
	if q.pool > 0 {
		buffer += uint64(q.pool-1-q.buffers%q.pool) * 0x1000 * pages // it falls, as in qemu-io
	} else if isWrite && !q.shadow {
		buffer += 0x2000
	}
	q.buffers++
	for i := range pages - 1 {
		q.word(pageList+8*i, buffer+0x1000*(i+1))
	}
	data, opcode := make([]byte, pages*0x1000), uint64(2)
	for i := range data {
		if isWrite || q.shadow {
			data[i] = byte(q.random.Uint32())
		}
	}
	if isWrite {
		opcode, q.disk[block] = 1, data
	}
	q.set(buffer, data)
	q.command(opcode, buffer, block, q.disk[block])
}

func (q *queueRecorder) command(opcode, buffer uint64, block uint32, read []byte) {
	if q.requests > 0 {
		q.id = q.done/q.requests%16<<12 | 2
	} else if !q.sameID {
		q.id = (q.id + 0x31) % 0xfff0
	}
	q.submit(opcode, buffer, block)
	q.changed("HR")
	if q.shared {
		q.lines = append(q.lines, fmt.Sprintf("HB 43081800 8 %016x", q.done+1))
	}
	q.store(0x1008, uint32(q.tail))
	q.complete(q.id, q.tail)
	if opcode == 2 {
		q.set(buffer, read)
	}
	q.changed("HW")
	q.store(0x100c, uint32(q.done%q.entries[1]))
}

func (q *queueRecorder) submit(opcode, buffer uint64, block uint32) {
	at := uint64(ioSQ + 64*q.tail)
	q.word(at, opcode|uint64(q.id)<<16|1<<32)
	q.word(at+0x18, buffer)
	q.word(at+0x28, uint64(block))
	q.word(at+0x30, blocksOfTransfer-1)
	if q.pages > 2 && buffer != 0 {
		q.word(at+0x20, pageList)
		q.word(at+0x30, uint64(8*q.pages-1))
	}
	q.tail = (q.tail + 1) % q.entries[0]
}

// complete writes a completion.
func (q *queueRecorder) complete(id, head int) {
	phase := 1 - q.done/q.entries[1]%2
	at := uint64(ioCQ + q.done%q.entries[1]*16)
	q.word(at+8, uint64(head)|1<<16|uint64(id|phase<<16)<<32)
	q.done++
}

// whole adds a line for a range, as lm serve does for what the device reads.
func (q *queueRecorder) whole(at, size uint64) {
	var data []byte
	for word := at; word < at+size; word += 8 {
		data = binary.LittleEndian.AppendUint64(data, q.memory[word])
		q.recorded[word] = q.memory[word]
	}
	q.lines = append(q.lines, fmt.Sprintf("HR %x %d %x", at, size, data))
}

// batch writes or reads 2 pages with a command each, and stores to each doorbell once.
func (q *queueRecorder) batch(isWrite bool, block uint32) {
	var ids, heads [2]int
	buffer, opcode := uint64(bufferPool), uint64(2)
	if isWrite {
		buffer, opcode = bufferPool+0x4000, 1
	}
	for i := range ids {
		at, n := block+uint32(i*blocksOfTransfer), buffer+uint64(i)*0x1000
		if isWrite {
			q.disk[at] = make([]byte, 0x1000)
			for k := range q.disk[at] {
				q.disk[at][k] = byte(q.random.Uint32())
			}
			q.set(n, q.disk[at])
		}
		q.id = (q.id + 0x31) % 0xfff0
		entry := uint64(ioSQ + 64*q.tail)
		q.submit(opcode, n, at)
		q.whole(entry, 64)
		ids[i], heads[i] = q.id, q.tail
	}
	q.store(0x1008, uint32(q.tail))
	for i := range ids {
		q.complete(ids[i], heads[i])
		if !isWrite {
			q.set(buffer+uint64(i)*0x1000, q.disk[block+uint32(i*blocksOfTransfer)])
		}
		q.changed("HW")
	}
	q.store(0x100c, uint32(q.done%q.entries[1]))
}

func (q *queueRecorder) text() string { return recordText(q.lines) }

// turns writes and reads n times in turn.
func (q *queueRecorder) turns(n int) string {
	q.start()
	for range q.before {
		q.command(0, 0, 0, nil)
	}
	for i := range q.probes {
		q.transfer(false, uint32(0x700+i))
	}
	for i := range n {
		block := q.firstLBA + uint32(i*blocksOfTransfer*max(q.pages, 1))
		q.transfer(true, block)
		q.transfer(false, block)
	}
	return q.text()
}

func importFrames(t *testing.T, text string, o Options) (*lmb.Image, *Frames) {
	t.Helper()
	o.From = FromRecord
	frames, err := FindFrames(strings.NewReader(text), o, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !frames.Found {
		t.Fatalf("no frame: %s\n%s", frames.Why, frames)
	}
	frames.Apply(&o)
	image, _ := mustImport(t, text, o)
	return image, frames
}

// replayQueue replays n frames on the mock controller, each with a new block and random data. Each
// frame must return what it has written, with one command for each of some pages.
func replayQueue(t *testing.T, image *lmb.Image, n, pages int) {
	t.Helper()
	replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
	indexOf := func(name string) int {
		return slices.IndexFunc(image.Sequences,
			func(s lmb.Sequence) bool { return s.Name == name })
	}
	run := func(sequence string) {
		if r := replay.Run(indexOf(sequence)); r.Code != hal.OK {
			t.Fatalf("%s: %+v: %s", sequence, r, device.Refusal())
		}
	}
	run("init")
	random := rand.New(rand.NewPCG(5, 6))
	for i := range n {
		block := uint32(random.Uint32()%0xf0) * blocksOfTransfer
		var sent []byte
		places := 0
		for k := range image.Tensors {
			in := replay.Input(k)
			switch {
			case len(in) == 4:
				place := block + uint32(places%pages*blocksOfTransfer)
				binary.LittleEndian.PutUint32(in, place)
				places++
			case len(in) > 0:
				for at := range in {
					in[at] = byte(random.Uint32())
				}
				if sent == nil {
					sent = in
				}
			}
		}
		run("frame")
		got := replay.Output(slices.IndexFunc(image.Tensors,
			func(t lmb.Tensor) bool { return t.Name == "out0" }))
		if !bytes.Equal(got, sent) || len(got) < blocksOfTransfer*512 {
			t.Fatalf("frame %d: %d bytes came back, other ones than the %d that were sent", i,
				len(got), len(sent))
		}
	}
}

// sequenceText returns the commands of a sequence, in the syntax of listings.
func sequenceText(image *lmb.Image, name string) string {
	var b strings.Builder
	for _, s := range image.Sequences {
		for c := range s.All() {
			if s.Name == name {
				fmt.Fprintln(&b, strings.Join(strings.Fields(listing.CommandText(image, c)), " "))
			}
		}
	}
	return b.String()
}

// TestQueueInHostMemoryBecomesAFrameThatRepeats records programs that write and read in turn on
// one queue pair. The queues wrap inside the frame and between two.
func TestQueueInHostMemoryBecomesAFrameThatRepeats(t *testing.T) {
	for _, c := range []struct {
		sq, cq, pool int
		sameID       bool
		before       int // flushes before the repetitions
		probes       int
	}{{5, 3, 7, false, 0, 0}, {4, 4, 0, true, 0, 0}, {7, 5, 2, false, 2, 0}, {3, 8, 3, true, 0, 0},
		{16, 3, 5, false, 2, 0}, {7, 7, 0, false, 0, 1}, {7, 5, 0, false, 0, 2},
		{5, 7, 2, false, 0, 3}} {
		q := newQueueRecorder(c.sq, c.cq)
		q.pool, q.sameID, q.before, q.probes = c.pool, c.sameID, c.before, c.probes
		if c.probes > 0 {
			q.requests = 2
		}
		image, frames := importFrames(t, q.turns(12), Options{})
		got := frames.String()
		c.before += c.probes
		for _, want := range []string{
			fmt.Sprintf("ring       bus:0x%x, addresses from 0x43084000 to 0x%x, 0x80 a ",
				ioSQ+64*c.before, ioSQ+64*c.sq),
			fmt.Sprintf("ring       bus:0x%x, addresses from 0x43088000 to 0x%x, 0x20 a ",
				ioCQ+16*c.before, ioCQ+16*c.cq),
			"; bit 112 of an entry changes with each lap)\n",
			fmt.Sprintf("ring       bus:0x%x, values from 0x0 to 0x%x, 0x2 a ",
				ioCQ+16*c.before+8, c.sq),
			fmt.Sprintf("ring       bar0+0x1008, values from 0x0 to 0x%x, 0x2 a ", c.sq),
			fmt.Sprintf("ring       bar0+0x100c, values from 0x0 to 0x%x, 0x2 a ", c.cq)} {
			if !strings.Contains(got, want) {
				t.Errorf("%+v: the report lacks %q:\n%s", c, want, got)
			}
		}
		const echo = "the device returns the number of line"
		if strings.Contains(got, echo) == c.sameID {
			t.Errorf("%+v: want %q if identifiers differ:\n%s", c, echo, got)
		}
		replayQueue(t, image, 1000, 1)
	}
}

// queueRings are the flags for a recording whose queues of 16 entries do not wrap.
var queueRings = []string{"bus:0x43084000=0x43084000..0x43084400",
	"bus:0x43088000=0x43088000..0x43088100,112", "bus:0x43088008=0..16", "bar0+0x1008=0..16",
	"bar0+0x100c=0..16"}

func queueOptions(t *testing.T, rings ...string) (o Options) {
	t.Helper()
	for _, text := range rings {
		r, err := ParseRing(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Rings = append(o.Rings, r)
	}
	return o
}

// TestRingsOfAQueueThatDoesNotWrap names each ring in turn until the frame is found.
func TestRingsOfAQueueThatDoesNotWrap(t *testing.T) {
	q := newQueueRecorder(16, 16)
	q.pool, q.sameID = 64, true
	text := q.turns(6)
	for n, want := range []string{"add --ring bus:0x43084000=BEGIN..END",
		"add --ring bus:0x43088000=BEGIN..END", "add --ring bus:0x43088008=BEGIN..END",
		"add --ring bar0+0x1008=BEGIN..END", "add --ring bar0+0x100c=BEGIN..END"} {
		o := queueOptions(t, queueRings[:n]...)
		o.From = FromRecord
		frames, err := FindFrames(strings.NewReader(text), o, 0)
		if err != nil || frames.Found || !strings.HasSuffix(frames.Why, want) {
			t.Errorf("%d rings: error %v, found %v, %s, want %q", n, err, frames.Found, frames.Why,
				want)
		}
	}
	o := queueOptions(t, queueRings...)
	image, _ := importFrames(t, text, o)
	replayQueue(t, image, 100, 1)
	o.Rings[1].EntryBit = -1
	o.Rings[1].Parity, o.From = 0, FromRecord
	const want = "no bit of the entries changes with the lap in the recording; record more " +
		"repetitions, or add --ring bus:0x43088000=BEGIN..END,BIT"
	frames, err := FindFrames(strings.NewReader(text), o, 0)
	if err != nil || frames.Found || !strings.Contains(frames.Why, want) {
		t.Errorf("without the bit: error %v, found %v, %s, want %q", err, frames.Found, frames.Why,
			want)
	}
}

// TestWholeEntriesAreStored has reads into one buffer with one identifier: of most entries, the
// recording shows only the block. A flush at the end is not in stop, because the rings have moved.
// Of a page that is not used, it does not matter who wrote it.
func TestWholeEntriesAreStored(t *testing.T) {
	q := newQueueRecorder(4, 3)
	q.sameID, q.shared = true, true
	q.start()
	for i := range 24 {
		block := uint32(8 * (i / 4)) // the same for a whole lap
		q.disk[block] = bytes.Repeat([]byte{byte(i), 3}, 2048)
		q.transfer(false, block)
	}
	q.command(0, 0, 0, nil) // a flush
	q.lines = append(q.lines, "R 0 1c 4 01000000")
	image, frames := importFrames(t, q.text(), Options{})
	const left = "use the rings behind the repetitions, and are left out"
	if text := frames.String(); !strings.Contains(text, "24 repetitions of") ||
		!strings.Contains(text, left) {
		t.Errorf("want 24 repetitions, and %q:\n%s", left, text)
	}
	if got := sequenceText(image, "stop"); !strings.HasSuffix(got,
		"poll.4 bar0+0x1c & 0xf == 0x1 within 1s\n") || strings.Contains(got, "bar0+0x10") {
		t.Errorf("stop is\n%s", got)
	}
	if text := sequenceText(image, "frame"); !strings.Contains(text, "(40 bytes)") {
		t.Errorf("the frame does not store the whole entry:\n%s", text)
	}
}

// TestQueuesThatDoNotFitAreRefused has recordings in which something does not move as a ring does.
func TestQueuesThatDoNotFitAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(q *queueRecorder, i int)
		edit   func(text string) string
		want   string
	}{
		"an entry is left out": {change: func(q *queueRecorder, i int) {
			if i == 7 {
				q.tail++
			}
		}, want: "bus:0x43084000 to 0x430843f7: the program stores there, not only in the entry " +
			"at 0x430841c0 (line 77)"},
		"completions without a phase": {edit: func(text string) string {
			return regexp.MustCompile(`(?m)^(HW 43088\w+ 8 \w{12})0000$`).ReplaceAllString(text,
				"${1}0100")
		}, want: "no bit of the entries changes with the lap in the recording"},
		"the device writes nothing": {edit: func(text string) string {
			return strings.ReplaceAll(text, "HW 4308", "HR 4308")
		}, want: "wait for nothing: the recording shows no write by the device to host memory"},
		"both wrote the completions": {edit: func(text string) string {
			return strings.ReplaceAll(text, "HW 43088", "HB 43088")
		}, want: "the recording does not show who wrote the bytes at bus:0x43088008-0x4308800f; " +
			"--ignore bus:0x43088008-0x4308800f leaves them to the device"},
	} {
		q := newQueueRecorder(16, 8)
		q.start()
		for i := range 24 {
			if c.change != nil {
				c.change(q, i)
			}
			q.transfer(true, uint32(8*i))
		}
		text := q.text()
		if c.edit != nil {
			text = c.edit(text)
		}
		o := Options{From: FromRecord}
		frames, err := FindFrames(strings.NewReader(text), o, 0)
		if err != nil || frames.Found || !strings.Contains(frames.Why, c.want) {
			t.Errorf("%s: error %v, found %v, %s, want %q", name, err, frames.Found, frames.Why,
				c.want)
		}
	}
}

// TestPagesOfATransferAreOneTensor has transfers of 3 pages, in other buffers each time, whose
// addresses are in a list.
func TestPagesOfATransferAreOneTensor(t *testing.T) {
	q := newQueueRecorder(5, 3)
	q.pool, q.pages = 7, 3
	image, _ := importFrames(t, q.turns(12), Options{})
	for _, tensor := range image.Tensors {
		if tensor.Name == "in1" || tensor.Name == "out0" {
			if size := tensor.Size(); size != 3*0x1000 {
				t.Errorf("%s has %d bytes", tensor.Name, size)
			}
		}
	}
	replayQueue(t, image, 200, 1)
}

// TestCommandsBeforeOneDoorbellWrapWhereTheyMay has 2 commands for each doorbell, in queues with an
// odd number of entries, or after an odd number of other commands.
func TestCommandsBeforeOneDoorbellWrapWhereTheyMay(t *testing.T) {
	for _, c := range [][3]int{{7, 7, 0}, {8, 8, 1}, {5, 9, 1}, {8, 8, 0}} {
		q := newQueueRecorder(c[0], c[1])
		q.probes = c[2]
		q.turns(0)
		for i := range uint32(20) {
			q.batch(true, 16*i)
			q.batch(false, 16*i)
		}
		image, _ := importFrames(t, q.text(), Options{})
		replayQueue(t, image, 300, 2)
	}
}

// TestPositionsInHostMemoryMove has shadow doorbells: words at fixed places of host memory, which
// the frame stores once, after all else that the device reads, and before each doorbell.
func TestPositionsInHostMemoryMove(t *testing.T) {
	q := newQueueRecorder(7, 7)
	q.shadow, q.probes, q.requests = true, 3, 2
	image, _ := importFrames(t, q.turns(12), Options{})
	frame := sequenceText(image, "frame")
	position := regexp.MustCompile(`fence
advance ring\d 0x1
with ring\d value
write.2 host0\+0x880[8c] 0x0
copy.2 host0\+0x880[ae] <- hex 0000 bulk
fence
advance ring\d 0x1
with ring\d value
write.4 bar0\+0x100[8c] 0x0
`)
	if n := len(position.FindAllString(frame, -1)); n != 4 || strings.Count(frame, "0x880") != 8 {
		t.Errorf("%d of 4 positions are right:\n%s", n, frame)
	}
	replayQueue(t, image, 1000, 1)
}

func TestTwoResultsInOneBufferAreRefused(t *testing.T) {
	q := newQueueRecorder(16, 16)
	q.start()
	for i := range uint32(12) {
		q.transfer(true, 16*i)
		q.transfer(true, 16*i+8)
		q.transfer(false, 16*i)
		q.transfer(false, 16*i+8)
		q.lines = append(q.lines, "R 0 1c 4 01000000")
	}
	frames, err := FindFrames(strings.NewReader(q.text()), Options{From: FromRecord}, 0)
	const want = "bus:0x44000000: a repetition has two results in one buffer, and an output has one"
	if err != nil || frames.Found || !strings.Contains(frames.Why, want) {
		t.Errorf("error %v, found %v, %s", err, frames.Found, frames.Why)
	}
}
