package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/tools/check/effort"
)

// buildWorlds builds the program of simulated worlds. It returns the root of the tree and the path
// of the program.
func buildWorlds(t *testing.T) (root, program string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	file, err := writeOverlay(root, folder, nil, true)
	if err == nil {
		program, err = buildSimulator(root, folder, file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return root, program
}

func TestSimulatedWorldsAreRight(t *testing.T) {
	effort.SkipShort(t)
	root, program := buildWorlds(t)
	seeds := effort.Cases(0, 1000, 8000)
	firstLine, failed := runSeeds(root, program, "", seeds)
	if failed {
		t.Fatal(firstLine)
	}
	t.Logf("evidence: %d simulated worlds with nothing wrong (%s)", seeds, firstLine)
}

// seedsPerDefect is the maximal number of seeds: the run ends at the first that detects the defect.
const seedsPerDefect = 9000

func TestSimulatedWorldsDetectPastDefects(t *testing.T) {
	effort.SkipUnlessNightly(t)
	root, program := buildWorlds(t)
	for _, p := range pastDefects {
		if firstLine, detected := runSeeds(root, program, p.name, seedsPerDefect); !detected {
			t.Errorf("past defect not detected: %s (%s): %s", p.name, p.commit, firstLine)
		}
	}
	t.Logf("evidence: %d past defects detected by simulated worlds (each by the reverse of its "+
		"fix)", len(pastDefects))
}

func TestSeedRepeatsEachAccess(t *testing.T) {
	effort.SkipShort(t)
	root, program := buildWorlds(t)
	run := func() string {
		c := exec.Command(program, "-from", "500", "-seeds", "60", "-verbose")
		c.Dir = root
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v\n%.2000s", err, out)
		}
		text, _, _ := strings.Cut(string(out), "\nseeds ")
		return text
	}
	if first, second := run(), run(); first != second || strings.Count(first, "\n") != 59 {
		t.Errorf("two runs of the same 60 seeds differ, or do not have 60 lines:\n%s\n%s", first,
			second)
	}
}

// TestVetAcceptsWorlds runs go vet on the sources in the overlay, because `go vet ./...` does not
// see them.
func TestVetAcceptsWorlds(t *testing.T) {
	effort.SkipShort(t)
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	file, err := writeOverlay(root, t.TempDir(), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "vet", "-unsafeptr=false", "-overlay", file, "-tags", "world",
		"./tools/lmrun")
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}
