//go:build linux && (amd64 || arm64)

package recorder

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/capture/record"
	"lightmetal/tools/check/effort"

	"golang.org/x/sys/unix"
)

const (
	edgesSource    = "testdata/edges.c"
	patternsSource = "testdata/patterns.c"
)

// expectations say what a run under the recorder leaves.
type expectations struct {
	options  Options
	flags    [][]string // of the compiler; nil: -O2
	exit     int
	compares bool   // exit status, output and card are the same as without the recorder
	listed   bool   // the record has the accesses that the program prints
	replays  bool   // the record has all stores and loads of the card
	failure  error  // of reading the record
	count    int    // number of accesses in the record; 0: any
	lines    int    // number of lines of accesses in the record; 0: any
	last     string // last access in the record; "": any
	bar      uint8  // number of a BAR that is a card; 0: any
	output   string // part of the output of the program
	// parts of EVENT lines; each is in exactly one of them, and there are no others
	events   []string
	messages []string // parts of the recorder's messages
	times    int      // how often the messages have each part; 0: once
}

// optimizations are flags of gcc.
var optimizations = [][]string{{"-O0"}, {"-O2"}, {"-O3", "-march=native"}, {"-O2", "-static"}}

// scenarios has the claims about each scenario of a program, by source and name.
var scenarios = map[[2]string]expectations{
	// The record has the accesses of the program.
	{patternsSource, "volatile"}: {flags: optimizations, compares: true, listed: true},
	{patternsSource, "mappings"}: {flags: optimizations, compares: true, listed: true},
	{patternsSource, "children"}: {flags: optimizations, compares: true, listed: true},
	{patternsSource, "exec"}:     {flags: optimizations, compares: true, listed: true},
	// A file without a path can be recorded as a BAR.
	{edgesSource, "memfd"}: {listed: true, bar: 4, events: []string{
		" stores to /memfd:card (deleted) by a system call"}, options: Options{Files: []File{
		{Path: "memfd:card", Bar: 4, Vendor: 0x1af4, Device: 0x1110}}}},
	// The first thread may end before the others (Linux 6.9).
	{edgesSource, "leader"}: {listed: true},
	// A copy between files by the kernel is a gap.
	{edgesSource, "between"}: {failure: record.ErrGap,
		messages: []string{"(sendfile, splice, copy_file_range): the copy is not recorded"},
		times:    3},
	// Accesses that bypass the recorder are reported.
	{edgesSource, "past"}: {listed: true, events: []string{"sends a descriptor of ",
		"uses io_uring: ", "/mem: accesses to a BAR through this file", "Linux's AIO"}},
	// Loads and stores of a file that represents a BAR are each reported once.
	{edgesSource, "moves"}: {listed: true, events: []string{" stores to ", " loads from "},
		messages: []string{"by a system call"}},
	// A child that requests to be traced gets EPERM, because the recorder traces it already.
	{edgesSource, "debugger"}: {listed: true, output: fmt.Sprintf("traced: %d\n", unix.EPERM)},
	// A device of ones, an abort and a signal leave a complete record.
	{edgesSource, "ones"}:      {exit: 7, last: "R 4 4 ffffffff"},
	{edgesSource, "dies"}:      {exit: 128 + int(unix.SIGABRT), listed: true},
	{patternsSource, "killed"}: {exit: 128 + int(unix.SIGTERM), failure: record.ErrEmpty},
	// After remap_file_pages, accesses have the right offsets. If the recorder has not seen an
	// earlier mapping of this part, the record has a gap.
	{edgesSource, "remaps"}:       {listed: true, replays: true},
	{edgesSource, "remapsbeyond"}: {failure: record.ErrGap, messages: []string{"remap_file_pages"}},
	// A store of a child to a mapping with MADV_DONTFORK kills the child.
	{edgesSource, "dontfork"}: {listed: true, compares: true},
	// The strict mode of seccomp has its effect.
	{edgesSource, "strict"}: {listed: true, compares: true},
	// Each system call with a pointer to a BAR is reported once, also if the pointer is in a list
	// of buffers.
	{edgesSource, "pointers"}: {listed: true, events: []string{"\nwrite of process ",
		"\nread of process ", "\nwritev of process ", "\nsendmsg of process ",
		"\ngetrandom of process "}, messages: []string{"EFAULT", "BAR 2 of file",
		"pass a buffer with a copy of the data"}},
	{patternsSource, "call"}: {exit: 4},
	// The program gets its own faults.
	{patternsSource, "readonly"}: {compares: true, output: "\n"},
	{patternsSource, "bus"}:      {compares: true, output: "\n"},
	{patternsSource, "none"}:     {compares: true, failure: record.ErrEmpty},
	// Twenty threads, and a signal every 100 us, lose nothing.
	{patternsSource, "threads"}: {compares: true, replays: true, count: 20*200*4 + 20},
	{patternsSource, "signals"}: {compares: true, replays: true},
	// The limit of accesses ends the program, and the record is complete.
	{patternsSource, "forever"}: {options: Options{AccessLimit: 100}, count: 100,
		exit: 128 + int(unix.SIGKILL), messages: []string{"limit"}},
}

func TestScenariosAreRecorded(t *testing.T) {
	effort.SkipShort(t)
	for key, want := range scenarios {
		if want.flags == nil {
			want.flags = [][]string{{"-O2"}}
		}
		for _, flags := range want.flags {
			t.Run(strings.Join(slices.Concat([]string{key[1]}, flags), " "),
				func(t *testing.T) { want.run(t, compileProgram(t, key[0], flags...), key[1]) })
		}
	}
}

// run runs a scenario of a program under the recorder.
func (e *expectations) run(t *testing.T, program, scenario string) {
	if file, err := unix.PidfdOpen(os.Getpid(), unix.PIDFD_THREAD); err == nil {
		unix.Close(file)
	} else if scenario == "leader" {
		t.Skip("needs Linux 6.9")
	}
	r := runRecorded(t, nil, e.options, program, scenario)
	if e.compares {
		without := runUnrecorded(t, nil, program, scenario)
		without.err = r.err // check compares it
		compareRuns(t, r, without)
	} else if r.exit != e.exit {
		t.Errorf("exit status %d, want %d: %s", r.exit, e.exit, r.messages)
	}
	e.check(t, r)
}

// check compares the record, the output and the messages of a run with the expectations.
func (e *expectations) check(t *testing.T, r *runResult) {
	t.Helper()
	if !errors.Is(r.err, e.failure) {
		t.Fatalf("record: %v, want %v; messages %s", r.err, e.failure, r.messages)
	}
	if r.capture == nil {
		return
	}
	list := r.accesses()
	if e.listed {
		checkListedAccesses(t, r)
	}
	if e.replays {
		checkReplay(t, r)
	}
	if e.count != 0 && len(list) != e.count ||
		e.last != "" && (len(list) < 3 || list[len(list)-1] != e.last) {
		t.Errorf("the record has %d accesses, want %d, the last %s", len(list), e.count, e.last)
	}
	lines := 0
	for _, a := range r.capture.Records {
		if a.Kind == record.BarWrite || a.Kind == record.BarRead {
			lines++
		}
	}
	if e.lines != 0 && lines != e.lines {
		t.Errorf("the record has %d lines of accesses, want %d", lines, e.lines)
	}
	if e.bar != 0 && r.capture.Bars[e.bar].Size != cardSize {
		t.Errorf("BARs %v, want BAR %d of %d bytes", r.capture.Bars, e.bar, cardSize)
	}
	events := r.eventLines()
	for _, part := range e.events {
		if n := strings.Count("\n"+strings.Join(events, "\n"), part); n != 1 {
			t.Errorf("%q is in %d events, want 1: %q", part, n, events)
		}
	}
	if len(e.events) > 0 && len(events) != len(e.events) {
		t.Errorf("%d events, want %d: %q", len(events), len(e.events), events)
	}
	for _, part := range slices.Concat(events, e.messages) {
		want := max(e.times, 1)
		if n := strings.Count(r.messages, part); n < want {
			t.Errorf("messages have %q %d times, want %d times: %s", part, n, want, r.messages)
		}
	}
	if !strings.Contains(r.output, e.output) {
		t.Errorf("output %q, want %q", r.output, e.output)
	}
}

// checkListedAccesses compares the accesses of the record with those that the program printed.
func checkListedAccesses(t *testing.T, r *runResult) {
	t.Helper()
	if r.err != nil {
		t.Fatalf("reading the record: %v; messages of the recorder: %s", r.err, r.messages)
	}
	if difference := firstDifference(r.accesses(), printedAccesses(r.output)); difference != "" ||
		len(printedAccesses(r.output)) == 0 {
		t.Errorf("accesses of the record: %s; exit status %d, output %q, messages %s", difference,
			r.exit, r.output, r.messages)
	}
}
