package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/check/ringdevice"
	"lightmetal/tools/image/fail"
)

var ringBoard = []string{"--board", "generic", "--rule", "0+0x1000..0xffff=1,2,4,8,memory"}

// recordRings records a driver that computes n times with random inputs.
func recordRings(t *testing.T, l ringdevice.Layout, n int) (path string, d *ringdevice.Driver) {
	t.Helper()
	d, err := ringdevice.NewDriver(l, nil)
	if err != nil {
		t.Fatal(err)
	}
	return recordRuns(t, d, n, 1), d
}

// recordRuns records n runs of a driver, each with `each` random inputs.
func recordRuns(t *testing.T, d *ringdevice.Driver, n, each int) (path string) {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 8))
	for range n {
		in := make([][ringdevice.Words]uint32, each)
		for k := range in {
			for i := range in[k] {
				in[k][i] = random.Uint32() >> 8
			}
		}
		out, err := d.Run(in...)
		if err != nil {
			t.Fatal(err)
		}
		for k := range in {
			for i := range in[k] {
				if out[k][i] != ringdevice.Output(in[k][i]) {
					t.Fatalf("the driver's output %d is %#x for %#x", i, out[k][i], in[k][i])
				}
			}
		}
	}
	return tempFile(t, "rings.record", d.Recording())
}

// replayRings replays an image on a new ring device, as lm replay does.
func replayRings(t *testing.T, path string, set func(f *replayFlags)) (out string,
	d *ringdevice.Device, err error) {
	t.Helper()
	device, d := ringdevice.New()
	f := replayFlags{sequence: "frame", before: "init", loop: 2, longest: time.Hour,
		window: runtime.AnyTLBWindow, devices: []string{"rings"}}
	set(&f)
	f.devices = nil
	defer closeImages()
	text, _ := os.Create(filepath.Join(t.TempDir(), "out"))
	defer text.Close()
	*stdout = newSafeWriter(text)
	err = fail.Try(func() {
		file, view := openVerified(path)
		f.replay(f.prepareView(path, file, view, device))
	})
	_ = stdout.finish()
	data, _ := os.ReadFile(text.Name())
	return string(data), d, err
}

// TestAFrameThatCannotBeRepeatedIsRefused cuts a frame by hand out of a program with rings. Its
// second run computes nothing: its doorbell is where the device looks no more, and the awaited
// pointer is reached already.
func TestAFrameThatCannotBeRepeatedIsRefused(t *testing.T) {
	record, d := recordRings(t, ringdevice.Usual, 3)
	first, last := d.Lines[1], d.Lines[2]-1
	path := strings.TrimSuffix(record, ".record") + ".lmb"
	const entry, result = 0x1000 + 0xc0 + 0x10, 0x3000 + 0x70 + 0x10
	flags := slices.Concat([]string{"import", record, "-o", path, "--reached", "bar0+0x20",
		"--input", fmt.Sprintf("in=%#x,uint32,%d", entry, ringdevice.Words),
		"--output", fmt.Sprintf("out=%#x,uint32,%d", result, ringdevice.Words)}, ringBoard)
	exit, _, said := lm(t, append(flags, "--frame", fmt.Sprintf("%d..%d", first, last))...)
	const want = "sequence frame cannot be repeated: command 7 of frame, poll.4 bar0+0x20 " +
		"reached 0x30e within 1s, waits in the first run only: the counter stays beyond this " +
		"number, so each later run reads old results"
	if exit != 65 || !strings.Contains(said, want) {
		t.Errorf("lm import of the frame: exit %d, %q, want 65 and %q", exit, said, want)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("lm import wrote an image")
	}
	// The same image, from its listing: lm verify --loop refuses it, and lm replay shows why.
	listing := handCutListing(t, record, flags, first, last)
	if exit, _, said := lm(t, "verify", "--loop", listing); exit != 65 ||
		!strings.Contains(said, want) {
		t.Errorf("lm verify --loop: exit %d, %q, want 65 and %q", exit, said, want)
	}
	if exit, _, said := lm(t, "verify", listing); exit != 0 {
		t.Errorf("lm verify: exit %d, %q", exit, said)
	}
	said, device, err := replayRings(t, listing, func(f *replayFlags) { f.checkGolden = true })
	if err != nil || device.Computed != 2 || !strings.Contains(said, "with the same inputs, old "+
		"results are equal, too") {
		t.Errorf("2 runs with the recorded inputs: %v, %d computed, want no error, and those of "+
			"init and of the first run: %s", err, device.Computed, said)
	}
	_, _, err = replayRings(t, listing, func(f *replayFlags) { f.checkFresh = true })
	const stale = "output out: 24 of 24 elements of run 2 are not those of a first run with the " +
		"same inputs: later runs read old results, or results depend on earlier runs"
	if hal.CodeOf(err) != hal.CompareFailed || !strings.Contains(fmt.Sprint(err), stale) {
		t.Errorf("2 runs with other inputs: %v, want %q", err, stale)
	}
}

// handCutListing makes the image that lm import refuses: the sequences of two imports, of the lines
// before the frame and of the frame.
func handCutListing(t *testing.T, record string, flags []string, first, last int) (image string) {
	t.Helper()
	var parts []string
	for _, part := range []string{fmt.Sprintf("..%d", first-1),
		fmt.Sprintf("%d..%d", first, last)} {
		path := strings.TrimSuffix(record, ".record") + ".part.lmb"
		args := append(slices.Clone(flags), "--part", part)
		args[3] = path
		if strings.HasPrefix(part, "..") {
			args = slices.Concat(args[:6], ringBoard, args[len(args)-2:])
		}
		if exit, _, said := lm(t, args...); exit != 0 {
			t.Fatalf("lm import --part %s: %s", part, said)
		}
		_, out, _ := lm(t, "dump", path)
		parts = append(parts, out)
	}
	_, before, _ := strings.Cut(parts[0], "\nmain:")
	text := strings.Replace(parts[1], "\nmain:", "\nframe:", 1) + "\ninit:" + before
	image = strings.TrimSuffix(record, ".record") + ".cut.lmb"
	if exit, _, said := lm(t, "asm", tempFile(t, "cut.lms", text), "-o", image); exit != 0 {
		t.Fatalf("lm asm: %s\n%s", said, text)
	}
	return image
}

// TestAProgramWithRingsBecomesAFrameThatRepeats records a program whose queue wraps, and replays
// 1,000 frames with random inputs.
func TestAProgramWithRingsBecomesAFrameThatRepeats(t *testing.T) {
	record, _ := recordRings(t, ringdevice.Usual, 8)
	path := strings.TrimSuffix(record, ".record") + ".lmb"
	exit, out, said := lm(t, slices.Concat([]string{"import", "--find-frames", record, "-o", path},
		ringBoard)...)
	if exit != 0 {
		t.Fatalf("lm import: exit %d: %s%s", exit, out, said)
	}
	for _, ring := range []string{
		"ring       bar0+0x10c0, addresses from 0x1000 to 0x1430, 0xc0 a repetition, from line " +
			"175 on (starts again in line 809)\n",
		"ring       bar0+0x2008, addresses from 0x2000 to 0x201c, 0x8 a repetition, from line " +
			"231 on (starts again in line 529)\n",
		"ring       bar0+0x3070, addresses from 0x3000 to 0x3230, 0x70 a repetition, from line " +
			"269 on (starts again in line 845)\n",
		"ring       bar0+0x20, values from 0x300 to 0x323, 0x7 a repetition, from line 243 on " +
			"(starts again in line 675; bit 0x80000000 changes with each lap)\n",
	} {
		if !strings.Contains(out, ring) {
			t.Errorf("the report lacks %q:\n%s", ring, out)
		}
	}
	if exit, _, said := lm(t, "verify", "--loop", path); exit != 0 {
		t.Errorf("lm verify --loop: exit %d, %s", exit, said)
	}
	computeFrames(t, path, 1000)
	said, _, err := replayRings(t, path, func(f *replayFlags) { f.checkFresh, f.loop = true, 20 })
	if err != nil || !strings.Contains(said, "run 20 gave the results of a first run") {
		t.Errorf("--check-fresh: %v, %q", err, said)
	}
}

// computeFrames replays an image on a new ring device, each frame with random inputs, and compares
// all outputs.
func computeFrames(t *testing.T, path string, runs int) {
	t.Helper()
	computeOn(t, path, runs, nil)
}

// computeOn is computeFrames on a device that `set` has changed.
func computeOn(t *testing.T, path string, runs int, set func(*ringdevice.Device)) {
	t.Helper()
	defer closeImages()
	_, view := openVerified(path)
	mocked, device := ringdevice.New()
	if set != nil {
		set(device)
	}
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, mocked)
	if err != nil {
		t.Fatal(err)
	}
	defer replay.Close()
	if r := replay.Run(view.SequenceByName("init")); r.Code != hal.OK {
		t.Fatalf("init: %+v: %s", r, mocked.Refusal())
	}
	before, frame, each := device.Computed, view.SequenceByName("frame"), len(view.Tensors)/2
	random := rand.New(rand.NewPCG(9, 10))
	for n := range runs {
		want := make([][]byte, each)
		for k := range want {
			data := replay.Input(view.TensorByName(fmt.Sprint("in", k)))
			for at := 0; at < len(data); at += 4 {
				word := random.Uint32()
				binary.LittleEndian.PutUint32(data[at:], word)
				want[k] = binary.LittleEndian.AppendUint32(want[k], ringdevice.Output(word))
			}
		}
		if r := replay.Run(frame); r.Code != hal.OK {
			t.Fatalf("frame %d: %+v: %s", n, r, mocked.Refusal())
		}
		for k := range want {
			got := replay.Output(view.TensorByName(fmt.Sprint("out", k)))
			if !bytes.Equal(got, want[k]) {
				t.Fatalf("frame %d: output %d %x, want %x", n, k, got, want[k])
			}
		}
	}
	if device.Computed != before+runs*each {
		t.Errorf("the device computed %d times in %d frames", device.Computed-before, runs)
	}
	for name, laps := range device.Laps() {
		if laps < 3 {
			t.Errorf("ring %s has %d laps", name, laps)
		}
	}
}

// importFrames imports a recording of a driver, and returns the image and what lm said.
func importFrames(t *testing.T, d *ringdevice.Driver, n, each int, flags ...string) (path,
	out string, exit int) {
	t.Helper()
	record := recordRuns(t, d, n, each)
	path = strings.TrimSuffix(record, ".record") + ".lmb"
	exit, out, said := lm(t, slices.Concat([]string{"import", "--find-frames", record, "-o", path},
		ringBoard, flags)...)
	return path, out + said, exit
}

// splitRings has the flags for a device with Split.
var splitRings = []string{"--ring", "bar0+0x3000-0x323f=0x3000..0x3240/0x10", "--ring",
	"bar0+0x20=0x300..0x324/1,31", "--ring", "bar0+0x24=0x300..0x324/1,31"}

// TestResultsGoOnAtTheBeginOfTheirRing has a device that splits a result at the end of its ring.
// The driver stores its pointer before it loads a result, and loads one before its first run: a
// repetition that began there would return the results of the run before.
func TestResultsGoOnAtTheBeginOfTheirRing(t *testing.T) {
	split := func(d *ringdevice.Device) { d.Split = true }
	flags := slices.Clone(splitRings)
	queues := []string{"--ring", "bar0+0x1000-0x143f=0x1000..0x1440", "--ring",
		"bar0+0x2000-0x201b=0x2000..0x201c"}
	for _, n := range []int{4, 16} { // without and with a wrap in the recording
		d, err := ringdevice.NewDriver(ringdevice.Usual, split)
		if err != nil {
			t.Fatal(err)
		}
		path, said, exit := importFrames(t, d, n, 1, slices.Concat(queues, flags)...)
		if exit != 0 {
			t.Fatalf("lm import: exit %d: %s", exit, said)
		}
		computeOn(t, path, 1000, split)
	}
	d, _ := ringdevice.NewDriver(ringdevice.Usual, split)
	const want = "0x3000 to 0x3230, as --ring says, does not fit the recording"
	flags[1] = "bar0+0x3000-0x323f=0x3000..0x3230"
	if _, said, exit := importFrames(t, d, 16, 1, flags...); exit != 65 ||
		!strings.Contains(said, want) {
		t.Errorf("without a unit: exit %d, %s, want 65 and %q", exit, said, want)
	}
}

// TestADeviceMayBeAheadOfAPollOnItsPointer has two results in a repetition. A device that has both
// before the first poll passes the pointer that the program saw.
func TestADeviceMayBeAheadOfAPollOnItsPointer(t *testing.T) {
	slow := func(d *ringdevice.Device) { d.Split, d.WorkNs = true, 12000 }
	d, err := ringdevice.NewDriver(ringdevice.Usual, slow)
	if err != nil {
		t.Fatal(err)
	}
	path, said, exit := importFrames(t, d, 12, 2, slices.Concat(splitRings,
		[]string{"--reached", "bar0+0x20"})...)
	if exit != 0 {
		t.Fatalf("lm import: exit %d: %s", exit, said)
	}
	computeOn(t, path, 1000, func(d *ringdevice.Device) { d.Split, d.WorkNs = true, 1 })
	computeOn(t, path, 100, slow)
}

// TestAStopThatUsesARingIsLeftOut has a program whose last run has two inputs.
func TestAStopThatUsesARingIsLeftOut(t *testing.T) {
	d, err := ringdevice.NewDriver(ringdevice.Usual, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if _, err := d.Run([ringdevice.Words]uint32{rand.Uint32()}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Run([ringdevice.Words]uint32{1}, [ringdevice.Words]uint32{2}); err != nil {
		t.Fatal(err)
	}
	record := tempFile(t, "rings.record", d.Recording())
	path := strings.TrimSuffix(record, ".record") + ".lmb"
	exit, out, said := lm(t, slices.Concat([]string{"import", "--find-frames", record, "-o", path},
		ringBoard)...)
	const want = "the sequence stop is left out: it uses the ring at "
	if exit != 0 || !strings.Contains(out, want) {
		t.Fatalf("lm import: exit %d: %s%s, want %q", exit, out, said, want)
	}
	defer closeImages()
	if _, view := openVerified(path); view.SequenceByName("stop") >= 0 {
		t.Error("the image has the sequence stop")
	}
}

// TestARingLargerThanItsWindowGetsAWiderOne has a program that stores entries in the DRAM of a
// Wormhole, and loads them again. They lie farther apart than a window of 1 MiB is wide.
func TestARingLargerThanItsWindowGetsAWiderOne(t *testing.T) {
	const window, config = 0xb000000, 0x1fc00530 // TLB window 166
	var b strings.Builder
	b.WriteString("LMRECORD 1\nDEVICE 1e52 401e\nBAR 0 100000000 20000000\n" +
		"BAR 2 120000000 100000\nBAR 4 800000000 2000000\n")
	accesses := 0
	access := func(op string, at int, size int, value uint64) {
		accesses++
		data := binary.LittleEndian.AppendUint64(nil, value)[:size]
		fmt.Fprintf(&b, "%s 0 %x %d %x\n", op, at, size, data)
	}
	access("W", config, 8, 11<<18) // shows address 0 of tile (0,11)
	access("R", window+0x48, 4, 0)
	random := rand.New(rand.NewPCG(3, 4))
	for run := range uint64(4) {
		entry, words := window+0x100000+int(run)*0x180000, [8]uint64{}
		for i := range words {
			words[i] = random.Uint64()
			access("W", entry+8*i, 8, words[i])
		}
		access("W", window+0x40, 4, 1)
		for _, value := range []uint64{run, run, run, run, run, run + 1} {
			access("R", window+0x80, 4, value)
		}
		for i := range words {
			access("R", entry+8*i, 8, words[i])
		}
	}
	fmt.Fprintf(&b, "END %d\n", accesses)
	record := tempFile(t, "wide.record", b.String())
	path := strings.TrimSuffix(record, ".record") + ".lmb"
	exit, out, said := lm(t, "import", "--find-frames", record, "-o", path,
		"--ring", "0,11,0x100000-0x8fffff=0x100000..0x900000",
		"--ring", "0,11,0x80=0..0x100")
	if exit != 0 {
		t.Fatalf("lm import: exit %d: %s%s", exit, out, said)
	}
	_, text, _ := lm(t, "dump", path)
	for _, want := range []string{"ring ring0 begin 0x0 end 0x800000\n",
		"window wide0 tlb size 16MiB\n", "  point     wide0 tile 0,11 address 0x0\n",
		"  advance   ring0 0x180000\n  with      ring0 offset\n  copy.8    wide0+0x100000 <- in0",
		"  with      ring0 offset\n  copy.8    out0[0:64] <- wide0+0x100000\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the listing lacks %q: %s", want, text)
		}
	}
	for flag, message := range map[string]string{
		"0,11,0x100000-0x8fffff=0x100000..0x1100000": "does not lie in one window",
		"0,11,0x100000-0x8fffff=0x100000..0x200000":  "does not fit the recording",
	} {
		exit, _, said := lm(t, "import", "--find-frames", record, "-o", path, "--ring", flag,
			"--ring", "0,11,0x80=0..0x100")
		if exit != 65 || !strings.Contains(said, message) {
			t.Errorf("--ring %s: exit %d, %q, want 65 and %q", flag, exit, said, message)
		}
	}
}

// TestNumbersInsideAnEntryMove has a device that computes only entries with the next count and the
// next slot: the slot starts again in the recording, the count does not.
func TestNumbersInsideAnEntryMove(t *testing.T) {
	set := func(d *ringdevice.Device) { d.Numbers = true }
	d, err := ringdevice.NewDriver(ringdevice.Usual, set)
	if err != nil {
		t.Fatal(err)
	}
	_, said, exit := importFrames(t, d, 16, 1)
	_, place, _ := strings.Cut(said, "or add --ring ")
	place, _, found := strings.Cut(place, "=BEGIN..END")
	if exit != 65 || !found {
		t.Fatalf("lm import: exit %d: %s", exit, said)
	}
	d, _ = ringdevice.NewDriver(ringdevice.Usual, set)
	path, said, exit := importFrames(t, d, 16, 1, "--ring", place+"=0..0x100000000")
	if exit != 0 {
		t.Fatalf("lm import --ring %s: exit %d: %s", place, exit, said)
	}
	computeOn(t, path, 1000, set)
}

// TestAFrameWithoutTheWaitsOfSomeRepetitions has a driver that looks at the pointer too early in
// each third repetition, and loads a register in each lap of the queue.
func TestAFrameWithoutTheWaitsOfSomeRepetitions(t *testing.T) {
	computeFrames(t, importLooks(t, func(event uint32) bool { return event%3 == 0 }), 1000)
}

// TestAFrameLeavesOutALook has a driver that looks too early in all repetitions but the last two.
func TestAFrameLeavesOutALook(t *testing.T) {
	computeFrames(t, importLooks(t, func(event uint32) bool { return event < 15 }), 1000)
}

// importLooks imports a recording of a driver that looks too early.
func importLooks(t *testing.T, looks func(event uint32) bool) (path string) {
	t.Helper()
	d, err := ringdevice.NewDriver(ringdevice.Usual, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Looks = looks
	record := recordRuns(t, d, 16, 1)
	path = strings.TrimSuffix(record, ".record") + ".lmb"
	exit, out, said := lm(t, slices.Concat([]string{"import", "--find-frames", record, "-o", path},
		ringBoard)...)
	if exit != 0 {
		t.Fatalf("lm import: exit %d: %s%s", exit, out, said)
	}
	return path
}

// TestTheBitOfALapIsGiven has a recording without a wrap of the values, whose bit --ring names.
func TestTheBitOfALapIsGiven(t *testing.T) {
	record, _ := recordRings(t, ringdevice.Usual, 4)
	path := strings.TrimSuffix(record, ".record") + ".lmb"
	exit, out, said := lm(t, slices.Concat([]string{"import", "--find-frames", record, "-o", path,
		"--ring", "bar0+0x20=0x300..0x323,31"}, ringBoard)...)
	const given = "(as --ring says; bit 0x80000000 changes with each lap)"
	if exit != 0 || !strings.Contains(out, given) {
		t.Fatalf("lm import: exit %d: %s%s", exit, out, said)
	}
	computeFrames(t, path, 1000)
}

// TestRingsThatTheRecordingDoesNotShowAreRefused has recordings that are too short, and what --ring
// adds.
func TestRingsThatTheRecordingDoesNotShowAreRefused(t *testing.T) {
	find := func(n int, flags ...string) (exit int, out, said, path string) {
		record, _ := recordRings(t, ringdevice.Usual, n)
		path = strings.TrimSuffix(record, ".record") + ".lmb"
		exit, out, said = lm(t, slices.Concat([]string{"import", "--find-frames", record, "-o",
			path}, ringBoard, flags)...)
		return exit, out, said, path
	}
	const missing = "lines 243 and 387, BAR 0 + 0x20: the value differs from repetition to " +
		"repetition: they do not start again in the recording, so that the end is not known; " +
		"record more repetitions, or add --ring bar0+0x20=BEGIN..END"
	exit, _, said, path := find(4)
	if exit != 65 || !strings.Contains(said, missing) {
		t.Errorf("4 repetitions: exit %d, %q, want 65 and %q", exit, said, missing)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("an image was written")
	}
	exit, out, said, _ := find(4, "--ring", "bar0+0x20=0x300..0x323")
	const stored = "ring       bar0+0x10c0, addresses from 0x1000 to 0x1440, 0xc0 a repetition, " +
		"from line 175 on (as the program stored in line 7)\n"
	const given = "ring       bar0+0x20, values from 0x300 to 0x323, 0x7 a repetition, from line " +
		"243 on (as --ring says; a bit that changes with each lap would not have shown)\n"
	if exit != 0 || !strings.Contains(out, stored) || !strings.Contains(out, given) {
		t.Errorf("with --ring: exit %d, %s%s, want %q and %q", exit, out, said, stored, given)
	}
	exit, _, said, _ = find(8, "--ring", "bar0+0x20=0x300..0x340")
	const want = "a ring from 0x300 to 0x340, as --ring says, does not fit the recording"
	if exit != 65 || !strings.Contains(said, want) {
		t.Errorf("a wrong --ring: exit %d, %q, want 65 and %q", exit, said, want)
	}
	for _, flags := range [][]string{{"--ring", "bar0+0x20=5"}, {"--ring", "bar0+0x20=9..5"}} {
		if exit, _, said, _ := find(3, flags...); exit != 64 || !strings.Contains(said,
			"write PLACE=BEGIN..END, such as bar0+0x1000=0x1000..0x2000") {
			t.Errorf("%v: exit %d, %q", flags, exit, said)
		}
	}
	exit, _, said = lm(t, "import", "x.record", "--ring", "bar0+0x20=0x300..0x323")
	if exit == 0 {
		t.Errorf("--ring without --find-frames: %q", said)
	}
}

// TestRingsWrapWhereTheDeviceWraps has other layouts: a queue that ends with an entry, and rings of
// one size.
func TestRingsWrapWhereTheDeviceWraps(t *testing.T) {
	for _, l := range []ringdevice.Layout{
		{Queue: 0x1000, QueueEnd: 0x1000 + 5*0xc0, Bells: 0x2000, BellsEnd: 0x2010,
			Results: 0x3000, ResultsEnd: 0x3000 + 4*0x70},
		{Queue: 0x1000, QueueEnd: 0x1000 + 3*0xc0 + 0x70, Bells: 0x2000, BellsEnd: 0x2014,
			Results: 0x3000, ResultsEnd: 0x3000 + 3*0x70 + 0x60},
		{Queue: 0x1100, QueueEnd: 0x1100 + 2*0xc0 + 0x60, Bells: 0x2004, BellsEnd: 0x2020,
			Results: 0x3100, ResultsEnd: 0x3100 + 2*0x70},
	} {
		record, _ := recordRings(t, l, 12)
		path := strings.TrimSuffix(record, ".record") + ".lmb"
		exit, out, said := lm(t, slices.Concat([]string{"import", "--find-frames", record, "-o",
			path}, ringBoard)...)
		if exit != 0 {
			t.Errorf("%v: lm import: exit %d: %s%s", l, exit, out, said)
			continue
		}
		computeFrames(t, path, 200)
	}
}

func TestARingThatNothingResetsIsAWarning(t *testing.T) {
	const source = "lightmetal 1\ndevice edu 1234:11e8 bar0 1MiB\nring q begin 0 end 8\n" +
		"window r bar0 offset 0 size 1MiB\nmain:\n  advance q 4\n  with q value\n" +
		"  write.4 r+0x4 0\n"
	const want = "no sequence resets ring q, so each run that advances it fails"
	for text, warns := range map[string]bool{source: true, source + "init:\n  reset q\n": false,
		strings.Replace(source, "  advance", "  reset q\n  advance", 1): false} {
		exit, _, said := lm(t, "verify", assemble(t, text))
		if exit != 0 || strings.Contains(said, want) != warns {
			t.Errorf("exit %d, %q, want %q: %v\n%s", exit, said, want, warns, text)
		}
	}
}
