package recorder

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"lightmetal/tools/capture/recorder/x86"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/check/golden"
)

// instructionTest is one instruction, or several in sequence, that access memory through RDI.
type instructionTest struct {
	text  string
	flags uint64 // flags that the processor defines after it; only these are compared
}

var (
	definitionLine  = regexp.MustCompile(`^\$([a-z]) = (.*)$`)
	instructionLine = regexp.MustCompile(`^(?:([bwlq]+): )?([0-9a-f]+) (.*)$`)
	nameInLine      = regexp.MustCompile(`\$[a-z]`)
	alternatives    = regexp.MustCompile(`<([^<>]*)>`)
)

// readInstructionTests reads a section of instructions.txtar.
func readInstructionTests(t *testing.T, section string) (list []instructionTest) {
	t.Helper()
	text := ""
	golden.Table(t, "testdata/instructions.txtar", func(name, data string) string {
		if name == section {
			text = strings.TrimSpace(data)
		}
		return data
	})
	values := map[string]string{} // by size and name
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\n ", " "), "\n") {
		if m := definitionLine.FindStringSubmatch(line); m != nil {
			fields := strings.Fields(m[2])
			for i := 0; i+1 < len(fields) && len(fields[0]) == 1; i += 2 {
				values[fields[i]+"$"+m[1]] = fields[i+1]
			}
			values["$"+m[1]] = strings.Join(fields, "")
			continue
		}
		m := instructionLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		flags, _ := strconv.ParseUint(m[2], 16, 64)
		for size := range strings.SplitSeq(cmp.Or(m[1], "-"), "") {
			values[size+"$s"] = size
			expanded := nameInLine.ReplaceAllStringFunc(m[3], func(name string) string {
				return cmp.Or(values[size+name], values[name])
			})
			for part := range strings.SplitSeq(expanded, " | ") {
				for _, text := range expand(part) {
					list = append(list, instructionTest{text, flags})
				}
			}
		}
	}
	if len(list) < 400 {
		t.Fatalf("section %s has %d instructions, want at least 400", section, len(list))
	}
	if section == "followed" { // each between two stores to a BAR
		for i := range list {
			list[i].text = "mov %r13, (%rdi); " + list[i].text + "; mov %r14, 8(%rdi)"
		}
	}
	return list
}

// expand returns the texts in which each <a/b> is replaced by one of its alternatives.
func expand(text string) (list []string) {
	at := alternatives.FindStringSubmatchIndex(text)
	if at == nil {
		return []string{text}
	}
	for a := range strings.SplitSeq(text[at[2]:at[3]], "/") {
		list = append(list, expand(text[:at[0]]+a+text[at[1]:])...)
	}
	return list
}

// assemblySource returns the source of a function for each test, which loads all registers,
// executes the instruction and stores all registers. wide selects the vectors of AVX-512 instead of
// AVX.
func assemblySource(list []instructionTest, wide bool) string {
	load, store, count, masked := "vmovdqu64 in+%d, %%zmm%d", "vmovdqu64 %%zmm%d, out+%d", 32, 8
	if !wide {
		load, store, count, masked = "vmovdqu in+%d, %%ymm%d", "vmovdqu %%ymm%d, out+%d", 16, 0
	}
	names := strings.Fields("rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15")
	var functions, table strings.Builder
	each := func(format string, n int, f func(i int) []any) {
		for i := range n {
			fmt.Fprintf(&functions, format, f(i)...)
		}
	}
	general := func(format string) {
		for i, name := range names {
			if name != "rsp" {
				fmt.Fprintf(&functions, format, 8*i, name)
			}
		}
	}
	const masks, vectors = 136, 200 // offsets in struct state of testdata/harness.c
	for n, test := range list {
		fmt.Fprintf(&functions,
			"run%d:\n push %%rbx; push %%rbp; push %%r12; push %%r13; push %%r14; push %%r15; "+
				"mov %%rsp, saved\n", n)
		each(" "+load+"\n", count,
			func(i int) []any { return []any{vectors + 64*i, i} })
		each(" kmovq in+%d, %%k%d\n", masked, func(i int) []any { return []any{masks + 8*i, i} })
		functions.WriteString(" pushq in+128; popfq\n")
		general(" mov in+%d, %%%s\n")
		fmt.Fprintf(&functions, " %s\n", test.text)
		general(" mov %%%[2]s, out+%[1]d\n")
		functions.WriteString(" mov %rsp, out+32; mov saved, %rsp; pushfq; popq out+128; cld\n")
		each(" "+store+"\n", count,
			func(i int) []any { return []any{i, vectors + 64*i} })
		each(" kmovq %%k%d, out+%d\n", masked, func(i int) []any { return []any{i, masks + 8*i} })
		functions.WriteString(" pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; " +
			"vzeroupper; ret\n")
		fmt.Fprintf(&table, " .quad run%d, name%d, %#x, 0xffff\n", n, n, test.flags)
		fmt.Fprintf(&functions, "name%d: .string %q\n", n, test.text)
	}
	return ".text\n" + functions.String() + ".data\n.balign 8\n.globl tests, test_count\ntests:\n" +
		table.String() +
		fmt.Sprintf("test_count: .long %d\n.section .note.GNU-stack,\"\",@progbits\n", len(list))
}

// TestInstructionsLeaveTheSameStateAsTheProcessor runs each instruction with the same registers and
// memory under the recorder and without it.
func TestInstructionsLeaveTheSameStateAsTheProcessor(t *testing.T) {
	effort.SkipShort(t)
	for _, name := range []string{"integers", "vectors", "computed", "followed"} {
		t.Run(name, func(t *testing.T) {
			list := readInstructionTests(t, name)
			flags, err := os.ReadFile("/proc/cpuinfo")
			wide := err == nil && strings.Contains(string(flags), " avx512vl") &&
				strings.Contains(string(flags), " avx512bw")
			if !wide && (name == "vectors" || name == "computed") {
				t.Skip("this processor has no AVX-512: the state of its vectors cannot be compared")
			}
			if !wide {
				list = slices.DeleteFunc(list,
					func(o instructionTest) bool { return strings.Contains(o.text, "%zmm") })
			}
			source := filepath.Join(t.TempDir(), "tests.S")
			if err := os.WriteFile(source, []byte(assemblySource(list, wide)), 0o600); err != nil {
				t.Fatal(err)
			}
			program := compileProgram(t, "testdata/harness.c", "-O1", "-no-pie", source)
			with, without := runRecorded(t, nil, Options{}, program), runUnrecorded(t, nil, program)
			if with.exit != without.exit || with.err != nil {
				t.Errorf("exit status %d, without the recorder %d; record: %v; messages %s",
					with.exit, without.exit, with.err, with.messages)
			}
			got, want := strings.Split(with.output, "\n"), strings.Split(without.output, "\n")
			failed := 0
			for n := range min(len(got), len(want)) {
				if got[n] != want[n] && failed < 20 {
					failed++
					t.Errorf("state under the recorder %s\nwithout it              %s", got[n],
						want[n])
				}
			}
			if len(want) != 5*len(list)+1 || len(got) != len(want) && failed == 0 {
				t.Errorf("output of %d lines, without the recorder %d; want 5 for each of %d "+
					"instructions", len(got), len(want), len(list))
			}
			t.Logf("evidence: %d instructions executed as by the processor", len(list))
		})
	}
}

// TestThreadsThatComputeKeepTheirRegistersAndSignals: many threads and processes execute
// instructions themselves on a copy of the loaded data, while they receive many signals.
func TestThreadsThatComputeKeepTheirRegistersAndSignals(t *testing.T) {
	effort.SkipShort(t)
	program := compileProgram(t, "testdata/computes.c", "-O2", "-mpopcnt")
	with, without := runRecorded(t, nil, Options{}, program), runUnrecorded(t, nil, program)
	compareRuns(t, with, without)
	checkReplay(t, with)
	// The program prints 1 + FPE_INTDIV and 1 + FPE_FLTDIV.
	if want := 9*200*7 + 1; len(with.capture.Records) < want ||
		!strings.Contains(with.output, "by zero: 2\na number by zero: 4\n") ||
		!strings.Contains(with.output, "together 400 ffffffff 1200 ") {
		t.Errorf("the record has %d lines, want at least %d; want two divisions by zero and the "+
			"atomics' sums in the output: %s", len(with.capture.Records), want, with.output)
	}
	t.Logf("evidence: %d accesses of instructions that compute", len(with.capture.Records))
}

// TestThreadsThatComputeAreStoppedAndTrapped: Ctrl-Z stops each thread, and is one signal. A
// SIGTRAP that the program sends itself does not count as the end of an instruction.
func TestThreadsThatComputeAreStoppedAndTrapped(t *testing.T) {
	effort.SkipShort(t)
	program := compileProgram(t, "testdata/computes.c", "-O2", "-mpopcnt")
	traps := runRecorded(t, nil, Options{}, program, "traps")
	compareRuns(t, traps, runUnrecorded(t, nil, program, "traps"))
	checkReplay(t, traps)
	if len(traps.accesses()) != 8*200*7 || !strings.HasSuffix(traps.output, "came: 1\n") {
		t.Errorf("the record has %d accesses, want %d; want came: 1 at the end of the output: %s",
			len(traps.accesses()), 8*200*7, traps.output)
	}
	path := createCard(t)
	c, out := recorderCommand(t, nil, Options{}, path, program, "stops")
	// The process group of the program has its parent in another group of the session. Otherwise
	// SIGTSTP would not stop it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stops := runCommand(t, c, path)
	stops.readRecord(out)
	if want := strings.Replace(traps.output, "came: 1", "came: 0", 1); stops.err != nil ||
		stops.output != want {
		t.Errorf("exit status %d, record: %v, output %s\nwant %s", stops.exit, stops.err,
			stops.output, want)
	}
	checkReplay(t, stops)
}

// TestThreadThatComputesMayBeReplacedByExec: another thread calls exec while a thread computes.
func TestThreadThatComputesMayBeReplacedByExec(t *testing.T) {
	program := compileProgram(t, "testdata/computes.c", "-O2", "-mpopcnt")
	r := runRecorded(t, nil, Options{}, program, "exec", "12")
	if r.exit != 0 || r.err != nil || len(r.accesses()) < 13*200*7 ||
		!strings.HasSuffix(r.output, "\n") {
		t.Errorf("exit status %d, record: %v, %d accesses, want 0 and at least %d; messages %s",
			r.exit, r.err, len(r.accesses()), 13*200*7, r.messages)
	}
}

// TestComputePageIsMappedBeforeTheLoad: the recorder maps a page in which the program's thread
// executes an instruction. If the kernel does not permit it, no load has been made. The page is
// mapped again if the program unmaps it, also after the first thread has ended.
func TestComputePageIsMappedBeforeTheLoad(t *testing.T) {
	program := compileProgram(t, "testdata/computes.c", "-O2", "-mpopcnt")
	for _, scenario := range []string{"unmaps", "ends"} {
		with := runRecorded(t, nil, Options{}, program, scenario)
		compareRuns(t, with, runUnrecorded(t, nil, program, scenario))
		checkReplay(t, with)
	}
	without := runUnrecorded(t, nil, program, "refuses")
	if without.exit == 77 {
		t.Skip("needs Linux 6.3")
	}
	continued := runRecorded(t, nil, Options{ContinueUnrecorded: true}, program, "refuses")
	if continued.output != without.output || !slices.Equal(continued.accesses(),
		[]string{"W 0 4 07000000"}) || !strings.Contains(continued.messages,
		"lm cannot map a writable and executable page") {
		t.Errorf("without a page: output %q, want %q; accesses %v, want the first store; "+
			"messages %s", continued.output, without.output, continued.accesses(),
			continued.messages)
	}
}

// TestLockedInstructionOnWatchedMemoryIsRefused, because a device may write between its load and
// its store.
func TestLockedInstructionOnWatchedMemoryIsRefused(t *testing.T) {
	// The operand of each instruction is (%rdi).
	for code, want := range map[string]string{"f0 01 07": "locked", "87 07": "locked",
		"01 07": ""} {
		var bytes [3]byte
		n, _ := fmt.Sscanf(code, "%x %x %x", &bytes[0], &bytes[1], &bytes[2])
		for _, host := range []*dmaRange{nil, {}} {
			m := &memory{&recording{},
				&thread{space: &space{areas: []area{{start: pageSize, end: 2 * pageSize,
					watched: host}}}}}
			s := x86.State{Serialized: m.isSerialized}
			s.Reg[7] = pageSize
			err := x86.Step(bytes[:n], pageSize, &s, zeroMemory{})
			if refused := err != nil && strings.Contains(err.Error(),
				code+": lm cannot execute a locked"); refused != (host != nil && want != "") {
				t.Errorf("%s: error %v, watched: %v; want refused: %v", code, err, host != nil,
					!refused)
			}
		}
	}
}

// zeroMemory is a memory whose loads do not change data and whose stores have no effect.
type zeroMemory struct{}

func (zeroMemory) Load(uint64, []byte) error  { return nil }
func (zeroMemory) Store(uint64, []byte) error { return nil }
