// Package pages reads the pages of the tree for tests: the commands, which are lines outside of
// fences that are indented by four spaces, with the output that the page shows; the links; and the
// sentences.
package pages

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// elsewhere has the comments that end a command which a test of pages cannot run, with the reason.
var elsewhere = []string{
	"# on the machine with the card", "# on the board", "# under QEMU",
	"# with the vendor's simulator",
	"# takes minutes", "# in a tree of Buildroot or Yocto", "# with a cross compiler",
}

// exits matches the comment at the end of a command that may have another exit status than 0.
var exits = regexp.MustCompile(`# exits (?:(0) or )?(\d+)$`)

// Command is a command of a page.
type Command struct {
	Line      int // in the page, from 1
	Text      string
	Want      []string // parts of its output: lines #> after it
	Output    []string // its output as the page shows it, in a fence ```output after it
	Elsewhere bool
}

// outputFence starts a fence with the output of the command before it.
const outputFence = "```output"

// Read returns the commands of a page in order. A line that ends with a backslash continues in the
// next.
func Read(path string) (list []Command, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fence, goesOn := "", false
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case fence == "" && strings.HasPrefix(line, "```"):
			fence = line
			if last := len(list) - 1; line == outputFence && last >= 0 && list[last].Output != nil {
				return nil, fmt.Errorf("%s:%d: a second output of one command", path, i+1)
			}
			continue
		case fence != "" && strings.HasPrefix(line, "```"):
			fence = ""
			continue
		case fence == outputFence && len(list) > 0:
			last := &list[len(list)-1]
			last.Output = append(last.Output, line)
			continue
		}
		command, indented := strings.CutPrefix(line, "    ")
		if !indented || fence != "" {
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

// Words returns the words of a command as a shell would split them, without its comment.
func (c *Command) Words() []string {
	text, _, _ := strings.Cut(c.Text, " #")
	return strings.Fields(text)
}

// Clone copies the tree into a folder, without what was built or downloaded there.
func Clone(folder, root string) error {
	copying := exec.Command("bash", "-euo", "pipefail", "-c",
		`tar -c --exclude=./build --exclude=./.git . | tar -x -C "$0"`, folder)
	copying.Dir = root
	if out, err := copying.CombinedOutput(); err != nil {
		return fmt.Errorf("%s%w", out, err)
	}
	return nil
}

// Give runs the command in a shell in such a folder, and compares its exit status and output with
// the page. What Go has compiled in one folder serves in all.
func (c *Command) Give(folder string) error {
	shell := exec.Command("bash", "-euo", "pipefail", "-c", c.Text)
	shell.Dir, shell.Env = folder, append(os.Environ(), "PATH="+folder+"/build:"+os.Getenv("PATH"),
		"GOFLAGS=-buildvcs=false -trimpath", "NO_COLOR=1")
	out, err := shell.CombinedOutput()
	err = c.checkExit(err)
	for _, want := range c.Want {
		if err == nil && !strings.Contains(string(out), want) {
			err = fmt.Errorf("its output should contain %q", want)
		}
	}
	if err == nil {
		err = checkOutput(string(out), c.Output)
	}
	if err != nil {
		return fmt.Errorf("line %d: %s\n%s%w", c.Line, c.Text, out, err)
	}
	return nil
}

// checkExit returns nil if the command ended as the page says: with 0, or as the comment at its end
// has it.
func (c *Command) checkExit(err error) error {
	allowed := exits.FindStringSubmatch(c.Text)
	if allowed == nil {
		return err
	}
	status := "0"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = strconv.Itoa(exit.ExitCode())
	} else if err != nil {
		return err
	}
	if status != allowed[1] && status != allowed[2] {
		return fmt.Errorf("exit status %s", status)
	}
	return nil
}

// checkOutput reports whether the lines that a page shows are lines of the output, in this order.
// "..." in a line stands for any text, and as a line of its own for any lines.
func checkOutput(out string, shown []string) error {
	rest := strings.Split(out, "\n")
	for _, line := range shown {
		if line == "..." {
			continue
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, ".*")
		is := regexp.MustCompile("^" + pattern + "$")
		at := slices.IndexFunc(rest, is.MatchString)
		if at < 0 {
			return fmt.Errorf("the page shows %q, which the output lacks there", line)
		}
		rest = rest[at+1:]
	}
	return nil
}
