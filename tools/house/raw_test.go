package house

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/coverage/reach"
)

// behindFreeze are where all that lmrun does behind Freeze begins, but for closing
// what was open when the runs are over.
var behindFreeze = []string{"main.(*frameLoop).runLoop", "main.printOutcome",
	"lightmetal/runtime.(*Replay).StopDMA"}

// beyond are the functions that it calls through interfaces.
var beyond = map[string]*regexp.Regexp{
	"main.":              regexp.MustCompile(`^lightmetal/hal\.\(\*device\)\.Now$`),
	"lightmetal/runtime": regexp.MustCompile(`^lightmetal/hal\.\(\*device\)\.SetBusMaster$`),
}

// TestCallsBehindFreezeAreRaw looks at what the compiler made of all that lmrun
// does once it is frozen: none of it tells Go of a system call. Go would hand the
// processor on meanwhile, and have a thread made for it.
func TestCallsBehindFreezeAreRaw(t *testing.T) {
	functions := compiled(t)
	if functions["syscall.Syscall"] == nil ||
		!slices.Contains(functions["syscall.Syscall"].Names, "runtime.entersyscall") {
		t.Fatal("syscall.Syscall does not tell Go: this test looks for the wrong name")
	}
	names, calls := reachable(t, functions), callsOf(functions)
	for i := -len(behindFreeze); i < len(names); i++ {
		if i < 0 {
			names = append(names, behindFreeze[i+len(behindFreeze)])
			continue
		}
		f := functions[names[i]]
		if f == nil {
			t.Fatalf("%s is not in the program", names[i])
		}
		called := slices.Clone(f.Names)
		for prefix, pattern := range beyond {
			for name := range functions {
				if f.Indirect && strings.HasPrefix(names[i], prefix) && pattern.MatchString(name) {
					called = append(called, name)
				}
			}
		}
		if f.Indirect {
			called = append(called, reach.Behind(names[i], calls)...)
		}
		for _, callee := range called {
			if strings.HasSuffix(callee, ".entersyscall") {
				t.Errorf("%s tells Go of a system call", names[i])
			}
			if !strings.HasPrefix(callee, "runtime.") && !slices.Contains(names, callee) &&
				functions[callee] != nil {
				names = append(names, callee)
			}
		}
	}
	for _, needed := range []string{"main.(*watchdog).feed", "main.(*ring).transfer",
		"files.WriteFull", "files.Outputs.Commit", "hal.SleepRaw", "hal.Write", "hal.pwrite"} {
		if !slices.ContainsFunc(names,
			func(name string) bool { return strings.HasSuffix(name, needed) }) {
			t.Errorf("%s was not looked at", needed)
		}
	}
	t.Logf("evidence: %d compiled functions behind Freeze looked at for system calls that are "+
		"not raw", len(names))
}
