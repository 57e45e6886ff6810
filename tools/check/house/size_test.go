package house

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/check/house/measure"
)

// set is a part of the tree whose statements are counted together.
type set struct {
	name     string
	recorded int // number of statements at the last review; an increase is reported
	wanted   int // wanted number of statements; 0: none
	folders  string
}

const targetSet, lminitSet = "target", "lminit"

// sets are all folders with sources. A folder belongs to the set that names it or the nearest
// folder above it. C, tests and generated code are counted separately.
var sets = []set{
	{targetSet, 7_087, 4_700, "boards fbs hal runtime tools/lmrun"},
	{lminitSet, 599, 350, "tools/lminit"},
	{"models: mock, rv32, chips, hosts", 3_575, 2_700, "hal/mock boards/chips boards/hosts"},
	{"host product", 30_404, 19_000, "tools/lm tools/image tools/capture tools/look " +
		"tools/devices tools/ship tools/metal"},
	{"checks of the project", 13_263, 6_300, "tools/check tools/image/lmb/lmbtest " +
		"tools/capture/recorder/testdata testdata"},
}

// The sets of sources that do not depend on the folder.
var (
	generated = set{name: "generated", recorded: 1_645}
	tests     = set{name: "tests in Go", recorded: 39_032}
	sourcesC  = set{name: "C: headers, kernels, peers", recorded: 9_158}
)

// products are the programs lmrun that go build compiles with different tags. Backends that a tag
// leaves out are compiled, but not linked: ./build.sh cross prints sizes.
var products = []struct {
	tags     string
	recorded int
}{{"", 6_070}, {"signed", 6_225}}

// wordsPerLineMax is the largest number of words of comment per line of code in each package that
// runs on a target. TestCommentsOfTheTargetAreShort reports a package without a row.
var wordsPerLineMax = map[string]float64{
	"boards":               3.5,
	"fbs":                  3.5,
	"hal":                  3.5,
	"runtime":              3.5,
	"runtime/capi":         3.5,
	"runtime/report":       3.5,
	"runtime/signed":       3.5,
	"tools/lminit":         3.5,
	"tools/lmrun":          3.5,
	"tools/lmrun/args":     3.5,
	"tools/lmrun/faultlog": 3.5,
	"tools/lmrun/files":    3.5,
}

// visitFiles calls f with the path below root of each file in the tree. It skips the folder build
// and hidden files, except .ci.
func visitFiles(t *testing.T, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		hidden := strings.HasPrefix(entry.Name(), ".") && name != "." && name != ".ci"
		switch {
		case entry.IsDir() && (name == "build" || hidden):
			return fs.SkipDir
		case !entry.IsDir() && entry.Type().IsRegular():
			f(filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// setOf returns the set of a source, or nil if no set has its folder.
func setOf(path string, isGenerated bool) *set {
	switch {
	case isGenerated:
		return &generated
	case strings.HasSuffix(path, ".c") || strings.HasSuffix(path, ".h"):
		return &sourcesC
	case strings.HasSuffix(path, "_test.go"):
		return &tests
	}
	return folderSet(path)
}

// folderSet returns the set that names the nearest folder above a file, or nil if no set does.
func folderSet(path string) (found *set) {
	longest := 0
	for i := range sets {
		for _, folder := range strings.Fields(sets[i].folders) {
			if strings.HasPrefix(path, folder+"/") && len(folder) > longest {
				found, longest = &sets[i], len(folder)
			}
		}
	}
	return found
}

// TestSizeOfEverySetIsPrinted counts statements by set and by product. An increase is reported but
// is not a failure, because new features may need more statements. Record new numbers here after
// you have checked the reason for the increase.
func TestSizeOfEverySetIsPrinted(t *testing.T) {
	counts := map[*set]int{}
	visitFiles(t, func(path string) {
		switch filepath.Ext(path) {
		case ".go", ".s", ".S", ".c", ".h":
		default:
			return
		}
		n, err := measure.File(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		isGenerated, err := measure.IsGenerated(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		s := setOf(path, isGenerated)
		if s == nil {
			t.Errorf("no set of size_test.go has the folder of %s", path)
		}
		counts[s] += n
	})
	t.Logf("%-36s %10s %8s %6s", "set", "statements", "recorded", "wanted")
	for i := range sets {
		reportSize(t, &sets[i], counts[&sets[i]])
	}
	for _, s := range []*set{&generated, &tests, &sourcesC} {
		reportSize(t, s, counts[s])
	}
	for _, p := range products {
		product := set{name: fmt.Sprintf("lmrun with tags %q", p.tags), recorded: p.recorded}
		n, err := measure.Product(root, "tools/lmrun", p.tags)
		if err != nil {
			t.Fatal(err)
		}
		reportSize(t, &product, n)
	}
}

// reportSize logs the number of statements of a set.
func reportSize(t *testing.T, s *set, n int) {
	t.Helper()
	wanted := ""
	if s.wanted > 0 {
		wanted = fmt.Sprint(s.wanted)
	}
	t.Logf("%-36s %10d %8d %6s", s.name, n, s.recorded, wanted)
	if n > s.recorded {
		t.Logf("%s: %d statements more than recorded", s.name, n-s.recorded)
	}
	if n == 0 {
		t.Errorf("%s: no statements were counted", s.name)
	}
}

// Limits of the target's sources.
const (
	charactersWanted  = 28.0 // average characters in a line of code; more is reported
	medianLinesWanted = 8    // median lines of a function; more is reported
	mostLinesWanted   = 24   // lines that 90 % of functions do not exceed; more is reported
	linesMax          = 60   // lines of the longest function; more is a failure
)

// isTargetSource reports whether a path is a Go source or assembly of the set "target".
func isTargetSource(path string) bool {
	ext := filepath.Ext(path)
	s := setOf(path, false)
	return s != nil && s.name == targetSet && (ext == ".go" || ext == ".s")
}

// TestTargetIsReadable prints how dense the lines of the target are, and how long its functions
// are. It fails if one is longer than linesMax.
func TestTargetIsReadable(t *testing.T) {
	var functions []measure.Function
	lines, characters := 0, 0
	visitFiles(t, func(path string) {
		if !isTargetSource(path) {
			return
		}
		source, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		isGenerated, err := measure.IsGenerated(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if isGenerated {
			return
		}
		n, sum := measure.Density(source)
		lines, characters = lines+n, characters+sum
		if filepath.Ext(path) == ".go" {
			list, err := measure.Functions(path, source)
			if err != nil {
				t.Fatal(err)
			}
			functions = append(functions, list...)
		}
	})
	if lines == 0 || len(functions) == 0 {
		t.Fatal("no source of the target was found; correct the folders in this test")
	}
	average := float64(characters) / float64(lines)
	t.Logf("target: %.1f characters in a line of code on average, wanted %.0f", average,
		charactersWanted)
	slices.SortFunc(functions, func(a, b measure.Function) int { return a.Lines - b.Lines })
	median := functions[len(functions)/2]
	most := functions[len(functions)*9/10]
	longest := functions[len(functions)-1]
	t.Logf("target: %d functions of %d lines at the median, %d at nine tenths, %d at most (%s)",
		len(functions), median.Lines, most.Lines, longest.Lines, longest.Name)
	if median.Lines > medianLinesWanted || most.Lines > mostLinesWanted {
		t.Logf("target: wanted are %d lines at the median and %d at nine tenths", medianLinesWanted,
			mostLinesWanted)
	}
	if longest.Lines > linesMax {
		t.Errorf("%s has %d lines, at most %d", longest.Name, longest.Lines, linesMax)
	}
}

// TestCommentsOfTheTargetAreShort prints the words of comment per line of code of each package that
// runs on a target, and fails above wordsPerLineMax.
func TestCommentsOfTheTargetAreShort(t *testing.T) {
	type count struct{ words, lines int }
	counts := map[string]*count{}
	visitTargetFiles(t, func(path string, source []byte) {
		if ext := filepath.Ext(path); ext != ".go" && ext != ".s" {
			return
		}
		folder := filepath.Dir(path)
		if counts[folder] == nil {
			counts[folder] = &count{}
		}
		words, lines := measure.Words(source)
		counts[folder].words += words
		counts[folder].lines += lines
	})
	t.Logf("%-36s %10s %8s %8s %6s", "package", "words", "lines", "per line", "most")
	for _, folder := range slices.Sorted(maps.Keys(counts)) {
		c, limit := counts[folder], wordsPerLineMax[folder]
		average := float64(c.words) / float64(c.lines)
		t.Logf("%-36s %10d %8d %8.2f %6.1f", folder, c.words, c.lines, average, limit)
		if average > limit {
			t.Errorf("%s has %.2f words of comment per line of code, at most %.1f; shorten what "+
				"the code says itself", folder, average, limit)
		}
	}
	for folder := range wordsPerLineMax {
		if counts[folder] == nil {
			t.Errorf("wordsPerLineMax has %s, which has no source; remove the row", folder)
		}
	}
}
