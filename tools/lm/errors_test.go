package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestEveryErrorSaysWhatToDo runs the command lines of testdata/errors.golden, which begin with $,
// and compares their output and exit status with the file. In a command line, T is the testdata
// directory of the repository. The commands run in a directory with the files below.
func TestEveryErrorSaysWhatToDo(t *testing.T) {
	tree, err := filepath.Abs(testdata)
	if err != nil {
		t.Fatal(err)
	}
	lmrun := filepath.Join(t.TempDir(), "lmrun")
	if out, err := exec.Command("go", "build", "-o", lmrun,
		"lightmetal/tools/lmrun").CombinedOutput(); err != nil {
		t.Fatalf("go build of lmrun: %v\n%s", err, out)
	}
	table := string(mustRead(t, filepath.Join("testdata", "errors.golden")))
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	t.Chdir(folder)
	for name, text := range map[string]string{
		"empty.lmb": "", "words": "These are words,\nand no image.\n",
		"trace": "{\"key\":\"value\"}\n", "cut.mmiotrace": "R 4 1.0 1 0x0 0x0 0x0 0\n",
		"simple.trace": strings.Repeat("\xff", 8) + "\xb4\x29\xa4\x0a\xcb\x77\xb1\xf2\x04" +
			strings.Repeat("\x00", 7),
		"old.lmb":  string(mustRead(t, filepath.Join(tree, "bad", "wrong-schema.lmb"))),
		"cut.lmb":  string(mustRead(t, filepath.Join(tree, "images", "edu.lmb"))[:300]),
		"x.record": "LMRECORD 4\n",
		"idle.record": "LMRECORD 2\nDEVICE 0 1234 11e8 served\nBAR 0 0 0 1000000000 100000\n" +
			"CR 0 0 4 3412e811\nEND 3\n",
		"x.npy":     "\x93NUMPY\x01\x00",
		"run.json":  "{\"displayTimeUnit\":\"ns\",\n\"lightmetal\":{}}",
		"short.bin": "xxx", "bad.csv": "1,2,x\n", "folder/x": "",
		"mode.lms": "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\n" +
			"window r bar0 offset 0 size 1MiB\nmain:\n  frobnicate\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var got strings.Builder
	for line := range strings.Lines(table) {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		words := strings.Fields(strings.ReplaceAll(command, "T/", tree+"/"))
		text, exit := commandOutput(t, lmrun, words)
		text = checksumPattern.ReplaceAllString(text, "HASH")
		text = strings.ReplaceAll(strings.ReplaceAll(text, tree, "T"), folder, "FOLDER")
		got.WriteString(line + text + exit)
	}
	t.Chdir(here)
	checkGolden(t, "errors.golden", got.String())
}

// checksumPattern matches a checksum of 64 bits.
var checksumPattern = regexp.MustCompile(`0x[0-9a-f]{16}`)

// commandOutput runs a command line of lm or lmrun and returns its output and a line with its exit
// status.
func commandOutput(t *testing.T, lmrun string, words []string) (text, exit string) {
	t.Helper()
	if words[0] == "lmrun" {
		out, err := exec.Command(lmrun, words[1:]...).CombinedOutput()
		var status *exec.ExitError
		if errors.As(err, &status) {
			return string(out), status.String() + "\n"
		}
		return string(out), "exit status 0\n"
	}
	code, stdout, stderr := lm(t, words[1:]...)
	return stdout + stderr, "exit status " + strconv.Itoa(code) + "\n"
}
