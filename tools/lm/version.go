package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"lightmetal/fbs"

	"github.com/spf13/cobra"
)

// versionInfo is the output of lm version; its JSON is stable.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // revision of the source tree of lm; empty: unknown
	Modified bool   `json:"modified"` // the source tree was modified after that revision
	Go       string `json:"go"`
	Tags     string `json:"tags"`
	Format   string `json:"format"`
	Schema   string `json:"schema"` // hash; an image with another hash is rejected
}

func thisVersion() versionInfo {
	v := versionInfo{Version: version, Format: fmt.Sprintf("%d.%d", fbs.FormatMajor,
		fbs.FormatMinor), Schema: fmt.Sprintf("%016x", fbs.SchemaHash)}
	v.Revision, v.Modified = linkedRevision()
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Go = build.GoVersion
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		case "-tags":
			v.Tags = s.Value
		}
	}
	return v
}

// toolName returns the version without revision and tags.
func toolName() string {
	name, _, _ := strings.Cut(version, " (")
	return name
}

// linkedRevision returns the revision that build.sh has added to the version, or "".
func linkedRevision() (revision string, modified bool) {
	_, rest, _ := strings.Cut(version, " (")
	revision, _, _ = strings.Cut(strings.TrimSuffix(rest, ")"), ", ")
	if revision == "no revision" {
		return "", false
	}
	return strings.CutSuffix(revision, "-modified")
}

func (v versionInfo) String() string {
	text := v.Version + "\n"
	for _, line := range []struct{ name, value string }{{"revision", v.Revision}, {"go", v.Go},
		{"tags", v.Tags}, {"format", v.Format},
		{"schema", v.Schema}} {
		if line.name == "revision" && v.Modified {
			line.value += ", modified"
		}
		if line.value != "" {
			text += fmt.Sprintf("%-9s %s\n", line.name, line.value)
		}
	}
	return text
}

// program returns the version and, if it is known, the revision in one line.
func (v versionInfo) program() string {
	text := toolName()
	if v.Revision != "" {
		const digits = 12 // enough to find the revision
		text += " (" + v.Revision[:min(len(v.Revision), digits)]
		if v.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return text
}

func versionCommand() *cobra.Command {
	c := newCommand("version", argumentCount(0, 0, "no arguments"),
		func([]string) { printResult(stdout, thisVersion()) })
	defineJSONFlag(c, "print the versions as JSON")
	return c
}
