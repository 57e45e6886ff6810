package recorder

import (
	"cmp"
	"errors"
	"fmt"

	"lightmetal/tools/capture/recorder/x86"

	"golang.org/x/sys/unix"
)

// step executes the instruction that a thread faulted in. Registers change
// as far as it got, whatever the error.
func step(tid int, fault uint64, memory *memory) error {
	r, err := registersOf(tid)
	if err != nil {
		return err
	}
	code := memory.space.follow.begin(memory, r.Rip)
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
		Prepare: memory.prepare, Run: memory.carryOut, Alone: memory.alone,
	}
	general := [...]*uint64{&r.Rax, &r.Rcx, &r.Rdx, &r.Rbx, &r.Rsp, &r.Rbp, &r.Rsi, &r.Rdi, &r.R8,
		&r.R9, &r.R10, &r.R11, &r.R12, &r.R13, &r.R14, &r.R15}
	for i, from := range general {
		s.Reg[i] = *from
	}
	failed := x86.Step(code, fault, &s, memory)
	memory.out.endRun()
	if failed == nil && !s.Ran {
		memory.space.follow.run(&s)
	}
	if errors.Is(failed, unix.ESRCH) { // the thread has ended, or is another program now
		return failed
	}
	if s.Ran && failed == nil {
		if r, err = registersOf(tid); err != nil {
			return err
		}
		r.setPC(s.IP)
		return r.put(tid)
	}
	for i, to := range general {
		*to = s.Reg[i]
	}
	r.Rip, r.Eflags = s.IP, s.Flags
	if s.VectorsChanged && failed == nil {
		if err := vectors.put(); err != nil {
			return err
		}
	}
	return cmp.Or(r.put(tid), failed)
}

// alone reports whether the accesses of all threads to an address come through the
// recorder: those to a BAR, and stores to a closed page. What a device does to itself
// no lock keeps it from, nor does one that shares a page store to a lock in it.
func (m *memory) alone(address uint64) bool {
	a := m.space.find(address)
	return a != nil && a.host == nil && (a.guard == nil || a.isClosed(address))
}

// prepare puts an instruction into a page of its process. One that is not
// there any more, or never was in a child, is mapped once more.
func (m *memory) prepare(code []byte) (err error) {
	const rights = unix.PROT_READ | unix.PROT_WRITE | unix.PROT_EXEC
	for range 2 {
		if m.space.scratch == 0 {
			at, err := m.inject(m.thread, unix.SYS_MMAP, 0, page, rights,
				unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uint64(0), 0)
			if err == nil && at%page != 0 {
				err = unix.EFAULT
			}
			if err != nil {
				return fmt.Errorf("no writable and executable page can be mapped for the "+
					"instruction: %w", err)
			}
			m.space.scratch = at
		}
		if _, err = m.space.file(m.tid).WriteAt(code, int64(m.space.scratch)); err == nil {
			return nil
		}
		m.space.scratch = 0
	}
	return err
}

// carryOut has the thread execute the prepared instruction on data.
// A signal of the instruction's is the program's, at the one it has there.
func (m *memory) carryOut(data []byte) error {
	before, err := registersOf(m.tid)
	if err != nil {
		return err
	}
	at := int64(m.space.scratch) + x86.DataAt
	if _, err := m.space.file(m.tid).WriteAt(data, at); err != nil {
		return err
	}
	regs := *before
	regs.setPC(m.space.scratch)
	if err := regs.put(m.tid); err != nil {
		return err
	}
	if err := m.singleStep(before.pc()); err != nil {
		return err
	}
	_, err = m.space.file(m.tid).ReadAt(data, at)
	return err
}

const codeStep = 2 // TRAP_TRACE

// singleStep ends where the instruction has. A SIGTRAP that the program was sent
// in the same moment takes the step's place: the thread is after the instruction.
func (m *memory) singleStep(at uint64) error {
	var fault *accessFault
	err := m.until(m.thread, unix.PTRACE_SINGLESTEP,
		func(signal unix.Signal, info signalInfo) bool {
			switch code := info.code(); signal {
			case unix.SIGTRAP:
				r, err := registersOf(m.tid)
				done := err == nil && r.pc() != m.space.scratch
				if done && code != codeStep {
					_ = unix.Tgkill(m.process, m.tid, signal)
				}
				return done || code == codeStep
			case unix.SIGFPE, unix.SIGILL, unix.SIGSEGV, unix.SIGBUS:
				if code > 0 { // of the kernel, not of a process
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
