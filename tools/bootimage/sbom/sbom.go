// Package sbom writes what is inside a set of files as an SPDX 2.3 document
// (https://spdx.github.io/spdx-spec/v2.3/): the files with their digests, and
// for a program built by Go the modules it is linked from, which it carries
// with it. Equal files give equal documents.
package sbom

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// licences of all that lightmetal links, as the modules' own files say. A
// module that is not here is an error: somebody has to read its licence first.
var licences = map[string]string{
	"github.com/google/flatbuffers": "Apache-2.0",
	"golang.org/x/sys":              "BSD-3-Clause",
	"std":                           "BSD-3-Clause", // Go's runtime and standard library
	"lightmetal":                    "NOASSERTION",
}

// File is one file of what is delivered.
type File struct {
	Path string // as delivered, relative
	Data []byte
}

// Document gives the SPDX document of files that are delivered together under
// a name. The time in it is the given one, since a document must have one.
func Document(name string, created time.Time, files []File) ([]byte, error) {
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Creation: creation{created.UTC().Format(time.RFC3339), []string{"Tool: lightmetal-bootimage"}},
		Packages: []spdxPackage{},
	}
	all := sha256.New()
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range files {
		d.addFile(f)
		fmt.Fprintf(all, "%s %x\n", f.Path, sha256.Sum256(f.Data))
		if info, err := buildinfo.Read(bytes.NewReader(f.Data)); err == nil {
			if err := d.addProgram(f, info); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Path, err)
			}
		}
	}
	// Unique to the contents, and not an address of anything.
	d.Namespace = "https://lightmetal.invalid/spdx/" + url.PathEscape(name) + "-" + hex.EncodeToString(all.Sum(nil))
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}

type document struct {
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

const none = "NOASSERTION"

// version is what build.sh has the linker put into a program.
var version = regexp.MustCompile(`lm(?:run|init)? ([0-9.]+ \([a-z0-9 ,_-]+\))`)

var notInIDs = regexp.MustCompile(`[^A-Za-z0-9.]+`)

func identifier(kind, name string) string {
	return "SPDXRef-" + kind + "-" + strings.Trim(notInIDs.ReplaceAllString(name, "-"), "-")
}

func (d *document) addFile(f File) {
	weak, strong := sha1.Sum(f.Data), sha256.Sum256(f.Data)
	file := spdxFile{Name: "./" + f.Path, ID: identifier("File", f.Path), Concluded: none, InFile: []string{none}, Copyright: none,
		// SPDX 2.3, 8.4 wants SHA1 of every file.
		Sums: []checksum{{"SHA1", hex.EncodeToString(weak[:])}, {"SHA256", hex.EncodeToString(strong[:])}}}
	d.Files = append(d.Files, file)
	d.relate(d.ID, "DESCRIBES", file.ID)
}

// addProgram adds the modules that a program is linked from.
func (d *document) addProgram(f File, info *debug.BuildInfo) error {
	if said := version.FindSubmatch(f.Data); said != nil {
		info.Main.Version = string(said[1])
	}
	modules := append([]*debug.Module{{Path: "std", Version: info.GoVersion}, {Path: info.Main.Path, Version: info.Main.Version}}, info.Deps...)
	for _, m := range modules {
		p, err := packageOf(m)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(d.Packages, func(have spdxPackage) bool { return have.ID == p.ID }) {
			d.Packages = append(d.Packages, p)
		}
		kind := "STATIC_LINK"
		if m.Path == info.Main.Path {
			kind = "GENERATED_FROM"
		}
		d.relate(identifier("File", f.Path), kind, p.ID)
	}
	return nil
}

func packageOf(m *debug.Module) (spdxPackage, error) {
	licence, known := licences[m.Path]
	switch {
	case !known:
		return spdxPackage{}, fmt.Errorf("module %s is linked, and its licence is not known", m.Path)
	case m.Replace != nil:
		return spdxPackage{}, fmt.Errorf("module %s is replaced by %s", m.Path, m.Replace.Path)
	}
	p := spdxPackage{Name: m.Path, ID: identifier("Package", m.Path+"-"+m.Version), Version: m.Version, Location: none,
		Concluded: licence, Declared: licence, Copyright: none,
		Refs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + url.QueryEscape(m.Version)}}}
	if m.Sum != "" {
		p.Comment = "go.sum: " + m.Sum
		p.Location = "https://proxy.golang.org/" + m.Path + "/@v/" + m.Version + ".zip"
	}
	return p, nil
}

func (d *document) relate(element, kind, related string) {
	d.Relationships = append(d.Relationships, relationship{element, kind, related})
}
