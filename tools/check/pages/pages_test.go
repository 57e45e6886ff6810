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

	"lightmetal/tools/check/effort"
)

const root = "../../.."

// allPages returns the paths of all pages of the tree, from the top folder.
func allPages(t *testing.T) (list []string) {
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
		t.Fatalf("pages %v, want README.md among them; error %v", list, err)
	}
	return list
}

// TestCommandsOfEveryPageSucceed runs every command of every page, in order, in a copy of the tree
// in which nothing was built. It skips commands with a comment that names what they need.
func TestCommandsOfEveryPageSucceed(t *testing.T) {
	effort.SkipShort(t)
	builds := newSharedBuilds(t.TempDir())
	for _, page := range allPages(t) {
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
					func(t *testing.T) { builds.runCommand(t, &commands[i], folder) }); !ok {
					return // the next commands may depend on this one
				}
			}
		})
	}
}

// optionalProgram matches the programs in commands that a machine with Go may lack.
var optionalProgram = regexp.MustCompile(`\b(?:[\w-]+-)?gcc\b|\bjq\b`)

// buildOnce has commands of several pages that only write programs of the tree to build/. They take
// longer than all other commands of these pages.
var buildOnce = []string{"go build -o build/lm ./tools/lm", "./build.sh cross"}

// sharedBuilds runs each command of buildOnce only once, in a separate clone, when the first page
// needs it. All pages get copies of the files that it wrote.
type sharedBuilds struct {
	folder   string // folder of the clones
	commands map[string]func() (clone string, err error)
}

// newSharedBuilds returns a sharedBuilds whose clones are in a folder.
func newSharedBuilds(folder string) *sharedBuilds {
	b := &sharedBuilds{folder, map[string]func() (string, error){}}
	for _, text := range buildOnce {
		b.commands[text] = sync.OnceValues(func() (string, error) { return b.runInClone(text) })
	}
	return b
}

// runInClone runs a command in a new clone of the tree.
func (b *sharedBuilds) runInClone(text string) (clone string, err error) {
	if clone, err = os.MkdirTemp(b.folder, ""); err != nil {
		return "", err
	}
	if err = Clone(clone, root); err != nil {
		return "", err
	}
	command := Command{Text: text}
	return clone, command.Give(clone)
}

// copyBuildFolder calls run, which runs a command of buildOnce in a clone, and copies the clone's
// folder build to a page's folder.
func copyBuildFolder(run func() (clone string, err error), folder string) error {
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

// runCommand runs a command of a page. It skips the command if this machine lacks a program.
func (b *sharedBuilds) runCommand(t *testing.T, c *Command, folder string) {
	if c.Elsewhere {
		t.Skip(c.Text)
	}
	for _, program := range optionalProgram.FindAllString(c.Text, -1) {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("LM_TEST_REQUIRED") == "" {
			t.Skip(err)
		}
	}
	w := c.Words()
	text := strings.Join(w, " ")
	if run := b.commands[text]; run != nil && len(c.Want)+len(c.Output) == 0 {
		if err := copyBuildFolder(run, folder); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(w) == 3 && w[0] == "go" && w[1] == "test" {
		// The tests of this package already run with all tests of the tree. Only check them here.
		c.Text = "go vet " + w[2]
	}
	if err := c.Give(folder); err != nil {
		t.Fatal(err)
	}
}

// TestMostCommandsAreRun requires that at most half of the commands have a comment that names what
// they need, so that they are skipped.
func TestMostCommandsAreRun(t *testing.T) {
	runCount, skippedCount := 0, 0
	for _, page := range allPages(t) {
		commands, err := Read(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			if c.Elsewhere {
				skippedCount++
			} else {
				runCount++
			}
		}
	}
	if runCount < 100 || skippedCount > runCount {
		t.Errorf("%d commands are run, %d are skipped; want at least 100, and at most half skipped",
			runCount, skippedCount)
	}
}

// quotedPath matches a path between backticks.
var quotedPath = regexp.MustCompile("`([A-Za-z0-9_./-]+)`")

// TestPathsInPagesStartAtTheTopFolder checks that the sources and pages that a page names exist,
// and the paths that begin with a folder of the tree.
func TestPathsInPagesStartAtTheTopFolder(t *testing.T) {
	folders, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range allPages(t) {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range quotedPath.FindAllStringSubmatch(string(text), -1) {
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
				continue // a file of the reader, or of Go
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: `%s` does not exist; write paths from the top folder", page, path)
			}
		}
	}
}
