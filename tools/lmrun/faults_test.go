package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/image/lmb/lmbtest"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/faultlog"

	"golang.org/x/sys/unix"
)

// newFaultFileBytes is the size of a file that lmrun creates.
const newFaultFileBytes = newFaultFileSlots * faultlog.EntryBytes

// entriesIn returns the numbers of the complete entries in a file, in the order of the slots.
func entriesIn(data []byte) (numbers []uint64) {
	for ; len(data) >= faultlog.EntryBytes; data = data[faultlog.EntryBytes:] {
		if e := entryAt(data); e.IsComplete() {
			numbers = append(numbers, e.EntryNumber)
		}
	}
	return numbers
}

// entryAt returns the entry at the beginning of data.
func entryAt(data []byte) *faultlog.Entry {
	e := new(faultlog.Entry)
	copy(e.Bytes(), data)
	return e
}

// recordFault opens a file as lmrun does, and records a failed command.
func recordFault(t *testing.T, path string) {
	t.Helper()
	var r faultRecorder
	view := lmbtest.View(t, lmbtest.File(t, failingListing))
	if err := r.openFile(args.Options{FaultFile: path}, view); err != nil {
		t.Fatal(err)
	}
	defer os.NewFile(uintptr(r.fd), path).Close()
	r.recordFailure(&outcome{err: hal.NewFault(hal.ExpectFailed, "main, command 1"),
		result: runtime.Result{Code: hal.ExpectFailed, Command: 1}})
}

// TestFailureIsRecorded runs lmrun, sealed and not sealed. It must record the failure of a command
// and of opening a device, and nothing for a run that succeeds.
func TestFailureIsRecorded(t *testing.T) {
	runner, dir := buildRunner(t, "backend_pci"), t.TempDir()
	image, path := filepath.Join(dir, "image.lmb"), filepath.Join(dir, "faults")
	file := lmbtest.File(t, failingListing)
	if err := os.WriteFile(image, file, 0o600); err != nil {
		t.Fatal(err)
	}
	lock := " -lock"
	if !canLockMemory(t) {
		lock = ""
	}
	for _, run := range []struct {
		exit int
		args string
	}{
		{76, "-seal -device mock:edu" + lock}, {0, "-seal -device mock:edu -sequence good -loop 3"},
		{76, "-device mock:edu -before good"}, {69, "-device pci:dead:beef"},
		{0, "-check -sequence good"},
	} {
		args := append(strings.Fields(run.args), "-faults", path, image)
		c := exec.Command(runner, args...)
		if out, _ := c.CombinedOutput(); c.ProcessState.ExitCode() != run.exit {
			t.Fatalf("lmrun %s: %v, want exit status %d; output: %s", run.args, c.ProcessState,
				run.exit, out)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil || len(data) != newFaultFileBytes {
		t.Fatalf("fault file: %d bytes, %v; want %d bytes", len(data), err, newFaultFileBytes)
	}
	wanted := runtime.Result{Code: hal.ExpectFailed, SafeRan: true, Command: 1, Got: 0x010000ed,
		Want: 0x010000ee, Mask: 0xffffffff}
	for i, result := range []runtime.Result{wanted, wanted, {Code: hal.NoDevice, Command: -1}} {
		e := entryAt(data[i*faultlog.EntryBytes:])
		checksum := fbs.ReadStruct[fbs.Preamble](file).Checksum
		if !e.IsComplete() || e.EntryNumber != uint64(i+1) || e.Result != result || e.TimeNs == 0 ||
			e.ImageChecksum != checksum || (e.ConfigRegisters[0] == 0x11e81234) != (i < 2) {
			t.Errorf("entry %d: %+v; want entry number %d and result %+v", i, e, i+1, result)
		}
		reason := []string{"main, command 1: expect.4 w0+0x0", "main, command 1",
			"pci:dead:beef"}[i]
		if !strings.HasPrefix(string(e.Reason[:]), reason) {
			t.Errorf("entry %d: reason %q, want %q", i, e.Reason, reason)
		}
	}
	if numbers := entriesIn(data); len(numbers) != 3 {
		t.Errorf("complete entries %v, want 3", numbers)
	}
}

// TestInterruptedWriteLosesNoOtherEntry writes only a part of an entry, as a loss of power can: the
// magic, which is written first, and then its next or last bytes, in each possible number, over
// zeros and over the oldest entry.
func TestInterruptedWriteLosesNoOtherEntry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults")
	var old []byte // the file before an entry is written
	for before := range 71 {
		recordFault(t, path)
		written, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains([]int{0, 3, 64, 70}, before) {
			const magicBytes = 8
			for n := magicBytes; n <= faultlog.EntryBytes; n++ {
				for _, fromEnd := range []bool{false, true} {
					checkInterruptedWrite(t, path, old, written, before, n, fromEnd)
				}
			}
			if err := os.WriteFile(path, written, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		old = written
	}
}

// checkInterruptedWrite checks the file whose next entry after `before` entries has only n of its
// bytes, and that the next failure is recorded there.
func checkInterruptedWrite(t *testing.T, path string, old, written []byte, before, n int,
	fromEnd bool) {
	t.Helper()
	slots := newFaultFileBytes / faultlog.EntryBytes
	at := before % slots * faultlog.EntryBytes
	first, end := at, at+n
	if fromEnd {
		first, end = at+faultlog.EntryBytes-n, at+faultlog.EntryBytes
	}
	torn := make([]byte, newFaultFileBytes)
	copy(torn, old)
	copy(torn[at:], "LMFAULT1")
	copy(torn[first:end], written[first:end])
	// All others stay: the newest before, and the slots-1 before that.
	want := map[uint64]bool{}
	for number := max(1, before+2-slots); number <= before; number++ {
		want[uint64(number)] = true
	}
	isNew := bytes.Equal(torn[at:at+faultlog.EntryBytes], written[at:at+faultlog.EntryBytes])
	isOld := len(old) > 0 && bytes.Equal(torn[at:at+faultlog.EntryBytes],
		old[at:at+faultlog.EntryBytes]) && before >= slots
	if isNew {
		want[uint64(before+1)] = true
	}
	if isOld {
		want[uint64(before+1-slots)] = true
	}
	got := entriesIn(torn)
	for _, number := range got {
		if !want[number] {
			t.Fatalf("%d bytes of entry %d written: entry %d is complete, want only %v", n,
				before+1, number, want)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d bytes of entry %d written: complete entries %v, want %v", n, before+1, got,
			want)
	}
	if n%64 != 7 && n != faultlog.EntryBytes {
		return // the rest of this function is slow, so it runs only for some n
	}
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	recordFault(t, path)
	next := uint64(before + 1)
	if isNew {
		next++
	}
	data, _ := os.ReadFile(path)
	slot := int(next-1) % slots * faultlog.EntryBytes
	if e := entryAt(data[slot:]); !e.IsComplete() || e.EntryNumber != next {
		t.Fatalf("%d bytes of entry %d written: the next entry has number %d, complete %v; want "+
			"%d, true", n, before+1, e.EntryNumber, e.IsComplete(), next)
	}
}

// TestChangedEntryIsNotComplete changes each byte of a file with two entries.
func TestChangedEntryIsNotComplete(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults")
	recordFault(t, path)
	recordFault(t, path)
	data, _ := os.ReadFile(path)
	for at := range 2 * faultlog.EntryBytes {
		for _, change := range []byte{1, 0x80, 0xff} {
			slot := at / faultlog.EntryBytes
			copied := bytes.Clone(data)
			copied[at] ^= change
			changed := entryAt(copied[slot*faultlog.EntryBytes:])
			other := entryAt(copied[(1-slot)*faultlog.EntryBytes:])
			if changed.IsComplete() || !other.IsComplete() {
				t.Fatalf("byte %d changed by %#x: the changed entry is complete: %v, the other: "+
					"%v; want false, true", at, change, changed.IsComplete(), other.IsComplete())
			}
		}
	}
}

// TestFileCutShortKeepsItsEntries truncates a file to many sizes. The next failure must be recorded
// in it, and its complete entries must stay.
func TestFileCutShortKeepsItsEntries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults")
	for range 2 {
		recordFault(t, path)
	}
	data, _ := os.ReadFile(path)
	for size := 0; size <= 3*faultlog.EntryBytes; size += 7 {
		end := (size + faultlog.EntryBytes - 1) / faultlog.EntryBytes * faultlog.EntryBytes
		if part := size % faultlog.EntryBytes; part > 0 && part < 8 {
			continue // a part of a magic is other data
		}
		if missing := data[size:end]; len(missing) > 0 && len(bytes.Trim(missing, "\x00")) == 0 {
			continue // the missing bytes are 0, as in a file that ends earlier
		}
		if err := os.WriteFile(path, data[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		recordFault(t, path)
		complete := min(size/faultlog.EntryBytes, 2)
		cut, _ := os.ReadFile(path)
		if numbers := entriesIn(cut); len(numbers) != complete+1 ||
			numbers[complete] != uint64(complete+1) {
			t.Fatalf("truncated to %d bytes: complete entries %v, want %d", size, numbers,
				complete+1)
		}
	}
}

// TestLargeFileUsesOnlyItsFirstSlots has the newest entry in the last slot that is used.
func TestLargeFileUsesOnlyItsFirstSlots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults")
	recordFault(t, path)
	data, _ := os.ReadFile(path)
	large := make([]byte, (maxFaultSlots+2)*faultlog.EntryBytes)
	copy(large[(maxFaultSlots-1)*faultlog.EntryBytes:], data[:faultlog.EntryBytes])
	if err := os.WriteFile(path, large, 0o600); err != nil {
		t.Fatal(err)
	}
	recordFault(t, path)
	data, _ = os.ReadFile(path)
	if numbers := entriesIn(data); !slices.Equal(numbers, []uint64{2, 1}) {
		t.Errorf("entries %v in the order of the slots, want 2 in the first slot, then 1", numbers)
	}
}

// otherData returns files with data that lmrun -faults did not write, some of them in one slot.
func otherData(t *testing.T) map[string][]byte {
	t.Helper()
	gpt, partitions, last := make([]byte, 64<<10), make([]byte, 64<<10), make([]byte, 64<<10)
	copy(gpt[512:], "EFI PART")
	copy(partitions[446:], "\x00\x00\x00\x00\x83\x00\x00\x00\x00\x20")
	copy(partitions[510:], "\x55\xaa")
	last[len(last)-1] = 1
	tensor := bytes.Repeat([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x3f\x80\x12\x34"), 2048)
	for at := 0; at < len(tensor); at += faultlog.EntryBytes {
		clear(tensor[at : at+8])
	}
	path := filepath.Join(t.TempDir(), "faults")
	recordFault(t, path)
	entry, _ := os.ReadFile(path)
	shifted := append([]byte{0}, entry...)
	almost := bytes.Clone(entry)
	almost[0] = 'l'
	entry[3*faultlog.EntryBytes+100] = 1
	return map[string][]byte{"text": bytes.Repeat([]byte("a line\n"), 100), "gpt": gpt,
		"short text": []byte("a line\n"), "image": lmbtest.File(t, failingListing), "last": last,
		"partitions": partitions, "tensor": tensor, "entry and other data": entry,
		"shifted entry": shifted, "almost an entry": almost, "end": append(entry[:1024:1024], 0, 1)}
}

// TestFileThatHasOtherDataIsRejected also checks that the file does not change, unless
// -faults-format is given, after which all slots are empty.
func TestFileThatHasOtherDataIsRejected(t *testing.T) {
	dir, view := t.TempDir(), lmbtest.View(t, lmbtest.File(t, failingListing))
	for name, data := range otherData(t) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var r faultRecorder
		err := r.openFile(args.Options{FaultFile: path}, view)
		if hal.CodeOf(err) != hal.Usage || !strings.Contains(err.Error(), "-faults-format") {
			t.Errorf("openFile of %s: %v, want %v", name, err, hal.Usage)
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(now, data) {
			t.Errorf("openFile changed %s", name)
		}
		os.NewFile(uintptr(r.fd), path).Close()
		var formatting faultRecorder
		err = formatting.openFile(args.Options{FaultFile: path, FormatFaultFile: true}, view)
		now, _ := os.ReadFile(path)
		if err != nil || len(now) < max(len(data), newFaultFileBytes) ||
			len(bytes.Trim(now, "\x00")) != 0 || formatting.entry.EntryNumber != 1 {
			t.Errorf("openFile of %s with -faults-format: %v, entry number %d, %d bytes; want "+
				"zeros", name, err, formatting.entry.EntryNumber, len(now))
		}
		os.NewFile(uintptr(formatting.fd), path).Close()
	}
	for path, code := range map[string]hal.Code{dir: hal.IO, makeFIFO(t): hal.IO,
		dir + "/none/f": hal.NoFile} {
		var r faultRecorder
		if err := r.openFile(args.Options{FaultFile: path}, view); hal.CodeOf(err) != code {
			t.Errorf("openFile of %s: %v, want %v", path, err, code)
		}
	}
}

// TestFormatKeepsTheFileOfEarlierFailures gives -faults-format for a file with entries.
func TestFormatKeepsTheFileOfEarlierFailures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults")
	recordFault(t, path)
	before, _ := os.ReadFile(path)
	var r faultRecorder
	err := r.openFile(args.Options{FaultFile: path, FormatFaultFile: true},
		lmbtest.View(t, lmbtest.File(t, failingListing)))
	if now, _ := os.ReadFile(path); err != nil || !bytes.Equal(now, before) {
		t.Errorf("openFile: %v; the file changed: %v, want the same file", err,
			!bytes.Equal(now, before))
	}
	os.NewFile(uintptr(r.fd), path).Close()
}

// TestSuccessfulRunKeepsTheFaultFile runs an image with files of several sizes and modes. A file
// that does not exist gets the mode 0600.
func TestSuccessfulRunKeepsTheFaultFile(t *testing.T) {
	runner, dir := buildRunner(t, "backend_pci"), t.TempDir()
	image, path := filepath.Join(dir, "image.lmb"), filepath.Join(dir, "faults")
	if err := os.WriteFile(image, lmbtest.File(t, failingListing), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() {
		t.Helper()
		out, err := exec.Command(runner, "-device", "mock:edu", "-sequence", "good", "-faults",
			path, image).CombinedOutput()
		if err != nil {
			t.Errorf("lmrun: %v, %s", err, out)
		}
	}
	run()
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 ||
		info.Size() != newFaultFileBytes {
		t.Errorf("new file: %v, %v; want mode 0600 and %d bytes", info, err, newFaultFileBytes)
	}
	recordFault(t, path)
	full, _ := os.ReadFile(path)
	for _, size := range []int{8, 100, 512, 700, newFaultFileBytes - 1, newFaultFileBytes} {
		if err := errors.Join(os.WriteFile(path, full[:size], 0o600),
			os.Chmod(path, 0o640)); err != nil {
			t.Fatal(err)
		}
		run()
		now, err := os.ReadFile(path)
		info, _ := os.Stat(path)
		if err != nil || !bytes.Equal(now, full[:size]) || info.Mode() != 0o640 {
			t.Errorf("file of %d bytes: %d bytes, mode %v, %v; want no change", size, len(now),
				info.Mode(), err)
		}
	}
}

// TestReaderThatLocksTheFaultFileStopsNoReplay holds a lock as any user may who can read the file.
func TestReaderThatLocksTheFaultFileStopsNoReplay(t *testing.T) {
	dir, view := t.TempDir(), lmbtest.View(t, lmbtest.File(t, failingListing))
	path := filepath.Join(dir, "faults")
	recordFault(t, path)
	before, _ := os.ReadFile(path)
	reader, err := os.Open(path)
	if err == nil {
		err = unix.Flock(int(reader.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	recordFault(t, path) // no error, no record
	if now, _ := os.ReadFile(path); !bytes.Equal(now, before) {
		t.Error("the locked file changed")
	}
	var r faultRecorder
	err = r.openFile(args.Options{FaultFile: path, RequireFaultFile: true}, view)
	if hal.CodeOf(err) != hal.IO || !strings.Contains(err.Error(), "locked by another process") {
		t.Errorf("openFile of a locked file with -faults-required: %v, want %v", err, hal.IO)
	}
	runner, image := buildRunner(t, "backend_pci"), filepath.Join(dir, "image.lmb")
	if err := os.WriteFile(image, lmbtest.File(t, failingListing), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, exit := range map[string]int{"-seal": 76, "-faults-required": 74} {
		c := exec.Command(runner, "-device", "mock:edu", "-faults", path, flag, image)
		out, _ := c.CombinedOutput()
		if c.ProcessState.ExitCode() != exit ||
			strings.Contains(string(out), "this replay records no failure") != (exit == 76) {
			t.Errorf("lmrun %s: %v, %s; want exit status %d", flag, c.ProcessState, out, exit)
		}
	}
}

// TestTerminalLineGetsTheBytesOfAnEntry records failures of a sealed lmrun on a pseudoterminal,
// whose other end must receive each byte as it is.
func TestTerminalLineGetsTheBytesOfAnEntry(t *testing.T) {
	runner, image := buildRunner(t, "backend_pci"), filepath.Join(t.TempDir(), "image.lmb")
	if err := os.WriteFile(image, lmbtest.File(t, failingListing), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudoterminals: %v", err)
	}
	defer other.Close()
	number, err := unix.IoctlGetInt(int(other.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(other.Fd()), unix.TIOCSPTLCK, 0)
	}
	path := fmt.Sprintf("/dev/pts/%d", number)
	line, openErr := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0) // keeps the line open
	if err = errors.Join(err, openErr); err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	for range 3 {
		c := exec.Command(runner, "-seal", "-device", "mock:edu", "-faults", path, image)
		if out, _ := c.CombinedOutput(); c.ProcessState.ExitCode() != 76 {
			t.Fatalf("lmrun: %v, %s; want exit status 76", c.ProcessState, out)
		}
		data := make([]byte, faultlog.EntryBytes)
		_, err := io.ReadFull(other, data)
		if e := entryAt(data); err != nil || !e.IsComplete() || e.EntryNumber != 0 ||
			e.Result.Got != 0x010000ed {
			t.Errorf("the line got %q, %v; want an entry with the number 0", data, err)
		}
	}
}

// TestDeviceWithoutASizeGetsAnEntryWithoutANumber uses /dev/null, which has no size, like
// /dev/pmsg0.
func TestDeviceWithoutASizeGetsAnEntryWithoutANumber(t *testing.T) {
	var r faultRecorder
	view := lmbtest.View(t, lmbtest.File(t, failingListing))
	err := r.openFile(args.Options{FaultFile: "/dev/null"}, view)
	if err != nil || r.entry.EntryNumber != 0 {
		t.Errorf("openFile of /dev/null: entry number %d, %v; want 0", r.entry.EntryNumber, err)
	}
}

// fakeConfigSpace is configuration space with a chain of extended capabilities.
type fakeConfigSpace map[uint64]uint32

func (r fakeConfigSpace) Load(offset uint64, width uint8) (uint64, hal.Code) {
	value, ok := r[offset]
	if !ok || width != 4 {
		return 0, hal.Denied
	}
	return uint64(value), hal.OK
}

func (fakeConfigSpace) Store(uint64, uint8, uint64) hal.Code { return hal.Denied }

func TestAdvancedErrorReportingIsFoundAfterOtherCapabilities(t *testing.T) {
	for _, test := range []struct {
		registers fakeConfigSpace
		at        uint64
	}{
		{fakeConfigSpace{0x100: 0x1401_0002, 0x140: 0x1c02_0001}, 0x140},
		{fakeConfigSpace{0x100: 0x0002_0001}, 0x100},
		{fakeConfigSpace{0x100: 0x1401_0002, 0x140: 0x0002_0003}, 0}, // without the capability
		{fakeConfigSpace{0x100: 0x1401_0002, 0x140: 0x1001_0003}, 0}, // a circular list
		{fakeConfigSpace{0x100: 0x1401_0002}, 0},                     // the next is not readable
		{fakeConfigSpace{0x100: 0xffff_ffff, 0xfff: 0xffff_ffff}, 0}, // the device is gone
		{fakeConfigSpace{}, 0},
	} {
		if at := findAER(test.registers); at != test.at {
			t.Errorf("findAER(%#x): offset %#x, want %#x", test.registers, at, test.at)
		}
	}
}

// TestErrorRegistersOfTheFailedDeviceAreRecorded has two devices. The failed device is that of the
// failed command, or the first if no command has failed.
func TestErrorRegistersOfTheFailedDeviceAreRecorded(t *testing.T) {
	space := fakeConfigSpace{0: 0x401e1e52, 4: 0x20100406, 0x100: 0x0002_0001}
	for i := range uint32(10) {
		space[0x104+4*uint64(i)] = 0x1000 + i
	}
	view := lmbtest.View(t, lmbtest.File(t, `lightmetal 1
device edu 1234:11e8 bar0 1MiB
device edu 1234:11e8 bar0 1MiB
window first  bar0 offset 0x0 size 1MiB device 0
window second bar0 offset 0x0 size 1MiB device 1
main:
  expect.4 first+0x0 == 0x1
  expect.4 second+0x0 == 0x1
`))
	devices := []hal.Device{mock.New(&boards.Edu), mock.New(&boards.Edu)}
	for _, test := range []struct {
		result runtime.Result
		device int
	}{
		{runtime.Result{Code: hal.ExpectFailed, Command: 1}, 1},
		{runtime.Result{Code: hal.ExpectFailed, Command: 0}, 0},
		{runtime.Result{Code: hal.IO, Command: -1}, 0}, {runtime.Result{}, 0},
	} {
		r := faultRecorder{path: "faults", configSpaces: make([]hal.Port, 2)}
		r.configSpaces[test.device] = space
		r.readErrorRegisters(devices, view, &outcome{err: hal.IO, result: test.result})
		e := &r.entry
		want := [11]uint32{0x0002_0001, 0x1000, 0x1001, 0x1002, 0x1003, 0x1004, 0x1005, 0x1006,
			0x1007, 0x1008, 0x1009}
		if e.ConfigRegisters != [2]uint32{0x401e1e52, 0x20100406} || e.AERRegisters != want ||
			!strings.HasPrefix(string(e.DeviceAddress[:]),
				devices[test.device].Identity().Address) {
			t.Errorf("result %+v: entry %+v; want the registers of device %d", test.result, e,
				test.device)
		}
	}
}

// TestRecordAllocatesNothing does not count the allocations of the recorded error.
func TestRecordAllocatesNothing(t *testing.T) {
	var r faultRecorder
	path := filepath.Join(t.TempDir(), "faults")
	view := lmbtest.View(t, lmbtest.File(t, failingListing))
	if err := r.openFile(args.Options{FaultFile: path}, view); err != nil {
		t.Fatal(err)
	}
	end := &outcome{err: hal.NewFault(hal.ExpectFailed, "main, command 1"),
		result: runtime.Result{Code: hal.ExpectFailed, Command: 1}}
	if n := testing.AllocsPerRun(20, func() { r.recordFailure(end) }); n != 0 {
		t.Errorf("recordFailure makes %v allocations, want none", n)
	}
}
