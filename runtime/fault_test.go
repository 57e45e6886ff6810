package runtime_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/runtime/report"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/image/lmb"

	"golang.org/x/sys/unix"
)

// step is one command of a run, with the number of accesses that the device has seen when the
// command ends. The numbers are measured in runs of images that end after this command, so that
// they do not depend on what the runtime reports.
type step struct {
	command    fbs.Command
	index      int // in the whole image
	operations int // of the device until the command ends
	journal    int // length of the device's journal when the command ends
}

// testImage is an image under test, with the steps of a successful run of "main".
type testImage struct {
	name        string
	image       *lmb.Image
	view        *fbs.View
	withoutSafe *fbs.View // the same image, but "safe" has another name
	main        int
	steps       []step
	mainJournal []mock.Access // of a successful run of "main"
	safeJournal []mock.Access // of a successful run of "safe"
}

// pollUsMax limits the deadlines of polls in a testImage, so that a run on a device that is gone
// waits no longer than a successful run takes.
const pollUsMax = 500

// loadTestImages returns all images in testdata, and an image with a call.
func loadTestImages(t *testing.T) []*testImage {
	t.Helper()
	paths, err := filepath.Glob("../testdata/images/*.lmb")
	if err != nil || len(paths) < 5 {
		t.Fatalf("%d images, %v", len(paths), err)
	}
	files := map[string][]byte{"calls": assembleImage(t, ivshmemHead+`
tensor d output uint32[2]
main:
  write.4 m+0x0 0x1
  call sub
  write.4 m+0x10 0x2
  compare.4 m+0x10 uint32 == uint32 2 0
  flush.4 m+0x10
sub:
  write.2 m+0x4 0x3
  write.2 m+0x40 0x3 mask 0x3
  fill.4 m+0x8 <- 0x7 size 8
  poll.4 m+0x4 == 0x3 within 1ms every 10us
  copy.4 d[0:8] <- m+0x8
`)}
	for _, path := range paths {
		if files[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	var list []*testImage
	for name, file := range files {
		list = append(list, newTestImage(t, name, file))
	}
	slices.SortFunc(list, func(a, b *testImage) int { return strings.Compare(a.name, b.name) })
	return list
}

// newTestImage decodes an image, removes its marks, shortens its polls and adds a sequence "safe"
// if it has none. It runs "main" and "safe" once to record what they do without faults.
func newTestImage(t *testing.T, name string, file []byte) *testImage {
	t.Helper()
	image, err := lmb.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range image.Sequences {
		s := &image.Sequences[i]
		s.Commands = slices.DeleteFunc(s.Commands,
			func(c lmb.Command) bool { return c.Opcode == lmb.OpcodeMark })
		for j := range s.Commands {
			if c := &s.Commands[j]; c.Opcode == gen.OpcodeExpect {
				c.Amount = min(c.Amount, pollUsMax)
			}
		}
	}
	s := &testImage{name: name, image: image}
	s.addSafeSequence()
	s.view = verifyImage(t, image)
	s.withoutSafe = s.verifyWithoutSafe(t)
	s.main = s.view.SequenceByName("main")
	s.measureSteps(t)
	s.mainJournal = s.recordRun(t, "main")
	s.safeJournal = s.recordRun(t, "safe")
	if last := s.steps[len(s.steps)-1]; last.journal != len(s.mainJournal) {
		t.Fatalf("%s: %d accesses when run step by step, %d in one run; want equal numbers", name,
			last.journal, len(s.mainJournal))
	}
	return s
}

// addSafeSequence adds a sequence "safe" to an image without one. The sequence makes a store that
// no other command makes.
func (s *testImage) addSafeSequence() {
	for i := range s.image.Sequences {
		if s.image.Sequences[i].Name == "safe" {
			return
		}
	}
	store := lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Offset: 4,
		Value: 0x5afe}}
	commands := []lmb.Command{store}
	if w := s.image.Windows[0]; w.Kind == gen.WindowKindTlb {
		target := fbs.TileRoute{X: 1, Y: 2, Ordering: boards.OrderingStrict}
		commands = []lmb.Command{{Command: fbs.Command{Opcode: gen.OpcodePoint,
			Mask: target.Pack()}}, store}
	}
	s.image.Sequences = append(s.image.Sequences, lmb.Sequence{Name: "safe", Commands: commands})
}

// verifyWithoutSafe verifies a copy of the image in which "safe" has another name, so that it does
// not run after a failure.
func (s *testImage) verifyWithoutSafe(t *testing.T) *fbs.View {
	t.Helper()
	renamed := *s.image
	renamed.Sequences = slices.Clone(s.image.Sequences)
	for i := range renamed.Sequences {
		if renamed.Sequences[i].Name == "safe" {
			renamed.Sequences[i].Name = "unused"
		}
	}
	return verifyImage(t, &renamed)
}

func verifyImage(t *testing.T, image *lmb.Image) *fbs.View {
	t.Helper()
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// load loads a view of this image, or of a part of it, on a new mock that records its accesses.
func (s *testImage) load(t *testing.T, view *fbs.View) (*runtime.Replay, *mock.Device) {
	t.Helper()
	device := mock.New(chips.BoardByName(view.Name(view.Devices[0].Board)))
	device.Record(true)
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return replay, device
}

// recordRun runs a sequence without faults and returns the accesses that the device has seen.
func (s *testImage) recordRun(t *testing.T, sequence string) []mock.Access {
	t.Helper()
	replay, device := s.load(t, s.view)
	defer replay.Close()
	if result := replay.Run(s.view.SequenceByName(sequence)); result.Code != hal.OK {
		t.Fatalf("%s: %s ends with %+v: %s", s.name, sequence, result, device.Refusal())
	}
	return device.Journal()
}

// measureSteps lists the commands of "main" and of the sequences that it calls in the order of a
// run, and counts the accesses of the device after each command by running all commands up to it.
func (s *testImage) measureSteps(t *testing.T) {
	t.Helper()
	var commands []lmb.Command
	for i, c := range s.image.Sequences[s.main].Commands {
		callee, first := []lmb.Command{c}, int(s.view.Sequences[s.main].First)+i
		if c.Opcode == gen.OpcodeCall {
			callee, first = s.image.Sequences[c.Index].Commands,
				int(s.view.Sequences[c.Index].First)
		}
		for j := range callee {
			s.steps = append(s.steps, step{command: s.view.Commands[first+j], index: first + j})
			commands = append(commands, callee[j])
		}
	}
	// "main" stays in the image, because the verifier requires commands that fill the outputs.
	part := *s.image
	part.Sequences = append(slices.Clone(s.image.Sequences), lmb.Sequence{Name: "part"})
	for i := range s.steps {
		part.Sequences[len(part.Sequences)-1].Commands = commands[:i+1]
		replay, device := s.load(t, verifyImage(t, &part))
		if result := replay.Run(len(part.Sequences) - 1); result.Code != hal.OK {
			t.Fatalf("%s: its first %d commands end with %+v", s.name, i+1, result)
		}
		s.steps[i].operations, s.steps[i].journal = device.Operations(), len(device.Journal())
		replay.Close()
	}
}

// stepOf returns the index of the step that makes an operation. Operations count from 1.
func (s *testImage) stepOf(operation int) int {
	i := 0
	for s.steps[i].operations < operation {
		i++
	}
	return i
}

// accessesOf returns the accesses of step i in the successful run.
func (s *testImage) accessesOf(i int) []mock.Access {
	first := 0
	if i > 0 {
		first = s.steps[i-1].journal
	}
	return s.mainJournal[first:s.steps[i].journal]
}

// accessesBefore returns the number of accesses that the device records before an operation of
// "main". It measures the number in a run without "safe" that ends with a bus fault at this
// operation.
func (s *testImage) accessesBefore(t *testing.T, operation int) int {
	t.Helper()
	replay, device := s.load(t, s.withoutSafe)
	defer replay.Close()
	device.Inject(mock.Fault{Kind: mock.BusFault, Operation: operation})
	if result := replay.Run(s.main); result.Code != hal.BusFault || result.SafeRan {
		t.Fatalf("%s: bus fault at operation %d: %+v, want %v without safe", s.name, operation,
			result, hal.BusFault)
	}
	return len(device.Journal())
}

// checkFailedRun checks the state after a failed run: the code, the command, that only "safe" ran
// after the failure, and that the replay stays disabled. `at` is the step that should have failed,
// `accesses` the number of accesses before "safe".
func (s *testImage) checkFailedRun(t *testing.T, what string, replay *runtime.Replay,
	device *mock.Device, result runtime.Result, code hal.Code, at, accesses int) {
	t.Helper()
	switch {
	case result.Code != code || int(result.Command) != s.steps[at].index:
		t.Errorf("%s: %s: ended with %v at command %d, want %v at %d", s.name, what, result.Code,
			result.Command, code, s.steps[at].index)
	case !result.SafeRan:
		t.Errorf("%s: %s: safe did not run", s.name, what)
	case device.Alive() && !sameAccesses(device.Journal()[accesses:], s.safeJournal):
		t.Errorf("%s: %s: accesses after the failure: %v, want those of safe: %v", s.name, what,
			device.Journal()[accesses:], s.safeJournal)
	case !device.Alive() && len(device.Journal()) != accesses:
		t.Errorf("%s: %s: %d accesses recorded, want only the %d before the device was gone",
			s.name, what, len(device.Journal()), accesses)
	}
	before := device.Operations()
	if again := replay.Run(s.main); again.Code != hal.Disabled || again.Command != -1 ||
		device.Operations() != before {
		t.Errorf("%s: %s: the next run ends with %+v after %d operations, want code %v and none",
			s.name, what, again, device.Operations()-before, hal.Disabled)
	}
}

// sameAccesses compares everything but loaded values, which depend on earlier accesses.
func sameAccesses(got, want []mock.Access) bool {
	return slices.EqualFunc(got, want, func(a, b mock.Access) bool {
		if a.Op == mock.Load {
			a.Value, b.Value = 0, 0
		}
		return a == b
	})
}

func TestBusFaultAtEveryOperationEndsTheRunThere(t *testing.T) {
	for _, s := range loadTestImages(t) {
		operations := s.steps[len(s.steps)-1].operations
		for n := 1; n <= operations; n += effort.Cases(5, 1, 1) {
			replay, device := s.load(t, s.view)
			device.Inject(mock.Fault{Kind: mock.BusFault, Operation: n})
			result := replay.Run(s.main)
			at := s.stepOf(n)
			accesses := len(device.Journal()) - len(s.safeJournal)
			before := max(accesses, 0)
			if result.SafeSequenceCode != hal.OK || accesses < 0 ||
				!sameAccesses(device.Journal()[:before], s.mainJournal[:before]) {
				t.Fatalf("%s: bus fault at operation %d: %+v; the accesses before the fault "+
					"differ from a successful run", s.name, n, result)
			}
			s.checkFailedRun(t, fmt.Sprintf("bus fault at operation %d", n), replay, device, result,
				hal.BusFault, at, accesses)
			replay.Close()
		}
		t.Logf("evidence: %d bus faults injected (%s: %d commands)", operations, s.name,
			len(s.steps))
	}
}

// noticesDeviceGone reports whether step i notices that the device is gone, if the device goes away
// at an operation of that step or of an earlier one.
func (s *testImage) noticesDeviceGone(i, operation int) bool {
	c := &s.steps[i].command
	switch c.Opcode {
	case gen.OpcodeModify: // its load comes before its store
		return operation < s.steps[i].operations
	case gen.OpcodeExpect:
		return true
	case gen.OpcodeCompare, gen.OpcodeCopyOut:
		return true // all ones differ from all golden data of these images
	}
	return false
}

// TestDeviceGoneAtEveryOperationIsNoticedByTheNextLoad also counts the operations after the last
// load. If the device goes away at one of these, no replay can notice it.
func TestDeviceGoneAtEveryOperationIsNoticedByTheNextLoad(t *testing.T) {
	for _, s := range loadTestImages(t) {
		operations, unnoticed := s.steps[len(s.steps)-1].operations, 0
		for n := 1; n <= operations; n += effort.Cases(5, 1, 1) {
			replay, device := s.load(t, s.view)
			device.Inject(mock.Fault{Kind: mock.AllOnes, Operation: n})
			result := replay.Run(s.main)
			at := s.stepOf(n)
			for at < len(s.steps) && !s.noticesDeviceGone(at, n) {
				at++
			}
			accesses := s.accessesBefore(t, n)
			what := fmt.Sprintf("gone from operation %d on", n)
			if at == len(s.steps) {
				unnoticed++
				if result.Code != hal.OK {
					t.Errorf("%s: %s: run ends with %+v, want code %v: no load follows", s.name,
						what, result, hal.OK)
				}
			} else {
				s.checkFailedRun(t, what, replay, device, result, hal.DeviceGone, at, accesses)
			}
			if got, want := device.Journal(), s.mainJournal[:accesses]; !sameAccesses(got, want) {
				t.Errorf("%s: %s: accesses %v, want those of a successful run before this "+
					"operation: %v", s.name, what, got, want)
			}
			replay.Close()
		}
		t.Logf("evidence: %d vanishing devices injected (%s: %d of them after the last load)",
			operations, s.name, unnoticed)
		if unnoticed == operations {
			t.Errorf("%s: the device was gone in %d runs, and none noticed it", s.name, operations)
		}
	}
}

// stuckBitFaults returns one fault for each bit of the value that step i checks, if the condition
// of the step fails when this bit is stuck at the inverted value.
func (s *testImage) stuckBitFaults(i int) (faults []mock.Fault) {
	c, loads := &s.steps[i].command, s.accessesOf(i)
	last := loads[len(loads)-1]
	for bit := range 8 * uint(c.Width) {
		stuck := last.Value ^ 1<<bit
		if !conditionHolds(c, stuck) {
			faults = append(faults, mock.Fault{Kind: mock.Stuck, Place: last.Place, Mask: 1 << bit,
				Value: stuck})
		}
	}
	return faults
}

// conditionHolds reports whether a value meets the condition of an Expect command.
func conditionHolds(c *fbs.Command, value uint64) bool {
	if gen.Condition(c.Mode) == gen.ConditionNotEqual {
		return value&c.Mask != c.Value
	}
	return value&c.Mask == c.Value
}

// firstFailingStep returns the first step whose condition fails because of a stuck bit, and the
// value that this step reads last. Steps before the intended one may check the same place.
func (s *testImage) firstFailingStep(f mock.Fault) (at int, value uint64) {
	for i := range s.steps {
		c, loads := &s.steps[i].command, s.accessesOf(i)
		if c.Opcode != gen.OpcodeExpect || loads[0].Place != f.Place {
			continue
		}
		value := loads[len(loads)-1].Value&^f.Mask | f.Value&f.Mask
		if !conditionHolds(c, value) {
			return i, value
		}
	}
	return -1, 0
}

func TestEveryStuckBitIsReportedWithTheValueRead(t *testing.T) {
	for _, s := range loadTestImages(t) {
		count := 0
		for i := range s.steps {
			if c := &s.steps[i].command; c.Opcode != gen.OpcodeExpect {
				continue
			}
			for _, f := range s.stuckBitFaults(i) {
				at, value := s.firstFailingStep(f)
				c := &s.steps[at].command
				code := hal.ExpectFailed
				if c.Amount != 0 {
					code = hal.DeadlinePassed
				}
				replay, device := s.load(t, s.view)
				device.Inject(f)
				result := replay.Run(s.main)
				if result.Got != value || result.Want != c.Value || result.Mask != c.Mask {
					t.Errorf("%s: %+v: the result has got 0x%x, want 0x%x, mask 0x%x; these "+
						"should be 0x%x, 0x%x, 0x%x", s.name, f, result.Got, result.Want,
						result.Mask, value, c.Value, c.Mask)
				}
				s.checkFailedRun(t, fmt.Sprintf("bits 0x%x stuck at %v", f.Mask, f.Place), replay,
					device, result, code, at, len(device.Journal())-len(s.safeJournal))
				replay.Close()
				count++
			}
		}
		t.Logf("evidence: %d stuck bits injected (%s)", count, s.name)
		if count == 0 {
			t.Errorf("%s: no step checks a bit, so no fault was injected", s.name)
		}
	}
}

// TestPollsWaitForLateBitsAndExpectsDoNot makes every checked bit change some loads too late.
func TestPollsWaitForLateBitsAndExpectsDoNot(t *testing.T) {
	for _, s := range loadTestImages(t) {
		count := 0
		for i := range s.steps {
			opcode := s.steps[i].command.Opcode
			if opcode != gen.OpcodeExpect {
				continue
			}
			for _, f := range s.stuckBitFaults(i) {
				at, _ := s.firstFailingStep(f)
				f.Kind, f.Loads = mock.Late, 3
				for _, access := range s.mainJournal[:s.steps[at].journal] {
					if access.Op == mock.Load && access.Place == f.Place &&
						(access.Value^f.Value)&f.Mask != 0 {
						f.Loads++ // a successful run also loads the place before the bit changes
					}
				}
				count++
				replay, device := s.load(t, s.view)
				device.Inject(f)
				result := replay.Run(s.main)
				replay.Close()
				want := hal.OK
				if s.steps[at].command.Amount == 0 {
					want = hal.ExpectFailed
				}
				if result.Code != want {
					t.Errorf("%s: bits 0x%x late at %v: run ends with %v at command %d, want %v",
						s.name, f.Mask, f.Place, result.Code, result.Command, want)
				}
				if want == hal.OK && device.Operations() <= s.steps[len(s.steps)-1].operations {
					t.Errorf("%s: bits 0x%x at %v were not late: no more loads than without "+
						"a fault", s.name, f.Mask, f.Place)
				}
			}
		}
		t.Logf("evidence: %d late bits injected (%s)", count, s.name)
	}
}

// payloadListing describes an image whose payload begins at a page of the file.
const payloadListing = ivshmemHead + `
main:
  write.4 m+0x0 0x1
  copy.8 m+0x1000 <- pattern 0x1 size 64KiB bulk
  write.4 m+0x0 0x2
safe:
  write.4 m+0x8 0x5afe
`

// skipWithoutFaultAddress skips a test if bus errors do not report their address, as in QEMU's user
// mode. Go then reports a bus error as a nil pointer dereference.
func skipWithoutFaultAddress(t *testing.T) {
	t.Helper()
	fd, err := unix.MemfdCreate("empty", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	memory, err := unix.Mmap(fd, 0, 1, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if _, hasAddress := recover().(interface{ Addr() uintptr }); !hasAddress {
			t.Skip("bus errors do not report their address on this system")
		}
	}()
	t.Log("no bus error beyond the end of an empty file:", memory[0])
}

// TestFileCutShortDuringARunIsAnInputOutputError truncates a file while it is mapped. The run must
// report a fault of the file and not of the device, although one command reads the file and writes
// to the device.
func TestFileCutShortDuringARunIsAnInputOutputError(t *testing.T) {
	skipWithoutFaultAddress(t)
	// Without payload, and without any bytes; the process has a copy of the commands.
	for _, size := range []int64{4096, 0} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			path := writeImage(t, assembleImage(t, payloadListing))
			r, device, err := loadOnPlainDevice(path)
			if err != nil {
				t.Fatal(err)
			}
			defer device.Close()
			defer r.Close()
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
			result := r.Run(0)
			if result.Code != hal.IO || !result.FileTruncated || result.Command != 1 ||
				!result.SafeRan || result.SafeSequenceCode != hal.OK || device.memory[0] != 1 {
				t.Errorf("run ends with %+v, the device has %d at 0; want code %v at command 1, "+
					"file truncated, a successful safe, and 1", result, device.memory[0], hal.IO)
			}
			const want = "main, command 1: copy.8 w0+0x1000: " + runtime.FileTruncatedText
			text := string(report.AppendFailure(nil, runtime.ViewOf(r), &result, ""))
			if text != want {
				t.Errorf("reported as %q, want %q", text, want)
			}
			if again := r.Run(0); again.Code != hal.Disabled {
				t.Errorf("the next run ends with %v, want %v", again.Code, hal.Disabled)
			}
		})
	}
}

// TestFileCutShortBeforeItIsVerifiedIsAnInputOutputError truncates a file completely, and a file
// with default data of inputs after its envelope, which Verify copies.
func TestFileCutShortBeforeItIsVerifiedIsAnInputOutputError(t *testing.T) {
	skipWithoutFaultAddress(t)
	for source, size := range map[string]int64{payloadListing: 0, defaultInputsListing: 4096} {
		path := writeImage(t, assembleImage(t, source))
		file := openFile(t, path)
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		_, err := file.Verify()
		want := path + ": " + runtime.FileTruncatedText
		if hal.CodeOf(err) != hal.IO || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("Verify of a file cut to %d bytes: %v, want an I/O error that ends with %q",
				size, err, want)
		}
	}
}

// mapShrinkable maps a file, and returns its memory and a function that resizes the file. Accesses
// past the end of the file fault like accesses to a PCI device that was unplugged.
func mapShrinkable(t *testing.T, size int) (memory []byte, shrink func(size int64)) {
	t.Helper()
	skipWithoutFaultAddress(t)
	fd, err := unix.MemfdCreate("device", 0)
	if err != nil {
		t.Fatal(err)
	}
	shrink = func(size int64) {
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
	}
	shrink(int64(size))
	memory, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Munmap(memory)
		unix.Close(fd)
	})
	return memory, shrink
}

// TestBusErrorInARunOfStoresNamesTheStore: one call of Walk.Run executes all stores, and the result
// must still name the store that faulted.
func TestBusErrorInARunOfStoresNamesTheStore(t *testing.T) {
	memory, shrink := mapShrinkable(t, 1<<20)
	device := &plainDevice{memory: memory}
	for _, width := range []string{"1", "2", "4", "8"} {
		t.Run("width "+width, func(t *testing.T) {
			shrink(1 << 20)
			source := ivshmemHead + "main:\n"
			for _, offset := range []string{"0x0", "0x8", "0xff8", "0x1000", "0x10"} {
				source += "  write." + width + " m+" + offset + " 0x1\n"
			}
			r, err := runtime.Load(view(t, source), runtime.AnyTLBWindow, device)
			if err != nil {
				t.Fatal(err)
			}
			shrink(4096)
			if result := r.Run(0); result.Code != hal.BusFault || result.Command != 3 ||
				device.memory[0xff8] != 1 || device.memory[0x10] != 0 {
				t.Errorf("width %s: %+v, 0x%x at 0xff8 and 0x%x at 0x10; want %v at command 3, "+
					"1 and 0", width, result, device.memory[0xff8], device.memory[0x10],
					hal.BusFault)
			}
			r.Close()
		})
	}
}

// TestDeviceMemoryThatFaultsIsABusFault tries every kind of access.
func TestDeviceMemoryThatFaultsIsABusFault(t *testing.T) {
	memory, shrink := mapShrinkable(t, 1<<20)
	device := &plainDevice{memory: memory}
	for _, body := range []string{"write.4 m+0x0 0x1", "write.4 m+0x0 0x1 mask 0x1",
		"expect.4 m+0x0 == 0x0", "fill.4 m+0x0 <- 0x0 size 64",
		"copy.8 d[0:64] <- m+0x0 bulk", "copy.8 m+0x0 <- pattern 0x1 size 64 bulk",
		"copy.4 m+0x0 <- pattern 0x1 size 64",
		"compare.4 m+0x0 uint8 == pattern 0x1 size 64", "flush.4 m+0x0",
		"poll.4 m+0x0 == 0x0 within 1ms"} {
		t.Run(body, func(t *testing.T) {
			shrink(1 << 20)
			source := ivshmemHead + "tensor d output uint8[64]\nmain:\n  delay 1us\n  " + body +
				"\n  copy.4 d[0:64] <- m+0x0\n"
			r, err := runtime.Load(view(t, source), runtime.AnyTLBWindow, device)
			if err != nil {
				t.Fatal(err)
			}
			shrink(0)
			at := int32(1)
			if strings.HasPrefix(body, "flush") {
				at++ // flush is a fence and then a load
			}
			if result := r.Run(0); result.Code != hal.BusFault || result.Command != at {
				t.Errorf("%s: %+v, want %v at command %d", body, result, hal.BusFault, at)
			}
			r.Close()
		})
	}
}
