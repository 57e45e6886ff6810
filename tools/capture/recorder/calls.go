//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// call is a system call that a thread is in, whose end matters.
type call struct {
	number    uint64
	arguments [6]uint64 // as the program gave them
	mapped    *mapped   // mmap: the BAR that is mapped, nil: none
	memory    *mapped   // mmap: the host memory that is
	huge      bool      // mmap: it is in huge pages
	fd        int       // mmap: the recorder's own descriptor of it
	rest      []stretch // mprotect: what is still to be done after the call
	moved     *moved    // read, write and the like
	control   *control  // ioctl: the request
	name      string    // ioctl: the device asked for
	pointed   *area     // that the call has a pointer to, a copy
	only      bool      // it is followed for that alone
	opens     []span    // pages that are opened at its end, after which it is made again
	opened    []span    // pages that were opened for it
}

func (c *call) close() {
	if c.mapped != nil {
		unix.Close(c.fd)
	}
}

// stretch is a part of memory that is one thing: a BAR or not.
type stretch struct {
	start, end uint64
	bar        bool
}

// pages rounds a length up.
func pages(length uint64) uint64 { return (length + page - 1) &^ (page - 1) }

// enter looks at a system call that is about to be made. true: it has let the
// thread go on, up to the end of the call.
func (r *recording) enter(t *thread) bool {
	regs, err := registersOf(t.tid)
	if err != nil || t.space.released {
		return false
	}
	if regs.foreign() {
		r.gap("a program of 32 bits, or of another architecture, cannot be recorded")
		r.end("it contains code of another architecture, which cannot be recorded")
		return false
	}
	if t.forbidden(regs.call()) {
		return false
	}
	t.space.gate = regs.pc() - uint64(len(callCode))
	c := &call{number: regs.call()}
	for n := range c.arguments {
		c.arguments[n] = *regs.argument(n)
	}
	c.opened, t.opened = t.opened, nil
	pages := t.closedPages(c)
	if c.opened == nil && len(pages) > 0 && r.postponeCall(t, c, regs, pages) {
		return true
	}
	if a := t.pointedArea(c); a != nil {
		of := *a
		c.pointed = &of
	}
	if c.only = !r.follow(t, c, regs); c.only && c.pointed == nil && c.opened == nil {
		return false
	}
	if t.call = c; !c.only {
		t.space.changing++
	}
	return ptrace(unix.PTRACE_SYSCALL, t.tid, 0, 0) == nil
}

// follow reports whether the end of a call matters, and changes its arguments.
func (r *recording) follow(t *thread, c *call, regs *registers) bool {
	a := &c.arguments
	switch c.number {
	case unix.SYS_MMAP:
		return r.enterMap(t, c, regs)
	case unix.SYS_MUNMAP:
		return r.covers(t, c, a[0], a[0]+pages(a[1]))
	case unix.SYS_REMAP_FILE_PAGES:
		return len(t.space.parts(a[0], a[0]+pages(a[1]))) > 0
	case unix.SYS_PRCTL, unix.SYS_SECCOMP:
		return isStrict(c)
	case unix.SYS_MREMAP:
		return len(t.space.parts(a[0], a[0]+max(pages(a[1]), 1))) > 0 ||
			a[3]&unix.MREMAP_FIXED != 0 && len(t.space.parts(a[4], a[4]+pages(a[2]))) > 0
	case unix.SYS_MPROTECT, unix.SYS_PKEY_MPROTECT:
		return r.enterProtect(t, c, regs)
	case unix.SYS_CLONE:
		*regs.argument(0) &^= unix.CLONE_UNTRACED
		_ = regs.put(t.tid)
	case unix.SYS_CLONE3:
		var flags [8]byte
		if readMemory(t.tid, a[0], flags[:]) == 8 && flags[2]&0x80 != 0 { // CLONE_UNTRACED
			flags[2] &^= 0x80
			writeMemory(t.tid, a[0], flags[:])
		}
	case unix.SYS_IOCTL:
		return r.enterControl(t, c)
	case unix.SYS_RT_SIGACTION:
		return true
	case unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_MEMFD_CREATE, callOpen, unix.SYS_DUP, callDup2,
		unix.SYS_DUP3, unix.SYS_FCNTL:
		return true
	case unix.SYS_EXIT_GROUP:
		r.recordChanges(byProgram)
	case unix.SYS_CLOSE:
		path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid, a[0]))
		return ofVFIO(path) && r.unmaps(t, c)
	}
	if _, ok := movers[c.number]; ok {
		return r.enterMove(t, c)
	}
	r.past(t, c)
	return false
}

// enterMap takes the access out of a mapping of a BAR, and takes the
// descriptor while it is there.
func (r *recording) enterMap(t *thread, c *call, regs *registers) bool {
	start, length, prot, flags, fd, offset := c.arguments[0], pages(c.arguments[1]), c.arguments[2],
		c.arguments[3], int(int32(c.arguments[4])),
		c.arguments[5]
	over := flags&unix.MAP_FIXED != 0 && r.covers(t, c, start, start+length)
	c.huge = length > 0 && isHuge(t, fd, flags)
	if flags&unix.MAP_ANONYMOUS != 0 || length == 0 {
		return over || c.huge
	}
	m, err := r.identify(t, fd, offset, length)
	if m != nil && m.bar == nil {
		c.memory, c.huge = m, false // its bus address is the one of --file
		return true
	}
	if c.huge {
		return true
	}
	if err == nil && m != nil {
		c.fd, err = r.take(t, fd, prot, flags)
		if c.fd < 0 && err == nil {
			return over // the kernel will refuse it
		}
	}
	if err != nil {
		r.gap("a mapping of process %d is not recorded: %v", t.process, err)
		return over
	}
	if m == nil {
		return over
	}
	c.mapped = m
	*regs.argument(2) = unix.PROT_NONE
	_ = regs.put(t.tid)
	return true
}

// covers reports whether a call unmaps a BAR, or memory that a device reaches.
func (r *recording) covers(t *thread, c *call, start, end uint64) bool {
	huge := r.hasHuge(t.space, start, end)
	if huge {
		r.unmaps(t, c)
	}
	return huge || len(t.space.parts(start, end)) > 0
}

// take returns a descriptor of the program's as the recorder's own, or -1 where
// its mode does not allow the mapping.
func (r *recording) take(t *thread, fd int, prot, flags uint64) (int, error) {
	own, err := takeDescriptor(t, fd)
	if err != nil {
		return -1, err
	}
	read, write := mode(own)
	shared := flags&unix.MAP_TYPE != unix.MAP_PRIVATE
	switch {
	case !read, shared && prot&unix.PROT_WRITE != 0 && !write:
		unix.Close(own)
		return -1, nil
	case !shared && prot&unix.PROT_WRITE != 0:
		unix.Close(own)
		return -1, fmt.Errorf("the mapping is private, so the program's stores do not reach the " +
			"device")
	}
	return own, nil
}

// takeDescriptor asks the thread, which Linux 6.9 lets it: the process's first
// one may have ended before.
func takeDescriptor(t *thread, fd int) (own int, err error) {
	file, err := unix.PidfdOpen(t.tid, unix.PIDFD_THREAD)
	if err != nil {
		file, err = unix.PidfdOpen(t.process, 0)
	}
	if err != nil {
		return -1, err
	}
	defer unix.Close(file)
	if own, err = unix.PidfdGetfd(file, fd, 0); err != nil {
		return -1, fmt.Errorf("cannot copy file descriptor %d of process %d: %w", fd,
			t.process, err)
	}
	return own, nil
}

// enterProtect keeps the access to BARs from a program that asks for it again.
// A call over BARs and other memory is made in pieces.
func (r *recording) enterProtect(t *thread, c *call, regs *registers) bool {
	start, end := c.arguments[0], c.arguments[0]+pages(c.arguments[1])
	list := t.space.stretches(start, end)
	if len(list) == 0 {
		return len(t.space.parts(start, end)) > 0 // of guards
	}
	c.rest = list[1:]
	*regs.argument(1) = list[0].end - list[0].start
	if list[0].bar {
		*regs.argument(2) = unix.PROT_NONE
	}
	_ = regs.put(t.tid)
	return true
}

// stretches cuts a range at the bounds of areas; empty where it has no area.
func (s *space) stretches(start, end uint64) (list []stretch) {
	for _, a := range s.parts(start, end) {
		if a.guard != nil {
			continue
		}
		if a.start > start {
			list = append(list, stretch{start, a.start, false})
		}
		list = append(list, stretch{a.start, a.end, true})
		start = a.end
	}
	if len(list) > 0 && start < end {
		list = append(list, stretch{start, end, false})
	}
	return list
}

// exit looks at what became of a call.
func (r *recording) exit(t *thread) {
	c := t.call
	if c == nil {
		return
	}
	defer t.leave()
	regs, err := registersOf(t.tid)
	if err != nil {
		return
	}
	if c.opens != nil {
		r.restartCall(t, c, regs)
		return
	}
	r.closePagesAfter(t, c)
	if c.pointed != nil && callError(regs.result()) == unix.EFAULT {
		r.badPointer(t, c)
	}
	if c.only {
		return
	}
	for n, v := range c.arguments { // whoever called relies on them
		if n > 0 || callKeepsFirst {
			*regs.argument(n) = v
		}
	}
	_ = regs.put(t.tid)
	failed := callError(regs.result()) != 0
	switch c.number {
	case unix.SYS_MPROTECT, unix.SYS_PKEY_MPROTECT:
		r.exitProtect(t, c, regs, failed)
		return
	case unix.SYS_PRCTL, unix.SYS_SECCOMP:
		r.exitStrict(t, c, regs)
		return
	case unix.SYS_IOCTL:
		if !failed {
			c.control.exit(r, t, c, regs.result())
		}
		return
	}
	if !failed {
		r.followSuccess(t, c, regs)
	}
}

// followSuccess follows what a system call that did not fail changed in the mappings, open
// files and signal handlers of its process.
func (r *recording) followSuccess(t *thread, c *call, regs *registers) {
	if c.moved != nil {
		r.exitMove(t, c, regs.result())
		return
	}
	switch c.number {
	case unix.SYS_MMAP:
		r.exitMap(t, c, regs.result())
	case unix.SYS_MUNMAP:
		t.space.remove(c.arguments[0], c.arguments[0]+pages(c.arguments[1]))
		r.losesHuge(t, c.arguments[0], c.arguments[0]+pages(c.arguments[1]))
	case unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_MEMFD_CREATE, callOpen, unix.SYS_DUP, callDup2,
		unix.SYS_DUP3, unix.SYS_FCNTL:
		r.openedFile(t, regs.result())
	case unix.SYS_MREMAP:
		r.exitRemap(t, c, regs.result())
	case unix.SYS_REMAP_FILE_PAGES:
		r.exitRemapPages(t, c)
	case unix.SYS_CLOSE:
		r.closedVFIO(t)
	case unix.SYS_RT_SIGACTION:
		t.exitAction(c)
	}
}

func (r *recording) exitMap(t *thread, c *call, at uint64) {
	length, prot := pages(c.arguments[1]), c.arguments[2]
	t.space.remove(at, at+length)
	r.resetProtected(t.space, at, at+length)
	r.losesHuge(t, at, at+length)
	if c.huge {
		t.space.physical.mapsHuge(at, at+length)
	}
	if c.memory != nil {
		r.reach(t, at, length, c.memory.offset)
	}
	if c.mapped == nil {
		return
	}
	v, err := newView(c.fd, c.arguments[5], length)
	if err != nil {
		r.gap("BAR %d of %s is mapped by process %d and not recorded: %v", c.mapped.bar.index,
			c.mapped.bar.device.name, t.process, err)
		_, _ = r.inject(t, unix.SYS_MPROTECT, at, length, prot)
		return
	}
	t.space.add(area{at, at + length, c.mapped.bar, c.mapped.offset, prot, v, 0, nil, nil})
	r.stopPointers(t, at, at+length)
	r.out.line("NOTE process %d maps BAR %d of %s from %x on, %x bytes", t.process,
		c.mapped.bar.index, c.mapped.bar.device.name, c.mapped.offset,
		length)
}

// exitProtect does the rest of a call that was cut.
func (r *recording) exitProtect(t *thread, c *call, regs *registers, failed bool) {
	first := c.arguments[0] + pages(c.arguments[1])
	if len(c.rest) > 0 {
		first = c.rest[0].start
	}
	if !failed {
		t.space.protect(c.arguments[0], first, c.arguments[2])
		r.resetProtected(t.space, c.arguments[0], first)
	}
	for _, s := range c.rest {
		if failed {
			return
		}
		prot := c.arguments[2]
		if s.bar {
			prot = unix.PROT_NONE
		}
		result, err := r.inject(t, c.number, s.start, s.end-s.start, prot, c.arguments[3])
		if failed = err != nil; failed {
			regs.setResult(result)
			_ = regs.put(t.tid)
			return
		}
		t.space.protect(s.start, s.end, c.arguments[2])
		r.resetProtected(t.space, s.start, s.end)
	}
}

// exitRemap follows areas to where they are now.
func (r *recording) exitRemap(t *thread, c *call, at uint64) {
	old, oldLength, length, flags := c.arguments[0], pages(c.arguments[1]), pages(c.arguments[2]),
		c.arguments[3]
	moved := t.space.parts(old, old+max(oldLength, page))
	for i := range moved {
		moved[i].view.use() // over the removal
	}
	if flags&unix.MREMAP_DONTUNMAP == 0 {
		t.space.remove(old, old+oldLength)
	}
	t.space.remove(at, at+length)
	for _, a := range moved {
		if from := a.start - old; from < length {
			v := a.view
			a.end = at + min(a.end-old, length)
			a.start = at + from
			if a.guard != nil { // it is where the device's addresses do not lead any more
				_, _ = r.inject(t, unix.SYS_MPROTECT, a.start, a.end-a.start, a.prot)
				v.drop()
				continue
			}
			t.space.add(a)
			r.stopPointers(t, a.start, a.end)
			v.drop()
		}
	}
	if len(moved) > 0 && moved[0].guard == nil && (length > oldLength || oldLength == 0) {
		r.gap("process %d enlarges a mapping of a BAR by mremap: accesses beyond %x bytes "+
			"are not recorded", t.process, oldLength)
		_, _ = r.inject(t, unix.SYS_MPROTECT, at+oldLength, length-oldLength, moved[0].prot)
	}
}

// exitRemapPages follows areas that show another part of their file now.
func (r *recording) exitRemapPages(t *thread, c *call) {
	start, end, file := c.arguments[0], c.arguments[0]+pages(c.arguments[1]), c.arguments[3]*page
	moved := t.space.parts(start, end)
	for _, a := range moved {
		a.view.use() // over the removal
	}
	t.space.remove(start, end)
	for _, a := range moved {
		v, to := a.view, file+a.start-start // in the file
		switch {
		case a.guard != nil:
			_, _ = r.inject(t, unix.SYS_MPROTECT, a.start, a.end-a.start, a.prot)
		case a.host != nil:
			_, _ = r.inject(t, unix.SYS_MPROTECT, a.start, a.end-a.start, a.prot)
			r.report("process %d maps other memory over watched host memory at %x "+
				"(remap_file_pages): it is no longer watched", t.process, a.start)
		case to < v.offset || to+a.end-a.start > v.offset+v.size:
			_, _ = r.inject(t, unix.SYS_MPROTECT, a.start, a.end-a.start, a.prot)
			r.gap("process %d maps another part of BAR %d of %s (remap_file_pages), which is not "+
				"recorded", t.process, a.bar.index, a.bar.device.name)
		default:
			a.offset += to - v.offset - a.at
			a.at = to - v.offset
			t.space.add(a)
		}
		v.drop()
	}
}

// opened is a descriptor of VFIO's, and which device it is of: its name under
// /proc does not tell.
type opened struct {
	process, fd int
	device      string
}

// inherit returns a child the descriptors of its parent.
func (r *recording) inherit(parent, child int) {
	for _, o := range r.opened {
		if o.process == parent {
			r.opened = append(r.opened, opened{child, o.fd, o.device})
		}
	}
}

// vfioName returns the device of a descriptor: the one it was last opened as,
// else the one that has the same file behind it, else the only one there is.
func (r *recording) vfioName(t *thread, fd int) string {
	only, several := "", false
	for i := len(r.opened) - 1; i >= 0; i-- {
		o := r.opened[i]
		if o.process != t.process {
			continue
		}
		if o.fd == fd || sameFile(t.tid, o.fd, fd) {
			return o.device
		}
		several = several || only != "" && only != o.device
		only = o.device
	}
	if several {
		return ""
	}
	return only
}

// sameFile asks whether two descriptors of a process are copies.
func sameFile(process, a, b int) bool {
	const kcmpFile = 0
	result, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(process), uintptr(process), kcmpFile,
		uintptr(a), uintptr(b), 0)
	return errno == 0 && result == 0
}
