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

// testsOf returns the test and fuzz functions in the test files of a directory.
func testsOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
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
	return append(names, scenariosOf(t, folder)...)
}

// scenarioHead is the line of a scenario's name: tools/check/guest/scenario.
var scenarioHead = regexp.MustCompile(`(?m)^scenario (\w+) on `)

// scenariosOf returns TestScenarios/NAME for each scenario of a guest in a directory.
func scenariosOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", folder, "scenarios", "*.txt"))
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

// namedTests returns every directory.Test in a text, with the scenario of a guest.
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
			folder, name := match[1], match[2]
			if found[folder] == nil {
				found[folder] = testsOf(t, folder)
			}
			if !slices.Contains(found[folder], name) {
				t.Errorf("%s names %s, which is not in the tree", document, match[0])
			}
		}
	}
}

// rowHead matches the id of a table's row, such as R7 or A12.
var rowHead = regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \|`)

// rowID matches the id of a row in a text.
var rowID = regexp.MustCompile(`\b[A-Z]\d{1,3}\b`)

// rowsOf returns the ids of all rows of the pages for assessors.
func rowsOf(t *testing.T) map[string]bool {
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

// TestDocumentsNameRowsThatExist: the ids of requirements, assumptions, failures and the like that
// the pages for assessors name.
func TestDocumentsNameRowsThatExist(t *testing.T) {
	rows, named := rowsOf(t), 0
	for _, page := range []string{"REQUIREMENTS.md", "THREATS.md", "GO.md", "SAFETY.md",
		"SECURITY.md", "ASSESSMENT.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range rowID.FindAllString(string(text), -1) {
			named++
			if !rows[id] {
				t.Errorf("%s names %s, which is a row of no page", page, id)
			}
		}
	}
	if len(rows) < 160 || named < len(rows)+100 {
		t.Errorf("%d ids of %d rows were read", named, len(rows))
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
			t.Errorf("%s is no number, or there twice", cells[1])
		}
		seen[number] = true
		if len(cells) != 5 || len(namedTests(cells[3])) != len(strings.Fields(cells[3])) ||
			len(namedTests(cells[3])) == 0 {
			t.Errorf("R%d names no test, or something else: %s", number, line)
		}
	}
	for number := 1; number <= len(seen); number++ {
		if !seen[number] {
			t.Errorf("R%d is missing", number)
		}
	}
	if len(seen) < 30 {
		t.Errorf("%d requirements were read", len(seen))
	}
}

// requirement matches the id of a requirement.
var requirement = regexp.MustCompile(`\bR\d+\b`)

// namesEvidence reports whether a cell names tests or requirements, and nothing else.
func namesEvidence(cell string) bool {
	n := len(namedTests(cell)) + len(requirement.FindAllString(cell, -1))
	return n > 0 && n == len(strings.Fields(cell))
}

// byReviewMost is how many rows of these pages no test shows. It only comes down.
const byReviewMost = 2

// TestEveryRowOfSafetyAndSecurityHasANumberAndATest: rows are numbered by letter
// without a gap, no cell is empty, and the last one names tests or requirements and nothing else,
// or says that only a review can tell.
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
				t.Errorf("%s: %s%s follows %s%d", page, id[1], id[2], id[1], last[id[1]])
			}
			last[id[1]]++
			if len(cells) != columns || slices.ContainsFunc(cells,
				func(cell string) bool { return strings.TrimSpace(cell) == "" }) {
				t.Errorf("%s: %s%s has %d cells of %d, or an empty one", page, id[1], id[2],
					len(cells), columns)
			}
			tests := strings.TrimSpace(cells[len(cells)-1])
			if tests == "by review" {
				reviewed++
			} else if !namesEvidence(tests) {
				t.Errorf("%s: %s%s names no test or requirement, or something else: %s", page,
					id[1], id[2], tests)
			}
		}
	}
	if rows < 60 || reviewed > byReviewMost {
		t.Errorf("%d rows were read; %d are shown by review alone, more than %d", rows, reviewed,
			byReviewMost)
	}
}
