package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestCommandsOfArchives runs the commands of testdata/commands/*.txt and compares their output and
// exit status with the file. With the flag -update, it writes what differs to the file. The
// commands of a file run in a directory of their own, in which T is the testdata directory of the
// repository.
//
//	# A comment.
//	-- NAME --
//	The lines of a file, up to an empty line or a command. A quoted string stands for its bytes,
//	the listing of a file NAME.lmb for its image.
//	$ lm info NAME <STDIN  # exits 65
//	The standard output and the standard error without empty lines. In a line, ... stands for any
//	text. A line that consists of ... stands for any lines.
//
// Other commands are lmrun, cmp, which compares two files, and cat. PROGRAM is a program that
// captures workloads.
func TestCommandsOfArchives(t *testing.T) {
	paths, err := filepath.Glob("testdata/commands/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("testdata/commands has no archives (%v)", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			runArchive(t, path)
		})
	}
}

// archive is the state of runArchive.
type archive struct {
	t            *testing.T
	folder, tree string
	lines        []string // that are not read yet
	written      []string // the lines of the archive with the outputs of this run
}

func runArchive(t *testing.T, path string) {
	path, errPath := filepath.Abs(path)
	tree, errTree := filepath.Abs(testdata)
	if err := errors.Join(errPath, errTree); err != nil {
		t.Fatal(err)
	}
	text := string(mustRead(t, path))
	a := archive{t: t, folder: t.TempDir(), tree: tree,
		lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
	t.Chdir(a.folder)
	for len(a.lines) > 0 {
		line := a.lines[0]
		a.lines = a.lines[1:]
		if name, ok := strings.CutPrefix(line, "-- "); ok {
			a.written = append(a.written, line)
			a.writeFile(strings.TrimSuffix(name, " --"))
		} else if command, ok := strings.CutPrefix(line, "$ "); ok {
			a.runCommand(command)
		} else {
			a.written = append(a.written, line)
		}
	}
	if got := strings.Join(a.written, "\n") + "\n"; *update && got != text {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// linesUntil removes the lines before an empty line or a line with one of the prefixes, and returns
// them.
func (a *archive) linesUntil(prefixes ...string) (list []string) {
	for len(a.lines) > 0 && a.lines[0] != "" {
		for _, prefix := range prefixes {
			if strings.HasPrefix(a.lines[0], prefix) {
				return list
			}
		}
		list = append(list, a.lines[0])
		a.lines = a.lines[1:]
	}
	return list
}

func (a *archive) writeFile(name string) {
	list := a.linesUntil("$ ", "-- ")
	a.written = append(a.written, list...)
	text := strings.Join(append(list, ""), "\n")
	if strings.HasPrefix(text, `"`) {
		var err error
		if text, err = strconv.Unquote(strings.TrimSuffix(text, "\n")); err != nil {
			a.t.Fatalf("file %s: %v", name, err)
		}
	}
	if strings.HasSuffix(name, ".lmb") && text != "" {
		text = string(assembleBytes(a.t, text))
	}
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err = errors.Join(err, os.WriteFile(name, []byte(text), 0o755)); err != nil {
		a.t.Fatal(err)
	}
}

// checksumPattern matches a checksum of 64 bits.
var checksumPattern = regexp.MustCompile(`0x[0-9a-f]{16}`)

func (a *archive) runCommand(line string) {
	want := a.linesUntil("$ ", "-- ", "#")
	line, comment, _ := strings.Cut(line, "  # exits ")
	wantExit, _ := strconv.Atoi(comment)
	words, stdin := strings.Fields(line), ""
	for i, word := range words {
		words[i] = strings.ReplaceAll(word, "T/", a.tree+"/")
		if word == "PROGRAM" {
			words[i] = buildMain(a.t, workloadProgram)
		}
	}
	if last, ok := strings.CutPrefix(words[len(words)-1], "<"); ok {
		words, stdin = words[:len(words)-1], last
	}
	text, exit := commandOutput(a.t, stdin, words)
	text = checksumPattern.ReplaceAllString(text, "HASH")
	text = strings.ReplaceAll(strings.ReplaceAll(text, a.tree, "T"), a.folder, "FOLDER")
	var got []string
	for outputLine := range strings.Lines(text) {
		if outputLine != "\n" {
			got = append(got, strings.TrimSuffix(outputLine, "\n"))
		}
	}
	if exit != wantExit || !matchesLines(got, want) {
		a.t.Errorf("$ %s\nexits %d, want %d; output:\n%s\nwant:\n%s\n(-update writes the file)",
			line, exit, wantExit, strings.Join(got, "\n"), strings.Join(want, "\n"))
		want = got
	}
	if exit != 0 {
		line += fmt.Sprintf("  # exits %d", exit)
	}
	a.written = append(append(a.written, "$ "+line), want...)
}

// matchesLines reports whether lines of output equal those of an archive.
func matchesLines(got, want []string) bool {
	var pattern strings.Builder
	pattern.WriteString("^")
	for _, line := range want {
		if line == "..." {
			pattern.WriteString("(.*\n)*")
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, ".*") + "\n")
	}
	text := strings.Join(append(got, ""), "\n")
	return regexp.MustCompile(pattern.String() + "$").MatchString(text)
}

// commandOutput runs a command of an archive.
func commandOutput(t *testing.T, stdin string, words []string) (text string, exit int) {
	t.Helper()
	switch words[0] {
	case "cat":
		return string(mustRead(t, words[1])), 0
	case "cmp":
		if !bytes.Equal(mustRead(t, words[1]), mustRead(t, words[2])) {
			return "the files differ\n", 1
		}
		return "", 0
	case "lmrun":
		out, err := exec.Command(buildMain(t, "../lmrun"), words[1:]...).CombinedOutput()
		var status *exec.ExitError
		if errors.As(err, &status) {
			exit = status.ExitCode()
		}
		return string(out), exit
	}
	exit, stdout, stderr := lmWithStdin(t, stdin, words[1:]...)
	return stdout + stderr, exit
}
