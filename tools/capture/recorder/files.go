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

// function is the name of a folder of a PCI function.
var function = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

var memoryFile = regexp.MustCompile(`^/proc/\d+/mem$`)

// moved is a system call that moves data between memory and a file, where that is of a device.
type moved struct {
	name   string
	folder string
	file   string // config, reset, remove, rescan or resourceN, or vfio
	store  bool
	at     uint64 // in the file; where position: as it was
}

// movers are the calls, and whether they store, have an offset, and have a list of buffers.
var movers = map[uint64]struct{ store, offset, vector bool }{
	unix.SYS_READ: {}, unix.SYS_WRITE: {store: true},
	unix.SYS_PREAD64: {offset: true}, unix.SYS_PWRITE64: {store: true, offset: true},
	unix.SYS_READV: {vector: true}, unix.SYS_WRITEV: {store: true, vector: true},
	unix.SYS_PREADV:   {offset: true, vector: true},
	unix.SYS_PWRITEV:  {store: true, offset: true, vector: true},
	unix.SYS_PREADV2:  {offset: true, vector: true},
	unix.SYS_PWRITEV2: {store: true, offset: true, vector: true},
}

// between are the calls that move data from file to file, and which arguments these are.
var between = map[uint64][2]int{unix.SYS_SENDFILE: {0, 1}, unix.SYS_SPLICE: {0, 2},
	unix.SYS_COPY_FILE_RANGE: {0, 2}}

// openedFile follows a new descriptor. Of one that is a device's, calls that move data stop the
// program from now on.
func (r *recording) openedFile(t *thread, fd uint64) {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid, fd))
	if memoryFile.MatchString(path) {
		r.report("process %d opens %s: accesses to a BAR through it are not recorded", t.process,
			path)
	}
	if pagemapFile.MatchString(path) {
		t.space.physical.asked = true
	}
	if !r.isDevice(path) || t.space.stops[fd] {
		return
	}
	if err := r.addFilter(t, moverFilter(uint32(fd))); err != nil {
		r.gap("reads and writes of %[2]s by process %[1]d are not recorded: %[3]v", t.process,
			path, err)
		return
	}
	if t.space.stops == nil {
		t.space.stops = map[uint64]bool{}
	}
	t.space.stops[fd] = true
}

// functionFile reports whether a path is a file that acts on a PCI function.
func functionFile(path string) bool {
	folder, name := filepath.Split(path)
	if !strings.HasPrefix(path, "/sys/") || !function.MatchString(filepath.Base(folder)) {
		return false
	}
	return name == "config" || name == "reset" || name == "remove" || resourceName.MatchString(name)
}

// moverFilter stops calls that move data by a descriptor, or close it.
func moverFilter(fd uint32) []byte {
	calls := []watchedCall{{unix.SYS_CLOSE, condition{0, whole32, fd}}}
	for number := range movers {
		calls = append(calls, watchedCall{uint32(number), condition{0, whole32, fd}})
	}
	for number, files := range between {
		for _, n := range files {
			calls = append(calls, watchedCall{uint32(number), condition{n, whole32, fd}})
		}
	}
	return filterOf(calls)
}

// enterMove looks at a call that moves data.
func (r *recording) enterMove(t *thread, c *call) bool {
	fd := c.arguments[0]
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid, fd))
	kind := movers[c.number]
	m := &moved{store: kind.store, at: c.arguments[3]}
	switch {
	case path == vfioFile:
		m.file, m.name = "vfio", r.vfioName(t, int(fd))
		m.folder = filepath.Join(sysDevices, m.name)
	case strings.HasPrefix(path, "/dev/vfio/devices/"):
		m.file, m.folder = "vfio", filepath.Join("/sys/class/vfio-dev", filepath.Base(path),
			"device")
	case functionFile(path):
		m.folder, m.file = filepath.Split(path)
	case r.isDevice(path):
		way := map[bool]string{false: "loads from ", true: "stores to "}[m.store] + path
		if !r.byCall[way] {
			r.byCall[way] = true
			r.report("process %d %s by a system call, which is not recorded: only accesses "+
				"to mappings of such a file are", t.process, way)
		}
		return false
	default:
		return false // the number is another file's now
	}
	if folder, err := filepath.EvalSymlinks(m.folder); err == nil {
		m.folder, m.name = folder, filepath.Base(folder)
	}
	if !kind.offset || m.at == ^uint64(0) { // of preadv2, which then has none either
		m.at = position(t.tid, fd)
	}
	r.begins(m)
	c.moved = m
	return true
}

// begins comes before the data is moved. Each store may set the device off: one to configuration
// space lets it on the bus.
func (r *recording) begins(m *moved) {
	if m.store {
		r.recordChanges(byProgram)
	}
}

// position is where in a file its next byte is.
func position(tid int, fd uint64) (at uint64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", tid, fd))
	_, _ = fmt.Sscanf(string(text), "pos: %d", &at)
	return at
}

// exitMove writes down what was moved, piece by piece.
func (r *recording) exitMove(t *thread, c *call, n uint64) {
	const most = 64 << 10 // bytes of a piece
	m := *c.moved
	if m.store {
		defer func() { r.closePages(t).markClosed() }()
		r.locates(t) // not before the call: a thread makes no other on its way into one
	}
	for list := buffers(t, c, n); n > 0; {
		data := make([]byte, min(n, most))
		if list = taken(t, list, data); list == nil {
			r.gap("%d bytes that process %d transferred by a system call, at %x of %s of "+
				"device %s, are not recorded: its memory cannot be read", n, t.process,
				m.at, m.file, m.name)
			return
		}
		r.moved(t, &m, data)
		m.at, n = m.at+uint64(len(data)), n-uint64(len(data))
	}
}

// moved writes down a piece.
func (r *recording) moved(t *thread, m *moved, data []byte) {
	const config = 7 // VFIO_PCI_CONFIG_REGION_INDEX
	index, at := m.at>>vfioShift, m.at&(1<<vfioShift-1)
	switch {
	case m.file == "config":
		r.configured(m, m.at, data)
	case m.file == "vfio" && index == config:
		r.configured(m, at, data)
	case m.file == "vfio" && index < 6:
		r.movedBar(t, m, int(index), at, data)
	case strings.HasPrefix(m.file, "resource"):
		index, _ := strconv.Atoi(strings.TrimSuffix(m.file[len("resource"):], "_wc"))
		r.movedBar(t, m, index, m.at, data)
	case m.store && m.file != "vfio":
		r.report("process %d stores to %s of device %s, which a replay does not do", t.process,
			m.file,
			m.name)
	case m.store:
		r.report("process %d stores %x to region %d of device %s, at %x, which a replay "+
			"does not do",
			t.process, data, index, m.name, at)
	}
}

// buffers are where n bytes that a call moved are in the program, by address. Those that cannot be
// told are missing.
func buffers(t *thread, c *call, n uint64) (list []span) {
	first, count := c.arguments[1], c.arguments[2]
	if !movers[c.number].vector {
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

// taken reads the first bytes of buffers, and gives the rest; nil: they cannot be read.
func taken(t *thread, list []span, data []byte) []span {
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

// configured writes down an access to configuration space. Programs look
// through those of all devices for theirs: what comes before a device's first
// BAR is kept until then.
func (r *recording) configured(m *moved, at uint64, data []byte) {
	line := fmt.Sprintf("%x %d %x", at, len(data), data)
	kind := map[bool]string{false: "CR", true: "CW"}[m.store]
	for _, d := range r.devices {
		if d.name == m.name {
			r.out.line("%s %x %s", kind, d.number, line)
			return
		}
	}
	if r.unused[m.name] == nil {
		r.unused[m.name] = &unused{}
	}
	const most = 1 << 20 // bytes of text of a device that is never used
	u := r.unused[m.name]
	if u.text.Len() >= most {
		u.lost++
		return
	}
	fmt.Fprintf(&u.text, "%s # %s\n", kind, line)
}

// unused is a device that the program has no BAR of so far.
type unused struct {
	text strings.Builder // its accesses to configuration space
	lost int             // of them that there was no room for
}

// movedBar writes down an access to a BAR that a system call made, which the
// kernel does in words.
func (r *recording) movedBar(t *thread, m *moved, index int, at uint64, data []byte) {
	b, err := r.pci(m.folder, index, at)
	if err != nil {
		r.gap("an access of process %d by a system call is not recorded: %v", t.process, err)
	}
	if b == nil || err != nil {
		return
	}
	r.write(map[bool]byte{false: 'R', true: 'W'}[m.store], b.bar, at, data)
}
