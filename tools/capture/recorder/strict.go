//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// A thread with a seccomp filter cannot enter seccomp's strict mode, and each thread of a recorded
// program has a filter. Therefore the recorder implements strict mode: it installs a filter that
// stops all other calls than the four of strict mode, and kills the process at such a call, as the
// kernel would.

const modeStrict = 0 // SECCOMP_SET_MODE_STRICT

// strictCalls are the system calls that strict mode permits.
var strictCalls = []uint32{unix.SYS_READ, unix.SYS_WRITE, unix.SYS_EXIT, unix.SYS_RT_SIGRETURN}

func requestsStrict(c *call) bool {
	if c.number == unix.SYS_PRCTL {
		return c.arguments[0] == unix.PR_SET_SECCOMP && c.arguments[1] == unix.SECCOMP_MODE_STRICT
	}
	return c.arguments[0] == modeStrict && c.arguments[1] == 0 && c.arguments[2] == 0
}

// exitStrictRequest makes a thread enter strict mode, after the kernel has denied it.
func (r *recording) exitStrictRequest(t *thread, c *call, regs *registers) {
	if callError(regs.result()) != unix.EINVAL {
		return
	}
	if err := r.addFilterWithFlags(t, strictFilter(), 0); err != nil {
		r.reportEvent("process %d requests seccomp's strict mode, "+
			"which lm record could not set up: %v", t.process, err)
		return
	}
	t.isStrict = true
	regs.setResult(0)
	_ = regs.write(t.tid)
}

// strictFilter returns a filter that stops all calls except strictCalls.
func strictFilter() []byte {
	code := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: dataCall}}
	for n, call := range strictCalls {
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call,
			Jt: uint8(len(strictCalls) - n)})
	}
	code = append(code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: filterTrace},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: filterAllow})
	b, _ := binary.Append(nil, binary.NativeEndian, code) // no error: the size of the data is fixed
	return b
}

// killIfForbidden kills the process of a thread in strict mode that makes a call which strict mode
// does not permit. It reports whether it has.
func (t *thread) killIfForbidden(number uint64) bool {
	if !t.isStrict {
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
