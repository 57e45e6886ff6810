package main

// Man pages of lm and of the targets' programs. Their text is that of --help. A paragraph is filled
// to the width of the terminal; lists and examples keep their lines.

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lightmetal/tools/image/fail"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// verbatimWidth is how many columns an example has on a terminal of 80: man indents it by 7, and
// leaves 2 free at the right edge.
const verbatimWidth = 71

// manCommand returns a hidden command that build.sh install uses.
func manCommand() *cobra.Command {
	return &cobra.Command{Use: "man DIRECTORY [PROGRAM.txt...]", Hidden: true,
		Short: "write the man pages of all commands, and of programs from their help texts",
		Args:  argumentCount(1, 1+len(programSummaries), "a directory and help texts"),
		Run: func(c *cobra.Command, args []string) {
			writePage := func(name, page string) {
				writeFile(filepath.Join(args[0], name+".1"), []byte(page))
			}
			for _, c := range append(c.Root().Commands(), c.Root()) {
				if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
					continue
				}
				setHelpText(c)
				writePage(strings.ReplaceAll(c.CommandPath(), " ", "-"), commandPage(c))
			}
			for _, path := range args[1:] {
				help, err := os.ReadFile(path)
				fail.On(err)
				name := strings.TrimSuffix(filepath.Base(path), ".txt")
				writePage(name, programPage(name, string(help)))
			}
		}}
}

// commandPage returns the man page of a command of lm.
func commandPage(c *cobra.Command) string {
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	p := manPage{}
	p.begin(name, version, c.Short, c.UseLine())
	p.description(c.Long)
	p.section("OPTIONS")
	c.InitDefaultHelpFlag()
	c.NonInheritedFlags().VisitAll(p.flag)
	if c.Example != "" {
		p.section("EXAMPLES")
		p.indented(strings.Split(c.Example, "\n"))
	}
	p.section("SEE ALSO")
	p.seeAlso(c)
	return p.String()
}

// programSummaries has the programs of targets, whose pages are made from their help texts.
var programSummaries = map[string]string{
	"lmrun":            "replay a Light Metal binary on a device",
	"lmrun-signed":     "replay a Light Metal binary on a device, with signatures",
	"lminit":           "start lmrun for each image of a configuration",
	"lightmetal-place": "put a new image in the place of another",
}

// programPage returns the man page of a program, made of its help text, which begins with lines of
// usage.
func programPage(name, help string) string {
	usage, text, _ := strings.Cut(strings.TrimSpace(help), "\n\n")
	p := manPage{}
	p.begin(name, strings.Replace(version, "lm ", name+" ", 1), programSummaries[name],
		strings.Split(strings.TrimPrefix(usage, "usage: "), "\n       ")...)
	p.description(text)
	p.section("SEE ALSO")
	for _, other := range slices.Sorted(maps.Keys(programSummaries)) {
		if other != name {
			p.line(`.BR %s (1),`, escapeRoff(other))
		}
	}
	p.line(`.BR lm (1)`)
	return p.String()
}

// manPage is a man page in the making: text for troff with the macros of man(7).
type manPage struct{ strings.Builder }

// line adds a line as it is: a request, or text that is already escaped.
func (p *manPage) line(format string, a ...any) { fmt.Fprintf(p, format+"\n", a...) }

// text adds a line of text, escaped.
func (p *manPage) text(line string) {
	line = escapeRoff(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line // is no request
	}
	p.line("%s", line)
}

// escapeRoff escapes what troff would change. A plain - becomes a hyphen, which no shell accepts.
func escapeRoff(text string) string {
	return strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(text)
}

func (p *manPage) section(title string) { p.line(".SH %s", escapeRoff(title)) }

// begin adds the title and the sections that every page has first. A page has no date, so that two
// builds have the same bytes.
func (p *manPage) begin(name, source, summary string, usage ...string) {
	p.line(`.TH %s 1 "" "%s"`, escapeRoff(strings.ToUpper(name)), escapeRoff(source))
	p.line(".nh") // a word that is divided cannot be searched for
	p.line(".ad l")
	p.section("NAME")
	p.text(name + " - " + summary)
	p.section("SYNOPSIS")
	p.verbatim(usage...)
}

// description adds the paragraphs of a help text. The paragraph about exit statuses has a section
// of its own.
func (p *manPage) description(text string) {
	p.section("DESCRIPTION")
	for i, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		lines := strings.Split(strings.Trim(paragraph, "\n"), "\n")
		head := strings.ToLower(lines[0])
		if strings.HasPrefix(head, "exit status:") {
			lines[0] = lines[0][len("exit status:"):]
			p.section("EXIT STATUS")
			for _, line := range lines {
				if line = strings.TrimSpace(line); line != "" {
					p.text(line)
				}
			}
			continue
		}
		if i > 0 {
			p.line(".PP")
		}
		first := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  ") })
		if first < 0 {
			first = len(lines)
		}
		for _, line := range lines[:first] {
			p.text(line)
		}
		p.indented(lines[first:])
	}
}

// entry is a line of a list: a term and, after two blanks or more, the text about it.
var entry = regexp.MustCompile(`^  (\S.*?) {2,}(\S.*)$`)

// indented adds lines that are indented by two blanks: a list if the first line has two columns,
// otherwise lines of a terminal. A line that is indented further continues the text before it.
func (p *manPage) indented(lines []string) {
	isList := len(lines) > 0 && entry.MatchString(lines[0])
	if len(lines) > 0 && !isList {
		p.verbatim(lines...)
		return
	}
	for _, line := range lines {
		columns := entry.FindStringSubmatch(line)
		switch {
		case columns != nil && !strings.HasPrefix(line, "   "):
			p.term(`\fB` + escapeRoff(columns[1]) + `\fP`)
			p.text(columns[2])
		default:
			p.text(strings.TrimSpace(line))
		}
	}
}

// term begins an entry of a list. Its text follows, on a line of its own if the term is long.
func (p *manPage) term(roff string) {
	p.line(".TP 12")
	p.line("%s", roff)
}

// verbatim adds lines of a terminal, which troff does not fill. A long command continues in the
// next line, as a shell reads it.
func (p *manPage) verbatim(lines ...string) {
	p.line(".sp")
	p.line(".nf")
	for _, line := range lines {
		line = strings.TrimPrefix(line, "  ")
		for len(line) > verbatimWidth {
			end := breakBefore(line[:verbatimWidth-len(` \`)+1])
			if end < 0 {
				break // one long word
			}
			p.text(line[:end] + ` \`)
			line = "  " + line[end+1:]
		}
		p.text(line)
	}
	p.line(".fi")
}

// breakBefore returns where the start of a command can be broken: the last blank before a flag, so
// that a flag stays with its value; otherwise the last blank. It is negative if there is none.
func breakBefore(start string) int {
	indent := len(start) - len(strings.TrimLeft(start, " "))
	for _, separator := range []string{" -", " "} {
		if end := strings.LastIndex(start, separator); end > indent {
			return end
		}
	}
	return -1
}

// flag adds a flag to the options.
func (p *manPage) flag(f *pflag.Flag) {
	value, usage := pflag.UnquoteUsage(f)
	names := "--" + f.Name
	if f.Shorthand != "" {
		names = "-" + f.Shorthand + ", " + names
	}
	term := `\fB` + escapeRoff(names) + `\fP`
	if value != "" {
		term += ` \fI` + escapeRoff(value) + `\fP`
	}
	p.term(term)
	if d := f.DefValue; !slices.Contains([]string{"", "false", "0", "[]"}, d) {
		usage += " (default " + d + ")"
	}
	p.text(usage)
}

// seeAlso adds lmrun and, for lm, its commands; for a command, lm.
func (p *manPage) seeAlso(c *cobra.Command) {
	pages := []string{"lm", "lmrun"}
	if !c.HasParent() {
		pages = pages[1:]
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
				pages = append(pages, "lm-"+sub.Name())
			}
		}
	}
	for i, page := range pages {
		comma := ","
		if i == len(pages)-1 {
			comma = ""
		}
		p.line(`.BR %s (1)%s`, escapeRoff(page), comma)
	}
}
