// Package sbom describes a set of files as an SPDX 2.3 document
// (https://spdx.github.io/spdx-spec/v2.3/): the files with their digests, and for a program built
// by Go the modules that it is linked from. The program itself contains the list of these modules.
// Equal files result in equal documents.
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

	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// licences contains the licence of each module that lightmetal links, as stated in the module's own
// files. A module that is not in the list is an error: somebody has to read its licence first.
var licences = map[string]string{
	"github.com/google/flatbuffers": "Apache-2.0",
	"golang.org/x/sys":              "BSD-3-Clause",
	"std":                           "BSD-3-Clause", // Go's runtime and standard library
	"lightmetal":                    "NOASSERTION",
}

// File is a delivered file.
type File struct {
	Path string // relative path in the delivery
	Data []byte
}

// Document returns the SPDX document of files that are delivered together under a name. SPDX
// requires the time `created`, at which the document was made.
func Document(name string, created time.Time, files []File) ([]byte, error) {
	d := document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: name,
		CreationInfo: &spdx.CreationInfo{
			Created:  created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "lightmetal-bootimage"}},
		},
	}
	all := sha256.New()
	files = slices.SortedFunc(slices.Values(files),
		func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range files {
		d.addFile(f)
		fmt.Fprintf(all, "%s %x\n", f.Path, sha256.Sum256(f.Data))
		if info, err := buildinfo.Read(bytes.NewReader(f.Data)); err == nil {
			if err := d.addProgram(f, info); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Path, err)
			}
		}
	}
	// A URI that is unique for the content. It is not an address of anything.
	d.DocumentNamespace = "https://lightmetal.invalid/spdx/" + url.PathEscape(name) + "-" +
		hex.EncodeToString(all.Sum(nil))
	text, err := json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}

type document spdx.Document

const noAssertion = "NOASSERTION"

// versionPattern matches the version that build.sh puts into a program through the linker.
var versionPattern = regexp.MustCompile(`lm(?:run|init)? ([0-9.]+ \([a-z0-9 ,_-]+\))`)

var invalidIDChars = regexp.MustCompile(`[^A-Za-z0-9.]+`)

func identifier(kind, name string) common.ElementID {
	name = strings.Trim(invalidIDChars.ReplaceAllString(name, "-"), "-")
	return common.ElementID(kind + "-" + name)
}

func (d *document) addFile(f File) {
	weak, strong := sha1.Sum(f.Data), sha256.Sum256(f.Data)
	file := &spdx.File{FileName: "./" + f.Path, FileSPDXIdentifier: identifier("File", f.Path),
		LicenseConcluded: noAssertion, LicenseInfoInFiles: []string{noAssertion},
		FileCopyrightText: noAssertion,
		// SPDX 2.3, 8.4 wants SHA1 of every file.
		Checksums: []common.Checksum{{Algorithm: common.SHA1, Value: hex.EncodeToString(weak[:])},
			{Algorithm: common.SHA256, Value: hex.EncodeToString(strong[:])}}}
	d.Files = append(d.Files, file)
	d.addRelationship(d.SPDXIdentifier, common.TypeRelationshipDescribe, file.FileSPDXIdentifier)
}

// addProgram adds the modules that a program is linked from.
func (d *document) addProgram(f File, info *debug.BuildInfo) error {
	if said := versionPattern.FindSubmatch(f.Data); said != nil {
		info.Main.Version = string(said[1])
	}
	modules := append([]*debug.Module{{Path: "std", Version: info.GoVersion},
		{Path: info.Main.Path, Version: info.Main.Version}}, info.Deps...)
	for _, m := range modules {
		p, err := packageOf(m)
		if err != nil {
			return err
		}
		id := p.PackageSPDXIdentifier
		if !slices.ContainsFunc(d.Packages,
			func(have *spdx.Package) bool { return have.PackageSPDXIdentifier == id }) {
			d.Packages = append(d.Packages, p)
		}
		kind := common.TypeRelationshipStaticLink
		if m.Path == info.Main.Path {
			kind = common.TypeRelationshipGeneratedFrom
		}
		d.addRelationship(identifier("File", f.Path), kind, id)
	}
	return nil
}

func packageOf(m *debug.Module) (*spdx.Package, error) {
	licence, known := licences[m.Path]
	switch {
	case !known:
		return nil, fmt.Errorf("the license of the linked module %s is unknown; "+
			"add the license to sbom.go", m.Path)
	case m.Replace != nil:
		return nil, fmt.Errorf("module %s is replaced by %s, which the SBOM cannot describe; "+
			"remove the replace line from go.mod", m.Path, m.Replace.Path)
	}
	p := &spdx.Package{PackageName: m.Path, PackageSPDXIdentifier: identifier("Package",
		m.Path+"-"+m.Version), PackageVersion: m.Version,
		PackageDownloadLocation: noAssertion, PackageLicenseConcluded: licence,
		PackageLicenseDeclared: licence, PackageCopyrightText: noAssertion,
		PackageExternalReferences: []*spdx.PackageExternalReference{{Category: "PACKAGE-MANAGER",
			RefType: common.TypePackageManagerPURL,
			Locator: "pkg:golang/" + m.Path + "@" + url.QueryEscape(m.Version)}}}
	if m.Sum != "" {
		p.PackageComment = "go.sum: " + m.Sum
		p.PackageDownloadLocation = "https://proxy.golang.org/" + m.Path + "/@v/" + m.Version +
			".zip"
	}
	return p, nil
}

func (d *document) addRelationship(element common.ElementID, kind string,
	related common.ElementID) {
	d.Relationships = append(d.Relationships, &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(element)), Relationship: kind,
		RefB: common.MakeDocElementID("", string(related)),
	})
}
