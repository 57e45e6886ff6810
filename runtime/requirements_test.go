package runtime_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/tools/check/effort"
)

// testsIn returns the functions in the test files of a directory, and its scenarios.
func testsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil {
				names = append(names, f.Name.Name)
			}
		}
	}
	return append(names, scenariosIn(t, dir)...)
}

// scenarioHead matches the line with the name of a scenario (tools/check/guest/scenario).
var scenarioHead = regexp.MustCompile(`(?m)^scenario (\w+) on `)

// scenariosIn returns TestScenarios/NAME for each scenario of a guest in a directory.
func scenariosIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", dir, "scenarios", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range scenarioHead.FindAllStringSubmatch(string(text), -1) {
			names = append(names, "TestScenarios/"+match[1])
		}
	}
	return names
}

// namedTests returns the matches of DIRECTORY.TEST in a text. TEST may be TestScenarios/NAME. Each
// match consists of the text, the directory and the test.
func namedTests(text string) [][]string {
	test := regexp.MustCompile(`([a-z][a-z0-9/]*)\.((?:Test|Fuzz)\w+(?:/\w+)?)`)
	return test.FindAllStringSubmatch(text, -1)
}

func TestDocumentsNameTestsThatExist(t *testing.T) {
	effort.SkipShort(t)
	found := map[string][]string{}
	for _, document := range []string{"REQUIREMENTS.md", "THREATS.md", "GO.md", "SAFETY.md",
		"SECURITY.md"} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range namedTests(string(text)) {
			dir, name := match[1], match[2]
			if found[dir] == nil {
				found[dir] = testsIn(t, dir)
			}
			if !slices.Contains(found[dir], name) {
				t.Errorf("%s names %s, which does not exist", document, match[0])
			}
		}
	}
}

// rowHead matches the first cell of a table's row if it is an id, such as R7 or A12.
var rowHead = regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \|`)

var rowID = regexp.MustCompile(`\b[A-Z]\d{1,3}\b`)

// rowIDs returns the ids of all rows in the tables of the pages for assessors.
func rowIDs(t *testing.T) map[string]bool {
	t.Helper()
	rows := map[string]bool{}
	for _, page := range []string{"REQUIREMENTS.md", "SAFETY.md", "SECURITY.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range rowHead.FindAllStringSubmatch(string(text), -1) {
			rows[match[1]] = true
		}
	}
	return rows
}

// TestDocumentsNameRowsThatExist checks the ids of requirements, assumptions, failures and others
// in the pages for assessors.
func TestDocumentsNameRowsThatExist(t *testing.T) {
	rows, named := rowIDs(t), 0
	for _, page := range []string{"REQUIREMENTS.md", "THREATS.md", "GO.md", "SAFETY.md",
		"SECURITY.md", "ASSESSMENT.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range rowID.FindAllString(string(text), -1) {
			named++
			if !rows[id] {
				t.Errorf("%s names %s, but no page has a row with this id", page, id)
			}
		}
	}
	if len(rows) < 160 || named < len(rows)+100 {
		t.Errorf("only %d rows and %d ids were read, want at least 160 rows and 100 more ids "+
			"than rows", len(rows), named)
	}
}

var requirementID = regexp.MustCompile(`\bR\d+\b`)

// namesEvidence reports whether a cell names tests or requirements, and nothing else.
func namesEvidence(cell string) bool {
	n := len(namedTests(cell)) + len(requirementID.FindAllString(cell, -1))
	return n > 0 && n == len(strings.Fields(cell))
}

// byReviewMax limits the rows of these pages that only a review can check. It must not be raised.
const byReviewMax = 2

// TestEveryRowHasANumberAndATest: the rows of each letter have the numbers from 1 on, no cell is
// empty, and the last cell names only tests and requirements, or is "by review". Requirements name
// only tests.
func TestEveryRowHasANumberAndATest(t *testing.T) {
	rows, reviewed := map[string][]int{}, 0
	for _, page := range []string{"REQUIREMENTS.md", "SAFETY.md", "SECURITY.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		columns := 0
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			if strings.HasPrefix(line, "| id |") {
				columns = len(cells)
				continue
			}
			id := rowHead.FindStringSubmatch(line)
			if id == nil {
				if strings.HasPrefix(line, "| ") {
					t.Errorf("%s: a row without a number: %s", page, line)
				}
				continue
			}
			number, _ := strconv.Atoi(id[1][1:])
			rows[id[1][:1]] = append(rows[id[1][:1]], number)
			if len(cells) != columns || slices.ContainsFunc(cells,
				func(cell string) bool { return strings.TrimSpace(cell) == "" }) {
				t.Errorf("%s: %s has %d cells, want %d cells that are not empty", page, id[1],
					len(cells), columns)
			}
			evidence := strings.TrimSpace(cells[len(cells)-1])
			switch isRequirement := id[1][0] == 'R'; {
			case evidence == "by review" && !isRequirement:
				reviewed++
			case !namesEvidence(evidence), isRequirement && requirementID.MatchString(evidence):
				t.Errorf("%s: the last cell of %s must name tests only, or requirements if it is "+
					"none: %s", page, id[1], evidence)
			}
		}
	}
	for letter, numbers := range rows {
		slices.Sort(numbers)
		for i, number := range numbers {
			if number != i+1 {
				t.Errorf("the rows of letter %s have the numbers %v, want each number from 1 on "+
					"once", letter, numbers)
				break
			}
		}
	}
	if len(rows["R"]) < 30 || len(rows) < 5 || reviewed > byReviewMax {
		t.Errorf("%d requirements and %d letters were read, want at least 30 and 5; %d rows are "+
			"\"by review\", want at most %d", len(rows["R"]), len(rows), reviewed, byReviewMax)
	}
}
