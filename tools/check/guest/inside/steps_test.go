package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/tools/check/guest/scenario"
)

// TestScenariosConsistOfKnownSteps checks that each step has at least the required arguments.
func TestScenariosConsistOfKnownSteps(t *testing.T) {
	paths, _ := filepath.Glob("../scenarios/*.txt")
	count := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := scenario.Parse(filepath.Base(path), string(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range f.Scenarios {
			for _, line := range s.Steps {
				if line.Words[0] == "host" {
					continue
				}
				known, ok := steps[line.Words[0]]
				if !ok {
					t.Errorf("%s: unknown step %s", line.Place, line.Words[0])
				}
				if n := known.requiredCount(); len(line.Words)-1 < n {
					t.Errorf("%s: %s: want at least %d arguments: %s", line.Place, line.Words[0], n,
						known.arguments)
				}
				count++
			}
		}
	}
	if count < 100 {
		t.Errorf("only %d steps in %d files, want at least 100", count, len(paths))
	}
}

func TestStepThatFailsNamesWhatItGotAndWanted(t *testing.T) {
	got := checkEnd("71|75", "device gone", "lmrun: bus fault", 76)
	const want = "got exit status 76, want 71|75 with \"device gone\"; it said:\nlmrun: bus fault"
	if got == nil || got.Error() != want {
		t.Errorf("got %v, want %s", got, want)
	}
	for text, want := range map[string]string{
		"frobnicate": "unknown step", "same /a": "want at least 2 arguments: FILE FILE",
	} {
		if err := newGuest("pci").runStep(strings.Fields(text)); err == nil ||
			err.Error() != want {
			t.Errorf("step %s: error %v, want %s", text, err, want)
		}
	}
}
