package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/image/fail"

	"golang.org/x/sys/unix"
)

// storingListing has sequences that store different numbers to one register.
const storingListing = `lightmetal 1
device ivshmem 1af4:1110 bar2 1MiB
window m bar2 offset 0 size 1MiB
tensor d output uint32[1]
main:
  write.4 m+0x0 0x1
  copy.4 d[:] <- m+0x0
begin:
  write.4 m+0x0 0xb
finish:
  write.4 m+0x0 0xf
safe:
  write.4 m+0x0 0x5afe
`

// faultyDevice is a mock that records its stores and can fail as a device that is used through a
// kernel driver.
type faultyDevice struct {
	*mock.Device
	state        hal.Code // what Diagnose returns
	stopDMAError error    // what SetBusMaster(false) returns
	onClose      func()
}

func (d *faultyDevice) Diagnose() hal.Code { return d.state }

func (d *faultyDevice) SetBusMaster(on bool) error {
	if on {
		return nil
	}
	return d.stopDMAError
}

func (d *faultyDevice) Close() error {
	if d.onClose != nil {
		d.onClose()
	}
	return d.Device.Close()
}

// stores returns the stored values in order.
func (d *faultyDevice) stores() (list []uint64) {
	for _, a := range d.Journal() {
		if a.Op == mock.Store {
			list = append(list, a.Value)
		}
	}
	return list
}

// replayOn replays the image of a listing on a device twice, as lm replay does, and writes the
// output d to a file. If prepared is not nil, replayOn calls it before the first run.
func replayOn(t *testing.T, device *faultyDevice, listing string, output string,
	prepared func(s *session)) error {
	t.Helper()
	path := assemble(t, listing)
	defer closeImages()
	f := replayFlags{sequence: "main", before: "begin", after: "finish", loop: 2,
		longest: time.Hour, window: runtime.AnyTLBWindow, outputs: []string{"d=" + output}}
	device.Record(true)
	return fail.Try(func() {
		file, view := openVerified(path)
		s := f.prepareView(path, file, view, device)
		if prepared != nil {
			prepared(s)
		}
		f.replay(s)
	})
}

func newFaultyDevice() *faultyDevice { return &faultyDevice{Device: mock.New(&boards.Ivshmem)} }

// wantStores ends the test unless the device has exactly these stores, in this order.
func wantStores(t *testing.T, device *faultyDevice, want ...uint64) {
	t.Helper()
	got := device.stores()
	if len(got) != len(want) {
		t.Fatalf("stores %#x, want %#x", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("stores %#x, want %#x", got, want)
		}
	}
}

// TestDeviceErrorAfterTheLastRunFailsTheReplay although all commands have succeeded. lm ends with
// the same code as lmrun, and the sequence safe runs after the sequence of --after.
func TestDeviceErrorAfterTheLastRunFailsTheReplay(t *testing.T) {
	device, output := newFaultyDevice(), filepath.Join(t.TempDir(), "d.bin")
	device.state = hal.DMAFault
	err := replayOn(t, device, storingListing, output, nil)
	if codeOf(err) != hal.DMAFault || !strings.HasSuffix(err.Error(),
		": device error after the last run; output files are not written; then sequence safe "+
			"ran: done") {
		t.Errorf("error %v, want the code DMAFault and a run of the sequence safe", err)
	}
	wantStores(t, device, 0xb, 1, 1, 0xf, 0x5afe)
	if _, err := os.Stat(output); err == nil {
		t.Error("the output was written")
	}
	// Without a sequence safe, the code is the same.
	listing, _, _ := strings.Cut(storingListing, "safe:\n")
	device = newFaultyDevice()
	device.state = hal.DeviceGone
	if err := replayOn(t, device, listing, output, nil); codeOf(err) != hal.DeviceGone {
		t.Errorf("without a sequence safe: error %v, want the code DeviceGone", err)
	}
	wantStores(t, device, 0xb, 1, 1, 0xf)
}

// TestDMAThatCannotBeStoppedFailsTheReplay but does not prevent the outputs from being written.
func TestDMAThatCannotBeStoppedFailsTheReplay(t *testing.T) {
	device, output := newFaultyDevice(), filepath.Join(t.TempDir(), "d.bin")
	device.stopDMAError = hal.NewFault(hal.DeviceGone, "device 0: cannot stop its DMA")
	err := replayOn(t, device, storingListing, output, nil)
	if codeOf(err) != hal.DeviceGone || !strings.Contains(err.Error(), "cannot stop its DMA") {
		t.Errorf("error %v, want the code DeviceGone and the reason of the fault", err)
	}
	wantStores(t, device, 0xb, 1, 1, 0xf)
	if data := mustRead(t, output); string(data) != "\x01\x00\x00\x00" {
		t.Errorf("the output is % x, want 01 00 00 00", data)
	}
}

// TestSignalBeforeTheFirstRunLeavesTheOutputs: without a run there are no results to write.
func TestSignalBeforeTheFirstRunLeavesTheOutputs(t *testing.T) {
	device, output := newFaultyDevice(), tempFile(t, "d.bin", "old")
	name := "SIGTERM"
	if err := replayOn(t, device, storingListing, output, func(s *session) {
		s.stop.signal.Store(&name)
		s.stop.requested.Store(1)
	}); err != nil {
		t.Errorf("replay with a signal before the first run: %v", err)
	}
	wantStores(t, device, 0xb, 0xf)
	if data := mustRead(t, output); string(data) != "old" {
		t.Errorf("the output file is %q, want the earlier contents", data)
	}
}

// TestSignalAfterTheLastRunDoesNotEndTheProcess before it has written the outputs and closed the
// devices.
func TestSignalAfterTheLastRunDoesNotEndTheProcess(t *testing.T) {
	device, output := newFaultyDevice(), filepath.Join(t.TempDir(), "d.bin")
	var stop *stopRequest
	device.onClose = func() {
		device.onClose = nil
		_ = unix.Kill(os.Getpid(), unix.SIGTERM)
		for began := time.Now(); stop.requested.Load() == 0; time.Sleep(time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatal("the signal did not arrive")
			}
		}
	}
	keepStop := func(s *session) { stop = &s.stop }
	if err := replayOn(t, device, storingListing, output, keepStop); err != nil {
		t.Errorf("replay with a signal after the last run: %v", err)
	}
	if data := mustRead(t, output); len(data) != 4 {
		t.Errorf("the output is % x, want 4 bytes", data)
	}
}

// TestOutputThatCannotBeOpenedIsReportedBeforeTheFirstStore names an output in a directory that
// does not exist.
func TestOutputThatCannotBeOpenedIsReportedBeforeTheFirstStore(t *testing.T) {
	device := newFaultyDevice()
	err := replayOn(t, device, storingListing, filepath.Join(t.TempDir(), "none", "d.bin"), nil)
	if codeOf(err) != hal.NoFile {
		t.Errorf("error %v, want the code NoFile", err)
	}
	wantStores(t, device)
}

// TestGoldenMismatchRunsTheSequenceSafe, like every failure between two runs.
func TestGoldenMismatchRunsTheSequenceSafe(t *testing.T) {
	golden := strings.Replace(storingListing, "d output uint32[1]", "d output uint32[1] = uint32 2",
		1)
	image, trace := assemble(t, golden), filepath.Join(t.TempDir(), "run.json")
	exit, stdout, _ := lm(t, "replay", "--device", "mock:ivshmem", "--check-golden", "--loop", "3",
		"--profile", trace, "--json", image)
	var end outcome
	if err := json.Unmarshal([]byte(stdout), &end); err != nil || exit != 76 ||
		end.Safe != "done" || end.Runs != 1 || end.Command != -1 || end.Profile == nil ||
		end.Profile.Failed == nil || end.Profile.Failed.Safe != "done" ||
		!strings.HasSuffix(end.Reason, "; then sequence safe ran: done") {
		t.Errorf("exit status %d, want 76 and a run of the sequence safe (%v): %s", exit, err,
			stdout)
	}
}
