//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"errors"
	"math/rand"
	"os"
	"os/exec"
	"testing"
	"time"

	"lightmetal/tools/capture/record"
	"lightmetal/tools/check/effort"

	"golang.org/x/sys/unix"
)

// killCount returns how often a test kills the recorder or the program.
func killCount() int { return effort.Cases(10, 25, 200) }

// countingRun is a recorded program that stores 1, 2, 3 and so on to consecutive words of a card.
type countingRun struct {
	command *exec.Cmd
	card    []byte // mapped in the test, which acts as the device
	out     string // path of the record
}

// countingWords is the number of words, after which the program starts at the first again.
const countingWords = 1024

// startCounting starts a program under the recorder, which syncs the record each millisecond.
func startCounting(t *testing.T, program string) *countingRun {
	t.Helper()
	path := createCard(t)
	c := &countingRun{}
	c.command, c.out = recorderCommand(t, nil, Options{Sync: time.Millisecond}, path, program)
	c.card = mapCard(t, path)
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *countingRun) word(n int) int {
	return int(binary.LittleEndian.Uint32(c.card[4*n:]))
}

// awaitStore waits until the program has made a store, and returns its process id.
func (c *countingRun) awaitStore(t *testing.T, store int) (pid int) {
	t.Helper()
	began := time.Now()
	for c.word(store%countingWords) < store {
		if time.Since(began) > time.Minute {
			t.Fatalf("the program did not make store %d within a minute", store)
		}
	}
	return childProcess(t, c.command.Process.Pid)
}

// storesMade returns how many stores have reached the card.
func (c *countingRun) storesMade() (most int) {
	for n := range countingWords {
		most = max(most, c.word(n))
	}
	return most
}

// close waits for the end of the recorder, and returns how many stores have reached the card.
func (c *countingRun) close() (made int) {
	_ = c.command.Wait()
	return c.storesMade()
}

// recordedStores returns the number of stores in the record. Their values must be 1, 2, 3 and so
// on.
func (c *countingRun) recordedStores(t *testing.T) (n int, err error) {
	t.Helper()
	var r runResult
	r.readRecord(c.out)
	capture, err := r.capture, r.err
	if capture == nil {
		return 0, err
	}
	for _, r := range capture.Records {
		if r.Kind != record.BarWrite {
			continue
		}
		n++
		if got := int(binary.LittleEndian.Uint32(r.Data)); got != n ||
			r.Offset != uint64(4*(n%countingWords)) {
			t.Fatalf("store %d of the record is %d at %#x, want %d at %#x", n, got, r.Offset, n,
				4*(n%countingWords))
		}
	}
	return n, err
}

// TestRecorderThatIsKilledLeavesAPrefixOfWhatTheDeviceSaw kills the recorder at random stores, each
// time with another seed. The record has all stores that were in the file before.
func TestRecorderThatIsKilledLeavesAPrefixOfWhatTheDeviceSaw(t *testing.T) {
	program := compileProgram(t, "testdata/counts.c", "-O2")
	lost := 0
	adoptOrphans(t)
	for seed := range int64(killCount()) {
		random := rand.New(rand.NewSource(seed))
		c := startCounting(t, program)
		c.awaitStore(t, 1+random.Intn(1000))
		known, _ := c.recordedStores(t)
		pid := c.awaitStore(t, c.storesMade()+random.Intn(200))
		if err := c.command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.command.Wait()
		// The kernel kills the program when its tracer, the recorder, ends.
		if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
			t.Fatal(err)
		}
		made := c.close()
		n, err := c.recordedStores(t)
		info, failed := os.Stat(c.out)
		if failed != nil || !errors.Is(err, record.ErrCut) && info.Size() > 0 ||
			n < known || n > made {
			t.Errorf("seed %d: the record has %d stores, want %d that were in the file before the "+
				"kill to %d that reached the card: %v", seed, n, known, made, err)
		}
		lost += made - n
	}
	t.Logf("evidence: killed %d times, %.1f accesses lost on average", killCount(),
		float64(lost)/float64(killCount()))
}

// adoptOrphans makes the programs of killed recorders children of the test.
func adoptOrphans(t *testing.T) {
	t.Helper()
	adopt := func(on uintptr) error {
		return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, on, 0, 0, 0)
	}
	if err := adopt(1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = adopt(0) })
}

// TestProgramThatIsKilledAtRandomLosesNothing: the record has all stores that reached the card.
func TestProgramThatIsKilledAtRandomLosesNothing(t *testing.T) {
	program := compileProgram(t, "testdata/counts.c", "-O2")
	for seed := range int64(killCount()) {
		random := rand.New(rand.NewSource(seed))
		c := startCounting(t, program)
		if err := unix.Kill(c.awaitStore(t, 1+random.Intn(1000)), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		made := c.close()
		if n, err := c.recordedStores(t); err != nil || n != made {
			t.Errorf("seed %d: the record has %d stores, want the %d that reached the card: %v",
				seed, n, made, err)
		}
	}
}

// TestRecordOfAQuietProgramIsOnTheDisk: the file has all accesses, including the last one, while
// the program makes no more accesses.
func TestRecordOfAQuietProgramIsOnTheDisk(t *testing.T) {
	program := compileProgram(t, "testdata/counts.c", "-O2", "-DLAST=10")
	c := startCounting(t, program)
	pid := c.awaitStore(t, 10)
	for began, n := time.Now(), 0; n < 10; n, _ = c.recordedStores(t) {
		if time.Since(began) > time.Minute {
			t.Fatalf("the file has %d stores after a minute, want 10", n)
		}
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	c.close()
}
