//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// vectorCalls are system calls with a list of buffers. `list` is the index of the argument that
// points to it. If `message` is true, the argument points to a struct msghdr, which contains it.
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

// pointerFiltersMax limits the number of pointer filters of a process. The kernel executes each of
// them at each system call.
const pointerFiltersMax = 32

// stopPointers installs a filter that stops system calls with a pointer into a range that the
// program cannot access under the recorder. It returns false if it cannot.
func (r *recording) stopPointers(t *thread, start, end uint64) bool {
	s := t.space
	new := pageRange{start: start, end: end}
	if slices.ContainsFunc(s.pointerRanges, func(p pageRange) bool {
		return p.start <= start && end <= p.end
	}) {
		return true
	}
	if len(s.pointerRanges) >= pointerFiltersMax {
		return false
	}
	if err := r.addFilter(t, pointerFilter(start, end, len(s.pointerRanges) == 0)); err != nil {
		r.out.Line("NOTE lm cannot report which system calls of process %d fail "+
			"because of a pointer to 0x%x: %v", t.process, start, err)
		return false
	}
	s.pointerRanges = append(slices.Clone(s.pointerRanges), new)
	return true
}

// pointerFilter returns a filter that stops calls with an argument in a range. If vectors is true,
// it also stops calls with a list of buffers.
func pointerFilter(start, end uint64, vectors bool) []byte {
	var calls []watchedCall
	if vectors {
		for number := range vectorCalls {
			calls = append(calls, watchedCall{uint32(number), condition{}})
		}
	}
	const half = 32
	var parts []pageRange // ranges whose addresses have the same upper 32 bits
	for start < end {
		to := min(end, (start>>half+1)<<half)
		parts = append(parts, pageRange{start: start, end: to})
		start = to
	}
	return buildFilter(calls, parts...)
}

// pointers returns the memory to which the arguments of a system call, and the lists of buffers,
// point. An argument of unknown type counts as a pointer to one byte.
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

// isMemoryCall reports whether the arguments of a call need no check for pointers: the call does
// not access memory there, or (rt_sigreturn) it replaces all registers.
func isMemoryCall(number uint64) bool {
	switch number {
	case unix.SYS_RT_SIGRETURN, unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT,
		unix.SYS_PKEY_MPROTECT, unix.SYS_MREMAP, unix.SYS_MADVISE,
		unix.SYS_REMAP_FILE_PAGES:
		return true
	}
	return false
}

// pointedArea returns the inaccessible area to which an argument of a system call points, or nil.
func (t *thread) pointedArea(c *call) *area {
	if isMemoryCall(c.number) {
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

// reportBadPointer reports why a system call with a pointer to an area has failed.
func (r *recording) reportBadPointer(t *thread, c *call) {
	name := "watched host memory"
	if b := c.pointedArea.bar; b != nil {
		name = fmt.Sprintf("BAR %d of %s", b.index, b.device.name)
	}
	key := callName(c.number) + name
	if r.reportedOnce[key] {
		return
	}
	r.reportedOnce[key] = true
	r.reportEvent("%s of process %d failed (EFAULT): an argument points to %s, "+
		"which the kernel cannot access under lm record; pass a buffer with a copy of the data",
		callName(c.number), t.process, name)
}
