//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// reportBypass reports a system call by which a program may access a device without the recorder.
func (r *recording) reportBypass(t *thread, c *call) {
	switch c.number {
	case unix.SYS_IO_URING_SETUP:
		if key := fmt.Sprintf("io_uring %d", t.process); !r.reportedOnce[key] {
			r.reportedOnce[key] = true
			r.reportEvent("process %d uses io_uring: accesses to a device through io_uring are "+
				"not recorded", t.process)
		}
	case unix.SYS_IO_SETUP:
		r.reportEvent(
			"process %d uses Linux's AIO: accesses to a device through AIO are not recorded",
			t.process)
	case unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_COPY_FILE_RANGE:
		for _, n := range fileToFileCalls[c.number] {
			if path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid,
				int32(c.arguments[n]))); r.isDeviceFile(path) {
				r.reportGap("process %d makes the kernel copy data between %s and another file "+
					"(sendfile, splice, copy_file_range): the copy is not recorded",
					t.process, path)
			}
		}
	case unix.SYS_SENDMSG:
		for _, path := range r.sentDeviceFiles(t, c.arguments[1]) {
			r.reportEvent("process %d sends a descriptor of %s: accesses of the receiver "+
				"are not recorded if the program did not start the receiver", t.process, path)
		}
	}
}

// sentDeviceFiles returns the paths of the device files whose descriptors a message contains. The
// message is a struct msghdr, with control data that consists of struct cmsghdr.
func (r *recording) sentDeviceFiles(t *thread, message uint64) (paths []string) {
	const (
		header = 16 // bytes of a cmsghdr: length, level, type
		most   = 64 << 10
	)
	var msg [56]byte
	if readMemory(t.tid, message, msg[:]) != len(msg) {
		return nil
	}
	control := make([]byte, min(binary.NativeEndian.Uint64(msg[40:]), most))
	control = control[:readMemory(t.tid, binary.NativeEndian.Uint64(msg[32:]), control)]
	for len(control) >= header {
		n := binary.NativeEndian.Uint64(control)
		if n < header || n > uint64(len(control)) {
			break
		}
		if binary.NativeEndian.Uint32(control[8:]) == unix.SOL_SOCKET &&
			binary.NativeEndian.Uint32(control[12:]) == unix.SCM_RIGHTS {
			for at := uint64(header); at+4 <= n; at += 4 {
				path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid,
					binary.NativeEndian.Uint32(control[at:])))
				if r.isDeviceFile(path) {
					paths = append(paths, path)
				}
			}
		}
		control = control[min((n+7)&^7, uint64(len(control))):]
	}
	return paths
}

func (r *recording) representsBAR(path string) bool {
	return slices.ContainsFunc(r.options.Files,
		func(f File) bool { return f.matches(path) && !f.Memory })
}

// isDeviceFile reports whether a path is a file by which a program can access a device.
func (r *recording) isDeviceFile(path string) bool {
	return r.representsBAR(path) || isVFIOFile(path) || isPCIFunctionFile(path) ||
		path == "/dev/mem" || strings.HasPrefix(path, "/dev/uio") ||
		strings.HasPrefix(path, "/dev/tenstorrent/") || characterFile.MatchString(path)
}
