package main

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"lightmetal/fbs/gen"
	"lightmetal/tools/check/guest/scenario"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

// builtImages are the images of scenarios, each of which is built once, by name.
var builtImages struct {
	sync.Mutex
	files map[string][]byte
}

// imageName matches the images and texts that a word of a step names.
var imageName = regexp.MustCompile(`/(?:images/([\w./*-]+)\.lmb|texts/([\w.-]+))`)

// addNamedImages adds the images that words name, as /images/NAME.lmb, and the data of their
// outputs as /golden/NAME/OUTPUT.
func (m *machine) addNamedImages(t *testing.T, words []string) {
	t.Helper()
	for _, match := range imageName.FindAllStringSubmatch(strings.Join(words, " "), -1) {
		for _, image := range allScenarios(t).Images {
			if image.IsText && image.Name == match[2] {
				m.files[match[0]] = buildImage(t, image.Name)
			} else if ok, _ := path.Match(match[1], image.Name); ok {
				m.addImage(t, image.Name, buildImage(t, image.Name))
			}
		}
	}
}

// addImage adds an image and the data of its outputs.
func (m *machine) addImage(t *testing.T, name string, file []byte) {
	t.Helper()
	m.files["/images/"+name+".lmb"] = file
	image, err := lmb.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range image.Tensors {
		if o := &image.Tensors[i]; o.Role == gen.RoleOutput && o.Data != nil {
			m.files["/golden/"+name+"/"+o.Name] = o.Data
		}
	}
}

// buildImage returns the file of an image in the scenarios.
func buildImage(t *testing.T, name string) []byte {
	t.Helper()
	return buildOnce(name, func() []byte { return encodeImage(t, name) })
}

func buildOnce(name string, build func() []byte) []byte {
	builtImages.Lock()
	defer builtImages.Unlock()
	if builtImages.files == nil {
		builtImages.files = map[string][]byte{}
	}
	if builtImages.files[name] == nil {
		builtImages.files[name] = build()
	}
	return builtImages.files[name]
}

// encodeImage makes an image. Its source is one of these:
//
//	(none)                   the lines below, without the first line `lightmetal 1`
//	of LISTING [OLD NEW]...  another image of a scenario or a listing of testdata, with OLD
//	                         replaced by NEW, and the lines below
//	from ARGUMENT...         what `lm ARGUMENT... -o FILE` writes
func encodeImage(t *testing.T, name string) []byte {
	t.Helper()
	image := findImage(t, name)
	if image.IsText {
		return []byte(image.Text)
	}
	if len(image.Source) > 0 && image.Source[0] == "from" {
		h := hostFiles{t: t, dir: t.TempDir()}
		args := h.expand(image.Source[1:])
		path, _ := makeImage(t, args...)
		return readFile(t, path)
	}
	return lmbtest.File(t, expandData(t, repeatLines(listingOf(t, image))))
}

func findImage(t *testing.T, name string) *scenario.Image {
	t.Helper()
	images := allScenarios(t).Images
	for i := range images {
		if images[i].Name == name {
			return &images[i]
		}
	}
	t.Fatalf("no image %s in the scenarios", name)
	return nil
}

// listingOf returns the text of the listing of an image.
func listingOf(t *testing.T, image *scenario.Image) string {
	t.Helper()
	if len(image.Source) == 0 {
		return "lightmetal 1\n" + strings.Replace(image.Text, "EVERY COMMAND\n", everyCommand(), 1)
	}
	source := image.Source
	if source[0] != "of" || len(source)%2 != 0 {
		t.Fatalf("%s: want of LISTING [OLD NEW]..., or from ARGUMENT...", image.Place)
	}
	var text string
	if file := filepath.Join(repository, "testdata/listings", source[1]+".lms"); fileExists(file) {
		text = string(readFile(t, file))
	} else {
		text = listingOf(t, findImage(t, source[1]))
	}
	for i := 2; i < len(source); i += 2 {
		if !strings.Contains(text, source[i]) {
			t.Fatalf("%s: %s has no %q", image.Place, source[1], source[i])
		}
		text = strings.ReplaceAll(text, source[i], source[i+1])
	}
	return text + image.Text
}

// repeatedLine matches `COUNT times: LINE` in a listing.
var repeatedLine = regexp.MustCompile(`(?m)^ *(\d+) times: (.*\n)`)

func repeatLines(text string) string {
	return repeatedLine.ReplaceAllStringFunc(text, func(line string) string {
		match := repeatedLine.FindStringSubmatch(line)
		count, _ := strconv.Atoi(match[1]) // digits
		return strings.Repeat(match[2], count)
	})
}

// expandData replaces KERNEL(NAME) in a listing by the digits of the code of a kernel in testdata,
// and SUM(SEED,SIZE,NUMBER) by those of a pattern of 4-byte numbers, to each of which NUMBER is
// added.
func expandData(t *testing.T, text string) string {
	t.Helper()
	return dataPattern.ReplaceAllStringFunc(text, func(word string) string {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(word, ")"), "(")
		if kind == "KERNEL" {
			file, err := elf.Open(repository + "/testdata/kernels/" + rest + ".elf")
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			code, _ := file.Section(".text").Data()
			return hex.EncodeToString(code)
		}
		args := strings.Split(rest, ",")
		data, err := patternOf(args[:2])
		add, addErr := strconv.ParseUint(args[2], 0, 32)
		if err := errors.Join(err, addErr); err != nil {
			t.Fatal(err)
		}
		var sum []byte
		for i := 0; i < len(data); i += 4 {
			sum = binary.LittleEndian.AppendUint32(sum,
				binary.LittleEndian.Uint32(data[i:])+uint32(add))
		}
		return hex.EncodeToString(sum)
	})
}

var dataPattern = regexp.MustCompile(`(KERNEL|SUM)\([^)]*\)`)

// repository is the root of the repository.
const repository = "../../.."

// hostFiles expands the words of steps on the host.
type hostFiles struct {
	t          *testing.T
	dir        string // directory for the files of the scenario or machine
	machineDir string
}

func (h hostFiles) write(name string, data []byte) {
	h.t.Helper()
	file := filepath.Join(h.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
		os.WriteFile(file, data, 0o644)); err != nil {
		h.t.Fatal(err)
	}
}

// hostVariable matches a variable, also one of the environment.
var hostVariable = regexp.MustCompile(`\$(dir|machine|root|LM_\w+)`)

// expand replaces variables in words: $dir is the directory of the scenario or of the machine that
// is set up, $machine that of the scenario's machine, and $root that of the repository.
// $dir/images and $dir/texts have what words name.
func (h hostFiles) expand(words []string) (out []string) {
	h.t.Helper()
	root, err := filepath.Abs(repository)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, word := range words {
		if match := imageName.FindStringSubmatch(word); match != nil &&
			strings.Contains(word, "$dir"+match[0]) {
			h.write(match[0], buildImage(h.t, match[1]+match[2]))
		}
		out = append(out, hostVariable.ReplaceAllStringFunc(word, func(name string) string {
			switch name {
			case "$dir":
				return h.dir
			case "$machine":
				return h.machineDir
			case "$root":
				return root
			}
			return fromEnv(h.t, name[1:])
		}))
	}
	return out
}
