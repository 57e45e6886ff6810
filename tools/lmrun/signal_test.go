package main

import (
	"bufio"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// signalledVariable is the environment variable that makes the test program run a sequence on a
// mock device.
const signalledVariable = "LM_TEST_SIGNALLED"

// neverReadyListing describes an image whose polls never succeed on a mock device.
const neverReadyListing = `lightmetal 1
target ivshmem 1af4:1110 bar2 0x100000
window m bar2 offset 0x0 size 0x100000
window h host size 4KiB
fails:
  poll.4 m+0x0 == 0x1 within 300ms every 1ms
passes:
  poll.4 m+0x0 == 0x1 within 300ms every 1ms else ignore
last:
  write.8 m+0x8 bus(h)
  write.4 m+0x0 0x2
safe:
  write.4 m+0x0 0x5afe
`

// endlessListing is one more sequence for neverReadyListing, which waits for half an hour.
var endlessListing = "endless:\n" + strings.Repeat("  delay 10s\n", 180)

// announcingMock is a device that prints when it waits for the first time, when its DMA is stopped,
// and when it is closed.
type announcingMock struct {
	*mock.Device
	printed *atomic.Bool
}

func (l announcingMock) Sleep(nanoseconds int64) {
	if !l.printed.Swap(true) {
		writeText(1, "waiting\n")
	}
	hal.SleepRaw(min(nanoseconds, 1_000_000)) // the clock of the mock advances by all nanoseconds
	l.Device.Sleep(nanoseconds)
}

func (announcingMock) AssignBusAddress(*hal.Aperture, hal.Device) error { return nil }
func (announcingMock) Diagnose() hal.Code                               { return hal.OK }
func (announcingMock) RegisterExitCleanup(*fbs.View, int) (string, error) {
	return "cores go on running\n", nil
}
func (announcingMock) SetBusMaster(on bool) error {
	if !on {
		writeText(1, "DMA stopped\n")
	}
	return nil
}

func (announcingMock) Close() error {
	writeText(1, "device closed\n")
	return nil
}

// runSignalledChild does what lmrun does after it has opened its devices, with a mock device. It
// does not return.
func runSignalledChild(flags []string) {
	o, err := args.Parse(append(flags, "x.lmb"))
	exitOnError(err)
	view, err := verifyListing(neverReadyListing + endlessListing)
	exitOnError(err)
	device := announcingMock{mock.New(&boards.Ivshmem), new(atomic.Bool)}
	devices := []hal.Device{device}
	f, err := planRuns(view, o)
	exitOnError(err)
	exitOnError(f.prepareRuns(devices, view, o))
	end := f.runAndCommit(o.RunCount)
	exitOnError(f.stopDevices(devices))
	unix.Exit(printOutcome(o, end))
}

// exitOnError ends the process with status 1 if there is an error.
func exitOnError(err error) {
	if err != nil {
		writeText(2, err.Error()+"\n")
		unix.Exit(1)
	}
}

// TestFurtherSignalsHaveNoEffect sends many signals. The run must still end by its own limit or by
// that of a stop request, the sequence `safe` must run, and DMA must be stopped. The device must be
// closed unless the process is sealed, which may not close files.
func TestFurtherSignalsHaveNoEffect(t *testing.T) {
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGHUP,
		syscall.SIGINT, syscall.SIGTERM}
	for _, test := range []struct{ flags, want string }{
		{"-loop forever -sequence fails",
			"poll deadline passed: fails, command 0: poll.4 w0+0x0 == 0x1: got 0x0 after 300 ms " +
				"(bits that differ: 0); then sequence safe ran: done"},
		{"-loop forever -sequence fails -seal", "sequence safe ran: done"},
		{"-sequence endless", "run took longer than its limit: endless, command"},
		{"-sequence endless -seal", "sequence safe ran: done"},
		{"-before endless -sequence passes", "run took longer than its limit: endless, command"},
		{"-loop forever -sequence passes -after endless",
			"run took longer than its limit: endless, command"},
		{"-loop forever -sequence passes -after last", "lmrun: done: passes of x.lmb, "},
		{"-loop forever -sequence passes -after last -seal", "lmrun: done: passes of x.lmb, "},
	} {
		t.Run(test.flags, func(t *testing.T) {
			c := childCommand(t, signalledVariable, "1", strings.Fields(test.flags)...)
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			c.Stderr = c.Stdout
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			text := ""
			for lines := bufio.NewScanner(out); lines.Scan(); {
				text += lines.Text() + "\n"
				if lines.Text() != "waiting" {
					continue
				}
				for _, signal := range signals {
					_ = c.Process.Signal(signal)
				}
			}
			_ = c.Wait()
			want := 0
			if strings.Contains(test.flags, "fails") || strings.Contains(test.flags, "endless") {
				want = hal.DeadlinePassed.ExitStatus() // hal.FrameLate has the same exit status
			}
			if c.ProcessState.ExitCode() != want {
				t.Errorf("%v, want exit status %d; output: %s", c.ProcessState, want, text)
			}
			for _, part := range []string{test.want, "DMA stopped",
				"lmrun: cores go on running\n"} {
				if !strings.Contains(text, part) {
					t.Errorf("%q is missing in the output: %s", part, text)
				}
			}
			isSealed := strings.Contains(test.flags, "-seal")
			if isClosed := strings.Contains(text, "device closed"); isClosed == isSealed {
				t.Errorf("the device is closed: %v, want %v; output: %s", isClosed, !isSealed, text)
			}
		})
	}
}
