package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// renderers are the programs that show a man page on a terminal of 80 columns.
var renderers = [][]string{
	{"groff", "-man", "-Tutf8", "-ww", "-rLL=80n", "-P-cbou"},
	{"mandoc", "-T", "utf8", "-O", "width=80"},
}

// overstrike matches a character and a backspace. On a printing terminal, these make the next
// character bold or underlined.
var overstrike = regexp.MustCompile(".\x08")

// render returns a man page as a terminal of 80 columns shows it.
func render(t *testing.T, program []string, page string) string {
	t.Helper()
	if _, err := exec.LookPath(program[0]); err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	command := exec.Command(program[0], append(program[1:], page)...)
	var complaints strings.Builder
	command.Stderr = &complaints
	text, err := command.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("%v: %v\n%s", command, err, complaints.String())
	}
	return overstrike.ReplaceAllString(string(text), "")
}

// writeManPages writes all man pages into a new directory and returns the directory.
func writeManPages(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	arguments := []string{"man", directory}
	for _, program := range []string{"lmrun", "lminit"} {
		help, err := exec.Command(buildMain(t, "../"+program), "-help").Output()
		if err != nil {
			t.Fatal(err)
		}
		helpFile := filepath.Join(directory, program+".txt")
		if err := os.WriteFile(helpFile, help, 0o644); err != nil {
			t.Fatal(err)
		}
		arguments = append(arguments, helpFile)
	}
	if exit, _, stderr := lm(t, arguments...); exit != 0 {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	return directory
}

// TestManPagesFitATerminal: no line has more than 80 columns, each entry of a list has its own
// line, and examples are commands that can be copied.
func TestManPagesFitATerminal(t *testing.T) {
	directory := writeManPages(t)
	pages, err := filepath.Glob(filepath.Join(directory, "*.1"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("lm man wrote %d pages (%v), want at least 20", len(pages), err)
	}
	for _, program := range renderers {
		for _, page := range pages {
			name := strings.TrimSuffix(filepath.Base(page), ".1")
			t.Run(program[0]+"/"+name, func(t *testing.T) {
				text := render(t, program, page)
				for line := range strings.Lines(text) {
					if columns := len([]rune(strings.TrimRight(line, "\n"))); columns > 80 {
						t.Errorf("a line has %d columns, want at most 80: %s", columns, line)
					}
				}
				for _, want := range linesOfPage(t, name) {
					if !slices.Contains(shellLines(text), want) {
						t.Errorf("the page has no line %q:\n%s", want, text)
					}
				}
			})
		}
	}
}

// shellLines returns the lines of a text without indentation. A line that ends in a backslash is
// joined with the next.
func shellLines(text string) (lines []string) {
	joined := regexp.MustCompile(`[ \t]*\\\n[ \t]*`).ReplaceAllString(text, " ")
	for line := range strings.Lines(joined) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// linesOfPage returns lines that the page of a program must have: its examples, flags that are too
// long for the left column, and the first words of lists.
func linesOfPage(t *testing.T, name string) (want []string) {
	t.Helper()
	if name == "lmrun" {
		return []string{"lmrun -input a=a.bin -output d=d.bin model.lmb", "-sequence NAME",
			"-watchdog DEV[=S]", "NAME", "SEE ALSO"}
	}
	if name == "lminit" {
		return []string{"lminit -config FILE [flags of lmrun for every image]", "-config FILE"}
	}
	c := newRoot()
	var err error
	if subcommand, ok := strings.CutPrefix(name, "lm-"); ok {
		c, _, err = c.Find([]string{subcommand})
	}
	if err != nil {
		t.Fatal(err)
	}
	setHelpText(c)
	for example := range strings.Lines(c.Example) {
		if command, _, _ := strings.Cut(strings.TrimSpace(example), "  "); command != "" {
			want = append(want, command)
		}
	}
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if value, _ := pflag.UnquoteUsage(f); len(f.Name)+len(value) > 10 && value != "" {
			flag := "--" + f.Name + " " + value
			if f.Shorthand != "" {
				flag = "-" + f.Shorthand + ", " + flag
			}
			want = append(want, flag)
		}
	})
	return append(want, "NAME", "SYNOPSIS", c.UseLine(), "SEE ALSO")
}

// TestManPageEscapesWhatTroffWouldChange: a backslash, a dot at the beginning of a line, and the
// hyphen of an option.
func TestManPageEscapesWhatTroffWouldChange(t *testing.T) {
	page := manPage{}
	page.text(`.npy files have a \ and -o`)
	if got, want := page.String(), `\&.npy files have a \e and \-o`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
