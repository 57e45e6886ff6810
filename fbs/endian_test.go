package fbs_test

import (
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"lightmetal/tools/check/effort"
)

type noImporter struct{}

func (noImporter) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

// TestBuildForABigEndianProcessorFails checks that the error names the cause. It only checks types:
// a build would first compile the standard library for another processor.
func TestBuildForABigEndianProcessorFails(t *testing.T) {
	effort.SkipShort(t)
	for processor, want := range map[string]bool{"s390x": true, "arm64": false} {
		context := build.Default
		context.GOARCH, context.CgoEnabled = processor, false
		p, err := context.ImportDir(".", 0)
		if err != nil {
			t.Fatal(err)
		}
		var files []*ast.File
		positions := token.NewFileSet()
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(positions, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		found := false
		config := types.Config{Importer: noImporter{}, Error: func(err error) {
			found = found || strings.Contains(err.Error(),
				"undefined: lightmetalSupportsOnlyLittleEndianProcessors")
		}}
		_, _ = config.Check(p.ImportPath, positions, files, nil)
		if found != want {
			t.Errorf("%s: the error is there: %v, want %v", processor, found, want)
		}
	}
}
