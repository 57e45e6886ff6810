package pages

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// all returns the pages of the tree, by their path from the top folder.
func all(t *testing.T) (list []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(root, path); entry.IsDir() &&
			(name == "build" || name == ".git") {
			return filepath.SkipDir
		} else if strings.HasSuffix(name, ".md") {
			list = append(list, name)
		}
		return err
	})
	if err != nil || !slices.Contains(list, "README.md") {
		t.Fatal(list, err)
	}
	return list
}

// TestEveryPageIsTrue runs every command of every page, in order, in a copy of the tree in which
// nothing was built. It skips commands with a comment that says what they need.
func TestEveryPageIsTrue(t *testing.T) {
	for _, page := range all(t) {
		t.Run(page, func(t *testing.T) {
			commands, err := Read(filepath.Join(root, page))
			if err != nil {
				t.Fatal(err)
			}
			if len(commands) == 0 {
				return
			}
			if commands[0].Elsewhere {
				t.Errorf("the page begins with a command that a fresh clone cannot run: %s",
					commands[0].Text)
			}
			folder := t.TempDir()
			if err := Clone(folder, root); err != nil {
				t.Fatal(err)
			}
			for i := range commands {
				if ok := t.Run(fmt.Sprintf("line %d", commands[i].Line),
					func(t *testing.T) { give(t, &commands[i], folder) }); !ok {
					return // what follows needs it
				}
			}
		})
	}
}

// optional matches the programs in commands that a machine with Go may lack.
var optional = regexp.MustCompile(`\b(?:[\w-]+-)?gcc\b|\bjq\b`)

// give runs a command of a page, or skips it if this machine lacks what it needs.
func give(t *testing.T, c *Command, folder string) {
	if c.Elsewhere {
		t.Skip(c.Text)
	}
	for _, program := range optional.FindAllString(c.Text, -1) {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("LM_TEST_REQUIRED") == "" {
			t.Skip(err)
		}
	}
	if err := c.Give(folder); err != nil {
		t.Fatal(err)
	}
}

// TestMostCommandsAreRun: a comment that says what a command needs is an exception.
func TestMostCommandsAreRun(t *testing.T) {
	here, elsewhere := 0, 0
	for _, page := range all(t) {
		commands, err := Read(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			if c.Elsewhere {
				elsewhere++
			} else {
				here++
			}
		}
	}
	if here < 100 || elsewhere > here {
		t.Errorf("%d commands are run, %d are not", here, elsewhere)
	}
}

var quoted = regexp.MustCompile("`([A-Za-z0-9_./-]+)`")

// TestPathsInPagesStartAtTheTopFolder checks that sources and pages that are named, and paths that
// begin with a folder of the tree, exist.
func TestPathsInPagesStartAtTheTopFolder(t *testing.T) {
	folders, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range all(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range quoted.FindAllStringSubmatch(string(text), -1) {
			path, _, _ := strings.Cut(name[1], ".Test")
			top, _, deep := strings.Cut(path, "/")
			ours := deep && top != "build" &&
				slices.ContainsFunc(folders, func(f fs.DirEntry) bool {
					return f.IsDir() &&
						f.Name() == top
				})
			if !ours && !strings.HasPrefix(path, "../") && !strings.HasSuffix(path, ".md") &&
				!strings.HasSuffix(path, ".go") {
				continue
			}
			if strings.Contains(path, "NAME") || path == "main.go" ||
				page == "runtime/GO.md" && !deep {
				continue // of whoever reads, or of Go
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: `%s` is no path from the top folder", page, path)
			}
		}
	}
}
