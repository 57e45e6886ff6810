package recorder

import (
	"lightmetal/tools/recorder/x86"

	"golang.org/x/sys/unix"
)

// step carries out the instruction that a thread faulted in. Registers change
// as far as it got, whatever the error.
func step(tid int, fault uint64, memory *memory) error {
	r, err := registersOf(tid)
	if err != nil {
		return err
	}
	var code [15]byte
	n := readCode(tid, r.Rip, code[:])
	var vectors *vectorState
	s := x86.State{
		Reg: [16]uint64{r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15},
		IP:  r.Rip, Flags: r.Eflags, FSBase: r.Fs_base, GSBase: r.Gs_base,
		Vectors: func() (v *x86.Vectors, err error) {
			if vectors == nil {
				vectors, err = vectorsOf(tid)
			}
			if err != nil {
				return nil, err
			}
			return &vectors.data, nil
		},
		Run: memory.carryOut, Alone: memory.alone,
	}
	failed := x86.Step(code[:n], fault, &s, memory)
	if s.Ran && failed == nil {
		if r, err = registersOf(tid); err != nil {
			return err
		}
		r.setPC(s.IP)
		return r.put(tid)
	}
	for i, to := range [...]*uint64{&r.Rax, &r.Rcx, &r.Rdx, &r.Rbx, &r.Rsp, &r.Rbp, &r.Rsi, &r.Rdi, &r.R8, &r.R9, &r.R10, &r.R11, &r.R12, &r.R13,
		&r.R14, &r.R15} {
		*to = s.Reg[i]
	}
	r.Rip, r.Eflags = s.IP, s.Flags
	if s.VectorsChanged && failed == nil {
		if err := vectors.put(); err != nil {
			return err
		}
	}
	if err := r.put(tid); err != nil {
		return err
	}
	return failed
}

// alone tells whether an address is of a BAR: the accesses of all threads to it
// come through the recorder. What a device does to itself no lock keeps it from.
func (m *memory) alone(address uint64) bool {
	a := m.space.find(address)
	return a != nil && a.host == nil
}

// carryOut has the thread carry out an instruction on data, in a page of its own.
// A signal of the instruction's is the program's, at the one it has there.
func (m *memory) carryOut(code, data []byte) error {
	before, err := registersOf(m.tid)
	if err == nil && m.space.scratch == 0 {
		var at uint64
		rights := uint64(unix.PROT_READ | unix.PROT_WRITE | unix.PROT_EXEC)
		if at, err = m.inject(m.thread, unix.SYS_MMAP, 0, page, rights, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uint64(0), 0); err == nil {
			m.space.scratch = at
		}
	}
	if err != nil {
		return err
	}
	text := append(make([]byte, 0, x86.DataAt+len(data)), code...)
	if _, err := m.space.file(m.process).WriteAt(append(text[:x86.DataAt], data...), int64(m.space.scratch)); err != nil {
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
	_, err = m.space.file(m.process).ReadAt(data, int64(m.space.scratch)+x86.DataAt)
	return err
}

// singleStep ends where the instruction has. Signals that come before come again.
func (m *memory) singleStep(at uint64) error {
	for {
		if err := ptrace(unix.PTRACE_SINGLESTEP, m.tid, 0, 0); err != nil {
			return err
		}
		_, status, err := wait(m.tid)
		if err != nil || !status.Stopped() {
			m.ended(m.thread, status)
			return unix.ESRCH
		}
		switch signal := status.StopSignal(); signal {
		case unix.SIGTRAP:
			return nil
		case unix.SIGFPE, unix.SIGILL, unix.SIGSEGV, unix.SIGBUS:
			return &accessFault{signal, 1, at}
		default:
			defer func() { _ = unix.Tgkill(m.process, m.tid, signal) }()
		}
	}
}
