package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/look/report"
)

// TestFailureTextMatchesTheListing: the text that describes a failed command is the beginning of
// its line in a listing, with the same number, but without the part of a tensor.
func TestFailureTextMatchesTheListing(t *testing.T) {
	tried := map[gen.Opcode]bool{}
	list, err := filepath.Glob(filepath.Join(testdata, "images", "*.lmb"))
	if err != nil {
		t.Fatal(err)
	}
	all := filepath.Join(t.TempDir(), "all.lmb")
	mustRun(t, "", "asm", filepath.Join(testdata, "listings", "all-opcodes.lms"), "-o", all)
	tensorPart := regexp.MustCompile(`^(copy\.\d) .+ <- `)
	tolerant := regexp.MustCompile(`^compare\.(\d) `)
	for _, path := range append(list, all) {
		view, err := fbs.Verify(mustRead(t, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range view.Sequences {
			for i := s.First; i < s.First+s.Count; i++ {
				r := &runtime.Result{Code: hal.FrameLate, Command: int32(i)}
				line := report.CommandText(view, int(i))
				if view.Commands[i].Opcode == gen.OpcodeCopyOut {
					line = tensorPart.ReplaceAllString(line, "$1 <- ")
					// The target only copies the data; the host compares them with the tolerance.
					line = tolerant.ReplaceAllString(line, "copy.$1 <- ")
				}
				prefix := fmt.Sprintf("%s, command %d: ", view.Name(s.Name), i-s.First)
				got, _ := strings.CutPrefix(failureText(view, r), prefix)
				got, _, _ = strings.Cut(got, " (offset moved by ring ") // not in the listing
				if !strings.HasPrefix(line+" ", got+" ") {
					t.Errorf("%s: %s%q is not the beginning of %q", path, prefix, got, line)
				}
				tried[view.Commands[i].Opcode] = true
			}
		}
	}
	if len(tried) != int(gen.OpcodeWith) {
		t.Errorf("the images have only %d of %d opcodes", len(tried), gen.OpcodeWith)
	}
}
