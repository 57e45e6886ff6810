// Package pages reads the commands in a page, so that tests can give them as the
// page has them: lines that are indented by four spaces.
package pages

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Elsewhere is the comment on a command that a test cannot give.
const Elsewhere = "# on the machine with the card"

// Command is one of a page.
type Command struct {
	Line      int // in the page, from 1
	Text      string
	Want      []string // parts of what it prints: lines #> behind it
	Elsewhere bool
}

// Read gives the commands of a page in order.
func Read(path string) (list []Command, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fenced := false
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		command, indented := strings.CutPrefix(line, "    ")
		if !indented || fenced {
			continue
		}
		if want, ok := strings.CutPrefix(command, "#> "); ok && len(list) > 0 {
			last := &list[len(list)-1]
			last.Want = append(last.Want, want)
			continue
		}
		list = append(list, Command{Line: i + 1, Text: command, Elsewhere: strings.HasSuffix(command, Elsewhere)})
	}
	return list, nil
}

// Folder makes a folder that is like the tree to a page's commands: tools and
// testdata are the tree's, build is its own, with lm in it.
func Folder(folder, root, lm string) error {
	shell := exec.Command("bash", "-euc", `ln -s "$0/tools" "$0/testdata" . && mkdir build && ln -s "$1" build/lm`, root, lm)
	shell.Dir = folder
	if out, err := shell.CombinedOutput(); err != nil {
		return fmt.Errorf("%s%w", out, err)
	}
	return nil
}

// Give has a shell give the command in such a folder, and looks for what it is to print.
func (c *Command) Give(folder string) error {
	shell := exec.Command("bash", "-euo", "pipefail", "-c", c.Text)
	shell.Dir, shell.Env = folder, append(os.Environ(), "PATH="+folder+"/build:"+os.Getenv("PATH"))
	out, err := shell.CombinedOutput()
	for _, want := range c.Want {
		if err == nil && !strings.Contains(string(out), want) {
			err = fmt.Errorf("it should say %q", want)
		}
	}
	if err != nil {
		return fmt.Errorf("line %d: %s\n%s%w", c.Line, c.Text, out, err)
	}
	return nil
}

// Tree tells whether a command makes or starts what belongs to the tree, and is
// tried elsewhere: lm itself, build.sh.
func (c *Command) Tree() bool {
	return strings.HasPrefix(c.Text, "go build") || strings.HasPrefix(c.Text, "export PATH=") || strings.HasPrefix(c.Text, "./build.sh")
}
