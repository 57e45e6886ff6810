package main

// This file runs all vectors with the oracle and with the Go runtime.

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/check/vectors/ours"
	"lightmetal/tools/check/vectors/vector"
)

const folder = "../../../testdata/vectors"

// readVectors returns all vectors of the tree, by file.
func readVectors(t *testing.T) map[string][]*vector.Vector {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.vec"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no vectors", err)
	}
	files := map[string][]*vector.Vector{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)], err = vector.Parse(string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return files
}

// imageOf returns the file of a vector.
func imageOf(t *testing.T, v *vector.Vector) []byte {
	t.Helper()
	base, err := os.ReadFile(filepath.Join(folder, v.Image))
	if err != nil {
		t.Fatal(err)
	}
	file, err := v.File(base)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// player is a reader that has loaded an image.
type player interface {
	SetInput(tensor int, data []byte)
	Run(sequence int) vector.Result
	Tensor(tensor int) []byte
	Close()
}

// reader loads an image on a machine, or returns why it rejects the image.
type reader func(file []byte, machine oracle.Machine, limitUs uint64) (player, *oracle.Fault)

// loadWithOracle is the reader of package oracle.
func loadWithOracle(file []byte, machine oracle.Machine, limitUs uint64) (player, *oracle.Fault) {
	image, fault := oracle.Verify(file)
	if fault != nil {
		return nil, fault
	}
	p, fault := oracle.Load(image, machine, limitUs)
	return p, fault
}

// loadWithRuntime is the Go runtime.
func loadWithRuntime(t *testing.T) reader {
	return func(file []byte, machine oracle.Machine, limitUs uint64) (player, *oracle.Fault) {
		view, fault := ours.Verify(file)
		if fault != nil {
			return nil, fault
		}
		p, fault := ours.Load(view, machine, limitUs)
		if p != nil {
			t.Cleanup(p.Close)
		}
		return p, fault
	}
}

// check lets a reader do what a vector describes, and returns the first difference.
func check(v *vector.Vector, file []byte, machine *vector.Machine, load reader) error {
	p, fault := load(file, machine, v.LimitUs)
	switch {
	case v.Reject != nil && fault == nil:
		return fmt.Errorf("the image is accepted, %v expected", *v.Reject)
	case v.Reject != nil:
		if got := (vector.Verdict{Code: fault.Code, Place: fault.Place}); got != *v.Reject {
			return fmt.Errorf("rejected with %v, %v expected", got, *v.Reject)
		}
		return nil
	case fault != nil:
		return fmt.Errorf("rejected with %w", fault)
	}
	for s := machine.Next(); s != nil && machine.Err() == nil; s = machine.Next() {
		switch s.Kind {
		case vector.Input:
			p.SetInput(s.Index, s.Data)
		case vector.Run:
			result := p.Run(s.Index)
			machine.Ended(result.Steps(), p.Tensor)
		case vector.Unload:
			p.Close()
		default:
			return fmt.Errorf("unexpected step %v", s)
		}
	}
	return machine.Err()
}

// agreesWith reports whether a reader does what the text of one vector describes.
func agreesWith(t *testing.T, text string, load reader) bool {
	t.Helper()
	vectors, err := vector.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	machine := vector.NewMachine(vectors[0])
	return check(vectors[0], imageOf(t, vectors[0]), machine, load) == nil
}

// checkAll lets a reader do what all vectors describe.
func checkAll(t *testing.T, skipsFences bool, load func(t *testing.T) reader) {
	count := 0
	for file, vectors := range readVectors(t) {
		for _, v := range vectors {
			count++
			t.Run(file+"/"+v.Name, func(t *testing.T) {
				machine := vector.NewMachine(v)
				machine.SkipsFences = skipsFences
				if err := check(v, imageOf(t, v), machine, load(t)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if !t.Failed() {
		t.Logf("evidence: %d vectors agree (%s)", count, t.Name())
	}
}

func TestOracleAgreesWithVectors(t *testing.T) {
	checkAll(t, false, func(*testing.T) reader { return loadWithOracle })
}

func TestRuntimeAgreesWithVectors(t *testing.T) {
	checkAll(t, true, loadWithRuntime)
}
