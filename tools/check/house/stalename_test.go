package house

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"lightmetal/tools/check/house/measure"
)

// foreignNames are names in comments that are not of this project: of hardware, formats, other
// programs, and examples.
var foreignNames = strings.Fields("GitHub DevTools DesignWare ModRM NaNs NoCs VmLck iATU vDSO " +
	"HugePages_Free errorAddressString v00001234d000011E8sv00001AF4sd00001100bc " +
	"barN resourceN resourceN_wc uXXXX xXX camelCase AxBx2x2x16x16 NameThatSaysWhatItShows " +
	"ComputeNocTranslation CopyNoc0ToNoc1 DataMovementProcessor DerivedCoreProperties " +
	"ShutdownCause SoftReset TelemetryTag UseStaticVC")

// foreignFiles are sources and pages in comments that are not of this project.
var foreignFiles = strings.Fields("runtime/error.go runtime/iface.go runtime/preempt_xreg.go " +
	"walk.s TLBs.md NoC/MemoryMap.md docs/libttsim_api.md WormholeB0/ BlackholeA0/ " +
	"//github.com/openvex/spec/blob/main/OPENVEX-SPEC.md")

var (
	// A name has a capital letter after a small one; a path is no name.
	nameInComment      = regexp.MustCompile(`[\w/.-]*[a-z][0-9]*[A-Z][\w/.-]*`)
	capitalInside      = regexp.MustCompile(`^\w*[a-z][0-9]*[A-Z]\w*$`)
	qualifiedInComment = regexp.MustCompile(`\b[a-z]\w*\.[A-Z]\w*`)
	fileInComment      = regexp.MustCompile(`[\w/.-]+\.(?:go|s|sh|md|fbs)\b`)
)

// names are the words of code and the files of the tree, outside of comments.
type names struct {
	all      map[string]bool
	inFolder map[string]map[string]bool
	packages map[string][]string // folders of the packages with a name
	files    map[string]bool     // base names
}

// add adds the words of code.
func (n *names) add(path, code string) {
	folder := filepath.Dir(path)
	if n.inFolder[folder] == nil {
		n.inFolder[folder] = map[string]bool{}
	}
	isSeparator := func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	for _, word := range strings.FieldsFunc(code, isSeparator) {
		n.all[word], n.inFolder[folder][word] = true, true
	}
}

// addGo adds the words of a Go source, and returns its comments with their lines.
func (n *names) addGo(path string, source []byte) (comments []excerpt) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(source))
	s.Init(file, source, nil, scanner.ScanComments)
	before := token.ILLEGAL
	for {
		at, kind, text := s.Scan()
		switch kind {
		case token.EOF:
			return comments
		case token.COMMENT:
			if !strings.HasPrefix(text, "//go:") {
				comments = append(comments, excerpt{file.Line(at), text})
			}
			continue
		case token.IDENT:
			if before == token.PACKAGE {
				n.packages[text] = append(n.packages[text], filepath.Dir(path))
			}
			n.add(path, text)
		case token.STRING:
			n.add(path, text)
		}
		before = kind
	}
}

// stale returns the names in a comment that no code has.
func (n *names) stale(path, comment string) (found []string) {
	for _, word := range nameInComment.FindAllString(comment, -1) {
		name, member, _ := strings.Cut(strings.Trim(word, "."), ".")
		known := n.all
		if name[0] >= 'a' {
			known = n.inFolder[filepath.Dir(path)] // it is not exported
		}
		switch {
		case strings.ContainsAny(word, "/-"): // a path or a flag
		case capitalInside.MatchString(name) && !known[name] && !isForeign(name, foreignNames):
			found = append(found, name)
		case n.all[name] && capitalInside.MatchString(member) && !n.all[member]:
			found = append(found, word)
		}
	}
	for _, word := range qualifiedInComment.FindAllString(comment, -1) {
		name, member, _ := strings.Cut(word, ".")
		folders := n.packages[name]
		isKnown := len(folders) == 0
		for _, folder := range folders {
			isKnown = isKnown || n.inFolder[folder][member]
		}
		if !isKnown {
			found = append(found, word)
		}
	}
	for _, word := range fileInComment.FindAllString(comment, -1) {
		if !n.files[filepath.Base(word)] && !isForeign(word, foreignFiles) {
			found = append(found, word)
		}
	}
	return found
}

// isForeign reports whether a list has a word, or a folder of it.
func isForeign(word string, list []string) bool {
	for _, foreign := range list {
		if word == foreign || strings.HasSuffix(foreign, "/") && strings.HasPrefix(word, foreign) {
			return true
		}
	}
	return false
}

func newNames() *names {
	return &names{map[string]bool{}, map[string]map[string]bool{}, map[string][]string{},
		map[string]bool{}}
}

// TestCommentsNameWhatExists looks in all comments of Go sources for names of functions, types,
// variables and files that do not exist, as after a renaming. It knows a name by a capital letter
// after a small one, or by the package before it.
func TestCommentsNameWhatExists(t *testing.T) {
	n := newNames()
	comments := map[string][]excerpt{}
	visitFiles(t, func(path string) {
		n.files[filepath.Base(path)] = true
		source, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		switch filepath.Ext(path) {
		case ".go":
			isGenerated, err := measure.IsGenerated(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			if list := n.addGo(path, source); !isGenerated {
				comments[path] = list
			}
		case ".c", ".h", ".s", ".S", ".sh", ".fbs":
			n.add(path, string(source))
		}
	})
	if len(comments) < 500 {
		t.Errorf("only %d sources were read, want at least 500", len(comments))
	}
	for path, list := range comments {
		for _, c := range list {
			for _, name := range n.stale(path, c.text) {
				t.Errorf("%s:%d: the comment names %s, which does not exist", path, c.line, name)
			}
		}
	}
}

func TestStaleNamesAreFound(t *testing.T) {
	n := newNames()
	n.addGo("p/a.go", []byte("package p\n\nfunc readAll(text string) { use(\"barOne\") }\n"))
	n.addGo("q/b.go", []byte("package q\n\ntype Reader struct{ sizeMax int }\n"))
	n.files["a.go"] = true
	tests := []struct{ comment, want string }{
		{"// readAll is as barOne and a.go; readNone and b.go are not.", "readNone b.go"},
		{"// sizeMax is of package q.", "sizeMax"},
		{"// q.Reader and q.Writer, but os.Getenv and e.g. What.", "q.Writer"},
		{"// Linux/readSome.c and ModRM are foreign, so is KEY.", ""},
		{"// ReadAll was renamed. readAll.x stays.", "ReadAll"},
		{"// Reader.sizeMax stays, but not Reader.sizeMin or -sizeMin.", "Reader.sizeMin"},
	}
	for _, test := range tests {
		if got := strings.Join(n.stale("p/a.go", test.comment), " "); got != test.want {
			t.Errorf("%s: found %q, want %q", test.comment, got, test.want)
		}
	}
}
