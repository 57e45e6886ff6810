package trace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// Seen is a set of flags: what an instruction has done in a run.
type Seen uint8

const (
	Ran    Seen = 1 << iota
	Taken       // a conditional branch has gone to its target
	Passed      // a conditional branch has gone to the next instruction
)

// Flags returns the flags with which QEMU writes a log that Follow understands. One thread executes
// all processors, so that their lines do not mix.
func (p *Program) Flags(log string) []string {
	return []string{"-accel", "tcg,thread=single", "-d", "exec,nochain,int", "-dfilter",
		fmt.Sprintf("%#x..%#x", p.Start, p.End-1), "-D", log}
}

const processorsMax = 8

// follower records, for each processor, the block of instructions that the log says it began, until
// a later line shows how far the block ran.
type follower struct {
	*Program
	seen               []Seen
	blockStart         [processorsMax]uint64 // address of the block; 0: none
	blockLimit         [processorsMax]uint64 // most instructions of the block; 0: no limit
	lastProcessor      int                   // processor of the latest Trace line
	exceptionProcessor int                   // processor of the current exception
	inBlock            bool                  // an instruction of the block caused the exception
	unknownWays        int
}

// Follow reads a log to its end and adds flags to seen, which has one entry for each word. It
// copies lines of other kinds to otherLines. No other program of the guest may use the addresses of
// this one.
func (p *Program) Follow(log io.Reader, seen []Seen, otherLines io.Writer) error {
	f := &follower{Program: p, seen: seen}
	lines := bufio.NewReaderSize(log, 1<<20)
	for {
		line, err := lines.ReadSlice('\n')
		if err == io.EOF {
			break
		}
		if err == nil && !f.handleLine(line) {
			_, err = otherLines.Write(line)
		}
		if err != nil {
			return err
		}
	}
	if f.unknownWays > 0 {
		return fmt.Errorf("%d conditional branches went to unknown places", f.unknownWays)
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

// handleLine reports whether a line is one of QEMU's about execution (accel/tcg/cpu-exec.c,
// target/arm/helper.c).
func (f *follower) handleLine(line []byte) bool {
	switch {
	case bytes.HasPrefix(line, traceLine):
		f.beginBlock(line)
	case bytes.HasPrefix(line, stoppedLine):
		f.blockStart[f.lastProcessor] = 0 // the block of the latest line did not begin
	// the block begins again at the instruction that accesses a device
	case bytes.HasPrefix(line, rewoundLine):
		f.endBlock(f.lastProcessor, parseHex(line[len(rewoundLine):]), true)
	case bytes.HasPrefix(line, exceptionLine):
		f.noteException(line)
	case bytes.HasPrefix(line, addressDetail):
		f.endBlock(f.exceptionProcessor, parseHex(
			bytes.TrimPrefix(line[len(addressDetail):], []byte("0x"))),
			f.inBlock)
	default:
		return bytes.HasPrefix(line, returnLine) || bytes.HasPrefix(line, detailLine)
	}
	return true
}

// beginBlock reads a line such as "Trace 1: 0x7f5d5a458840
// [00003001/000000000008af20/00000001/ff000200] ". The second of the four numbers is the address.
// The 9 lowest bits of the last are the most instructions that the block may execute.
func (f *follower) beginBlock(line []byte) {
	processor, rest, _ := bytes.Cut(line[len(traceLine):], []byte(":"))
	_, rest, _ = bytes.Cut(rest, []byte("/"))
	address, rest, _ := bytes.Cut(rest, []byte("/"))
	_, flags, _ := bytes.Cut(rest, []byte("/"))
	flags, _, _ = bytes.Cut(flags, []byte("]"))
	f.lastProcessor = int(parseHex(processor)) % processorsMax
	start := parseHex(address)
	f.endBlock(f.lastProcessor, start, false)
	if start >= f.Start && start < f.End {
		f.blockStart[f.lastProcessor], f.blockLimit[f.lastProcessor] = start, parseHex(flags)&0x1ff
	}
}

// noteException reads a line such as "Taking exception 5 [IRQ] on CPU 1". Interrupts, and aborts of
// a fetch, occur between blocks, all others within one.
func (f *follower) noteException(line []byte) {
	f.inBlock = !bytes.Contains(line, []byte("[IRQ]")) && !bytes.Contains(line, []byte("[FIQ]")) &&
		!bytes.Contains(line, []byte("[Prefetch Abort]"))
	f.exceptionProcessor = f.lastProcessor
	if _, processor, ok := bytes.Cut(line, []byte(" on CPU ")); ok {
		f.exceptionProcessor = int(parseHex(processor)) % processorsMax
	}
}

func parseHex(digits []byte) uint64 {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 64)
	if err != nil {
		return 0 // an address outside the program
	}
	return n
}

// endBlock records that a processor executes the instruction at address next after its current
// block, and which instructions of the block therefore ran. fault is true if the instruction at
// next belongs to the block and caused an exception.
func (f *follower) endBlock(processor int, next uint64, fault bool) {
	pc, end := f.blockStart[processor], f.End
	f.blockStart[processor] = 0
	if pc == 0 {
		return
	}
	if limit := f.blockLimit[processor]; limit != 0 {
		end = min(end, pc+4*limit)
	}
	const page = 4096 // QEMU ends blocks at the end of a page
	for first := pc; pc < end; pc += 4 {
		if pc == next && (fault || pc > first && (pc%page == 0 || !f.branchesTo(first, next))) {
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
			f.unknownWays++
		}
		if kind != Straight {
			return
		}
	}
}

// branchesTo reports whether the block at first ends with a conditional branch to next.
func (f *follower) branchesTo(first, next uint64) bool {
	for pc := first; pc < f.End; pc += 4 {
		if kind, target := Decode(f.Words[(pc-f.Start)/4], pc); kind != Straight {
			return kind == Conditional && target == next
		}
	}
	return false
}
