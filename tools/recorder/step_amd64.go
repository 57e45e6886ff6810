package recorder

import "lightmetal/tools/recorder/x86"

// step carries out the instruction that a thread faulted in. Registers change
// as far as it got, whatever the error.
func step(tid int, fault uint64, memory x86.Memory) error {
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
	}
	failed := x86.Step(code[:n], fault, &s, memory)
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
