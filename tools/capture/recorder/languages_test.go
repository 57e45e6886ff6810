//go:build linux && (amd64 || arm64)

package recorder

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// builds lists compilers that no other test uses. clang and rustc run only if they are installed
// and in ./build.sh record-trials.
var builds = []struct {
	name, tool string
	scenarios  []string // the program prints its accesses in all but the last
	build      []string // arguments before the name of the program
	source     string
	libraries  []string // arguments after the source
}{
	{"Go", "go", []string{"list", ""}, []string{"build", "-o"}, "./testdata/patterns", nil},
	{"clang -O0", "clang", []string{"volatile", "mappings", "children", "bulk"},
		[]string{"-O0", "-o"}, patternsSource, []string{"-lpthread"}},
	{"clang -O2", "clang", []string{"volatile", "mappings", "children", "bulk"},
		[]string{"-O2", "-o"}, patternsSource, []string{"-lpthread"}},
	{"clang -O3", "clang", []string{"volatile", "mappings", "children", "bulk"},
		[]string{"-O3", "-march=native", "-o"}, patternsSource, []string{"-lpthread"}},
	{"Rust", "rustc", []string{"list", ""}, []string{"-o"}, "testdata/patterns.rs", nil},
	{"Rust -O", "rustc", []string{"list", ""},
		[]string{"-C", "opt-level=3", "-C", "target-cpu=native", "-o"}, "testdata/patterns.rs",
		nil},
}

// TestProgramsOfOtherCompilers: the programs leave the same data as without the recorder. Their
// records have the accesses that they print, or leave the same data if they are replayed.
func TestProgramsOfOtherCompilers(t *testing.T) {
	for _, b := range builds {
		t.Run(b.name, func(t *testing.T) {
			if _, err := exec.LookPath(b.tool); err != nil {
				t.Skip("needs " + b.tool)
			}
			if b.tool != "go" && os.Getenv("LM_RECORD_TRIALS") != "1" {
				t.Skip("a trial: ./build.sh record-trials")
			}
			program := filepath.Join(t.TempDir(), "program")
			args := append(append(b.build, program), b.source)
			if out, err := exec.Command(b.tool,
				append(args, b.libraries...)...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", b.tool, err, out)
			}
			for i, scenario := range b.scenarios {
				command := strings.Fields(program + " " + scenario)
				with := runRecorded(t, nil, Options{}, command...)
				compareRuns(t, with, runUnrecorded(t, nil, command...))
				if i == len(b.scenarios)-1 {
					checkReplay(t, with)
				} else if difference := firstDifference(with.accesses(),
					printedAccesses(with.output)); difference != "" || len(with.accesses()) == 0 {
					t.Errorf("%s: %d accesses in the record: %s", scenario, len(with.accesses()),
						difference)
				}
				t.Logf("evidence: %s: %d accesses recorded", scenario, len(with.accesses()))
			}
		})
	}
}
