package a64

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lightmetal/tools/check/effort"
)

// processorState has the layout of struct state of testdata/execute.c.
type processorState struct {
	X     [32]uint64 // 31: SP
	Flags uint64
	Z     [32][256]byte
	P     [16][32]byte
}

const (
	memoryAt   = 0x10000000
	memorySize = 0x50000
	middle     = memoryAt + memorySize/2
	contextX   = 28 // number of a register that execute.c itself needs
)

// flatMemory is device memory at memoryAt. If aligned is set, it rejects misaligned accesses.
type flatMemory struct {
	data    []byte
	aligned bool
}

// newFlatMemory returns memory with the same data as the memory of testdata/execute.c.
func newFlatMemory() *flatMemory {
	m := &flatMemory{data: make([]byte, memorySize)}
	for i := range uint64(memorySize / 8) {
		binary.LittleEndian.PutUint64(m.data[8*i:], (i+1)*0x9e3779b97f4a7c15)
	}
	return m
}

// checksum returns the checksum of the memory, which testdata/execute.c computes in the same way.
func (m *flatMemory) checksum() (sum uint64) {
	for i := 0; i < memorySize; i += 8 {
		sum = (sum ^ binary.LittleEndian.Uint64(m.data[i:])) * 0x100000001b3
	}
	return sum
}

// bytesAt returns the bytes of the memory that an access of len(data) bytes reaches.
func (m *flatMemory) bytesAt(address uint64, data []byte) ([]byte, error) {
	width := uint64(len(data))
	if address < memoryAt || address+width > memoryAt+memorySize ||
		m.aligned && address%width != 0 {
		return nil, fmt.Errorf("access of %d bytes at %#x is misaligned or outside the memory",
			width, address)
	}
	return m.data[address-memoryAt:][:width], nil
}

func (m *flatMemory) Load(address uint64, data []byte) error {
	from, err := m.bytesAt(address, data)
	copy(data, from)
	return err
}

func (m *flatMemory) Store(address uint64, data []byte) error {
	to, err := m.bytesAt(address, data)
	copy(to, data)
	return err
}

func (m *flatMemory) IsDevice(uint64) bool { return true }

// randomScalableCase returns an SVE instruction that Step supports, registers with which it stays
// within the memory, and the address of its operand. length is that of vectors, in bytes.
func randomScalableCase(r *rand.Rand, length int) (code uint32, before *processorState, at uint64) {
	for {
		code = randomScalableWord(r)
		i, reason := decode(code)
		s := i.scalable
		if reason != "" || s == nil || s.base == contextX {
			continue
		}
		if s.indexed && (s.index == contextX || s.index == s.base) {
			continue
		}
		before = &processorState{Flags: uint64(r.IntN(16)) << 28}
		for n := range before.X {
			before.X[n] = r.Uint64()
		}
		for n := range before.Z {
			for k := range length {
				before.Z[n][k] = byte(r.Uint32())
			}
		}
		density := r.IntN(4) // of active elements
		for n := range before.P {
			for k := range length / 8 {
				before.P[n][k] = [...]byte{0xff, byte(r.Uint32()), byte(r.Uint32() | r.Uint32()),
					0x0f}[density]
			}
		}
		before.X[s.base] = middle + uint64(r.IntN(64))&^15 // aligned, because it may be SP
		if s.base != 31 {
			before.X[s.base] += uint64(r.IntN(16))
		}
		at = before.X[s.base] + uint64(s.immediate)*uint64(s.size(length))
		if s.indexed {
			before.X[s.index] = uint64(r.IntN(2000) - 1000)
			at += before.X[s.index] * uint64(s.memory)
		}
		return code, before, at
	}
}

// TestScalableInstructionsLeaveTheSameStateAsQEMU compares registers and memory after random SVE
// instructions with those of QEMU's processor.
func TestScalableInstructionsLeaveTheSameStateAsQEMU(t *testing.T) {
	effort.SkipShort(t)
	program := filepath.Join(t.TempDir(), "execute")
	const compiler, source = "aarch64-linux-gnu-gcc", "testdata/execute.c"
	build := exec.Command(compiler, "-static", "-O2", "-Wall", "-o", program, source)
	if out, err := build.CombinedOutput(); err != nil {
		skipWithoutTools(t, fmt.Sprintf("%v\n%s", err, out))
	}
	emulator, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		skipWithoutTools(t, err.Error())
	}
	for _, length := range []int{16, 48, 64, 256} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, uint64(length)))
			const count = 700
			var input bytes.Buffer
			var cases [count]struct {
				code   uint32
				before *processorState
				at     uint64
			}
			for n := range cases {
				c := &cases[n]
				c.code, c.before, c.at = randomScalableCase(r, length)
				_ = binary.Write(&input, binary.LittleEndian, [2]uint32{c.code})
				_ = binary.Write(&input, binary.LittleEndian, c.before)
			}
			run := exec.Command(emulator, "-cpu", "max", program, fmt.Sprint(length))
			run.Stdin, run.Stderr = &input, os.Stderr
			output, err := run.Output()
			if err != nil {
				t.Fatal(err)
			}
			results := bytes.NewReader(output)
			for _, c := range cases {
				var want processorState
				var wantChecksum uint64 // of the memory after the instruction
				if err := binary.Read(results, binary.LittleEndian, &want); err != nil {
					t.Fatal(err)
				}
				_ = binary.Read(results, binary.LittleEndian, &wantChecksum)
				compareStep(t, c.code, c.at, length, c.before, &want, wantChecksum)
			}
			t.Logf("evidence: %d random instructions leave what QEMU's processor leaves", count)
		})
	}
}

// skipWithoutTools skips a test whose tools are missing, or fails it if LM_TEST_REQUIRED is 1.
func skipWithoutTools(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("LM_TEST_REQUIRED") == "1" {
		t.Fatal(what)
	}
	t.Skip("needs aarch64-linux-gnu-gcc and qemu-aarch64-static:", what)
}

// compareStep executes an instruction by Step. It compares the state with want, and the checksum of
// the memory with wantChecksum.
func compareStep(
	t *testing.T, code uint32, at uint64, length int, before, want *processorState,
	wantChecksum uint64,
) {
	t.Helper()
	v := &Vectors{Length: length, Scalable: true, Z: before.Z, P: before.P}
	s := State{SP: before.X[31], Flags: before.Flags}
	s.Vectors = func() (*Vectors, error) { return v, nil }
	copy(s.X[:], before.X[:])
	i, _ := decode(code)
	memory := newFlatMemory()
	memory.aligned = i.scalable.memory == 1 && !i.scalable.loadsOne
	if err := Step(code, at, &s, memory); err != nil {
		t.Fatalf("%s: %v", i.scalable.text(), err)
	}
	got := processorState{Flags: s.Flags, Z: v.Z, P: v.P}
	copy(got.X[:], s.X[:])
	got.X[31], got.X[contextX] = s.SP, want.X[contextX]
	switch {
	case got.X != want.X || got.Flags != want.Flags || s.PC != 4:
		t.Errorf("%s: general registers %x, flags %#x, PC %d; want QEMU's %x, %#x, and PC 4",
			i.scalable.text(), got.X, got.Flags, s.PC, want.X, want.Flags)
	case got.Z != want.Z:
		t.Errorf("%s: vectors differ from QEMU's", i.scalable.text())
	case got.P != want.P:
		t.Errorf("%s: predicates differ from QEMU's", i.scalable.text())
	case memory.checksum() != wantChecksum:
		t.Errorf("%s: memory has the checksum %#x, want QEMU's %#x", i.scalable.text(),
			memory.checksum(), wantChecksum)
	}
}
