package a64

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// bulkWord returns the word of a pattern with X0 as destination, X1 as source or
// data, and X2 as size.
func bulkWord(t *testing.T, name string) uint32 {
	t.Helper()
	for _, p := range bulkPatterns {
		if p.name == name {
			return p.value | 2<<5 | 1<<16
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

// bulkState is the registers of a copy or a set, by what the Arm ARM says of
// CPYP, CPYFP and SETP: addresses are relative to those of the operands.
type bulkState struct {
	to, from, size uint64
	flags          uint64
}

// formats are the registers after a prologue that moved 4096 of 5000 bytes.
var formats = []struct {
	name             string // of instructions, without the stage
	backward         bool
	optionA, optionB bulkState
	doneA, doneB     bulkState
}{
	{"CPYF", false,
		bulkState{5000, 5000, ^uint64(904) + 1, 0}, bulkState{4096, 4096, 904, flagC},
		bulkState{5000, 5000, 0, 0}, bulkState{5000, 5000, 0, flagC}},
	{"CPY", false,
		bulkState{5000, 5000, ^uint64(904) + 1, 0}, bulkState{4096, 4096, 904, flagC},
		bulkState{5000, 5000, 0, 0}, bulkState{5000, 5000, 0, flagC}},
	{"CPY", true,
		bulkState{0, 0, 904, 0}, bulkState{904, 904, 904, flagC | flagN},
		bulkState{0, 0, 0, 0}, bulkState{0, 0, 0, flagC | flagN}},
	{"SET", false,
		bulkState{5000, 0, ^uint64(904) + 1, 0}, bulkState{4096, 0, 904, flagC},
		bulkState{5000, 0, 0, 0}, bulkState{5000, 0, 0, flagC}},
}

// bulkRun is a copy or a set of bulkSize bytes.
type bulkRun struct {
	State
	memory   *flatMemory
	to, from uint64
	set      bool
}

const bulkSize = 5000

func newBulkRun(name string, backward, optionB bool) *bulkRun {
	r := &bulkRun{memory: newFlatMemory(), to: middle + 5, from: middle + 0x4000,
		set: name == "SET"}
	if name == "CPY" {
		r.from = middle + 98 // they overlap
	}
	if backward {
		r.from = middle - 90
	}
	r.memory.aligned = true
	r.Flags = flagsNZCV | 1<<12 // SSBS, which stays
	r.OptionB = func() bool { return optionB }
	r.X[0], r.X[1], r.X[2] = r.to, r.from, bulkSize
	if r.set { // aligned: its accesses are of 16 bytes, and a part ends after 4096
		r.to = middle
		r.X[0], r.X[1] = r.to, 0x1ab
	}
	return r
}

func (r *bulkRun) state() bulkState {
	s := bulkState{r.X[0] - r.to, r.X[1] - r.from, r.X[2], r.Flags & flagsNZCV}
	if r.set {
		s.from = r.X[1] - 0x1ab
	}
	return s
}

// expected returns the memory that the whole copy or set leaves.
func (r *bulkRun) expected() []byte {
	data := newFlatMemory().data
	to := data[r.to-memoryAt:][:bulkSize]
	if r.set {
		copy(to, bytes.Repeat([]byte{0xab}, bulkSize))
	} else {
		copy(to, data[r.from-memoryAt:]) // as memmove
	}
	return data
}

// TestStagesOfCopiesHaveTheFormatOfTheProcessor: the prologue leaves what the
// main part of a processor of either option takes, and the main part, as the
// epilogue, takes it and leaves that nothing is to move.
func TestStagesOfCopiesHaveTheFormatOfTheProcessor(t *testing.T) {
	for _, f := range formats {
		for _, optionB := range []bool{false, true} {
			for _, last := range []string{"M", "E"} {
				name := fmt.Sprintf("%s backward=%v B=%v %s", f.name, f.backward, optionB, last)
				t.Run(name, func(t *testing.T) {
					middleWant, want := f.optionA, f.doneA
					if optionB {
						middleWant, want = f.optionB, f.doneB
					}
					r := newBulkRun(f.name, f.backward, optionB)
					if err := Step(bulkWord(t, f.name+"P"), r.to, &r.State, r.memory); err != nil {
						t.Fatal(err)
					}
					if got := r.state(); got != middleWant || r.PC != 4 || r.Flags&(1<<12) == 0 {
						t.Errorf("after the prologue %+v at %d, want %+v", got, r.PC, middleWant)
					}
					fault := r.to
					if !f.backward {
						fault += 4096
					}
					if err := Step(bulkWord(t, f.name+last), fault, &r.State,
						r.memory); err != nil {
						t.Fatal(err)
					}
					if got := r.state(); got != want || r.PC != 8 {
						t.Errorf("after the next stage %+v at %d, want %+v", got, r.PC, want)
					}
					if !bytes.Equal(r.memory.data, r.expected()) {
						t.Error("memory is not that of memmove or memset")
					}
				})
			}
		}
	}
}

// TestLongCopyIsExecutedInParts: a main part with more than is moved at a time
// is to be executed again, and has the format of its own stage.
func TestLongCopyIsExecutedInParts(t *testing.T) {
	r := newBulkRun("CPYF", false, false)
	r.Flags &^= flagsNZCV
	minus := uint64(bulkSize)
	r.X[0], r.X[1], r.X[2] = r.to+bulkSize, r.from+bulkSize, -minus
	if err := Step(bulkWord(t, "CPYFM"), r.to, &r.State, r.memory); err != nil {
		t.Fatal(err)
	}
	if got := r.state(); got != formats[0].optionA || r.PC != 0 {
		t.Errorf("%+v at %d", got, r.PC)
	}
}

// brokenMemory fails from an address on.
type brokenMemory struct {
	*flatMemory
	from uint64
}

var errBroken = errors.New("broken")

func (m *brokenMemory) Store(address uint64, data []byte) error {
	if address+uint64(len(data)) > m.from {
		return errBroken
	}
	return m.flatMemory.Store(address, data)
}

// TestCopyThatFailsHasMovedWhatItsRegistersSay: a prologue has the operands of a
// smaller copy then, with its old flags, so that it can be executed again.
func TestCopyThatFailsHasMovedWhatItsRegistersSay(t *testing.T) {
	for _, moved := range []uint64{0, 11, 1003} {
		r := newBulkRun("CPYF", false, true)
		err := Step(bulkWord(t, "CPYFP"), r.to, &r.State, &brokenMemory{r.memory, r.to + moved})
		want := bulkState{moved, moved, bulkSize - moved, flagsNZCV}
		if got := r.state(); err != errBroken || got != want || r.PC != 0 {
			t.Errorf("%v, %+v at %d, want %+v", err, got, r.PC, want)
		}
	}
}

// TestCopyOfAnotherFormatIsRefused: its registers say nothing that is sure.
func TestCopyOfAnotherFormatIsRefused(t *testing.T) {
	for _, flags := range []uint64{0, flagC | flagN} {
		r := newBulkRun("SET", false, false)
		r.Flags = flags
		var refusal *Refusal
		err := Step(bulkWord(t, "SETM"), r.to, &r.State, r.memory)
		if !errors.As(err, &refusal) || r.X[0] != r.to {
			t.Errorf("%v", err)
		}
	}
}
