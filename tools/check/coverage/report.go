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

// report is what -json prints.
type report struct {
	Program   string            `json:"program"`
	Packages  map[string]*count `json:"packages"`
	Groups    map[string]*count `json:"groups"` // loop, verifier, load
	Functions map[string]*count `json:"functions"`
	Made      map[string]int    `json:"made_by_the_compiler"` // and not reached, by form
}

func summarise(functions []*function, list map[string]excuse) *report {
	r := &report{"", map[string]*count{}, map[string]*count{}, map[string]*count{},
		map[string]int{}}
	add := func(to map[string]*count, name string, c count) {
		if to[name] == nil {
			to[name] = &count{}
		}
		to[name].add(c)
	}
	for _, f := range functions {
		c := f.count(r.Made)
		c.Listed = min(c.left(), list[f.name].most)
		add(r.Packages, f.path(), c)
		add(r.Functions, f.name, c)
		if f.group != "" {
			add(r.Groups, f.group, c)
		}
	}
	return r
}

// groups are what is held to a goal, and their names in the table.
var groups = []struct{ group, name string }{
	{"loop", "what a run can come to"},
	{"verifier", "the verifier"},
	{"load", "from the file to the first run"},
}

func (r *report) print(out io.Writer, each, held bool) {
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
			fmt.Fprintf(out, " %6d %11d", c.Listed, c.left()-c.Listed)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, r.Program)
	for _, name := range slices.Sorted(maps.Keys(r.Packages)) {
		row(name, r.Packages[name])
	}
	head = "\nof these"
	if held {
		more = fmt.Sprintf(" %6s %11s", "listed", "unexplained")
	}
	for _, g := range groups {
		if c := r.Groups[g.group]; c != nil {
			row(g.name, c)
		}
	}
	head, more = "\nfunction", ""
	if each {
		for _, name := range slices.Sorted(maps.Keys(r.Functions)) {
			row(name, r.Functions[name])
		}
	}
	fmt.Fprintln(out, "\nmade by the compiler, and not reached")
	for _, form := range slices.Sorted(maps.Keys(r.Made)) {
		fmt.Fprintf(out, "%7d %s\n", r.Made[form], form)
	}
	fmt.Fprintln(out)
}

// printLeft prints what was not reached: group, function, place, what, and the line's text.
func printLeft(out io.Writer, functions []*function) {
	texts := map[string][]string{}
	for _, f := range functions {
		before := ""
		for i := range f.code {
			in := &f.code[i]
			what, form := in.missing()
			if what == "" || form != "" {
				continue
			}
			here := fmt.Sprintf("%s\t%s\t%s:%d\t%s", f.group, f.name, in.file, in.line, what)
			if here != before {
				fmt.Fprintf(out, "%s\t%#x\t%s\n", here, in.at, textOf(texts, in.file, in.line))
			}
			before = here
		}
	}
}

// textOf is a line of source, empty where that is not here.
func textOf(texts map[string][]string, file string, line int) string {
	if _, known := texts[file]; !known {
		// it may be Go's own
		text, _ := os.ReadFile(filepath.Join(".", strings.TrimPrefix(file, "lightmetal/")))
		texts[file] = strings.Split(string(text), "\n")
	}
	if lines := texts[file]; line > 0 && line <= len(lines) {
		return strings.TrimSpace(lines[line-1])
	}
	return ""
}
