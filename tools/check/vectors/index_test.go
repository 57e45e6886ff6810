package main

// This file checks the index, and that the tree has what the generator writes.

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lightmetal/tools/check/vectors/reader"
)

// demandWords matches words in sentences that require something of an image or of a reader.
var demandWords = regexp.MustCompile(`\b(must|rejects?|rejected|requires?|required|needs?|only|` +
	`cannot|at most|at least|no other|not zero|is zero|are zero|lies? inside|multiples?|exactly|` +
	`do not|is not|are not|bits outside|above|nothing|each|every|all|sum|ends|queries)\b`)

// untestable are the beginnings of sentences with such a word that no vector can test, with the
// reason.
var untestable = map[string]string{
	"Writers make one segment": "it is about writers",

	"`tool`, `source`, `git`, `arguments` and":   "readers ignore the notes",
	"A reader enables the vectors of `vectors`":  "tests of hal and of the guest show it",
	"If it cannot enable so many vectors, the":   "tests of hal show it",
	"It handles no interrupt; at most, one ends": "tests of hal and of the C player show it",
	"`captures`: the size and the SHA-256":       "readers ignore the notes",
	"A reader that shows notes":                  "readers ignore the notes",
	"`windows`: absent":                          "readers ignore the notes",
	"`goldens`: each element":                    "readers ignore the notes",
	"1, tolerance |":                             "readers ignore the notes",
	"2, correlation |":                           "readers ignore the notes",
	"An Output without an element in":            "readers ignore the notes",
	"Before a reader that requires signatures":   "the vectors require no signature",
	"If the version is not 0, the four bytes":    "the vectors require no signature",
	"A reader that requires a signature may":     "the vectors require no signature",
}

// TestEveryRequirementOfTheFormatHasAVector requires that the index lists a vector for each
// sentence of FORMAT.md that requires something.
func TestEveryRequirementOfTheFormatHasAVector(t *testing.T) {
	sentences, err := readFormat(filepath.Join(folder, "..", "..", "fbs", "FORMAT.md"))
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(filepath.Join(folder, "index.txt"))
	if err != nil {
		t.Fatal(err)
	}
	used, found := map[string]bool{}, 0
	for _, s := range sentences {
		if s.section == unnumbered || !demandWords.MatchString(strings.ToLower(s.text)) {
			continue
		}
		found++
		if strings.Contains(string(index), " "+s.text+"\n"+vectorsPrefix) {
			continue
		}
		if beginning := untestableBeginning(s.text); beginning != "" {
			used[beginning] = true
			continue
		}
		t.Errorf("section %s: no vector tests %q; add one, or a reason to untestable", s.section,
			s.text)
	}
	for beginning := range untestable {
		if !used[beginning] {
			t.Errorf("no sentence of FORMAT.md begins with %q, or a vector tests it; remove it "+
				"from untestable", beginning)
		}
	}
	if found < 80 {
		t.Errorf("only %d sentences with a requirement were found, want at least 80", found)
	}
}

// untestableBeginning returns the entry of untestable with which a sentence begins, or "".
func untestableBeginning(text string) string {
	for beginning := range untestable {
		if strings.HasPrefix(text, beginning) {
			return beginning
		}
	}
	return ""
}

// TestIndexAndVectorsNameEachOther checks that every vector in the index exists, and that every
// vector with a sentence is in the index.
func TestIndexAndVectorsNameEachOther(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(folder, "index.txt"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(index)) {
		names, ok := strings.CutPrefix(line, vectorsPrefix)
		if !ok {
			continue
		}
		for _, name := range strings.Split(strings.TrimSpace(names), ", ") {
			listed[name] = true
		}
	}
	withSentence := 0
	for _, vectors := range reader.Vectors(t, folder) {
		for _, v := range vectors {
			if len(v.Sentences) > 0 && !listed[v.Name] {
				t.Errorf("index.txt does not list vector %s", v.Name)
			}
			if len(v.Sentences) > 0 {
				withSentence++
			}
			delete(listed, v.Name)
		}
	}
	for name := range listed {
		t.Errorf("index.txt lists %q, but no vector has this name", name)
	}
	if withSentence < 300 {
		t.Errorf("only %d vectors name a sentence, want at least 300", withSentence)
	}
}

func TestTreeHasTheVectorsOfTheDefinitions(t *testing.T) {
	if err := update(folder, true); err != nil {
		t.Error(err)
	}
}

// TestCheckFindsAChangedAndAStrayFile shows that update with --check finds a difference.
func TestCheckFindsAChangedAndAStrayFile(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "testdata", "vectors")
	for _, name := range []string{"testdata/vectors", "testdata/bad", "fbs"} {
		to := filepath.Join(copied, "..", "..", name)
		if err := os.CopyFS(to, os.DirFS(filepath.Join("../../..", name))); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(
		os.WriteFile(filepath.Join(copied, "minimal.lmb"), nil, 0o644),
		os.WriteFile(filepath.Join(copied, "stray.vec"), nil, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	err = update(copied, true)
	if err == nil || !strings.Contains(err.Error(), "minimal.lmb is not what") ||
		!strings.Contains(err.Error(), "stray.vec has no listing") {
		t.Errorf("check of changed files: error %v, want one for minimal.lmb and stray.vec", err)
	}
	if err := errors.Join(os.Remove(filepath.Join(copied, "stray.vec")),
		update(copied, false), update(copied, true)); err != nil {
		t.Errorf("check after an update: %v", err)
	}
}
