package lmb_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

func format2Files(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../../../testdata/format2/*.lmb")
	if err != nil || len(paths) != 4 {
		t.Fatalf("testdata/format2 has %d images: %v", len(paths), err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		if files[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// The listings were printed by programs that read format 2 only.
func TestFormat2IsReadAsItsOwnProgramsReadIt(t *testing.T) {
	for path, file := range format2Files(t) {
		image, renames, err := lmb.DecodeFormat2(file)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		want, err := os.ReadFile(strings.TrimSuffix(path, ".lmb") + ".lms")
		if err != nil {
			t.Fatal(err)
		}
		text := string(want)
		if strings.HasSuffix(path, "/names.lmb") {
			text = strings.ReplaceAll(text, `"frame 1"`, "frame_1_")
			if !slices.Equal(renames, []lmb.Rename{{"sequence 0", "frame 1", "frame_1_"}}) {
				t.Errorf("renames of %s: %v", path, renames)
			}
		} else if len(renames) > 0 {
			t.Errorf("renames of %s: %v", path, renames)
		}
		written, err := lmb.Encode(image)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		again, err := lmb.Decode(written)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, image := range []*lmb.Image{image, again} {
			var got strings.Builder
			if err := listing.Print(&got, image); err != nil || got.String() != text {
				t.Errorf("%s: %v, read as\n%s\nwant\n%s", path, err, &got, text)
			}
		}
	}
}

// stampFormat2 makes the checksum of an envelope right after a mutation.
func stampFormat2(data []byte) {
	if len(data) < fbs.PreambleSize {
		return
	}
	size := binary.LittleEndian.Uint64(data[32:])
	binary.LittleEndian.PutUint64(data[24:], uint64(len(data)))
	if size >= fbs.PreambleSize && size <= uint64(len(data)) {
		binary.LittleEndian.PutUint32(data[12:], fbs.EnvelopeChecksum(data[:size]))
	}
}

// checkFormat2 requires an error, or an image that is the same after it was written.
func checkFormat2(t *testing.T, data []byte) (accepted bool) {
	t.Helper()
	before := bytes.Clone(data)
	image, _, err := lmb.DecodeFormat2(data)
	if !bytes.Equal(before, data) {
		t.Fatal("DecodeFormat2 changed the file")
	}
	if err != nil {
		if _, ok := err.(*fbs.Error); !ok || err.Error() == "" {
			t.Fatalf("error %v is not an *fbs.Error", err)
		}
		return false
	}
	file, err := lmb.Encode(image)
	if err != nil {
		return false // for example two sequences with one name
	}
	again, err := lmb.Decode(file)
	if err != nil {
		t.Fatalf("Decode rejects what Encode returns: %v", err)
	}
	var a, b strings.Builder
	if errA, errB := listing.Print(&a, image), listing.Print(&b, again); (errA == nil) !=
		(errB == nil) || a.String() != b.String() {
		t.Fatalf("%v, %v: the image differs after it was written\n%s\n%s", errA, errB, &a, &b)
	}
	return true
}

func TestDamagedFormat2IsRejectedOrRead(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 3))
	accepted, tries := 0, 3000
	if testing.Short() {
		tries = 300
	}
	for path, file := range format2Files(t) {
		for size := range min(len(file), 200) {
			if _, _, err := lmb.DecodeFormat2(file[:size]); err == nil {
				t.Errorf("%s: the first %d bytes are accepted", path, size)
			}
		}
		for range tries {
			data := bytes.Clone(file)
			for range 1 + random.IntN(3) {
				data[random.IntN(min(len(data), 2048))] = byte(random.Uint32())
			}
			stampFormat2(data)
			if checkFormat2(t, data) {
				accepted++
			}
		}
	}
	if accepted < tries/10 {
		t.Errorf("only %d mutated images are accepted", accepted)
	}
}

func TestWhatOnlyFormat3HasIsRejectedInFormat2(t *testing.T) {
	file := format2Files(t)["../../../testdata/format2/edu-factorial.lmb"]
	device := bytes.Index(file, []byte{0x34, 0x12, 0xe8, 0x11, 0, 0, 0, 0}) // ids, subsystem
	tensor := bytes.Index(file, []byte{1, 1, 6, 1})                         // role, data, type
	if device < 0 || tensor < 0 {
		t.Fatal("the image has other devices or tensors")
	}
	for name, change := range map[string]func([]byte){
		"device 0: reserved bytes are not zero": func(d []byte) { d[device+8] = 1 },
		"tensor 0: unknown role 3":              func(d []byte) { d[tensor] = 3 },
		"the schema hash":                       func(d []byte) { d[16]++ },
		"the image has format 3.0":              func(d []byte) { d[8] = 3 },
		"the image has format 2.1":              func(d []byte) { d[10] = 1 },
		"but its preamble says":                 func(d []byte) { d[24]++ },
		"invalid envelope size":                 func(d []byte) { d[35] = 1 },
		"not a Light Metal image":               func(d []byte) { d[4] = 'l' },
		"the checksum of the envelope is wrong": func(d []byte) { d[12]++ },
	} {
		data := bytes.Clone(file)
		change(data)
		if data[12] == file[12] && data[24] == file[24] {
			stampFormat2(data)
		}
		if _, _, err := lmb.DecodeFormat2(data); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCapturesAreRejectedInFormat2(t *testing.T) {
	image, _, err := lmb.DecodeFormat2(format2Files(t)["../../../testdata/format2/edu.lmb"])
	if err != nil {
		t.Fatal(err)
	}
	image.Captures = []lmb.Capture{{Name: "x"}}
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	file[8] = 2
	binary.LittleEndian.PutUint64(file[16:], 0x660bbb4db104bbf4)
	stampFormat2(file)
	const want = "notes: has 9 fields, but this program knows 8"
	if _, _, err := lmb.DecodeFormat2(file); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// The text of the image is that of its notes, which new names would change.
func TestTextOverOtherPartsIsRejectedInFormat2(t *testing.T) {
	file := bytes.Clone(format2Files(t)["../../../testdata/format2/names.lmb"])
	little := binary.LittleEndian
	table := little.Uint32(file)
	vtable := table - little.Uint32(file[table:])
	const text = 7 // field of table Image
	field := table + uint32(little.Uint16(file[vtable+4+2*text:]))
	notes := bytes.Index(file, []byte("regsfirst part")) - 4
	if notes < 0 {
		t.Fatal("the notes have another text")
	}
	little.PutUint32(file[field:], uint32(notes)-field)
	little.PutUint32(file[notes:], 40)
	stampFormat2(file)
	const want = "text: overlaps other parts of the image"
	if _, _, err := lmb.DecodeFormat2(file); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// FuzzDecodeFormat2 decodes any bytes, with valid checksums.
func FuzzDecodeFormat2(f *testing.F) {
	for _, file := range format2Files(f) {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		stampFormat2(data)
		checkFormat2(t, data)
	})
}
