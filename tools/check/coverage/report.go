package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// report is the object that -json prints.
type report struct {
	Program      string            `json:"program"`
	Packages     map[string]*count `json:"packages"`
	Groups       map[string]*count `json:"groups"` // loop, verifier, load
	Functions    map[string]*count `json:"functions"`
	CompilerMade map[string]int    `json:"made_by_the_compiler"` // unreached instructions, by form
}

func summarise(functions []*function, list map[string]allowance) *report {
	r := &report{"", map[string]*count{}, map[string]*count{}, map[string]*count{},
		map[string]int{}}
	add := func(to map[string]*count, name string, c count) {
		if to[name] == nil {
			to[name] = &count{}
		}
		to[name].add(c)
	}
	for _, f := range functions {
		c := f.countReached(r.CompilerMade)
		c.Explained = min(c.notReached(), list[f.name].max)
		add(r.Packages, f.packagePath(), c)
		add(r.Functions, f.name, c)
		if f.group != "" {
			add(r.Groups, f.group, c)
		}
	}
	return r
}

// groupTitles are the groups that have a goal, and their titles in the table.
var groupTitles = []struct{ group, name string }{
	{"loop", "functions that a run can reach"},
	{"verifier", "the verifier"},
	{"load", "from the file to the first run"},
}

func (r *report) print(out io.Writer, allFunctions, hasList bool) {
	head, more := "package", ""
	row := func(name string, c *count) {
		if head != "" {
			fmt.Fprintf(out, "%-42s %9s %15s %15s %7s%s\n", head, "functions", "instructions",
				"both ways", "reached", more)
			head = ""
		}
		fmt.Fprintf(out, "%-42s %9d %7d/%-7d %7d/%-7d %6.1f%%", name, c.Functions, c.Ran,
			c.Instructions, c.BothWays, c.Branches, c.percent())
		if more != "" {
			fmt.Fprintf(out, " %6d %11d", c.Explained, c.notReached()-c.Explained)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, r.Program)
	for _, name := range slices.Sorted(maps.Keys(r.Packages)) {
		row(name, r.Packages[name])
	}
	head = "\nof these"
	if hasList {
		more = fmt.Sprintf(" %6s %11s", "listed", "unexplained")
	}
	for _, g := range groupTitles {
		if c := r.Groups[g.group]; c != nil {
			row(g.name, c)
		}
	}
	head, more = "\nfunction", ""
	if allFunctions {
		for _, name := range slices.Sorted(maps.Keys(r.Functions)) {
			row(name, r.Functions[name])
		}
	}
	fmt.Fprintln(out, "\nmade by the compiler, and not reached")
	for _, form := range slices.Sorted(maps.Keys(r.CompilerMade)) {
		fmt.Fprintf(out, "%7d %s\n", r.CompilerMade[form], form)
	}
	fmt.Fprintln(out)
}

// printUnreached prints what was not reached: group, function, place, description, address and the
// line's text.
func printUnreached(out io.Writer, functions []*function) {
	texts := map[string][]string{}
	for _, f := range functions {
		before := ""
		for i := range f.code {
			in := &f.code[i]
			what, form := in.unreached()
			if what == "" || form != "" {
				continue
			}
			here := fmt.Sprintf("%s\t%s\t%s:%d\t%s", f.group, f.name, in.file, in.line, what)
			if here != before {
				fmt.Fprintf(out, "%s\t%#x\t%s\n", here, in.at, sourceLine(texts, in.file, in.line))
			}
			before = here
		}
	}
}

// sourceLine returns a line of source, or "" if the file is not here.
func sourceLine(texts map[string][]string, file string, line int) string {
	if _, known := texts[file]; !known {
		// the file may belong to Go, and not be here
		text, _ := os.ReadFile(filepath.Join(".", strings.TrimPrefix(file, "lightmetal/")))
		texts[file] = strings.Split(string(text), "\n")
	}
	if lines := texts[file]; line > 0 && line <= len(lines) {
		return strings.TrimSpace(lines[line-1])
	}
	return ""
}
