package house

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// topLevel lists everything that may be in the top folder.
var topLevel = []string{
	".ci", ".gitignore", "README.md", "boards", "build.sh", "fbs", "go.mod", "go.sum", "hal",
	"runtime", "testdata", "tools",
}

// tracked are the files that git keeps; the test is skipped where there is no git.
func tracked(t *testing.T) []string {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skipf("not a git checkout, or git is not there: %v", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
}

func TestTopFolderHoldsWhatWasAgreed(t *testing.T) {
	for _, path := range tracked(t) {
		if first, _, _ := strings.Cut(path, "/"); !slices.Contains(topLevel, first) {
			t.Errorf("%s is in the top folder; only topLevel may be", first)
		}
	}
}

// TestNoProgramIsInTheTree: what is built stays in build/, but for the kernels
// of accelerators that captures and workloads load.
func TestNoProgramIsInTheTree(t *testing.T) {
	for _, path := range tracked(t) {
		if strings.HasPrefix(path, "testdata/kernels/") {
			continue
		}
		if data, err := readStart(filepath.Join(root, path)); err == nil &&
			string(data) == "\x7fELF" {
			t.Errorf("%s is an ELF file; build it below build/ instead", path)
		}
	}
}

// readStart is the first four bytes of a file.
func readStart(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	start := make([]byte, 4)
	_, err = io.ReadFull(file, start)
	return start, err
}

// TestTheFrontPageSaysWhatTheTargetWeighs compares its numbers with the limits of
// `./build.sh cross`.
func TestTheFrontPageSaysWhatTheTargetWeighs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(root, buildParts, "measure.sh"))
	if err != nil {
		t.Fatal(err)
	}
	sizes := regexp.MustCompile(`(?s) backend_max=\$\(\((\d+) \* 1024\)\)\n` +
		`.* all_max=\$\(\((\d+) \* 1024\)\)\n`).FindSubmatch(script)
	if sizes == nil {
		t.Fatal("measure.sh has no line with backend_max or all_max in the expected form")
	}
	for _, want := range []string{
		string(sizes[1]) + " KiB of code and data with one backend",
		string(sizes[2]) + " KiB with all",
	} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("README.md does not say %q", want)
		}
	}
}

// TestTheFrontPageIsShort: a person reads all of README.md before trying anything.
func TestTheFrontPageIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	const mostWords, mostLines = 900, 100
	words, lines := len(strings.Fields(string(text))), strings.Count(string(text), "\n")
	if err != nil || words > mostWords || lines > mostLines {
		t.Errorf("README.md has %d words and %d lines, at most %d and %d; move text to the page "+
			"of its subject; error: %v", words, lines, mostWords, mostLines, err)
	}
}
