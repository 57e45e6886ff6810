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
)

// executed is struct state of testdata/execute.c, and its memory.
type executed struct {
	X     [32]uint64 // 31: SP
	Flags uint64
	Z     [32][256]byte
	P     [16][32]byte
}

const (
	memoryAt   = 0x10000000
	memorySize = 0x50000
	middle     = memoryAt + memorySize/2
	contextX   = 28 // a register that execute.c itself needs
)

// flatMemory is memory at memoryAt. All of it is a device's, which takes no
// bytes without a width of their own that are not aligned.
type flatMemory struct {
	data    []byte
	aligned bool // accesses must be
}

func newFlatMemory() *flatMemory {
	m := &flatMemory{data: make([]byte, memorySize)}
	for i := range uint64(memorySize / 8) {
		binary.LittleEndian.PutUint64(m.data[8*i:], (i+1)*0x9e3779b97f4a7c15)
	}
	return m
}

func (m *flatMemory) sum() (sum uint64) {
	for i := 0; i < memorySize; i += 8 {
		sum = (sum ^ binary.LittleEndian.Uint64(m.data[i:])) * 0x100000001b3
	}
	return sum
}

func (m *flatMemory) at(address uint64, data []byte) ([]byte, error) {
	width := uint64(len(data))
	if address < memoryAt || address+width > memoryAt+memorySize ||
		m.aligned && address%width != 0 {
		return nil, fmt.Errorf("access of %d bytes at %#x", width, address)
	}
	return m.data[address-memoryAt:][:width], nil
}

func (m *flatMemory) Load(address uint64, data []byte) error {
	from, err := m.at(address, data)
	copy(data, from)
	return err
}

func (m *flatMemory) Store(address uint64, data []byte) error {
	to, err := m.at(address, data)
	copy(to, data)
	return err
}

func (m *flatMemory) IsDevice(uint64) bool { return true }

// scalableCase returns an executed instruction of SVE, registers that have it
// stay within the memory, and the address of its operand.
func scalableCase(r *rand.Rand, length int) (code uint32, before *executed, at uint64) {
	for {
		code = wide(r)
		i, reason := decode(code)
		s := i.scalable
		if reason != "" || s == nil || s.base == contextX {
			continue
		}
		if s.indexed && (s.index == contextX || s.index == s.base) {
			continue
		}
		before = &executed{Flags: uint64(r.IntN(16)) << 28}
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
		before.X[s.base] = middle + uint64(r.IntN(64))&^15 // SP must be aligned
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

// TestScalableIsWhatTheProcessorExecutes compares registers and memory after
// random instructions of SVE with those of QEMU's processor.
func TestScalableIsWhatTheProcessorExecutes(t *testing.T) {
	program := filepath.Join(t.TempDir(), "execute")
	const compiler, source = "aarch64-linux-gnu-gcc", "testdata/execute.c"
	build := exec.Command(compiler, "-static", "-O2", "-Wall", "-o", program, source)
	if out, err := build.CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("%v\n%s", err, out))
	}
	emulator, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		missing(t, err.Error())
	}
	for _, length := range []int{16, 48, 64, 256} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, uint64(length)))
			const count = 700
			var input bytes.Buffer
			var cases [count]struct {
				code   uint32
				before *executed
				at     uint64
			}
			for n := range cases {
				c := &cases[n]
				c.code, c.before, c.at = scalableCase(r, length)
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
				var want executed
				var sum uint64
				if err := binary.Read(results, binary.LittleEndian, &want); err != nil {
					t.Fatal(err)
				}
				_ = binary.Read(results, binary.LittleEndian, &sum)
				compareStep(t, c.code, c.at, length, c.before, &want, sum)
			}
			t.Logf("evidence: %d random instructions leave what QEMU's processor leaves", count)
		})
	}
}

// missing skips a test whose tools are not here, or fails it if they have to be.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("LM_TEST_REQUIRED") == "1" {
		t.Fatal(what)
	}
	t.Skip("needs aarch64-linux-gnu-gcc and qemu-aarch64-static:", what)
}

func compareStep(
	t *testing.T, code uint32, at uint64, length int, before, want *executed, sum uint64,
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
	got := executed{Flags: s.Flags, Z: v.Z, P: v.P}
	copy(got.X[:], s.X[:])
	got.X[31], got.X[contextX] = s.SP, want.X[contextX]
	switch {
	case got.X != want.X || got.Flags != want.Flags || s.PC != 4:
		t.Errorf("%s: general registers differ", i.scalable.text())
	case got.Z != want.Z:
		t.Errorf("%s: vectors differ", i.scalable.text())
	case got.P != want.P:
		t.Errorf("%s: predicates differ", i.scalable.text())
	case memory.sum() != sum:
		t.Errorf("%s: memory differs", i.scalable.text())
	}
}
