package vfiouser

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Numbers and flags of VFIO for interrupts (include/uapi/linux/vfio.h, VFIO_DEVICE_SET_IRQS). The
// function has only MSI, with one message.
const (
	irqMSI      = 1      // index of MSI
	irqEventFD  = 1 << 2 // the request contains an eventfd
	irqTrigger  = 1 << 5 // the eventfd is for interrupts of the device
	irqSetSize  = 20     // bytes of a request to set interrupts
	irqEventful = 1      // flag in an answer: the interrupt can be signalled through an eventfd
)

// interrupt contains the eventfd of the client for MSI; nil if there is none.
type interrupt struct{ fd *int }

// take closes the previous eventfd and replaces it by fd.
func (i *interrupt) take(fd int) {
	i.close()
	i.fd = &fd
}

func (i *interrupt) close() {
	if i.fd != nil {
		unix.Close(*i.fd)
		i.fd = nil
	}
}

// raise signals the eventfd. It does nothing if there is none, or if the counter of the eventfd is
// full, because a write would then block.
func (i *interrupt) raise() {
	if i.fd == nil {
		return
	}
	set := []unix.PollFd{{Fd: int32(*i.fd), Events: unix.POLLOUT}}
	if n, _ := unix.Poll(set, 0); n == 1 && set[0].Revents&unix.POLLOUT != 0 {
		_, _ = unix.Write(*i.fd, binary.NativeEndian.AppendUint64(nil, 1))
	}
}

// isEventFD reports whether a file descriptor is an eventfd. A write to a pipe, socket or file
// could block the server until a reader reads.
func isEventFD(fd int) bool {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	return err == nil && strings.HasPrefix(name, "anon_inode:[eventfd")
}

// irqInfo answers which interrupts the function has: MSI, unless Options.Without excludes it.
func (f *Function) irqInfo(m *message) ([]byte, error) {
	index := binary.LittleEndian.Uint32(m.body[8:])
	if index == irqMSI && !slices.Contains(f.options.Without, "msi") {
		return words(16, irqEventful, index, 1), nil
	}
	return words(16, 0, index, 0), nil
}

// setIRQs sets the eventfd for MSI, or removes it if the request has none.
func (f *Function) setIRQs(m *message) ([]byte, error) {
	le := binary.LittleEndian
	flags, index, start, count := le.Uint32(m.body[4:]), le.Uint32(m.body[8:]),
		le.Uint32(m.body[12:]), le.Uint32(m.body[16:])
	switch {
	case count == 0:
		if index == irqMSI {
			f.irq.close()
		}
		return nil, nil
	case index != irqMSI || start != 0 || count != 1 || flags != irqEventFD|irqTrigger ||
		len(m.fds) != 1 || slices.Contains(f.options.Without, "msi"):
		return nil, fmt.Errorf("%w: the client requests %d interrupts from number %d, kind %d, "+
			"flags %#x, with %d file descriptors; this device supports at most one MSI, with an "+
			"eventfd",
			unix.EINVAL, count, start, index, flags, len(m.fds))
	}
	if !isEventFD(m.fds[0]) {
		return nil, fmt.Errorf("%w: the file descriptor of an interrupt must be an eventfd",
			unix.EINVAL)
	}
	f.irq.take(m.fds[0])
	m.fds = nil
	return nil, nil
}
