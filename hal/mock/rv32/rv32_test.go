package rv32

import (
	"fmt"
	"strings"
	"testing"
)

// TestAssemblerMatchesGNUAs compares the assembler of these tests with GNU as 2.40. The operands
// are rd x1, rs1 x2, rs2 x31, immediate -1365 (19 for shifts), branch offset -2732.
func TestAssemblerMatchesGNUAs(t *testing.T) {
	for _, c := range []struct {
		name string
		want uint32
	}{
		{"add", 0x01f100b3},
		{"sub", 0x41f100b3},
		{"sll", 0x01f110b3},
		{"slt", 0x01f120b3},
		{"sltu", 0x01f130b3},
		{"xor", 0x01f140b3},
		{"srl", 0x01f150b3},
		{"sra", 0x41f150b3},
		{"or", 0x01f160b3},
		{"and", 0x01f170b3},
		{"mul", 0x03f100b3},
		{"mulh", 0x03f110b3},
		{"mulhsu", 0x03f120b3},
		{"mulhu", 0x03f130b3},
		{"div", 0x03f140b3},
		{"divu", 0x03f150b3},
		{"rem", 0x03f160b3},
		{"remu", 0x03f170b3},
		{"addi", 0xaab10093},
		{"slti", 0xaab12093},
		{"sltiu", 0xaab13093},
		{"xori", 0xaab14093},
		{"ori", 0xaab16093},
		{"andi", 0xaab17093},
		{"slli", 0x01311093},
		{"srli", 0x01315093},
		{"srai", 0x41315093},
		{"lb", 0xaab10083},
		{"lh", 0xaab11083},
		{"lw", 0xaab12083},
		{"lbu", 0xaab14083},
		{"lhu", 0xaab15083},
		{"sb", 0xabf105a3},
		{"sh", 0xabf115a3},
		{"sw", 0xabf125a3},
		{"beq", 0xd5f10a63},
		{"bne", 0xd5f11a63},
		{"blt", 0xd5f14a63},
		{"bge", 0xd5f15a63},
		{"bltu", 0xd5f16a63},
		{"bgeu", 0xd5f17a63},
	} {
		t.Run(c.name, func(t *testing.T) {
			imm := int32(-1365)
			switch c.name[0] {
			case 'b':
				imm = -2732
			case 's':
				if strings.HasPrefix(c.name, "sl") || strings.HasPrefix(c.name, "sr") {
					imm = 19
				}
			}
			if strings.HasPrefix(c.name, "slti") {
				imm = -1365
			}
			if got := encode(c.name, 1, 2, 31, imm); got != c.want {
				t.Errorf("%s: %#08x, GNU as: %#08x", c.name, got, c.want)
			}
		})
	}
	for name, c := range map[string][2]uint32{
		"jal":   {jType(1, -699052), 0xd54550ef},
		"jalr":  {iType(opJalr, 0, 1, 2, -1365), 0xaab100e7},
		"lui":   {lui(1, 0xabcde000), 0xabcde0b7},
		"auipc": {uType(opAuipc, 1, 0xabcde000), 0xabcde097},
	} {
		t.Run(name, func(t *testing.T) {
			if c[0] != c[1] {
				t.Errorf("%s: encoded as %#08x, want %#08x as by GNU as", name, c[0], c[1])
			}
		})
	}
}

const (
	minInt = 0x80000000
	maxInt = 0x7fffffff
	minus1 = 0xffffffff
)

// runCode executes code at 0x1000 on a core with every extension, after it has set x2 and x3.
func runCode(t *testing.T, steps int, x2, x3 uint32, code ...uint32) (*Core, *ram) {
	t.Helper()
	m := newRAM(0x1000, 0x1000, code...)
	c := &Core{Fence: true, Bus: m, PC: 0x1000}
	c.X[2], c.X[3] = x2, x3
	c.Step(steps)
	return c, m
}

// TestJumpsSetPCAndLink executes jal and jalr (chapter 2.5), with distances that the random
// programs do not have. The link is the address of the next instruction. jalr clears bit 0 of the
// target, and may use one register as base and link.
func TestJumpsSetPCAndLink(t *testing.T) {
	core, _ := runCode(t, 1, 0, 0, jType(1, 0x7fff0))
	if core.X[1] != 0x1004 || core.PC != 0x80ff0 {
		t.Errorf("jal forwards: x1 %#x, pc %#x; want 0x1004, 0x80ff0", core.X[1], core.PC)
	}
	core, _ = runCode(t, 1, 0, 0, jType(1, -0x1000))
	if core.X[1] != 0x1004 || core.PC != 0 {
		t.Errorf("jal backwards: x1 %#x, pc %#x; want 0x1004, 0x0", core.X[1], core.PC)
	}
	core, _ = runCode(t, 1, 0x2003, 0, iType(opJalr, 0, 2, 2, -2))
	if core.X[2] != 0x1004 || core.PC != 0x2000 {
		t.Errorf("jalr: x2 %#x, pc %#x; want 0x1004, 0x2000", core.X[2], core.PC)
	}
}

// TestStoppedCoreKeepsItsStateAndReportsTheReason checks that an instruction that stops the core
// changes neither pc nor registers nor memory, and that Stop describes the reason and the place.
func TestStoppedCoreKeepsItsStateAndReportsTheReason(t *testing.T) {
	fenceI := iType(opMiscMem, 1, 0, 0, 0)
	for _, c := range []struct {
		in     uint32
		x2     uint32
		reason Reason
		text   string
	}{
		{0x00000000, 0, Coprocessor,
			"pc 0x00001000: Tensix coprocessor instruction, which only ttsim executes, " +
				"instruction 0x00000000"},
		{0xffffffff, 0, Illegal, "pc 0x00001000: illegal instruction, instruction 0xffffffff"},
		{0x00004501, 0, Coprocessor, ""},
		{ecall, 0, EnvironmentCall,
			"pc 0x00001000: ecall, but there is no semihosting, instruction 0x00000073"},
		{ebreak, 0, Breakpoint, ""},
		{0x30200073, 0, Illegal, ""},                            // mret
		{iType(opSystem, 1, 0, 1, 0x7c0), 0, Illegal, ""},       // csrrw
		{fenceI, 0, FenceRefused, ""},                           // fence.i
		{iType(opMiscMem, 0, 0, 0, 0x010), 0, FenceRefused, ""}, // pause
		{iType(opMiscMem, 2, 0, 0, 0), 0, Illegal, ""},          // reserved
		{iType(opJalr, 1, 1, 2, 0), 0x1000, Illegal, ""},        // reserved funct3
		{bType(2, 2, 3, 8), 0, Illegal, ""}, {bType(3, 2, 3, 8), 0, Illegal, ""},
		{iType(opLoad, 3, 1, 2, 0), 0x1000, Illegal, ""},
		{iType(opLoad, 6, 1, 2, 0), 0x1000, Illegal, ""},
		{iType(opLoad, 7, 1, 2, 0), 0x1000, Illegal, ""},
		{sType(3, 2, 3, 0), 0x1000, Illegal, ""}, {sType(4, 2, 3, 0), 0x1000, Illegal, ""},
		{iType(opImm, 1, 1, 2, 0x20), 0, Illegal, ""},    // slli of 32, RV64 only
		{iType(opImm, 5, 1, 2, 0x420), 0, Illegal, ""},   // srai of 32
		{rType(opReg, 1, 0x20, 1, 2, 3), 0, Illegal, ""}, // undefined funct7
		{rType(opReg, 0, 0x02, 1, 2, 3), 0, Illegal, ""},
		{rType(0x2f, 2, 0x02<<2, 1, 2, 0), 0x1000, Illegal, ""}, // lr.w
		{rType(0x2f, 2, 0x03<<2, 1, 2, 3), 0x1000, Illegal, ""}, // sc.w
		{rType(0x2f, 2, 0x05<<2, 1, 2, 3), 0x1000, Illegal, ""},
		{rType(0x2f, 3, 0, 1, 2, 3), 0x1000, Illegal, ""}, // amoadd.d
		{encode("lh", 1, 2, 0, 1), 0x1000, LoadMisaligned,
			"pc 0x00001000: misaligned load, address 0x00001001, instruction 0x00111083"},
		{encode("lhu", 1, 2, 0, 1), 0x1000, LoadMisaligned, ""},
		{encode("lw", 1, 2, 0, 2), 0x1000, LoadMisaligned, ""},
		{encode("sh", 0, 2, 3, 1), 0x1000, StoreMisaligned, ""},
		{encode("sw", 0, 2, 3, 2), 0x1000, StoreMisaligned, ""},
		{encode("lb", 1, 2, 0, -1), 0x1000, LoadRefused,
			"pc 0x00001000: load refused, address 0x00000fff, instruction 0xfff10083"},
		{encode("sw", 0, 2, 3, 0), 0x2000, StoreRefused, ""},
		{encode("lw", 1, 2, 0, 0), 0xfffffffc, LoadRefused, ""},
		{jType(1, 2), 0, JumpMisaligned,
			"pc 0x00001000: jump to a misaligned address, address 0x00001002, instruction " +
				"0x002000ef"},
		{iType(opJalr, 0, 1, 2, 2), 0x1000, JumpMisaligned, ""},
		{bType(0, 2, 2, 6), 0, JumpMisaligned, ""},
	} {
		t.Run(fmt.Sprintf("%#08x %s", c.in, c.reason), func(t *testing.T) {
			core, m := runCode(t, 5, c.x2, 0xa1b2c3d4, c.in)
			if core.Stop.Reason != c.reason || core.Stop.PC != 0x1000 || core.PC != 0x1000 ||
				core.Stop.Instruction != c.in {
				t.Errorf("%#08x: %v, pc %#x; want %s at pc 0x1000", c.in, core.Stop, core.PC,
					c.reason)
			}
			if c.text != "" && core.Stop.String() != c.text {
				t.Errorf("%#08x: text of the stop %q,\nwant %q", c.in, core.Stop, c.text)
			}
			if core.X[1] != 0 || core.X[2] != c.x2 {
				t.Errorf("%#08x changed a register: x1 %#x, x2 %#x", c.in, core.X[1], core.X[2])
			}
			if got, _ := m.Load(0x1000, 4); got != c.in {
				t.Errorf("%#08x changed memory", c.in)
			}
			if core.Step(1) {
				t.Errorf("%#08x: a stopped core executes another instruction", c.in)
			}
		})
	}
}

// TestFetchOutsideMemoryStops checks that a jump to an address outside the memory succeeds, and
// that the fetch from this address stops the core.
func TestFetchOutsideMemoryStops(t *testing.T) {
	core, _ := runCode(t, 2, 0, 0, jType(1, 0x2000))
	if s := core.Stop.String(); s != "pc 0x00003000: no instruction can be fetched from this "+
		"address" {
		t.Errorf("stop %q, want a fetch from pc 0x3000 that fails", s)
	}
}

// Only a branch that is taken raises an exception for a misaligned target (chapter 2.5).
func TestBranchNotTakenIgnoresAMisalignedTarget(t *testing.T) {
	if core, _ := runCode(t, 1, 1, 1, bType(1, 2, 3, 6)); core.PC != 0x1004 ||
		core.Stop.Reason != Running {
		t.Errorf("pc %#x, %v; want 0x1004, running", core.PC, core.Stop)
	}
}

// TestWormholeHasNoFence checks that a fence stops a core only if Fence is false, as on Wormhole.
// Other extensions of Blackhole's cores, which rv32 does not implement, stop every core.
func TestWormholeHasNoFence(t *testing.T) {
	for _, mode := range []int32{0x023, 0x031, 0x033, 0x0ff} {
		in := iType(opMiscMem, 0, 0, 0, mode)
		core, _ := runCode(t, 1, 0x1000, 0, in)
		if core.Stop.Reason != Running || core.PC != 0x1004 {
			t.Errorf("%#08x on a core with Fence: %v, want it running", in, core.Stop)
		}
		withoutFence := Core{Bus: newRAM(0, 8, in)}
		if withoutFence.Step(1) || withoutFence.Stop.Reason != FenceRefused {
			t.Errorf("%#08x on a core without Fence: %v, want %v", in, withoutFence.Stop,
				FenceRefused)
		}
	}
	for name, in := range map[string]uint32{"sh1add": 0x21f120b3, "clz": 0x60011093,
		"amoadd.w": 0x01f120af} {
		t.Run(name, func(t *testing.T) {
			if core, _ := runCode(t, 1, 0x1000, 0, in); core.Stop.Reason != Illegal {
				t.Errorf("%s: %v, want %v", name, core.Stop, Illegal)
			}
		})
	}
}

// TestResetKeepsRegisters checks that a reset does not change registers, as in ttsim.
func TestResetKeepsRegisters(t *testing.T) {
	core, _ := runCode(t, 9, 77, 0, addi(1, 2, 1), ebreak)
	core.Reset(0x1000)
	if core.X[1] != 78 || core.Stop.Reason != Running || !core.Step(1) || core.PC != 0x1004 {
		t.Errorf("after Reset and one step: x1 %d, pc %#x, %v; want 78, 0x1004, running", core.X[1],
			core.PC, core.Stop)
	}
}

// TestStepAllocatesNothing executes a loop of loads, stores and arithmetic, and stops the core.
func TestStepAllocatesNothing(t *testing.T) {
	m := newRAM(0, 0x100, encode("lw", 1, 0, 0, 0x40), addi(1, 1, 1), encode("sw", 0, 0, 1, 0x40),
		encode("mul", 2, 1, 1, 0), jType(0, -16))
	core := &Core{Bus: m}
	if n := testing.AllocsPerRun(100,
		func() { core.Step(100); core.Reset(0x80); core.Step(1); core.Reset(0) }); n != 0 {
		t.Errorf("Step and Reset: %v allocations, want 0", n)
	}
}

func BenchmarkStep(b *testing.B) {
	m := newRAM(0, 0x100, encode("lw", 1, 0, 0, 0x40), addi(1, 1, 1), encode("sw", 0, 0, 1, 0x40),
		encode("mul", 2, 1, 1, 0), jType(0, -16))
	core := &Core{Bus: m}
	core.Step(b.N)
}
