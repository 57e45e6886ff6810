package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// waitingListing polls, for nearly an hour of simulated time, a word that the fake simulator never
// stores.
const waitingListing = `lightmetal 1
device wormhole 1e52:401e bar0 512MiB
window l1 tlb size 1MiB slot 166
main:
  point l1 tile 1,1 address 0x0
  write.4 l1+0x100 0x7
  poll.4 l1+0x104 == 0x1 within 3000s
safe:
  point l1 tile 1,1 address 0x0
  write.4 l1+0x100 0x0
`

// buildFakeSimulator compiles a library with the interface of the vendor's simulator, and returns
// its path.
func buildFakeSimulator(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("skipped: no gcc to build the fake simulator with")
	}
	library := filepath.Join(t.TempDir(), "fakesim.so")
	const source = "../capture/record/testdata/fakesim.c"
	compile := exec.Command("gcc", "-O1", "-shared", "-fPIC", "-o", library, source)
	out, err := compile.CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return library
}

// assembleWaiting returns the path of the image of waitingListing.
func assembleWaiting(t *testing.T) string {
	t.Helper()
	listing := filepath.Join(t.TempDir(), "wait.lms")
	if err := os.WriteFile(listing, []byte(waitingListing), 0o666); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(t.TempDir(), "wait.lmb")
	if exit, _, stderr := lm(t, "asm", "-o", image, listing); exit != 0 {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	return image
}

// TestWaitOnASimulatorEndsByRealTime: --wait-limit ends the run long before the poll's deadline
// passes in simulated time.
func TestWaitOnASimulatorEndsByRealTime(t *testing.T) {
	library, image := buildFakeSimulator(t), assembleWaiting(t)
	exit, _, stderr := lm(t, "replay", "--device", "ttsim:"+library, "--wait-limit", "50ms", image)
	want := "main, command 2: poll.4 l1+0x104 == 0x1: the run waited for more than 50ms of real " +
		"time, the limit of --wait-limit; then sequence safe ran: done"
	if exit != 75 || !strings.Contains(stderr, want) {
		t.Errorf("exit status %d, want 75; stderr: %s", exit, stderr)
	}
}

// TestWaitOnASimulatorIsShownAndEndsAtASignal sends SIGTERM when the terminal shows the wait.
func TestWaitOnASimulatorIsShownAndEndsAtASignal(t *testing.T) {
	library, image := buildFakeSimulator(t), assembleWaiting(t)
	terminate := func() { _ = unix.Kill(os.Getpid(), unix.SIGTERM) }
	exit, text := runOnTerminalUntil(t, 200,
		"main, command 2: poll.4 l1+0x104 == 0x1: has waited for ",
		terminate, "replay", "--device", "ttsim:"+library, image)
	if exit != 75 || !strings.Contains(strings.Join(strings.Fields(text), " "),
		"SIGTERM ended the run; then sequence safe ran: done") {
		t.Errorf("exit status %d, want 75 after the signal; output %q", exit, text)
	}
}
