package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// worlds is the program of simulated worlds, and the tree it is of.
func worlds(t *testing.T) (root, program string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	file, err := overlay(root, folder, nil)
	if err == nil {
		program, err = build(root, folder, file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return root, program
}

// seeds are those that are played where nothing is broken, and most where something
// is: it ends at the first that notices.
const seeds, seedsMost = 2000, 6000

func TestNothingIsWrongInSimulatedWorldsAndEachPastDefectWouldBe(t *testing.T) {
	root, program := worlds(t)
	how, wrong := inWorlds(root, program, "", seeds)
	if wrong {
		t.Fatal(how)
	}
	for _, p := range past {
		if how, ok := inWorlds(root, program, p.Name, seedsMost); !ok {
			t.Errorf("nobody notices that %s (%s): %s", p.Name, p.Commit, how)
		}
	}
	t.Logf("evidence: %d simulated worlds with nothing wrong (%s)", seeds, how)
	t.Logf("evidence: %d past defects noticed by simulated worlds (each by the reverse of its "+
		"mend)", len(past))
}

func TestASeedGivesTheSameRunToTheLastAccess(t *testing.T) {
	root, program := worlds(t)
	run := func() string {
		c := exec.Command(program, "-from", "500", "-seeds", "60", "-talk")
		c.Dir = root
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v\n%.2000s", err, out)
		}
		text, _, _ := strings.Cut(string(out), "\nseeds ")
		return text
	}
	if first, second := run(), run(); first != second || strings.Count(first, "\n") != 59 {
		t.Errorf("two runs of the same seeds:\n%s\n%s", first, second)
	}
}

// TestWorldsAreVetted: what is built with another tree's files beside it, go vet
// ./... does not see.
func TestWorldsAreVetted(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	file, err := overlay(root, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "vet", "-unsafeptr=false", "-overlay", file, "-tags", "world",
		"./tools/lmrun")
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
