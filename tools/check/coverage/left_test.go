package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lightmetal/tools/check/coverage/trace"
)

const root = "../../.."

// shippedFlags matches the list of compiler flags of all programs that ship.
var shippedFlags = regexp.MustCompile(`(?m)^shipped_flags=\(([^)]+)\)$`)

// buildLmrun builds lmrun for arm64 as build.sh cross does, and returns its functions, of which no
// instruction has run.
func buildLmrun(t *testing.T, tags string) []*function {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(root, "tools/check/build/programs.sh"))
	if err != nil {
		t.Fatal(err)
	}
	flags := shippedFlags.FindSubmatch(script)
	if flags == nil {
		t.Fatal("programs.sh has no list shipped_flags=(...) of compiler flags")
	}
	path := filepath.Join(t.TempDir(), "lmrun")
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-tags", tags, "-o", path},
		strings.Fields(string(flags[1]))...)
	build := exec.Command("go", append(args, "lightmetal/tools/lmrun")...)
	build.Env = append(os.Environ(), "GOARCH=arm64", "GOOS=linux", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build of lmrun: %v\n%s", err, out)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	program, err := trace.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	functions, err := functionsOf(program, make([]trace.Seen, len(program.Words)))
	if err != nil {
		t.Fatal(err)
	}
	return functions
}

// TestListNamesFunctionsOfThePrograms finds functions in left.txt that were renamed, removed or
// inlined, or that belong to no group. It takes seconds, while all guest tests take much longer.
func TestListNamesFunctionsOfThePrograms(t *testing.T) {
	list, err := readList("left.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for _, tags := range []string{"", "signed"} {
		addUnreached(buildLmrun(t, tags), all)
	}
	for name, excuse := range list {
		switch {
		case all[name] == 0:
			t.Errorf("%s is in left.txt, but no lmrun has it in a group", name)
		case excuse.max > all[name]:
			t.Errorf("%s has %d instructions and branches, but left.txt lists %d", name, all[name],
				excuse.max)
		}
	}
}
