package sbom

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// vexDocument has the fields of an OpenVEX 0.2.0 document
// (https://github.com/openvex/spec/blob/main/OPENVEX-SPEC.md) that the project's document uses.
type vexDocument struct {
	Context    string `json:"@context"`
	ID         string `json:"@id"`
	Author     string `json:"author"`
	Timestamp  string `json:"timestamp"`
	Version    int    `json:"version"`
	Statements []struct {
		Vulnerability struct {
			Name    string   `json:"name"`
			Aliases []string `json:"aliases"`
		} `json:"vulnerability"`
		Products []struct {
			ID            string `json:"@id"`
			Subcomponents []struct {
				ID string `json:"@id"`
			} `json:"subcomponents"`
		} `json:"products"`
		Status        string `json:"status"`
		StatusNotes   string `json:"status_notes"`
		Justification string `json:"justification"`
		Impact        string `json:"impact_statement"`
	} `json:"statements"`
}

// TestVEXStatementsAreTrue compares the statements with the linked packages, which `go list`
// prints, and with the versions of modules in the program.
func TestVEXStatementsAreTrue(t *testing.T) {
	file, err := os.Open("../../../../runtime/vex.openvex.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var d vexDocument
	reader := json.NewDecoder(file)
	reader.DisallowUnknownFields()
	if err := reader.Decode(&d); err != nil {
		t.Fatal(err)
	}
	if d.Context != "https://openvex.dev/ns/v0.2.0" || d.ID == "" || d.Author == "" ||
		d.Timestamp == "" || d.Version < 1 || len(d.Statements) == 0 {
		t.Errorf("wrong or missing field in OpenVEX document %+v", d)
	}
	_, listed := makeDocument(t, buildLmrun(t))
	var versions []string
	for _, p := range listed.Packages {
		versions = append(versions, "pkg:golang/"+p.Name+"@"+p.Version)
	}
	linked := linkedPackages(t)
	absent := regexp.MustCompile(`^package (\S+) is not linked$`)
	for _, s := range d.Statements {
		name := s.Vulnerability.Name
		if !regexp.MustCompile(`^CVE-\d{4}-\d{4,}$`).MatchString(name) || len(s.Products) != 1 ||
			s.Products[0].ID != "pkg:golang/lightmetal" || len(s.Products[0].Subcomponents) != 1 {
			t.Errorf("%+v does not name a vulnerability, or one subcomponent of one product", s)
			continue
		}
		if part := s.Products[0].Subcomponents[0].ID; !slices.Contains(versions, part) {
			t.Errorf("%s: %s is not linked; linked are %v", name, part, versions)
		}
		switch match := absent.FindStringSubmatch(s.Impact); {
		case s.Status == "fixed" && s.StatusNotes != "":
		case s.Status != "not_affected" || s.Justification != "vulnerable_code_not_present" ||
			match == nil:
			t.Errorf("%s: status %s, %s, %q: this test cannot check this statement", name, s.Status,
				s.Justification, s.Impact)
		case slices.Contains(linked, match[1]):
			t.Errorf("%s: package %s is linked", name, match[1])
		}
	}
}

// linkedPackages returns the packages of all lmrun that ship, with and without signatures.
func linkedPackages(t *testing.T) (list []string) {
	t.Helper()
	for _, arch := range []string{"arm64", "amd64"} {
		c := exec.Command("go", "list", "-deps", "-tags", "signed", "lightmetal/tools/lmrun")
		c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, strings.Fields(string(out))...)
	}
	if !slices.Contains(list, "crypto/ed25519") || !slices.Contains(list, "syscall") {
		t.Fatalf("go list printed %d packages, without crypto/ed25519 or syscall", len(list))
	}
	return list
}
