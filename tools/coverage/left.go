package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// excuse is a line of the list: a function, how many of its instructions and
// branches may not have been reached, and why.
type excuse struct {
	most   int
	reason string
}

// readLeft reads a list: lines of function, number and reason with tabs between,
// and comments that begin with #.
func readLeft(text string) (map[string]excuse, error) {
	list := map[string]excuse{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 3 || fields[2] == "" {
			return nil, fmt.Errorf("%q is not function, number and reason, with tabs between", line)
		}
		most, err := strconv.Atoi(fields[1])
		if err != nil || most < 1 {
			return nil, fmt.Errorf("%q: the number is not one", line)
		}
		if _, twice := list[fields[0]]; twice {
			return nil, fmt.Errorf("%s stands twice", fields[0])
		}
		list[fields[0]] = excuse{most, fields[2]}
	}
	return list, nil
}

// hold holds the functions of the groups against a list. What the list has too
// much is told, so that it shrinks.
func hold(out io.Writer, text string, functions []*function) error {
	list, err := readLeft(text)
	if err != nil {
		return err
	}
	left := map[string]int{}
	for _, f := range functions {
		if c := f.count(map[string]int{}); f.group != "" {
			left[f.name] += c.left()
		}
	}
	over := 0
	for name, n := range left {
		if most := list[name].most; n > most {
			over++
			fmt.Fprintf(out, "%s: %d instructions and branches were not reached, %d are listed\n", name, n, most)
		}
	}
	for name, e := range list {
		if n, there := left[name]; !there || n < e.most {
			fmt.Fprintf(out, "the list has %d for %s, %d will do\n", e.most, name, n)
		}
	}
	if over > 0 {
		return fmt.Errorf("%d functions were reached less than is listed; -left tells where", over)
	}
	return nil
}
