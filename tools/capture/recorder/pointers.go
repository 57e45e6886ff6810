//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// vectorCalls are system calls that have their buffers in a list, and which
// argument that is. message: it is a struct msghdr, which has the list.
var vectorCalls = map[uint64]struct {
	list    int
	message bool
}{
	unix.SYS_READV: {1, false}, unix.SYS_WRITEV: {1, false}, unix.SYS_PREADV: {1, false},
	unix.SYS_PWRITEV: {1, false},
	unix.SYS_PREADV2: {1, false}, unix.SYS_PWRITEV2: {1, false}, unix.SYS_SENDMSG: {1, true},
	unix.SYS_RECVMSG: {1, true},
}

var callNames = map[uint64]string{
	unix.SYS_READ: "read", unix.SYS_WRITE: "write", unix.SYS_PREAD64: "pread64",
	unix.SYS_PWRITE64: "pwrite64", unix.SYS_READV: "readv",
	unix.SYS_WRITEV: "writev", unix.SYS_PREADV: "preadv", unix.SYS_PWRITEV: "pwritev",
	unix.SYS_PREADV2: "preadv2", unix.SYS_PWRITEV2: "pwritev2",
	unix.SYS_SENDTO: "sendto", unix.SYS_RECVFROM: "recvfrom", unix.SYS_SENDMSG: "sendmsg",
	unix.SYS_RECVMSG: "recvmsg", unix.SYS_IOCTL: "ioctl",
	unix.SYS_GETRANDOM: "getrandom", unix.SYS_FUTEX: "futex",
}

// callName returns the name of a system call, or its number.
func callName(number uint64) string {
	if name := callNames[number]; name != "" {
		return name
	}
	return fmt.Sprintf("system call %d", number)
}

// pointerFilters bounds how many filters a process gets for pointers: each of
// them is executed at each of its system calls.
const pointerFilters = 32

// stopPointers has system calls stop that get a pointer into a range to which
// the program has no access under the recorder. false: they do not.
func (r *recording) stopPointers(t *thread, start, end uint64) bool {
	s := t.space
	new := pageRange{start: start, end: end}
	if slices.ContainsFunc(s.pointed, func(p pageRange) bool {
		return p.start <= start && end <= p.end
	}) {
		return true
	}
	if len(s.pointed) >= pointerFilters {
		return false
	}
	if err := r.addFilter(t, pointerFilter(start, end, len(s.pointed) == 0)); err != nil {
		r.out.line("NOTE system calls of process %d that get a pointer to %x are not named where "+
			"they fail: %v", t.process, start, err)
		return false
	}
	s.pointed = append(slices.Clone(s.pointed), new)
	return true
}

// pointerFilter stops calls of which an argument lies in a range, and, if
// vectors is set, those that have a list of pointers.
func pointerFilter(start, end uint64, vectors bool) []byte {
	var calls []watchedCall
	if vectors {
		for number := range vectorCalls {
			calls = append(calls, watchedCall{uint32(number), condition{}})
		}
	}
	const half = 32
	var parts []pageRange // that have one upper half each
	for start < end {
		to := min(end, (start>>half+1)<<half)
		parts = append(parts, pageRange{start: start, end: to})
		start = to
	}
	return filterOf(calls, parts...)
}

// pointers returns the memory that a system call has been given, as far as that
// can be known: its arguments, and the lists of buffers that they point at.
func pointers(t *thread, c *call) (list []span) {
	for _, v := range c.arguments {
		list = append(list, span{v, v + 1})
	}
	kind, ok := vectorCalls[c.number]
	if !ok {
		return list
	}
	at, count := c.arguments[kind.list], c.arguments[kind.list+1]
	if kind.message { // struct msghdr: name, its length, list, its length
		var message [32]byte
		if readMemory(t.tid, at, message[:]) != len(message) {
			return list
		}
		at, count = binary.NativeEndian.Uint64(message[16:]),
			binary.NativeEndian.Uint64(message[24:])
	}
	const most, entry = 1024, 16 // IOV_MAX, struct iovec
	data := make([]byte, min(count, most)*entry)
	data = data[:readMemory(t.tid, at, data)]
	for ; len(data) >= entry; data = data[entry:] {
		first := binary.NativeEndian.Uint64(data)
		list = append(list, span{first, first + binary.NativeEndian.Uint64(data[8:])})
	}
	return list
}

// isAboutMemory reports whether a call has addresses that it does not access, or
// leaves other registers behind than those that it was given.
func isAboutMemory(number uint64) bool {
	switch number {
	case unix.SYS_RT_SIGRETURN, unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT,
		unix.SYS_PKEY_MPROTECT, unix.SYS_MREMAP, unix.SYS_MADVISE,
		unix.SYS_REMAP_FILE_PAGES:
		return true
	}
	return false
}

// pointedArea returns an area without access that a system call has a pointer to,
// nil: none.
func (t *thread) pointedArea(c *call) *area {
	if isAboutMemory(c.number) {
		return nil
	}
	for _, p := range pointers(t, c) {
		for i := range t.space.areas {
			if a := &t.space.areas[i]; a.guard == nil && p.first < a.end && a.start < p.end {
				return a
			}
		}
	}
	return nil
}

// badPointer says why a system call with a pointer to an area has failed.
func (r *recording) badPointer(t *thread, c *call) {
	name := "watched host memory"
	if b := c.pointed.bar; b != nil {
		name = fmt.Sprintf("BAR %d of %s", b.index, b.device.name)
	}
	key := callName(c.number) + name
	if r.byCall[key] {
		return
	}
	r.byCall[key] = true
	r.report("%s of process %d failed (EFAULT): it has a pointer to %s, which the kernel "+
		"cannot access under lm record; copy the data to a buffer and pass that",
		callName(c.number), t.process, name)
}
