package recorder

import (
	"encoding/binary"
	"errors"
	"fmt"

	"lightmetal/tools/capture/recorder/a64"

	"golang.org/x/sys/unix"
)

// readDCZID returns the register DCZID_EL0.
func readDCZID() uint64

// flagsAfterSet returns the flags after a SET of no bytes (FEAT_MOPS), which the processor must
// support. The flag C says which format the processor uses for the registers, option A or B. When a
// thread moves to a processor with the other format, the kernel converts its registers
// (arm64_mops_reset_regs).
func flagsAfterSet() uint64

const flagC = 1 << 29

// step executes the instruction at which a thread has faulted.
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
		X: r.X, SP: r.SP, PC: r.PC, Flags: r.PS, ZVASize: 4 << (readDCZID() & 15),
		Serialized: m.isSerialized, Monitor: *monitor,
		OptionB: func() bool { return flagsAfterSet()&flagC != 0 },
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
		if err := vectors.write(tid); err != nil {
			return code, err
		}
	}
	*monitor = s.Monitor
	r.X, r.SP, r.PC, r.PS = s.X, s.SP, s.PC, s.Flags
	if perr := r.write(tid); perr != nil {
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

// isSerialized reports whether only the recorder makes the stores of all threads to an address, one
// at a time. That is the case in closed pages.
func (m *memory) isSerialized(address uint64) bool {
	a := m.space.areaAt(address)
	return a != nil && a.isClosed(address)
}

// exclusiveSteps limits the number of instructions that repeatExclusive executes. Loops of
// compilers have up to ten.
const exclusiveSteps = 128

// repeatExclusive repeats an exclusive store that has failed because the fault cleared the
// processor's exclusive monitor. It executes the instructions of the thread's loop up to the
// exclusive load and the exclusive store. The recorder executes these two. The store then succeeds
// unless a device has written to the memory in between.
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
		if code&0xffe0001f == 0xd4000001 { // SVC: enterCall handles system calls
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
				return nil // it accesses other memory: the processor executes it
			}
			return err
		}
		if monitor.Stored {
			return nil
		}
	}
	return fmt.Errorf("no exclusive store (STXR) succeeded within %d instructions", exclusiveSteps)
}

// stepOver makes the thread execute one instruction. It returns false if the thread has got a
// signal instead, which is sent to it again.
func (m *memory) stepOver() (stepped bool, err error) {
	const codeStep = 2 // TRAP_TRACE
	err = m.runUntilStop(m.thread, unix.PTRACE_SINGLESTEP,
		func(signal unix.Signal, info signalInfo) bool {
			stepped = signal == unix.SIGTRAP && info.code() == codeStep
			switch signal {
			case unix.SIGTRAP, unix.SIGSEGV, unix.SIGBUS, unix.SIGILL, unix.SIGFPE:
				return info.code() > 0 // sent by the kernel, not by a process
			}
			return false
		})
	return stepped, err
}

// follower is empty on arm64: the thread stops at each access.
type follower struct{}
