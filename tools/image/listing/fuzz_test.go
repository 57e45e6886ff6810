package listing

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"lightmetal/tools/image/lmb"
)

// FuzzParse checks that Parse does not panic, and that each image that it returns prints and parses
// to the same image.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob(listings + "*.lms")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no listings in %s: %v", listings, err)
	}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(source)
	}
	f.Add([]byte(header +
		"main:\n  copy.4 regs+0x0 <- file \"bytes.bin\" from 4 size 8\n" +
		"  compare.4 regs+0x0 float32 == hex 00112233 absolute 0x7fc00000\n"))
	f.Fuzz(func(t *testing.T, source []byte) {
		image, err := Parse("fuzz", source, readTestFile)
		if err != nil || payloadBytes(image) > 1<<20 {
			return // a pattern of many MiB tests no more than a short one
		}
		if again := mustParse(t, mustPrint(t, image)); !reflect.DeepEqual(image, again) {
			t.Errorf("after Print and Parse the image is %+v, want %+v", again, image)
		}
	})
}

// payloadBytes returns the number of bytes of all data of an image.
func payloadBytes(image *lmb.Image) (n int) {
	for i := range image.Tensors {
		n += len(image.Tensors[i].Data)
	}
	for i := range image.Sequences {
		for j := range image.Sequences[i].Commands {
			n += len(image.Sequences[i].Commands[j].Data)
		}
	}
	return n
}
