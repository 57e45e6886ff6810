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

// inside is a recording in which the test is the program: the recorder's parts
// are called as its stops call them. text ends it, and gives the record without
// times and END.
func inside(t *testing.T, o Options) (r *recording, self *thread, text func() string) {
	t.Helper()
	var out bytes.Buffer
	self = another()
	r = &recording{options: &o, out: newWriter(&out, 0), threads: map[int]*thread{self.tid: self},
		unmappedDevices: map[string]*unmappedDevice{}}
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

// another is a process with the memory of the test's.
func another() *thread {
	return &thread{tid: os.Getpid(), process: os.Getpid(), space: &space{threadCount: 1}}
}

var kept [][]byte // which addresses are of: on the heap, where nothing moves

func address(data []byte) uint64 {
	kept = append(kept, data)
	return uint64(uintptr(unsafe.Pointer(&data[0])))
}

// functionFolder is a device's, with a BAR 2 of 1 MiB.
func functionFolder(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "0000:03:00.0")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"vendor": "0x1234\n", "device": "0x11e8\n",
		"resource": "0 0 0\n0 0 0\n0x10000000 0x100fffff 0x40200\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestLongAccessBySystemCallIsWhole, from one buffer and from several.
func TestLongAccessBySystemCallIsWhole(t *testing.T) {
	data := make([]byte, 128<<10+20)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	const cut = 100<<10 + 4
	var list []byte // of struct iovec
	for _, part := range [][]byte{data[:cut], data[cut:]} {
		list = binary.NativeEndian.AppendUint64(list, address(part))
		list = binary.NativeEndian.AppendUint64(list, uint64(len(part)))
	}
	for _, c := range []call{
		{number: unix.SYS_PWRITE64, arguments: [6]uint64{3, address(data), uint64(len(data))},
			transfer: &fileTransfer{file: "vfio", isStore: true, offset: 2<<vfioShift | 0x100}},
		{number: unix.SYS_PWRITEV, arguments: [6]uint64{3, address(list), 2},
			transfer: &fileTransfer{file: "resource2", isStore: true, offset: 0x100}},
	} {
		r, self, text := inside(t, Options{})
		c.transfer.dir = functionFolder(t)
		r.exitTransfer(self, &c, uint64(len(data)))
		var got []byte
		for line := range strings.Lines(text()) {
			var at, size int
			var bytes []byte
			if n, _ := fmt.Sscanf(line, "W 0 %x %d %x", &at, &size, &bytes); n != 3 {
				continue
			}
			if at != 0x100+len(got) || size != len(bytes) {
				t.Fatalf("after %d bytes: %s", len(got), line)
			}
			got = append(got, bytes...)
		}
		if !bytes.Equal(got, data) || r.result.Gaps != 0 {
			t.Errorf("%s: %d bytes of %d are in the record, %d gaps", c.transfer.file, len(got),
				len(data), r.result.Gaps)
		}
	}
}

// TestAccessWhoseDataCannotBeReadIsAGap: the page behind the first is not there.
func TestAccessWhoseDataCannotBeReadIsAGap(t *testing.T) {
	memory, err := unix.Mmap(-1, 0, 2*pageSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	if err := unix.Mprotect(memory[pageSize:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	r, self, text := inside(t, Options{})
	m := &fileTransfer{device: "0000:03:00.0", dir: functionFolder(t), file: "resource2",
		isStore: true}
	r.exitTransfer(self, &call{number: unix.SYS_PWRITE64,
		arguments: [6]uint64{3, address(memory), 2 * pageSize}, transfer: m}, 2*pageSize)
	if got := text(); r.result.Gaps != 1 ||
		!strings.Contains(got, "transferred 8192 bytes by a system call") {
		t.Errorf("%d gaps: %.300s", r.result.Gaps, got)
	}
}

// TestEveryStoreBySystemCallComesAfterTheMemoryItSetsOff: an I/O BAR, and the
// bit that lets a device on the bus, too.
func TestEveryStoreBySystemCallComesAfterTheMemoryItSetsOff(t *testing.T) {
	for _, m := range []fileTransfer{{file: "resource2"}, {file: "config", offset: 4},
		{file: "vfio", offset: 7<<vfioShift | 4}, {file: "vfio", offset: 2 << vfioShift}} {
		r, self, text := inside(t, Options{HostMemoryLimit: pageSize, IgnoreTracking: true})
		memory := make([]byte, 16)
		r.addDMARange(self, address(memory), 16, 0x1000)
		m.isStore, m.dir, m.device = true, functionFolder(t), "0000:03:00.0"
		if _, err := r.pciTarget(m.dir, 2, 0); err != nil {
			t.Fatal(err)
		}
		memory[8] = 0xab
		r.recordBeforeTransfer(&m)
		r.exitTransfer(self, &call{number: unix.SYS_PWRITE64,
			arguments: [6]uint64{3, address(memory), 2}, transfer: &m}, 2)
		got := text()
		host, store := strings.Index(got, "HR 1008 8 ab00000000000000"),
			strings.Index(got, " 2 0000\n")
		if host < 0 || store < host {
			t.Errorf("%s: %s", m.file, got)
		}
	}
}

// TestConfigurationBeforeABarIsWholeOrAGap: there is room for 1 MiB of text.
func TestConfigurationBeforeABarIsWholeOrAGap(t *testing.T) {
	for lost, bytes := range map[int]int{0: 1000, 2: 512 << 10} {
		r, _, text := inside(t, Options{})
		m := &fileTransfer{device: "0000:03:00.0", dir: functionFolder(t), file: "config",
			isStore: true}
		for range 3 {
			r.recordConfigAccess(m, 4, make([]byte, bytes))
		}
		if _, err := r.pciTarget(m.dir, 2, 0); err != nil {
			t.Fatal(err)
		}
		got := text()
		said := strings.Contains(got,
			fmt.Sprintf("GAP %d accesses to configuration space of device 0000:03:00.0", lost))
		if n := strings.Count(got, "\nCW 0 4 "); n != 3-lost || said != (lost > 0) ||
			r.result.Gaps != min(lost, 1) {
			t.Errorf("%d accesses in the record, %d lost, %d gaps", n, lost, r.result.Gaps)
		}
	}
}
