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

// past names calls by which a program can reach a device past the recorder.
func (r *recording) past(t *thread, c *call) {
	switch c.number {
	case unix.SYS_IO_URING_SETUP:
		r.report("process %d uses io_uring: accesses to a device by it are not recorded", t.process)
	case unix.SYS_IO_SETUP:
		r.report("process %d uses Linux's AIO: accesses to a device by it are not recorded",
			t.process)
	case unix.SYS_SENDFILE, unix.SYS_SPLICE, unix.SYS_COPY_FILE_RANGE:
		for _, n := range between[c.number] {
			if path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid,
				int32(c.arguments[n]))); r.isDevice(path) {
				r.gap("process %d copies between %s and another file in the kernel "+
					"(sendfile, splice, copy_file_range), which is not recorded", t.process, path)
			}
		}
	case unix.SYS_SENDMSG:
		for _, path := range r.sent(t, c.arguments[1]) {
			r.report("process %d sends a descriptor of %s: accesses by a process that the "+
				"program did not start are not recorded", t.process, path)
		}
	}
}

// sent returns the files of devices whose descriptors a message has: struct
// msghdr, with its control data of struct cmsghdr.
func (r *recording) sent(t *thread, message uint64) (paths []string) {
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
				if r.isDevice(path) {
					paths = append(paths, path)
				}
			}
		}
		control = control[min((n+7)&^7, uint64(len(control))):]
	}
	return paths
}

// standsFor reports whether a file stands for a BAR.
func (r *recording) standsFor(path string) bool {
	return slices.ContainsFunc(r.options.Files,
		func(f File) bool { return f.is(path) && !f.Memory })
}

// isDevice reports whether a file may be mapped, or moved to and from, as a device.
func (r *recording) isDevice(path string) bool {
	return r.standsFor(path) || ofVFIO(path) || functionFile(path) ||
		path == "/dev/mem" || strings.HasPrefix(path, "/dev/uio") ||
		strings.HasPrefix(path, "/dev/tenstorrent/")
}
