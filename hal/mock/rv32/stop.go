package rv32

import "fmt"

// Reason is why a core has stopped, as a text for messages.
type Reason string

const (
	Running      Reason = ""
	Illegal      Reason = "illegal instruction"
	Coprocessor  Reason = "Tensix coprocessor instruction, which only ttsim executes"
	FenceRefused Reason = "fence instruction, which this core does not implement as in the " +
		"RISC-V manual"
	FetchRefused    Reason = "no instruction can be fetched from this address"
	LoadRefused     Reason = "load refused"
	StoreRefused    Reason = "store refused"
	LoadMisaligned  Reason = "misaligned load"
	StoreMisaligned Reason = "misaligned store"
	JumpMisaligned  Reason = "jump to a misaligned address"
	EnvironmentCall Reason = "ecall, but there is no semihosting"
	Breakpoint      Reason = "ebreak, but there is no debugger"
)

// illegalReason returns why a core cannot execute an instruction. An instruction whose lowest two
// bits are not both 1 is for the Tensix coprocessor. FenceRefused is for fence on Wormhole, which
// does not order accesses, for forms of fence that ttsim does not accept, and for fence.i, which
// does not change the instruction cache on either chip (ttsim v1.10.0 src/riscv_impl.h).
func illegalReason(i instruction) Reason {
	switch {
	case i&3 != 3:
		return Coprocessor
	case i.opcode() == opMiscMem && i.funct3() <= 1:
		return FenceRefused
	}
	return Illegal
}

// Stop describes why and where a core stopped.
type Stop struct {
	Reason      Reason
	PC          uint32 // address of the instruction that stopped the core
	Instruction uint32 // 0 if it could not be fetched
	Address     uint32 // address that a load, store or jump accessed; otherwise PC
}

// String returns one line of text, such as
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
