//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A program that sleeps until an interrupt makes no loop. The recorder writes an IRQ line when a
// system call shows the program an interrupt: a wait for an eventfd that VFIO signals, or a
// blocking call for the file of a driver.

// interruptSource is an eventfd or a file that reports interrupts to a program.
type interruptSource struct {
	device string // its name; "": the only device
	vendor uint16 // and id: of a device that files represent
	id     uint16
	number int // of the interrupt
	// number of interrupts that are recorded, but that the program has not read
	reported uint64
	// The file may also report other events: only a call in which the program slept counts.
	mustSleep bool
}

const eventFile = "anon_inode:[eventfd]"

// waitCalls are the system calls that wait for several files.
var waitCalls = []uint64{callPoll, unix.SYS_PPOLL, callSelect, unix.SYS_PSELECT6, callEpoll,
	unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2}

// From this number of eventfds on, all reads stop: the size of filters is limited.
const stoppingReadsMax = 64

// stopWaits makes the program stop at waits, and at reads of some file descriptors.
func (r *recording) stopWaits(t *thread, fds ...uint64) {
	s := t.space
	var calls []watchedCall
	if !s.stopsWaits {
		for _, number := range waitCalls {
			calls = append(calls, watchedCall{uint32(number), condition{}})
		}
	}
	for _, fd := range fds {
		if s.stopsReads || slices.Contains(s.stoppingReads, fd) {
			continue
		}
		when := condition{0, mask32, uint32(fd)}
		if s.stoppingReads = append(s.stoppingReads, fd); len(s.stoppingReads) > stoppingReadsMax {
			s.stopsReads, when = true, condition{}
		}
		calls = append(calls, watchedCall{unix.SYS_READ, when})
	}
	if len(calls) == 0 {
		return
	}
	s.stopsWaits = true
	if err := r.addFilter(t, buildFilter(calls)); err != nil {
		r.reportEvent("where process %d waits for interrupts is not recorded: %v", t.process, err)
	}
}

// addInterrupts handles a request with struct vfio_irq_set. Its words are: argsz, flags, index,
// start, count, and an eventfd for each interrupt.
func (r *recording) addInterrupts(t *thread, c *call, _ uint64) {
	const (
		hasEvents, triggers = 1 << 2, 1 << 5 // VFIO_IRQ_SET_DATA_EVENTFD, ACTION_TRIGGER
		kindMax             = 2              // MSI-X; the kinds above are not interrupts
		countMax            = 2048           // of MSI-X
	)
	w, ok := readWords(t, c.arguments[2], 5)
	if !ok || w[1]&triggers == 0 || w[2] > kindMax || w[1]&hasEvents == 0 && w[4] != 0 {
		return
	}
	device, start, count := r.requestedDevice(t, c), int(w[3]), int(min(w[4], countMax))
	maps.DeleteFunc(r.eventSources, func(_ uint64, s *interruptSource) bool {
		return s.device == device && (count == 0 || s.number >= start && s.number < start+count)
	})
	list, _ := readWords(t, c.arguments[2]+20, count)
	var fds []uint64
	for i, fd := range list {
		if id, _, ok := eventState(t, uint64(fd)); ok {
			r.eventSources[id] = &interruptSource{device: device, number: start + i}
			fds = append(fds, uint64(fd))
		}
	}
	if len(fds) > 0 {
		r.stopWaits(t, fds...)
	}
}

// eventState returns the number by which the kernel identifies an eventfd, and its counter.
func eventState(t *thread, fd uint64) (id, count uint64, ok bool) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", t.tid, int32(fd)))
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "eventfd-count: %x", &count)
		if n, _ := fmt.Sscanf(line, "eventfd-id: %d", &id); n == 1 {
			ok = true
		}
	}
	return id, count, ok
}

// addDriverFile makes the file of a driver a source of interrupts, if it is one.
func (r *recording) addDriverFile(t *thread, path string, fd uint64) {
	isUIO := strings.HasPrefix(path, "/dev/uio")
	if !isUIO && !characterFile.MatchString(path) && !r.representsBAR(path) {
		return
	}
	var info unix.Stat_t
	if unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", t.tid, fd), &info) != nil ||
		info.Mode&unix.S_IFMT != unix.S_IFCHR {
		return
	}
	s := &interruptSource{mustSleep: !isUIO}
	if i := slices.IndexFunc(r.options.Files,
		func(f File) bool { return f.matches(path) && !f.Memory }); i >= 0 {
		s.device, s.vendor, s.id = "file", r.options.Files[i].Vendor, r.options.Files[i].Device
	} else if folder, err := filepath.EvalSymlinks(driverFolder(&info)); err == nil {
		s.device = filepath.Base(folder)
	}
	if r.driverSources[path] == nil {
		r.driverSources[path] = s
	}
	r.stopWaits(t)
}

// sourceAt returns the source that a file descriptor refers to, or nil, and how many interrupts the
// program can read from it.
func (r *recording) sourceAt(t *thread, fd uint64) (s *interruptSource, unread uint64) {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid, int32(fd)))
	if path != eventFile {
		return r.driverSources[path], 1
	}
	id, count, _ := eventState(t, fd)
	return r.eventSources[id], count
}

// mayShowInterrupt reports whether the exit of a call may show an interrupt.
func (r *recording) mayShowInterrupt(t *thread, c *call) bool {
	switch {
	case len(r.eventSources)+len(r.driverSources) == 0:
		return false
	case c.number == unix.SYS_READ || c.number == unix.SYS_IOCTL:
		if s, _ := r.sourceAt(t, c.arguments[0]); s == nil {
			return false
		}
	case !slices.Contains(waitCalls, c.number):
		return false
	}
	c.sleeps = sleeps(t.tid)
	return true
}

// recordInterrupts records the interrupts that a call has shown to the program.
func (r *recording) recordInterrupts(t *thread, c *call, result uint64) {
	isRead := c.number == unix.SYS_READ
	if callError(result) != 0 || result == 0 && c.number != unix.SYS_IOCTL {
		return
	}
	for _, fd := range readyFDs(t, c, result) {
		s, unread := r.sourceAt(t, fd)
		if s == nil {
			continue
		}
		before := s.reported
		s.reported = unread
		switch {
		case s.mustSleep:
			if sleeps(t.tid) <= c.sleeps+1 { // the stop at the exit counts as one
				continue
			}
		case isRead:
			if s.reported = 0; before > 0 {
				continue
			}
		case unread <= before:
			continue
		}
		for _, d := range r.devices {
			if d.name == s.device && (d.name != "file" || d.vendor == s.vendor && d.id == s.id) ||
				s.device == "" && len(r.devices) == 1 {
				r.out.Interrupt(d.number, s.number)
			}
		}
	}
}

// sleeps returns how often a thread has slept.
func sleeps(tid int) (n uint64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// readyFDs returns the file descriptors that a successful call has read, or has found ready to be
// read.
func readyFDs(t *thread, c *call, result uint64) (list []uint64) {
	const most, readable = 1 << 16, unix.POLLIN | unix.POLLPRI
	a := &c.arguments
	switch c.number {
	case callPoll, unix.SYS_PPOLL:
		data := make([]byte, 8*min(a[1], most)) // struct pollfd
		data = data[:readMemory(t.tid, a[0], data)]
		for ; len(data) >= 8; data = data[8:] {
			if binary.NativeEndian.Uint16(data[6:])&readable != 0 {
				list = append(list, uint64(binary.NativeEndian.Uint32(data)))
			}
		}
	case callSelect, unix.SYS_PSELECT6:
		data := make([]byte, (min(a[0], most)+7)/8)
		data = data[:readMemory(t.tid, a[1], data)]
		for fd := range 8 * uint64(len(data)) {
			if data[fd/8]>>(fd%8)&1 != 0 {
				list = append(list, fd)
			}
		}
	case callEpoll, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2:
		return epollFDs(t, a[0], a[1], min(result, most))
	default:
		list = []uint64{a[0]}
	}
	return list
}

// epollFDs returns the file descriptors of n events at an address. The data of the events show
// them.
func epollFDs(t *thread, epoll, address, n uint64) (list []uint64) {
	const size = uint64(unsafe.Sizeof(unix.EpollEvent{})) // the data are the last 8 bytes
	events := make([]byte, n*size)
	events = events[:readMemory(t.tid, address, events)]
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", t.tid, int32(epoll)))
	for line := range strings.Lines(string(text)) {
		var fd, wanted, data uint64
		if n, _ := fmt.Sscanf(line, "tfd: %d events: %x data: %x", &fd, &wanted, &data); n != 3 {
			continue
		}
		for e := range slices.Chunk(events, int(size)) {
			if uint64(len(e)) == size && binary.NativeEndian.Uint64(e[size-8:]) == data {
				list = append(list, fd)
				break
			}
		}
	}
	return list
}
