package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
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

// readList reads a file of a list, none where there is no path.
func readList(path string) (map[string]excuse, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return readLeft(string(text))
}

// leftOf adds what was not reached of the functions of the groups, where that is
// more than of the same function of another program.
func leftOf(functions []*function, worst map[string]int) {
	left := map[string]int{}
	for _, f := range functions {
		if c := f.count(map[string]int{}); f.group != "" {
			left[f.name] += c.left()
		}
	}
	for name, n := range left {
		worst[name] = max(worst[name], n)
	}
}

// hold holds what was left of functions against a list. What the list has too
// much is told, so that it shrinks.
func hold(out io.Writer, list map[string]excuse, left map[string]int) error {
	over := 0
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if n, most := left[name], list[name].most; n > most {
			over++
			fmt.Fprintf(out, "%s: %d instructions and branches were not reached, %d are listed\n",
				name, n, most)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if n := left[name]; n < list[name].most {
			fmt.Fprintf(out, "the list has %d for %s, %d will do\n", list[name].most, name, n)
		}
	}
	if over > 0 {
		return fmt.Errorf("%d functions were reached less than is listed; -left tells where", over)
	}
	return nil
}
