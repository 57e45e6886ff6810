package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/image/lmb/lmbtest"
	"lightmetal/tools/lmrun/args"
)

// concatListing describes an image whose output d is its input a followed by its input b.
const concatListing = `lightmetal 1
target ivshmem 1af4:1110 bar2 0x100000
window m bar2 offset 0x0 size 0x100000
tensor a input uint32[4]
tensor b input uint32[1] = uint32 7
tensor d output uint32[5]
main:
  copy.4 m+0x100 <- a[0:16]
  copy.4 m+0x110 <- b[0:4]
  copy.4 d[0:20] <- m+0x100
bad:
  expect.4 m+0x0 == 0x1
slow:
  delay 1ms
begin:
  write.4 m+0x0 0x1
finish:
  expect.4 m+0x0 == 0x1
  write.4 m+0x0 0x2
again:
  expect.4 m+0x0 == 0x2
ignoring:
  expect.4 m+0x0 == 0x1 else ignore
  expect.4 m+0x4 == 0x1 else ignore
safe:
  write.4 m+0x0 0x5afe
`

// Sizes of the tensors a and d of concatListing.
const frameBytes, resultBytes = 16, 20

// sleepingMock is a mock whose Sleep really sleeps, so that other goroutines run.
type sleepingMock struct{ *mock.Device }

func (sleepingMock) Sleep(nanoseconds int64) {
	t := syscall.NsecToTimespec(nanoseconds)
	_ = syscall.Nanosleep(&t, nil)
}

// planAndOpen loads concatListing on a device, plans the runs for the flags in line, and opens
// their files. The clock is that of another device.
func planAndOpen(t *testing.T, device, clock hal.Device, line string) (*runLoop, args.Options,
	error) {
	t.Helper()
	o, err := args.Parse(append(strings.Fields(line), "x.lmb"))
	if err != nil {
		t.Fatal(err)
	}
	view := lmbtest.View(t, lmbtest.File(t, concatListing))
	r, err := runtime.Load(view, runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	f, err := planRuns(view, o)
	if err == nil {
		f.setReplay(r, clock)
		err = f.openFiles()
	}
	return f, o, err
}

// openRuns does the same as planAndOpen with mocks, and fails the test if there is an error.
func openRuns(t *testing.T, line string) *runLoop {
	t.Helper()
	f, _, err := planAndOpen(t, mock.New(&boards.Ivshmem), sleepingMock{mock.New(&boards.Ivshmem)},
		line)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// runFrames replays concatListing with the flags in line, as lmrun does after it has loaded an
// image.
func runFrames(t *testing.T, line string) outcome {
	t.Helper()
	return runFramesOn(t, mock.New(&boards.Ivshmem), line)
}

// runFramesOn does the same as runFrames, on a device.
func runFramesOn(t *testing.T, device hal.Device, line string) outcome {
	t.Helper()
	f, o, err := planAndOpen(t, device, sleepingMock{mock.New(&boards.Ivshmem)}, line)
	if err != nil {
		return outcome{err: err}
	}
	end := f.runAndCommit(o.RunCount)
	f.outputFiles.Discard()
	for _, s := range f.streams {
		if s.isPerRun && !s.isOutput && s.ring == nil {
			syscall.Close(s.fd) // as the end of the process would
		}
	}
	return end
}

func TestSequencesBeforeAndAfterRunOnce(t *testing.T) {
	in := filepath.Join(t.TempDir(), "a")
	_ = os.WriteFile(in, make([]byte, frameBytes), 0o600)
	if end := runFrames(t, "-before begin -sequence main -loop 3 -after finish -input a="+
		in); end.err != nil || end.result.Code != hal.OK || end.runs != 3 {
		t.Errorf("begin, 3 runs of main, finish: ended with %+v, want success and 3 runs", end)
	}
	// Sequence finish fails without begin. If the sequence of -before fails, nothing runs.
	end := runFrames(t, "-after finish -input a="+in)
	if end.result.Code != hal.ExpectFailed || end.runs != 1 ||
		!strings.Contains(end.err.Error(), ": finish, command") {
		t.Errorf("-after finish without begin: ended with %+v, want a failure of finish after "+
			"1 run", end)
	}
	end = runFrames(t, "-before finish -input a="+in)
	if end.result.Code != hal.ExpectFailed || end.runs != 0 || !end.result.SafeRan {
		t.Errorf("-before finish: ended with %+v, want a failure, no run, and safe", end)
	}
	for _, flag := range []string{"-before", "-after", "-sequence"} {
		if end := runFrames(t, flag+" none -input a="+in); hal.CodeOf(end.err) != hal.Usage ||
			!strings.Contains(end.err.Error(), "no sequence none") {
			t.Errorf("%s none: ended with %+v, want a usage error", flag, end)
		}
	}
}

// TestIgnoredFailuresOfAllSequencesAreCounted runs a sequence with two ignored failures before,
// during and after the runs.
func TestIgnoredFailuresOfAllSequencesAreCounted(t *testing.T) {
	in := filepath.Join(t.TempDir(), "a")
	_ = os.WriteFile(in, make([]byte, frameBytes), 0o600)
	end := runFrames(t, "-before ignoring -sequence ignoring -loop 3 -after begin -input a="+in)
	text := string(appendJSON(nil, args.Options{}, &end, hal.OK))
	if end.err != nil || !strings.Contains(text, `"ignored":8,`) {
		t.Errorf("4 runs with 2 ignored failures each: %s; %v; want 8 ignored failures", text,
			end.err)
	}
}

// failureText returns what lmrun prints after a failure.
func failureText(end outcome) string { return string(appendFailure(nil, &end)) }

func TestMissingInputIsNamed(t *testing.T) {
	const want = "input has no data: -input a=FILE is missing"
	if end := runFrames(t, ""); end.err == nil || failureText(end) != want {
		t.Errorf("ended with %+v, want %q", end, want)
	}
}

// busMaster is a device whose Diagnose returns a given state. No command notices it.
type busMaster struct {
	sleepingMock
	state hal.Code
}

func (m *busMaster) AssignBusAddress(*hal.Aperture, hal.Device) error { return nil }
func (m *busMaster) Diagnose() hal.Code                               { return m.state }
func (m *busMaster) SetBusMaster(bool) error                          { return nil }

func TestDMAFaultThatNoCommandNoticedIsAFailure(t *testing.T) {
	device := &busMaster{sleepingMock: sleepingMock{mock.New(&boards.Ivshmem)}, state: hal.DMAFault}
	in := filepath.Join(t.TempDir(), "a")
	_ = os.WriteFile(in, make([]byte, frameBytes), 0o600)
	end := runFramesOn(t, device, "-sequence begin -input a="+in)
	if end.result.Code != hal.DMAFault || !end.result.SafeRan ||
		failureText(end) != "DMA fault: device error after the last run; output files are "+
			"not written; then sequence safe ran: done" {
		t.Errorf("ended with %+v: %q; want %v and safe", end, failureText(end), hal.DMAFault)
	}
}

// frameData returns n different inputs and the results of their runs.
func frameData(n int) (inputs, results []byte) {
	for i := range n {
		frame := make([]byte, frameBytes)
		for j := range 4 {
			binary.LittleEndian.PutUint32(frame[4*j:], uint32(i*1000+j))
		}
		inputs = append(inputs, frame...)
		results = append(append(results, frame...), 7, 0, 0, 0)
	}
	return inputs, results
}

func makeFIFO(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func writeInBackground(path string, data []byte) { go func() { _ = os.WriteFile(path, data, 0) }() }

// readInBackground reads a pipe to its end in a goroutine, which sends the data to a channel.
func readInBackground(path string) <-chan []byte {
	all := make(chan []byte, 1)
	go func() {
		data, _ := os.ReadFile(path)
		all <- data
	}()
	return all
}

func TestPipesProvideDataForEachRun(t *testing.T) {
	const frames = 300 // more than fit in the pipes
	inputs, results := frameData(frames)
	in, out := makeFIFO(t), makeFIFO(t)
	writeInBackground(in, inputs)
	got := readInBackground(out)
	end := runFrames(t, "-loop forever -input a="+in+" -output d="+out)
	if end.err != nil || end.result.Code != hal.OK || end.runs != frames {
		t.Fatalf("ended with %+v, want success and %d runs", end, frames)
	}
	if data := <-got; !bytes.Equal(data, results) {
		t.Errorf("the output pipe contains %d bytes, want the %d bytes of %d results", len(data),
			len(results), frames)
	}
}

// TestPipeThatEndsWithinARunsDataIsAnError also checks that a failure between runs runs the
// sequence safe.
func TestPipeThatEndsWithinARunsDataIsAnError(t *testing.T) {
	inputs, _ := frameData(3)
	in := makeFIFO(t)
	writeInBackground(in, inputs[:len(inputs)-1])
	end := runFrames(t, "-loop forever -input a="+in)
	if hal.CodeOf(end.err) != hal.BadTensor || end.runs != 2 || !end.result.SafeRan ||
		end.result.SafeSequenceCode != hal.OK ||
		!strings.Contains(failureText(end), "sequence safe ran: done") {
		t.Errorf("input that ends within the third frame: ended with %+v, want code %v after "+
			"2 runs, and safe", end, hal.BadTensor)
	}
	// One input has data for a second run, and the other does not.
	in, other := makeFIFO(t), makeFIFO(t)
	writeInBackground(in, inputs)
	writeInBackground(other, make([]byte, 4))
	end = runFrames(t, "-loop forever -input a="+in+" -input b="+other)
	if hal.CodeOf(end.err) != hal.BadTensor || end.runs != 1 {
		t.Errorf("inputs of different length: ended with %+v, want code %v after 1 run", end,
			hal.BadTensor)
	}
}

func TestPipeWithoutReaderIsAnInputOutputError(t *testing.T) {
	out := makeFIFO(t)
	go func() {
		file, _ := os.Open(out)
		file.Close()
	}()
	in := filepath.Join(t.TempDir(), "a")
	_ = os.WriteFile(in, make([]byte, frameBytes), 0o600)
	// Some results may fit into the pipe before the reader closes it.
	end := runFrames(t, "-loop forever -input a="+in+" -output d="+out)
	if hal.CodeOf(end.err) != hal.IO {
		t.Errorf("ended with %+v, want code %v", end, hal.IO)
	}
}

// TestDeviceFailureTakesPrecedenceOverThatOfAnOutput writes to a pipe without a reader after a run
// in which the device's DMA failed.
func TestDeviceFailureTakesPrecedenceOverThatOfAnOutput(t *testing.T) {
	out := makeFIFO(t)
	go func() {
		file, _ := os.Open(out)
		file.Close()
	}()
	in := filepath.Join(t.TempDir(), "a")
	_ = os.WriteFile(in, make([]byte, frameBytes), 0o600)
	device := &busMaster{sleepingMock{mock.New(&boards.Ivshmem)}, hal.DMAFault}
	end := runFramesOn(t, device, "-loop forever -input a="+in+" -output d="+out)
	if hal.CodeOf(end.err) != hal.DMAFault || !end.result.SafeRan {
		t.Errorf("ended with %+v, want code %v and safe", end, hal.DMAFault)
	}
}

func TestFileIsReadOnceAndWrittenAfterTheLastRun(t *testing.T) {
	inputs, results := frameData(1)
	in, out := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "d")
	_ = os.WriteFile(in, inputs, 0o600)
	end := runFrames(t, "-loop 5 -input a="+in+" -output d="+out)
	if data, _ := os.ReadFile(out); end.runs != 5 || end.err != nil || !bytes.Equal(data, results) {
		t.Errorf("ended with %+v, output %x; want 5 runs and output %x", end, data, results)
	}
	for _, size := range []int{frameBytes - 1, frameBytes + 1} {
		_ = os.WriteFile(in, make([]byte, size), 0o600)
		if end := runFrames(t, "-input a="+in); hal.CodeOf(end.err) != hal.BadTensor ||
			end.runs != 0 {
			t.Errorf("input of %d bytes: ended with %+v, want code %v and no run", size, end,
				hal.BadTensor)
		}
	}
	_ = os.WriteFile(in, append([]byte("\x93NUMPY\x01\x00"), inputs...), 0o600)
	if end := runFrames(t, "-input a="+in); end.err == nil ||
		!strings.Contains(end.err.Error(), "it is a file of NumPy: `lm tensor FILE.npy FILE.bin`") {
		t.Errorf("a file of NumPy: ended with %v, want that it is one", end.err)
	}
}

// TestFileThatCannotBeReadIsAnErrorWithTheKernelsReason reads /proc/self/mem, because no process
// has memory at address 0.
func TestFileThatCannotBeReadIsAnErrorWithTheKernelsReason(t *testing.T) {
	end := runFrames(t, "-input a=/proc/self/mem")
	if hal.CodeOf(end.err) != hal.IO || !strings.HasSuffix(end.err.Error(),
		"/proc/self/mem: input/output error") {
		t.Errorf("ended with %+v, want code %v and the error of the kernel", end, hal.IO)
	}
}

func TestDeadlineLimitsOnlyRuns(t *testing.T) {
	in := filepath.Join(t.TempDir(), "a")
	_ = os.WriteFile(in, make([]byte, frameBytes), 0o600)
	if end := runFrames(t, "-deadline 500us -before slow -after slow -loop 2 -input a="+
		in); end.err != nil || end.result.Code != hal.OK || end.runs != 2 {
		t.Errorf("slow sequences before and after: ended with %+v, want success and 2 runs", end)
	}
}

func TestRunThatExceedsItsDeadlineIsReported(t *testing.T) {
	in := filepath.Join(t.TempDir(), "a")
	_ = os.WriteFile(in, make([]byte, frameBytes), 0o600)
	if end := runFrames(t, "-loop 3 -sequence slow -deadline 2ms -input a="+in); end.err != nil ||
		end.result.Code != hal.OK || end.runs != 3 {
		t.Errorf("deadline 2 ms: ended with %+v, want success and 3 runs", end)
	}
	end := runFrames(t, "-loop 3 -sequence slow -deadline 500us -input a="+in)
	if end.result.Code != hal.FrameLate || end.runs != 0 ||
		failureText(end) != "run took longer than its limit: slow, command 0: delay; then "+
			"sequence safe ran: done" {
		t.Errorf("deadline 500 us: ended with %+v: %q; want %v in the first run", end,
			failureText(end), hal.FrameLate)
	}
}
