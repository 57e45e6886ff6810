package house

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/tools/check/pages"
)

// textFiles returns the pages of the tree and the help texts of lm, by their path from the top.
func textFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		if entry.IsDir() && (name == "build" || name == ".git") {
			return filepath.SkipDir
		}
		isHelp := filepath.Dir(name) == "tools/lm/help"
		if strings.HasSuffix(name, ".md") || isHelp && strings.HasSuffix(name, ".txt") {
			files = append(files, name)
		}
		return err
	})
	if err != nil || len(files) < 50 {
		t.Fatalf("%d pages and help texts were found, want at least 50; error %v", len(files), err)
	}
	return files
}

// TestPagesAndHelpTextsArePlain looks for the phrases in pages and help texts.
func TestPagesAndHelpTextsArePlain(t *testing.T) {
	for _, file := range textFiles(t) {
		sentences, err := pages.Sentences(filepath.Join(root, file))
		if err != nil || len(sentences) == 0 {
			t.Fatalf("%s: %d sentences were found, error %v", file, len(sentences), err)
		}
		for _, s := range sentences {
			for _, f := range findPhrases([]excerpt{{s.Line, s.Text}}) {
				t.Errorf("%s:%d: %q (%s)", file, f.line, f.text, f.instead)
			}
		}
	}
}
