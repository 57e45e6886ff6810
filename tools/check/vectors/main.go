// Command vectors writes the test vectors in testdata/vectors, or checks that the tree has the
// vectors that it would write:
//
//	go run ./tools/check/vectors [--check] [DIRECTORY]
//
// The images come from the listings in that directory. The definitions of the vectors are in
// runs.go and rejects.go. What a reader must do with each vector is computed by package oracle, a
// reader of its own, and not by the runtime.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/tools/check/coverage/corpus"
	"lightmetal/tools/check/vectors/vector"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
	lmfiles "lightmetal/tools/lmrun/files"
)

func main() {
	arguments := os.Args[1:]
	isCheck := len(arguments) > 0 && arguments[0] == "--check"
	if isCheck {
		arguments = arguments[1:]
	}
	directory := filepath.Join("testdata", "vectors")
	if len(arguments) == 1 {
		directory = arguments[0]
	} else if len(arguments) > 1 {
		fmt.Fprintln(os.Stderr, "usage: vectors [--check] [DIRECTORY]")
		os.Exit(64)
	}
	err := update(directory, isCheck)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vectors:", err)
		os.Exit(1)
	}
}

// update writes the generated files of a directory. If isCheck is set, it only compares them.
func update(directory string, isCheck bool) error {
	files, err := generate(directory)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(directory, name)
		if !isCheck {
			errs = append(errs, lmfiles.Write(path, files[name], 0o644, lmfiles.OpenToReplace))
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			errs = append(errs, err)
		} else if !bytes.Equal(got, files[name]) {
			errs = append(errs, fmt.Errorf("%s is not what its listing or definition makes; run "+
				"`go run ./tools/check/vectors`", path))
		}
	}
	for _, pattern := range []string{"*.lmb", "*.vec"} {
		paths, _ := filepath.Glob(filepath.Join(directory, pattern))
		for _, path := range paths {
			if files[filepath.Base(path)] == nil {
				errs = append(errs, fmt.Errorf("%s has no listing or definition; remove it", path))
			}
		}
	}
	return errors.Join(errs...)
}

// group is the vectors of one file.
type group struct {
	file, about string
	definitions []definition
}

// groups has all vectors, in the order of the index.
func groups(bad []string) []group {
	return []group{
		{"commands.vec", "Every command, in every width and mode.", commands},
		{"polls.vec", "Polls, delays and limits of time.", polls},
		{"failures.vec", "Commands that fail, devices that go away, and the sequence safe.",
			failures},
		{"addresses.vec", "Bus addresses, movable windows, and rules of known boards.", addresses},
		{"rejected.vec", "Images that a reader rejects: one field of a good image is changed.",
			rejected},
		{"edges.vec", "Images that a reader accepts, at the limits of what it accepts.", accepted},
		{"scratch.vec", "Values that a run loads and stores again.", scratch},
		{"rings.vec", "Positions that move from run to run.", rings},
		{"bad.vec", "All images in testdata/bad.", badDefinitions(bad)},
	}
}

// generate returns the generated files of a directory by name.
func generate(directory string) (map[string][]byte, error) {
	files, images := map[string][]byte{}, map[string][]byte{}
	listings, err := filepath.Glob(filepath.Join(directory, "*.lms"))
	if err != nil {
		return nil, err
	}
	for _, path := range listings {
		image, err := assemble(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		name := imageName(path)
		files[name], images[name] = image, image
	}
	bad, err := readBad(directory, images)
	if err != nil {
		return nil, err
	}
	sentences, err := readFormat(filepath.Join(directory, "..", "..", "fbs", "FORMAT.md"))
	if err != nil {
		return nil, err
	}
	var all []*vector.Vector
	texts := map[string][]*vector.Vector{}
	names := map[string]bool{}
	var errs []error
	list := groups(bad)
	for _, group := range list {
		for _, d := range group.definitions {
			d.format = slices.Concat(d.format, alsoShown[d.name])
			v, err := d.build(images)
			if err != nil {
				errs = append(errs, fmt.Errorf("vector %s: %w", d.name, err))
				continue
			}
			if names[d.name] {
				errs = append(errs, fmt.Errorf("two vectors have the name %s", d.name))
			}
			names[d.name] = true
			all = append(all, v)
			texts[group.file] = append(texts[group.file], v)
		}
	}
	shown, err := resolve(sentences, all)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	for _, group := range list {
		text := "# " + group.about +
			"\n# tools/check/vectors writes this file. README.md describes it.\n"
		for _, v := range texts[group.file] {
			text += "\n" + v.String()
		}
		files[group.file] = []byte(text)
	}
	files["index.txt"] = []byte(newIndex(sentences, shown))
	files["reasons.txt"] = []byte(newReasons(all, images))
	return files, nil
}

// newReasons returns the text of reasons.txt: why package fbs rejects images of vectors.
func newReasons(vectors []*vector.Vector, images map[string][]byte) string {
	text := "# For each vector whose image package fbs rejects: its name, place and reason.\n" +
		"# tools/check/vectors writes this file.\n"
	for _, v := range vectors {
		file, err := v.File(images[v.Image])
		if err == nil {
			_, err = fbs.Verify(file)
		}
		if err != nil {
			text += v.Name + ": " + err.Error() + "\n"
		}
	}
	return text
}

// assemble returns the image of a listing.
func assemble(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	image, err := listing.Parse(filepath.Base(path), text, nil)
	if err != nil {
		return nil, err
	}
	image.Origin = lmb.Origin{}
	file, err := lmb.Encode(image)
	if err == nil && filepath.Base(path) == "segments.lms" {
		file = corpus.Cut(file, []int{1, 1, 1})
	}
	return file, err
}

// readBad adds the images of testdata/bad, and returns their paths relative to the directory.
func readBad(directory string, images map[string][]byte) (names []string, err error) {
	folder := filepath.Join(directory, "..", "bad")
	entries, err := fs.ReadDir(os.DirFS(folder), ".")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".lmb") {
			continue
		}
		name := "../bad/" + entry.Name()
		names = append(names, name)
		if images[name], err = os.ReadFile(filepath.Join(folder, entry.Name())); err != nil {
			return nil, err
		}
	}
	return names, nil
}
