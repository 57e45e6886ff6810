//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// A thread with a filter cannot enter seccomp's strict mode, and each thread of
// a recorded program has one. So the recorder gives it a filter that stops all
// that strict mode forbids, and ends the process there as the kernel would.

const modeStrict = 0 // SECCOMP_SET_MODE_STRICT

// strictCalls are what strict mode allows.
var strictCalls = []uint32{unix.SYS_READ, unix.SYS_WRITE, unix.SYS_EXIT, unix.SYS_RT_SIGRETURN}

// isStrict reports whether a call asks for strict mode.
func isStrict(c *call) bool {
	if c.number == unix.SYS_PRCTL {
		return c.arguments[0] == unix.PR_SET_SECCOMP && c.arguments[1] == unix.SECCOMP_MODE_STRICT
	}
	return c.arguments[0] == modeStrict && c.arguments[1] == 0 && c.arguments[2] == 0
}

// exitStrict has the thread enter it, which the kernel has denied.
func (r *recording) exitStrict(t *thread, c *call, regs *registers) {
	if callError(regs.result()) != unix.EINVAL {
		return
	}
	if err := r.addFilterOf(t, strictFilter(), 0); err != nil {
		r.report("process %d requests seccomp's strict mode, which it does not get under lm "+
			"record: %v", t.process, err)
		return
	}
	t.strict = true
	regs.setResult(0)
	_ = regs.put(t.tid)
}

// strictFilter stops all calls but those that are allowed.
func strictFilter() []byte {
	code := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: dataCall}}
	for n, call := range strictCalls {
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call,
			Jt: uint8(len(strictCalls) - n)})
	}
	code = append(code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: filterTrace},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: filterAllow})
	b, _ := binary.Append(nil, binary.NativeEndian, code) // of a size that is known
	return b
}

// forbidden ends a thread in strict mode that makes another call than it may.
func (t *thread) forbidden(number uint64) bool {
	if !t.strict {
		return false
	}
	for _, allowed := range strictCalls {
		if number == uint64(allowed) {
			return false
		}
	}
	_ = unix.Kill(t.process, unix.SIGKILL)
	return true
}
