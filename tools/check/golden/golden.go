// Package golden compares what tests make with files of testdata. With the flag -update, a test
// writes its files instead.
package golden

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/rogpeppe/go-internal/txtar"
)

// Update is the flag -update.
var Update = flag.Bool("update", false, "write the golden files again")

// File compares a text with the contents of a file.
func File(t *testing.T, path, got string) {
	t.Helper()
	if *Update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test -update writes it again:\n%s", path,
			diff.Diff("want", want, "got", []byte(got)))
	}
}

// Table calls run with the name and the data of each file of a txtar archive, in order. run returns
// what the data must be: a test's output, or the data themselves if they are an input.
func Table(t *testing.T, path string, run func(name, data string) string) {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	line := 1 + strings.Count(string(archive.Comment), "\n")
	for i, file := range archive.Files {
		got := run(file.Name, string(file.Data))
		if got != "" && !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		if got != string(file.Data) && !*Update {
			t.Errorf("%s:%d: %s: got\n%swant\n%s(go test -update writes the file again)", path,
				line, file.Name, got, file.Data)
		}
		line += 1 + strings.Count(string(file.Data), "\n")
		archive.Files[i].Data = []byte(got)
	}
	if *Update {
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
