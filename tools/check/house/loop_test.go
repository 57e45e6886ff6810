package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/tools/check/coverage/reach"
)

// function is a function of the compiled program.
type function struct {
	reach.Calls     // the functions that it calls
	frame       int // bytes of stack that it uses
}

var (
	objdumpText  = regexp.MustCompile(`^TEXT (.+)\(SB\)`)
	objdumpCall  = regexp.MustCompile(`\t(?:CALL|JMP|B) ([^\s(]\S*.*)\(SB\)`)
	indirectCall = regexp.MustCompile(`\tCALL \(R\d+\)`)
	stackFrame   = regexp.MustCompile(
		`\t(?:MOVD\.W R30, -(\d+)\(RSP\)|SUB \$(\d+), RSP, (?:RSP|R20))`)
)

// shippedFlags matches the list of compiler flags of everything that ships.
var shippedFlags = regexp.MustCompile(`(?m)^shipped_flags=\(([^)]+)\)$`)

// buildProgram builds lmrun or lminit for arm64 as it ships, but with its symbols.
func buildProgram(t *testing.T, name, tags string) (binary string) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(root, buildParts, "programs.sh"))
	if err != nil {
		t.Fatal(err)
	}
	line := shippedFlags.FindSubmatch(script)
	if line == nil {
		t.Fatal("programs.sh has no list shipped_flags=(...) of compiler flags")
	}
	binary = filepath.Join(t.TempDir(), name)
	args := append([]string{"build", "-trimpath", "-tags", tags, "-o", binary},
		strings.Fields(string(line[1]))...)
	build := exec.Command("go", append(args, "lightmetal/tools/"+name)...)
	build.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build of %s: %v\n%s", name, err, out)
	}
	return binary
}

// disassembleRunner returns the functions of lmrun for arm64, by name.
func disassembleRunner(t *testing.T) map[string]*function {
	t.Helper()
	out, err := exec.Command("go", "tool", "objdump", buildProgram(t, "lmrun", "")).Output()
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]*function{}
	var f *function
	for line := range strings.Lines(string(out)) {
		if m := objdumpText.FindStringSubmatch(line); m != nil {
			// A function and its wrapper for the other convention of calls count as one.
			name := strings.TrimSuffix(m[1], ".abi0")
			if f = functions[name]; f == nil {
				f = &function{}
				functions[name] = f
			}
		} else if m := objdumpCall.FindStringSubmatch(line); m != nil && f != nil {
			f.Names = append(f.Names, strings.TrimSuffix(m[1], ".abi0"))
		} else if m := stackFrame.FindStringSubmatch(line); m != nil && f.frame == 0 {
			f.frame, _ = strconv.Atoi(m[1] + m[2])
		} else if indirectCall.MatchString(line) {
			f.Indirect = true
		}
	}
	return functions
}

// callsOf returns the calls of all functions, for package reach.
func callsOf(functions map[string]*function) map[string]*reach.Calls {
	calls := map[string]*reach.Calls{}
	for name, f := range functions {
		calls[name] = &f.Calls
	}
	return calls
}

// functionsOfRun returns the names of the functions that a run can reach.
func functionsOfRun(t *testing.T, functions map[string]*function) (names []string) {
	t.Helper()
	names, err := reach.FromRun(callsOf(functions))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// allocatingFunction matches functions of Go's runtime that allocate memory on the heap or start a
// goroutine, or may do so.
var allocatingFunction = regexp.MustCompile(
	`^runtime\.(malloc|new|make|grow|concat|convT|slicebyteto|stringtoslice|intstring|` +
		`rawstring|rawbyte|map|chan|typeAssert|interfaceSwitch|` +
		`gopanic|deferproc|typedslicecopy|assertE2I|bgsweep|GC)`)

// allowedAllocations are calls that allocate nothing after Freeze, by caller and callee.
var allowedAllocations = map[*regexp.Regexp]string{
	// These append to buffers that are large enough, as
	// tools/lmrun.TestNothingIsAllocatedAfterFreeze shows.
	regexp.MustCompile(`[./)]([aA]ppend|formatBits)|main\.print`): "runtime.growslice",
	// Go has a table of numbers below 256, such as those of errors.
	regexp.MustCompile(`^golang.org/x/sys/unix|hal\.(rawSyscall|ioctl|syscallResult)$|` +
		`files\.\(\*Output\)`): "runtime.convT64",
	// Seal prepares the first memory fault.
	regexp.MustCompile(`hal\.DescribePanic$`): "runtime.typeAssert",
	// Only for errors that are neither a Code nor a Fault, and for defects of lmrun.
	regexp.MustCompile(`hal\.CodeOf$|main\..*recoverPanic$`): "runtime.interfaceSwitch",
	// Only for other polynomials.
	regexp.MustCompile(`crc32\.MakeTable$`): "runtime.newobject",
	// Only if no reserved Fault is left.
	regexp.MustCompile(`hal\.(JoinFault|newFault)$`): "runtime.newobject",
	// Only for other bases than 10 and 16, and for texts that are not appended.
	regexp.MustCompile(`strconv\.formatBits$`): "runtime.slicebytetostring runtime.gopanic",
}

// reportAllocations reports the calls of the functions that may allocate.
func reportAllocations(t *testing.T, functions map[string]*function, names []string) {
	t.Helper()
	for _, name := range names {
		for _, callee := range functions[name].Names {
			isAllowed := !allocatingFunction.MatchString(callee)
			for pattern, callees := range allowedAllocations {
				isAllowed = isAllowed || pattern.MatchString(name) &&
					slices.Contains(strings.Fields(callees), callee)
			}
			if !isAllowed {
				t.Errorf("%s calls %s, which may allocate", name, callee)
			}
		}
	}
}

// TestCompiledLoopCallsNoAllocator reads the compiled code of a run for arm64. No function of it
// may call a function that allocates, because the compiler may insert such calls.
func TestCompiledLoopCallsNoAllocator(t *testing.T) {
	functions := disassembleRunner(t)
	names := functionsOfRun(t, functions)
	reportAllocations(t, functions, names)
	for _, needed := range []string{"runtime.(*Replay).executeSequence",
		"runtime.(*Replay).finishExpect",
		"hal.(*configSpace).Load", "hal.(*device).ProgramWindow", "hal.(*ttBackend).programWindow",
		"hal.pread", "hal.executeWalk"} {
		if !slices.ContainsFunc(names,
			func(name string) bool { return strings.HasSuffix(name, needed) }) {
			t.Errorf("%s was not found among the functions that a run calls", needed)
		}
	}
	t.Logf("evidence: %d compiled functions of a run looked at for calls that allocate", len(names))
}

// stackReserved matches the function with which Freeze reserves stack.
var stackReserved = regexp.MustCompile(`func growStack\(\) \(room \[(\d+) << 10\]byte\)`)

// TestDeepestCallFitsTheStackThatFreezeReserves adds up the stack that a run can use. The stack
// must never grow during a run.
func TestDeepestCallFitsTheStackThatFreezeReserves(t *testing.T) {
	functions := disassembleRunner(t)
	names := functionsOfRun(t, functions)
	var deepest func(name string, callers []string) (int, []string)
	deepest = func(name string, callers []string) (maxBytes int, path []string) {
		// A sequence can call another one, which cannot call a third one.
		repeated := strings.Count(strings.Join(callers, " ")+" ", name+" ")
		if repeated == 2 && strings.HasSuffix(name, ".executeSequence") {
			return 0, nil
		} else if repeated > 1 || repeated > 0 && !strings.Contains(name, "Replay).") {
			t.Fatalf("%s calls itself: %v", name, callers)
		}
		f := functions[name]
		callers = append(slices.Clone(callers), name)
		for _, callee := range f.Names {
			if slices.Contains(names, callee) && callee != name {
				if bytes, calleePath := deepest(callee, callers); bytes > maxBytes {
					maxBytes, path = bytes, calleePath
				}
			}
		}
		return maxBytes + f.frame, append([]string{name}, path...)
	}
	bytes, path := deepest("lightmetal/runtime.(*Replay).Run", nil)
	source, err := os.ReadFile(filepath.Join(root, "runtime/freeze.go"))
	if err != nil {
		t.Fatal(err)
	}
	m := stackReserved.FindSubmatch(source)
	if m == nil {
		t.Fatal("runtime/freeze.go has no function growStack of the expected form")
	}
	reserved, _ := strconv.Atoi(string(m[1]))
	// The stack that functions of Go's runtime use: up to 800 bytes without a check (the linker's
	// limit), and the frames and the Addr of a panic.
	const goRuntime = 4096
	if bytes+goRuntime > reserved<<10 {
		t.Errorf("a run uses %d bytes of stack (%v) and Go's runtime %d, but Freeze reserves "+
			"%d KiB", bytes, path, goRuntime, reserved)
	}
	t.Logf("evidence: %d bytes of stack at most in a run (%d calls deep)", bytes, len(path))
}
