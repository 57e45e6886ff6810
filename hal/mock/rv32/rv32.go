// Package rv32 interprets the RISC-V instruction set RV32IM, which the RISC-V cores in
// Tenstorrent's Tensix tiles execute.
//
// Source: The RISC-V Instruction Set Manual, Volume I, version 20191213, chapters 2 (RV32I)
// and 7 (M extension). If the manual leaves a choice to the implementation, a core behaves as
// in the maker's simulator, ttsim v1.10.0 (src/riscv_impl.h). An instruction that ttsim
// rejects stops the core.
//
// The model has no caches, interrupts or traps. Every instruction takes one step, and is
// complete before the next one begins. A step allocates no memory.
package rv32

// Bus accesses memory and registers for a core. The core itself checks the alignment of addresses.
// If `ok` is false, nothing at the address accepts an access of that width, and the core stops.
type Bus interface {
	// Fetch returns the instruction at an address.
	Fetch(address uint32) (instruction uint32, ok bool)

	// Load returns the value of width bytes at an address.
	Load(address uint32, width uint8) (value uint32, ok bool)

	// Store stores the lowest width bytes of value at an address.
	Store(address uint32, width uint8, value uint32) (ok bool)
}

// Core is one RISC-V core. The zero value with a Bus starts at address 0. Blackhole's cores have
// extensions beyond RV32IM (Zba, Zbb, Zaamo). Here, such an instruction stops the core; no program
// in the captures and workloads of this repository has one.
type Core struct {
	Bus Bus

	// Fence makes the core accept the instruction fence, as Blackhole's cores do. On Wormhole,
	// fence does not order accesses, and ttsim rejects it.
	Fence bool

	// HasConfig makes the core accept the control register at configRegister, as Blackhole's cores
	// do. Config is its value, which does not change what the core does.
	HasConfig bool
	Config    uint32

	// A method of Bus sets Stall to make the core repeat the instruction at the next step.
	Stall bool

	X    [32]uint32 // integer registers; X[0] is always 0
	PC   uint32     // address of the next instruction, or of the instruction that stopped the core
	Stop Stop       // why the core stopped; the zero value while it runs
}

// Reset makes the core run from the address pc. The registers keep their values, as in ttsim.
func (c *Core) Reset(pc uint32) {
	c.PC, c.Stop = pc, Stop{}
}

// Step executes up to n instructions. It returns early if the core stops, and reports whether the
// core still runs.
func (c *Core) Step(n int) bool {
	for ; n > 0 && c.Stop.Reason == Running; n-- {
		c.step()
	}
	return c.Stop.Reason == Running
}

// step executes one instruction. An instruction that stops the core changes neither registers nor
// memory, and PC remains the address of that instruction.
func (c *Core) step() {
	in, ok := c.Bus.Fetch(c.PC)
	if !ok {
		c.halt(FetchRefused, 0, c.PC)
		return
	}
	i := instruction(in)
	rd, value, next := c.execute(i)
	if c.Stop.Reason != Running {
		return
	}
	if c.Stall {
		c.Stall = false
		return
	}
	if next&3 != 0 {
		c.halt(JumpMisaligned, i, next)
		return
	}
	c.X[rd] = value
	c.X[0] = 0
	c.PC = next
}

// Major opcodes: bits 0 to 6 of an instruction (table 24.1 of the manual).
const (
	opLoad    = 0x03
	opMiscMem = 0x0f
	opImm     = 0x13
	opAuipc   = 0x17
	opStore   = 0x23
	opReg     = 0x33
	opLui     = 0x37
	opBranch  = 0x63
	opJalr    = 0x67
	opJal     = 0x6f
	opSystem  = 0x73
)

// execute does not change registers and PC. It returns the number of the register that i writes (0
// if it writes none), the new value of that register, and the address of the next instruction.
func (c *Core) execute(i instruction) (rd, value, next uint32) {
	a, b := c.X[i.rs1()], c.X[i.rs2()]
	rd, next = i.rd(), c.PC+4
	ok := true
	switch i.opcode() {
	case opLui:
		value = i.immU()
	case opAuipc:
		value = c.PC + i.immU()
	case opJal:
		value, next = next, c.PC+i.immJ()
	case opJalr:
		value, next, ok = next, (a+i.immI())&^1, i.funct3() == 0
	case opBranch:
		var taken bool
		if taken, ok = branchTaken(i.funct3(), a, b); taken {
			next = c.PC + i.immB()
		}
		rd = 0
	case opLoad:
		value, ok = c.load(i, a+i.immI())
	case opStore:
		ok = c.store(i, a+i.immS(), b)
		rd = 0
	case opImm:
		value, ok = aluImm(i, a)
	case opReg:
		value, ok = alu(i, a, b)
	case opMiscMem:
		ok = c.fence(i)
		rd = 0
	case opSystem:
		rd, value = c.system(i)
	default:
		ok = false
	}
	if !ok && c.Stop.Reason == Running {
		c.halt(illegalReason(i), i, c.PC)
	}
	return rd, value, next
}

// branchTaken reports whether a branch is taken. `ok` is false if funct3 is one of the two reserved
// values.
func branchTaken(funct3, a, b uint32) (taken, ok bool) {
	switch funct3 {
	case 0: // beq
		return a == b, true
	case 1: // bne
		return a != b, true
	case 4: // blt
		return int32(a) < int32(b), true
	case 5: // bge
		return int32(a) >= int32(b), true
	case 6: // bltu
		return a < b, true
	case 7: // bgeu
		return a >= b, true
	}
	return false, false
}

// load executes lb, lh, lw, lbu or lhu. `ok` is false if funct3 has another value, or if the access
// fails. In the second case the core has stopped.
func (c *Core) load(i instruction, address uint32) (value uint32, ok bool) {
	f := i.funct3()
	if f&3 == 3 || f == 6 {
		return 0, false
	}
	value, ok = c.read(i, address, 1<<(f&3))
	switch f {
	case 0: // lb
		value = uint32(int8(value))
	case 1: // lh
		value = uint32(int16(value))
	}
	return value, ok
}

// store executes sb, sh or sw. `ok` is false if funct3 has another value, or if the access fails.
// In the second case the core has stopped.
func (c *Core) store(i instruction, address, value uint32) (ok bool) {
	f := i.funct3()
	return f <= 2 && c.write(i, address, 1<<f, value)
}

// read stops the core if the address is misaligned or the bus rejects the access.
func (c *Core) read(i instruction, address uint32, width uint8) (value uint32, ok bool) {
	if address&uint32(width-1) != 0 {
		c.halt(LoadMisaligned, i, address)
		return 0, false
	}
	if value, ok = c.Bus.Load(address, width); !ok {
		c.halt(LoadRefused, i, address)
	}
	return value, ok
}

// write stops the core if the address is misaligned or the bus rejects the access.
func (c *Core) write(i instruction, address uint32, width uint8, value uint32) (ok bool) {
	if address&uint32(width-1) != 0 {
		c.halt(StoreMisaligned, i, address)
		return false
	}
	if ok = c.Bus.Store(address, width, value); !ok {
		c.halt(StoreRefused, i, address)
	}
	return ok
}

// configRegister has the settings of caches and of the order of memory accesses. ttsim v1.10.0
// src/riscv_impl.h, CSR_CFG0, accepts the bits of configBits.
const (
	configRegister = 0x7c0
	configBits     = 0x104000a
)

// system stops the core, except for an access to configRegister of a core that has this register.
// The model has no semihosting, no debugger and no other control registers (Zicsr), because no
// program needs them on either chip.
func (c *Core) system(i instruction) (rd, value uint32) {
	if c.HasConfig && uint32(i)>>20 == configRegister {
		if next, ok := c.nextConfig(i); ok {
			value, c.Config = c.Config, next
			return i.rd(), value
		}
	}
	switch i {
	case 0x00000073:
		c.halt(EnvironmentCall, i, c.PC)
	case 0x00100073:
		c.halt(Breakpoint, i, c.PC)
	default:
		c.halt(Illegal, i, c.PC)
	}
	return 0, 0
}

// nextConfig returns the value that csrrw, csrrs or csrrc stores in Config. `ok` is false for other
// instructions, and for bits that the register does not have.
func (c *Core) nextConfig(i instruction) (next uint32, ok bool) {
	switch operand := c.X[i.rs1()]; i.funct3() {
	case 1:
		next = operand
	case 2:
		next = c.Config | operand
	case 3:
		next = c.Config &^ operand
	default:
		return 0, false
	}
	return next, next&^configBits == 0
}

func (c *Core) halt(r Reason, i instruction, address uint32) {
	c.Stop = Stop{Reason: r, PC: c.PC, Instruction: uint32(i), Address: address}
}

// A fence does nothing, because the model has no cache. `ok` is false if the core does not accept
// fences, or if ttsim does not accept this form.
func (c *Core) fence(i instruction) (ok bool) {
	if !c.Fence || i.funct3() != 0 || i.rd() != 0 || i.rs1() != 0 {
		return false
	}
	switch i.immI() {
	case 0x023, 0x031, 0x033, 0x0ff: // r,rw; rw,w; rw,rw; iorw,iorw
		return true
	}
	return false
}
