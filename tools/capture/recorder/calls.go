//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// call is a system call that a thread is in, and whose exit the recorder handles.
type call struct {
	number    uint64
	arguments [6]uint64 // arguments that the program passed
	// mmap: the part of a BAR that is mapped; nil: the call maps no BAR
	mappedBAR    *mapTarget
	mappedMemory *mapTarget // mmap: the host memory of a device that is mapped; nil: none
	mapsHuge     bool       // mmap: the mapping has huge pages
	barFD        int        // mmap: the recorder's copy of the file descriptor of the BAR
	// mprotect: the ranges that remain to be protected after the call
	remainingRanges []protectRange
	transfer        *fileTransfer // read, write and similar calls: the transfer
	ioctl           *ioctlHandler // ioctl: the request
	deviceName      string        // ioctl: name of the device that the program opens
	pointedArea     *area         // copy of the area to which an argument points; nil: none
	// the exit matters only because of pointedArea, pages that were opened or interrupts
	isMinor bool
	isWait  bool   // the exit may show an interrupt
	sleeps  uint64 // how often the thread had slept before
	// pages to open when the skipped call exits; then the thread makes the call again
	pagesToOpen []span
	openedPages []span // pages that were opened for this call
}

func (c *call) close() {
	if c.mappedBAR != nil {
		unix.Close(c.barFD)
	}
}

// protectRange is a range of memory that is either entirely in a BAR or entirely outside of BARs.
type protectRange struct {
	start, end uint64
	isBAR      bool
}

func roundUpToPage(length uint64) uint64 { return (length + pageSize - 1) &^ (pageSize - 1) }

// enterCall handles the entry of a system call. It returns true if it has resumed the thread, up to
// the exit of the call.
func (r *recording) enterCall(t *thread) bool {
	regs, err := registersOf(t.tid)
	if err != nil || t.space.released {
		return false
	}
	if regs.isForeign() {
		r.reportGap("process %d executes 32-bit code, or code of another architecture, "+
			"which lm cannot record", t.process)
		r.killProgram("it contains code of another architecture, which cannot be recorded")
		return false
	}
	if t.killIfForbidden(regs.call()) {
		return false
	}
	t.space.callAddress = regs.pc() - uint64(len(callInstruction))
	c := &call{number: regs.call()}
	for n := range c.arguments {
		c.arguments[n] = *regs.argument(n)
	}
	c.openedPages, t.openedPages = t.openedPages, nil
	pages := t.closedPages(c)
	if c.openedPages == nil && len(pages) > 0 && r.postponeCall(t, c, regs, pages) {
		return true
	}
	if a := t.pointedArea(c); a != nil {
		of := *a
		c.pointedArea = &of
	}
	c.isMinor, c.isWait = !r.prepareCall(t, c, regs), r.mayShowInterrupt(t, c)
	if c.isMinor && c.pointedArea == nil && c.openedPages == nil && !c.isWait {
		return false
	}
	if t.call = c; !c.isMinor {
		t.space.changingCalls++
	}
	return ptrace(unix.PTRACE_SYSCALL, t.tid, 0, 0) == nil
}

// prepareCall reports whether the recorder must handle the exit of a call. It may also change the
// arguments of the call.
func (r *recording) prepareCall(t *thread, c *call, regs *registers) bool {
	a := &c.arguments
	switch c.number {
	case unix.SYS_MMAP:
		return r.enterMmap(t, c, regs)
	case unix.SYS_MUNMAP:
		return r.unmapsRecorded(t, c, a[0], a[0]+roundUpToPage(a[1]))
	case unix.SYS_REMAP_FILE_PAGES:
		return len(t.space.areasBetween(a[0], a[0]+roundUpToPage(a[1]))) > 0
	case unix.SYS_PRCTL, unix.SYS_SECCOMP:
		return requestsStrict(c)
	case unix.SYS_MREMAP:
		return len(t.space.areasBetween(a[0], a[0]+max(roundUpToPage(a[1]), 1))) > 0 ||
			a[3]&unix.MREMAP_FIXED != 0 &&
				len(t.space.areasBetween(a[4], a[4]+roundUpToPage(a[2]))) > 0
	case unix.SYS_MPROTECT, unix.SYS_PKEY_MPROTECT:
		return r.enterMprotect(t, c, regs)
	case unix.SYS_CLONE:
		*regs.argument(0) &^= unix.CLONE_UNTRACED
		_ = regs.write(t.tid)
	case unix.SYS_CLONE3:
		var flags [8]byte
		if readMemory(t.tid, a[0], flags[:]) == 8 && flags[2]&0x80 != 0 { // CLONE_UNTRACED
			flags[2] &^= 0x80
			writeMemory(t.tid, a[0], flags[:])
		}
	case unix.SYS_IOCTL:
		return r.enterIoctl(t, c)
	case unix.SYS_RT_SIGACTION:
		return true
	case unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_MEMFD_CREATE, callOpen, unix.SYS_DUP, callDup2,
		unix.SYS_DUP3, unix.SYS_FCNTL:
		return true
	case unix.SYS_EXIT_GROUP:
		r.recordChanges(byProgram)
	case unix.SYS_CLOSE:
		path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid, a[0]))
		return isVFIOFile(path) && r.recordBeforeUnmap(t, c)
	}
	if _, ok := transferCalls[c.number]; ok {
		return r.enterTransfer(t, c)
	}
	r.reportBypass(t, c)
	return false
}

// enterMmap removes the access rights from a mapping of a BAR, and copies the file descriptor while
// the program has it open.
func (r *recording) enterMmap(t *thread, c *call, regs *registers) bool {
	start, length, prot, flags, fd, offset := c.arguments[0], roundUpToPage(c.arguments[1]),
		c.arguments[2],
		c.arguments[3], int(int32(c.arguments[4])),
		c.arguments[5]
	over := flags&unix.MAP_FIXED != 0 && r.unmapsRecorded(t, c, start, start+length)
	c.mapsHuge = length > 0 && mapsHugePages(t, fd, flags)
	if flags&unix.MAP_ANONYMOUS != 0 || length == 0 {
		return over || c.mapsHuge
	}
	m, err := r.identifyMapping(t, fd, offset, length)
	if m != nil && m.bar == nil {
		c.mappedMemory, c.mapsHuge = m, false // the option --file specifies its bus address
		return true
	}
	if c.mapsHuge {
		return true
	}
	if err == nil && m != nil {
		c.barFD, err = r.copyMappedFD(t, fd, prot, flags)
		if c.barFD < 0 && err == nil {
			return over // the kernel will reject the call
		}
	}
	if err != nil {
		r.reportGap("a mapping of process %d is not recorded: %v", t.process, err)
		return over
	}
	if m == nil {
		return over
	}
	c.mappedBAR = m
	*regs.argument(2) = unix.PROT_NONE
	_ = regs.write(t.tid)
	return true
}

// unmapsRecorded reports whether a call unmaps a BAR, or memory that a device reaches.
func (r *recording) unmapsRecorded(t *thread, c *call, start, end uint64) bool {
	huge := r.hasHugePages(t.space, start, end)
	if huge {
		r.recordBeforeUnmap(t, c)
	}
	return huge || len(t.space.areasBetween(start, end)) > 0
}

// copyMappedFD copies a file descriptor of the program to the recorder. It returns -1 if the mode
// of the descriptor does not permit the mapping.
func (r *recording) copyMappedFD(t *thread, fd int, prot, flags uint64) (int, error) {
	own, err := copyFD(t, fd)
	if err != nil {
		return -1, err
	}
	read, write := openMode(own)
	shared := flags&unix.MAP_TYPE != unix.MAP_PRIVATE
	switch {
	case !read, shared && prot&unix.PROT_WRITE != 0 && !write:
		unix.Close(own)
		return -1, nil
	case !shared && prot&unix.PROT_WRITE != 0:
		unix.Close(own)
		return -1, fmt.Errorf("the mapping is private, " +
			"so the program's stores do not reach the device")
	}
	return own, nil
}

// copyFD copies a file descriptor of the program to the recorder. It opens the thread if the kernel
// can (Linux 6.9), because the first thread of the process may have ended.
func copyFD(t *thread, fd int) (own int, err error) {
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

// enterMprotect keeps BARs inaccessible when the program changes access rights. A call for BARs and
// other memory is split: the thread makes the call for the first range, and exitMprotect makes it
// for the others.
func (r *recording) enterMprotect(t *thread, c *call, regs *registers) bool {
	start, end := c.arguments[0], c.arguments[0]+roundUpToPage(c.arguments[1])
	list := t.space.protectRanges(start, end)
	if len(list) == 0 {
		return len(t.space.areasBetween(start, end)) > 0 // protected memory also needs exitMprotect
	}
	c.remainingRanges = list[1:]
	*regs.argument(1) = list[0].end - list[0].start
	if list[0].isBAR {
		*regs.argument(2) = unix.PROT_NONE
	}
	_ = regs.write(t.tid)
	return true
}

// protectRanges splits a range at the ends of the BARs in it. The result is empty if the range
// contains no BAR.
func (s *space) protectRanges(start, end uint64) (list []protectRange) {
	for _, a := range s.areasBetween(start, end) {
		if a.guard != nil {
			continue
		}
		if a.start > start {
			list = append(list, protectRange{start, a.start, false})
		}
		list = append(list, protectRange{a.start, a.end, true})
		start = a.end
	}
	if len(list) > 0 && start < end {
		list = append(list, protectRange{start, end, false})
	}
	return list
}

func (r *recording) exitCall(t *thread) {
	c := t.call
	if c == nil {
		return
	}
	defer t.leaveCall()
	regs, err := registersOf(t.tid)
	if err != nil {
		return
	}
	if c.pagesToOpen != nil {
		r.restartCall(t, c, regs)
		return
	}
	r.closePagesAfter(t, c)
	if c.pointedArea != nil && callError(regs.result()) == unix.EFAULT {
		r.reportBadPointer(t, c)
	}
	if c.isWait {
		r.recordInterrupts(t, c, regs.result())
	}
	if c.isMinor {
		return
	}
	for n, v := range c.arguments { // the program relies on unchanged argument registers
		if n > 0 || callKeepsFirstArgument {
			*regs.argument(n) = v
		}
	}
	_ = regs.write(t.tid)
	failed := callError(regs.result()) != 0
	switch c.number {
	case unix.SYS_MPROTECT, unix.SYS_PKEY_MPROTECT:
		r.exitMprotect(t, c, regs, failed)
		return
	case unix.SYS_PRCTL, unix.SYS_SECCOMP:
		r.exitStrictRequest(t, c, regs)
		return
	case unix.SYS_IOCTL:
		if !failed {
			c.ioctl.exit(r, t, c, regs.result())
		}
		return
	}
	if !failed {
		r.applySuccess(t, c, regs)
	}
}

// applySuccess updates the state of the recording after a successful system call, which may have
// changed the mappings, open files or signal handlers of its process.
func (r *recording) applySuccess(t *thread, c *call, regs *registers) {
	if c.transfer != nil {
		r.exitTransfer(t, c, regs.result())
		return
	}
	switch c.number {
	case unix.SYS_MMAP:
		r.exitMmap(t, c, regs.result())
	case unix.SYS_MUNMAP:
		t.space.remove(c.arguments[0], c.arguments[0]+roundUpToPage(c.arguments[1]))
		r.removeHugePages(t, c.arguments[0], c.arguments[0]+roundUpToPage(c.arguments[1]))
	case unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_MEMFD_CREATE, callOpen, unix.SYS_DUP, callDup2,
		unix.SYS_DUP3, unix.SYS_FCNTL:
		r.handleOpenedFD(t, regs.result())
	case unix.SYS_MREMAP:
		r.exitMremap(t, c, regs.result())
	case unix.SYS_REMAP_FILE_PAGES:
		r.exitRemapFilePages(t, c)
	case unix.SYS_CLOSE:
		r.handleVFIOClose(t)
	case unix.SYS_RT_SIGACTION:
		t.exitSigaction(c)
	}
}

func (r *recording) exitMmap(t *thread, c *call, at uint64) {
	length, prot := roundUpToPage(c.arguments[1]), c.arguments[2]
	t.space.remove(at, at+length)
	r.resetProtected(t.space, at, at+length)
	r.removeHugePages(t, at, at+length)
	if c.mapsHuge {
		t.space.hugePages.add(at, at+length)
	}
	if c.mappedMemory != nil {
		r.addDMARange(t, at, length, c.mappedMemory.offset)
	}
	if c.mappedBAR == nil {
		return
	}
	v, err := newView(c.barFD, c.arguments[5], length)
	if err != nil {
		r.reportGap("process %d maps BAR %d of %s, but lm cannot record this mapping: %v",
			t.process,
			c.mappedBAR.bar.index, c.mappedBAR.bar.device.name, err)
		_, _ = r.injectCall(t, unix.SYS_MPROTECT, at, length, prot)
		return
	}
	t.space.add(area{at, at + length, c.mappedBAR.bar, c.mappedBAR.offset, prot, v, 0, nil, nil})
	r.stopPointers(t, at, at+length)
	r.out.Line("NOTE process %d maps BAR %d of %s from 0x%x on, 0x%x bytes", t.process,
		c.mappedBAR.bar.index, c.mappedBAR.bar.device.name, c.mappedBAR.offset,
		length)
}

// exitMprotect makes the rest of a call that enterMprotect has split.
func (r *recording) exitMprotect(t *thread, c *call, regs *registers, failed bool) {
	first := c.arguments[0] + roundUpToPage(c.arguments[1])
	if len(c.remainingRanges) > 0 {
		first = c.remainingRanges[0].start
	}
	if !failed {
		t.space.setProtection(c.arguments[0], first, c.arguments[2])
		r.resetProtected(t.space, c.arguments[0], first)
	}
	for _, s := range c.remainingRanges {
		if failed {
			return
		}
		prot := c.arguments[2]
		if s.isBAR {
			prot = unix.PROT_NONE
		}
		result, err := r.injectCall(t, c.number, s.start, s.end-s.start, prot, c.arguments[3])
		if failed = err != nil; failed {
			regs.setResult(result)
			_ = regs.write(t.tid)
			return
		}
		t.space.setProtection(s.start, s.end, c.arguments[2])
		r.resetProtected(t.space, s.start, s.end)
	}
}

// exitMremap moves areas to their new addresses.
func (r *recording) exitMremap(t *thread, c *call, at uint64) {
	old, oldLength, length, flags := c.arguments[0], roundUpToPage(c.arguments[1]),
		roundUpToPage(c.arguments[2]),
		c.arguments[3]
	moved := t.space.areasBetween(old, old+max(oldLength, pageSize))
	for i := range moved {
		moved[i].view.addUse() // keep the view while the area is removed
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
			if a.guard != nil { // the device does not reach the new address
				_, _ = r.injectCall(t, unix.SYS_MPROTECT, a.start, a.end-a.start, a.prot)
				v.dropUse()
				continue
			}
			t.space.add(a)
			r.stopPointers(t, a.start, a.end)
			v.dropUse()
		}
	}
	if len(moved) > 0 && moved[0].guard == nil && (length > oldLength || oldLength == 0) {
		r.reportGap("process %d enlarges a mapping of a BAR by mremap: "+
			"accesses beyond the first 0x%x bytes are not recorded", t.process, oldLength)
		_, _ = r.injectCall(t, unix.SYS_MPROTECT, at+oldLength, length-oldLength, moved[0].prot)
	}
}

// exitRemapFilePages updates areas that map another part of their file now.
func (r *recording) exitRemapFilePages(t *thread, c *call) {
	start, end, file := c.arguments[0], c.arguments[0]+roundUpToPage(c.arguments[1]),
		c.arguments[3]*pageSize
	moved := t.space.areasBetween(start, end)
	for _, a := range moved {
		a.view.addUse() // keep the view while the area is removed
	}
	t.space.remove(start, end)
	for _, a := range moved {
		v, to := a.view, file+a.start-start // offset in the file
		switch {
		case a.guard != nil:
			_, _ = r.injectCall(t, unix.SYS_MPROTECT, a.start, a.end-a.start, a.prot)
		case a.watched != nil:
			_, _ = r.injectCall(t, unix.SYS_MPROTECT, a.start, a.end-a.start, a.prot)
			r.reportEvent("process %d maps other memory over watched host memory at 0x%x "+
				"(remap_file_pages): this memory is no longer watched", t.process, a.start)
		case to < v.offset || to+a.end-a.start > v.offset+v.size:
			_, _ = r.injectCall(t, unix.SYS_MPROTECT, a.start, a.end-a.start, a.prot)
			r.reportGap("process %d maps another part of BAR %d of %s (remap_file_pages): "+
				"accesses to this part are not recorded", t.process, a.bar.index, a.bar.device.name)
		default:
			a.offset += to - v.offset - a.viewOffset
			a.viewOffset = to - v.offset
			t.space.add(a)
		}
		v.dropUse()
	}
}

// vfioFD is a file descriptor of a VFIO device. The link under /proc does not name the device.
type vfioFD struct {
	process, fd int
	device      string
}

// inheritVFIOFDs adds the VFIO file descriptors of a parent process to a child process.
func (r *recording) inheritVFIOFDs(parent, child int) {
	for _, o := range r.vfioFDs {
		if o.process == parent {
			r.vfioFDs = append(r.vfioFDs, vfioFD{child, o.fd, o.device})
		}
	}
}

// vfioDeviceName returns the name of the device of a VFIO file descriptor: the device for which the
// descriptor was opened last, else the device of a descriptor for the same open file, else the only
// VFIO device of the process. It returns "" if the process has several.
func (r *recording) vfioDeviceName(t *thread, fd int) string {
	only, several := "", false
	for i := len(r.vfioFDs) - 1; i >= 0; i-- {
		o := r.vfioFDs[i]
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

// sameFile reports whether two file descriptors of a process refer to the same open file.
func sameFile(process, a, b int) bool {
	const kcmpFile = 0
	result, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(process), uintptr(process), kcmpFile,
		uintptr(a), uintptr(b), 0)
	return errno == 0 && result == 0
}
