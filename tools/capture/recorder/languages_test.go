//go:build linux && (amd64 || arm64)

package recorder

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// builds are how programs come to be that are in no test but here: by clang and
// rustc where they are installed, which only ./build.sh record-trials asks for.
var builds = []struct {
	name, tool string
	scenarios  []string // with a list that the program prints; the last without
	build      []string // before the output's name
	source     string
	behind     []string
}{
	{"Go", "go", []string{"list", ""}, []string{"build", "-o"}, "./testdata/patterns", nil},
	{"clang -O0", "clang", []string{"volatile", "mappings", "children", "bulk"},
		[]string{"-O0", "-o"}, patterns, []string{"-lpthread"}},
	{"clang -O2", "clang", []string{"volatile", "mappings", "children", "bulk"},
		[]string{"-O2", "-o"}, patterns, []string{"-lpthread"}},
	{"clang -O3", "clang", []string{"volatile", "mappings", "children", "bulk"},
		[]string{"-O3", "-march=native", "-o"}, patterns, []string{"-lpthread"}},
	{"Rust", "rustc", []string{"list", ""}, []string{"-o"}, "testdata/patterns.rs", nil},
	{"Rust -O", "rustc", []string{"list", ""},
		[]string{"-C", "opt-level=3", "-C", "target-cpu=native", "-o"}, "testdata/patterns.rs",
		nil},
}

// TestProgramsOfOtherCompilers leave what they leave without the recorder, and
// are recorded as they say and as the file has it.
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
				append(args, b.behind...)...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for i, scenario := range b.scenarios {
				command := strings.Fields(program + " " + scenario)
				with := recorded(t, nil, Options{}, command...)
				same(t, with, alone(t, nil, command...))
				if i == len(b.scenarios)-1 {
					carriedOut(t, with)
				} else if difference := differ(with.accesses(),
					expected(with.output)); difference != "" || len(with.accesses()) == 0 {
					t.Errorf("%s: %s", scenario, difference)
				}
				t.Logf("evidence: %s: %d accesses recorded", scenario, len(with.accesses()))
			}
		})
	}
}
