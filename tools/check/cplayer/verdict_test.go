package cplayer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/runtime"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

const root = "../../.."

// programs has the compiled programs of the folder `harness`, which lie in programDir.
var (
	programs   = map[string]string{}
	programDir string
)

func TestMain(m *testing.M) {
	var err error
	if programDir, err = os.MkdirTemp("", "cplayer"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	_ = os.RemoveAll(programDir)
	os.Exit(status)
}

// buildProgram compiles the player and a program of the folder `harness` for the host, with options
// of the player. Undefined behaviour and accesses outside an object end the program.
func buildProgram(t *testing.T, name string, options ...string) (program string) {
	t.Helper()
	key := strings.Join(append([]string{name}, options...), " ")
	if programs[key] != "" {
		return programs[key]
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatal("gcc is not here")
		}
		t.Skip("gcc is not here, so the player in C cannot be compiled (LM_TEST_REQUIRED=1 makes " +
			"this a failure)")
	}
	dir, err := os.MkdirTemp(programDir, "")
	if err != nil {
		t.Fatal(err)
	}
	program, err = Build("gcc", root, dir, name, append(options, "-fsanitize=address,undefined",
		"-fno-sanitize-recover=all")...)
	if err != nil {
		t.Fatal(err)
	}
	programs[key] = program
	return program
}

// countOfImages returns how many random images a test compares: as many as the environment variable
// LM_PLAYER_IMAGES says, or a number that takes a few seconds.
func countOfImages(t *testing.T, few int) int {
	t.Helper()
	text := os.Getenv("LM_PLAYER_IMAGES")
	if text == "" {
		return few
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < few {
		t.Fatalf("LM_PLAYER_IMAGES is %q; must be a number from %d on", text, few)
	}
	return count
}

func encode(t *testing.T, image *lmb.Image) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "image.lmb")
	if err := os.WriteFile(path, lmbtest.Encode(t, image), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// verdicts returns the line that the player prints for each file.
func verdicts(t *testing.T, program string, paths []string) []string {
	t.Helper()
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte(strings.Join(paths, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "verify", list).CombinedOutput()
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || len(lines) != len(paths) {
		t.Fatalf("%v; %d lines for %d files: %s", err, len(lines), len(paths), lines[len(lines)-1])
	}
	return lines
}

// comparable has the places that both readers name alike. The parts of a FlatBuffer, which have no
// names in FORMAT.md, are all called "envelope" here.
var comparable = regexp.MustCompile(
	`^(preamble|signature|reservation|(device|rule|window|sequence|segment|tensor|command) \d+)$`)

// place returns where the runtime finds a file invalid, "good" if it does not.
func place(data []byte) (place, why string) {
	view, err := fbs.Verify(data)
	if err == nil {
		err = runtime.CheckWorstCaseTimes(view)
		if err == nil {
			return "good", ""
		}
		return longest(view), err.Error()
	}
	var e *fbs.Error
	switch {
	case !errors.As(err, &e):
		return "no place", err.Error()
	case comparable.MatchString(e.Place):
		return e.Place, e.Reason
	case isEndOfFile(e):
		return "segments", e.Reason
	}
	return "envelope", err.Error()
}

// isEndOfFile reports whether an error is about the end of the payload.
func isEndOfFile(e *fbs.Error) bool {
	return e.Place == "payload"
}

// longest returns the place of the first sequence that may take longer than the limit.
func longest(view *fbs.View) string {
	for i, us := range view.WorstCaseUs {
		if us > view.TimeLimitUs {
			return fmt.Sprint("sequence ", i)
		}
	}
	return "good"
}

// compareVerdicts compares the verdicts of both readers on files, and counts the good files.
func compareVerdicts(t *testing.T, program string, paths []string) (good int) {
	t.Helper()
	for i, line := range verdicts(t, program, paths) {
		data, err := os.ReadFile(paths[i])
		if err != nil {
			t.Fatal(err)
		}
		theirs, reason, _ := strings.Cut(line, ": ")
		if theirs != "good" && !comparable.MatchString(theirs) &&
			!(theirs == "segments" && strings.HasPrefix(reason, "do not end")) {
			theirs = "envelope"
		}
		ours, why := place(data)
		if ours == "good" {
			good++
		}
		if ours != theirs {
			t.Errorf("%s: the runtime says %s (%s), C says %s (%s)", filepath.Base(paths[i]), ours,
				why, theirs, reason)
		}
	}
	return good
}

// everyImage returns the images of testdata, good and bad, and those of the listings.
func everyImage(t *testing.T) (good, bad []string) {
	t.Helper()
	samples := filepath.Join(root, "testdata")
	good, _ = filepath.Glob(filepath.Join(samples, "images", "*.lmb"))
	bad, _ = filepath.Glob(filepath.Join(samples, "bad", "*.lmb"))
	listings, _ := filepath.Glob(filepath.Join(samples, "listings", "*.lms"))
	for _, path := range listings {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		image, err := listing.Parse(path, source, nil)
		if err != nil {
			t.Fatal(err)
		}
		good = append(good, encode(t, image))
	}
	if len(good) < 8 || len(bad) < 15 {
		t.Fatalf("%d good and %d bad images", len(good), len(bad))
	}
	return good, bad
}

// Both readers find the same images invalid, at the same place.
func TestVerdictsOnTestdataAreThoseOfTheRuntime(t *testing.T) {
	program := buildProgram(t, "harness")
	good, bad := everyImage(t)
	if n := compareVerdicts(t, program, good); n != len(good) {
		t.Errorf("%d of %d images of testdata are good", n, len(good))
	}
	// a good file
	bad = slices.DeleteFunc(bad,
		func(path string) bool { return strings.HasSuffix(path, "larger-than-the-machine.lmb") })
	if n := compareVerdicts(t, program, bad); n != 0 {
		t.Errorf("%d images that should be bad are good", n)
	}
}

// Every byte of a file is covered by a checksum, or must have the value that it has.
func TestPlayerRejectsAFileWithAnyByteChanged(t *testing.T) {
	program := buildProgram(t, "harness")
	file, err := os.ReadFile(filepath.Join(root, "testdata/images/edu-factorial.lmb"))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	dir := t.TempDir()
	for i := 0; i < len(file); i += 7 {
		changed := bytes.Clone(file)
		changed[i] ^= 0x10
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	for i, line := range verdicts(t, program, paths) {
		if strings.HasPrefix(line, "good") {
			t.Errorf("byte %d changed: %s", 7*i, line)
		}
	}
}
