package rv32

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Random programs run on a Core and under QEMU's user-mode emulator, which implements the same
// manual independently. After each program, registers and data must be the same.

const (
	programCount = 200 // of about 600 instructions each
	loadAddress  = 0x10000
	headersSize  = 52 + 32 // ELF header and one program header

	dataSize = 4096 // read and written by the program through a base register in its middle
	dumpSize = dataSize + 4*32
)

// specialValues are used in registers and data more often than other values.
var specialValues = []uint32{0, 1, 2, minus1, minInt, minInt + 1, maxInt, 31, 32, 0xff, 0x80,
	0x7fff, 0x8000, 0xffff, 0xfffffffe}

// generator generates one program: code, then data, then memory for the registers.
type generator struct {
	*rand.Rand
	code      []uint32
	base      uint32         // register that holds the middle of the data
	useCounts map[string]int // number of uses of each instruction, by name
}

func (g *generator) emit(words ...uint32) { g.code = append(g.code, words...) }

func (g *generator) randomWord() uint32 {
	if g.IntN(2) == 0 {
		return specialValues[g.IntN(len(specialValues))]
	}
	return g.Uint32()
}

func (g *generator) randomRegister() uint32 { return g.Uint32N(32) }

// randomDestination returns a random register that is not the base register.
func (g *generator) randomDestination() uint32 {
	for {
		if r := g.randomRegister(); r != g.base {
			return r
		}
	}
}

func (g *generator) randomImmediate() int32 { return g.Int32N(4096) - 2048 }

// pickName returns the name of a random instruction of a table, and counts its use.
func (g *generator) pickName(ops []op) string {
	name := ops[g.IntN(len(ops))].name
	g.useCounts[name]++
	return name
}

// emitInstruction emits one random instruction that does not jump, and that accesses only registers
// and data.
func (g *generator) emitInstruction() {
	rd, rs1, rs2 := g.randomDestination(), g.randomRegister(), g.randomRegister()
	switch g.IntN(9) {
	case 0, 1, 2:
		g.emit(encode(g.pickName(regOps), rd, rs1, rs2, 0))
	case 3:
		g.emit(encode(g.pickName(immOps), rd, rs1, 0, g.randomImmediate()))
	case 4:
		g.emit(encode(g.pickName(shiftOps), rd, rs1, 0, g.Int32N(32)))
	case 5:
		g.useCounts["lui"]++
		g.emit(lui(rd, g.Uint32()))
	case 6:
		g.useCounts["auipc"]++
		g.emit(uType(opAuipc, rd, g.Uint32()))
	case 7:
		name := g.pickName(loadOps)
		g.emit(encode(name, rd, g.base, 0, g.randomOffset(name)))
	case 8:
		name := g.pickName(storeOps)
		g.emit(encode(name, 0, g.base, rs2, g.randomOffset(name)))
	}
}

// randomOffset returns a random offset of the data, aligned for the load or store with the given
// name.
func (g *generator) randomOffset(name string) int32 {
	switch name[1] {
	case 'w':
		return g.randomImmediate() &^ 3
	case 'h':
		return g.randomImmediate() &^ 1
	}
	return g.randomImmediate()
}

// emitBlocks emits the program's blocks in random order. Each block ends with a branch and a jump
// to the block that is executed next. If the branch is not taken, the core executes the instruction
// after it and then the jump.
func (g *generator) emitBlocks(count int) {
	type blockEnd struct {
		at     int // index of the branch
		to     int // block
		link   uint32
		branch string
	}
	order := g.Perm(count)
	start := make([]int, count+1)
	var jumps []blockEnd
	entry := len(g.code)
	g.emit(0)
	for _, block := range order {
		start[block] = len(g.code)
		for range 3 + g.IntN(8) {
			g.emitInstruction()
		}
		jumps = append(jumps, blockEnd{len(g.code), block + 1, g.randomDestination(),
			g.pickName(branchOps)})
		g.emit(0, 0, 0, 0, 0)
	}
	start[count] = len(g.code)
	g.code[entry] = jType(0, distance(entry, start[0]))
	for _, j := range jumps {
		g.code[j.at] = encode(j.branch, 0, g.randomRegister(), g.randomRegister(),
			distance(j.at, start[j.to]))
		g.code[j.at+1] = addi(g.randomDestination(), 0, g.randomImmediate())
		copy(g.code[j.at+2:], g.jumpCode(j.at+2, start[j.to], j.link))
	}
}

// jumpCode returns three instructions for the index `at` that jump to the index `to`: jal, or jalr
// with a random immediate. Bit 0 of the target of jalr, which the core ignores, is sometimes set.
func (g *generator) jumpCode(at, to int, link uint32) []uint32 {
	if g.IntN(2) == 0 {
		g.useCounts["jal"]++
		return []uint32{jType(link, distance(at, to)), 0, 0}
	}
	g.useCounts["jalr"]++
	base := g.randomDestination()
	for base == 0 {
		base = g.randomDestination()
	}
	imm := g.randomImmediate()
	address := uint32(loadAddress+headersSize+4*to) | g.Uint32N(2)
	return append(li(base, address-uint32(imm)), iType(opJalr, 0, link, base, imm))
}

// distance is in bytes, between the indices of two instructions.
func distance(at, to int) int32 { return int32(4 * (to - at)) }

// prologue returns code that points the base register at the middle of the data, and loads every
// other register from there.
func (g *generator) prologue(data uint32) []uint32 {
	code := li(g.base, data+dataSize/2)
	for r := range uint32(32) {
		if r != g.base {
			code = append(code, encode("lw", r, g.base, 0, int32(4*r)))
		}
	}
	return code
}

// epilogue returns code that stores every register except the base register after the data, writes
// both to standard output (Linux system call 64), and exits (93).
func (g *generator) epilogue(data uint32) []uint32 {
	code := []uint32{addi(g.base, g.base, 2044)}
	for r := range uint32(32) {
		if r != g.base {
			code = append(code, encode("sw", 0, g.base, r, int32(4+4*r)))
		}
	}
	const a0, a1, a2, a7 = 10, 11, 12, 17
	code = append(code, addi(a0, 0, 1))
	code = append(code, li(a1, data)...)
	code = append(code, li(a2, dumpSize)...)
	return append(code, addi(a7, 0, 64), ecall, addi(a0, 0, 0), addi(a7, 0, 93), ecall)
}

// The program is a static ELF.
func (g *generator) buildProgram() []byte {
	g.base = 1 + g.Uint32N(31)
	g.emit(g.prologue(0)...)
	g.emitBlocks(40)
	end := len(g.code)
	g.emit(g.epilogue(0)...)

	offset := (headersSize + 4*len(g.code) + 15) &^ 15
	data := uint32(loadAddress + offset)
	copy(g.code, g.prologue(data))
	copy(g.code[end:], g.epilogue(data))

	image := newELF(offset + dumpSize)
	for i, w := range g.code {
		binary.LittleEndian.PutUint32(image[headersSize+4*i:], w)
	}
	for o := 0; o < dataSize; o += 4 {
		binary.LittleEndian.PutUint32(image[offset+o:], g.randomWord())
	}
	return image
}

// newELF returns an ELF file of size bytes with nothing but its headers. Its one segment contains
// the complete file and is readable, writable and executable. The entry point is after the headers
// (System V ABI, chapters 4 and 5).
func newELF(size int) []byte {
	image := make([]byte, 0, size)
	u16 := func(vs ...uint16) {
		for _, v := range vs {
			image = binary.LittleEndian.AppendUint16(image, v)
		}
	}
	u32 := func(vs ...uint32) {
		for _, v := range vs {
			image = binary.LittleEndian.AppendUint32(image, v)
		}
	}
	image = append(image, "\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	u16(2, 243) // ET_EXEC, EM_RISCV
	// version, entry, offset of the program headers, no section headers, flags
	u32(1, loadAddress+headersSize, 52, 0, 0)
	u16(52, 32, 1, 0, 0, 0) // sizes and counts of headers
	// PT_LOAD, file offset, addresses, sizes, rwx, align
	u32(1, 0, loadAddress, loadAddress, uint32(size), uint32(size), 7, 4096)
	return image[:size]
}

// interpret runs a program on a Core up to its write system call, and returns the bytes to write.
func interpret(image []byte) ([]byte, error) {
	m := &ram{base: loadAddress, data: bytes.Clone(image)}
	c := &Core{Fence: true, Bus: m, PC: loadAddress + headersSize}
	c.Step(10_000)
	if c.Stop.Reason != EnvironmentCall || c.X[17] != 64 || c.X[10] != 1 {
		return nil, fmt.Errorf("the program did not reach its write system call: %v", c.Stop)
	}
	at := c.X[11] - loadAddress
	return m.data[at : at+c.X[12]], nil
}

// findQEMU returns the path of the emulator. If it is missing, findQEMU skips the test or, if
// LM_TEST_REQUIRED is 1, fails it.
func findQEMU(t *testing.T) string {
	path, err := exec.LookPath("qemu-riscv32-static")
	switch {
	case err == nil:
	case os.Getenv("LM_TEST_REQUIRED") == "1":
		t.Fatal("qemu-riscv32-static is required (Debian: apt install qemu-user-static): ", err)
	default:
		t.Skip("no qemu-riscv32-static (Debian: apt install qemu-user-static)")
	}
	return path
}

// TestRandomProgramsMatchQEMU compares all registers except x0 and the base register, and 4 KiB of
// data, after each program. It checks that the programs had every instruction.
func TestRandomProgramsMatchQEMU(t *testing.T) {
	emulator, file := findQEMU(t), filepath.Join(t.TempDir(), "program")
	g := &generator{useCounts: map[string]int{}}
	for seed := range uint64(programCount) {
		g.Rand, g.code = rand.New(rand.NewPCG(seed, 1)), nil
		image := g.buildProgram()
		if err := os.WriteFile(file, image, 0o755); err != nil {
			t.Fatal(err)
		}
		want := runUnderQEMU(t, emulator, file)
		got, err := interpret(image)
		if err != nil {
			t.Fatalf("program %d: %v", seed, err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("program %d: %s", seed, firstDifference(got, want))
		}
	}
	for _, ops := range [][]op{regOps, immOps, shiftOps, branchOps, loadOps, storeOps,
		{{name: "lui"}, {name: "auipc"}, {name: "jal"}, {name: "jalr"}}} {
		for _, o := range ops {
			if g.useCounts[o.name] < programCount/4 {
				t.Errorf("the programs have %s only %d times, want at least %d", o.name,
					g.useCounts[o.name], programCount/4)
			}
		}
	}
}

// runUnderQEMU returns what the program writes.
func runUnderQEMU(t *testing.T, emulator, file string) []byte {
	cmd := exec.Command(emulator, "-cpu", "rv32", file)
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	cmd.WaitDelay = time.Second
	timer := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Run(); err != nil || out.Len() != dumpSize {
		t.Fatalf("%s: error %v, %d bytes of output, want %d; messages %s", emulator, err, out.Len(),
			dumpSize, text.Bytes())
	}
	return out.Bytes()
}

// firstDifference describes the first register or word of data that differs.
func firstDifference(got, want []byte) string {
	for o := 0; o < len(want); o += 4 {
		g, w := binary.LittleEndian.Uint32(got[o:]), binary.LittleEndian.Uint32(want[o:])
		switch {
		case g == w:
		case o < dataSize:
			return fmt.Sprintf("data at %#x is %#08x, under QEMU %#08x", o, g, w)
		default:
			return fmt.Sprintf("x%d is %#08x, under QEMU %#08x", (o-dataSize)/4, g, w)
		}
	}
	return "no difference"
}
