package main

import (
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// countedVariable is the environment variable that makes the test program replay countedListing and
// write to descriptor 3 when bus mastering is enabled and disabled, and how often it has allocated.
const countedVariable = "LM_TEST_COUNTED"

// movedVariable makes such a child leave the main thread.
const movedVariable = "LM_TEST_MOVED"

// countedListing is concatListing with a device that needs bus mastering.
var countedListing = strings.Replace(concatListing, "tensor a",
	"window h host size 4KiB\ntensor a", 1) + `differs:
  copy.4 d[0:20] <- m+0x100
  compare.4 m+0x0 uint32 == uint32 9
late:
  poll.4 m+0x0 == 0x1 within 1ms
`

// countedMock counts allocations from the moment that bus mastering is enabled.
type countedMock struct{ sleepingMock }

var (
	allocationsBefore, allocationsAfter goruntime.MemStats

	isCountedMaster bool
	onText, offText = []byte("on "), []byte("off ")
	errStaysOn      = hal.NewFault(hal.Internal, "bus mastering stays on")
)

func (m countedMock) SetBusMaster(on bool) error {
	if !on && !isCountedMaster {
		return nil
	}
	if isCountedMaster = on; !on {
		_ = files.WriteFull(3, offText)
		return errStaysOn
	}
	// The mock allocates its memory at the first accesses.
	a, err := m.Map(fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Slot: fbs.AnySlot, Size: 0x1000})
	for range 64 {
		a.Port.Store(0, 4, 0)
		a.Port.Load(0, 4)
	}
	_ = files.WriteFull(3, onText)
	countAllocations(&allocationsBefore)
	return err
}

func (countedMock) AssignBusAddress(*hal.Aperture, hal.Device) error { return nil }

// countAllocations does nothing in a sealed process, in which the kernel kills Go for it.
func countAllocations(statistics *goruntime.MemStats) {
	if !slices.Contains(os.Args, "-seal") {
		goruntime.ReadMemStats(statistics)
	}
}

// runCountedChild does what lmrun does after it has opened its devices. It does not return.
func runCountedChild(flags []string) {
	if os.Getenv(movedVariable) != "" {
		leaveMainThread()
	}
	o, err := args.Parse(flags)
	exitOnError(err)
	view, err := verifyListing(countedListing)
	exitOnError(err)
	f, err := planRuns(view, o)
	exitOnError(err)
	exitOnError(f.faultRecorder.openFile(o, view))
	end := f.runOnDevices([]hal.Device{countedMock{sleepingMock{mock.New(&boards.Ivshmem)}}}, view,
		o)
	f.faultRecorder.recordFailure(&end)
	exit := printOutcome(o, end)
	countAllocations(&allocationsAfter)
	_ = files.WriteFull(3, fmt.Appendf(nil, "allocated %d",
		allocationsAfter.Mallocs-allocationsBefore.Mallocs))
	unix.Exit(exit)
}

// TestNothingIsAllocatedAfterFreeze counts the allocations of lmrun after each kind of success and
// failure, with the longest names of files.
func TestNothingIsAllocatedAfterFreeze(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	// The longest path, of characters that are escaped.
	folder := strings.Repeat("\x01", 100)
	long := strings.Repeat(folder+"/../", 4095/104) + "in"
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("in", make([]byte, frameBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		flags string
		exit  int
		want  string
	}{
		{"-input a=IN -loop 3", 70, "bus mastering stays on"},
		{"-sequence begin -input a=IN", 70, "bus mastering stays on"},
		{"-input a=IN -sequence bad", 76, "expect failed: bad, command 0"},
		{"-input a=IN -sequence differs", 76, "golden mismatch: differs, command 1"},
		{"-input a=IN -sequence late", 75, "poll deadline passed: late, command 0"},
		{"", 64, "-input a=FILE is missing"},
		{"-input a=- -loop forever", 65, "ended in the middle of a run's data"},
		{"-input a=IN -output d=/dev/full -loop 9", 74, "/dev/full: no space left on device"},
		{"-input a=IN -output d=ring:ring -loop 9", 65, "has impossible counters"},
	} {
		for _, also := range []string{"", " -json", " -seal"} {
			t.Run(test.flags+also, func(t *testing.T) {
				_ = os.Remove("ring")
				if strings.Contains(test.flags, "ring") {
					makeImpossibleRing(t, "ring")
				}
				flags := strings.Fields(test.flags + also)
				for i := range flags {
					flags[i] = strings.ReplaceAll(flags[i], "IN", long)
				}
				c := childCommand(t, countedVariable, "1", append(flags, long)...)
				reader, writer, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				c.ExtraFiles = []*os.File{writer}
				c.Stdin = strings.NewReader("too short")
				text, _ := c.CombinedOutput()
				writer.Close()
				var events [64]byte
				n, _ := reader.Read(events[:])
				reader.Close()
				if exit := c.ProcessState.ExitCode(); exit != test.exit ||
					!strings.Contains(string(text), test.want) {
					t.Errorf("exit %d, %s; want %d and %q", exit, text, test.exit, test.want)
				}
				if got := string(events[:n]); got != "on off allocated 0" {
					t.Errorf("events: %q, want that nothing is allocated", got)
				}
			})
		}
	}
}

// makeImpossibleRing creates a ring for tensor d with more unread slots than slots.
func makeImpossibleRing(t *testing.T, path string) {
	t.Helper()
	r := &ring{path: path, dataBytes: resultBytes}
	if err := r.open(true); err != nil {
		t.Fatal(err)
	}
	r.slotsWritten = 1000
	_ = hal.Munmap(r.memory)
}

// TestSignalEndsTheWaitForAFIFO: no device is a bus master then, nothing runs, and no temporary
// file is left.
func TestSignalEndsTheWaitForAFIFO(t *testing.T) {
	const moved = "input on another thread"
	for name, flags := range map[string]string{"input": "-input a=FIFO", moved: "-input a=FIFO",
		"output": "-input a=IN -output d=FIFO"} {
		t.Run(name, func(t *testing.T) {
			dir, fifo := t.TempDir(), makeFIFO(t)
			in := filepath.Join(dir, "in")
			if err := os.WriteFile(in, make([]byte, frameBytes), 0o600); err != nil {
				t.Fatal(err)
			}
			words := strings.NewReplacer("FIFO", fifo, "IN", in).Replace(flags)
			words += " -output d=" + filepath.Join(dir, "out")
			c := childCommand(t, countedVariable, "1",
				append(strings.Fields(words), "-before", "begin", "x.lmb")...)
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			c.ExtraFiles = []*os.File{writer}
			if name == moved {
				c.Env = append(c.Env, movedVariable+"=1")
			}
			var text strings.Builder
			c.Stdout, c.Stderr = &text, &text
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			writer.Close()
			for tries := 10_000; !isOpening(c.Process.Pid) && tries > 0; tries-- {
				time.Sleep(time.Millisecond)
			}
			_ = c.Process.Signal(syscall.SIGTERM)
			_ = c.Wait()
			var events [64]byte
			n, _ := reader.Read(events[:])
			reader.Close()
			entries, _ := os.ReadDir(dir)
			if got := string(events[:n]); c.ProcessState.ExitCode() != 0 ||
				strings.Contains(got, "on ") || len(entries) != 1 {
				t.Errorf("%v, %s, events %q, files %v; want exit 0, no bus mastering, no output",
					c.ProcessState, text.String(), got, entries)
			}
		})
	}
}

// isOpening reports whether a thread of a process sleeps in openat(2).
func isOpening(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	return slices.ContainsFunc(files, func(file string) bool {
		text, _ := os.ReadFile(file)
		return strings.HasPrefix(string(text), fmt.Sprint(unix.SYS_OPENAT, " "))
	})
}

// leaveMainThread moves this goroutine to another thread, as Go may do. The kernel delivers signals
// to the main thread.
func leaveMainThread() {
	for unix.Gettid() == os.Getpid() {
		locked := make(chan bool)
		go func() {
			goruntime.LockOSThread()
			close(locked)
			select {}
		}()
		<-locked
	}
}
