package vfiouser

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/tools/capture/record"
	"lightmetal/tools/check/effort"

	"golang.org/x/sys/unix"
)

// TestRecordingHasTheDeviceAccessesToMemory requires that the recording has the mapped pages first,
// then the data that the device read, once and before the store that started the transfer, and the
// data that the device wrote after that store.
func TestRecordingHasTheDeviceAccessesToMemory(t *testing.T) {
	var trace bytes.Buffer
	c, f := startServer(t, mockOpener(&boards.Edu), &trace)
	fd, data := createMemfd(t, 2*4096)
	copy(data, "from client to device to client")
	c.sendOK(cmdDMAMap, dmaMapBody(dmaRead|dmaWrite, 0, 0x100000, 8192), fd)
	c.store(configRegion, regCommand, 2, 6)
	eduDMA(c, 0x100000, 0x101000, 31)
	eduDMA(c, 0x100000, 0x101000, 31) // the same again, which changes no data
	capture := finishRecording(t, c, f, &trace)
	var got []string
	for _, r := range capture.Records {
		switch r.Kind {
		case record.Memory:
			got = append(got, fmt.Sprintf("memory %x", r.Offset))
		case record.HostRead:
			got = append(got, fmt.Sprintf("read %x %s", r.Offset, r.Data))
		case record.HostWrite:
			got = append(got, fmt.Sprintf("wrote %x %s", r.Offset, r.Data))
		case record.BarWrite:
			if r.Offset == 0x98 {
				got = append(got, fmt.Sprintf("command %x", r.Data[0]))
			}
		}
	}
	const want = `memory 100000, memory 101000, read 100000 from client to device to client, ` +
		`command 1, command 3, ` +
		`wrote 101000 from cli, wrote 101008 ent to d, wrote 101010 evice to, wrote 101018  ` +
		`client, command 1, command 3`
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// TestRecordingThatCannotBeWrittenIsReportedAtOnce waits for the report before the end. The full
// disk has the recording itself, or the temporary file.
func TestRecordingThatCannotBeWrittenIsReportedAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // the temporary file stays after an error
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for i, board := range []*boards.Board{&boards.Edu, &boards.Wormhole, &boards.Edu} {
		reports := make(chan string, 1)
		o := Options{Trace: full, Sync: time.Millisecond,
			Log: func(format string, a ...any) { reports <- fmt.Sprintf(format, a...) }}
		if isSpoolFull := i == 2; isSpoolFull {
			o.Trace, o.Spool = io.Discard, filepath.Join(t.TempDir(), "trace")
		}
		f, err := New(mockOpener(board), o)
		if err == nil && o.Spool != "" {
			err = unix.Dup3(int(full.Fd()), f.trace.spool.Fd, unix.O_CLOEXEC)
			f.trace.access('W', 0, 4, make([]byte, 4))
			f.trace.access('W', 0, 4, make([]byte, 4))
		}
		if err != nil {
			t.Fatal(err)
		}
		report := <-reports
		if !strings.HasPrefix(report, "the recording cannot be written: ") ||
			!strings.HasSuffix(report, ": no space left on device") {
			t.Errorf("%s: report %q, want that the disk is full", board.Name, report)
		}
		if err := f.Close(); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%s: Close returns %v, want that the disk is full", board.Name, err)
		}
	}
}

// TestDataThatTheDeviceWroteIsNotRecordedAsTheClients makes the device read data back that it wrote
// during the same access of the client. The recording must have this data only as writes of the
// device.
func TestDataThatTheDeviceWroteIsNotRecordedAsTheClients(t *testing.T) {
	var out bytes.Buffer
	trace := newTestTrace(t, &out, &boards.Edu)
	memory := []byte("........client..")
	trace.access('W', 0, 0, []byte{1})
	trace.reach(0x1000, memory[:8])
	copy(memory, "devices.")
	trace.reach(0x1000, memory[:8])   // data that the device wrote
	trace.reach(0x1004, memory[4:16]) // part of that data, and data that the client wrote
	trace.reach(0x1008, memory[8:16])
	copy(memory[8:], "DEVICE..")
	trace.transfers()
	if err := trace.end(); err != nil {
		t.Fatal(err)
	}
	capture, err := record.Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, r := range capture.Records {
		if r.Kind == record.HostRead || r.Kind == record.HostWrite || r.Kind == record.BarWrite {
			got += fmt.Sprintf("%d %x %q, ", r.Kind, r.Offset, r.Data)
		}
	}
	want := fmt.Sprintf(
		`%d 1008 "client..", %d 0 "\x01", %d 1000 "devices.", %[3]d 1008 "DEVICE..", `,
		record.HostRead, record.BarWrite, record.HostWrite)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestMissingMemoryIsNotInTheRecording shortens the file of the memory. The recording must omit the
// missing page and have the accesses after that.
func TestMissingMemoryIsNotInTheRecording(t *testing.T) {
	var out bytes.Buffer
	trace := newTestTrace(t, &out, &boards.Edu)
	fd, memory := createMemfd(t, 8192)
	trace.reach(0x1000, memory[4096:])
	if err := unix.Ftruncate(fd, 4096); err != nil {
		t.Fatal(err)
	}
	trace.reach(0x1000, memory[4096:])
	memory[0] = 1
	trace.reach(0, memory[:1])
	trace.transfers()
	if err := trace.end(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(record.NewTextReader(&out))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(text), "MEM 0 1000\nHR 0 1 01\nEND 4\n"; !strings.HasSuffix(got, want) ||
		strings.Contains(got, "1000 4096") {
		t.Errorf("the recording is\n%s\nwant the end\n%s\nand no access to 0x1000", got, want)
	}
}

// newTestTrace returns a trace of a device with one BAR.
func newTestTrace(t *testing.T, out *bytes.Buffer, b *boards.Board) *trace {
	t.Helper()
	o := Options{Trace: out, Spool: filepath.Join(t.TempDir(), "trace"), Sync: time.Hour}
	trace, err := newTrace(&o, hal.Identity{BarSizes: [6]uint64{0: 4096}}, b)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// TestLongSessionIsStoredInAFile requires that the records are not kept in memory. The temporary
// file must be a recording without an end, in case the server is killed. If the server ends, it
// must remove the file and write the complete recording.
func TestLongSessionIsStoredInAFile(t *testing.T) {
	for _, b := range []*boards.Board{&boards.Edu, &boards.Wormhole} {
		var out bytes.Buffer
		trace := newTestTrace(t, &out, b)
		// Several MB of text: the writer keeps at most one MB of it in memory.
		count := effort.Cases(60_000, 200_000, 200_000)
		for i := range uint64(count) {
			trace.access('W', 0, i%1024*4, []byte{1, 2, 3, byte(i)})
		}
		heldBytes := trace.held.Len()
		if trace.spool == nil { // its goroutine writes to out until it ends
			if err := trace.end(); err != nil || heldBytes > 100 {
				t.Errorf("%s: %d bytes in memory, want at most 100; error %v", b.Name, heldBytes,
					err)
			}
			continue
		}
		if out.Len() != 0 {
			t.Errorf("%s: %d bytes were written before the recording's first records were known",
				b.Name, out.Len())
		}
		partialFile, err := os.ReadFile(trace.spooled)
		if err != nil {
			t.Fatal(err)
		}
		capture, err := record.Read(bytes.NewReader(partialFile))
		if !record.Incomplete(err) || capture == nil || len(capture.Records) < count/2 ||
			heldBytes > 100 {
			t.Errorf("%s: the temporary file has %d bytes, %d are in memory; error %v, want an "+
				"incomplete recording of most accesses", b.Name, len(partialFile), heldBytes, err)
		}
		if err := trace.end(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(trace.spooled); err == nil {
			t.Errorf("%s was not removed", trace.spooled)
		}
		stores := 0
		err = record.EachRecord(&out, "", func(*record.Capture) error { return nil },
			func(r *record.Record) error {
				if r.Kind == record.BarWrite {
					stores++
				}
				return nil
			})
		if err != nil || stores != count {
			t.Errorf("%s: the recording has %d stores, want %d; error %v", b.Name, stores, count,
				err)
		}
	}
}

// TestAccessIsWrittenToTheFileWithinASecond requires that the last store, and the loads after it,
// are in the file even if no access follows. Data that the device reads later is recorded after the
// store, and an EVENT reports this.
func TestAccessIsWrittenToTheFileWithinASecond(t *testing.T) {
	var out bytes.Buffer
	trace := newTestTrace(t, &out, &boards.Edu)
	trace.access('W', 0, 0, []byte{1})
	trace.releaseLate()
	if trace.held.Len() == 0 {
		t.Error("the store was written at once, want it held back")
	}
	trace.since = trace.since.Add(-heldMax)
	if trace.releaseLate(); trace.held.Len() != 0 {
		t.Errorf("%q is still held back after %v", trace.held.String(), heldMax)
	}
	trace.reach(0x1000, []byte("client"))
	trace.transfers()
	trace.access('W', 0, 0, []byte{2})
	trace.reach(0x2000, []byte("in time"))
	trace.transfers()
	if err := trace.end(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(record.NewTextReader(&out))
	const want = "W 0 0 1 01\nEVENT the device read 6 bytes at bus address 1000 more than 1s " +
		"after the previous store; the client had written them before that store\n" +
		"HR 1000 6 636c69656e74\n"
	if err != nil || !strings.Contains(string(text), want) ||
		strings.Count(string(text), "EVENT") != 1 {
		t.Errorf("error %v; the recording is\n%s\nwant one EVENT, with the lines\n%s", err, text,
			want)
	}
}
