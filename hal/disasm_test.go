package hal

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/binary"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/effort"
)

// These tests disassemble the assembly of both architectures, on any architecture. They interpret
// the instructions on four ranges of memory: the device, the memory of copies, the stack, and a
// Walk with its tables and commands. An instruction that the interpreter does not implement fails
// the test. It does not implement calls, write-back addressing, and everything else that must not
// access a device.

//go:embed walk_amd64.s
var sourceAMD64 string

//go:embed walk_arm64.s
var sourceARM64 string

// asmHeader returns what the compiler writes to go_asm.h: offsets of fields, and constants.
func asmHeader() string {
	text := ""
	for _, t := range []reflect.Type{reflect.TypeFor[Walk](), reflect.TypeFor[command]()} {
		text += fmt.Sprintf("#define %s__size %d\n", t.Name(), t.Size())
		for f := range t.Fields() {
			text += fmt.Sprintf("#define %s_%s %d\n", t.Name(), f.Name, f.Offset)
		}
	}
	for name, value := range map[string]any{
		"opWrite": opWrite, "opModify": opModify, "opCopyIn": opCopyIn, "opFill": opFill,
		"opCopyOut": opCopyOut, "opExpect": opExpect, "opCompare": opCompare,
		"opPoint": opPoint, "opFence": opFence, "conditionEqual": conditionEqual,
		"accessFixed": accessFixed, "accessBulk": accessBulk,
		"commandUs": commandUs, "pointExtraUs": pointExtraUs,
		"StopLoaded": StopLoaded, "StopMismatch": StopMismatch, "StopAllOnes": StopAllOnes,
	} {
		text += fmt.Sprintf("#define const_%s %d\n", name, value)
	}
	return text
}

const (
	deviceBase = 0x1000000
	memoryBase = 0x2000000
	stackBase  = 0x3000000
	walkBase   = 0x4000000

	// Offsets of the tables in the range of the Walk: addresses of two windows and of the
	// registers, of two memories, and of two TLB windows, and the list of commands.
	windowsOffset  = 80
	memoriesOffset = 128
	tlbBasesOffset = 160
	listOffset     = 192
	listMax        = 64 // number of commands in the list
)

// deviceAccess is one load or store of the device.
type deviceAccess struct {
	offset uint64
	width  int
	store  bool
}

// instruction is one line of a disassembly.
type instruction struct {
	pc       uint64
	op       string
	operands [3]operand
}

// Results of an instruction that does not jump. The result of a jump is the address of its target.
const (
	nextInstruction = iota
	returnFromWalk
)

// operand is an immediate, a register, a pair of registers, or memory.
type operand struct {
	immediate bool
	memory    bool
	value     uint64 // value of an immediate, or displacement of an address
	register  string
	second    string // second register of a pair, or index register of an address
	scale     uint64 // factor of the index register
	low8      bool   // only the lowest 8 bits, such as AL of AX
}

// machine interprets the assembly of one architecture.
type machine struct {
	t         *testing.T
	functions map[string][]instruction
	execute   func(m *machine, i *instruction) (next uint64)

	device, memory, stack, walk []byte

	registers      map[string]uint64
	vectors        map[string][]byte
	zero, below    bool   // results of an unsigned comparison: equal, less
	less           bool   // result of a signed comparison, which never overflows here
	avx            uint64 // value of hasAVX: 0 or 1
	accesses       []deviceAccess
	commandIndexes []int // index of the command in Next at each access
	fences         int
	unordered      bool // there were non-temporal stores after the last fence
}

// forEachMachine runs a test on one machine for each architecture and variant of the assembly. The
// result does not depend on the processor, the race detector or tags.
func forEachMachine(t *testing.T, test func(t *testing.T, m *machine)) {
	effort.SkipShort(t)
	for _, arch := range []struct {
		name, source string
		execute      func(m *machine, i *instruction) uint64
		avx          uint64
	}{
		{"amd64", sourceAMD64, (*machine).executeAMD64, 0},
		{"amd64", sourceAMD64, (*machine).executeAMD64, 1},
		{"amd64, all non-temporal", strings.Replace(sourceAMD64, "$(4<<20)", "$0", 1),
			(*machine).executeAMD64, 1},
		{"arm64", sourceARM64, (*machine).executeARM64, 0},
	} {
		t.Run(arch.name+"/avx="+strconv.FormatUint(arch.avx, 10), func(t *testing.T) {
			test(t, &machine{
				t: t, functions: disassemble(t, arch.name[:5], arch.source), execute: arch.execute,
				avx:    arch.avx,
				device: make([]byte, 1024), memory: make([]byte, 1024), stack: make([]byte, 64),
				walk:      make([]byte, listOffset+32*listMax),
				registers: map[string]uint64{}, vectors: map[string][]byte{},
			})
		})
	}
}

// disassembled keeps the result of disassemble for each source, so that the assembler runs once.
var disassembled = map[string]map[string][]instruction{}

func disassemble(t *testing.T, arch, source string) map[string][]instruction {
	if functions := disassembled[source]; functions != nil {
		return maps.Clone(functions)
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command, which assembles and disassembles")
	}
	dir := t.TempDir()
	file, object := filepath.Join(dir, "walk.s"), filepath.Join(dir, "walk.o")
	for path, text := range map[string]string{file: source,
		filepath.Join(dir, "go_asm.h"): asmHeader()} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		c := exec.Command(goTool, args...)
		c.Env = append(os.Environ(), "GOARCH="+arch, "GOOS=linux", "GOFLAGS=")
		out, err := c.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, err.(*exec.ExitError).Stderr)
		}
		return string(out)
	}
	include := filepath.Join(strings.TrimSpace(run("env", "GOROOT")), "pkg", "include")
	run("tool", "asm", "-I", include, "-I", dir, "-p", "hal", "-o", object, file)
	disassembled[source] = parseListing(t, run("tool", "objdump", object))
	return maps.Clone(disassembled[source])
}

// parseListing reads the output of objdump:
//
//	TEXT hal.executeWalk(SB) walk.s
//	  walk.s:84	0x892			4c8b542408		MOVQ 0x8(SP), R10
func parseListing(t *testing.T, listing string) map[string][]instruction {
	functions := map[string][]instruction{}
	name := ""
	for line := range strings.Lines(listing) {
		if rest, ok := strings.CutPrefix(line, "TEXT hal."); ok {
			name, _, _ = strings.Cut(rest, "(")
			continue
		}
		fields := strings.FieldsFunc(strings.TrimSpace(line),
			func(r rune) bool { return r == '\t' })
		if len(fields) < 4 || strings.Trim(fields[2], "0 ") == "" {
			continue // blank line, or padding between functions
		}
		pc, err := strconv.ParseUint(fields[1], 0, 64)
		if err != nil {
			t.Fatalf("objdump: %q: %v", line, err)
		}
		op, args, _ := strings.Cut(strings.TrimSpace(fields[3]), " ")
		if op == "MOVZX" { // opcode 0F B6 loads one byte, 0F B7 loads two bytes
			op += regexp.MustCompile("0fb[67]").FindString(fields[2])
		}
		i := instruction{pc: pc, op: op}
		for n, arg := range splitArgs(args) {
			i.operands[n] = parseOperand(t, arg)
		}
		functions[name] = append(functions[name], i)
	}
	return functions
}

// splitArgs splits the operands of an instruction at commas outside parentheses.
func splitArgs(s string) (args []string) {
	depth, start := 0, 0
	for i, c := range s {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			args = append(args, strings.TrimSpace(s[start:i]))
			start = i + 1
		}
	}
	if s = strings.TrimSpace(s[start:]); s != "" {
		args = append(args, s)
	}
	return args
}

func parseOperand(t *testing.T, s string) operand {
	number := func(s string) uint64 {
		v, err := strconv.ParseInt(s, 0, 64)
		if err != nil {
			t.Fatalf("objdump: operand %q: %v", s, err)
		}
		return uint64(v)
	}
	if rest, ok := strings.CutPrefix(s, "$"); ok {
		return operand{immediate: true, value: number(rest)}
	}
	if before, inside, ok := strings.Cut(s, "("); ok {
		inside = strings.TrimSuffix(inside, ")")
		if first, second, ok := strings.Cut(inside, ", "); ok {
			return operand{register: first, second: second}
		}
		o := operand{memory: true, register: inside}
		// forms with an index register: (R8)(R11*8) and (R2)(R7<<3)
		if base, index, ok := strings.Cut(inside, ")("); ok {
			o.register = base
			if register, shift, ok := strings.Cut(index, "<<"); ok {
				o.second, o.scale = register, 1<<number(shift)
			} else if register, scale, ok := strings.Cut(index, "*"); ok {
				o.second, o.scale = register, number(scale)
			}
		}
		if before != "" && inside != "SB" {
			o.value = number(before)
		}
		return o
	}
	if strings.HasPrefix(s, "0x") {
		return operand{immediate: true, value: number(s)}
	}
	if len(s) == 2 && s[1] == 'L' { // a register of 8 bits: AL, CL
		return operand{register: s[:1] + "X", low8: true}
	}
	return operand{register: s}
}

// run executes a list of commands on the machine. Window 1 is the device, and memory 1 is the
// memory of copies. Window 0 and memory 0 do not exist. Window 2, which contains the registers, and
// the TLB window of window 1 are also the device. `done` is the number of commands by which Next
// has advanced.
func (m *machine) run(list ...fbs.Command) (w Walk, done int) {
	m.t.Helper()
	list = append(list[:len(list):len(list)], fbs.Command{Opcode: gen.OpcodeEnd})
	return m.continueRun(Walk{Budget: largeBudget}, 0, list)
}

// continueRun continues a run at the command `first`, with the Budget and the DoneBytes of w. The
// list must end with an End.
func (m *machine) continueRun(w Walk, first int, list []fbs.Command) (Walk, int) {
	m.t.Helper()
	clear(m.registers)
	clear(m.stack)
	m.accesses, m.commandIndexes, m.fences = m.accesses[:0], m.commandIndexes[:0], 0
	m.registers["SP"], m.registers["RSP"] = stackBase, stackBase
	binary.LittleEndian.PutUint64(m.stack[8:], walkBase)
	copy(m.walk[listOffset:], unsafe.Slice((*byte)(unsafe.Pointer(&list[0])), 32*len(list)))
	for offset, value := range map[uint64]uint64{
		0: walkBase + listOffset + 32*uint64(first), 8: walkBase + windowsOffset,
		16: walkBase + memoriesOffset,
		24: uint64(w.Budget), 32: 99, 64: walkBase + tlbBasesOffset, 72: w.DoneBytes,
		windowsOffset: 0, windowsOffset + 8: deviceBase, windowsOffset + 16: deviceBase,
		memoriesOffset: 0, memoriesOffset + 8: memoryBase,
		tlbBasesOffset + 8: deviceBase,
	} {
		binary.LittleEndian.PutUint64(m.walk[offset:], value)
	}
	code := m.functions["executeWalk"]
	for index := 0; ; {
		switch next := m.execute(m, &code[index]); next {
		case nextInstruction:
			index++
		case returnFromWalk:
			field := func(offset int) uint64 { return binary.LittleEndian.Uint64(m.walk[offset:]) }
			return Walk{Budget: int64(field(24)), StopReason: field(32), Got: field(40),
					Want: field(48), MismatchOffset: field(56), DoneBytes: field(72)},
				m.nextCommandIndex()
		default:
			index = m.instructionIndex(code, next)
		}
	}
}

func (m *machine) nextCommandIndex() int {
	return int(binary.LittleEndian.Uint64(m.walk)-walkBase-listOffset) / 32
}

func (m *machine) instructionIndex(code []instruction, pc uint64) int {
	at, ok := slices.BinarySearchFunc(code, pc,
		func(i instruction, pc uint64) int { return cmp.Compare(i.pc, pc) })
	if !ok {
		m.t.Fatalf("jump to %#x: no instruction begins there", pc)
	}
	return at
}

// accessedMemory returns the memory that an operand addresses, and records an access to the device.
func (m *machine) accessedMemory(o operand, width int, store bool) []byte {
	if o.register == "IP" {
		return binary.LittleEndian.AppendUint64(nil, m.avx)
	}
	address := m.registers[o.register] + o.value + m.registers[o.second]*o.scale
	var region []byte
	switch address - address%deviceBase {
	case deviceBase:
		region = m.device
		if address%uint64(width) != 0 {
			m.t.Fatalf("access of %d bytes to the device at %#x is misaligned", width, address)
		}
		m.accesses = append(m.accesses, deviceAccess{address % deviceBase, width, store})
		m.commandIndexes = append(m.commandIndexes, m.nextCommandIndex())
	case memoryBase:
		region = m.memory
	case stackBase:
		region = m.stack
	case walkBase:
		region = m.walk
	}
	if offset := address % deviceBase; offset+uint64(width) <= uint64(len(region)) {
		return region[offset:][:width]
	}
	m.t.Fatalf("access of %d bytes at %#x is outside every range of memory", width, address)
	return nil
}

func (m *machine) load(o operand, width int) uint64 {
	var b [8]byte
	copy(b[:], m.accessedMemory(o, width, false)[:width])
	return binary.LittleEndian.Uint64(b[:])
}

func (m *machine) store(o operand, width int, value uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], value)
	copy(m.accessedMemory(o, width, true), b[:width])
}

func (m *machine) readOperand(o operand, width int) uint64 {
	low := ^uint64(0) >> (64 - 8*width)
	switch {
	case o.immediate:
		return o.value & low
	case o.memory:
		return m.load(o, width)
	case o.low8:
		low = 0xff
	}
	return m.registers[o.register] & low
}

// writeOperand writes an operand of an amd64 instruction. A write of 32 bits clears the upper half
// of a register. A write of fewer bits leaves the other bits of the register unchanged.
func (m *machine) writeOperand(o operand, width int, value uint64) {
	low := ^uint64(0) >> (64 - 8*width)
	switch {
	case o.memory:
		m.store(o, width, value)
	case width < 4:
		m.registers[o.register] = m.registers[o.register]&^low | value&low
	default:
		m.registers[o.register] = value & low
	}
}

var amd64Moves = map[string]int{"MOVB": 1, "MOVW": 2, "MOVL": 4, "MOVQ": 8}

var amd64Vectors = map[string]int{"MOVDQU": 16, "VMOVDQU": 32, "VMOVNTDQ": 32}

// executeAMD64 executes one instruction. It returns the address to which the instruction jumps,
// nextInstruction, or returnFromWalk.
func (m *machine) executeAMD64(i *instruction) uint64 {
	a := &i.operands
	if width, ok := amd64Moves[i.op]; ok {
		m.writeOperand(a[1], width, m.readOperand(a[0], width))
		return nextInstruction
	}
	if width, ok := amd64Vectors[i.op]; ok {
		if a[0].memory {
			m.vectors[a[1].register] = append(m.vectors[a[1].register][:0],
				m.accessedMemory(a[0], width, false)...)
		} else {
			copy(m.accessedMemory(a[1], width, true), m.vectors[a[0].register])
		}
		m.unordered = m.unordered || i.op == "VMOVNTDQ"
		return nextInstruction
	}
	jump := func(taken bool) uint64 {
		if taken {
			return a[0].value
		}
		return nextInstruction
	}
	switch i.op {
	case "MOVZX0fb6":
		m.writeOperand(a[1], 4, m.readOperand(a[0], 1))
	case "MOVZX0fb7":
		m.writeOperand(a[1], 4, m.readOperand(a[0], 2))
	case "LEAQ":
		m.writeOperand(a[1], 8, m.registers[a[0].register]+a[0].value)
	case "TESTQ", "TESTL":
		both := m.readOperand(a[0], 8) & m.readOperand(a[1], 8)
		m.zero, m.below, m.less = both == 0, false, int64(both) < 0
	case "SHRQ":
		m.writeOperand(a[1], 8, m.readOperand(a[1], 8)>>m.readOperand(a[0], 1))
	case "SHRL":
		m.writeOperand(a[1], 4, m.readOperand(a[1], 4)>>m.readOperand(a[0], 1))
	case "TZCNT":
		m.writeOperand(a[1], 4, uint64(bits.TrailingZeros64(m.readOperand(a[0], 4))))
	case "SHLQ":
		m.writeOperand(a[1], 8, m.readOperand(a[1], 8)<<m.readOperand(a[0], 1))
	case "IMULQ":
		m.writeOperand(a[1], 8, m.readOperand(a[1], 8)*m.readOperand(a[0], 8))
	case "SUBL":
		m.writeOperand(a[1], 4, m.readOperand(a[1], 4)-m.readOperand(a[0], 4))
	case "CMPQ", "CMPL", "CMPW", "CMPB":
		width := map[string]int{"CMPQ": 8, "CMPL": 4, "CMPW": 2, "CMPB": 1}[i.op]
		if a[0].low8 { // an operand such as AL in CMPL
			width = 1
		}
		x, y := m.readOperand(a[0], width), m.readOperand(a[1], width)
		m.zero, m.below = x == y, x < y
	case "ADDQ":
		x, y := m.readOperand(a[1], 8), m.readOperand(a[0], 8)
		m.writeOperand(a[1], 8, x+y)
		m.zero, m.below, m.less = x+y == 0, x+y < x, int64(x+y) < 0
	case "SUBQ":
		x, y := m.readOperand(a[1], 8), m.readOperand(a[0], 8)
		m.writeOperand(a[1], 8, x-y)
		m.zero, m.below, m.less = x == y, x < y, int64(x-y) < 0
	case "NEGQ":
		m.writeOperand(a[0], 8, -m.readOperand(a[0], 8))
	case "ANDQ":
		both := m.readOperand(a[1], 8) & m.readOperand(a[0], 8)
		m.writeOperand(a[1], 8, both)
		m.zero, m.below, m.less = both == 0, false, int64(both) < 0
	case "XORL":
		m.writeOperand(a[1], 4, m.readOperand(a[1], 4)^m.readOperand(a[0], 4))
	case "JE":
		return jump(m.zero)
	case "JNE":
		return jump(!m.zero)
	case "JB":
		return jump(m.below)
	case "JAE":
		return jump(!m.below)
	case "JA":
		return jump(!m.below && !m.zero)
	case "JL":
		return jump(m.less)
	case "JLE":
		return jump(m.less || m.zero)
	case "JMP":
		return a[0].value
	case "RET":
		if m.unordered {
			m.t.Fatalf("%#x: non-temporal stores are not fenced", i.pc)
		}
		return returnFromWalk
	case "SFENCE":
		m.unordered = false
	case "MFENCE":
		m.fences++
	case "VZEROUPPER":
	default:
		m.t.Fatalf("%#x: instruction %s is not allowed", i.pc, i.op)
	}
	return nextInstruction
}

var arm64Loads = map[string]int{"MOVBU": 1, "LDURBW": 1, "MOVHU": 2, "MOVWU": 4}
var arm64Stores = map[string]int{"MOVB": 1, "MOVH": 2, "MOVW": 4}

// executeARM64 has the same results as executeAMD64.
func (m *machine) executeARM64(i *instruction) uint64 {
	a := &i.operands
	value := func(o operand) uint64 {
		if o.immediate {
			return o.value
		}
		return m.registers[o.register] // no instruction sets ZR, so its value is 0
	}
	// Branches are relative and count instructions: 8(PC).
	jump := func(taken bool, o operand) uint64 {
		if taken {
			return i.pc + 4*o.value
		}
		return nextInstruction
	}
	switch i.op {
	case "MOVBU", "LDURBW", "MOVHU", "MOVWU":
		m.registers[a[1].register] = m.load(a[0], arm64Loads[i.op])
	case "MOVB", "MOVH", "MOVW":
		m.store(a[1], arm64Stores[i.op], value(a[0]))
	case "MOVD":
		switch {
		case a[0].memory:
			m.registers[a[1].register] = m.load(a[0], 8)
		case a[1].memory:
			m.store(a[1], 8, value(a[0]))
		default:
			m.registers[a[1].register] = value(a[0])
		}
	case "LDP":
		b := m.accessedMemory(a[0], 16, false)
		m.registers[a[1].register] = binary.LittleEndian.Uint64(b)
		m.registers[a[1].second] = binary.LittleEndian.Uint64(b[8:])
	case "STP":
		b := m.accessedMemory(a[1], 16, true)
		binary.LittleEndian.PutUint64(b, m.registers[a[0].register])
		binary.LittleEndian.PutUint64(b[8:], m.registers[a[0].second])
	case "ADD":
		m.registers[a[2].register] = value(a[1]) + value(a[0])
	case "SUB":
		m.registers[a[2].register] = value(a[1]) - value(a[0])
	case "NEG":
		m.registers[a[1].register] = -value(a[0])
	case "SUBS":
		x, y := value(a[1]), value(a[0])
		m.zero, m.below, m.less = x == y, x < y, int64(x-y) < 0
		m.registers[a[2].register] = x - y
	case "CMP":
		x, y := value(a[1]), value(a[0])
		m.zero, m.below, m.less = x == y, x < y, int64(x-y) < 0
	case "AND":
		m.registers[a[2].register] = value(a[1]) & value(a[0])
	case "LSR":
		m.registers[a[2].register] = value(a[1]) >> value(a[0])
	case "LSL":
		m.registers[a[2].register] = value(a[1]) << value(a[0])
	case "MUL":
		m.registers[a[2].register] = value(a[1]) * value(a[0])
	case "ORR":
		m.registers[a[2].register] = value(a[1]) | value(a[0])
	case "TBZ":
		return jump(value(a[1])>>a[0].value&1 == 0, a[2])
	case "CBZ":
		return jump(value(a[0]) == 0, a[1])
	case "CBNZ":
		return jump(value(a[0]) != 0, a[1])
	case "BLE":
		return jump(m.less || m.zero, a[0])
	case "BEQ":
		return jump(m.zero, a[0])
	case "BNE":
		return jump(!m.zero, a[0])
	case "BHI":
		return jump(!m.below && !m.zero, a[0])
	case "BCC":
		return jump(m.below, a[0])
	case "BCS":
		return jump(!m.below, a[0])
	case "JMP":
		return jump(true, a[0])
	case "RET":
		return returnFromWalk
	case "DSB":
		if a[0].value != 15 {
			m.t.Fatalf("%#x: DSB of less than the full system", i.pc)
		}
		m.fences++
	default:
		m.t.Fatalf("%#x: instruction %s is not allowed", i.pc, i.op)
	}
	return nextInstruction
}

func (m *machine) checkAccesses(what string, want ...deviceAccess) {
	m.t.Helper()
	if !slices.Equal(m.accesses, want) {
		m.t.Fatalf("%s: accesses %+v, want %+v", what, m.accesses, want)
	}
}

func TestWalkIsTheOnlyAssembly(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m *machine) {
		delete(m.functions, "detectAVX") // exists on amd64 only, and does not access the device
		if len(m.functions) != 1 || m.functions["executeWalk"] == nil {
			t.Errorf("functions %v, want only executeWalk", slices.Collect(maps.Keys(m.functions)))
		}
	})
}

// newCommand returns a command of window 1 and memory 1.
func newCommand(opcode gen.Opcode, width uint8, mode gen.Access,
	offset, amount uint64) fbs.Command {
	return fbs.Command{Opcode: opcode, Width: width, Mode: uint8(mode), Window: 1, Index: 1,
		Offset: uint32(offset), Amount: uint32(amount)}
}

func TestFenceIsAFullBarrier(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m *machine) {
		fence := fbs.Command{Opcode: gen.OpcodeFence}
		if _, done := m.run(fence, fence, fence); done != 3 || m.fences != 3 ||
			len(m.accesses) != 0 {
			t.Errorf("3 Fence commands: %d executed, %d barriers, %d accesses; want 3, 3 and 0",
				done, m.fences, len(m.accesses))
		}
	})
}

func TestLoadAndStoreAreOneInstruction(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m *machine) {
		for i := range m.device {
			m.device[i] = byte(0xf0 ^ i)
		}
		for _, width := range widths {
			offset := uint64(width) * 5
			want := deviceAccess{offset, int(width), false}
			load, store := newLoadCommand(uint32(offset), width),
				newCommand(gen.OpcodeWrite, width, 0, offset, 0)
			load.Window, store.Value = 1, 0x8877665544332211
			if w, done := m.run(load); done != 0 || w.StopReason != StopLoaded ||
				w.Got != loadLittleEndian(m.device[offset:][:width]) {
				t.Errorf("load of %d bytes returns %#x, stop reason %d", width, w.Got, w.StopReason)
			}
			m.checkAccesses("load", want)
			want.store = true
			if w, done := m.run(store); done != 1 || w.StopReason != StopBeforeNext {
				t.Errorf("store of %d bytes: stop reason %d, want %d", width, w.StopReason,
					StopBeforeNext)
			}
			m.checkAccesses("store", want)
			if got := loadLittleEndian(
				m.device[offset:][:width]); got != 0x8877665544332211&fbs.WidthMask(width) {
				t.Errorf("store of %d bytes: the device has %#x", width, got)
			}
		}
	})
}

func TestExactAndFixedAccessesKeepWidthAndOrder(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m *machine) {
		for _, width := range widths {
			for _, mode := range []gen.Access{gen.AccessExact, gen.AccessFixed} {
				for count := range uint64(20) {
					m.checkExact(width, mode, count+1)
				}
			}
		}
	})
}

// checkExact executes a command of each opcode that copies, fills or compares, and checks that it
// accesses the device in units of its width and in order.
func (m *machine) checkExact(width uint8, mode gen.Access, count uint64) {
	m.t.Helper()
	first, step := 3*uint64(width), uint64(width)
	if mode == gen.AccessFixed {
		step = 0
	}
	var loads, stores []deviceAccess
	for i := range count {
		loads = append(loads, deviceAccess{first + i*step, int(width), false})
		stores = append(stores, deviceAccess{first + i*step, int(width), true})
	}
	what := fmt.Sprintf(", width %d, mode %d, count %d", width, mode, count)
	for _, opcode := range []gen.Opcode{gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeCopyOut,
		gen.OpcodeCompare} {
		c := newCommand(opcode, width, mode, first, count*uint64(width))
		c.Value = 5 // offset in the memory, which need not be aligned
		want := loads
		if opcode <= gen.OpcodeFill {
			want = stores
		}
		if opcode == gen.OpcodeCompare {
			if c.Mode = 0; mode == gen.AccessFixed {
				continue
			}
			copy(m.memory[5:], m.device[first:][:count*uint64(width)])
		}
		if _, done := m.run(c); done != 1 {
			m.t.Fatalf("%v%s stopped the walk, want it complete", opcode, what)
		}
		m.checkAccesses(opcode.String()+what, want...)
	}
}

func TestBulkAccessesAreAlignedInOrderAndNoNarrowerThanNeeded(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m *machine) {
		for i := range m.memory {
			m.memory[i] = byte(i*7+i>>8) | 1
		}
		step := uint64(effort.Cases(3, 3, 1))
		for size := uint64(1); size <= 300; size += step {
			for offset := range uint64(33) {
				m.checkBulk(gen.OpcodeCopyIn, offset, size)
				m.checkBulk(gen.OpcodeCopyOut, offset, size)
			}
		}
		m.run(newCommand(gen.OpcodeCopyIn, 1, gen.AccessBulk, 0, 512))
		wide := deviceAccess{0, 16 << m.avx, true}
		if m.accesses[0] != wide {
			t.Errorf("a bulk copy begins with %+v, want %+v", m.accesses[0], wide)
		}
	})
}

// checkBulk executes a bulk copy, and checks the bytes and the accesses: in order, aligned, and not
// narrower than the alignment of offset and size requires.
func (m *machine) checkBulk(opcode gen.Opcode, offset, size uint64) {
	m.t.Helper()
	what := func() string { return fmt.Sprintf("%v of %d bytes at %d", opcode, size, offset) }
	c := newCommand(opcode, 1, gen.AccessBulk, offset, size)
	c.Value = size*7%16 + offset%3
	if w, done := m.run(c); done != 1 && w.StopReason != StopAllOnes {
		m.t.Fatalf("%s stopped the walk, want it complete", what())
	}
	if string(m.device[offset:][:size]) != string(m.memory[c.Value:][:size]) {
		m.t.Fatalf("%s: the bytes of the device and the memory differ", what())
	}
	at := offset
	common := (offset | size | 16) & -(offset | size | 16) // largest power of two that divides both
	for _, x := range m.accesses {
		width := uint64(x.width)
		if x.offset != at || width < common || x.store != (opcode == gen.OpcodeCopyIn) {
			m.t.Fatalf("%s: access %+v after %d bytes has a wrong offset, width or direction",
				what(), x, at-offset)
		}
		at += width
	}
	if at != offset+size {
		m.t.Fatalf("%s: %d bytes accessed, want %d", what(), at-offset, size)
	}
}

// TestEveryAccessBelongsToTheCommandInNext compares lists of commands of every kind except bulk
// copies with walk_generic.go, which executes them one by one: the accesses, the memory after each
// list, and the command that Next points to at each access.
func TestEveryAccessBelongsToTheCommandInNext(t *testing.T) {
	forEachMachine(t, func(t *testing.T, m *machine) {
		random := rand.New(rand.NewPCG(1, 1))
		stopReasons := map[uint64]int{}
		for range effort.Cases(3000, 3000, 30_000) {
			list := randomCommands(random, 512)
			for i := range list {
				if list[i].Mode == uint8(gen.AccessBulk) {
					list[i].Mode, list[i].Width = uint8(gen.AccessExact), 1
				}
			}
			p := newRecordingPort()
			for i := range p.memory {
				p.memory[i] = byte(random.Uint32N(3)) - 1 // sometimes all ones
				m.memory[i] = byte(random.Uint32N(3)) - 1
			}
			copy(m.device, p.memory[:])
			memory := bytes.Clone(m.memory)
			memories := [2]uintptr{1: AddressOf(memory)}
			windows, tlbBases := [3]uintptr{}, [2]uintptr{}
			want := Walk{Next: &list[0], Budget: largeBudget, WindowAddresses: &windows[0],
				BufferAddresses: &memories[0], TLBWindowBases: &tlbBases[0]}
			var commandIndexes []int
			done, fences := 0, walkGenericFenceCount.Load()
			for ; done < len(list); done++ {
				switch c := &list[done]; {
				case c.Opcode == gen.OpcodeFence:
					walkGenericFenceCount.Add(1)
					want.Advance()
				case c.Opcode == gen.OpcodePoint && c.Width != 0:
					want.programWindow(p)
				case c.Window == 1:
					want.executeCommand(p, nil, uint64(windows[1]), 0)
				}
				for len(commandIndexes) < len(p.accesses) {
					commandIndexes = append(commandIndexes, done)
				}
				if want.Next == &list[done] {
					break
				}
			}
			w, got := m.run(list...)
			stopReasons[w.StopReason]++
			if got != done || w.StopReason != want.StopReason ||
				w.StopReason != StopBeforeNext && w.StopReason != StopAllOnes &&
					w.Got != want.Got ||
				w.StopReason == StopMismatch && (w.Want != want.Want ||
					w.MismatchOffset != want.MismatchOffset) {
				t.Fatalf("%+v\nstopped at command %d with %+v, want command %d with %+v", list, got,
					w, done, want)
			}
			m.checkAccesses("list", p.accesses...)
			if uint32(m.fences) != walkGenericFenceCount.Load()-fences {
				t.Fatalf("%+v\n%d barriers, want %d", list, m.fences,
					walkGenericFenceCount.Load()-fences)
			}
			if !slices.Equal(m.commandIndexes, commandIndexes) {
				t.Fatalf("%+v\ncommand in Next at each access: %v, want %v", list,
					m.commandIndexes, commandIndexes)
			}
			if !bytes.Equal(m.device[:512], p.memory[:]) || !bytes.Equal(m.memory, memory) {
				t.Fatalf("%+v\nthe device or the memory differs from the oracle's", list)
			}
		}
		if len(stopReasons) != 4 {
			t.Errorf("number of walks by stop reason: %v, want some of all 4 reasons", stopReasons)
		}
	})
}
