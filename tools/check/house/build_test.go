package house

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// buildParts is the folder with the parts of build.sh.
const buildParts = "tools/check/build"

// readParts returns the parts of build.sh by their paths from the top folder.
func readParts(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, buildParts, "*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s has no files: %v", buildParts, err)
	}
	parts := map[string][]byte{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		parts[buildParts+"/"+filepath.Base(path)] = text
	}
	return parts
}

// copyBuildScript copies build.sh and its parts to a new folder, with the shell script fake as the
// go command. The function run returns a command that runs the copy of build.sh.
func copyBuildScript(t *testing.T, fake string) (dir string, run func(args ...string) *exec.Cmd) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir()) // the path in the shell's variable PWD
	if err != nil {
		t.Fatal(err)
	}
	content := readParts(t)
	content["go"] = []byte("#!/bin/sh\n" + fake)
	for _, name := range []string{"build.sh", "go.mod", "fbs/image.fbs"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		content[name] = data
	}
	for name, data := range content {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir, func(args ...string) *exec.Cmd {
		c := exec.Command("./build.sh", args...)
		c.Dir, c.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"),
			"LM_GUEST_KERNEL="+dir+"/go.mod")
		return c
	}
}

// TestParallelMachinesUseSeparateFolders runs `./build.sh qemu` twice at the same time. Here, the
// guest tool is a script that prints its arguments and then waits until its input ends.
func TestParallelMachinesUseSeparateFolders(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip(err)
	}
	dir, run := copyBuildScript(t, `while [ $# -gt 0 ] && [ "$1" != -o ]; do shift; done
[ $# -lt 2 ] || { printf '#!/bin/sh\necho "$@"\ncat >/dev/null\n' >"$2"; chmod +x "$2"; }
`)
	if err := os.WriteFile(filepath.Join(dir, "qemu-system-aarch64"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	var lines [2]string
	for i := range lines {
		c := run("qemu", "x.lmb")
		wait, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines[i], err = bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.Contains(lines[i], "-dir "+dir+"/build/qemu") {
			t.Errorf("machine %d: arguments %q, want -dir %s/build/qemu...; error %v", i, lines[i],
				dir, err)
		}
		defer func() { wait.Close(); _ = c.Wait() }()
	}
	if lines[0] == lines[1] {
		t.Errorf("both machines run with the same arguments: %s", lines[0])
	}
}

// TestSignedBootImageRequiresAKey checks that --signed requires a key. Without a key, lmrun of the
// boot image would execute any image. The go command of this test only builds bootimage. It fails
// for the programs in a boot image.
func TestSignedBootImageRequiresAKey(t *testing.T) {
	_, run := copyBuildScript(t, "[ \"$2\" = -o ] || exit 3\n")
	const usage, fromGo = 64, 3
	tests := []struct {
		arguments string
		exit      int
	}{
		{"--signed x.lmb", usage},
		{"x.lmb --signed", usage},
		{"--signed --key /k x.lmb", fromGo},
		{"--signed --config=c x.lmb", fromGo},
		{"x.lmb", fromGo},
	}
	for _, test := range tests {
		t.Run(test.arguments, func(t *testing.T) {
			c := run(append([]string{"image", "qemu-virt"}, strings.Fields(test.arguments)...)...)
			out, _ := c.CombinedOutput()
			exit := c.ProcessState.ExitCode()
			advises := strings.Contains(string(out), "--key /keys.pub")
			if exit != test.exit || advises != (test.exit == usage) {
				t.Errorf("exit status %d, want %d; names --key: %v, want %v; output: %s", exit,
					test.exit, advises, test.exit == usage, out)
			}
		})
	}
}

// TestSkippedCasesAreCountedAndNamed runs build.sh with a go command whose tests pass but skip some
// of their cases.
func TestSkippedCasesAreCountedAndNamed(t *testing.T) {
	const fake = "[ \"$1\" = test ] || exit 0\ncat <<'END'\n" +
		"=== RUN   TestA\n    a_test.go:7: a line of a test that passes\n" +
		"--- PASS: TestA (0.00s)\n" +
		"=== RUN   TestB\n    a_test.go:9: no device here\n--- SKIP: TestB (0.00s)\n" +
		"=== RUN   TestC\n=== RUN   TestC/one\n    a_test.go:12: no second one: really\n" +
		"    --- SKIP: TestC/one (0.00s)\n--- PASS: TestC (3.21s)\n" +
		"=== RUN   TestD\n--- SKIP: TestD (0.00s)\nok  \texample\t0.1s\nEND\n"
	_, run := copyBuildScript(t, fake)
	c := run("test", "purego")
	out, err := c.CombinedOutput()
	_, summary, _ := strings.Cut(string(out), "== summary\n")
	for _, want := range []string{", 3 cases skipped\n", "skipped  3 cases, inside of steps:\n",
		"purego: TestB: no device here\n", "purego: TestC/one: no second one: really\n",
		"purego: TestD\n", "\nin all   ", "\nDONE\n"} {
		if !strings.Contains(summary, want) {
			t.Errorf("the summary has no %q", want)
		}
	}
	if want := "== slowest tests\n     3.2 s  purego   example TestC\n" +
		"     0.0 s  purego   example TestA\n"; !strings.Contains(string(out), want) {
		t.Errorf("the output has no %q", want)
	}
	if err != nil || t.Failed() {
		t.Errorf("build.sh failed, or its output is wrong: %v\n%s", err, out)
	}
}

// TestStepsAtOnceHaveTheirOwnResults runs two steps at the same time, of which one fails.
func TestStepsAtOnceHaveTheirOwnResults(t *testing.T) {
	const fake = "[ \"$1\" = test ] || exit 0\ncat <<'END'\n" +
		"=== RUN   TestA\n    a_test.go:7: not so\n--- FAIL: TestA (0.00s)\nFAIL\nEND\nexit 1\n"
	_, run := copyBuildScript(t, fake)
	out, err := run("test", "fmt purego").CombinedOutput()
	_, summary, _ := strings.Cut(string(out), "== summary\n")
	for _, want := range []string{"passed   fmt (", "FAILED   purego\n           TestA: not so\n"} {
		if !strings.Contains(summary, want) {
			t.Errorf("the summary has no %q", want)
		}
	}
	if err == nil || strings.Contains(summary, "passed   purego") || t.Failed() {
		t.Errorf("build.sh must fail because purego fails: %v\n%s", err, out)
	}
}

// TestFuzzAndLintRunWithoutBuildFolder runs commands that write logs to the folder build, although
// the folder does not exist yet.
func TestFuzzAndLintRunWithoutBuildFolder(t *testing.T) {
	const fake = "case \"$*\" in\nlist*) echo example ;;\n*-list*) echo FuzzA ;;\n" +
		"*-fuzz*) echo 'fuzz: elapsed: 1s, execs: 5 (5/sec)' ;;\nesac\n"
	for _, args := range []string{"fuzz 1x", "lint"} {
		t.Run(args, func(t *testing.T) {
			_, run := copyBuildScript(t, fake)
			out, err := run(strings.Fields(args)...).CombinedOutput()
			if args == "lint" {
				err = nil // lint fails without gofmt and staticcheck
			}
			if err != nil || strings.Contains(string(out), "tee:") {
				t.Errorf("build.sh failed, or its output is wrong: %v\n%s", err, out)
			}
		})
	}
}

// TestNightlyGuestsExist checks the names of the tests that `./build.sh test` leaves out.
func TestNightlyGuestsExist(t *testing.T) {
	_, list, _ := strings.Cut(string(readParts(t)[buildParts+"/guest.sh"]), "\nnightly_guests=(\n")
	list, _, _ = strings.Cut(list, "\n)")
	paths, err := filepath.Glob(filepath.Join(root, "tools/check/guest/*_test.go"))
	machines, _ := filepath.Glob(filepath.Join(root, "tools/check/guest/scenarios/*.txt"))
	if err != nil || list == "" {
		t.Fatalf("guest.sh has no list nightly_guests; error %v", err)
	}
	var tests strings.Builder
	for _, path := range append(paths, machines...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(text)
	}
	for _, name := range strings.Fields(list) {
		test, machine, _ := strings.Cut(name, "/")
		if !strings.Contains(tests.String(), "\nfunc "+test+"(t *testing.T) {") ||
			machine != "" && !strings.Contains(tests.String(), "\nmachine "+machine) {
			t.Errorf("guest.sh: there is no test %s; correct nightly_guests", name)
		}
	}
}

// TestBuildScriptIsShortAndSourcesEachPart checks that build.sh stays short and sources each part.
func TestBuildScriptIsShortAndSourcesEachPart(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, "build.sh"))
	if err != nil {
		t.Fatal(err)
	}
	const most = 250
	if lines := bytes.Count(script, []byte("\n")); lines > most {
		t.Errorf("build.sh has %d lines, at most %d; move functions to %s", lines, most, buildParts)
	}
	for part := range readParts(t) {
		if !bytes.Contains(script, []byte("\nsource "+part+" ")) {
			t.Errorf("build.sh does not source %s", part)
		}
	}
}

// TestFunctionsOfBuildHaveComments checks that the comment of each shell function begins with
// its name, and that no two functions have the same name: the second would replace the first.
func TestFunctionsOfBuildHaveComments(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, "build.sh"))
	if err != nil {
		t.Fatal(err)
	}
	files := readParts(t)
	files["build.sh"] = script
	function := regexp.MustCompile(`^([a-z0-9_-]+)\(\) `)
	definedIn := map[string]string{}
	for path, text := range files {
		comment := "" // the first line of the comment before a line
		for line := range strings.Lines(string(text)) {
			if m := function.FindStringSubmatch(line); m != nil {
				if !strings.HasPrefix(comment, "# "+m[1]+" ") {
					t.Errorf("%s: the comment of %s does not begin with its name", path, m[1])
				}
				if other := definedIn[m[1]]; other != "" {
					t.Errorf("%s is defined in %s and in %s", m[1], path, other)
				}
				definedIn[m[1]] = path
			}
			if !strings.HasPrefix(line, "#") {
				comment = ""
			} else if comment == "" {
				comment = line
			}
		}
	}
	if len(definedIn) < 80 {
		t.Errorf("only %d functions were found, want at least 80", len(definedIn))
	}
}
