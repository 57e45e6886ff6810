package house

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/check/pages"
)

// packages has the lists of the Debian packages.
const packages = "tools/ship/debian"

// packagedFiles returns the package of each file that the lists install, by path, with ARCH and
// TRIPLET for those of an architecture. Files made at build have a path that ends in a pattern.
func packagedFiles(t *testing.T) map[string]string {
	t.Helper()
	lists, err := filepath.Glob(filepath.Join(root, packages, "*.install"))
	if err != nil || len(lists) != 4 {
		t.Fatalf("lists %v, want 4; error %v", lists, err)
	}
	owner := map[string]string{}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(list), ".install")
		for line := range strings.Lines(string(text)) {
			source, folder, ok := strings.Cut(strings.TrimSpace(line), " ")
			if !ok {
				t.Errorf("%s.install: %q is not SOURCE FOLDER", name, line)
			}
			for _, file := range sourceFiles(t, source) {
				if file = path.Join("/", folder, file); owner[file] != "" {
					t.Errorf("%s is in %s and in %s", file, owner[file], name)
				}
				owner[file] = name
			}
		}
	}
	return owner
}

// sourceFiles returns the names of the files that a line of a list installs, from its folder.
func sourceFiles(t *testing.T, source string) (names []string) {
	t.Helper()
	switch source {
	case "made/boards":
		for _, program := range []string{"lminit", "lmrun", "lmrun-signed"} {
			names = append(names, program+"-amd64", program+"-arm64")
		}
		return names
	case "made/pages":
		return []string{"README.md"}
	}
	if strings.HasPrefix(source, "made/") {
		return []string{path.Base(source)}
	}
	info, err := os.Stat(filepath.Join(root, source))
	if err != nil {
		t.Error(err)
		return nil
	}
	if !info.IsDir() {
		return []string{path.Base(source)}
	}
	entries, err := os.ReadDir(filepath.Join(root, source))
	if err != nil {
		t.Error(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestPackageHasWhatItsUnitStarts requires the programs of lightmetal.service, and those that they
// start, in the unit's package.
func TestPackageHasWhatItsUnitStarts(t *testing.T) {
	owner := packagedFiles(t)
	const unit = "/usr/lib/systemd/system/lightmetal.service"
	text, err := os.ReadFile(filepath.Join(root, "testdata/recipes/systemd/lightmetal.service"))
	if err != nil || owner[unit] != "lightmetal" {
		t.Fatalf("%s is in %q, want lightmetal; error %v", unit, owner[unit], err)
	}
	command := regexp.MustCompile(`(?m)^Exec\w+=[-@:+!]*(\S+)`)
	started := command.FindAllStringSubmatch(string(text), -1)
	if len(started) == 0 {
		t.Error("the unit starts no program")
	}
	programs := []string{"/usr/bin/lmrun", "/usr/bin/lmrun-signed"} // beside lminit
	for _, command := range started {
		programs = append(programs, command[1])
	}
	for _, program := range programs {
		if owner[program] != "lightmetal" {
			t.Errorf("%s is in %q, want lightmetal", program, owner[program])
		}
	}
}

// TestPackagesHaveWhatPagesName requires what pages name in a package: the programs that their
// commands start, and paths in /usr. The page about installation lists what each package is for.
func TestPackagesHaveWhatPagesName(t *testing.T) {
	owner := packagedFiles(t)
	program := regexp.MustCompile(`^(?:sudo )?(lm|lmrun|lminit|lightmetal)(-[a-z]+)?(\s|$)`)
	inUsr := regexp.MustCompile(`/usr/(?:bin|include|lib|share)[\w/.-]*\w`)
	started, paths := 0, 0
	for _, page := range textFiles(t) {
		commands, err := pages.Read(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			m := program.FindStringSubmatch(c.Text)
			if m == nil {
				continue
			}
			if started++; owner["/usr/bin/"+m[1]+m[2]] == "" {
				t.Errorf("%s:%d: no package has %s%s", page, c.Line, m[1], m[2])
			}
		}
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, named := range inUsr.FindAllString(string(text), -1) {
			paths++
			if !slices.ContainsFunc(slices.Collect(maps.Keys(owner)), func(file string) bool {
				return strings.HasPrefix(file+"/", named+"/")
			}) {
				t.Errorf("%s: no package has %s", page, named)
			}
		}
	}
	if started < 50 || paths < 5 {
		t.Errorf("%d commands and %d paths were found, want at least 50 and 5", started, paths)
	}
	text, err := os.ReadFile(filepath.Join(root, "tools/lm/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for file, name := range owner {
		base := path.Base(file)
		row := regexp.MustCompile("(?m)^\\| `" + name + "` .*`" + regexp.QuoteMeta(base) + "`")
		shown := path.Dir(file) == "/usr/bin" || path.Ext(base) == ".h" || path.Ext(base) == ".a" ||
			path.Ext(base) == ".service" || path.Ext(base) == ".c"
		if shown && !row.Match(text) {
			t.Errorf("tools/lm/README.md: the row of %s does not name %s", name, base)
		}
	}
}

// TestYoctoBuildsAFixedCommit requires a whole hash, of a commit of this branch, so that two builds
// of the recipe have the same sources.
func TestYoctoBuildsAFixedCommit(t *testing.T) {
	recipes, err := filepath.Glob(filepath.Join(root, "testdata/recipes/yocto/*/*/*/*.bb"))
	if err != nil || len(recipes) != 2 {
		t.Fatalf("recipes %v, want 2; error %v", recipes, err)
	}
	revision := regexp.MustCompile(`(?m)^SRCREV \?= "([0-9a-f]{40})"$`)
	for _, recipe := range recipes {
		text, err := os.ReadFile(recipe)
		if err != nil {
			t.Fatal(err)
		}
		m := revision.FindSubmatch(text)
		if strings.Contains(string(text), "SRCREV") && m == nil {
			t.Errorf("%s: SRCREV is not the hash of a commit", recipe)
		}
		if m == nil || exec.Command("git", "rev-parse", "HEAD").Run() != nil {
			continue // not a checkout
		}
		command := exec.Command("git", "merge-base", "--is-ancestor", string(m[1]), "HEAD")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%s: the commit of SRCREV is not in this branch: %v %s", recipe, err, out)
		}
	}
}
