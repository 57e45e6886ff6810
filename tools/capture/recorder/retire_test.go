//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// buffer is n bytes of memory that a device may reach, with a first word.
func buffer(n int, first uint64) []byte {
	data := make([]byte, n)
	binary.BigEndian.PutUint64(data, first)
	return data
}

// TestMemoryOfAProcessThatEndedIsReachedNoMore: it does not count, and who comes
// to its bus addresses finds what the record says is there.
func TestMemoryOfAProcessThatEndedIsReachedNoMore(t *testing.T) {
	for name, end := range map[string]func(*recording, *thread){
		"ends":                 func(r *recording, of *thread) { r.handleThreadEnd(of, 0) },
		"runs another program": func(r *recording, of *thread) { r.handleExec(of, of.tid) },
	} {
		t.Run(name, func(t *testing.T) {
			r, first, text := inside(t, Options{HostMemoryLimit: 3 * pageSize,
				IgnoreTracking: true})
			second := another()
			r.addDMARange(first, address(buffer(2*pageSize, 0x11)), 2*pageSize, 0x10000)
			end(r, first)
			b := buffer(2*pageSize, 0)
			r.addDMARange(second, address(b), 2*pageSize, 0x10000)
			b[8] = 0x22
			r.recordChanges(byProgram)
			const want = "LMRECORD 2\nMEM 10000 2000\nHR 10000 8 0000000000000011\n" +
				"MEM 10000 2000\nHR 10000 8 0000000000000000\nHR 10008 8 2200000000000000\n"
			if got := text(); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// TestMemoryThatIsMappedAnewTakesThePlaceOfWhatWasThere: a container that is
// closed unmaps without a word.
func TestMemoryThatIsMappedAnewTakesThePlaceOfWhatWasThere(t *testing.T) {
	r, self, text := inside(t, Options{HostMemoryLimit: 3 * pageSize, IgnoreTracking: true})
	old, anew := buffer(2*pageSize, 0x11), buffer(2*pageSize, 0x11)
	r.addDMARange(self, address(old), 2*pageSize, 0x10000)
	r.addDMARange(self, address(anew), 2*pageSize, 0x10000)
	old[9], anew[8] = 0x33, 0x22
	r.recordChanges(byProgram)
	const want = "LMRECORD 2\nMEM 10000 2000\nHR 10000 8 0000000000000011\nMEM 10000 2000\n" +
		"HR 10008 8 2200000000000000\n"
	if got := text(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestPartThatGetsOtherMemoryEndsTheWholeAndIsSaid.
func TestPartThatGetsOtherMemoryEndsTheWholeAndIsSaid(t *testing.T) {
	r, self, text := inside(t, Options{HostMemoryLimit: 4 * pageSize, IgnoreTracking: true})
	r.addDMARange(self, address(buffer(2*pageSize, 0)), 2*pageSize, 0x10000)
	r.addDMARange(self, address(buffer(pageSize, 0)), pageSize, 0x11000)
	if got := text(); !strings.Contains(got,
		"EVENT host memory at bus address 0x10000 (8192 bytes) is no longer recorded") {
		t.Error(got)
	}
}

// TestCopiesOfFormerMemoryAreBounded: what is forgotten of them is told whole
// when it is reached again, zeros too, and the record says so.
func TestCopiesOfFormerMemoryAreBounded(t *testing.T) {
	r, self, text := inside(t, Options{HostMemoryLimit: 2 * pageSize, IgnoreTracking: true})
	for i := range uint64(4) {
		r.addDMARange(self, address(buffer(pageSize, 0x11)), pageSize, 0x10000+i*pageSize)
		r.removeDMARanges(self, 0x10000+i*pageSize, pageSize)
		if total := sizes(r.hostMemory.ranges) +
			sizes(r.hostMemory.retired); total > r.options.HostMemoryLimit {
			t.Errorf("%d bytes are kept", total)
		}
	}
	r.addDMARange(self, address(buffer(pageSize, 0)), pageSize, 0x10000)
	if len(r.hostMemory.discarded) != 2 { // 11000 before, 12000 now; 10000 is known again
		t.Errorf("forgotten: %x", r.hostMemory.discarded)
	}
	got := text()
	if !strings.Contains(got,
		"NOTE no device reaches host memory at bus address 0x10000, 4096 bytes") ||
		!strings.HasSuffix(got, "MEM 10000 1000\nHR 10000 4096 "+strings.Repeat("0",
			2*pageSize)+"\n") {
		t.Errorf("%.900s", got)
	}
}

func sizes(list []*dmaRange) (total uint64) {
	for _, m := range list {
		total += m.size()
	}
	return total
}

// TestWhatIsStoredToWatchedMemoryIsToldWhereItIsUnmapped, on a kernel that does
// not tell who writes: mapped again at once, it is as the record has it.
func TestWhatIsStoredToWatchedMemoryIsToldWhereItIsUnmapped(t *testing.T) {
	r, self, text := inside(t, Options{HostMemoryLimit: pageSize, IgnoreTracking: true})
	b := buffer(pageSize, 0)
	r.addDMARange(self, address(b), pageSize, 0x10000)
	a := area{start: address(b), end: address(b) + pageSize, prot: unix.PROT_READ | unix.PROT_WRITE,
		watched: r.hostMemory.ranges[0]}
	if err := (&memory{r, self}).storeWatched(&a, address(b)+8, []byte{0x22}); err != nil {
		t.Fatal(err)
	}
	r.recordBeforeUnmap(self, nil)
	r.removeDMARanges(self, 0x10000, pageSize)
	r.addDMARange(self, address(b), pageSize, 0x10000)
	r.recordChanges(byProgram)
	const want = "LMRECORD 2\nMEM 10000 1000\nHR 10008 8 2200000000000000\nMEM 10000 1000\n"
	if got := text(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// sharedMemory returns memory of two pages, and its file.
func sharedMemory(t *testing.T) (fd int, b []byte) {
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

// shared is sharedMemory that the kernel lets this process open by the mapping. Where
// it does not for any mapping, the test cannot run.
func shared(t *testing.T) (fd int, b []byte) {
	t.Helper()
	fd, b = sharedMemory(t)
	file, err := os.Open(fmt.Sprintf("/proc/self/map_files/%x-%x", address(b),
		address(b)+2*pageSize))
	if err != nil {
		t.Skipf("needs CAP_CHECKPOINT_RESTORE: %v", err)
	}
	file.Close()
	return fd, b
}

// TestMemoryThatIsTooMuchIsMappedNoMore: nothing is followed then, and what was
// mapped in the recorder goes.
func TestMemoryThatIsTooMuchIsMappedNoMore(t *testing.T) {
	_, b := shared(t)
	r, self, _ := inside(t, Options{HostMemoryLimit: 2 * pageSize, IgnoreTracking: true})
	m := r.addDMARange(self, address(b), 2*pageSize, 0x10000)
	r.recordChanges(byProgram)
	v := m.mirror
	r.addDMARange(self, address(buffer(pageSize, 0)), pageSize, 0x20000)
	if !r.hostMemory.overLimit || v == nil || v.uses != 0 || m.mirror != nil {
		t.Errorf("over %v, the mapping %+v is still there", r.hostMemory.overLimit, v)
	}
}

// TestSharedMemoryIsLookedAtWhereItIs: it is not copied before each store to the
// device. A file that is cut meanwhile does not end the recording, and what is not
// the program's any more is not told.
func TestSharedMemoryIsLookedAtWhereItIs(t *testing.T) {
	fd, b := shared(t)
	r, self, text := inside(t, Options{HostMemoryLimit: 2 * pageSize, IgnoreTracking: true})
	r.addDMARange(self, address(b), 2*pageSize, 0x10000)
	b[pageSize+8], r.hostMemory.readBuffer = 0x22, nil
	r.recordChanges(byProgram)
	v := r.hostMemory.ranges[0].mirror
	if v == nil {
		t.Fatal("it is not mapped here too")
	}
	if r.hostMemory.readBuffer != nil {
		t.Error("it is copied")
	}
	if err := unix.Ftruncate(fd, pageSize); err != nil {
		t.Fatal(err)
	}
	r.recordChanges(byProgram)
	if r.removeDMARanges(self, 0x10000, 2*pageSize); v.uses != 0 {
		t.Errorf("%d uses of the mapping are left", v.uses)
	}
	const want = "LMRECORD 2\nMEM 10000 2000\nHR 11008 8 2200000000000000\n"
	if got := text(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
