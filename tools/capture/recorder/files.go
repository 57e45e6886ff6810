//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pciAddress matches the name of the directory of a PCI function in /sys.
var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

var memoryFile = regexp.MustCompile(`^/proc/\d+/mem$`)

// fileTransfer is a system call that transfers data between memory and a file of a device.
type fileTransfer struct {
	device  string
	dir     string
	file    string // name in the directory (config, reset, remove or resourceN), or vfio
	isStore bool
	offset  uint64 // offset in the file; the position before the call if the call has no offset
}

// transferCalls are the system calls that transfer data. The fields say whether the call stores to
// the file, has an offset, and has a list of buffers.
var transferCalls = map[uint64]struct{ store, offset, vector bool }{
	unix.SYS_READ: {}, unix.SYS_WRITE: {store: true},
	unix.SYS_PREAD64: {offset: true}, unix.SYS_PWRITE64: {store: true, offset: true},
	unix.SYS_READV: {vector: true}, unix.SYS_WRITEV: {store: true, vector: true},
	unix.SYS_PREADV:   {offset: true, vector: true},
	unix.SYS_PWRITEV:  {store: true, offset: true, vector: true},
	unix.SYS_PREADV2:  {offset: true, vector: true},
	unix.SYS_PWRITEV2: {store: true, offset: true, vector: true},
}

// fileToFileCalls are the system calls that copy data from one file to another, with the indices of
// the two arguments that are file descriptors.
var fileToFileCalls = map[uint64][2]int{unix.SYS_SENDFILE: {0, 1}, unix.SYS_SPLICE: {0, 2},
	unix.SYS_COPY_FILE_RANGE: {0, 2}}

// handleOpenedFD handles a new file descriptor. If it is of a device file, a filter makes later
// transfers with the descriptor stop the program.
func (r *recording) handleOpenedFD(t *thread, fd uint64) {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid, fd))
	if memoryFile.MatchString(path) {
		r.reportEvent("process %d opens %s: accesses to a BAR through this file are not recorded",
			t.process, path)
	}
	if pagemapFile.MatchString(path) {
		t.space.hugePages.readsPagemap = true
	}
	if path == kvmFile {
		r.handleKVM(t)
	}
	if path == eventFile {
		if s, _ := r.sourceAt(t, fd); s != nil {
			r.stopWaits(t, fd)
		}
	}
	if r.isDeviceFile(path) {
		r.addDriverFile(t, path, fd)
	}
	if !r.isDeviceFile(path) || t.space.stoppingFDs[fd] {
		return
	}
	if err := r.addFilter(t, transferFilter(uint32(fd))); err != nil {
		r.reportGap("reads and writes of %[2]s by process %[1]d are not recorded: %[3]v", t.process,
			path, err)
		return
	}
	if t.space.stoppingFDs == nil {
		t.space.stoppingFDs = map[uint64]bool{}
	}
	t.space.stoppingFDs[fd] = true
}

// isPCIFunctionFile reports whether a path is a file in /sys whose reads or writes act on a PCI
// function.
func isPCIFunctionFile(path string) bool {
	folder, name := filepath.Split(path)
	if !strings.HasPrefix(path, "/sys/") || !pciAddress.MatchString(filepath.Base(folder)) {
		return false
	}
	return name == "config" || name == "reset" || name == "remove" || resourceName.MatchString(name)
}

// transferFilter returns a filter that stops calls that close a file descriptor, transfer data with
// it, or make a request.
func transferFilter(fd uint32) []byte {
	calls := []watchedCall{{unix.SYS_CLOSE, condition{0, mask32, fd}},
		{unix.SYS_IOCTL, condition{0, mask32, fd}}}
	for number := range transferCalls {
		calls = append(calls, watchedCall{uint32(number), condition{0, mask32, fd}})
	}
	for number, files := range fileToFileCalls {
		for _, n := range files {
			calls = append(calls, watchedCall{uint32(number), condition{n, mask32, fd}})
		}
	}
	return buildFilter(calls)
}

// enterTransfer handles the entry of a call that transfers data.
func (r *recording) enterTransfer(t *thread, c *call) bool {
	fd := c.arguments[0]
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid, fd))
	kind := transferCalls[c.number]
	m := &fileTransfer{isStore: kind.store, offset: c.arguments[3]}
	switch {
	case path == vfioFile:
		m.file, m.device = "vfio", r.vfioDeviceName(t, int(fd))
		m.dir = filepath.Join(sysDevices, m.device)
	case strings.HasPrefix(path, "/dev/vfio/devices/"):
		m.file, m.dir = "vfio", filepath.Join("/sys/class/vfio-dev", filepath.Base(path), "device")
	case isPCIFunctionFile(path):
		m.dir, m.file = filepath.Split(path)
	case r.isDeviceFile(path):
		if s := r.driverSources[path]; s != nil && !s.mustSleep && !m.isStore {
			return false // a read of UIO only waits
		}
		way := map[bool]string{false: "loads from ", true: "stores to "}[m.isStore] + path
		if !r.reportedOnce[way] {
			r.reportedOnce[way] = true
			r.reportEvent("process %d %s by a system call: "+
				"the access is not recorded, because lm records only accesses through mmap",
				t.process, way)
		}
		return false
	default:
		return false // the descriptor now belongs to another file
	}
	if folder, err := filepath.EvalSymlinks(m.dir); err == nil {
		m.dir, m.device = folder, filepath.Base(folder)
	}
	if !kind.offset || m.offset == ^uint64(0) { // preadv2 without an offset
		m.offset = filePosition(t.tid, fd)
	}
	r.recordBeforeTransfer(m)
	c.transfer = m
	return true
}

// recordBeforeTransfer records host memory before data is transferred. A store may start DMA of the
// device: for example, a store to configuration space may enable bus mastering.
func (r *recording) recordBeforeTransfer(m *fileTransfer) {
	if m.isStore {
		r.recordChanges(byProgram)
	}
}

// filePosition returns the position of a file descriptor, in bytes.
func filePosition(tid int, fd uint64) (at uint64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", tid, fd))
	_, _ = fmt.Sscanf(string(text), "pos: %d", &at)
	return at
}

// exitTransfer records the transferred data, in chunks. n is the number of transferred bytes.
func (r *recording) exitTransfer(t *thread, c *call, n uint64) {
	const most = 64 << 10 // most bytes of a chunk
	m := *c.transfer
	if m.isStore {
		defer func() { r.closePages(t).markClosed() }()
		// not at the entry of the call, where the thread cannot make another system call
		r.locateHugePages(t)
	}
	for list := bufferRanges(t, c, n); n > 0; {
		data := make([]byte, min(n, most))
		if list = readBuffers(t, list, data); list == nil {
			r.reportGap(
				"process %d transferred %d bytes by a system call, at 0x%x of %s of device %s: "+
					"the transfer is not recorded, "+
					"because lm cannot read the buffer of the process",
				t.process, n, m.offset, m.file, m.device)
			return
		}
		r.recordTransfer(t, &m, data)
		m.offset, n = m.offset+uint64(len(data)), n-uint64(len(data))
	}
}

// recordTransfer records a chunk of a transfer.
func (r *recording) recordTransfer(t *thread, m *fileTransfer, data []byte) {
	const config = 7 // VFIO_PCI_CONFIG_REGION_INDEX
	index, at := m.offset>>vfioShift, m.offset&(1<<vfioShift-1)
	switch {
	case m.file == "config":
		r.recordConfigAccess(m, m.offset, data)
	case m.file == "vfio" && index == config:
		r.recordConfigAccess(m, at, data)
	case m.file == "vfio" && index < 6:
		r.recordBARTransfer(t, m, int(index), at, data)
	case strings.HasPrefix(m.file, "resource"):
		index, _ := strconv.Atoi(strings.TrimSuffix(m.file[len("resource"):], "_wc"))
		r.recordBARTransfer(t, m, index, m.offset, data)
	case m.isStore && m.file != "vfio":
		r.reportEvent("process %d stores to %s of device %s: a replay does not repeat the store",
			t.process, m.file, m.device)
	case m.isStore:
		r.reportEvent("process %d stores the bytes %x to region %d of device %s, "+
			"at 0x%x: a replay does not repeat the store",
			t.process, data, index, m.device, at)
	}
}

// bufferRanges returns the memory of the program from or to which a call transferred n bytes. If a
// list of buffers cannot be read completely, the result is shorter.
func bufferRanges(t *thread, c *call, n uint64) (list []span) {
	first, count := c.arguments[1], c.arguments[2]
	if !transferCalls[c.number].vector {
		return []span{{first, first + n}}
	}
	for i := uint64(0); i < count; i++ {
		var entry [16]byte // struct iovec
		if readMemory(t.tid, first+16*i, entry[:]) != len(entry) {
			break
		}
		at := binary.NativeEndian.Uint64(entry[:])
		list = append(list, span{at, at + binary.NativeEndian.Uint64(entry[8:])})
	}
	return list
}

// readBuffers fills data from the first bytes of the given buffers, and returns the remaining
// buffers. It returns nil if the memory cannot be read.
func readBuffers(t *thread, list []span, data []byte) []span {
	for len(data) > 0 {
		if len(list) == 0 {
			return nil
		}
		b := &list[0]
		n := int(min(b.end-b.first, uint64(len(data))))
		if readMemory(t.tid, b.first, data[:n]) != n {
			return nil
		}
		b.first, data = b.first+uint64(n), data[n:]
		if len(data) > 0 {
			list = list[1:]
		}
	}
	return list
}

// recordConfigAccess records an access to configuration space. A program often searches the
// configuration spaces of all devices for its device. Therefore the accesses to a device are kept
// until the program maps a BAR of this device.
func (r *recording) recordConfigAccess(m *fileTransfer, at uint64, data []byte) {
	line := fmt.Sprintf("%x %d %x", at, len(data), data)
	kind := map[bool]string{false: "CR", true: "CW"}[m.isStore]
	for _, d := range r.devices {
		if d.name == m.device {
			r.out.Line("%s %x %s", kind, d.number, line)
			return
		}
	}
	if r.unmappedDevices[m.device] == nil {
		r.unmappedDevices[m.device] = &unmappedDevice{}
	}
	const most = 1 << 20 // most bytes of text for a device that may never be used
	u := r.unmappedDevices[m.device]
	if u.text.Len() >= most {
		u.droppedAccesses++
		return
	}
	fmt.Fprintf(&u.text, "%s # %s\n", kind, line)
}

// unmappedDevice is a device of which the program has not mapped a BAR yet.
type unmappedDevice struct {
	text            strings.Builder // accesses to its configuration space, as lines of the record
	droppedAccesses int             // number of accesses that did not fit
}

// recordBARTransfer records a transfer between memory and a BAR that a system call made. The kernel
// makes such a transfer in accesses of its own widths.
func (r *recording) recordBARTransfer(t *thread, m *fileTransfer, index int, at uint64,
	data []byte) {
	b, err := r.pciTarget(m.dir, index, at)
	if err != nil {
		r.reportGap("process %d accesses BAR %d of device %s by a system call, at 0x%x: "+
			"the access is not recorded: %v", t.process, index, m.device, at, err)
	}
	if b == nil || err != nil {
		return
	}
	r.recordAccess(map[bool]byte{false: 'R', true: 'W'}[m.isStore], b.bar, at, data)
}
