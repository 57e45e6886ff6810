// Package pages reads the commands in a page, so that tests can give them as the
// page has them: lines that are indented by four spaces, outside of fences.
package pages

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// elsewhere are the ends of commands that a test of pages does not give, and why.
var elsewhere = []string{
	"# on the machine with the card", "# on the board", "# under QEMU",
	"# with the vendor's simulator",
	"# takes half an hour", "# in a tree of Buildroot or Yocto", "# with a cross compiler",
}

// exits is the end of a command that may end with another status than 0.
var exits = regexp.MustCompile(`# exits 0 or (\d+)$`)

// Command is one of a page.
type Command struct {
	Line      int // in the page, from 1
	Text      string
	Want      []string // parts of what it prints: lines #> behind it
	Elsewhere bool
}

// Read gives the commands of a page in order. A line that ends with a backslash
// goes on in the next.
func Read(path string) (list []Command, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fenced, goesOn := false, false
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		command, indented := strings.CutPrefix(line, "    ")
		if !indented || fenced {
			continue
		}
		want, ok := strings.CutPrefix(command, "#> ")
		switch last := len(list) - 1; {
		case goesOn:
			list[last].Text += "\n" + command
		case ok && last >= 0:
			list[last].Want = append(list[last].Want, want)
		default:
			list = append(list, Command{Line: i + 1, Text: command})
		}
		goesOn = strings.HasSuffix(command, "\\")
	}
	for i := range list {
		for _, reason := range elsewhere {
			list[i].Elsewhere = list[i].Elsewhere || strings.HasSuffix(list[i].Text, reason)
		}
	}
	return list, nil
}

// Words are those of a command that a shell would give, without its comments.
func (c *Command) Words() []string {
	text, _, _ := strings.Cut(c.Text, " #")
	return strings.Fields(text)
}

// Clone copies the tree into a folder, without what was built or recorded there.
func Clone(folder, root string) error {
	copying := exec.Command("bash", "-euo", "pipefail", "-c",
		`tar -c --exclude=./build --exclude=./.git . | tar -x -C "$0"`, folder)
	copying.Dir = root
	if out, err := copying.CombinedOutput(); err != nil {
		return fmt.Errorf("%s%w", out, err)
	}
	return nil
}

// Give has a shell give the command in such a folder, and looks for what it is to
// print. What Go has compiled in one folder serves in all.
func (c *Command) Give(folder string) error {
	shell := exec.Command("bash", "-euo", "pipefail", "-c", c.Text)
	shell.Dir, shell.Env = folder, append(os.Environ(), "PATH="+folder+"/build:"+os.Getenv("PATH"),
		"GOFLAGS=-buildvcs=false -trimpath")
	out, err := shell.CombinedOutput()
	var exit *exec.ExitError
	if may := exits.FindStringSubmatch(c.Text); may != nil && errors.As(err, &exit) &&
		strconv.Itoa(exit.ExitCode()) == may[1] {
		err = nil
	}
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
