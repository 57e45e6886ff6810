package cplayer

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// calls.c has the expectations: wrong arguments, loads that fail, faults, stops, inputs, and
// accesses of mapped memory.
func TestEveryFunctionIsCalledRightAndWrong(t *testing.T) {
	program := buildProgram(t, "calls")
	images := filepath.Join(root, "testdata", "images")
	call := exec.Command(program, filepath.Join(images, "edu-factorial.lmb"),
		filepath.Join(images, "wh.twoop.lmb"))
	if out, err := call.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
