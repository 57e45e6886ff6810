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

// adder is an image whose output is its input a followed by its input b.
const adder = `lightmetal 1
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
safe:
  write.4 m+0x0 0x5afe
`

const frameBytes, resultBytes = 16, 20

func loaded(t *testing.T) *runtime.Replay {
	t.Helper()
	return loadedOn(t, mock.New(&boards.Ivshmem))
}

func loadedOn(t *testing.T, device hal.Device) *runtime.Replay {
	t.Helper()
	r, err := runtime.Load(lmbtest.View(t, lmbtest.File(t, adder)), runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// waiter is a clock whose sleep really gives others a chance.
type waiter struct{ *mock.Device }

func (waiter) Sleep(nanoseconds int64) {
	t := syscall.NsecToTimespec(nanoseconds)
	_ = syscall.Nanosleep(&t, nil)
}

// framesOf plans and opens what options ask for.
func framesOf(r *runtime.Replay, o args.Options, device hal.Device) (*runLoop, error) {
	f, err := planRuns(r.View(), o)
	if err == nil {
		err = f.openFiles(r, device)
	}
	return f, err
}

// frameRuns does what replay does from Load on.
func frameRuns(t *testing.T, line string) outcome {
	t.Helper()
	o, err := args.Parse(append(strings.Fields(line), "x.lmb"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := framesOf(loaded(t), o, waiter{mock.New(&boards.Ivshmem)})
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
	if end := frameRuns(t, "-before begin -sequence main -loop 3 -after finish -input a="+
		in); end.err != nil || end.result.Code != hal.OK || end.runs != 3 {
		t.Errorf("%+v", end)
	}
	// finish fails without begin, and a failure before leaves no runs.
	end := frameRuns(t, "-after finish -input a="+in)
	if end.result.Code != hal.ExpectFailed || end.runs != 1 ||
		!strings.Contains(end.err.Error(), ": finish, command") {
		t.Errorf("%+v", end)
	}
	end = frameRuns(t, "-before finish -input a="+in)
	if end.result.Code != hal.ExpectFailed || end.runs != 0 || !end.result.SafeRan {
		t.Errorf("%+v", end)
	}
	for _, flag := range []string{"-before", "-after", "-sequence"} {
		if end := frameRuns(t, flag+" none -input a="+in); hal.CodeOf(end.err) != hal.Usage ||
			!strings.Contains(end.err.Error(), "no sequence none") {
			t.Errorf("%s: %+v", flag, end)
		}
	}
}

func TestMissingInputIsNamed(t *testing.T) {
	const want = "input has no data: -input a=FILE is missing"
	if end := frameRuns(t, ""); end.err == nil || failureText(end) != want {
		t.Errorf("%+v, want %s", end, want)
	}
}

// master is a device that reports only when it is asked that its DMA did not reach memory.
type master struct {
	waiter
	state hal.Code
}

func (m *master) AssignBusAddress(*hal.Aperture, hal.Device) error { return nil }
func (m *master) Diagnose() hal.Code                               { return m.state }
func (m *master) SetBusMaster(bool) error                          { return nil }

func TestDMAFaultThatNoCommandNoticedIsAFailure(t *testing.T) {
	device := &master{waiter: waiter{mock.New(&boards.Ivshmem)}, state: hal.DMAFault}
	o, err := args.Parse([]string{"-sequence", "begin", "x.lmb"})
	if err != nil {
		t.Fatal(err)
	}
	r := loadedOn(t, device)
	r.Input(0)
	f, err := framesOf(r, o, device)
	if err != nil {
		t.Fatal(err)
	}
	end := f.runAndCommit(1)
	if end.result.Code != hal.DMAFault || !end.result.SafeRan ||
		failureText(end) != "DMA fault: device error after the last run; output files are "+
			"not written; then sequence safe ran: done" {
		t.Errorf("%+v: %s", end, failureText(end))
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

func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// feed writes data into a pipe, collect reads one to its end.
func feed(path string, data []byte) { go func() { _ = os.WriteFile(path, data, 0) }() }

func collect(path string) <-chan []byte {
	all := make(chan []byte, 1)
	go func() {
		data, _ := os.ReadFile(path)
		all <- data
	}()
	return all
}

func TestPipesProvideDataForEachRun(t *testing.T) {
	const frames = 300 // more than the pipes hold
	inputs, results := frameData(frames)
	in, out := fifo(t), fifo(t)
	feed(in, inputs)
	got := collect(out)
	end := frameRuns(t, "-loop forever -input a="+in+" -output d="+out)
	if end.err != nil || end.result.Code != hal.OK || end.runs != frames {
		t.Fatalf("%+v", end)
	}
	if data := <-got; !bytes.Equal(data, results) {
		t.Errorf("%d bytes came back, not those of %d frames", len(data), frames)
	}
}

func TestPipeThatEndsWithinARunsDataIsAnError(t *testing.T) {
	inputs, _ := frameData(3)
	in := fifo(t)
	feed(in, inputs[:len(inputs)-1])
	end := frameRuns(t, "-loop forever -input a="+in)
	if hal.CodeOf(end.err) != hal.BadTensor || end.runs != 2 {
		t.Errorf("%+v", end)
	}
	// One input has data for a run, the other has not.
	in, other := fifo(t), fifo(t)
	feed(in, inputs)
	feed(other, make([]byte, 4))
	end = frameRuns(t, "-loop forever -input a="+in+" -input b="+other)
	if hal.CodeOf(end.err) != hal.BadTensor || end.runs != 1 {
		t.Errorf("%+v", end)
	}
}

func TestPipeWithoutReaderIsAnInputOutputError(t *testing.T) {
	out := fifo(t)
	go func() {
		file, _ := os.Open(out)
		file.Close()
	}()
	in := filepath.Join(t.TempDir(), "a")
	_ = os.WriteFile(in, make([]byte, frameBytes), 0o600)
	// Until the reader has closed, a few results fit into the pipe.
	end := frameRuns(t, "-loop forever -input a="+in+" -output d="+out)
	if hal.CodeOf(end.err) != hal.IO {
		t.Errorf("%+v", end)
	}
}

func TestFileIsReadOnceAndWrittenAfterTheLastRun(t *testing.T) {
	inputs, results := frameData(1)
	in, out := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "d")
	_ = os.WriteFile(in, inputs, 0o600)
	end := frameRuns(t, "-loop 5 -input a="+in+" -output d="+out)
	if data, _ := os.ReadFile(out); end.runs != 5 || end.err != nil || !bytes.Equal(data, results) {
		t.Errorf("%+v, %x", end, data)
	}
	for _, size := range []int{frameBytes - 1, frameBytes + 1} {
		_ = os.WriteFile(in, make([]byte, size), 0o600)
		if end := frameRuns(t, "-input a="+in); hal.CodeOf(end.err) != hal.BadTensor ||
			end.runs != 0 {
			t.Errorf("%d bytes: %+v", size, end)
		}
	}
}

// Nothing lies at the first address of any process.
func TestFileThatCannotBeReadIsAnErrorWithTheKernelsReason(t *testing.T) {
	end := frameRuns(t, "-input a=/proc/self/mem")
	if hal.CodeOf(end.err) != hal.IO || !strings.HasSuffix(end.err.Error(),
		"/proc/self/mem: input/output error") {
		t.Errorf("%+v", end)
	}
}

func TestFailureBetweenRunsRunsTheSequenceSafe(t *testing.T) {
	inputs, _ := frameData(3)
	in := fifo(t)
	feed(in, inputs[:len(inputs)-1])
	end := frameRuns(t, "-loop forever -input a="+in)
	if hal.CodeOf(end.err) != hal.BadTensor || !end.result.SafeRan ||
		end.result.SafeSequenceCode != hal.OK ||
		!strings.Contains(failureText(end), "sequence safe ran: done") {
		t.Errorf("%+v: %s", end, failureText(end))
	}
}

func TestDeadlineLimitsOnlyRuns(t *testing.T) {
	in := filepath.Join(t.TempDir(), "a")
	_ = os.WriteFile(in, make([]byte, frameBytes), 0o600)
	if end := frameRuns(t, "-deadline 500us -before slow -after slow -loop 2 -input a="+
		in); end.err != nil || end.result.Code != hal.OK || end.runs != 2 {
		t.Errorf("%+v", end)
	}
}

func TestRunThatExceedsItsDeadlineIsReported(t *testing.T) {
	in := filepath.Join(t.TempDir(), "a")
	_ = os.WriteFile(in, make([]byte, frameBytes), 0o600)
	if end := frameRuns(t, "-loop 3 -sequence slow -deadline 2ms -input a="+in); end.err != nil ||
		end.result.Code != hal.OK || end.runs != 3 {
		t.Errorf("%+v", end)
	}
	end := frameRuns(t, "-loop 3 -sequence slow -deadline 500us -input a="+in)
	if end.result.Code != hal.FrameLate || end.runs != 0 ||
		failureText(end) != "run took longer than its limit: slow, command 0: delay; then "+
			"sequence safe ran: done" {
		t.Errorf("%+v, %s", end, failureText(end))
	}
}
