package hal

import (
	"cmp"
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// The tests here disassemble the assembly of both architectures, on whichever
// they run, and carry out the instructions one by one on three pieces of
// memory: the device, the memory side and the stack. An instruction that the
// machine below does not know fails the test, and so do calls, write-back
// addressing and anything else that has no business on a device.

//go:embed access_amd64.s
var sourceAMD64 string

//go:embed access_arm64.s
var sourceARM64 string

const (
	deviceBase = 0x1000000
	memoryBase = 0x2000000
	stackBase  = 0x3000000
)

// touch is one access to the device.
type touch struct {
	offset uint64
	width  int
	store  bool
}

type instruction struct {
	pc       uint64
	op       string
	operands [3]operand
	jump     string // function that a jump out of this one goes to
}

// Where execution goes after an instruction, unless to an address.
const (
	on = iota
	back
)

// operand is an immediate, a register, a pair of registers, or memory.
type operand struct {
	immediate bool
	memory    bool
	value     uint64 // immediate, or displacement of memory
	register  string
	second    string // of a pair
	low8      bool   // AL for AX
}

type machine struct {
	t         *testing.T
	functions map[string][]instruction
	execute   func(m *machine, i *instruction) (next uint64)

	device, memory, stack []byte

	registers map[string]uint64
	vectors   map[string][]byte
	zero      bool
	below     bool
	avx       uint64
	touches   []touch
}

// machines gives a machine for each architecture, and each way to run it.
func machines(t *testing.T, test func(t *testing.T, m *machine)) {
	for _, arch := range []struct {
		name, source string
		execute      func(m *machine, i *instruction) uint64
		avx          uint64
	}{
		{"amd64", sourceAMD64, (*machine).amd64, 0},
		{"amd64", sourceAMD64, (*machine).amd64, 1},
		{"arm64", sourceARM64, (*machine).arm64, 0},
	} {
		t.Run(arch.name+"/avx="+strconv.FormatUint(arch.avx, 10), func(t *testing.T) {
			test(t, &machine{
				t: t, functions: disassemble(t, arch.name, arch.source), execute: arch.execute, avx: arch.avx,
				device: make([]byte, 1024), memory: make([]byte, 1024), stack: make([]byte, 64),
				registers: map[string]uint64{}, vectors: map[string][]byte{},
			})
		})
	}
}

// disassemble gives the instructions of each function in an assembly file.
func disassemble(t *testing.T, arch, source string) map[string][]instruction {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command is not here, and it is what assembles and disassembles")
	}
	folder := t.TempDir()
	file, object := filepath.Join(folder, "access.s"), filepath.Join(folder, "access.o")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
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
	run("tool", "asm", "-I", include, "-p", "hal", "-o", object, file)
	return parseListing(t, run("tool", "objdump", object))
}

// parseListing reads what objdump prints:
//
//	TEXT hal.load(SB) access.s
//	  access.s:15	0x3b32			488b7c2408		MOVQ 0x8(SP), DI
func parseListing(t *testing.T, listing string) map[string][]instruction {
	functions := map[string][]instruction{}
	name := ""
	for line := range strings.Lines(listing) {
		if rest, ok := strings.CutPrefix(line, "TEXT hal."); ok {
			name, _, _ = strings.Cut(rest, "(")
			continue
		}
		fields := strings.FieldsFunc(strings.TrimSpace(line), func(r rune) bool { return r == '\t' })
		if len(fields) < 4 || strings.Trim(fields[2], "0 ") == "" {
			continue // blank, or padding between functions
		}
		pc, err := strconv.ParseUint(fields[1], 0, 64)
		if err != nil {
			t.Fatalf("objdump: %q: %v", line, err)
		}
		op, args, _ := strings.Cut(strings.TrimSpace(fields[3]), " ")
		if strings.Contains(fields[3], "NOP") { // pads a loop to a multiple of 32
			op, args = "NOP", ""
		}
		i := instruction{pc: pc, op: op}
		if len(fields) > 4 {
			_, i.jump, _ = strings.Cut(strings.TrimSpace(fields[4]), ":hal.")
		}
		for n, arg := range splitArgs(args) {
			i.operands[n] = parseOperand(t, arg)
		}
		functions[name] = append(functions[name], i)
	}
	return functions
}

// splitArgs splits at commas outside parentheses.
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
		if before != "" && inside != "SB" {
			o.value = number(before)
		}
		return o
	}
	if strings.HasPrefix(s, "0x") {
		return operand{immediate: true, value: number(s)}
	}
	if len(s) == 2 && s[1] == 'L' { // AL, CL
		return operand{register: s[:1] + "X", low8: true}
	}
	return operand{register: s}
}

// call runs a function with arguments of eight bytes each and gives the eight
// bytes after them, where a result is.
func (m *machine) call(name string, arguments ...uint64) uint64 {
	clear(m.registers)
	m.registers["SP"], m.registers["RSP"] = stackBase, stackBase
	m.touches = m.touches[:0]
	clear(m.stack)
	for i, a := range arguments {
		binary.LittleEndian.PutUint64(m.stack[8+8*i:], a)
	}
	code := m.functions[name]
	for at := 0; at < len(code); {
		switch next := m.execute(m, &code[at]); {
		case next == on:
			at++
		case next == back:
			return binary.LittleEndian.Uint64(m.stack[8+8*len(arguments):])
		case code[at].jump != "":
			code, at = m.functions[code[at].jump], 0
		default:
			at = m.find(code, next)
		}
	}
	m.t.Fatalf("%s runs over its end", name)
	return 0
}

func (m *machine) find(code []instruction, pc uint64) int {
	at, ok := slices.BinarySearchFunc(code, pc, func(i instruction, pc uint64) int { return cmp.Compare(i.pc, pc) })
	if !ok {
		m.t.Fatalf("jump to %#x, where no instruction is", pc)
	}
	return at
}

// bytes gives the memory of an access; align is what the instruction demands.
func (m *machine) bytes(o operand, width, align int, store bool) []byte {
	if o.register == "IP" {
		return binary.LittleEndian.AppendUint64(nil, m.avx)
	}
	address := m.registers[o.register] + o.value
	if address%uint64(align) != 0 {
		m.t.Fatalf("address %#x is not a multiple of %d", address, align)
	}
	var region []byte
	switch address - address%deviceBase {
	case deviceBase:
		region = m.device
		m.touches = append(m.touches, touch{address % deviceBase, width, store})
	case memoryBase:
		region = m.memory
	case stackBase:
		region = m.stack
	}
	if offset := address % deviceBase; offset+uint64(width) <= uint64(len(region)) {
		return region[offset:][:width]
	}
	m.t.Fatalf("access of %d bytes at %#x, where nothing is", width, address)
	return nil
}

func (m *machine) load(o operand, width int) uint64 {
	var b [8]byte
	copy(b[:], m.bytes(o, width, 1, false)[:width])
	return binary.LittleEndian.Uint64(b[:])
}

func (m *machine) store(o operand, width int, value uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], value)
	copy(m.bytes(o, width, 1, true), b[:width])
}

// value reads an operand of an amd64 instruction.
func (m *machine) value(o operand, width int) uint64 {
	switch {
	case o.immediate:
		return o.value
	case o.memory:
		return m.load(o, width)
	case o.low8:
		width = 1
	}
	return m.registers[o.register] & (^uint64(0) >> (64 - 8*width))
}

// set writes an operand of an amd64 instruction: 32 bits clear the upper half
// of a register, fewer leave the rest alone.
func (m *machine) set(o operand, width int, value uint64) {
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

// Width and demanded alignment of vector moves.
var amd64Vectors = map[string][2]int{
	"MOVDQU": {16, 1}, "MOVDQA": {16, 16}, "MOVNTDQ": {16, 16}, "VMOVDQU": {32, 1}, "VMOVDQA": {32, 32},
}

// amd64 executes one instruction and says where to go.
func (m *machine) amd64(i *instruction) uint64 {
	a := &i.operands
	if width, ok := amd64Moves[i.op]; ok {
		m.set(a[1], width, m.value(a[0], width))
		return on
	}
	if v, ok := amd64Vectors[i.op]; ok {
		if made := len(m.touches); v[1] == 1 {
			defer func() {
				if len(m.touches) != made {
					m.t.Fatalf("%#x: %s on the device does not demand alignment", i.pc, i.op)
				}
			}()
		}
		if a[0].memory {
			m.vectors[a[1].register] = append(m.vectors[a[1].register][:0], m.bytes(a[0], v[0], v[1], false)...)
		} else {
			copy(m.bytes(a[1], v[0], v[1], true), m.vectors[a[0].register])
		}
		return on
	}
	jump := func(taken bool) uint64 {
		if taken {
			return a[0].value
		}
		return on
	}
	switch i.op {
	case "TESTQ":
		m.zero, m.below = m.value(a[0], 8)&m.value(a[1], 8) == 0, false
	case "CMPQ", "CMPL", "CMPB":
		width := map[string]int{"CMPQ": 8, "CMPL": 4, "CMPB": 1}[i.op]
		x, y := m.value(a[0], width), m.value(a[1], width)
		m.zero, m.below = x == y, x < y
	case "ADDQ":
		m.set(a[1], 8, m.value(a[1], 8)+m.value(a[0], 8))
		m.zero = m.value(a[1], 8) == 0
	case "SUBQ":
		x, y := m.value(a[1], 8), m.value(a[0], 8)
		m.set(a[1], 8, x-y)
		m.zero, m.below = x == y, x < y
	case "DECQ":
		m.set(a[0], 8, m.value(a[0], 8)-1)
		m.zero = m.value(a[0], 8) == 0
	case "SHRQ":
		m.set(a[1], 8, m.value(a[1], 8)>>a[0].value)
		m.zero = m.value(a[1], 8) == 0
	case "XORL":
		m.set(a[1], 4, m.value(a[1], 4)^m.value(a[0], 4))
	case "JE":
		return jump(m.zero)
	case "JNE":
		return jump(!m.zero)
	case "JB":
		return jump(m.below)
	case "JAE":
		return jump(!m.below)
	case "JMP":
		return a[0].value
	case "RET":
		return back
	case "VZEROUPPER", "MFENCE", "NOP":
	default:
		m.t.Fatalf("%#x: instruction %s has no business here", i.pc, i.op)
	}
	return on
}

var arm64Loads = map[string]int{"MOVBU": 1, "MOVHU": 2, "MOVWU": 4}
var arm64Stores = map[string]int{"MOVB": 1, "MOVH": 2, "MOVW": 4}

func (m *machine) arm64(i *instruction) uint64 {
	a := &i.operands
	value := func(o operand) uint64 {
		if o.immediate {
			return o.value
		}
		return m.registers[o.register]
	}
	// Branches are relative, in instructions: 8(PC).
	jump := func(taken bool, o operand) uint64 {
		if taken {
			return i.pc + 4*o.value
		}
		return on
	}
	switch i.op {
	case "MOVBU", "MOVHU", "MOVWU":
		m.registers[a[1].register] = m.load(a[0], arm64Loads[i.op])
	case "MOVB", "MOVH", "MOVW":
		m.store(a[1], arm64Stores[i.op], value(a[0]))
	case "MOVD":
		if a[0].memory {
			m.registers[a[1].register] = m.load(a[0], 8)
		} else {
			m.store(a[1], 8, value(a[0]))
		}
	case "LDP":
		b := m.bytes(a[0], 16, 1, false)
		m.registers[a[1].register] = binary.LittleEndian.Uint64(b)
		m.registers[a[1].second] = binary.LittleEndian.Uint64(b[8:])
	case "STP":
		b := m.bytes(a[1], 16, 1, true)
		binary.LittleEndian.PutUint64(b, m.registers[a[0].register])
		binary.LittleEndian.PutUint64(b[8:], m.registers[a[0].second])
	case "ADD":
		m.registers[a[2].register] = value(a[1]) + value(a[0])
	case "SUB":
		m.registers[a[2].register] = value(a[1]) - value(a[0])
	case "SUBS":
		x, y := value(a[1]), value(a[0])
		m.zero, m.below = x == y, x < y
		m.registers[a[2].register] = x - y
	case "CMP":
		m.zero, m.below = value(a[1]) == value(a[0]), value(a[1]) < value(a[0])
	case "LSR":
		m.registers[a[2].register] = value(a[1]) >> value(a[0])
	case "TBZ":
		return jump(value(a[1])>>a[0].value&1 == 0, a[2])
	case "CBZ":
		return jump(value(a[0]) == 0, a[1])
	case "CBNZ":
		return jump(value(a[0]) != 0, a[1])
	case "BEQ":
		return jump(m.zero, a[0])
	case "BNE":
		return jump(!m.zero, a[0])
	case "BCC":
		return jump(m.below, a[0])
	case "BCS":
		return jump(!m.below, a[0])
	case "JMP":
		return jump(true, a[0])
	case "RET":
		return back
	case "DSB":
	default:
		m.t.Fatalf("%#x: instruction %s has no business here", i.pc, i.op)
	}
	return on
}

// checkTouches holds the accesses of the last call against what they should be.
func (m *machine) checkTouches(what string, want ...touch) {
	m.t.Helper()
	if !slices.Equal(m.touches, want) {
		m.t.Fatalf("%s: accesses %+v, want %+v", what, m.touches, want)
	}
}

func TestEveryAssemblyFunctionIsTested(t *testing.T) {
	machines(t, func(t *testing.T, m *machine) {
		var got []string
		for name := range m.functions {
			if name != "detectAVX" { // touches no device; amd64 only
				got = append(got, name)
			}
		}
		slices.Sort(got)
		want := []string{
			"bulkIn", "bulkOut", "copyIn16", "copyIn32", "copyIn64", "copyIn8", "copyOut16", "copyOut32", "copyOut64", "copyOut8",
			"fence", "fill16", "fill32", "fill64", "fill8", "load", "store", "storeRun32", "storeRun64", "streamIn",
		}
		if !slices.Equal(got, want) {
			t.Errorf("functions %v, tests are for %v", got, want)
		}
	})
}

func TestFenceIsTheFullBarrierOfDevices(t *testing.T) {
	machines(t, func(t *testing.T, m *machine) {
		want := instruction{op: "MFENCE"}
		if m.functions["fence"][0].op == "DSB" {
			want = instruction{op: "DSB", operands: [3]operand{{immediate: true, value: 15}}} // SY
		}
		code := m.functions["fence"]
		if len(code) != 2 || code[0].op != want.op || code[0].operands != want.operands || code[1].op != "RET" {
			t.Errorf("fence is %+v", code)
		}
	})
}

func TestLoadAndStoreAreOneInstruction(t *testing.T) {
	machines(t, func(t *testing.T, m *machine) {
		for i := range m.device {
			m.device[i] = byte(0xf0 ^ i)
		}
		for _, width := range widths {
			offset := uint64(width) * 5
			want := touch{offset, int(width), false}
			if got := m.call("load", deviceBase+offset, uint64(width)); got != get(m.device[offset:][:width]) {
				t.Errorf("load of %d bytes gives %#x", width, got)
			}
			m.checkTouches("load", want)
			want.store = true
			m.call("store", deviceBase+offset, uint64(width), 0x8877665544332211)
			m.checkTouches("store", want)
			if got := get(m.device[offset:][:width]); got != 0x8877665544332211&(^uint64(0)>>(64-8*width)) {
				t.Errorf("store of %d bytes leaves %#x", width, got)
			}
		}
	})
}

func TestExactAndFixedAccessesKeepWidthAndOrder(t *testing.T) {
	machines(t, func(t *testing.T, m *machine) {
		for _, width := range widths {
			for _, step := range []uint64{uint64(width), 0} {
				for count := range uint64(20) {
					m.checkExact(uint64(width), step, count)
				}
			}
		}
	})
}

func (m *machine) checkExact(width, step, count uint64) {
	bits := strconv.FormatUint(8*width, 10)
	first := 3 * width
	var loads, stores []touch
	for i := range count {
		loads = append(loads, touch{first + i*step, int(width), false})
		stores = append(stores, touch{first + i*step, int(width), true})
	}
	what := fmt.Sprintf("width %d, step %d, count %d", width, step, count)
	size := count * width
	m.call("copyIn"+bits, deviceBase+first, step, memoryBase+5, size, size)
	m.checkTouches("copyIn, "+what, stores...)
	m.call("copyOut"+bits, deviceBase+first, step, memoryBase+5, size, size)
	m.checkTouches("copyOut, "+what, loads...)
	m.call("fill"+bits, deviceBase+first, step, 0x0102030405060708, count)
	m.checkTouches("fill, "+what, stores...)
}

func TestBulkAccessesAreAlignedInOrderAndNoNarrowerThanNeeded(t *testing.T) {
	machines(t, func(t *testing.T, m *machine) {
		for i := range m.memory {
			m.memory[i] = byte(i*7 + i>>8)
		}
		for size := range uint64(301) {
			for offset := range uint64(33) {
				for _, name := range []string{"bulkIn", "streamIn", "bulkOut"} {
					m.checkBulk(name, offset, size)
				}
			}
		}
		if m.uses("bulkIn", "MOVDQA") && (m.uses("streamIn", "MOVDQA") || !m.uses("streamIn", "MOVNTDQ")) {
			t.Error("streamIn does not stream")
		}
		m.call("bulkIn", deviceBase, memoryBase, 512, 512)
		wide := touch{0, 16 << m.avx, true}
		if m.touches[0] != wide {
			t.Errorf("bulkIn begins with %+v, want %+v", m.touches[0], wide)
		}
	})
}

func (m *machine) uses(name, op string) bool {
	return slices.ContainsFunc(m.functions[name], func(i instruction) bool { return i.op == op })
}

func (m *machine) checkBulk(name string, offset, size uint64) {
	m.t.Helper()
	what := func() string { return fmt.Sprintf("%s of %d bytes at %d", name, size, offset) }
	side := size*7%16 + offset%3
	m.call(name, deviceBase+offset, memoryBase+side, size, size)
	if string(m.device[offset:][:size]) != string(m.memory[side:][:size]) {
		m.t.Fatalf("%s: the bytes differ", what())
	}
	at := offset
	common := (offset | size | 16) & -(offset | size | 16) // largest power of two that divides both
	for _, x := range m.touches {
		width := uint64(x.width)
		if x.offset != at || x.offset%width != 0 || width < common || x.store == (name == "bulkOut") {
			m.t.Fatalf("%s: access %+v after %d bytes", what(), x, at-offset)
		}
		at += width
	}
	if at != offset+size {
		m.t.Fatalf("%s: %d bytes accessed", what(), at-offset)
	}
}

// plainWrites gives a run of Writes at descending offsets, with one that is
// not like the others behind it.
func plainWrites(count int, width uint8) []fbs.Command {
	run := make([]fbs.Command, count+1)
	for i := range run {
		run[i] = fbs.Command{Opcode: gen.OpcodeWrite, Width: width, Mode: uint8(gen.SourceImmediate), Window: 3,
			Offset: uint32(8 * (count - i)), Value: 0x1122334455667788 + uint64(i)*0x0101010101, Mask: fbs.WidthMask(width)}
		run[i].Value &= run[i].Mask
	}
	return run
}

// unlike are the ways in which a Write ends a run.
var unlike = map[string]func(*fbs.Command){
	"opcode": func(c *fbs.Command) { c.Opcode = gen.OpcodeExpect },
	"width":  func(c *fbs.Command) { c.Width = 2 },
	"source": func(c *fbs.Command) { c.Mode = uint8(gen.SourceBusAddress) },
	"window": func(c *fbs.Command) { c.Window = 4 },
	"index":  func(c *fbs.Command) { c.Index = 1 },
	"mask":   func(c *fbs.Command) { c.Mask = 1 },
}

func TestStoreRunMakesOneStoreACommandUntilOneIsUnlike(t *testing.T) {
	machines(t, func(t *testing.T, m *machine) {
		for _, width := range []uint8{4, 8} {
			for name, change := range unlike {
				run := plainWrites(5, width)
				change(&run[5])
				var want []touch
				for i, c := range run {
					for j, field := range []uint64{
						uint64(c.Opcode) | uint64(c.Width)<<8 | uint64(c.Mode)<<16 | uint64(c.Window)<<32 | uint64(c.Index)<<48,
						uint64(c.Offset), c.Value, c.Mask,
					} {
						binary.LittleEndian.PutUint64(m.memory[32*i+8*j:], field)
					}
					want = append(want, touch{uint64(c.Offset), int(width), true})
				}
				const at = 512
				binary.LittleEndian.PutUint32(m.memory[at:], 40)
				function := "storeRun" + strconv.Itoa(int(width)*8)
				if done := m.call(function, deviceBase, memoryBase, 6, memoryBase+at); done != 5 {
					t.Errorf("%s, unlike in %s: %d stores, want 5", function, name, done)
				}
				m.checkTouches(function+" "+name, want[:5]...)
				if got := binary.LittleEndian.Uint32(m.memory[at:]); got != 45 {
					t.Errorf("%s: at is %d, want 45", function, got)
				}
				if got := get(m.device[run[2].Offset:][:width]); got != run[2].Value {
					t.Errorf("%s stored %#x, want %#x", function, got, run[2].Value)
				}
				if done := m.call(function, deviceBase, memoryBase, 3, memoryBase+at); done != 3 {
					t.Errorf("%s: %d stores of a run cut at 3", function, done)
				}
			}
		}
	})
}
