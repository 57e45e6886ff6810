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
	var paths []string
	for _, name := range []string{"images/edu-factorial", "images/wh.twoop", "images/edu-dma",
		"vectors/wormhole-host", "vectors/fixed", "vectors/commands"} {
		paths = append(paths, filepath.Join(root, "testdata", name+".lmb"))
	}
	call := exec.Command(program, paths...)
	if out, err := call.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
