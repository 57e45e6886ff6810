package trace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// Seen is what is known of one instruction.
type Seen uint8

const (
	Ran    Seen = 1 << iota
	Taken       // a conditional branch went to its target
	Passed      // or to the next instruction
)

// Flags are QEMU's for a log that Follow understands. One thread carries out all
// processors, so that lines of one do not come between those of another.
func (p *Program) Flags(log string) []string {
	return []string{"-accel", "tcg,thread=single", "-d", "exec,nochain,int", "-dfilter",
		fmt.Sprintf("%#x..%#x", p.Start, p.End-1), "-D", log}
}

const processorsMax = 8

// follower knows, of each processor, the block of instructions that it began and that
// nothing has been heard of since.
type follower struct {
	*Program
	seen    []Seen
	began   [processorsMax]uint64 // 0: none
	limit   [processorsMax]uint64 // of its instructions, where QEMU set one
	last    int                   // processor
	faulted int                   // processor that takes an exception now
	fault   bool                  // by its own instruction
	lost    int
}

// Follow reads a log to its end and adds what it tells to seen, one for each
// word. Lines that are not of this go to rest. No other program of the guest may lie
// at the addresses of this one.
func (p *Program) Follow(log io.Reader, seen []Seen, rest io.Writer) error {
	f := &follower{Program: p, seen: seen}
	lines := bufio.NewReaderSize(log, 1<<20)
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF {
			break
		}
		if err == nil && !f.line(line) {
			_, err = rest.Write(line)
		}
		if err != nil {
			return err
		}
	}
	if f.lost > 0 {
		return fmt.Errorf("%d conditional branches went nowhere that is known", f.lost)
	}
	return nil
}

var (
	traceLine     = []byte("Trace ")
	stoppedLine   = []byte("Stopped execution of TB chain before ")
	rewoundLine   = []byte("cpu_io_recompile: rewound execution of TB to ")
	exceptionLine = []byte("Taking exception ")
	returnLine    = []byte("Exception return from ")
	detailLine    = []byte("...")
	addressDetail = []byte("...with ELR ")
)

// line tells whether a line is one of QEMU's about what ran (accel/tcg/cpu-exec.c,
// target/arm/helper.c).
func (f *follower) line(line []byte) bool {
	switch {
	case bytes.HasPrefix(line, traceLine):
		f.block(line)
	case bytes.HasPrefix(line, stoppedLine):
		f.began[f.last] = 0 // what was logged last did not begin
	case bytes.HasPrefix(line, rewoundLine): // to begin anew at what accesses a device
		f.at(f.last, hexadecimal(line[len(rewoundLine):]), true)
	case bytes.HasPrefix(line, exceptionLine):
		f.exception(line)
	case bytes.HasPrefix(line, addressDetail):
		f.at(f.faulted, hexadecimal(bytes.TrimPrefix(line[len(addressDetail):], []byte("0x"))),
			f.fault)
	default:
		return bytes.HasPrefix(line, returnLine) || bytes.HasPrefix(line, detailLine)
	}
	return true
}

// block: "Trace 1: 0x7f5d5a458840 [00003001/000000000008af20/00000001/ff000200] ": the
// second of four is the address, and the last has in its 9 lowest bits how many instructions there
// are at most.
func (f *follower) block(line []byte) {
	processor, rest, _ := bytes.Cut(line[len(traceLine):], []byte(":"))
	_, rest, _ = bytes.Cut(rest, []byte("/"))
	address, rest, _ := bytes.Cut(rest, []byte("/"))
	_, flags, _ := bytes.Cut(rest, []byte("/"))
	flags, _, _ = bytes.Cut(flags, []byte("]"))
	f.last = int(hexadecimal(processor)) % processorsMax
	start := hexadecimal(address)
	f.at(f.last, start, false)
	if start >= f.Start && start < f.End {
		f.began[f.last], f.limit[f.last] = start, hexadecimal(flags)&0x1ff
	}
}

// exception: "Taking exception 5 [IRQ] on CPU 1". Interrupts, and aborts of a fetch,
// come between blocks, all others in the middle of one.
func (f *follower) exception(line []byte) {
	f.fault = !bytes.Contains(line, []byte("[IRQ]")) && !bytes.Contains(line, []byte("[FIQ]")) &&
		!bytes.Contains(line, []byte("[Prefetch Abort]"))
	f.faulted = f.last
	if _, processor, ok := bytes.Cut(line, []byte(" on CPU ")); ok {
		f.faulted = int(hexadecimal(processor)) % processorsMax
	}
}

func hexadecimal(digits []byte) uint64 {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 64)
	if err != nil {
		return 0 // an address that nothing of ours is at
	}
	return n
}

// at has a processor be at an address next, where an instruction of its block
// faulted there or not, and so tells how far the block got.
func (f *follower) at(processor int, next uint64, fault bool) {
	pc, end := f.began[processor], f.End
	f.began[processor] = 0
	if pc == 0 {
		return
	}
	if limit := f.limit[processor]; limit != 0 {
		end = min(end, pc+4*limit)
	}
	const page = 4096 // where QEMU ends blocks
	for first := pc; pc < end; pc += 4 {
		if pc == next && (fault || pc > first && (pc%page == 0 || !f.loops(first, next))) {
			return
		}
		i := (pc - f.Start) / 4
		f.seen[i] |= Ran
		kind, target := Decode(f.Words[i], pc)
		switch {
		case kind == Conditional && next == target:
			f.seen[i] |= Taken
		case kind == Conditional && next == pc+4:
			f.seen[i] |= Passed
		case kind == Conditional:
			f.lost++
		}
		if kind != Straight {
			return
		}
	}
}

// loops tells that the block that begins at first ends in a branch to next.
func (f *follower) loops(first, next uint64) bool {
	for pc := first; pc < f.End; pc += 4 {
		if kind, target := Decode(f.Words[(pc-f.Start)/4], pc); kind != Straight {
			return kind == Conditional && target == next
		}
	}
	return false
}
