package main

// This file makes images for testdata/vectors/c/runs.c, which runs them with the C player.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machineOfRuns is the beginning of the listings for runs.c.
const machineOfRuns = `lightmetal 1
device example ffff:0001 bar0 256KiB
rule memory bar0 widths 1 2 4 8 memory
window regs bar0 offset 0 size 128KiB
window dma host size 5000
window cfg config size 256
window far bar0 offset 0x20003 size 4099
tensor a input uint8[65536]
tensor d output uint8[65536]
`

// runC compiles runs.c, and runs one of its checks with a listing.
func runC(t *testing.T, check, listing string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs.lms")
	if err := os.WriteFile(path, []byte(listing), 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := assemble(path)
	if err != nil {
		t.Fatal(err)
	}
	runCFile(t, check, file)
}

// runCFile is runC with an image.
func runCFile(t *testing.T, check string, file []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs.lmb")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	cyclic := "../../firmware/cyclic"
	// A changed image may make misaligned accesses to windows.
	program := compileC(t, "runs.c", cyclic+"/replay_task.c", "-I../../../runtime/c",
		"-I"+filepath.Join(folder, "c", cyclic), "-fno-sanitize=alignment")
	if out, err := exec.Command(program, check, path).CombinedOutput(); err != nil {
		t.Errorf("runs.c %s: %v\n%s", check, err, out)
	}
}

// longSequences returns sequences that are charged more than 8 ms: of each opcode, in each width
// and mode.
func longSequences() string {
	var b strings.Builder
	n := 0
	add := func(times int, line string, arguments ...any) {
		n++
		line = "  " + fmt.Sprintf(line, arguments...) + "\n"
		fmt.Fprintf(&b, "\nlong%d:\n%s", n, strings.Repeat(line, times))
	}
	for _, w := range []int{1, 2, 4, 8} {
		for _, mode := range []string{"", " fifo", " bulk"} {
			add(1, "copy.%d regs+0x0 <- a[:]%s", w, mode)
			add(1, "copy.%d d[:] <- regs+0x0%s", w, mode)
			if mode != " bulk" {
				add(1, "fill.%d regs+0x0 <- 0x5a size 64KiB%s", w, mode)
			}
		}
		add(1, "copy.%d regs+0x3 <- a[1:65530] bulk", w)
		add(20, "copy.%d d[8:4099] <- far+0x0 bulk", w)
		add(1, "copy.%d regs+0x0 <- a[:]\n  compare.%[1]d regs+0x0 uint8 == a[:]", w)
		add(1200, "compare.%d regs+0x0 uint8 == uint8 9 9 9 9 9 9 9 9 else ignore", w)
		add(5000, "write.%d regs+0x0 0x1", w)
		add(2500, "write.%d regs+0x0 0x1 mask 0x3", w)
		add(5000, "expect.%d regs+0x8 == 0x0", w)
		add(5000, "expect.%d regs+0x8 == 0x1 else ignore", w)
	}
	add(5000, "write.4 regs+0x0 bus(dma)")
	add(5000, "expect.4 cfg+0x0 == 0x0")
	add(12000, "fence")
	add(900, "call called")
	add(1, "delay 290ms")
	add(1, "poll.4 regs+0x8 == 0x1 within 290ms every 1ms else ignore\n"+
		"  poll.4 regs+0x8 == 0x1 within 1ms every 1ms")
	b.WriteString("\ncalled:\n" + strings.Repeat("  write.4 regs+0x0 0x1\n", 16))
	return b.String()
}

// TestCPlayerLooksAtTheClockWithinOneBudget runs every opcode in every width and mode on a device
// that is as slow as charged: a limit is exceeded by at most 1 ms and one access, and by at most
// 8 ms of charged time without a limit. The same applies to lmplay_stop and to a unit of
// lmplay_step. Runs in units make the accesses of one run.
func TestCPlayerLooksAtTheClockWithinOneBudget(t *testing.T) {
	runC(t, "budget", machineOfRuns+longSequences())
}

// safeOfRuns has four stores of 0xdead, and a load and a query of every kind.
const safeOfRuns = `
main:
  write.4 regs+0x0 0x1
  expect.4 regs+0x8 == 0x1

long:
  write.4 regs+0x0 0x1
  delay 200ms

safe:
  write.4 regs+0x0 0xdead0001
  expect.4 regs+0x8 != 0x5
  write.4 regs+0x0 0xdead0002 mask 0xffffffff
  fence
  expect.2 cfg+0x4 == 0x0
  copy.4 d[0:8] <- regs+0x0
  expect.4 regs+0x8 == 0x6 else ignore
  compare.4 regs+0x8 uint32 == uint32 1 2 else ignore
  write.4 regs+0x0 0xdead0003
  delay 15ms
  poll.4 regs+0x8 == 0x6 within 1ms every 400us else ignore
  write.4 regs+0x0 0xdead0004
`

// TestCPlayerEndsSafeOnlyByItself calls lmplay_stop and lmplay_fault at each call of a hook in
// "safe": nothing but a fault during a load or a query ends it early, and no fault is lost.
// A cyclic task that is cancelled again and again executes all of "safe".
func TestCPlayerEndsSafeOnlyByItself(t *testing.T) {
	runC(t, "safe", machineOfRuns+safeOfRuns)
}

// TestCPlayerStaysInItsMemoryIfTheImageChanges changes commands, sequences and tensors after
// lmplay_load. The sanitizer finds each access outside the arena, the image and the mapped
// windows; runs.c finds each change of the player's tables.
func TestCPlayerStaysInItsMemoryIfTheImageChanges(t *testing.T) {
	for _, name := range []string{"commands.lmb", "wormhole.lmb"} {
		file, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { runCFile(t, "changed", file) })
	}
}
