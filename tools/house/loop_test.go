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
)

// function is one of the compiled program: what it calls, and how many bytes
// of stack it takes.
type function struct {
	calls    []string
	indirect bool // it also calls what is behind an interface
	frame    int
}

var (
	objdumpText = regexp.MustCompile(`^TEXT (.+)\(SB\)`)
	objdumpCall = regexp.MustCompile(`\t(?:CALL|JMP|B) ([^\s(]\S*.*)\(SB\)`)
	indirect    = regexp.MustCompile(`\tCALL \(R\d+\)`)
	frame       = regexp.MustCompile(`\t(?:MOVD\.W R30, -(\d+)\(RSP\)|SUB \$(\d+), RSP, (?:RSP|R20))`)
)

// compiled disassembles lmrun for arm64.
func compiled(t *testing.T) map[string]*function {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "lmrun")
	build := exec.Command("go", "build", "-o", binary, "lightmetal/tools/lmrun")
	build.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command("go", "tool", "objdump", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]*function{}
	var f *function
	for line := range strings.Lines(string(out)) {
		if m := objdumpText.FindStringSubmatch(line); m != nil {
			f = &function{}
			functions[strings.TrimSuffix(m[1], ".abi0")] = f
		} else if m := objdumpCall.FindStringSubmatch(line); m != nil && f != nil {
			f.calls = append(f.calls, strings.TrimSuffix(m[1], ".abi0"))
		} else if m := frame.FindStringSubmatch(line); m != nil && f.frame == 0 {
			f.frame, _ = strconv.Atoi(m[1] + m[2])
		} else if indirect.MatchString(line) {
			f.indirect = true
		}
	}
	return functions
}

// seams are the methods behind the interfaces that a run calls: every device's
// and every port's. Deferred functions are called by Go itself.
var seams = regexp.MustCompile(`^lightmetal/hal\.\(\*\w+\)\.(Alive|Now|Sleep|Point|Load|Store|CopyIn|CopyOut)$|^lightmetal/runtime\.\(\*Replay\)\.guarded\.deferwrap\d$`)

// reachable is what a run can come to: from Run, by calls, without Go's own
// runtime, which takes over where it is called.
func reachable(t *testing.T, functions map[string]*function) (names []string) {
	t.Helper()
	for name := range functions {
		if seams.MatchString(name) {
			names = append(names, name)
		}
	}
	if len(names) < 8 {
		t.Fatalf("behind the interfaces there are only %v", names)
	}
	names = append(names, "lightmetal/runtime.(*Replay).Run")
	for i := 0; i < len(names); i++ {
		f := functions[names[i]]
		if f == nil {
			t.Fatalf("%s is not in the program", names[i])
		}
		for _, callee := range f.calls {
			if !strings.HasPrefix(callee, "runtime.") && !slices.Contains(names, callee) && functions[callee] != nil {
				names = append(names, callee)
			}
		}
	}
	return names
}

// taking are Go's own functions that take memory from the heap, start a
// goroutine, or may.
var taking = regexp.MustCompile(`^runtime\.(malloc|new|make|grow|concat|convT|slicebyteto|stringtoslice|intstring|rawstring|rawbyte|map|chan|gopanic|deferproc|typedslicecopy|assertE2I|bgsweep|GC)`)

// TestCompiledLoopCallsNoAllocator looks at what the compiler made of a run,
// for arm64: whatever the source says, none of it may call what allocates.
func TestCompiledLoopCallsNoAllocator(t *testing.T) {
	functions := compiled(t)
	names := reachable(t, functions)
	for _, name := range names {
		for _, callee := range functions[name].calls {
			// An errno becomes an error by convT64, which takes numbers below 256
			// from a table.
			errno := callee == "runtime.convT64" && strings.HasPrefix(name, "golang.org/x/sys/unix.")
			if taking.MatchString(callee) && !errno {
				t.Errorf("%s calls %s", name, callee)
			}
		}
	}
	for _, needed := range []string{"execute", "step", "poll", "compare", "copyIn"} {
		if !slices.Contains(names, "lightmetal/runtime.(*Replay)."+needed) {
			t.Errorf("%s was not looked at", needed)
		}
	}
	t.Logf("evidence: %d compiled functions of a run looked at for calls that allocate", len(names))
}

// stackReserved is runtime.stackReserved: what Freeze makes sure of.
var stackReserved = regexp.MustCompile(`const stackReserved = (\d+) << 10`)

// TestDeepestCallFitsTheStackThatFreezeReserves adds up the stack that a run
// can take, so that it never has to grow.
func TestDeepestCallFitsTheStackThatFreezeReserves(t *testing.T) {
	functions := compiled(t)
	names := reachable(t, functions)
	// Package runtime knows devices by their interface, apertures know ports.
	behind := map[string][]string{}
	for _, name := range names {
		switch method := name[strings.LastIndexByte(name, '.')+1:]; {
		case !seams.MatchString(name) || strings.Contains(name, "(*Aperture)"):
		case method == "Load" || method == "Store" || strings.HasPrefix(method, "Copy"):
			behind["lightmetal/hal"] = append(behind["lightmetal/hal"], name)
		default:
			behind["lightmetal/runtime"] = append(behind["lightmetal/runtime"], name)
		}
	}
	var deepest func(name string, above []string) (int, []string)
	deepest = func(name string, above []string) (most int, path []string) {
		// A sequence calls another one, which calls none.
		if repeated := strings.Count(strings.Join(above, " ")+" ", name+" "); repeated > 1 || repeated > 0 && !strings.Contains(name, "Replay).") {
			t.Fatalf("%s calls itself: %v", name, above)
		} else if repeated == 1 && strings.HasSuffix(name, ".call") {
			return 0, nil
		}
		f := functions[name]
		calls := f.calls
		if f.indirect {
			calls = append(slices.Clone(calls), behind[name[:strings.IndexByte(name, '(')-1]]...)
		}
		above = append(slices.Clone(above), name)
		for _, callee := range calls {
			if slices.Contains(names, callee) && callee != name {
				if bytes, down := deepest(callee, above); bytes > most {
					most, path = bytes, down
				}
			}
		}
		return most + f.frame, append([]string{name}, path...)
	}
	bytes, path := deepest("lightmetal/runtime.(*Replay).Run", nil)
	source, err := os.ReadFile(filepath.Join(root, "runtime/freeze.go"))
	if err != nil {
		t.Fatal(err)
	}
	m := stackReserved.FindSubmatch(source)
	if m == nil {
		t.Fatal("runtime/freeze.go has no stackReserved")
	}
	reserved, _ := strconv.Atoi(string(m[1]))
	// What Go's own functions take on this stack: up to 800 bytes without a
	// check (the linker's limit), and a panic's frames and its Addr.
	const goRuntime = 4096
	if bytes+goRuntime > reserved<<10 {
		t.Errorf("%d bytes by %v, %d KiB are reserved", bytes, path, reserved)
	}
	t.Logf("evidence: %d bytes of stack at most in a run (%d calls deep)", bytes, len(path))
}
