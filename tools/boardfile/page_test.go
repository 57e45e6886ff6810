package boardfile

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"lightmetal/tools/pages"
)

// TestThePageIsTrue gives every command of the page, in order. Those for a machine
// with the card are skipped by name; tools/guest gives the one that boots a kernel.
func TestThePageIsTrue(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err)
	}
	commands, err := pages.Read("README.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	lm, folder := filepath.Join(t.TempDir(), "lm"), t.TempDir()
	if out, err := exec.Command("go", "build", "-o", lm, "lightmetal/tools/lm").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := pages.Folder(folder, root, lm); err != nil {
		t.Fatal(err)
	}
	given := 0
	for _, c := range commands {
		ok := t.Run(fmt.Sprintf("line %d", c.Line), func(t *testing.T) {
			switch {
			case c.Elsewhere:
				t.Skip(c.Text)
			case c.Tree():
				t.Skip("another test does that: ", c.Text)
			}
			given++
			if err := c.Give(folder); err != nil {
				t.Fatal(err)
			}
		})
		if !ok {
			return // what follows needs it
		}
	}
	if given < 15 {
		t.Errorf("only %d commands on the page could be given", given)
	}
}
