package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestModuleOfTheRuntimePageIsBuiltAndRun writes the files of the module in runtime/README.md to a
// folder outside of the tree, and runs the module.
func TestModuleOfTheRuntimePageIsBuiltAndRun(t *testing.T) {
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(tree, "runtime", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, mark := range map[string]string{"go.mod": "```gomod\n", "main.go": "```go\n"} {
		_, rest, ok := strings.Cut(string(page), mark)
		text, _, closed := strings.Cut(rest, "```\n")
		if !ok || !closed {
			t.Fatalf("runtime/README.md has no text of %s", name)
		}
		text = strings.ReplaceAll(text, "/path/to/lightmetal", tree)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sums, err := os.ReadFile(filepath.Join(tree, "go.sum"))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "go.sum"), sums, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "run", "-mod=mod", ".",
		filepath.Join(tree, "testdata", "images", "edu.lmb"))
	c.Dir, c.Env = folder, append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off", "GOPROXY=off")
	out, err := c.CombinedOutput()
	if err != nil || string(out) != "done\n" {
		t.Errorf("go run: error %v, output %q, want \"done\\n\"", err, out)
	}
}
