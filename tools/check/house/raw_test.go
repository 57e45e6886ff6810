package house

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/check/coverage/reach"
)

// afterFreeze are the functions from which lmrun calls everything that it does after Freeze,
// except closing what is open when the runs are over.
var afterFreeze = []string{"main.(*runLoop).runAndCommit", "main.printOutcome",
	"lightmetal/runtime.(*Replay).StopDMA"}

// calledByInterface are the functions that these call through interfaces, by the caller's prefix.
var calledByInterface = map[string]*regexp.Regexp{
	"main.":              regexp.MustCompile(`^lightmetal/hal\.\(\*device\)\.Now$`),
	"lightmetal/runtime": regexp.MustCompile(`^lightmetal/hal\.\(\*device\)\.SetBusMaster$`),
}

// TestCallsBehindFreezeAreRaw reads the compiled code of all that lmrun does after Freeze: no
// function announces a system call to Go's scheduler, which would pass the processor on and might
// start a thread for that.
func TestCallsBehindFreezeAreRaw(t *testing.T) {
	functions := compiled(t)
	if functions["syscall.Syscall"] == nil ||
		!slices.Contains(functions["syscall.Syscall"].Names, "runtime.entersyscall") {
		t.Fatal("syscall.Syscall does not call entersyscall: this test looks for the wrong name")
	}
	names, calls := reachable(t, functions), callsOf(functions)
	for i := -len(afterFreeze); i < len(names); i++ {
		if i < 0 {
			names = append(names, afterFreeze[i+len(afterFreeze)])
			continue
		}
		f := functions[names[i]]
		if f == nil {
			t.Fatalf("%s is not in the program", names[i])
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
			if strings.HasSuffix(callee, ".entersyscall") {
				t.Errorf("%s enters a system call through Go's scheduler", names[i])
			}
			if !strings.HasPrefix(callee, "runtime.") && !slices.Contains(names, callee) &&
				functions[callee] != nil {
				names = append(names, callee)
			}
		}
	}
	for _, needed := range []string{"main.(*watchdog).feed", "main.(*ring).moveSlot",
		"files.WriteFull", "files.(*Output).syncToDisk", "files.(*Output).renameTemp",
		"hal.SleepRaw", "hal.rawSyscall", "hal.pwrite"} {
		if !slices.ContainsFunc(names,
			func(name string) bool { return strings.HasSuffix(name, needed) }) {
			t.Errorf("%s was not found among the functions called after Freeze", needed)
		}
	}
	t.Logf("evidence: %d compiled functions after Freeze searched for system calls that are "+
		"not raw", len(names))
}
