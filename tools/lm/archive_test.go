package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"lightmetal/tools/check/golden"

	"github.com/rogpeppe/go-internal/testscript"
)

// linkTestdata makes T a link to the testdata directory of the repository.
func linkTestdata(folder string) error {
	tree, err := filepath.Abs(testdata)
	return errors.Join(err, os.Symlink(tree, filepath.Join(folder, "T")))
}

// TestScripts runs the scripts of testdata/scripts. In their directories, T is the testdata
// directory of the repository. PROGRAM is a program that captures workloads.
func TestScripts(t *testing.T) {
	program := buildMain(t, workloadProgram)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/scripts",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PROGRAM", program)
			return linkTestdata(e.WorkDir)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "says": says,
		},
		RequireExplicitExec: true,
		UpdateScripts:       *golden.Update,
	})
}

// exits runs a command, whose exit status must be the first argument: exits 64 lm info
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	var status *exec.ExitError
	if !errors.As(err, &status) || fmt.Sprint(status.ExitCode()) != args[0] {
		ts.Fatalf("%v, want exit status %s", err, args[0])
	}
}

// says requires that the last command printed exactly these lines, in which ... is any text. The
// lines of standard output come first.
func says(ts *testscript.TestScript, _ bool, lines []string) {
	want := regexp.QuoteMeta(strings.Join(lines, "\n"))
	pattern := regexp.MustCompile(`^` + strings.ReplaceAll(want, `\.\.\.`, ".*") + "\n?$")
	if !pattern.MatchString(ts.ReadFile("stdout") + ts.ReadFile("stderr")) {
		ts.Fatalf("the output differs")
	}
}

// TestErrorsNameTheFaultAndWhatToDo compares the output of the commands in errors.txtar.
func TestErrorsNameTheFaultAndWhatToDo(t *testing.T) {
	programs := map[string]string{"lm": "lm", "lmrun": buildMain(t, "../lmrun"), "cat": "cat"}
	folder := t.TempDir()
	if err := linkTestdata(folder); err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	golden.Table(t, "testdata/errors.txtar", func(name, data string) string {
		words := strings.Fields(name)
		program, isCommand := programs[words[0]]
		if !isCommand {
			writeExecutable(t, filepath.Join(folder, name), data)
			return data
		}
		c := exec.Command(program, words[1:]...)
		c.Dir = folder
		out, _ := c.CombinedOutput()
		return fmt.Sprintf("exit %d: %s", c.ProcessState.ExitCode(),
			strings.ReplaceAll(string(out), folder, "$WORK"))
	})
}

// writeExecutable writes a file of errors.txtar.
func writeExecutable(t *testing.T, path, data string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err = errors.Join(err, os.WriteFile(path, []byte(unquoted(t, data)), 0o755)); err != nil {
		t.Fatal(err)
	}
}

// unquoted returns the bytes for which the data of a file in an archive stand: those of a string in
// quotes, or the data themselves.
func unquoted(t *testing.T, data string) string {
	t.Helper()
	if !strings.HasPrefix(data, `"`) {
		return data
	}
	text, err := strconv.Unquote(strings.TrimSpace(data))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
