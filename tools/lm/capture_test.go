package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lightmetal/testdata/workloads"
	"lightmetal/tools/check/effort"
)

// workloadProgram is the directory of a program that captures workloads.
const workloadProgram = testdata + "/workloads/run"

// buildFolder is a directory for the executables of buildMain. TestMain creates and removes it.
var buildFolder string

// builtPrograms has the paths of executables by the directory of their main package.
var builtPrograms = map[string]string{}

// buildMain builds the main package of a directory, once for all tests, and returns the path of the
// executable. The tag of the build is for TestVersionNamesTheTags.
func buildMain(t *testing.T, folder string) string {
	t.Helper()
	if path, ok := builtPrograms[folder]; ok {
		return path
	}
	path := filepath.Join(buildFolder, fmt.Sprint(len(builtPrograms)))
	build := exec.Command("go", "build", "-buildvcs=false", "-tags", "tagged", "-o", path, ".")
	build.Dir = filepath.Join(repositoryRoot, "tools", "lm", folder)
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build in %s: %v\n%s", folder, err, text)
	}
	builtPrograms[folder] = path
	return path
}

// TestCaptureRunsAProgramOfAnotherModule puts the program of tools/metal/README.md and the source
// of a kernel into a module of its own.
//
// A workspace has both modules, so that the test uses what other tests have compiled.
func TestCaptureRunsAProgramOfAnotherModule(t *testing.T) {
	effort.SkipShort(t)
	readme, err := os.ReadFile("../metal/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```go\n")
	program, _, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatal("tools/metal/README.md has no Go program")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	module := strings.Replace(string(ours), "module lightmetal", "module mine", 1)
	version, _, _ := strings.Cut(string(ours[bytes.Index(ours, []byte("\ngo "))+1:]), "\n")
	folder := t.TempDir()
	t.Setenv("GOWORK", filepath.Join(folder, "go.work"))
	for name, text := range map[string]string{"main.go": program, "go.mod": module,
		"go.work":  version + "\nuse (\n\t.\n\t" + root + "\n)\n",
		"kernel.c": "int kernel;\n", "kernel.h": "\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(folder, "mine.lmb")
	mustRun(t, "", "capture", folder, "--device", "mock:wormhole", "-o", out)
	image, _ := decodeFile(out)
	if len(image.Tensors) != 1 || image.Tensors[0].Name != "x" || image.Origin.Source != "mine" {
		t.Errorf("the image has tensors %+v and source %q, want a tensor x and source mine",
			image.Tensors, image.Origin.Source)
	}
}

// TestImagesOfWorkloadsReplayInAFreshProcess shows that a replay needs nothing but the image:
// another program replays it, in an otherwise empty directory and without environment variables.
// Outside of nightly runs, it takes a few workloads; the tests of tools/metal replay all on both
// chips.
func TestImagesOfWorkloadsReplayInAFreshProcess(t *testing.T) {
	effort.SkipShort(t)
	few := []string{"buffer-interleaved", "reader-compute-writer", "trace-two-programs"}
	lm, program := buildMain(t, "."), buildMain(t, workloadProgram)
	if exit := runSilently(t, "capture", program, "--list"); exit != 0 {
		t.Errorf("lm capture --list exits %d, want 0", exit)
	}
	for i, w := range workloads.All {
		if effort.Cases(0, len(few), 0) > 0 && !slices.Contains(few, w.Name) {
			continue
		}
		chip := []string{"wormhole", "blackhole"}[i%2]
		folder := t.TempDir()
		image := filepath.Join(folder, "image.lmb")
		if exit := runSilently(t, "capture", program, w.Name, "--device", "mock:"+chip, "-o",
			image); exit != 0 {
			t.Errorf("lm capture %s on %s exits %d, want 0", w.Name, chip, exit)
			continue
		}
		device := "mock:" + chip
		replay := exec.Command(lm, "replay", "--device", device, "--check-golden", "image.lmb")
		replay.Dir, replay.Env = folder, []string{}
		if text, err := replay.CombinedOutput(); err != nil {
			t.Errorf("replay of %s on %s: %v\n%s", w.Name, chip, err, text)
		}
	}
}
