package rv32

import "fmt"

// Reason is the reason why a core does not run.
type Reason string

const (
	Running         Reason = ""
	Illegal         Reason = "illegal instruction"
	Coprocessor     Reason = "Tensix coprocessor instruction, which is not modelled"
	FenceRefused    Reason = "fence that does not do on this core what the manual says"
	FetchRefused    Reason = "no instruction can be fetched from here"
	LoadRefused     Reason = "load refused"
	StoreRefused    Reason = "store refused"
	LoadMisaligned  Reason = "misaligned load"
	StoreMisaligned Reason = "misaligned store"
	JumpMisaligned  Reason = "jump to a misaligned address"
	EnvironmentCall Reason = "ecall, and there is no semihosting"
	Breakpoint      Reason = "ebreak, and there is no debugger"
)

// illegal returns the reason why i is not executed. Words whose low two bits are not both set
// are for the Tensix coprocessor. Fences exist, but Wormhole's do not order accesses, and
// fence.i does not change the instruction cache on either chip (all ttsim v1.10.0
// src/riscv_impl.h).
func illegal(i instruction) Reason {
	switch {
	case i&3 != 3:
		return Coprocessor
	case i.opcode() == opMiscMem && i.funct3() <= 1:
		return FenceRefused
	}
	return Illegal
}

// Stop is the reason and place where a core stopped.
type Stop struct {
	Reason      Reason
	PC          uint32
	Instruction uint32
	Address     uint32 // of the load, store or jump; otherwise PC
}

// String returns a line for people, such as
// "pc 0x00000024: misaligned load, address 0x00010011, instruction 0x00052503".
func (s Stop) String() string {
	text := fmt.Sprintf("pc %#08x: %s", s.PC, s.Reason)
	if s.Address != s.PC {
		text += fmt.Sprintf(", address %#08x", s.Address)
	}
	if s.Reason != FetchRefused {
		text += fmt.Sprintf(", instruction %#08x", s.Instruction)
	}
	return text
}
