package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"lightmetal/hal"
	"lightmetal/runtime"

	"golang.org/x/sys/unix"
)

// TestSignalEndsTheRunsAfterTheCurrentOne sends SIGINT when the terminal shows the progress.
func TestSignalEndsTheRunsAfterTheCurrentOne(t *testing.T) {
	const runs = 2_000_000
	interrupt := func() { _ = unix.Kill(os.Getpid(), unix.SIGINT) }
	exit, text := runOnTerminalUntil(t, 200, "runs ", interrupt, "replay", "--device", "mock:edu",
		"--loop", fmt.Sprint(runs), "--after", "main", "../../testdata/images/edu.lmb")
	shown := strings.Join(strings.Fields(text), " ")
	found := regexp.MustCompile(`SIGINT ended the replay after (\d+) of 2000000 runs`).
		FindStringSubmatch(shown)
	if exit != 0 || found == nil ||
		!strings.Contains(shown, "sequence main ran once after the last run") {
		t.Fatalf("exit status %d, want 0 and the number of runs; output %q", exit, text)
	}
	if n, err := strconv.Atoi(found[1]); err != nil || n < 1 || n >= runs {
		t.Errorf("%s runs ended before the signal, want 1 to %d", found[1], runs-1)
	}
}

// TestRunThatContinuesAfterASignalNamesIt: the runtime stops a run that does not end soon after a
// signal. The error of this run names the signal.
func TestRunThatContinuesAfterASignalNamesIt(t *testing.T) {
	f := replayFlags{devices: []string{"mock:edu"}, sequence: "main", loop: 1,
		longest: time.Hour, window: runtime.AnyTLBWindow}
	s := f.prepare("../../testdata/images/edu.lmb")
	defer s.close()
	late := runtime.Result{Code: hal.FrameLate}
	if text := s.runError(late).Error(); strings.Contains(text, "did not end") {
		t.Errorf("without a signal: %s", text)
	}
	name := "SIGTERM"
	s.stop.signal.Store(&name)
	s.stop.requested.Store(1)
	if text := s.runError(late).Error(); !strings.Contains(text,
		": the run did not end within 10s after SIGTERM") {
		t.Errorf("after a signal: %s", text)
	}
}

// TestSignalEndsARunThatWaitsForTheCoreOfAMock: the core never stops, and its mock would execute
// the hour of virtual time before the deadline for many hours of real time.
func TestSignalEndsARunThatWaitsForTheCoreOfAMock(t *testing.T) {
	image := assemble(t, `lightmetal 1
device wormhole 1e52:401e bar0 512MiB
window w tlb size 1MiB slot 166
main:
  point w tile 1,1 address 0
  write.4 w+0x0 0x00128293 # addi t0,t0,1
  write.4 w+0x4 0xffdff06f # j 0
  point w tile 1,1 address 0xffb00000 ordering strict
  write.4 w+0x121b0 0x47000
  point w tile 1,1 address 0
  poll.4 w+0x100 == 0x1 within 3000s
`)
	f := replayFlags{devices: []string{"mock:wormhole"}, sequence: "main", loop: 1,
		longest: time.Hour, window: runtime.AnyTLBWindow}
	s := f.prepare(image)
	defer s.close()
	_, releaseSignals := f.supervise(s)
	defer releaseSignals()
	s.replay.SetObserver(func(command int) {
		if command == 6 {
			_ = unix.Kill(os.Getpid(), unix.SIGTERM)
		}
	})
	if code := s.run(false).Code; code != hal.FrameLate && code != hal.DeadlinePassed {
		t.Errorf("the run ended with %v", code)
	}
}
