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

// Random programs run here and under QEMU's user-mode emulator, an interpreter
// of the same manual by other people. The registers and the data at their end
// must be the same.

const (
	programs = 200 // of about 600 instructions each
	origin   = 0x10000
	headers  = 52 + 32 // ELF header and one program header

	dataSize = 4096 // read and written by the program through a base register in its middle
	dumpSize = dataSize + 4*32
)

// special values go into registers and data more often than chance would have.
var special = []uint32{0, 1, 2, minus1, minInt, minInt + 1, maxInt, 31, 32, 0xff, 0x80, 0x7fff,
	0x8000, 0xffff, 0xfffffffe}

// generator writes one program: code, then data, then room for registers.
type generator struct {
	*rand.Rand
	code []uint32
	base uint32         // register that holds the middle of the data
	seen map[string]int // instructions by name
}

func (g *generator) emit(words ...uint32) { g.code = append(g.code, words...) }

func (g *generator) word() uint32 {
	if g.IntN(2) == 0 {
		return special[g.IntN(len(special))]
	}
	return g.Uint32()
}

func (g *generator) reg() uint32 { return g.Uint32N(32) }

// target is any register but the base.
func (g *generator) target() uint32 {
	for {
		if r := g.reg(); r != g.base {
			return r
		}
	}
}

func (g *generator) imm() int32 { return g.Int32N(4096) - 2048 }

func (g *generator) pick(ops []op) string {
	name := ops[g.IntN(len(ops))].name
	g.seen[name]++
	return name
}

// instruction writes one instruction that neither jumps nor touches anything
// but registers and data.
func (g *generator) instruction() {
	rd, rs1, rs2 := g.target(), g.reg(), g.reg()
	switch g.IntN(9) {
	case 0, 1, 2:
		g.emit(encode(g.pick(regOps), rd, rs1, rs2, 0))
	case 3:
		g.emit(encode(g.pick(immOps), rd, rs1, 0, g.imm()))
	case 4:
		g.emit(encode(g.pick(shiftOps), rd, rs1, 0, g.Int32N(32)))
	case 5:
		g.seen["lui"]++
		g.emit(lui(rd, g.Uint32()))
	case 6:
		g.seen["auipc"]++
		g.emit(uType(opAuipc, rd, g.Uint32()))
	case 7:
		name := g.pick(loadOps)
		g.emit(encode(name, rd, g.base, 0, g.offset(name)))
	case 8:
		name := g.pick(storeOps)
		g.emit(encode(name, 0, g.base, rs2, g.offset(name)))
	}
}

// offset is one inside the data, aligned for the load or store of that name.
func (g *generator) offset(name string) int32 {
	switch name[1] {
	case 'w':
		return g.imm() &^ 3
	case 'h':
		return g.imm() &^ 1
	}
	return g.imm()
}

// blocks writes the program's blocks in a random order in memory. Each ends
// with a branch and a jump to the one that follows it in the order of
// execution; where the branch is not taken, the instructions between run too.
func (g *generator) blocks(count int) {
	type jump struct {
		at     int // index of the branch
		to     int // block
		link   uint32
		branch string
	}
	order := g.Perm(count)
	start := make([]int, count+1)
	var jumps []jump
	entry := len(g.code)
	g.emit(0)
	for _, block := range order {
		start[block] = len(g.code)
		for range 3 + g.IntN(8) {
			g.instruction()
		}
		jumps = append(jumps, jump{len(g.code), block + 1, g.target(), g.pick(branchOps)})
		g.emit(0, 0, 0, 0, 0)
	}
	start[count] = len(g.code)
	g.code[entry] = jType(0, distance(entry, start[0]))
	for _, j := range jumps {
		g.code[j.at] = encode(j.branch, 0, g.reg(), g.reg(), distance(j.at, start[j.to]))
		g.code[j.at+1] = addi(g.target(), 0, g.imm())
		copy(g.code[j.at+2:], g.jump(j.at+2, start[j.to], j.link))
	}
}

// jump returns three instructions at index at that end at index to, by jal or by
// jalr with a random immediate, bit 0 sometimes set.
func (g *generator) jump(at, to int, link uint32) []uint32 {
	if g.IntN(2) == 0 {
		g.seen["jal"]++
		return []uint32{jType(link, distance(at, to)), 0, 0}
	}
	g.seen["jalr"]++
	through := g.target()
	for through == 0 {
		through = g.target()
	}
	imm := g.imm()
	address := uint32(origin+headers+4*to) | g.Uint32N(2)
	return append(li(through, address-uint32(imm)), iType(opJalr, 0, link, through, imm))
}

func distance(at, to int) int32 { return int32(4 * (to - at)) }

// prologue points the base register at the middle of the data and loads every
// other register from there on.
func (g *generator) prologue(data uint32) []uint32 {
	code := li(g.base, data+dataSize/2)
	for r := range uint32(32) {
		if r != g.base {
			code = append(code, encode("lw", r, g.base, 0, int32(4*r)))
		}
	}
	return code
}

// epilogue stores every register but the base after the data, writes both to
// standard output (Linux system call 64) and exits (93).
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

// program returns a program as a static ELF.
func (g *generator) program() []byte {
	g.base = 1 + g.Uint32N(31)
	g.emit(g.prologue(0)...)
	g.blocks(40)
	end := len(g.code)
	g.emit(g.epilogue(0)...)

	offset := (headers + 4*len(g.code) + 15) &^ 15
	data := uint32(origin + offset)
	copy(g.code, g.prologue(data))
	copy(g.code[end:], g.epilogue(data))

	image := elf(offset + dumpSize)
	for i, w := range g.code {
		binary.LittleEndian.PutUint32(image[headers+4*i:], w)
	}
	for o := 0; o < dataSize; o += 4 {
		binary.LittleEndian.PutUint32(image[offset+o:], g.word())
	}
	return image
}

// elf starts an ELF file of size bytes: one segment that holds the whole
// file, readable, writable and executable, entered after the headers (System V
// ABI, chapters 4 and 5).
func elf(size int) []byte {
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
	// version, entry, program headers at, no section headers, flags
	u32(1, origin+headers, 52, 0, 0)
	u16(52, 32, 1, 0, 0, 0) // sizes and counts of headers
	// PT_LOAD, file offset, addresses, sizes, rwx, align
	u32(1, 0, origin, origin, uint32(size), uint32(size), 7, 4096)
	return image[:size]
}

// interpret runs a program on a Core up to its write system call and returns what
// that writes.
func interpret(image []byte) ([]byte, error) {
	m := &ram{base: origin, data: bytes.Clone(image)}
	c := &Core{Fence: true, Bus: m, PC: origin + headers}
	c.Step(10_000)
	if c.Stop.Reason != EnvironmentCall || c.X[17] != 64 || c.X[10] != 1 {
		return nil, fmt.Errorf("no write: %v", c.Stop)
	}
	at := c.X[11] - origin
	return m.data[at : at+c.X[12]], nil
}

// qemu finds the emulator. Without it the test cannot run; LM_TEST_REQUIRED=1
// makes that a failure.
func qemu(t *testing.T) string {
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

// TestRandomProgramsMatchQEMU compares every register but x0 and 4 KiB of
// data after each of the programs, and that every instruction was among them.
func TestRandomProgramsMatchQEMU(t *testing.T) {
	emulator, file := qemu(t), filepath.Join(t.TempDir(), "program")
	g := &generator{seen: map[string]int{}}
	for seed := range uint64(programs) {
		g.Rand, g.code = rand.New(rand.NewPCG(seed, 1)), nil
		image := g.program()
		if err := os.WriteFile(file, image, 0o755); err != nil {
			t.Fatal(err)
		}
		want := emulate(t, emulator, file)
		got, err := interpret(image)
		if err != nil {
			t.Fatalf("program %d: %v", seed, err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("program %d: %s", seed, difference(got, want))
		}
	}
	for _, ops := range [][]op{regOps, immOps, shiftOps, branchOps, loadOps, storeOps,
		{{name: "lui"}, {name: "auipc"}, {name: "jal"}, {name: "jalr"}}} {
		for _, o := range ops {
			if g.seen[o.name] < programs/4 {
				t.Errorf("only %d times %s", g.seen[o.name], o.name)
			}
		}
	}
}

// emulate returns what a program writes under QEMU.
func emulate(t *testing.T, emulator, file string) []byte {
	cmd := exec.Command(emulator, "-cpu", "rv32", file)
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	cmd.WaitDelay = time.Second
	timer := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Run(); err != nil || out.Len() != dumpSize {
		t.Fatalf("%s: %v, %d bytes, %s", emulator, err, out.Len(), text.Bytes())
	}
	return out.Bytes()
}

// difference names the first register or word of data that differs.
func difference(got, want []byte) string {
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
