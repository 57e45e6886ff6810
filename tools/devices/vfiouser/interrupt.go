package vfiouser

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Interrupts, as VFIO counts and names them (include/uapi/linux/vfio.h,
// VFIO_DEVICE_SET_IRQS). The function has MSI, of one message.
const (
	irqMSI      = 1
	irqEventFD  = 1 << 2
	irqTrigger  = 1 << 5
	irqSetSize  = 20
	irqEventful = 1 // of an answer: it can be told by eventfd
)

// interrupt is where the client wants to be told of MSI.
type interrupt struct{ fd *int }

// take takes a descriptor over, and gives up the one before.
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

// raise tells the client. One that does not want to know is not told, nor is one
// that has been told so often that its eventfd is full: the write would wait.
func (i *interrupt) raise() {
	if i.fd == nil {
		return
	}
	set := []unix.PollFd{{Fd: int32(*i.fd), Events: unix.POLLOUT}}
	if n, _ := unix.Poll(set, 0); n == 1 && set[0].Revents&unix.POLLOUT != 0 {
		_, _ = unix.Write(*i.fd, binary.NativeEndian.AppendUint64(nil, 1))
	}
}

// isEventFD tells an eventfd from pipes, sockets and files, whose reader could
// have the server wait.
func isEventFD(fd int) bool {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	return err == nil && strings.HasPrefix(name, "anon_inode:[eventfd")
}

// irqInfo: MSI, unless it is left out, and nothing else.
func (f *Function) irqInfo(m *message) ([]byte, error) {
	index := binary.LittleEndian.Uint32(m.body[8:])
	if index == irqMSI && !slices.Contains(f.options.Without, "msi") {
		return words(16, irqEventful, index, 1), nil
	}
	return words(16, 0, index, 0), nil
}

// setIRQs takes the eventfd of MSI, or with none gives it up.
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
			"flags %#x, with %d descriptors; only one MSI is possible",
			unix.EINVAL, count, start, index, flags, len(m.fds))
	}
	if !isEventFD(m.fds[0]) {
		return nil, fmt.Errorf("%w: the descriptor of an interrupt is not an eventfd", unix.EINVAL)
	}
	f.irq.take(m.fds[0])
	m.fds = nil
	return nil, nil
}
