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

// rowID matches the id of a row in a text.
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

func TestEveryRequirementHasANumberAndATest(t *testing.T) {
	text, err := os.ReadFile("REQUIREMENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| R") {
			continue
		}
		cells := strings.Split(line, "|")
		number, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(cells[1]), "R"))
		if err != nil || seen[number] {
			t.Errorf("requirement %s: the number is invalid or occurs twice", cells[1])
		}
		seen[number] = true
		if len(cells) != 5 || len(namedTests(cells[3])) != len(strings.Fields(cells[3])) ||
			len(namedTests(cells[3])) == 0 {
			t.Errorf("R%d must have 3 cells, the second with names of tests only: %s", number, line)
		}
	}
	for number := 1; number <= len(seen); number++ {
		if !seen[number] {
			t.Errorf("R%d is missing", number)
		}
	}
	if len(seen) < 30 {
		t.Errorf("only %d requirements were read, want at least 30", len(seen))
	}
}

// requirementID matches the id of a requirement.
var requirementID = regexp.MustCompile(`\bR\d+\b`)

// namesEvidence reports whether a cell names tests or requirements, and nothing else.
func namesEvidence(cell string) bool {
	n := len(namedTests(cell)) + len(requirementID.FindAllString(cell, -1))
	return n > 0 && n == len(strings.Fields(cell))
}

// byReviewMax limits the rows of these pages that only a review can check. It must not be raised.
const byReviewMax = 2

// TestEveryRowOfSafetyAndSecurityHasANumberAndATest: the rows of each letter are numbered without a
// gap, no cell is empty, and the last cell names only tests and requirements, or is "by review".
func TestEveryRowOfSafetyAndSecurityHasANumberAndATest(t *testing.T) {
	row, last, rows, reviewed := regexp.MustCompile(`^\| ([A-Z])(\d+) \|`), map[string]int{}, 0, 0
	for _, page := range []string{"SAFETY.md", "SECURITY.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		columns := 0
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			if strings.HasPrefix(line, "| id |") {
				columns = len(cells)
			}
			id := row.FindStringSubmatch(line)
			if id == nil {
				if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| id |") {
					t.Errorf("%s: a row without a number: %s", page, line)
				}
				continue
			}
			rows++
			if n, _ := strconv.Atoi(id[2]); n != last[id[1]]+1 {
				t.Errorf("%s: row %s%s follows row %s%d, want the next number", page, id[1], id[2],
					id[1], last[id[1]])
			}
			last[id[1]]++
			if len(cells) != columns || slices.ContainsFunc(cells,
				func(cell string) bool { return strings.TrimSpace(cell) == "" }) {
				t.Errorf("%s: %s%s has %d cells, want %d cells that are not empty", page, id[1],
					id[2], len(cells), columns)
			}
			tests := strings.TrimSpace(cells[len(cells)-1])
			if tests == "by review" {
				reviewed++
			} else if !namesEvidence(tests) {
				t.Errorf("%s: the last cell of %s%s must name tests or requirements only: %s", page,
					id[1], id[2], tests)
			}
		}
	}
	if rows < 60 || reviewed > byReviewMax {
		t.Errorf("%d rows were read, want at least 60; %d are \"by review\", want at most %d", rows,
			reviewed, byReviewMax)
	}
}
