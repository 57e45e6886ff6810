//go:build linux && (amd64 || arm64)

package recorder

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand"
	"os"
	"os/exec"
	"testing"
	"time"

	"lightmetal/tools/capture/record"

	"golang.org/x/sys/unix"
)

// kills is how often each of the recorder and the program is killed.
func kills() int {
	if testing.Short() {
		return 20
	}
	return 200
}

// counting is a program under the recorder that stores 1, 2, 3 and so on to words of a card.
type counting struct {
	command *exec.Cmd
	card    []byte // as the device has it
	out     string // path of the record
}

// countingWords is how many words of the card it stores to, one after the other.
const countingWords = 1024

// newCounting starts the program. Its record is synced each millisecond.
func newCounting(t *testing.T, program string) *counting {
	t.Helper()
	path := card(t)
	c := &counting{}
	c.command, c.out = prepared(t, nil, Options{Sync: time.Millisecond}, path, program)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c.card, err = unix.Mmap(int(file.Fd()), 0, cardSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// word returns a word of the card.
func (c *counting) word(n int) int {
	return int(binary.LittleEndian.Uint32(c.card[4*n:]))
}

// await waits until the program has made a store, and returns its process id.
func (c *counting) await(t *testing.T, store int) (pid int) {
	t.Helper()
	began := time.Now()
	for c.word(store%countingWords) < store {
		if time.Since(began) > time.Minute {
			t.Fatalf("the program has not made store %d after a minute", store)
		}
	}
	return childOf(t, c.command.Process.Pid)
}

// made returns how many stores the device has seen, after the program has ended.
func (c *counting) made() (most int) {
	for n := range countingWords {
		most = max(most, c.word(n))
	}
	return most
}

// close waits for the end of the recorder.
func (c *counting) close() {
	_ = c.command.Wait()
	_ = unix.Munmap(c.card)
}

// recordedStores returns how many stores a record has, which have to be 1, 2, 3 and so on.
func recordedStores(t *testing.T, data []byte) (n int, err error) {
	t.Helper()
	capture, err := record.Read(bytes.NewReader(data))
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
			t.Fatalf("store %d of the record is %d at %#x", n, got, r.Offset)
		}
	}
	return n, err
}

// TestRecorderThatIsKilledLeavesAPrefixOfWhatTheDeviceSaw, and all that was in the file before:
// at a random store, with as many different seeds as it is killed.
func TestRecorderThatIsKilledLeavesAPrefixOfWhatTheDeviceSaw(t *testing.T) {
	program := compiled(t, "testdata/counts.c", "-O2")
	lost := 0
	adoptOrphans(t)
	for seed := range int64(kills()) {
		random := rand.New(rand.NewSource(seed))
		c := newCounting(t, program)
		c.await(t, 1+random.Intn(1000))
		before, err := os.ReadFile(c.out)
		if err != nil {
			t.Fatal(err)
		}
		pid := c.await(t, c.made()+random.Intn(200))
		if err := c.command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.command.Wait()
		// the kernel ends the program with its recorder
		if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
			t.Fatal(err)
		}
		made := c.made()
		c.close()
		data, err := os.ReadFile(c.out)
		if err != nil {
			t.Fatal(err)
		}
		known, _ := recordedStores(t, before)
		n, err := recordedStores(t, data)
		if !errors.Is(err, record.ErrCut) && len(data) > 0 || n < known || n > made {
			t.Errorf("seed %d: %d stores are recorded, %d were before, the device saw %d: %v", seed,
				n, known, made, err)
		}
		lost += made - n
	}
	t.Logf("evidence: killed %d times, %.1f accesses lost on average", kills(),
		float64(lost)/float64(kills()))
}

// adoptOrphans has the programs of recorders that are killed become children of the test.
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

// TestProgramThatIsKilledAtRandomLosesNothing: of all that the device saw.
func TestProgramThatIsKilledAtRandomLosesNothing(t *testing.T) {
	program := compiled(t, "testdata/counts.c", "-O2")
	for seed := range int64(kills()) {
		random := rand.New(rand.NewSource(seed))
		c := newCounting(t, program)
		if err := unix.Kill(c.await(t, 1+random.Intn(1000)), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = c.command.Wait()
		made := c.made()
		c.close()
		data, err := os.ReadFile(c.out)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := recordedStores(t, data); err != nil || n != made {
			t.Errorf("seed %d: %d stores are recorded, the device saw %d: %v", seed, n, made, err)
		}
	}
}

// TestRecordOfAQuietProgramIsOnTheDisk: its last access too, though none follows.
func TestRecordOfAQuietProgramIsOnTheDisk(t *testing.T) {
	program := compiled(t, "testdata/counts.c", "-O2", "-DLAST=10")
	c := newCounting(t, program)
	pid := c.await(t, 10)
	for began, n := time.Now(), 0; n < 10; {
		data, err := os.ReadFile(c.out)
		if err != nil || time.Since(began) > time.Minute {
			t.Fatalf("%d stores are in the file after a minute, %v", n, err)
		}
		n, _ = recordedStores(t, data)
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	c.close()
}
