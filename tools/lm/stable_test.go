package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/check/golden"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestPromisedInterfaceDoesNotChange compares what tools/CHANGES.md promises with a file: format,
// exit codes, commands, flags and JSON fields of both tools.
func TestPromisedInterfaceDoesNotChange(t *testing.T) {
	golden.File(t, "testdata/stable.golden", promisedInterface(t))
}

// promisedInterface returns a line for each element of the promised interface.
func promisedInterface(t *testing.T) string {
	var b strings.Builder
	fmt.Fprintf(&b, "format %d.%d\n", fbs.FormatMajor, fbs.FormatMinor)
	for code := hal.OK; code <= hal.RingUnset; code++ {
		fmt.Fprintf(&b, "exit %d: %s\n", code.ExitStatus(), code.Error())
	}
	var commands func(c *cobra.Command)
	commands = func(c *cobra.Command) {
		fmt.Fprintf(&b, "%s\n", c.UseLine())
		c.Flags().VisitAll(func(f *pflag.Flag) {
			fmt.Fprintf(&b, "%s --%s %s %s\n", c.CommandPath(), f.Name, f.Shorthand, f.Value.Type())
		})
		for _, sub := range c.Commands() {
			commands(sub)
		}
	}
	commands(newRoot())
	seen := map[reflect.Type]string{}
	for _, of := range []struct {
		command string
		value   any
	}{
		{"any that fails", failure{}}, {"version", versionInfo{}}, {"info", imageInfo{}},
		{"info --origin", imageOrigin{}}, {"replay", outcome{}}, {"report", jsonReport{}},
		{"import", importResult{}}, {"import --summary", traces.Summary{}},
		{"compare", compareResult{}},
		{"diff", comparison{}}, {"check-board", boardReport{}}, {"faults", faultList{}},
	} {
		writeJSONFields(&b, seen, "json of "+of.command+": ", reflect.TypeOf(of.value))
	}
	for _, of := range []struct{ what, file, pattern string }{
		{"lmrun -", "usage.go", `(?m)(?:^  |, )-(\w[\w-]*( [A-Z=\[\]]+)?)`},
		{"lmrun -", "key_signed.go", `(?m)(?:^  )-(\w[\w-]*( [A-Z=\[\]]+)?)`},
		{"lmrun -", "counter.go", `(?m)(?:^  )-(\w[\w-]*( [A-Z=\[\]]+)?)`},
		{"json of lmrun: ", "report.go", "\"(\\w+)\":"},
		{"json of lmrun: ", "json.go", "\"(\\w+)\":"},
	} {
		text, err := os.ReadFile(filepath.Join("..", "lmrun", of.file))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(of.pattern).FindAllStringSubmatch(string(text),
			-1) {
			fmt.Fprintf(&b, "%s%s\n", of.what, match[1])
		}
	}
	return b.String()
}

// writeJSONFields writes a line for each field that a type has in JSON, and for the fields of these
// fields. For a type whose fields have been written, it writes a line with their path. seen has the
// paths.
func writeJSONFields(b *strings.Builder, seen map[reflect.Type]string, path string,
	of reflect.Type) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return
	}
	if earlier := seen[of]; earlier != "" && strings.HasSuffix(path, ".") {
		fmt.Fprintf(b, "%s* as in %s*\n", path, earlier)
		return
	}
	if strings.HasSuffix(path, ".") {
		seen[of] = path
	}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() && !f.Anonymous || name == "-":
		case f.Anonymous && name == "":
			writeJSONFields(b, map[reflect.Type]string{}, path, f.Type)
		default:
			if name == "" {
				name = f.Name
			}
			kind := f.Type.Kind()
			if kind == reflect.Pointer {
				kind = f.Type.Elem().Kind()
			}
			word := kind.String()
			if f.Type == reflect.TypeFor[[]byte]() {
				word = "base64" // encoding/json encodes every []byte so
			}
			fmt.Fprintf(b, "%s%s %s\n", path, name, word)
			writeJSONFields(b, seen, path+name+".", f.Type)
		}
	}
}
