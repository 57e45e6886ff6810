package recorder

import (
	"cmp"
	"errors"
	"fmt"

	"lightmetal/tools/capture/recorder/x86"

	"golang.org/x/sys/unix"
)

// step executes the instruction at which a thread has faulted. If it returns an error, the
// registers show how far a repeated instruction has got.
func step(tid int, fault uint64, memory *memory) error {
	r, err := registersOf(tid)
	if err != nil {
		return err
	}
	code := memory.space.follower.begin(memory, r.Rip)
	var vectors *vectorState
	s := x86.State{
		IP: r.Rip, Flags: r.Eflags, FSBase: r.Fs_base, GSBase: r.Gs_base,
		Vectors: func() (v *x86.Vectors, err error) {
			if vectors == nil {
				vectors, err = vectorsOf(tid)
			}
			if err != nil {
				return nil, err
			}
			return &vectors.data, nil
		},
		Prepare: memory.prepareCode, Run: memory.runPrepared, Serialized: memory.isSerialized,
	}
	general := [...]*uint64{&r.Rax, &r.Rcx, &r.Rdx, &r.Rbx, &r.Rsp, &r.Rbp, &r.Rsi, &r.Rdi, &r.R8,
		&r.R9, &r.R10, &r.R11, &r.R12, &r.R13, &r.R14, &r.R15}
	for i, from := range general {
		s.Reg[i] = *from
	}
	failed := x86.Step(code, fault, &s, memory)
	memory.out.FlushRun()
	if failed == nil && !s.Ran {
		memory.space.follower.run(&s)
	}
	if errors.Is(failed, unix.ESRCH) { // the thread has ended, or executes another program
		return failed
	}
	if s.Ran && failed == nil {
		if r, err = registersOf(tid); err != nil {
			return err
		}
		r.setPC(s.IP)
		return r.write(tid)
	}
	for i, to := range general {
		*to = s.Reg[i]
	}
	r.Rip, r.Eflags = s.IP, s.Flags
	if s.VectorsChanged && failed == nil {
		if err := vectors.write(); err != nil {
			return err
		}
	}
	return cmp.Or(r.write(tid), failed)
}

// isSerialized reports whether only the recorder makes the accesses of all threads to an address:
// accesses to a BAR, and stores to a closed page. This is enough for a locked instruction: a lock
// never excludes accesses that a device makes to its own BAR, and a device does not store to a lock
// in memory that it shares with the program.
func (m *memory) isSerialized(address uint64) bool {
	a := m.space.areaAt(address)
	return a != nil && a.watched == nil && (a.guard == nil || a.isClosed(address))
}

// prepareCode copies an instruction to a page of the process. If the process does not have the page
// any more, or as a child never had it, prepareCode maps a new page.
func (m *memory) prepareCode(code []byte) (err error) {
	const rights = unix.PROT_READ | unix.PROT_WRITE | unix.PROT_EXEC
	for range 2 {
		if m.space.codePage == 0 {
			at, err := m.injectCall(m.thread, unix.SYS_MMAP, 0, pageSize, rights,
				unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uint64(0), 0)
			if err == nil && at%pageSize != 0 {
				err = unix.EFAULT
			}
			if err != nil {
				return fmt.Errorf("lm cannot map a writable and executable page in the program "+
					"to execute an instruction: %w", err)
			}
			m.space.codePage = at
		}
		if _, err = m.space.file(m.tid).WriteAt(code, int64(m.space.codePage)); err == nil {
			return nil
		}
		m.space.codePage = 0
	}
	return err
}

// runPrepared makes the thread execute the prepared instruction on data. If the instruction causes
// a signal, the program gets it, at the address of its own instruction.
func (m *memory) runPrepared(data []byte) error {
	before, err := registersOf(m.tid)
	if err != nil {
		return err
	}
	at := int64(m.space.codePage) + x86.DataOffset
	if _, err := m.space.file(m.tid).WriteAt(data, at); err != nil {
		return err
	}
	regs := *before
	regs.setPC(m.space.codePage)
	if err := regs.write(m.tid); err != nil {
		return err
	}
	if err := m.singleStep(before.pc()); err != nil {
		return err
	}
	_, err = m.space.file(m.tid).ReadAt(data, at)
	return err
}

const codeStep = 2 // TRAP_TRACE

// singleStep makes the thread execute one instruction, up to its end. If a process sends the
// program a SIGTRAP at the same moment, the stop of the step does not occur. In this case the
// instruction pointer shows that the thread has executed the instruction.
func (m *memory) singleStep(at uint64) error {
	var fault *accessFault
	err := m.runUntilStop(m.thread, unix.PTRACE_SINGLESTEP,
		func(signal unix.Signal, info signalInfo) bool {
			switch code := info.code(); signal {
			case unix.SIGTRAP:
				r, err := registersOf(m.tid)
				done := err == nil && r.pc() != m.space.codePage
				if done && code != codeStep {
					_ = unix.Tgkill(m.process, m.tid, signal)
				}
				return done || code == codeStep
			case unix.SIGFPE, unix.SIGILL, unix.SIGSEGV, unix.SIGBUS:
				if code > 0 { // sent by the kernel, not by a process
					fault = &accessFault{signal, code, at}
				}
			}
			return fault != nil
		})
	if fault != nil {
		return fault
	}
	return err
}
