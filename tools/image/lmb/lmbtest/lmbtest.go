// Package lmbtest has helpers for tests of many packages: images made from listings, and the
// programs in testdata/kernels.
package lmbtest

import (
	"debug/elf"
	"io"
	"testing"

	"lightmetal/fbs"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// Encode returns the file of an image. It ends the test if the image is invalid.
func Encode(t testing.TB, image *lmb.Image) []byte {
	t.Helper()
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// File returns the file of a listing, which may not name files.
func File(t testing.TB, source string) []byte {
	t.Helper()
	image, err := listing.Parse("test.lms", []byte(source), nil)
	if err != nil {
		t.Fatal(err)
	}
	return Encode(t, image)
}

// View verifies a file and returns its view.
func View(t testing.TB, file []byte) *fbs.View {
	t.Helper()
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// Kernel returns the segment that an ELF file loads at address 0, including its zero-initialized
// end.
func Kernel(t testing.TB, path string) []byte {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Vaddr != 0 {
			continue
		}
		program, err := io.ReadAll(p.Open())
		if err != nil {
			t.Fatal(err)
		}
		return append(program, make([]byte, p.Memsz-p.Filesz)...)
	}
	t.Fatalf("%s has no segment to load at address 0", path)
	return nil
}
