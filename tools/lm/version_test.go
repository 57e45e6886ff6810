package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"lightmetal/fbs"
)

func TestVersionNamesFormatAndSchema(t *testing.T) {
	exit, stdout, stderr := lm(t, "version")
	want := fmt.Sprintf("format    %d.%d\nschema    %016x\n", fbs.FormatMajor, fbs.FormatMinor,
		fbs.SchemaHash)
	if exit != 0 || stderr != "" || !strings.HasPrefix(stdout, version+"\n") ||
		!strings.HasSuffix(stdout, want) {
		t.Errorf("lm version: exit status %d, stdout %q, stderr %q", exit, stdout, stderr)
	}
	exit, stdout, _ = lm(t, "version", "--json")
	var v versionInfo
	if err := json.Unmarshal([]byte(stdout), &v); exit != 0 || err != nil || v != thisVersion() ||
		v.Schema == "" {
		t.Errorf("lm version --json: exit status %d, %v: %q", exit, err, stdout)
	}
	if exit, _, stderr := lm(t, "version", "x"); exit != 64 {
		t.Errorf("lm version x: exit status %d, want 64; stderr: %s", exit, stderr)
	}
	if exit, stdout, _ := lm(t, "--version"); exit != 0 || stdout != version+"\n" {
		t.Errorf("lm --version: exit status %d, stdout %q, want %q", exit, stdout, version+"\n")
	}
}

func TestVersionNamesTheTags(t *testing.T) {
	if out, err := exec.Command(buildMain(t, "."), "version").Output(); err != nil ||
		!strings.Contains(string(out), "tags      tagged\n") {
		t.Errorf("lm version of a build with -tags tagged: %v\n%s", err, out)
	}
}
