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

// allowance is an entry of the list: how many instructions and branches of a function may be
// unreached, and why.
type allowance struct {
	max    int
	reason string
}

// parseList parses a list. Each line has a function, a number and a reason, with tabs between them,
// or is a comment that begins with #.
func parseList(text string) (map[string]allowance, error) {
	list := map[string]allowance{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 3 || fields[2] == "" {
			return nil, fmt.Errorf("%q: want function, number and reason, with tabs between", line)
		}
		max, err := strconv.Atoi(fields[1])
		if err != nil || max < 1 {
			return nil, fmt.Errorf("%q: the number must be at least 1", line)
		}
		if _, twice := list[fields[0]]; twice {
			return nil, fmt.Errorf("%s is listed twice", fields[0])
		}
		list[fields[0]] = allowance{max, fields[2]}
	}
	return list, nil
}

// readList reads the file of a list. Without a path, it returns an empty list.
func readList(path string) (map[string]allowance, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseList(string(text))
}

// addUnreached counts what was not reached of each function that has a group. If worst has a
// smaller number for the function, from another program, it is raised.
func addUnreached(functions []*function, worst map[string]int) {
	left := map[string]int{}
	for _, f := range functions {
		if c := f.countReached(map[string]int{}); f.group != "" {
			left[f.name] += c.notReached()
		}
	}
	for name, n := range left {
		worst[name] = max(worst[name], n)
	}
}

// compareWithList fails if more was not reached of a function than the list allows. It prints these
// functions, and those for which the list allows too much.
func compareWithList(out io.Writer, list map[string]allowance, unreached map[string]int) error {
	failures := 0
	for _, name := range slices.Sorted(maps.Keys(unreached)) {
		if n, allowed := unreached[name], list[name].max; n > allowed {
			failures++
			fmt.Fprintf(out, "%s: %d instructions and branches were not reached, %d are listed\n",
				name, n, allowed)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if n := unreached[name]; n < list[name].max {
			fmt.Fprintf(out, "the list allows %d for %s, %d are enough\n", list[name].max, name, n)
		}
	}
	if failures > 0 {
		return fmt.Errorf("%d functions have more unreached code than listed; -left prints it",
			failures)
	}
	return nil
}
