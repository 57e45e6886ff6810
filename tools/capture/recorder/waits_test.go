//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lightmetal/tools/capture/record"

	"golang.org/x/sys/unix"
)

// requestVariable is the environment variable of a recorder for which the request FIOCLEX, which
// every file accepts, stands for another one, and FIONCLEX for a second one after a comma.
const requestVariable = "LM_RECORDER_REQUEST"

// replaceRequest makes FIOCLEX and FIONCLEX stand for the requests that requestVariable names.
func replaceRequest() {
	stand := map[string]uint32{}
	first, second, _ := strings.Cut(os.Getenv(requestVariable), ",")
	stand[first], stand[second] = 0x5451, 0x5450 // FIOCLEX, FIONCLEX
	for i := range ioctlHandlers {
		if request, ok := stand[fmt.Sprintf("%#x", ioctlHandlers[i].request)]; ok {
			ioctlHandlers[i].request = request
		}
	}
}

// withInterrupts returns the accesses of a record and its interrupts, in their order.
func (r *runResult) withInterrupts() (list []string) {
	for _, a := range r.capture.Records {
		switch a.Kind {
		case record.BarWrite:
			list = append(list, fmt.Sprintf("W %x %d", a.Offset, a.Data[0]))
		case record.BarRead:
			list = append(list, fmt.Sprintf("R %x", a.Offset))
		case record.Interrupt:
			list = append(list, fmt.Sprintf("IRQ %d", a.Offset))
		}
	}
	return list
}

func TestInterruptsThatAProgramWaitsForAreRecorded(t *testing.T) {
	program := compileProgram(t, "testdata/sleeps.c", "-O2")
	r := runRecorded(t, []string{requestVariable + "=0x3b6e"}, Options{}, program)
	if r.err != nil || r.exit != 0 || r.output != "done\n" {
		t.Fatalf("exit status %d, record: %v, output %s, messages %s", r.exit, r.err, r.output,
			r.messages)
	}
	want := []string{"W 0 1", "IRQ 4", "R 4", "W 0 2", "IRQ 5", "R 8", "R 4", "W 0 3", "IRQ 6",
		"R 4", "W 0 4", "IRQ 6", "R 4", "W 0 5", "IRQ 6", "R 4", "W 0 6", "R 4", "W 0 7", "R 4"}
	if got := r.withInterrupts(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q\n%s", got, want, r.messages)
	}
}

// openTerminal opens a terminal, and returns the end that stands for the device and the path of the
// other end.
func openTerminal(t *testing.T) (device *os.File, path string) {
	t.Helper()
	device, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { device.Close() })
	number, err := unix.IoctlGetInt(int(device.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(device.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return device, fmt.Sprintf("/dev/pts/%d", number)
}

// isAsleep reports whether the first thread of a process sleeps in a call, and is not stopped there
// by the recorder.
func isAsleep(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(text), ") S ")
}

func TestSleepInACallOfADriverIsAnInterrupt(t *testing.T) {
	program, path := compileProgram(t, "testdata/blocks.c", "-O2"), createCard(t)
	device, terminal := openTerminal(t)
	file := File{Path: terminal, Vendor: 0x1af4, Device: 0x1110}
	c, out := recorderCommand(t, nil, Options{Files: []File{file}}, path, program, terminal)
	card := mapCard(t, path)
	ended := make(chan bool)
	go func() {
		for step := byte(1); step <= 2; {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
			if card[0] == step && isAsleep(childProcess(t, c.Process.Pid)) {
				_, _ = device.WriteString("\n")
				step++
			}
		}
	}()
	r := runCommand(t, c, path)
	close(ended)
	if r.readRecord(out); r.err != nil || r.exit != 0 || r.output != "done\n" {
		t.Fatalf("exit status %d, record: %v, output %s, messages %s", r.exit, r.err, r.output,
			r.messages)
	}
	want := []string{"W 0 1", "IRQ 0", "R 4", "W 0 2", "IRQ 0", "R 4", "R 4", "R 4", "W 0 3",
		"IRQ 0", "R 4"}
	if got := r.withInterrupts(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q\n%s", got, want, r.messages)
	}
}
