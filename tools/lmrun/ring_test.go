package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/hal/mock"

	"golang.org/x/sys/unix"
)

func TestFailedRunMakesNoFileAndLeavesRingsOpen(t *testing.T) {
	in, out, file := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "ring"),
		filepath.Join(t.TempDir(), "d")
	_ = os.WriteFile(in, make([]byte, frameBytes), 0o600)
	end := runFrames(t, "-sequence bad -input a="+in+" -output d=ring:"+out+" -output d="+file)
	if end.result.Code != hal.ExpectFailed || end.runs != 0 {
		t.Errorf("ended with %+v, want code %v and no run", end, hal.ExpectFailed)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("stat of the output file: %v, want that it does not exist", err)
	}
	if data, _ := os.ReadFile(out); data[ringClosed] != 0 || data[ringWritten] != 0 {
		t.Errorf("ring: closed %d, written %d, want 0 and 0", data[ringClosed], data[ringWritten])
	}
}

// Offsets of fields in a ring file (RING.md).
const (
	ringSlot    = 8
	ringSlots   = 16
	ringClosed  = 24
	ringWritten = 64
	ringRead    = 128
)

// buildRingPeer builds the C program that uses the other side of a ring, and returns its path.
func buildRingPeer(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "peer")
	out, err := exec.Command("gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o",
		binary, "testdata/ring_peer.c").CombinedOutput()
	if err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
		t.Skipf("no C compiler: %v", err)
	}
	return binary
}

func TestRingsExchangeDataWithAProgramInC(t *testing.T) {
	const frames = 500       // many more than the rings have slots
	goruntime.LockOSThread() // children get Pdeathsig when the thread that started them ends
	defer goruntime.UnlockOSThread()
	program, inputs := buildRingPeer(t), []byte(nil)
	inputs, results := frameData(frames)
	for _, slots := range []int{1, 3, newRingSlots} {
		in, out := filepath.Join(t.TempDir(), "in"), filepath.Join(t.TempDir(), "out")
		writer := exec.Command(program, "write", in, strconv.Itoa(frameBytes), strconv.Itoa(slots))
		reader := exec.Command(program, "read", out, strconv.Itoa(resultBytes), strconv.Itoa(slots))
		// Without this signal, they would wait forever if this program dies.
		for _, c := range []*exec.Cmd{writer, reader} {
			c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		}
		var got bytes.Buffer
		writer.Stdin, reader.Stdout = bytes.NewReader(inputs), &got
		// The first side to open a ring creates it. Here, the test has created both.
		makeRing(t, in, frameBytes, slots)
		makeRing(t, out, resultBytes, slots)
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		if err := reader.Start(); err != nil {
			t.Fatal(err)
		}
		end := runFrames(t, "-loop forever -input a=ring:"+in+" -output d=ring:"+out)
		if end.err != nil || end.runs != frames {
			t.Errorf("%d slots: ended with %+v, want %d runs", slots, end, frames)
		}
		if err := writer.Wait(); err != nil {
			t.Errorf("%d slots: writer in C: %v", slots, err)
		}
		if err := reader.Wait(); err != nil {
			t.Errorf("%d slots: reader in C: %v", slots, err)
		}
		if !bytes.Equal(got.Bytes(), results) {
			t.Errorf("%d slots: the reader received %d bytes, want the %d bytes of %d results",
				slots, got.Len(), len(results), frames)
		}
	}
}

// makeRing writes an empty ring to a file and returns the bytes of the file.
func makeRing(t *testing.T, path string, slot, slots int) []byte {
	t.Helper()
	data := make([]byte, ringHeaderBytes+slots*((slot+63)&^63))
	copy(data, "LMRING1")
	binary.NativeEndian.PutUint64(data[ringSlot:], uint64(slot))
	binary.NativeEndian.PutUint64(data[ringSlots:], uint64(slots))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestInterruptedRunIsRepeated checks that lmrun releases an input slot only after it has written
// the result.
func TestInterruptedRunIsRepeated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	data := makeRing(t, path, frameBytes, 4)
	inputs, results := frameData(4)
	for i := range 4 {
		copy(data[ringHeaderBytes+64*i:], inputs[frameBytes*i:][:frameBytes])
	}
	data[ringWritten], data[ringClosed] = 4, 1
	_ = os.WriteFile(path, data, 0o600)
	out := filepath.Join(t.TempDir(), "out")
	makeRing(t, out, resultBytes, 2)
	line := "-loop 2 -input a=ring:" + path + " -output d=ring:" + out
	byteAt := func(name string, at int) byte {
		t.Helper()
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return data[at]
	}
	f := openRuns(t, line)
	// The first run receives its data and is interrupted.
	if ended, err := f.receiveInputs(); ended || err != nil || byteAt(path, ringRead) != 0 {
		t.Fatalf("receiveInputs: ended %v, %v, %d slots released; want false, no error, 0", ended,
			err, byteAt(path, ringRead))
	}
	end := openRuns(t, line).runAndCommit(2)
	if end.err != nil || end.runs != 2 || byteAt(path, ringRead) != 2 ||
		byteAt(out, ringWritten) != 2 || byteAt(out, ringClosed) != 1 {
		t.Fatalf("ended with %+v; %d slots read, %d written, closed %d; want 2 runs, 2, 2 and 1",
			end, byteAt(path, ringRead), byteAt(out, ringWritten), byteAt(out, ringClosed))
	}
	all, _ := os.ReadFile(out)
	for frame := range 2 {
		got := all[ringHeaderBytes+64*frame:][:resultBytes]
		if want := results[frame*resultBytes:][:resultBytes]; !bytes.Equal(got, want) {
			t.Errorf("result of frame %d: % x, want % x", frame, got, want)
		}
	}
}

// TestNoRingAdvancesBeforeAllHaveRoom uses two output rings, of which the second is full. If lmrun
// ends while it waits, the first ring must contain nothing of the run.
func TestNoRingAdvancesBeforeAllHaveRoom(t *testing.T) {
	empty, full := filepath.Join(t.TempDir(), "empty"), filepath.Join(t.TempDir(), "full")
	makeRing(t, empty, resultBytes, 2)
	data := makeRing(t, full, resultBytes, 2)
	data[ringWritten] = 2
	_ = os.WriteFile(full, data, 0o600)
	f := openRuns(t, "-output d=ring:"+empty+" -output d=ring:"+full)
	stopRequested.Store(1)
	defer stopRequested.Store(0)
	if err := f.finishRun(); err == nil || !strings.Contains(err.Error(),
		"the outputs of the last run are lost") {
		t.Errorf("finishRun with a full ring and a stop request: %v, want lost outputs", err)
	}
	for _, path := range []string{empty, full} {
		want := map[string]byte{full: 2}[path]
		if got, _ := os.ReadFile(path); got[ringWritten] != want {
			t.Errorf("%s: %d slots written, want %d", path, got[ringWritten], want)
		}
	}
}

// TestSignalEndsTheRunsOrderly sends a signal while the runs wait for an input or an output. The
// sequence of -after must run, and the outputs must be written.
func TestSignalEndsTheRunsOrderly(t *testing.T) {
	inputs, results := frameData(2)
	newPath := func(name string) string { return filepath.Join(t.TempDir(), name) }
	pipe := makeFIFO(t)
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // stays open, so that the pipe does not end
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.Write(inputs); err != nil {
		t.Fatal(err)
	}
	ring := newPath("ring")
	data := makeRing(t, ring, frameBytes, 4)
	copy(data[ringHeaderBytes:], inputs[:frameBytes])
	copy(data[ringHeaderBytes+64:], inputs[frameBytes:])
	data[ringWritten] = 2
	if err := os.WriteFile(ring, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, input := range []string{pipe, "ring:" + ring} {
		out, device := newPath("d"), mock.New(&boards.Ivshmem)
		device.Record(true)
		done := make(chan outcome)
		go func() {
			done <- runFramesOn(t, device, "-loop forever -before begin -after finish -input a="+
				input+" -output d="+out)
		}()
		// Wait until lmrun has read both frames: the pipe or the ring is then empty.
		for {
			left, _ := unix.IoctlGetInt(int(writer.Fd()), unix.TIOCINQ)
			state, _ := os.ReadFile(ring)
			if input == pipe && left == 0 || input != pipe && state[ringRead] == 2 {
				break
			}
		}
		stopRequested.Store(1)
		end := <-done
		stopRequested.Store(0)
		// A frame that lmrun has read is run, although the signal may arrive before its run.
		got, err := os.ReadFile(out)
		if end.err != nil || end.result.Code != hal.OK || end.runs != 2 ||
			!bytes.Equal(got, results[resultBytes:]) {
			t.Fatalf("input %s: ended with %+v, output %x, %v; want success, 2 runs and the last "+
				"result, %x", input, end, got, err, results[resultBytes:])
		}
		// The last access is the store of sequence finish.
		finish := mock.Access{Op: mock.Store, Place: mock.Place{Bar: 2}, Width: 4, Value: 2}
		if all := device.Journal(); all[len(all)-1] != finish {
			t.Errorf("input %s: the last access is a %v, want a %v", input, all[len(all)-1], finish)
		}
	}
}

// truncatingClock is a mock that truncates a file when its clock has been read readsLeft times. The
// first read is before a run, the second after it.
type truncatingClock struct {
	sleepingMock
	path      string
	readsLeft int
}

func (c *truncatingClock) Now() int64 {
	if c.readsLeft--; c.readsLeft == 0 {
		_ = os.Truncate(c.path, 0)
	}
	return c.sleepingMock.Now()
}

// TestTruncatedRingIsAnInputOutputError truncates the file of a ring after it is mapped, before
// the first run, during a run, and before the input slot is released.
func TestTruncatedRingIsAnInputOutputError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ring")
	writeRing := func() {
		data := makeRing(t, path, frameBytes, 4)
		data[ringWritten] = 2
		_ = os.WriteFile(path, data, 0o600)
	}
	writeRing()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &ring{path: path, dataBytes: frameBytes}
	if err := r.mapOrCreate(int(file.Fd())); err != nil {
		t.Fatal(err)
	}
	_ = os.Truncate(path, 0)
	f := &runLoop{streams: []tensorStream{{}, {ring: r}}}
	check := func() (err error) {
		defer f.recoverPanic(&err)
		return r.attach(true)
	}
	if err := check(); hal.CodeOf(err) != hal.IO || !strings.Contains(err.Error(), path) {
		t.Errorf("attach to a truncated ring: %v, want code %v and the path", err, hal.IO)
	}
	file.Close()
	for moment := range 3 {
		writeRing()
		clock := &truncatingClock{sleepingMock{mock.New(&boards.Ivshmem)}, path, moment}
		f, _, err := planAndOpen(t, mock.New(&boards.Ivshmem), clock, "-loop 2 -input a=ring:"+path)
		if err != nil {
			t.Fatal(err)
		}
		if moment == 0 {
			_ = os.Truncate(path, 0)
		}
		end := f.runAndCommit(2)
		if hal.CodeOf(end.err) != hal.IO || !end.result.SafeRan ||
			end.result.SafeSequenceCode != hal.OK {
			t.Errorf("truncated at clock read %d: ended with %+v, want code %v and safe", moment,
				end, hal.IO)
		}
	}
}

// openRing opens a ring as lmrun does.
func openRing(path string, writer bool) (*ring, error) {
	r := &ring{path: path, dataBytes: frameBytes}
	return r, r.open(writer)
}

// TestUnfinishedRingIsCompleted opens an empty file, and a file with the size of a ring and a
// header of zeros. Both must become rings.
func TestUnfinishedRingIsCompleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	for size, slots := range map[int]uint64{
		0: newRingSlots, ringHeaderBytes + 64: 1, ringHeaderBytes + 64*3: 3,
		ringHeaderBytes + 64*maxRingSlots: maxRingSlots,
	} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			_ = os.WriteFile(path, make([]byte, size), 0o600)
			r, err := openRing(path, false)
			if err != nil || r.slotCount != slots || uint64(len(r.memory)) != r.fileBytes(slots) {
				t.Fatalf("%d bytes of zeros: opened with %d slots, %v; want %d slots", size,
					r.slotCount, err, slots)
			}
			if again, err := openRing(path, true); err != nil || again.slotCount != slots {
				t.Errorf("%d bytes of zeros: opened again as %+v, %v; want %d slots", size, again,
					err, slots)
			}
		})
	}
}

// TestFileThatIsNotARingIsNotChanged also covers files that begin with zeros, and links, which are
// not followed.
func TestFileThatIsNotARingIsNotChanged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "in")
	zeros := func(size, at int) []byte {
		data := make([]byte, size)
		if at < size {
			data[at] = 1
		}
		return data
	}
	for want, data := range map[string][]byte{
		"bad magic": zeros(14_000, 8_000), "bad magic)": zeros(ringHeaderBytes+64, 8),
		" (bad magic)":                   zeros(ringHeaderBytes+64, ringHeaderBytes-1),
		"(bad magic)":                    zeros(ringHeaderBytes+63, ringHeaderBytes+63),
		"is not a ring file (bad magic)": zeros(ringHeaderBytes, ringHeaderBytes),
		"shorter than a ring header":     zeros(100, 100),
		"shorter than a ring header)":    zeros(ringHeaderBytes-1, 0),
	} {
		t.Run(want, func(t *testing.T) {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, flags := range []string{"-input a=ring:", "-output d=ring:"} {
				end := runFrames(t, flags+path)
				if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s%s changed the file: %d bytes before, %d after, error of the read "+
						"%v; want the same bytes", flags, path, len(data), len(got), err)
				}
				if hal.CodeOf(end.err) != hal.BadTensor ||
					!strings.Contains(end.err.Error(), want) {
					t.Errorf("%s%s: %v, want %q", flags, path, end.err, want)
				}
			}
		})
	}
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.Symlink("new", link), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for want, path := range map[string]string{"a symbolic link": link, "not a regular file": pipe} {
		t.Run(want, func(t *testing.T) {
			end := runFrames(t, "-output d=ring:"+path)
			if hal.CodeOf(end.err) != hal.BadTensor || !strings.Contains(end.err.Error(), want) {
				t.Errorf("ring at %s: %v, want %q", path, end.err, want)
			}
		})
	}
	if names := fileNames(t, dir); names != "in link pipe" {
		t.Errorf("the directory contains %q, want %q", names, "in link pipe")
	}
}

// TestRingThatStaysLockedIsAnError locks the ring through another open file, as another process
// does. lmrun must not wait forever.
func TestRingThatStaysLockedIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	makeRing(t, path, frameBytes, 4)
	peer, err := os.Open(path)
	if err == nil {
		err = unix.Flock(int(peer.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	defer func(tries int) { ringLockTries = tries }(ringLockTries)
	ringLockTries = 3
	end := runFrames(t, "-input a=ring:"+path)
	if hal.CodeOf(end.err) != hal.IO || !strings.Contains(end.err.Error(), "locked") {
		t.Errorf("ended with %+v, want code %v and %q", end, hal.IO, "locked")
	}
}

// TestSignalBeforeTheFirstRunClosesRings checks that the output rings are closed, because their
// readers wait for that.
func TestSignalBeforeTheFirstRunClosesRings(t *testing.T) {
	dir := t.TempDir()
	in, out, file := dir+"/a", dir+"/d", dir+"/file"
	makeRing(t, in, frameBytes, 4)
	stopRequested.Store(1)
	defer stopRequested.Store(0)
	end := runFrames(t, "-loop forever -input a=ring:"+in+" -output d=ring:"+out+" -output d="+file)
	data, err := os.ReadFile(out)
	if err != nil || end.err != nil || end.runs != 0 || data[ringClosed] != 1 {
		t.Errorf("ended with %+v, %v, output ring closed %d; want no run and closed 1", end, err,
			data[ringClosed])
	}
	if data, _ := os.ReadFile(in); data[ringClosed] != 0 {
		t.Errorf("lmrun closed the input ring, which only its writer may do: closed is %d, want 0",
			data[ringClosed])
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("stat of the output file: %v, want that it does not exist", err)
	}
}

// TestPanicOutsideRingsNamesNoRing covers a panic that is no memory fault, and a memory fault at
// an address outside all rings.
func TestPanicOutsideRingsNamesNoRing(t *testing.T) {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(page)
	for want, problem := range map[string]func() byte{
		"internal error: runtime error: index out of range": func() byte { return page[len(page)] },
		"internal error: runtime error: invalid memory": func() byte {
			return byte((*ring)(nil).dataBytes)
		},
		"internal error: runtime error: invalid memory ad": func() byte { return page[0] },
	} {
		t.Run(want, func(t *testing.T) {
			ring := &ring{path: "PATH", memory: make([]byte, 64)}
			f := &runLoop{streams: []tensorStream{{}, {ring: ring}}}
			run := func() (err error) {
				// Memory faults are panics in this goroutine only.
				defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
				defer f.recoverPanic(&err)
				problem()
				return nil
			}
			err := run()
			if err == nil || !strings.Contains(err.Error(), want) ||
				strings.Contains(err.Error(), "PATH") {
				t.Errorf("error %v, want %q without the path of the ring", err, want)
			}
		})
	}
}

// TestReaderOfClosedRingWaitsForNextWriter opens a ring that an earlier writer has closed, first
// as the reader and then as the next writer.
func TestReaderOfClosedRingWaitsForNextWriter(t *testing.T) {
	inputs, _ := frameData(1)
	path := filepath.Join(t.TempDir(), "in")
	data := makeRing(t, path, frameBytes, 4)
	data[ringClosed] = 1
	_ = os.WriteFile(path, data, 0o600)
	reader, err := openRing(path, false)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		writer, err := openRing(path, true)
		if err == nil {
			_, _ = writer.moveSlot(inputs)
			writer.handOverSlot()
			writer.markClosed()
		}
	}()
	got, input := make([]byte, frameBytes), tensorStream{ring: reader}
	if n, err := input.transfer(got); n != frameBytes || err != nil || !bytes.Equal(got, inputs) {
		t.Fatalf("first transfer: %d bytes %x, %v; want %x", n, got, err, inputs)
	}
	reader.handOverSlot()
	if n, err := input.transfer(got); n != 0 || err != nil {
		t.Errorf("transfer after the writer has closed the ring: %d bytes, %v; want 0", n, err)
	}
}

func TestRingWithWrongHeaderIsRejected(t *testing.T) {
	change := func(offset int, value byte) func([]byte) []byte {
		return func(data []byte) []byte { data[offset] = value; return data }
	}
	for want, corrupt := range map[string]func([]byte) []byte{
		"(bad magic)":                     change(0, 'X'),
		"has slots of 17 bytes":           change(ringSlot, 17),
		"has 0 slots":                     change(ringSlots, 0),
		"slots, but must have 1 to 65536": change(ringSlots+4, 1),
		"its header says":                 change(ringSlots, 3),
		"shorter than a ring header":      func(data []byte) []byte { return data[:100] },
		"its header says ":                func(data []byte) []byte { return data[:len(data)-1] },
	} {
		t.Run(want, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "in")
			_ = os.WriteFile(path, corrupt(makeRing(t, path, frameBytes, 4)), 0o600)
			end := runFrames(t, "-input a=ring:"+path)
			if hal.CodeOf(end.err) != hal.BadTensor || !strings.Contains(end.err.Error(), want) {
				t.Errorf("error %v, want %q", end.err, want)
			}
			if end.runs != 0 {
				t.Errorf("%s: %d runs, want none", want, end.runs)
			}
		})
	}
	// The ring claims more written slots than it has.
	path := filepath.Join(t.TempDir(), "in")
	_ = os.WriteFile(path, change(ringWritten+7, 0xff)(makeRing(t, path, frameBytes, 4)), 0o600)
	if end := runFrames(t, "-input a=ring:"+path); hal.CodeOf(end.err) != hal.BadTensor {
		t.Errorf("too many written slots: ended with %+v, want code %v", end, hal.BadTensor)
	}
	if end := runFrames(t, "-input a=ring:/nowhere/ring"); hal.CodeOf(end.err) != hal.NoFile {
		t.Errorf("missing directory: ended with %+v, want code %v", end, hal.NoFile)
	}
}
