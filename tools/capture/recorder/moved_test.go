//go:build linux && (amd64 || arm64)

package recorder

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newTestRecording returns a recording in which the test acts as the program: the test calls the
// methods that the recorder calls when a program stops. text ends the recording, and returns the
// record without times and END.
func newTestRecording(t *testing.T, o Options) (r *recording, self *thread, text func() string) {
	t.Helper()
	var out bytes.Buffer
	self = newTestThread()
	r = &recording{options: &o, out: newWriter(&out, 0), threads: map[int]*thread{self.tid: self},
		unmappedDevices: map[string]*unmappedDevice{},
		eventSources:    map[uint64]*interruptSource{}}
	r.hostMemory.reportedUntracked = true
	return r, self, func() string {
		if err := r.out.close(); err != nil {
			t.Fatal(err)
		}
		zip, err := gzip.NewReader(&out)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(zip)
		if err != nil {
			t.Fatal(err)
		}
		lines := slices.DeleteFunc(strings.Split(string(data), "\n"),
			func(line string) bool {
				return strings.HasPrefix(line, "CLK ") ||
					strings.HasPrefix(line, "END ")
			})
		return strings.Join(lines, "\n")
	}
}

// newHostRecording is newTestRecording with a limit of pages of host memory, on a kernel that does
// not report which pages a program writes.
func newHostRecording(t *testing.T, pages uint64) (r *recording, self *thread,
	text func() string) {
	t.Helper()
	return newTestRecording(t, Options{HostMemoryLimit: pages * pageSize, IgnoreTracking: true})
}

func compareRecord(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("record\n%swant\n%s", got, want)
	}
}

func mapPages(t *testing.T, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n*pageSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.MunmapPtr(unsafe.Pointer(&b[0]), uintptr(len(b))) })
	return b
}

// newTestThread returns a thread of another process, whose memory is that of the test.
func newTestThread() *thread {
	return &thread{tid: os.Getpid(), process: os.Getpid(), space: &space{threadCount: 1}}
}

// keptAlive refers to the memory of addressOf. This keeps it on the heap, where it does not move.
var keptAlive [][]byte

func addressOf(data []byte) uint64 {
	keptAlive = append(keptAlive, data)
	return uint64(uintptr(unsafe.Pointer(&data[0])))
}

// createSysfsDirectory creates a directory like that of a device in sysfs, with BARs 0 and 2 of
// 1 MiB.
func createSysfsDirectory(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "0000:03:00.0")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"vendor": "0x1234\n", "device": "0x11e8\n",
		"resource": "0x10000000 0x100fffff 0x40200\n0 0 0\n" +
			"0x8000000000 0x80000fffff 0x14220c\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestLongAccessBySystemCallIsComplete records a long store from one buffer and from two buffers.
func TestLongAccessBySystemCallIsComplete(t *testing.T) {
	data := make([]byte, 128<<10+20)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	const cut = 100<<10 + 4
	var list []byte // elements of struct iovec
	for _, part := range [][]byte{data[:cut], data[cut:]} {
		list = binary.NativeEndian.AppendUint64(list, addressOf(part))
		list = binary.NativeEndian.AppendUint64(list, uint64(len(part)))
	}
	for _, c := range []call{
		{number: unix.SYS_PWRITE64, arguments: [6]uint64{3, addressOf(data), uint64(len(data))},
			transfer: &fileTransfer{file: "vfio", isStore: true, offset: 2<<vfioShift | 0x100}},
		{number: unix.SYS_PWRITEV, arguments: [6]uint64{3, addressOf(list), 2},
			transfer: &fileTransfer{file: "resource2", isStore: true, offset: 0x100}},
	} {
		r, self, text := newTestRecording(t, Options{})
		c.transfer.dir = createSysfsDirectory(t)
		r.exitTransfer(self, &c, uint64(len(data)))
		var got []byte
		for line := range strings.Lines(text()) {
			var at, size int
			var bytes []byte
			if n, _ := fmt.Sscanf(line, "W 0 %x %d %x", &at, &size, &bytes); n != 3 {
				continue
			}
			if at != 0x100+len(got) || size != len(bytes) {
				t.Fatalf("after %d bytes, the record goes on with %s", len(got), line)
			}
			got = append(got, bytes...)
		}
		if !bytes.Equal(got, data) || r.result.Gaps != 0 {
			t.Errorf("%s: the record has %d bytes and %d gaps, want the %d stored bytes and no gap",
				c.transfer.file, len(got), r.result.Gaps, len(data))
		}
	}
}

// TestAccessWhoseDataCannotBeReadIsAGap: the second page of the buffer cannot be read.
func TestAccessWhoseDataCannotBeReadIsAGap(t *testing.T) {
	memory := mapPages(t, 2)
	if err := unix.Mprotect(memory[pageSize:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	r, self, text := newTestRecording(t, Options{})
	m := &fileTransfer{device: "0000:03:00.0", dir: createSysfsDirectory(t), file: "resource2",
		isStore: true}
	r.exitTransfer(self, &call{number: unix.SYS_PWRITE64,
		arguments: [6]uint64{3, addressOf(memory), 2 * pageSize}, transfer: m}, 2*pageSize)
	if got := text(); r.result.Gaps != 1 ||
		!strings.Contains(got, "transferred 8192 bytes by a system call") {
		t.Errorf("%d gaps, want 1 of 8192 bytes; record\n%.300s", r.result.Gaps, got)
	}
}

// TestStoreBySystemCallIsRecordedAfterHostMemory: a store may start DMA, so changes of host memory
// come before it. This includes stores to an I/O BAR and to the bit that enables bus mastering.
func TestStoreBySystemCallIsRecordedAfterHostMemory(t *testing.T) {
	for _, m := range []fileTransfer{{file: "resource2"}, {file: "config", offset: 4},
		{file: "vfio", offset: 7<<vfioShift | 4}, {file: "vfio", offset: 2 << vfioShift}} {
		r, self, text := newHostRecording(t, 1)
		memory := make([]byte, 16)
		r.addDMARange(self, addressOf(memory), 16, 0x1000)
		m.isStore, m.dir, m.device = true, createSysfsDirectory(t), "0000:03:00.0"
		if _, err := r.pciTarget(m.dir, 2, 0); err != nil {
			t.Fatal(err)
		}
		memory[8] = 0xab
		r.recordBeforeTransfer(&m)
		r.exitTransfer(self, &call{number: unix.SYS_PWRITE64,
			arguments: [6]uint64{3, addressOf(memory), 2}, transfer: &m}, 2)
		got := text()
		host, store := strings.Index(got, "HR 1008 8 ab00000000000000"),
			strings.Index(got, " 2 0000\n")
		if host < 0 || store < host {
			t.Errorf("%s: the store is not after the host memory in the record:\n%s", m.file, got)
		}
	}
}

// TestConfigurationBeforeABarIsCompleteOrAGap: accesses to configuration space before the device
// has a line in the record are kept in a buffer of 1 MiB. Further ones are a gap.
func TestConfigurationBeforeABarIsCompleteOrAGap(t *testing.T) {
	for lost, bytes := range map[int]int{0: 1000, 2: 512 << 10} {
		r, _, text := newTestRecording(t, Options{})
		m := &fileTransfer{device: "0000:03:00.0", dir: createSysfsDirectory(t), file: "config",
			isStore: true}
		for range 3 {
			r.recordConfigAccess(m, 4, make([]byte, bytes))
		}
		if _, err := r.pciTarget(m.dir, 2, 0); err != nil {
			t.Fatal(err)
		}
		got := text()
		reported := strings.Contains(got,
			fmt.Sprintf("GAP %d accesses to configuration space of device 0000:03:00.0", lost))
		if n := strings.Count(got, "\nCW 0 4 "); n != 3-lost || reported != (lost > 0) ||
			r.result.Gaps != min(lost, 1) {
			t.Errorf("the record has %d accesses and %d gaps, gap reported: %v; want %d accesses, "+
				"%d gaps", n, r.result.Gaps, reported, 3-lost, min(lost, 1))
		}
	}
}
