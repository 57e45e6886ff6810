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
	"lightmetal/tools/image/lmb"

	"golang.org/x/sys/unix"
)

// step is one command of a run, with what the device sees of the run up to and
// including it. The numbers come from runs of images that end there, so that
// they do not rest on what the runtime says of itself.
type step struct {
	command    fbs.Command
	index      int // in the whole image
	operations int
	journal    int
}

// subject is an image under test, with the steps of a good run of "main".
type subject struct {
	name  string
	image *lmb.Image
	view  *fbs.View
	main  int
	steps []step
	good  []mock.Access // journal of a good run
	safe  []mock.Access // journal of a run of "safe"
}

// pollUsMax bounds the polls of a subject, so that a run on a device that is
// gone waits no longer than the good run takes.
const pollUsMax = 500

// subjects returns every image in testdata, and one with a call.
func subjects(t *testing.T) []*subject {
	t.Helper()
	paths, err := filepath.Glob("../testdata/images/*.lmb")
	if err != nil || len(paths) < 5 {
		t.Fatalf("%d images, %v", len(paths), err)
	}
	files := map[string][]byte{"calls": encoded(t, ivshmem+`
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
	var list []*subject
	for name, file := range files {
		list = append(list, newSubject(t, name, file))
	}
	slices.SortFunc(list, func(a, b *subject) int { return strings.Compare(a.name, b.name) })
	return list
}

func newSubject(t *testing.T, name string, file []byte) *subject {
	t.Helper()
	image, err := lmb.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range image.Sequences {
		image.Sequences[i].Commands = slices.DeleteFunc(image.Sequences[i].Commands,
			func(c lmb.Command) bool { return c.Opcode == lmb.OpcodeMark })
		for j := range image.Sequences[i].Commands {
			if c := &image.Sequences[i].Commands[j]; c.Opcode == gen.OpcodeExpect {
				c.Amount = min(c.Amount, pollUsMax)
			}
		}
		s := &image.Sequences[i]
		s.Commands = slices.DeleteFunc(s.Commands,
			func(c lmb.Command) bool { return c.Opcode == lmb.OpcodeMark })
	}
	s := &subject{name: name, image: image}
	s.addSafe()
	s.view = verified(t, image)
	s.main = s.view.SequenceByName("main")
	s.countSteps(t)
	s.good = s.record(t, "main")
	s.safe = s.record(t, "safe")
	if last := s.steps[len(s.steps)-1]; last.journal != len(s.good) {
		t.Fatalf("%s: %d accesses in parts, %d in one", name, last.journal, len(s.good))
	}
	return s
}

// addSafe adds a sequence "safe" to an image without one: a store that no
// other command makes.
func (s *subject) addSafe() {
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

func verified(t *testing.T, image *lmb.Image) *fbs.View {
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

// load loads a view of this subject on a new mock.
func (s *subject) load(t *testing.T, view *fbs.View) (*runtime.Replay, *mock.Device) {
	t.Helper()
	device := mock.New(chips.BoardByName(view.Name(view.Devices[0].Board)))
	device.Record(true)
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return replay, device
}

func (s *subject) record(t *testing.T, sequence string) []mock.Access {
	t.Helper()
	replay, device := s.load(t, s.view)
	defer replay.Close()
	if result := replay.Run(s.view.SequenceByName(sequence)); result.Code != hal.OK {
		t.Fatalf("%s: %s ends with %+v: %s", s.name, sequence, result, device.Refusal())
	}
	return device.Journal()
}

// countSteps puts the commands of "main" and of what it calls in one line, and
// runs every beginning of that line.
func (s *subject) countSteps(t *testing.T) {
	t.Helper()
	var line []lmb.Command
	for i, c := range s.image.Sequences[s.main].Commands {
		callee, first := []lmb.Command{c}, int(s.view.Sequences[s.main].First)+i
		if c.Opcode == gen.OpcodeCall {
			callee, first = s.image.Sequences[c.Index].Commands,
				int(s.view.Sequences[c.Index].First)
		}
		for j := range callee {
			s.steps = append(s.steps, step{command: s.view.Commands[first+j], index: first + j})
			line = append(line, callee[j])
		}
	}
	// The whole of "main" stays in the image: it fills the outputs.
	part := *s.image
	part.Sequences = append(slices.Clone(s.image.Sequences), lmb.Sequence{Name: "part"})
	for i := range s.steps {
		part.Sequences[len(part.Sequences)-1].Commands = line[:i+1]
		replay, device := s.load(t, verified(t, &part))
		if result := replay.Run(len(part.Sequences) - 1); result.Code != hal.OK {
			t.Fatalf("%s: its first %d commands end with %+v", s.name, i+1, result)
		}
		s.steps[i].operations, s.steps[i].journal = device.Operations(), len(device.Journal())
		replay.Close()
	}
}

// at returns the step that makes an operation.
func (s *subject) at(operation int) int {
	i := 0
	for s.steps[i].operations < operation {
		i++
	}
	return i
}

// loads is what the device gave to a step in the good run.
func (s *subject) loads(i int) []mock.Access {
	first := 0
	if i > 0 {
		first = s.steps[i-1].journal
	}
	return s.good[first:s.steps[i].journal]
}

// ended checks the state after a failed run: the code, the command, that
// nothing but "safe" came after, and that the replay stays disabled.
func (s *subject) ended(t *testing.T, what string, replay *runtime.Replay, device *mock.Device,
	result runtime.Result, code hal.Code, at, accesses int) {
	t.Helper()
	switch {
	case result.Code != code || int(result.Command) != s.steps[at].index:
		t.Errorf("%s: %s: ended with %v at command %d, want %v at %d", s.name, what, result.Code,
			result.Command, code, s.steps[at].index)
	case !result.SafeRan:
		t.Errorf("%s: %s: safe did not run", s.name, what)
	case !sameAccesses(device.Journal()[accesses:], s.safe) && device.Alive():
		t.Errorf("%s: %s: after the failure came %v, want %v", s.name, what,
			device.Journal()[accesses:], s.safe)
	case !device.Alive() && len(device.Journal()) != accesses:
		t.Errorf("%s: %s: a device that is gone saw %v", s.name, what, device.Journal()[accesses:])
	}
	before := device.Operations()
	if again := replay.Run(s.main); again.Code != hal.Disabled || again.Command != -1 ||
		device.Operations() != before {
		t.Errorf("%s: %s: the next run ends with %+v after %d operations", s.name, what, again,
			device.Operations()-before)
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
	for _, s := range subjects(t) {
		operations := s.steps[len(s.steps)-1].operations
		for n := 1; n <= operations; n++ {
			replay, device := s.load(t, s.view)
			device.Inject(mock.Fault{Kind: mock.BusFault, Operation: n})
			result := replay.Run(s.main)
			at := s.at(n)
			accesses := len(device.Journal()) - len(s.safe)
			if result.SafeSequenceCode != hal.OK || accesses < 0 ||
				!sameAccesses(device.Journal()[:max(accesses, 0)], s.good[:max(accesses, 0)]) {
				t.Fatalf("%s: operation %d: %+v, and before the fault not what a good run does",
					s.name, n, result)
			}
			s.ended(t, fmt.Sprintf("bus fault at operation %d", n), replay, device, result,
				hal.BusFault, at, accesses)
			replay.Close()
		}
		t.Logf("evidence: %d bus faults injected (%s: %d commands)", operations, s.name,
			len(s.steps))
	}
}

// notices reports whether a step of a run on a device that is gone from an
// operation of that step or an earlier one on sees that it is.
func (s *subject) notices(i, operation int) bool {
	c := &s.steps[i].command
	switch c.Opcode {
	case gen.OpcodeModify: // it loads before it stores
		return operation < s.steps[i].operations
	case gen.OpcodeExpect:
		return true
	case gen.OpcodeCompare, gen.OpcodeCopyOut:
		return true // no golden data here are all ones
	}
	return false
}

// TestDeviceGoneAtEveryOperationIsNoticedByTheNextLoad also shows what no
// replay can notice: a device that goes away after the last load.
func TestDeviceGoneAtEveryOperationIsNoticedByTheNextLoad(t *testing.T) {
	for _, s := range subjects(t) {
		operations, unnoticed := s.steps[len(s.steps)-1].operations, 0
		for n := 1; n <= operations; n++ {
			replay, device := s.load(t, s.view)
			device.Inject(mock.Fault{Kind: mock.AllOnes, Operation: n})
			result := replay.Run(s.main)
			at := s.at(n)
			for at < len(s.steps) && !s.notices(at, n) {
				at++
			}
			accesses := len(device.Journal())
			what := fmt.Sprintf("gone from operation %d on", n)
			if at == len(s.steps) {
				unnoticed++
				if result.Code != hal.OK {
					t.Errorf("%s: %s: %+v, and nothing was left to notice it", s.name, what, result)
				}
			} else {
				s.ended(t, what, replay, device, result, hal.DeviceGone, at, accesses)
			}
			if !sameAccesses(device.Journal(), s.good[:accesses]) {
				t.Errorf("%s: %s: not what a good run does", s.name, what)
			}
			replay.Close()
		}
		t.Logf("evidence: %d vanishing devices injected (%s: %d of them after the last load)",
			operations, s.name, unnoticed)
		if unnoticed == operations {
			t.Errorf("%s: never noticed", s.name)
		}
	}
}

// breaking returns a fault for each bit of a checked value that, stuck, keeps the
// step from ever holding.
func (s *subject) breaking(i int) (faults []mock.Fault) {
	c, loads := &s.steps[i].command, s.loads(i)
	last := loads[len(loads)-1]
	for bit := range 8 * uint(c.Width) {
		stuck := last.Value ^ 1<<bit
		if !holds(c, stuck) {
			faults = append(faults, mock.Fault{Kind: mock.Stuck, Place: last.Place, Mask: 1 << bit,
				Value: stuck})
		}
	}
	return faults
}

func holds(c *fbs.Command, value uint64) bool {
	if gen.Condition(c.Mode) == gen.ConditionNotEqual {
		return value&c.Mask != c.Value
	}
	return value&c.Mask == c.Value
}

// firstBroken is the first step that a stuck bit breaks, with the value it
// ends with: earlier steps may check the same place.
func (s *subject) firstBroken(f mock.Fault) (at int, value uint64) {
	for i := range s.steps {
		c, loads := &s.steps[i].command, s.loads(i)
		if c.Opcode != gen.OpcodeExpect || loads[0].Place != f.Place {
			continue
		}
		value := loads[len(loads)-1].Value&^f.Mask | f.Value&f.Mask
		if !holds(c, value) {
			return i, value
		}
	}
	return -1, 0
}

func TestEveryCheckedBitStuckIsReportedWithWhatWasSeen(t *testing.T) {
	for _, s := range subjects(t) {
		count := 0
		for i := range s.steps {
			if c := &s.steps[i].command; c.Opcode != gen.OpcodeExpect {
				continue
			}
			for _, f := range s.breaking(i) {
				at, value := s.firstBroken(f)
				c := &s.steps[at].command
				code := hal.ExpectFailed
				if c.Amount != 0 {
					code = hal.DeadlinePassed
				}
				replay, device := s.load(t, s.view)
				device.Inject(f)
				result := replay.Run(s.main)
				if result.Got != value || result.Want != c.Value || result.Mask != c.Mask {
					t.Errorf("%s: %+v: got 0x%x, want 0x%x under 0x%x; should be 0x%x, 0x%x, 0x%x",
						s.name, f, result.Got, result.Want, result.Mask, value, c.Value, c.Mask)
				}
				s.ended(t, fmt.Sprintf("bits 0x%x stuck at %v", f.Mask, f.Place), replay, device,
					result, code, at, len(device.Journal())-len(s.safe))
				replay.Close()
				count++
			}
		}
		t.Logf("evidence: %d stuck bits injected (%s)", count, s.name)
		if count == 0 {
			t.Errorf("%s: nothing is checked", s.name)
		}
	}
}

// TestEveryPolledBitMayBeLateAndNoExpectedOne: a poll waits for a bit, an
// expect does not.
func TestEveryPolledBitMayBeLateAndNoExpectedOne(t *testing.T) {
	for _, s := range subjects(t) {
		count := 0
		for i := range s.steps {
			opcode := s.steps[i].command.Opcode
			if opcode != gen.OpcodeExpect {
				continue
			}
			for _, f := range s.breaking(i) {
				at, _ := s.firstBroken(f)
				f.Kind, f.Loads = mock.Late, 3
				for _, access := range s.good[:s.steps[at].journal] {
					if access.Op == mock.Load && access.Place == f.Place &&
						(access.Value^f.Value)&f.Mask != 0 {
						f.Loads++ // a good run makes that many
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
					t.Errorf("%s: bits 0x%x late at %v: %v at command %d, want %v", s.name, f.Mask,
						f.Place, result.Code, result.Command, want)
				}
				if want == hal.OK && device.Operations() <= s.steps[len(s.steps)-1].operations {
					t.Errorf("%s: bits 0x%x at %v were not late", s.name, f.Mask, f.Place)
				}
			}
		}
		t.Logf("evidence: %d late bits injected (%s)", count, s.name)
	}
}

// withPayload is an image whose payload begins at a page of the file.
const withPayload = ivshmem + `
main:
  write.4 m+0x0 0x1
  copy.8 m+0x1000 <- pattern 0x1 size 64KiB bulk
  write.4 m+0x0 0x2
safe:
  write.4 m+0x8 0x5afe
`

// needFaultAddress skips where a bus error does not come with its address, as
// in QEMU's user mode: Go then takes it for a nil pointer.
func needFaultAddress(t *testing.T) {
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
	t.Log("not cut short:", memory[0])
}

// TestFileCutShortDuringARunIsAnInputOutputError cuts a real file under its mapping: the fault
// is the file's and not the device's, though one command reads the one and writes the other.
func TestFileCutShortDuringARunIsAnInputOutputError(t *testing.T) {
	needFaultAddress(t)
	for _, test := range []struct {
		size    int64
		command int32
		safe    hal.Code
		stored  byte
	}{
		{4096, 1, hal.OK, 1}, // payload gone
		{0, 1, hal.OK, 1},    // all gone but the copy of the commands
	} {
		t.Run(fmt.Sprintf("%d bytes", test.size), func(t *testing.T) {
			path := written(t, encoded(t, withPayload))
			r, device, err := loadPlain(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, test.size); err != nil {
				t.Fatal(err)
			}
			result := r.Run(0)
			if result.Code != hal.IO || !result.FileTruncated || result.Command != test.command ||
				!result.SafeRan || result.SafeSequenceCode != test.safe {
				t.Errorf("cut to %d: %+v", test.size, result)
			}
			const says = "main, command 1: copy.8 w0+0x1000: " + runtime.FileTruncatedText
			if text := string(report.AppendFailure(nil, r.View(), &result)); text != says {
				t.Errorf("cut to %d: %s", test.size, text)
			}
			if device.memory[0] != test.stored {
				t.Errorf("cut to %d: device has %d", test.size, device.memory[0])
			}
			if again := r.Run(0); again.Code != hal.Disabled {
				t.Errorf("cut to %d: then %v", test.size, again.Code)
			}
			r.Close()
			device.Close()
		})
	}
}

func TestFileCutShortBeforeItIsVerifiedIsAnInputOutputError(t *testing.T) {
	needFaultAddress(t)
	path := written(t, encoded(t, withPayload))
	file, err := runtime.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	_, err = file.Verify()
	if hal.CodeOf(err) != hal.IO || !strings.Contains(err.Error(), "cut short") {
		t.Error(err)
	}
}

// vanishing is a device whose memory can be taken away from under its mapping,
// as a PCI hot-unplug does: a shared file mapping past its end faults.
func vanishing(t *testing.T) (device *plain, shrink func(size int64)) {
	t.Helper()
	needFaultAddress(t)
	const size = 1 << 20
	fd, err := unix.MemfdCreate("device", 0)
	if err != nil {
		t.Fatal(err)
	}
	shrink = func(size int64) {
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
	}
	shrink(size)
	memory, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	device = &plain{memory: memory}
	t.Cleanup(func() {
		device.Close()
		unix.Close(fd)
	})
	return device, shrink
}

// TestBusErrorInARunOfStoresNamesTheStore: runs of plain stores are made in one
// go, and the one that faults is still known.
func TestBusErrorInARunOfStoresNamesTheStore(t *testing.T) {
	device, shrink := vanishing(t)
	for _, width := range []string{"1", "2", "4", "8"} {
		t.Run("width "+width, func(t *testing.T) {
			shrink(1 << 20)
			source := ivshmem + "main:\n"
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
				t.Errorf("width %s: %+v", width, result)
			}
			r.Close()
		})
	}
}

// TestDeviceMemoryThatFaultsIsABusFault does so under every kind of access.
func TestDeviceMemoryThatFaultsIsABusFault(t *testing.T) {
	device, shrink := vanishing(t)
	for _, body := range []string{"write.4 m+0x0 0x1", "write.4 m+0x0 0x1 mask 0x1",
		"expect.4 m+0x0 == 0x0", "fill.4 m+0x0 <- 0x0 size 64",
		"copy.8 d[0:64] <- m+0x0 bulk", "copy.8 m+0x0 <- pattern 0x1 size 64 bulk",
		"copy.4 m+0x0 <- pattern 0x1 size 64",
		"compare.4 m+0x0 uint8 == pattern 0x1 size 64", "flush.4 m+0x0",
		"poll.4 m+0x0 == 0x0 within 1ms"} {
		t.Run(body, func(t *testing.T) {
			shrink(1 << 20)
			source := ivshmem + "tensor d output uint8[64]\nmain:\n  delay 1us\n  " + body +
				"\n  copy.4 d[0:64] <- m+0x0\n"
			r, err := runtime.Load(view(t, source), runtime.AnyTLBWindow, device)
			if err != nil {
				t.Fatal(err)
			}
			shrink(0)
			at := int32(1)
			if strings.HasPrefix(body, "flush") {
				at++ // a fence is before the load
			}
			if result := r.Run(0); result.Code != hal.BusFault || result.Command != at {
				t.Errorf("%s: %+v", body, result)
			}
			r.Close()
		})
	}
}
