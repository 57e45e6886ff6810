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
	"sync"
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
	builds := newBuilds(t.TempDir())
	for _, page := range all(t) {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
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
					func(t *testing.T) { builds.give(t, &commands[i], folder) }); !ok {
					return // what follows needs it
				}
			}
		})
	}
}

// optional matches the programs in commands that a machine with Go may lack.
var optional = regexp.MustCompile(`\b(?:[\w-]+-)?gcc\b|\bjq\b`)

// buildOnce has commands that only write programs of the tree to build/, and that several pages
// have: they take longer than all other commands of those pages.
var buildOnce = []string{"go build -o build/lm ./tools/lm", "./build.sh cross"}

// builds runs each command of buildOnce for the first page that has it, in a clone of its own. The
// pages get copies of what it wrote.
type builds struct {
	folder   string // has the clones
	commands map[string]func() (clone string, err error)
}

func newBuilds(folder string) *builds {
	b := &builds{folder, map[string]func() (string, error){}}
	for _, text := range buildOnce {
		b.commands[text] = sync.OnceValues(func() (string, error) { return b.run(text) })
	}
	return b
}

// run runs a command in a new clone.
func (b *builds) run(text string) (clone string, err error) {
	if clone, err = os.MkdirTemp(b.folder, ""); err != nil {
		return "", err
	}
	if err = Clone(clone, root); err != nil {
		return "", err
	}
	command := Command{Text: text}
	return clone, command.Give(clone)
}

// copyBuilt copies to a page's folder what a command of buildOnce, which run runs once, writes.
func copyBuilt(run func() (clone string, err error), folder string) error {
	clone, err := run()
	if err != nil {
		return err
	}
	out, err := exec.Command("cp", "-a", filepath.Join(clone, "build"), folder).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s%w", out, err)
	}
	return nil
}

// give runs a command of a page, or skips it if this machine lacks what it needs.
func (b *builds) give(t *testing.T, c *Command, folder string) {
	if c.Elsewhere {
		t.Skip(c.Text)
	}
	for _, program := range optional.FindAllString(c.Text, -1) {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("LM_TEST_REQUIRED") == "" {
			t.Skip(err)
		}
	}
	w := c.Words()
	text := strings.Join(w, " ")
	if run := b.commands[text]; run != nil && len(c.Want)+len(c.Output) == 0 {
		if err := copyBuilt(run, folder); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(w) == 3 && w[0] == "go" && w[1] == "test" {
		// The package's tests run once already, with all others of the tree: compile them only.
		c.Text = "go test -run '^$' " + w[2]
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
