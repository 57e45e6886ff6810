package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// asSignalled is the environment variable with which a copy of the test program runs a
// sequence on a mock device.
const asSignalled = "LM_TEST_SIGNALLED"

// neverReady is an image whose polls never succeed on a mock device.
const neverReady = `lightmetal 1
target ivshmem 1af4:1110 bar2 0x100000
window m bar2 offset 0x0 size 0x100000
fails:
  poll.4 m+0x0 == 0x1 within 300ms every 1ms
passes:
  poll.4 m+0x0 == 0x1 within 300ms every 1ms else ignore
last:
  write.4 m+0x0 0x2
safe:
  write.4 m+0x0 0x5afe
`

// halfAnHour is the sequence endless of neverReady that waits for half an hour.
var halfAnHour = "endless:\n" + strings.Repeat("  delay 10s\n", 180)

// announcer is a device that prints once that it waits, and when its DMA is stopped.
type announcer struct {
	*mock.Device
	printed *atomic.Bool
}

func (l announcer) Sleep(nanoseconds int64) {
	if !l.printed.Swap(true) {
		writeText(1, "waiting\n")
	}
	hal.SleepRaw(min(nanoseconds, 1_000_000)) // the mock's clock advances by all of them
	l.Device.Sleep(nanoseconds)
}

func (announcer) AssignBusAddress(*hal.Aperture, hal.Device) error { return nil }
func (announcer) Diagnose() hal.Code                               { return hal.OK }
func (announcer) SetBusMaster(on bool) error {
	if !on {
		writeText(1, "DMA stopped\n")
	}
	return nil
}

// signalledMain does what lmrun does from Load on, with a mock device.
func signalledMain(flags []string) {
	o, err := args.Parse(append(flags, "x.lmb"))
	exitOn(err)
	image, err := listing.Parse("never.lms", []byte(neverReady+halfAnHour), nil)
	exitOn(err)
	file, err := lmb.Encode(image)
	exitOn(err)
	view, err := fbs.Verify(file)
	exitOn(err)
	device := announcer{mock.New(&boards.Ivshmem), new(atomic.Bool)}
	f, err := planRuns(view, o)
	exitOn(err)
	exitOn(f.prepareRuns([]hal.Device{device}, view, o))
	end := f.runAndCommit(o.RunCount)
	exitOn(f.replay.StopDMA())
	unix.Exit(printOutcome(o, end))
}

func exitOn(err error) {
	if err != nil {
		writeText(2, err.Error()+"\n")
		unix.Exit(1)
	}
}

// TestFurtherSignalsHaveNoEffect sends many signals. The run must still end by its own limit or by
// that of a stop request, the sequence `safe` must run, and DMA must be stopped.
func TestFurtherSignalsHaveNoEffect(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
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
			c := exec.Command(self, strings.Fields(test.flags)...)
			c.Env = append(os.Environ(), asSignalled+"=1")
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
				want = hal.DeadlinePassed.ExitStatus() // also of a run that is late
			}
			if c.ProcessState.ExitCode() != want {
				t.Errorf("%v, want %d; %s", c.ProcessState, want, text)
			}
			for _, part := range []string{test.want, "DMA stopped"} {
				if !strings.Contains(text, part) {
					t.Errorf("%q is missing: %s", part, text)
				}
			}
		})
	}
}
