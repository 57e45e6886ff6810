package synced

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lightmetal/tools/capture/record"
	"lightmetal/tools/lmrun/files"
)

// memberMax is how much text of a member a reader of recordings keeps until it is verified.
const memberMax = 64 << 20

// stoppingDisk is of a machine that may stop: what was written before the last sync is on it,
// and of what was written after that anything may be.
type stoppingDisk struct {
	data   []byte
	synced int         // bytes
	syncs  chan []byte // gets what is on it at each sync, if it is not nil
}

func (d *stoppingDisk) Write(p []byte) (int, error) {
	d.data = append(d.data, p...)
	return len(p), nil
}

func (d *stoppingDisk) Sync() error {
	d.synced = len(d.data)
	if d.syncs != nil {
		d.syncs <- bytes.Clone(d.data)
	}
	return nil
}

// left returns what is on the disk after the machine has stopped.
func (d *stoppingDisk) left(random *rand.Rand) []byte {
	data := bytes.Clone(d.data[:d.synced+random.Intn(len(d.data)-d.synced+1)])
	for n := d.synced; n < len(data); n++ {
		switch random.Intn(3) {
		case 0:
			data[n] = 0
		case 1:
			data[n] = byte(random.Int())
		}
	}
	return append(data, make([]byte, random.Intn(64))...) // a length that was written first
}

const oneBar = "LMRECORD 2\nDEVICE 0 1af4 1110 file\nBAR 0 0 2 0 100000\n"

// countStores returns how many stores a recording has, which have to be 1, 2, 3 and so on.
func countStores(t *testing.T, data []byte) (n int, err error) {
	t.Helper()
	c, err := record.Read(bytes.NewReader(data))
	if c == nil {
		return 0, err
	}
	for _, r := range c.Records {
		if n++; r.Offset != uint64(n) {
			t.Fatalf("store %d is at %d", n, r.Offset)
		}
	}
	return n, err
}

// TestWhatWasSyncedIsReadAfterTheMachineHasStopped, and nothing that was not written: whatever
// is behind it, 200 times.
func TestWhatWasSyncedIsReadAfterTheMachineHasStopped(t *testing.T) {
	for seed := range int64(200) {
		random := rand.New(rand.NewSource(seed))
		d := &stoppingDisk{}
		w := NewWriter(d, time.Hour, nil)
		io.WriteString(w, oneBar)
		w.flush(true)
		stores, synced := 0, 0
		for range random.Intn(40) {
			for range random.Intn(100) {
				stores++
				line := fmt.Sprintf("W 0 %x 4 %08x\n", stores, random.Uint32())
				at := random.Intn(len(line))
				io.WriteString(w, line[:at])
				if random.Intn(10) == 0 {
					w.flush(false) // in the middle of a line
				}
				io.WriteString(w, line[at:])
			}
			if sync := random.Intn(2) == 0; sync {
				w.flush(true)
				synced = stores
			} else {
				w.flush(false)
			}
		}
		n, err := countStores(t, d.left(random))
		if !errors.Is(err, record.ErrCut) || n < synced || n > stores {
			t.Errorf("seed %d: %d stores are read of %d, %d were synced: %v", seed, n, stores,
				synced, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWriterSyncsByTime: what it was given is on the disk though nothing follows.
func TestWriterSyncsByTime(t *testing.T) {
	d := &stoppingDisk{syncs: make(chan []byte)}
	asked := make(chan bool, 1)
	w := NewWriter(d, time.Millisecond, func() {
		select {
		case asked <- true:
		default:
		}
	})
	io.WriteString(w, oneBar+"W 0 1 4 00000000\n")
	var left []byte
	for n := 0; n != 1; { // the first sync may have been before it
		left = <-d.syncs
		n, _ = countStores(t, left)
	}
	<-asked
	go func() {
		for range d.syncs {
		}
	}()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := countStores(t, left); !errors.Is(err, record.ErrCut) {
		t.Errorf("%v", err)
	}
}

// TestMemberEndsAtTheEndOfALine: what is behind it waits for the rest.
func TestMemberEndsAtTheEndOfALine(t *testing.T) {
	d := &stoppingDisk{}
	w := NewWriter(d, time.Hour, nil)
	for _, text := range []string{"LMRECORD 2\nNOTE a", "b\nNO", "TE", " c", "\nEND 2\n"} {
		io.WriteString(w, text)
		w.flush(true)
		if text, err := io.ReadAll(record.NewTextReader(bytes.NewReader(d.data))); err != nil ||
			!bytes.HasSuffix(text, []byte("\n")) {
			t.Errorf("the file has %q, %v", text, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := io.ReadAll(record.NewTextReader(bytes.NewReader(d.data))); err != nil ||
		string(c) != "LMRECORD 2\nNOTE ab\nNOTE c\nEND 2\n" {
		t.Errorf("%q, %v", c, err)
	}
}

// TestWriterReportsTheFirstErrorAndWritesNothingAfterIt.
func TestWriterReportsTheFirstErrorAndWritesNothingAfterIt(t *testing.T) {
	full := errors.New("full")
	d := &fullDisk{room: 100, err: full}
	w := NewWriter(d, time.Hour, nil)
	io.WriteString(w, oneBar)
	for n := 1; n < 200; n++ {
		fmt.Fprintf(w, "W 0 %x 4 %08x\n", n, n*n*n)
		w.flush(true)
	}
	if err := w.Close(); err != full || d.writes != 1 {
		t.Errorf("%v, %d writes after it", err, d.writes-1)
	}
	if n, err := countStores(t, d.data); !errors.Is(err, record.ErrCut) || n < 1 {
		t.Errorf("%d stores, %v", n, err)
	}
}

// fullDisk has little room.
type fullDisk struct {
	data         []byte
	room, writes int
	err          error
}

func (d *fullDisk) Write(p []byte) (n int, err error) {
	n = min(len(p), d.room-len(d.data))
	d.data = append(d.data, p[:n]...)
	if n < len(p) {
		d.writes++
		err = d.err
	}
	return n, err
}

// members is a recording of n members of one store each.
func members(t *testing.T, n int) (data []byte, ends []int) {
	t.Helper()
	d := &stoppingDisk{}
	w := NewWriter(d, time.Hour, nil)
	io.WriteString(w, oneBar)
	for i := range n {
		w.flush(true)
		ends = append(ends, d.synced)
		fmt.Fprintf(w, "W 0 %x 4 %08x\n", i+1, i)
	}
	fmt.Fprintf(w, "END %d\n", 2+n)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return d.data, append(ends, d.synced)
}

// TestRecordingThatIsCutAnywhereHasTheMembersBefore the cut, and one that is whole has no error.
func TestRecordingThatIsCutAnywhereHasTheMembersBefore(t *testing.T) {
	data, ends := members(t, 5)
	for cut := range len(data) + 1 {
		whole := 0
		for whole < len(ends) && ends[whole] <= cut {
			whole++
		}
		n, err := countStores(t, data[:cut])
		switch {
		case whole == 0:
			if n != 0 || err == nil {
				t.Errorf("cut at %d in the first member: %d stores, %v", cut, n, err)
			}
		case n != whole-1 || (err == nil) != (cut == len(data)) || err != nil &&
			!errors.Is(err, record.ErrCut):
			t.Errorf("cut at %d: %d stores of %d, %v", cut, n, whole-1, err)
		}
	}
}

// TestDamagedMemberAndWhatFollowsAreLeftOut: no store is read that was not made.
func TestDamagedMemberAndWhatFollowsAreLeftOut(t *testing.T) {
	data, ends := members(t, 5)
	for at := ends[0]; at < len(data); at++ {
		damaged := bytes.Clone(data)
		damaged[at] ^= 0x55
		n, err := countStores(t, damaged)
		before := 0
		for ends[before] <= at {
			before++
		}
		if harmless := n == 5 && err == nil; !harmless && (n != before-1 ||
			!record.Incomplete(err)) {
			t.Errorf("damaged at %d: %d stores, %v; want %d", at, n, err, before-1)
		}
	}
	n, err := countStores(t, append(bytes.Clone(data), 0, 0, 0))
	if n != 5 || !record.Incomplete(err) || !strings.Contains(err.Error(), "after the END line") {
		t.Errorf("zeros after the end: %d stores, %v", n, err)
	}
}

// TestLongMemberIsReadAsItComes: of which no more is kept than memberMax.
func TestLongMemberIsReadAsItComes(t *testing.T) {
	d := &stoppingDisk{}
	w := NewWriter(d, time.Hour, nil)
	io.WriteString(w, oneBar)
	w.flush(false)
	line := "EVENT " + strings.Repeat("x", memberMax) + "\n"
	io.WriteString(w, line+"W 0 1 1 00\nEND 4\n")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(record.NewTextReader(bytes.NewReader(d.data)))
	if err != nil || string(text) != oneBar+line+"W 0 1 1 00\nEND 4\n" {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

// TestFileIsSyncedAndAPipeIsNot.
func TestFileIsSyncedAndAPipeIsNot(t *testing.T) {
	for path, syncs := range map[string]bool{filepath.Join(t.TempDir(), "f"): true,
		"/dev/null": false} {
		f, err := files.OpenToReplace(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		to := OnDisk(f)
		if file, ok := to.(interface{ Sync() error }); ok != syncs || ok && file.Sync() != nil {
			t.Errorf("%s: synced %v", path, ok)
		}
		f.Discard()
	}
}
