package recorder

import (
	"encoding/binary"
	"errors"
	"fmt"

	"lightmetal/tools/capture/recorder/a64"

	"golang.org/x/sys/unix"
)

// zeroBlock is the register DCZID_EL0.
func zeroBlock() uint64

// copyFlags returns the flags after a set of no bytes (FEAT_MOPS), which has to
// exist: C is the format of registers that the processor uses, option A or B. On
// another one the kernel converts the registers (arm64_mops_reset_regs).
func copyFlags() uint64

const flagC = 1 << 29

// step executes the instruction that a thread faulted in.
func step(tid int, fault uint64, m *memory) error {
	var monitor a64.Monitor
	code, err := m.execute(tid, fault, &monitor)
	if err == nil && a64.IsExclusiveStore(code) {
		err = m.repeatExclusive(&monitor)
	}
	return err
}

// execute executes one instruction of a thread, and returns its code.
func (m *memory) execute(tid int, fault uint64, monitor *a64.Monitor) (code uint32, err error) {
	r, err := registersOf(tid)
	if err != nil {
		return 0, err
	}
	if code, err = codeAt(tid, r.PC); err != nil {
		return 0, err
	}
	var vectors *vectorSet
	s := a64.State{
		X: r.X, SP: r.SP, PC: r.PC, Flags: r.PS, Zero: 4 << (zeroBlock() & 15),
		Alone: m.alone, Monitor: *monitor,
		OptionB: func() bool { return copyFlags()&flagC != 0 },
		Vectors: func() (v *a64.Vectors, err error) {
			vectors, err = vectorsOf(tid)
			if err != nil {
				return nil, err
			}
			return &vectors.Vectors, nil
		},
	}
	err = a64.Step(code, fault, &s, m)
	var denied *accessFault
	if err != nil && !errors.As(err, &denied) {
		return code, err
	}
	if s.VectorsChanged {
		if err := vectors.put(tid); err != nil {
			return code, err
		}
	}
	*monitor = s.Monitor
	r.X, r.SP, r.PC, r.PS = s.X, s.SP, s.PC, s.Flags
	if perr := r.put(tid); perr != nil {
		return code, perr
	}
	return code, err
}

func codeAt(tid int, pc uint64) (uint32, error) {
	var code [4]byte
	if readCode(tid, pc, code[:]) != len(code) {
		return 0, unix.ESRCH
	}
	return binary.LittleEndian.Uint32(code[:]), nil
}

// alone reports whether the stores of all threads to an address come through the
// recorder, which executes one at a time: those to a closed page.
func (m *memory) alone(address uint64) bool {
	a := m.space.find(address)
	return a != nil && a.isClosed(address)
}

// exclusiveSteps bounds how many instructions of a thread are stepped through after an
// exclusive store that failed. Loops of compilers have up to ten.
const exclusiveSteps = 128

// repeatExclusive follows a thread whose exclusive store has failed, since what its
// exclusive load told the processor is lost by the fault. It goes on to the load, which
// the recorder executes, and to the store, which succeeds now unless a device has written
// to the memory in between.
func (m *memory) repeatExclusive(monitor *a64.Monitor) error {
	for range exclusiveSteps {
		r, err := registersOf(m.tid)
		if err != nil {
			return err
		}
		code, err := codeAt(m.tid, r.PC)
		if err != nil {
			return err
		}
		if code&0xffe0001f == 0xd4000001 { // SVC: a system call is followed elsewhere
			return nil
		}
		if !a64.IsExclusive(code) {
			if stepped, err := m.stepOver(); err != nil || !stepped {
				return err
			}
			continue
		}
		if _, err = m.execute(m.tid, 0, monitor); err != nil {
			var refusal *a64.Refusal
			if errors.As(err, &refusal) {
				return nil // of other memory: the processor executes it
			}
			return err
		}
		if monitor.Stored {
			return nil
		}
	}
	return fmt.Errorf("an exclusive store is not repeated within %d instructions", exclusiveSteps)
}

// stepOver has the thread execute one instruction. false: a signal came instead, which it
// gets again with the next try.
func (m *memory) stepOver() (stepped bool, err error) {
	const codeStep = 2 // TRAP_TRACE
	err = m.until(m.thread, unix.PTRACE_SINGLESTEP,
		func(signal unix.Signal, info signalInfo) bool {
			stepped = signal == unix.SIGTRAP && info.code() == codeStep
			switch signal {
			case unix.SIGTRAP, unix.SIGSEGV, unix.SIGBUS, unix.SIGILL, unix.SIGFPE:
				return info.code() > 0 // of the kernel, not of a process
			}
			return false
		})
	return stepped, err
}

// follower is not there: each access is a stop.
type follower struct{}
