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

// trackedFiles returns the files that git tracks. Without git, the test is skipped.
func trackedFiles(t *testing.T) []string {
	t.Helper()
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Skipf("not a git checkout, or git is not installed: %v", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
}

func TestTopFolderHasOnlyListedEntries(t *testing.T) {
	for _, path := range trackedFiles(t) {
		if first, _, _ := strings.Cut(path, "/"); !slices.Contains(topLevel, first) {
			t.Errorf("%s is in the top folder; only topLevel may be", first)
		}
	}
}

// TestNoProgramIsInTheTree requires that programs are only in build/. The exceptions are the
// kernels of accelerators that captures and workloads load.
func TestNoProgramIsInTheTree(t *testing.T) {
	for _, path := range trackedFiles(t) {
		if strings.HasPrefix(path, "testdata/kernels/") {
			continue
		}
		if data, err := readFirstBytes(filepath.Join(root, path)); err == nil &&
			string(data) == "\x7fELF" {
			t.Errorf("%s is an ELF file; build it below build/ instead", path)
		}
	}
}

// readFirstBytes returns the first four bytes of a file.
func readFirstBytes(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	start := make([]byte, 4)
	_, err = io.ReadFull(file, start)
	return start, err
}

// TestFrontPageHasTheSizesOfTheTarget compares the sizes on the front page with the limits of
// `./build.sh cross`.
func TestFrontPageHasTheSizesOfTheTarget(t *testing.T) {
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
			t.Errorf("README.md does not have %q", want)
		}
	}
}

// TestFrontPageIsShort limits README.md, because people read all of it before they try anything.
func TestFrontPageIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	const mostWords, mostLines = 900, 100
	words, lines := len(strings.Fields(string(text))), strings.Count(string(text), "\n")
	if err != nil || words > mostWords || lines > mostLines {
		t.Errorf("README.md has %d words and %d lines, at most %d and %d; move text to the page "+
			"of its subject; error: %v", words, lines, mostWords, mostLines, err)
	}
}
