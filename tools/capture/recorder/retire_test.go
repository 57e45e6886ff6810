//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"lightmetal/tools/capture/record"

	"golang.org/x/sys/unix"
)

// buffer returns n bytes of zeros after the big-endian word first.
func buffer(n int, first uint64) []byte {
	data := make([]byte, n)
	binary.BigEndian.PutUint64(data, first)
	return data
}

// TestMemoryOfAnEndedProcessIsRetired: the memory of an ended process does not count for the limit.
// New memory at its bus addresses is compared with the data that the record has there.
func TestMemoryOfAnEndedProcessIsRetired(t *testing.T) {
	for name, end := range map[string]func(*recording, *thread){
		"ends":                 func(r *recording, of *thread) { r.handleThreadEnd(of, 0) },
		"runs another program": func(r *recording, of *thread) { r.handleExec(of, of.tid) },
	} {
		t.Run(name, func(t *testing.T) {
			r, first, text := newHostRecording(t, 3)
			second := newTestThread()
			r.addDMARange(first, addressOf(buffer(2*pageSize, 0x11)), 2*pageSize, 0x10000)
			end(r, first)
			b := buffer(2*pageSize, 0)
			r.addDMARange(second, addressOf(b), 2*pageSize, 0x10000)
			b[8] = 0x22
			r.recordChanges(byProgram)
			const want = "LMRECORD 2\nMEM 10000 2000\nHR 10000 8 0000000000000011\n" +
				"MEM 10000 2000\nHR 10000 8 0000000000000000\nHR 10008 8 2200000000000000\n"
			compareRecord(t, text(), want)
		})
	}
}

// TestNewMappingReplacesTheOldOne: closing a VFIO container removes mappings without a system call
// for each, so that a new mapping may be at the bus addresses of an old one.
func TestNewMappingReplacesTheOldOne(t *testing.T) {
	r, self, text := newHostRecording(t, 3)
	before, after := buffer(2*pageSize, 0x11), buffer(2*pageSize, 0x11)
	r.addDMARange(self, addressOf(before), 2*pageSize, 0x10000)
	r.addDMARange(self, addressOf(after), 2*pageSize, 0x10000)
	before[9], after[8] = 0x33, 0x22
	r.recordChanges(byProgram)
	const want = "LMRECORD 2\nMEM 10000 2000\nHR 10000 8 0000000000000011\nMEM 10000 2000\n" +
		"HR 10008 8 2200000000000000\n"
	compareRecord(t, text(), want)
}

func TestOtherMemoryInPartOfARangeEndsTheRange(t *testing.T) {
	r, self, text := newHostRecording(t, 4)
	r.addDMARange(self, addressOf(buffer(2*pageSize, 0)), 2*pageSize, 0x10000)
	r.addDMARange(self, addressOf(buffer(pageSize, 0)), pageSize, 0x11000)
	if got := text(); !strings.Contains(got,
		"EVENT host memory at bus address 0x10000 (8192 bytes) is no longer recorded") {
		t.Errorf("the record does not report the end of the range:\n%s", got)
	}
}

// TestPartOfARetiredMappingIsReachedAgain: the record has the data of both parts of the mapping
// already, and the part that no device reaches stays retired.
func TestPartOfARetiredMappingIsReachedAgain(t *testing.T) {
	r, self, text := newHostRecording(t, 4)
	b := buffer(2*pageSize, 0x11)
	b[pageSize] = 0x22
	r.addDMARange(self, addressOf(b), 2*pageSize, 0x10000)
	r.removeDMARanges(self, 0x10000, 2*pageSize)
	r.addDMARange(self, addressOf(b)+pageSize, pageSize, 0x11000)
	if n := r.hostMemory.retiredBytes; n != pageSize {
		t.Errorf("%d retired bytes, want %d", n, pageSize)
	}
	r.removeDMARanges(self, 0x11000, pageSize)
	r.addDMARange(self, addressOf(b), 2*pageSize, 0x10000)
	const want = "LMRECORD 2\nMEM 10000 2000\nHR 10000 8 0000000000000011\n" +
		"HR 11000 8 2200000000000000\nMEM 11000 1000\nMEM 10000 2000\n"
	compareRecord(t, text(), want)
	if len(r.hostMemory.retired) != 0 || r.hostMemory.retiredBytes != 0 {
		t.Errorf("%d retired ranges of %d bytes, want none", len(r.hostMemory.retired),
			r.hostMemory.retiredBytes)
	}
}

// TestCopiesOfRetiredMemoryAreLimited: the recorder discards the oldest copies, and the record says
// so. If a device reaches such memory again, the record has all its data, including zeros.
func TestCopiesOfRetiredMemoryAreLimited(t *testing.T) {
	r, self, text := newHostRecording(t, 2)
	for i := range uint64(4) {
		r.addDMARange(self, addressOf(buffer(pageSize, 0x11)), pageSize, 0x10000+i*pageSize)
		r.removeDMARanges(self, 0x10000+i*pageSize, pageSize)
		if total := totalSize(r.hostMemory.ranges) +
			totalSize(r.hostMemory.retired); total > r.options.HostMemoryLimit {
			t.Errorf("the recorder keeps copies of %d bytes, limit %d", total,
				r.options.HostMemoryLimit)
		}
	}
	r.addDMARange(self, addressOf(buffer(pageSize, 0)), pageSize, 0x10000)
	for i, want := range []record.State{record.Equal, record.Unknown, record.Unknown,
		record.Equal} { // the data of 10000 are known again
		bus := 0x10000 + uint64(i)*pageSize
		for got := range r.hostMemory.pages.Runs(bus, make([]byte, 1)) {
			if got.State != want {
				t.Errorf("contents at %x: state %d, want %d", bus, got.State, want)
			}
		}
	}
	got := text()
	if !strings.Contains(got,
		"NOTE no device reaches host memory at bus address 0x10000, 4096 bytes") ||
		!strings.HasSuffix(got, "MEM 10000 1000\nHR 10000 4096 "+strings.Repeat("0",
			2*pageSize)+"\n") {
		t.Errorf("the record lacks the discarded range, or all data of the new one:\n%.900s", got)
	}
}

func totalSize(list []*dmaRange) (total uint64) {
	for _, m := range list {
		total += m.size
	}
	return total
}

// TestStoresToWatchedMemoryAreRecordedBeforeUnmapping, on a kernel that does not report writes: if
// the memory is mapped again, the record already has its data.
func TestStoresToWatchedMemoryAreRecordedBeforeUnmapping(t *testing.T) {
	r, self, text := newHostRecording(t, 1)
	b := buffer(pageSize, 0)
	r.addDMARange(self, addressOf(b), pageSize, 0x10000)
	a := area{start: addressOf(b), end: addressOf(b) + pageSize,
		prot: unix.PROT_READ | unix.PROT_WRITE, watched: r.hostMemory.ranges[0]}
	if err := (&memory{r, self}).storeWatched(&a, addressOf(b)+8, []byte{0x22}); err != nil {
		t.Fatal(err)
	}
	r.recordBeforeUnmap(self, nil)
	r.removeDMARanges(self, 0x10000, pageSize)
	r.addDMARange(self, addressOf(b), pageSize, 0x10000)
	r.recordChanges(byProgram)
	const want = "LMRECORD 2\nMEM 10000 1000\nHR 10008 8 2200000000000000\nMEM 10000 1000\n"
	compareRecord(t, text(), want)
}

// mapSharedMemory maps a new file of two pages, and returns the file and the memory.
func mapSharedMemory(t *testing.T) (fd int, b []byte) {
	t.Helper()
	fd, err := unix.MemfdCreate("shared", unix.MFD_CLOEXEC)
	if err != nil || unix.Ftruncate(fd, 2*pageSize) != nil {
		t.Fatal(err)
	}
	if b, err = unix.Mmap(fd, 0, 2*pageSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd, b
}

// mapOpenableMemory does the same as mapSharedMemory. It skips the test if the kernel does not let
// this process open the file of a mapping.
func mapOpenableMemory(t *testing.T) (fd int, b []byte) {
	t.Helper()
	fd, b = mapSharedMemory(t)
	file, err := os.Open(fmt.Sprintf("/proc/self/map_files/%x-%x", addressOf(b),
		addressOf(b)+2*pageSize))
	if err != nil {
		t.Skipf("needs CAP_CHECKPOINT_RESTORE: %v", err)
	}
	file.Close()
	return fd, b
}

// TestMappingOverTheLimitCostsOnlyItself: other memory is still recorded, and so is a mapping that
// fits after others have ended.
func TestMappingOverTheLimitCostsOnlyItself(t *testing.T) {
	r, self, text := newHostRecording(t, 2)
	first, second := buffer(pageSize, 0), buffer(2*pageSize, 0)
	r.addDMARange(self, addressOf(first), pageSize, 0x10000)
	r.addDMARange(self, addressOf(second), 2*pageSize, 0x20000)
	first[8], second[8] = 0x22, 0x33
	r.recordChanges(byProgram)
	r.removeDMARanges(self, 0x20000, 2*pageSize)
	r.removeDMARanges(self, 0x10000, pageSize)
	r.addDMARange(self, addressOf(second), 2*pageSize, 0x20000)
	got := text()
	before, after, found := strings.Cut(got, "EVENT host memory at bus address 0x20000 "+
		"(8192 bytes) is not recorded: with it, devices reach 12288 bytes of host memory at once;")
	_, after, _ = strings.Cut(after, "\n")
	if !found || before != "LMRECORD 2\nMEM 10000 1000\n" ||
		!strings.HasPrefix(after, "HR 10008 8 2200000000000000\n") ||
		!strings.HasSuffix(after, "\nMEM 20000 2000\nHR 20008 8 3300000000000000\n") {
		t.Errorf("the record lacks the event, or memory beside the mapping:\n%s", got)
	}
}

// TestManyMappingsOverTheLimitAreEightEvents: the others are only noted.
func TestManyMappingsOverTheLimitAreEightEvents(t *testing.T) {
	r, self, text := newHostRecording(t, 1)
	for i := range uint64(20) {
		r.addDMARange(self, addressOf(buffer(2*pageSize, 0)), 2*pageSize, 0x20000*(i+1))
	}
	got := text()
	if events, notes := strings.Count(got, "EVENT "), strings.Count(got, "NOTE "); events != 8 ||
		notes != 12 || !strings.Contains(got, "only noted") {
		t.Errorf("%d events and %d notes, want 8 and 12:\n%s", events, notes, got)
	}
}

// TestSharedMemoryIsComparedInPlace: shared memory is not copied before each store to the device.
// If its file is truncated, the recording continues, and memory that is gone is not recorded.
func TestSharedMemoryIsComparedInPlace(t *testing.T) {
	fd, b := mapOpenableMemory(t)
	r, self, text := newHostRecording(t, 2)
	r.addDMARange(self, addressOf(b), 2*pageSize, 0x10000)
	b[pageSize+8], r.hostMemory.readBuffer = 0x22, nil
	r.recordChanges(byProgram)
	v := r.hostMemory.ranges[0].mirror
	if v == nil {
		t.Fatal("the shared memory is not mapped in the recorder")
	}
	if r.hostMemory.readBuffer != nil {
		t.Error("the recorder copied the shared memory")
	}
	if err := unix.Ftruncate(fd, pageSize); err != nil {
		t.Fatal(err)
	}
	r.recordChanges(byProgram)
	if r.removeDMARanges(self, 0x10000, 2*pageSize); v.uses != 0 {
		t.Errorf("after removing the range, the mapping has %d uses, want 0", v.uses)
	}
	const want = "LMRECORD 2\nMEM 10000 2000\nHR 11008 8 2200000000000000\n"
	compareRecord(t, text(), want)
}
