package a64

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// bulkWord returns the code of the instruction name with X0 as destination, X1 as source or data,
// and X2 as size.
func bulkWord(t *testing.T, name string) uint32 {
	t.Helper()
	for _, p := range bulkPatterns {
		if p.name == name {
			return p.value | 2<<5 | 1<<16
		}
	}
	t.Fatalf("bulkPatterns has no instruction %s", name)
	return 0
}

// bulkState contains the registers of a copy or a set. The addresses to and from are relative to
// those of the operands. The Arm ARM specifies the values at CPYP, CPYFP and SETP.
type bulkState struct {
	to, from, size uint64
	flags          uint64
}

// bulkFormats lists the registers after a prologue that moved 4096 of 5000 bytes (optionA,
// optionB), and after the stage that moved the rest (doneA, doneB).
var bulkFormats = []struct {
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

// bulkRun is the state of a copy or a set of bulkSize bytes.
type bulkRun struct {
	State
	memory   *flatMemory
	to, from uint64
	set      bool
}

const bulkSize = 5000

// newBulkRun returns the state before the prologue of a copy or set.
func newBulkRun(name string, backward, optionB bool) *bulkRun {
	r := &bulkRun{memory: newFlatMemory(), to: middle + 5, from: middle + 0x4000,
		set: name == "SET"}
	if name == "CPY" {
		r.from = middle + 98 // source and destination overlap
	}
	if backward {
		r.from = middle - 90
	}
	r.memory.aligned = true
	r.Flags = flagsNZCV | 1<<12 // bit 12 is SSBS, which must not change
	r.OptionB = func() bool { return optionB }
	r.X[0], r.X[1], r.X[2] = r.to, r.from, bulkSize
	if r.set { // aligned, because its accesses have 16 bytes and a stage ends after 4096 bytes
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

// expected returns the memory after the complete copy or set.
func (r *bulkRun) expected() []byte {
	data := newFlatMemory().data
	to := data[r.to-memoryAt:][:bulkSize]
	if r.set {
		copy(to, bytes.Repeat([]byte{0xab}, bulkSize))
	} else {
		copy(to, data[r.from-memoryAt:]) // like memmove
	}
	return data
}

// TestStagesOfCopiesHaveTheFormatOfTheProcessor: the prologue leaves registers in the format that
// the main stage of a processor with option A or B expects. The main stage and the epilogue accept
// this format, and leave registers that say that no bytes remain.
func TestStagesOfCopiesHaveTheFormatOfTheProcessor(t *testing.T) {
	for _, f := range bulkFormats {
		for _, optionB := range []bool{false, true} {
			for _, last := range []string{"M", "E"} {
				name := fmt.Sprintf("%s backward=%v B=%v %s", f.name, f.backward, optionB, last)
				t.Run(name, func(t *testing.T) {
					wantMiddle, want := f.optionA, f.doneA
					if optionB {
						wantMiddle, want = f.optionB, f.doneB
					}
					r := newBulkRun(f.name, f.backward, optionB)
					if err := Step(bulkWord(t, f.name+"P"), r.to, &r.State, r.memory); err != nil {
						t.Fatal(err)
					}
					if got := r.state(); got != wantMiddle || r.PC != 4 || r.Flags&(1<<12) == 0 {
						t.Errorf("after the prologue: %+v, PC %d, flags %#x; want %+v, PC 4, SSBS",
							got, r.PC, r.Flags, wantMiddle)
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
						t.Errorf("after the next stage: %+v, PC %d; want %+v, PC 8", got, r.PC,
							want)
					}
					if !bytes.Equal(r.memory.data, r.expected()) {
						t.Error("the memory differs from that after memmove or memset")
					}
				})
			}
		}
	}
}

// TestLongCopyIsExecutedInParts: a main stage with more bytes than Step moves at a time keeps its
// PC, so that it is executed again. Its registers have the format of the main stage.
func TestLongCopyIsExecutedInParts(t *testing.T) {
	r := newBulkRun("CPYF", false, false)
	r.Flags &^= flagsNZCV
	minus := uint64(bulkSize)
	r.X[0], r.X[1], r.X[2] = r.to+bulkSize, r.from+bulkSize, -minus
	if err := Step(bulkWord(t, "CPYFM"), r.to, &r.State, r.memory); err != nil {
		t.Fatal(err)
	}
	if got := r.state(); got != bulkFormats[0].optionA || r.PC != 0 {
		t.Errorf("registers %+v, PC %d; want %+v, PC 0", got, r.PC, bulkFormats[0].optionA)
	}
}

// failingMemory is a memory in which stores at and after an address fail.
type failingMemory struct {
	*flatMemory
	from uint64
}

var errStoreFailed = errors.New("store failed")

func (m *failingMemory) Store(address uint64, data []byte) error {
	if address+uint64(len(data)) > m.from {
		return errStoreFailed
	}
	return m.flatMemory.Store(address, data)
}

// TestRegistersOfAFailedCopyMatchTheMovedBytes: after a failure, a prologue has the operands of the
// rest of the copy and its old flags, so that it can be executed again.
func TestRegistersOfAFailedCopyMatchTheMovedBytes(t *testing.T) {
	for _, moved := range []uint64{0, 11, 1003} {
		r := newBulkRun("CPYF", false, true)
		err := Step(bulkWord(t, "CPYFP"), r.to, &r.State, &failingMemory{r.memory, r.to + moved})
		want := bulkState{moved, moved, bulkSize - moved, flagsNZCV}
		if got := r.state(); err != errStoreFailed || got != want || r.PC != 0 {
			t.Errorf("after %d bytes: error %v, registers %+v, PC %d; want %v, %+v, PC 0", moved,
				err, got, r.PC, errStoreFailed, want)
		}
	}
}

// TestCopyOfAnotherFormatIsRefused: a stage is refused if the flags do not match the option of the
// processor, because its registers are then ambiguous.
func TestCopyOfAnotherFormatIsRefused(t *testing.T) {
	for _, flags := range []uint64{0, flagC | flagN} {
		r := newBulkRun("SET", false, false)
		r.Flags = flags
		var refusal *Refusal
		err := Step(bulkWord(t, "SETM"), r.to, &r.State, r.memory)
		if !errors.As(err, &refusal) || r.X[0] != r.to {
			t.Errorf("flags %#x: error %v, X0 %#x; want a refusal, X0 %#x", flags, err, r.X[0],
				r.to)
		}
	}
}
