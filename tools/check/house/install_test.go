package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"lightmetal/tools/check/effort"
	"lightmetal/tools/check/pages"
)

// TestPackagesAreInstalledAndRemoved checks that dpkg installs the packages of ./build.sh deb below
// a folder, with programs, man pages and completions, and that dpkg removes all of it again.
func TestPackagesAreInstalledAndRemoved(t *testing.T) {
	effort.SkipUnlessNightly(t)
	for _, tool := range []string{"dpkg", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	folder := buildPackages(t)
	system := t.TempDir()
	runShell(t, system,
		"mkdir -p var/lib/dpkg/info var/lib/dpkg/updates && touch var/lib/dpkg/status")
	dpkg := "dpkg --force-not-root --force-bad-path --force-script-chrootless --log=/dev/null " +
		"--root=" + system + " "
	runShell(t, system, dpkg+"-i "+folder+"/*.deb")
	const programs = "lminit-amd64\nlminit-arm64\nlmrun-amd64\nlmrun-arm64\n" +
		"lmrun-signed-amd64\nlmrun-signed-arm64\n"
	image := absolutePath(t, "testdata/images/edu.lmb")
	const complete = "bash -c '. usr/share/bash-completion/completions/lm && complete -p lm'"
	for command, want := range map[string]string{
		"usr/bin/lm version":                              "lm 0.1 (given)\n",
		"usr/bin/lmrun -version":                          "lmrun 0.1 (given), format ",
		"usr/bin/lmrun-signed -version":                   "(given, tags signed), format ",
		"usr/bin/lminit -version":                         "lminit 0.1 (given)\n",
		"usr/bin/lm verify " + image:                      "edu.lmb",
		"usr/bin/lmrun -check " + image:                   "image is valid",
		"zcat usr/share/man/man1/lm-replay.1.gz":          "replay",
		"zcat usr/share/man/man1/lmrun.1.gz":              `\-deadline TIME`,
		"zcat usr/share/man/man1/lmrun-signed.1.gz":       `\-key FILE`,
		"zcat usr/share/man/man1/lminit.1.gz":             "that a configuration names",
		"zcat usr/share/man/man1/lightmetal-place.1.gz":   `lightmetal\-place \-\-back FILE`,
		"cat usr/share/fish/vendor_completions.d/lm.fish": "lm",
		"cat usr/share/zsh/vendor-completions/_lm":        "#compdef lm",
		complete:                "__start_lm",
		"ls usr/lib/lightmetal": programs,
	} {
		if got := runShell(t, system, command); !strings.Contains(got, want) {
			t.Errorf("%s: output %q, want %q", command, got, want)
		}
	}
	runShell(t, system, dpkg+"--purge lightmetal lightmetal-dev lightmetal-doc lightmetal-tools")
	remaining := runShell(t, system, "find . -type f -path '*/usr/*' -o -name 'lm*' | head")
	if remaining != "" {
		t.Errorf("files remain after dpkg --purge:\n%s", remaining)
	}
}

// TestInstallReportsAFolderThatIsNotWritable requires a message of one line and exit status 77.
func TestInstallReportsAFolderThatIsNotWritable(t *testing.T) {
	install := exec.Command("./build.sh", "install", "/proc/x")
	install.Dir = root
	out, _ := install.CombinedOutput()
	if exit := install.ProcessState.ExitCode(); exit != 77 ||
		string(out) != "install: /proc/x is not writable; name another folder, or become root\n" {
		t.Errorf("exit status %d, want 77; output: %s", exit, out)
	}
}

// buildPackages builds the packages of this machine in a copy of the tree, and returns their
// folder. Step reproducible compares packages that were built in two folders.
func buildPackages(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := pages.Clone(folder, root); err != nil {
		t.Fatal(err)
	}
	runShell(t, folder, "LM_REVISION=given ./build.sh deb "+runtime.GOARCH)
	return filepath.Join(folder, "build")
}

// absolutePath returns the absolute path of a file in the tree.
func absolutePath(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// runShell runs a command in a folder, which must succeed, and returns its output.
func runShell(t *testing.T, folder, command string) string {
	t.Helper()
	c := exec.Command("bash", "-euo", "pipefail", "-c", command)
	c.Dir, c.Env = folder, append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}
