package trace

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Instructions of the test programs (Arm ARM DDI 0487).
const (
	nop     = 0xd503201f
	ret     = 0xd65f03c0
	svc     = 0xd4000001
	load    = 0xf9400020 // LDR X0, [X1]
	back    = 0x54ffffe0 // B.EQ -4
	forward = 0xb4000060 // CBZ X0, +12
)

const start = 0x11000

// followLog returns what Follow records for a log. The lines of the log have a short form here:
// "t 0" is a block that begins at word 0, "t 0 1" is a block of at most one instruction, "e IRQ 2"
// is an exception at word 2.
func followLog(t *testing.T, words []uint32, lines ...string) (seen []Seen, rest string,
	err error) {
	t.Helper()
	var log, otherLines bytes.Buffer
	for _, line := range lines {
		var kind, name string
		var at, limit uint64
		switch _, _ = fmt.Sscan(line, &kind); kind {
		case "t":
			_, _ = fmt.Sscan(line, &kind, &at, &limit)
			fmt.Fprintf(&log, "Trace 1: 0x7f56165f4700 [00003001/%016x/00000001/ff0%05x] \n",
				start+4*at, 0x20200|limit)
		case "e":
			_, _ = fmt.Sscan(line, &kind, &name, &at)
			fmt.Fprintf(&log,
				"Taking exception 4 [%s] on CPU 1\n...from EL0 to EL1\n"+
					"...with ESR 0x24/0x92000007\n...with ELR %#x\n"+
					"...to EL1 PC 0xfffffbfffdbf7c00 PSTATE 0x3c5\n",
				strings.ReplaceAll(name, "_", " "), start+4*at)
		case "stopped":
			fmt.Fprintf(&log, "Stopped execution of TB chain before 0x7f56165f4700 [%016x] \n",
				start)
		case "rewound":
			_, _ = fmt.Sscan(line, &kind, &at)
			fmt.Fprintf(&log, "cpu_io_recompile: rewound execution of TB to %016x\n", start+4*at)
		default:
			log.WriteString(line + "\n")
		}
	}
	p := &Program{Start: start, End: start + 4*uint64(len(words)), Words: words}
	seen = make([]Seen, len(words))
	err = p.Follow(&log, seen, &otherLines)
	return seen, otherLines.String(), err
}

func TestFollowFindsInstructionsAndBranchesThatRan(t *testing.T) {
	long := slices.Repeat([]uint32{nop}, 1030) // more than a page
	long[1029] = ret
	firstPage := make([]Seen, 1030)
	for i := range 1024 {
		firstPage[i] = Ran
	}
	loop := slices.Clone(long) // its first instruction is the first of a page
	loop[1025] = back
	across := make([]Seen, len(loop))
	for i := 1020; i < 1024; i++ {
		across[i] = Ran
	}
	for _, c := range []struct {
		name  string
		words []uint32
		log   []string
		want  []Seen
	}{
		{"a branch that is not taken", []uint32{load, forward, nop, nop, ret},
			[]string{"t 0", "t 2", "t 9"}, []Seen{Ran, Ran | Passed, Ran, Ran, Ran}},
		{"a branch that is taken", []uint32{load, forward, nop, nop, ret},
			[]string{"t 0", "t 4", "t 9"}, []Seen{Ran, Ran | Taken, 0, 0, Ran}},
		{"both ways", []uint32{load, forward, nop, nop, ret},
			[]string{"t 0", "t 4", "t 0", "t 2", "t 9"},
			[]Seen{Ran, Ran | Taken | Passed, Ran, Ran, Ran}},
		{"a fault in the middle", []uint32{nop, load, forward, nop, nop, ret},
			[]string{"t 0", "e Data_Abort 1"}, []Seen{Ran, 0, 0, 0, 0, 0}},
		{"a fault at the first instruction", []uint32{load, nop, ret},
			[]string{"t 0", "e Data_Abort 0"}, []Seen{0, 0, 0}},
		{"a fault, and on from there", []uint32{nop, load, ret},
			[]string{"t 0", "e Data_Abort 1", "t 1", "t 9"}, []Seen{Ran, Ran, Ran}},
		{"a system call", []uint32{nop, svc, ret}, []string{"t 0", "e SVC 2"}, []Seen{Ran, Ran, 0}},
		{"an interrupt after a branch", []uint32{nop, nop, back, ret}, []string{"t 0", "e IRQ 1"},
			[]Seen{Ran, Ran, Ran | Taken, 0}},
		{"a fault where a branch would lead", []uint32{nop, load, back, ret},
			[]string{"t 0", "e Data_Abort 1"}, []Seen{Ran, 0, 0, 0}},
		{"an aborted fetch after a branch", []uint32{nop, nop, back, ret},
			[]string{"t 0", "e Prefetch_Abort 3"}, []Seen{Ran, Ran, Ran | Passed, 0}},
		{"an aborted fetch at the target of a branch back", []uint32{nop, nop, back, ret},
			[]string{"t 0", "e Prefetch_Abort 1"}, []Seen{Ran, Ran, Ran | Taken, 0}},
		{"a page's end before a loop", loop, []string{"t 1020", "t 1024"}, across},
		{"a block that did not begin", []uint32{nop, ret}, []string{"t 0", "stopped", "t 1", "t 9"},
			[]Seen{0, Ran}},
		{"an access to a device", []uint32{nop, load, back, ret},
			[]string{"t 0", "rewound 1", "t 1 1", "t 2", "t 3", "t 9"},
			[]Seen{Ran, Ran, Ran | Passed, Ran}},
		{"a block of one instruction before a branch to what follows it",
			[]uint32{load, nop, back, ret}, []string{"t 0 1", "t 1"}, []Seen{Ran, 0, 0, 0}},
		{"a page's end", long, []string{"t 0", "e IRQ 1024"}, firstPage},
		{"the program's end", []uint32{nop, nop}, []string{"t 0"}, []Seen{0, 0}},
	} {
		if got, _, err := followLog(t, c.words, c.log...); err != nil ||
			!slices.Equal(got, c.want) {
			t.Errorf("%s: recorded %v, error %v, want %v", c.name, got, err, c.want)
		}
	}
}

func TestFollowRejectsABranchToAnUnknownAddress(t *testing.T) {
	if _, _, err := followLog(t, []uint32{load, forward, nop, nop, ret}, "t 0", "t 3"); err == nil {
		t.Error("a branch to another address than its two: no error")
	}
}

func TestFollowCopiesOtherLines(t *testing.T) {
	const line = "memory_region_ops_write cpu 1 mr 0x560a3ad702d0 addr 0x10000004 value " +
		"0x11111111 size 4 name 'edu-mmio'"
	if _, rest, err := followLog(t, []uint32{ret}, "t 0", line,
		"Exception return from AArch64 EL1 to AArch64 EL0 PC 0x8b8e4"); err != nil ||
		rest != line+"\n" {
		t.Errorf("other lines %q, error %v, want %q", rest, err, line+"\n")
	}
}

func TestAddMergesRecordedInstructions(t *testing.T) {
	folder := t.TempDir()
	p := &Program{Words: make([]uint32, 3)}
	for _, seen := range [][]Seen{{Ran, 0, Ran | Taken}, {0, Ran, Ran | Passed}} {
		if err := p.Add(folder, seen); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := p.Load(folder); err != nil ||
		!slices.Equal(got, []Seen{Ran, Ran, Ran | Taken | Passed}) {
		t.Errorf("loaded %v, error %v, want the records of both runs", got, err)
	}
	p.Words = p.Words[:2]
	if _, err := p.Load(folder); err == nil {
		t.Error("records of a larger program: no error")
	}
}
