package synced

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lightmetal/tools/capture/record"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// memberMax is the number of bytes of a member that a reader of recordings buffers until it has
// verified the member.
const memberMax = 64 << 20

// stoppingDisk is the disk of a machine that may stop. It has all data up to the last sync. Data
// that were written later may be there, be missing or be wrong.
type stoppingDisk struct {
	data   []byte
	synced int         // number of bytes up to the last sync
	syncs  chan []byte // receives the data on the disk at each sync, if not nil
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

// dataAfterStop returns what is on the disk after the machine has stopped.
func (d *stoppingDisk) dataAfterStop(random *rand.Rand) []byte {
	data := bytes.Clone(d.data[:d.synced+random.Intn(len(d.data)-d.synced+1)])
	for n := d.synced; n < len(data); n++ {
		switch random.Intn(3) {
		case 0:
			data[n] = 0
		case 1:
			data[n] = byte(random.Int())
		}
	}
	// The file may be longer than the data if its length was written first.
	return append(data, make([]byte, random.Intn(64))...)
}

// recordingHeader is the first part of a recording of a device with one BAR.
const recordingHeader = "LMRECORD 2\nDEVICE 0 1af4 1110 file\nBAR 0 0 2 0 100000\n"

// countStores returns the number of stores in a recording. Their offsets must be 1, 2, 3 and so on.
func countStores(t *testing.T, data []byte) (n int, err error) {
	t.Helper()
	c, err := record.Read(bytes.NewReader(data))
	if c == nil {
		return 0, err
	}
	for _, r := range c.Records {
		if n++; r.Offset != uint64(n) {
			t.Fatalf("store %d is at offset %d, want %d", n, r.Offset, n)
		}
	}
	return n, err
}

// TestWhatWasSyncedIsReadAfterTheMachineHasStopped, and no store that was not written, whatever
// data follow. The test makes 200 random recordings.
func TestWhatWasSyncedIsReadAfterTheMachineHasStopped(t *testing.T) {
	for seed := range int64(effort.Cases(10, 200, 200)) {
		random := rand.New(rand.NewSource(seed))
		d := &stoppingDisk{}
		w := NewWriter(d, time.Hour, nil)
		io.WriteString(w, recordingHeader)
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
		n, err := countStores(t, d.dataAfterStop(random))
		if !errors.Is(err, record.ErrCut) || n < synced || n > stores {
			t.Errorf("seed %d: %d stores are read, want %d (synced) to %d (written): %v", seed, n,
				synced, stores, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWriterSyncsByTime: what was written is on the disk after the interval, although no further
// write follows.
func TestWriterSyncsByTime(t *testing.T) {
	d := &stoppingDisk{syncs: make(chan []byte)}
	called := make(chan bool, 1)
	w := NewWriter(d, time.Millisecond, func() {
		select {
		case called <- true:
		default:
		}
	})
	io.WriteString(w, recordingHeader+"W 0 1 4 00000000\n")
	var onDisk []byte
	for n := 0; n != 1; { // the first sync may have been before the store was written
		onDisk = <-d.syncs
		n, _ = countStores(t, onDisk)
	}
	<-called
	go func() {
		for range d.syncs {
		}
	}()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if _, err := countStores(t, onDisk); !errors.Is(err, record.ErrCut) {
		t.Errorf("the recording on the disk is read with the error %v, want ErrCut", err)
	}
}

// TestMemberEndsAtTheEndOfALine: the beginning of a further line waits for the rest of the line.
func TestMemberEndsAtTheEndOfALine(t *testing.T) {
	d := &stoppingDisk{}
	w := NewWriter(d, time.Hour, nil)
	for _, text := range []string{"LMRECORD 2\nNOTE a", "b\nNO", "TE", " c", "\nEND 2\n"} {
		io.WriteString(w, text)
		w.flush(true)
		if text, err := io.ReadAll(record.NewTextReader(bytes.NewReader(d.data))); err != nil ||
			!bytes.HasSuffix(text, []byte("\n")) {
			t.Errorf("the file has %q (%v), want complete lines", text, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := io.ReadAll(record.NewTextReader(bytes.NewReader(d.data))); err != nil ||
		string(c) != "LMRECORD 2\nNOTE ab\nNOTE c\nEND 2\n" {
		t.Errorf("the complete file has %q, %v", c, err)
	}
}

// TestWriterReportsTheFirstErrorAndWritesNothingAfterIt has a disk that is full after 100 bytes.
func TestWriterReportsTheFirstErrorAndWritesNothingAfterIt(t *testing.T) {
	full := errors.New("full")
	d := &fullDisk{room: 100, err: full}
	w := NewWriter(d, time.Hour, nil)
	io.WriteString(w, recordingHeader)
	for n := 1; n < 200; n++ {
		fmt.Fprintf(w, "W 0 %x 4 %08x\n", n, n*n*n)
		w.flush(true)
	}
	if err := w.Close(); err != full || d.writes != 1 {
		t.Errorf("Close: error %v, want full; %d writes after the first error, want 0", err,
			d.writes-1)
	}
	if n, err := countStores(t, d.data); !errors.Is(err, record.ErrCut) || n < 1 {
		t.Errorf("%d stores are read (%v), want at least 1 and ErrCut", n, err)
	}
}

// fullDisk has room for a number of bytes. It counts the writes that fail and returns err for them.
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

// recordingOfMembers returns a recording of n members with one store each, and the offsets at which
// the members end.
func recordingOfMembers(t *testing.T, n int) (data []byte, ends []int) {
	t.Helper()
	d := &stoppingDisk{}
	w := NewWriter(d, time.Hour, nil)
	io.WriteString(w, recordingHeader)
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

// TestRecordingThatIsCutAnywhereHasTheMembersBefore the cut. A complete recording is read without
// an error.
func TestRecordingThatIsCutAnywhereHasTheMembersBefore(t *testing.T) {
	data, ends := recordingOfMembers(t, 5)
	for cut := range len(data) + 1 {
		complete := 0
		for complete < len(ends) && ends[complete] <= cut {
			complete++
		}
		n, err := countStores(t, data[:cut])
		switch {
		case complete == 0:
			if n != 0 || err == nil {
				t.Errorf("cut at %d in the first member: %d stores, %v", cut, n, err)
			}
		case n != complete-1 || (err == nil) != (cut == len(data)) || err != nil &&
			!errors.Is(err, record.ErrCut):
			t.Errorf("cut at %d: %d stores, want %d; error %v", cut, n, complete-1, err)
		}
	}
}

// TestDamagedMemberAndWhatFollowsAreLeftOut damages each byte after the first member. No store is
// read that was not written.
func TestDamagedMemberAndWhatFollowsAreLeftOut(t *testing.T) {
	data, ends := recordingOfMembers(t, 5)
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

// TestMemberLargerThanTheBufferIsRead has a member with more than memberMax bytes, which a reader
// cannot buffer.
func TestMemberLargerThanTheBufferIsRead(t *testing.T) {
	effort.SkipShort(t)
	d := &stoppingDisk{}
	w := NewWriter(d, time.Hour, nil)
	io.WriteString(w, recordingHeader)
	w.flush(false)
	line := "EVENT " + strings.Repeat("x", memberMax) + "\n"
	io.WriteString(w, line+"W 0 1 1 00\nEND 4\n")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(record.NewTextReader(bytes.NewReader(d.data)))
	if err != nil || string(text) != recordingHeader+line+"W 0 1 1 00\nEND 4\n" {
		t.Errorf("the recording is read as %d bytes (%v), want %d", len(text), err,
			len(recordingHeader+line)+len("W 0 1 1 00\nEND 4\n"))
	}
}

func TestFileIsSyncedAndAPipeIsNot(t *testing.T) {
	directory := t.TempDir()
	pipe := filepath.Join(directory, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // O_RDONLY waits for a writer
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for path, syncs := range map[string]bool{filepath.Join(directory, "file"): true, pipe: false,
		"/dev/null": false} {
		f, err := files.OpenToReplace(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		to := OnDisk(f)
		if file, ok := to.(interface{ Sync() error }); ok != syncs || ok && file.Sync() != nil {
			t.Errorf("%s: OnDisk returns a file that can be synced: %v, want %v", path, ok, syncs)
		}
		f.Discard()
	}
}
