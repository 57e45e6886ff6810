package listing

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"lightmetal/tools/image/lmb"
)

// What parses prints and parses back equal; nothing panics.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob(listings + "*.lms")
	if err != nil || len(paths) == 0 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(source)
	}
	f.Add([]byte(context +
		"main:\n  copy.4 regs+0x0 <- file \"bytes.bin\" from 4 size 8\n" +
		"  compare.4 regs+0x0 float32 == hex 00112233 absolute 0x7fc00000\n"))
	f.Fuzz(func(t *testing.T, source []byte) {
		image, err := Parse("fuzz", source, testFiles)
		if err != nil || payloadBytes(image) > 1<<20 {
			return // a pattern of many MiB says no more than a short one
		}
		if again := mustParse(t, mustPrint(t, image)); !reflect.DeepEqual(image, again) {
			t.Errorf("%+v is not %+v", again, image)
		}
	})
}

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
