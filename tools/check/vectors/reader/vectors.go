package reader

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/check/vectors/vector"
)

// Vectors returns all vectors in a folder, by file.
func Vectors(t testing.TB, folder string) map[string][]*vector.Vector {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.vec"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s has no vectors, or error %v", folder, err)
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

// ImageOf returns the image of a vector, with the vector's changes.
func ImageOf(t testing.TB, folder string, v *vector.Vector) []byte {
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

// verifyAndLoad verifies and loads an image, or returns why the reader rejects it.
func verifyAndLoad(r Reader, file []byte, machine oracle.Machine, limitUs uint64) (Player,
	*oracle.Fault) {
	if fault := r.Verify(file, limitUs); fault != nil {
		return nil, fault
	}
	return r.Load(machine, limitUs)
}

// Check makes a reader execute the steps of a vector, and returns the first difference.
func Check(v *vector.Vector, file []byte, machine *vector.Machine, r Reader) error {
	p, fault := verifyAndLoad(r, file, machine, v.LimitUs)
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
	isClosed := false
	defer func() {
		if !isClosed {
			p.Close()
		}
	}()
	for s := machine.Next(); s != nil && machine.Err() == nil; s = machine.Next() {
		switch s.Kind {
		case vector.Input:
			p.SetInput(s.Index, s.Data)
		case vector.Run:
			result := p.Run(s.Index)
			machine.Ended(result.Steps(), p.Tensor)
		case vector.Unload:
			p.Close()
			isClosed = true
		default:
			return fmt.Errorf("unexpected step %v", s)
		}
	}
	return machine.Err()
}

// CheckAll checks a reader with all vectors in a folder. A reader that skips fences does not report
// them to the machine.
func CheckAll(t *testing.T, folder string, skipsFences bool, r Reader) {
	count := 0
	for file, vectors := range Vectors(t, folder) {
		for _, v := range vectors {
			count++
			t.Run(file+"/"+v.Name, func(t *testing.T) {
				machine := vector.NewMachine(v)
				machine.SkipsFences = skipsFences
				if err := Check(v, ImageOf(t, folder, v), machine, r); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if !t.Failed() {
		t.Logf("evidence: %d vectors agree (%s)", count, t.Name())
	}
}
