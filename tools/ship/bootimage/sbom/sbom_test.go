package sbom

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// quoteFlags returns the linker flags, each in quotes.
func quoteFlags(flags []string) (text string) {
	for _, flag := range flags {
		text += "'" + flag + "' "
	}
	return text
}

// buildLmrun builds lmrun like in a delivery, with more flags of the linker.
func buildLmrun(t *testing.T, flags ...string) File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lmrun")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags",
		"-s -w "+quoteFlags(flags), "-o", path, "lightmetal/tools/lmrun")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build of lmrun: %v\n%s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return File{"lmrun", data}
}

// spdxDocument has the fields of a document with their names in SPDX 2.3.
type spdxDocument struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []spdxPackage  `json:"packages"`
	Files         []spdxFile     `json:"files"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	Name      string      `json:"name"`
	ID        string      `json:"SPDXID"`
	Version   string      `json:"versionInfo"`
	Location  string      `json:"downloadLocation"`
	Analyzed  bool        `json:"filesAnalyzed"`
	Concluded string      `json:"licenseConcluded"`
	Declared  string      `json:"licenseDeclared"`
	Copyright string      `json:"copyrightText"`
	Comment   string      `json:"comment,omitempty"`
	Refs      []reference `json:"externalRefs"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxFile struct {
	Name      string     `json:"fileName"`
	ID        string     `json:"SPDXID"`
	Sums      []checksum `json:"checksums"`
	Concluded string     `json:"licenseConcluded"`
	InFile    []string   `json:"licenseInfoInFiles"`
	Copyright string     `json:"copyrightText"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

// makeDocument returns the text of the document of the files, and the parsed document.
func makeDocument(t *testing.T, files ...File) (text []byte, d spdxDocument) {
	t.Helper()
	text, err := Document("test", time.Unix(0, 0), files)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return text, d
}

// TestModulesAreThoseOfGoList compares the modules, which the document has from the program, with
// the output of `go list`.
func TestModulesAreThoseOfGoList(t *testing.T) {
	_, d := makeDocument(t, buildLmrun(t))
	var got []string
	for _, p := range d.Packages {
		if p.Name != "std" {
			got = append(got, p.Name+" "+strings.TrimSuffix(p.Version, "(devel)"))
		}
	}
	list := exec.Command("go", "list", "-deps", "-f",
		"{{with .Module}}{{.Path}} {{.Version}}{{end}}", "lightmetal/tools/lmrun")
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.Trim(string(out), "\n"), "\n")
	slices.Sort(want)
	slices.Sort(got)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("modules %q, want %q", got, want)
	}
	if version, _ := exec.Command("go", "env", "GOVERSION").Output(); d.Packages[0].Name != "std" ||
		d.Packages[0].Version != strings.TrimSpace(string(version)) {
		t.Errorf("Go is %s %s, want %s", d.Packages[0].Name, d.Packages[0].Version, version)
	}
}

// TestDocumentFollowsTheRulesOfSPDX checks requirements of SPDX 2.3, chapters 6 to 11: fields, the
// form and uniqueness of identifiers, and references to them.
func TestDocumentFollowsTheRulesOfSPDX(t *testing.T) {
	text, d := makeDocument(t, buildLmrun(t), File{"edu.lmb", []byte("image")},
		File{"sub/lmrun.conf", nil})
	if d.Version != "SPDX-2.3" || d.License != "CC0-1.0" || d.ID != "SPDXRef-DOCUMENT" ||
		len(d.Creation.Creators) == 0 ||
		!regexp.MustCompile(`^https://[^ #]+$`).MatchString(d.Namespace) ||
		d.Creation.Created != "1970-01-01T00:00:00Z" {
		t.Errorf("wrong field in document %+v", d)
	}
	ids := map[string]bool{d.ID: true}
	add := func(id string) {
		if ids[id] || !regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`).MatchString(id) {
			t.Errorf("identifier %q has a wrong form, or occurs twice", id)
		}
		ids[id] = true
	}
	for _, p := range d.Packages {
		add(p.ID)
		if p.Name == "" || p.Version == "" || p.Location == "" || p.Declared == "" ||
			!strings.HasPrefix(p.Refs[0].Locator, "pkg:golang/") {
			t.Errorf("missing or wrong field in package %+v", p)
		}
	}
	described := 0
	for _, f := range d.Files {
		add(f.ID)
		if !strings.HasPrefix(f.Name, "./") || f.Sums[0].Algorithm != "SHA1" ||
			len(f.Sums[0].Value) != 40 || len(f.Sums[1].Value) != 64 {
			t.Errorf("wrong name or checksum in file %+v", f)
		}
	}
	for _, r := range d.Relationships {
		if !ids[r.Element] || !ids[r.Related] {
			t.Errorf("relationship with an unknown identifier: %+v", r)
		}
		if r.Type == "DESCRIBES" {
			described++
		}
	}
	if described != 3 || len(d.Files) != 3 {
		t.Errorf("%d files, %d described, want 3", len(d.Files), described)
	}
	if bytes.Contains(text, []byte("null")) {
		t.Errorf("an empty list is null:\n%s", text)
	}
}

func TestDocumentHasTheHashOfAFile(t *testing.T) {
	_, d := makeDocument(t, File{"x", []byte("abc")}) // the example of FIPS 180-4
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := d.Files[0].Sums[1].Value; got != want {
		t.Errorf("SHA-256 %s, want %s", got, want)
	}
}

func TestDocumentDependsOnContentsButNotOnOrder(t *testing.T) {
	a, b := File{"a", []byte("1")}, File{"b", []byte("2")}
	first, _ := makeDocument(t, a, b)
	reordered, _ := makeDocument(t, b, a)
	changedText, changedDocument := makeDocument(t, a, File{"b", []byte("3")})
	if !bytes.Equal(first, reordered) || bytes.Equal(first, changedText) {
		t.Error("the document depends on the order of files, or not on their contents")
	}
	if _, d := makeDocument(t, a, b); d.Namespace == changedDocument.Namespace {
		t.Error("two different documents have the same namespace")
	}
}

func TestModuleWithUnknownLicenceIsRejected(t *testing.T) {
	program := buildLmrun(t)
	licence := licences["golang.org/x/sys"]
	delete(licences, "golang.org/x/sys")
	defer func() { licences["golang.org/x/sys"] = licence }()
	if _, err := Document("test", time.Unix(0, 0), []File{program}); err == nil ||
		!strings.Contains(err.Error(), "golang.org/x/sys") {
		t.Errorf("error %v, want one that names golang.org/x/sys", err)
	}
}

// TestDocumentHasTheVersionOfTheProgram sets the version of lmrun with a flag of the linker. The
// document must have this version of lightmetal.
func TestDocumentHasTheVersionOfTheProgram(t *testing.T) {
	f := buildLmrun(t, "-X", "main.version=lmrun 0.7 (0123abc-modified, tags backend_vfio)")
	if text, _ := makeDocument(t, f); !bytes.Contains(text,
		[]byte(`"versionInfo": "0.7 (0123abc-modified, tags backend_vfio)"`)) {
		t.Errorf("the document has no version 0.7:\n%s", text)
	}
}
