package house

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/check/coverage/reach"
)

// rootsAfterFreeze are the functions from which lmrun calls all its code after Freeze, except the
// code that closes files and devices after the last run.
var rootsAfterFreeze = []string{"main.(*runLoop).runAndCommit", "main.printOutcome",
	"lightmetal/runtime.(*Replay).StopDMA", "main.(*runLoop).recoverPanic",
	"main.(*faultRecorder).readErrorRegisters", "main.(*faultRecorder).recordFailure",
	"lightmetal/tools/lmrun/files.(*Output).Discard"}

// calledByInterface are the functions that these call through interfaces, by the caller's prefix.
var calledByInterface = map[string]*regexp.Regexp{
	"main.":              regexp.MustCompile(`^lightmetal/hal\.\(\*device\)\.Now$`),
	"lightmetal/runtime": regexp.MustCompile(`^lightmetal/hal\.\(\*device\)\.SetBusMaster$`),
}

// functionsAfterFreeze returns the names of all functions that lmrun can call after Freeze, without
// those of Go's own runtime.
func functionsAfterFreeze(t *testing.T, functions map[string]*function) (names []string) {
	t.Helper()
	names, calls := functionsOfRun(t, functions), callsOf(functions)
	for i := -len(rootsAfterFreeze); i < len(names); i++ {
		if i < 0 {
			names = append(names, rootsAfterFreeze[i+len(rootsAfterFreeze)])
			continue
		}
		f := functions[names[i]]
		if f == nil {
			t.Fatalf("lmrun has no function %s; correct the name in this test", names[i])
		}
		called := slices.Clone(f.Names)
		for prefix, pattern := range calledByInterface {
			for name := range functions {
				if f.Indirect && strings.HasPrefix(names[i], prefix) && pattern.MatchString(name) {
					called = append(called, name)
				}
			}
		}
		if f.Indirect {
			called = append(called, reach.Implementations(names[i], calls)...)
		}
		for _, callee := range called {
			if !strings.HasPrefix(callee, "runtime.") && !slices.Contains(names, callee) &&
				functions[callee] != nil {
				names = append(names, callee)
			}
		}
	}
	for _, needed := range []string{"main.(*watchdog).feed", "main.(*ring).moveSlot",
		"files.WriteFull", "files.(*Output).sync", "files.(*Output).renameToFinal",
		"hal.SleepRaw", "hal.rawSyscall", "hal.pwrite"} {
		if !slices.ContainsFunc(names,
			func(name string) bool { return strings.HasSuffix(name, needed) }) {
			t.Errorf("%s was not found among the functions called after Freeze", needed)
		}
	}
	return names
}

// TestSystemCallsAfterFreezeAreRaw reads the compiled code of all functions that lmrun calls after
// Freeze. None may announce a system call to Go's scheduler, which would hand the processor over
// and might start a thread for that.
func TestSystemCallsAfterFreezeAreRaw(t *testing.T) {
	functions := disassembleRunner(t)
	if functions["syscall.Syscall"] == nil ||
		!slices.Contains(functions["syscall.Syscall"].Names, "runtime.entersyscall") {
		t.Fatal("syscall.Syscall does not call runtime.entersyscall; correct the name in this test")
	}
	names := functionsAfterFreeze(t, functions)
	for _, name := range names {
		for _, callee := range functions[name].Names {
			if strings.HasSuffix(callee, ".entersyscall") {
				t.Errorf("%s enters a system call through Go's scheduler", name)
			}
		}
	}
	t.Logf("evidence: %d compiled functions after Freeze searched for system calls that are "+
		"not raw", len(names))
}

// TestNothingAllocatesAfterFreeze reads the compiled code of all functions that lmrun calls after
// Freeze, for success and for every failure. tools/lmrun.TestNothingIsAllocatedAfterFreeze counts
// what is allocated.
func TestNothingAllocatesAfterFreeze(t *testing.T) {
	functions := disassembleRunner(t)
	names := functionsAfterFreeze(t, functions)
	reportAllocations(t, functions, names)
	t.Logf("evidence: %d compiled functions after Freeze searched for calls that allocate",
		len(names))
}
