package lmb_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"lightmetal/fbs"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

// FuzzDecode gives any bytes, with valid checksums, to the functions with which host tools read a
// file. They must return an error, or an image that encodes to the same bytes each time and is not
// much larger than the file.
func FuzzDecode(f *testing.F) {
	for _, folder := range []string{"images", "bad"} {
		paths, err := filepath.Glob("../../../testdata/" + folder + "/*.lmb")
		if err != nil || len(paths) == 0 {
			f.Fatalf("no images in testdata/%s: %v", folder, err)
		}
		for _, path := range paths {
			file, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			if len(file) < 1<<16 {
				f.Add(file)
			}
		}
	}
	for _, file := range lmbtest.Hostile(f, 20, 1<<10) {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = append(make([]byte, 0, len(data)+8), data...)
		if len(data) >= 72 {
			lmb.Stamp(data, min(max(72, binary.LittleEndian.Uint64(data[32:])), uint64(len(data))))
		}
		view, err := fbs.Verify(data)
		if err != nil {
			return
		}
		lmb.Header(view)
		image, err := lmb.FromView(view)
		if err != nil {
			return
		}
		first, err := lmb.Encode(image)
		if err != nil {
			return // a valid file whose image cannot be encoded
		}
		if least := len(data) +
			64*(len(view.Commands)+len(view.Tensors)); len(first) > 2*least+1<<14 {
			t.Errorf("a file of %d bytes is encoded again as %d bytes", len(data), len(first))
		}
		if image, err = lmb.Decode(first); err != nil {
			t.Fatalf("Decode does not accept what Encode returns: %v", err)
		}
		if second, err := lmb.Encode(image); err != nil || !bytes.Equal(first, second) {
			t.Errorf("the second Encode returns another file (%v)", err)
		}
	})
}
