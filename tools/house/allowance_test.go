package house

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// An allowance lists how many findings of a test each file may still have, as lines of a number
// and a path. Numbers only come down. A list that does not exist allows nothing: once the last
// list is gone, this file can go, too.

var update = flag.Bool("update", false, "write columns.txt and phrases.txt again, if they shrink")

// readAllowance parses a list.
func readAllowance(text string) (map[string]int, error) {
	list := map[string]int{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var n int
		var path string
		if _, err := fmt.Sscanf(line, "%d %s\n", &n, &path); err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number and a path", line)
		}
		list[path] = n
	}
	return list, nil
}

// risen returns the files with more findings than are listed, in order.
func risen(found map[string][]string, list map[string]int) (paths []string) {
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if len(found[path]) > list[path] {
			paths = append(paths, path)
		}
	}
	return paths
}

func writeAllowance(title string, found map[string][]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s, by file. Numbers only come down: "+
		"go test ./tools/house -update\n", title)
	for _, path := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&text, "%d %s\n", len(found[path]), path)
	}
	return text.String()
}

// checkAllowance fails for every file that has more findings than the list of this name allows.
func checkAllowance(t *testing.T, name, title string, found map[string][]string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	list, err := readAllowance(string(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, path := range risen(found, list) {
		t.Errorf("%s: %d found, %d allowed:\n%s", path, len(found[path]), list[path],
			strings.Join(found[path], "\n"))
	}
	all, allowed := 0, 0
	for _, findings := range found {
		all += len(findings)
	}
	for _, n := range list {
		allowed += n
	}
	t.Logf("%s: %d in %d files, %d allowed", title, all, len(found), allowed)
	if !*update || t.Failed() {
		return
	}
	if len(found) == 0 {
		err = os.Remove(name)
	} else {
		err = os.WriteFile(name, []byte(writeAllowance(title, found)), 0o644)
	}
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

func TestAllowanceOnlyShrinks(t *testing.T) {
	list, err := readAllowance("# A comment.\n2 a.go\n1 b.go\n")
	if err != nil {
		t.Fatal(err)
	}
	now := map[string][]string{"a.go": {"x", "y", "z"}, "b.go": {"x"}, "new.go": {"x"}}
	if paths := risen(now, list); !slices.Equal(paths, []string{"a.go", "new.go"}) {
		t.Errorf("files with more findings than allowed: got %q, want a.go and new.go", paths)
	}
	if paths := risen(map[string][]string{"a.go": {"x"}}, list); paths != nil {
		t.Errorf("fewer findings than allowed are reported: %q", paths)
	}
	if _, err := readAllowance("many a.go\n"); err == nil {
		t.Error("a list without numbers is accepted")
	}
}
