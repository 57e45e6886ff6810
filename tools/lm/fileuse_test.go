package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// forEachCommand calls f with every command of lm, except cobra's own.
func forEachCommand(f func(c *cobra.Command, use *fileUse, declared bool)) {
	for _, c := range newRoot().Commands() {
		use, declared := fileUses[c.Name()]
		f(c, &use, declared)
	}
}

// TestEveryFlagDeclaresItsFiles compares fileUses with the flags of the commands.
func TestEveryFlagDeclaresItsFiles(t *testing.T) {
	names := regexp.MustCompile(`(?i)\b(file|files|image|page|record|path)\b`)
	// These flags name no file, although their text has such a word.
	without := []string{"import device", "import frame", "import from", "import ignore",
		"import input", "record protect", "record watch", "report sequence", "tensor name",
		"verify board"}
	commands := 0
	forEachCommand(func(c *cobra.Command, use *fileUse, declared bool) {
		commands++
		if !declared {
			t.Errorf("lm %s: fileUses has no entry", c.Name())
		}
		seen := map[string]bool{}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			role := use.flags[f.Name]
			kind := f.Value.Type()
			text := kind == "string" || strings.HasPrefix(kind, "stringArray") ||
				strings.HasPrefix(kind, "stringSlice")
			seen[f.Name] = true
			switch {
			case text != (role != nil):
				t.Errorf("lm %s --%s has type %s, but fileUses declares %v", c.Name(), f.Name, kind,
					role)
			case role == noFile && names.MatchString(f.Usage) &&
				!slices.Contains(without, c.Name()+" "+f.Name):
				t.Errorf("lm %s --%s is declared to name no file: %s", c.Name(), f.Name, f.Usage)
			}
		})
		for name := range use.flags {
			if !seen[name] {
				t.Errorf("lm %s has no flag --%s", c.Name(), name)
			}
		}
	})
	if commands != len(fileUses) {
		t.Errorf("lm has %d commands, but fileUses has %d", commands, len(fileUses))
	}
}

// commandLine returns an invocation of a command with the given paths as the values of flags and
// arguments, by name. Other arguments name files that do not exist.
func commandLine(command string, use *fileUse, paths map[string]string) []string {
	line := []string{command}
	if command == "sign" && paths["key"] == "" {
		line = append(line, "--key=unused.pem")
	}
	value := func(role *fileRole, name, otherwise string) string {
		path := paths[name]
		if path == "" {
			path = otherwise
		}
		return strings.Replace(role.form, "FILE", path, 1)
	}
	for name, role := range use.flags {
		if paths[name] != "" {
			line = append(line, "--"+name+"="+value(role, name, ""))
		}
	}
	for i, role := range use.args {
		if role == noFile {
			continue
		}
		line = append(line, value(role, argName(i), filepath.Join("unused", argName(i))))
	}
	return line
}

// argName returns the name that commandLine and rolesOf use for an argument.
func argName(i int) string { return "argument " + string(rune('0'+i)) }

// rolesOf returns the roles of a command's arguments and flags by name.
func rolesOf(use *fileUse) map[string]*fileRole {
	roles := map[string]*fileRole{}
	for i, role := range use.args {
		roles[argName(i)] = role
	}
	for name, role := range use.flags {
		roles[name] = role
	}
	return roles
}

// TestEveryOutputIsComparedWithEveryInput names one file as both of each pair of an output and an
// input, or of two outputs, of every command: by the same path, by a symbolic link and by a hard
// link.
func TestEveryOutputIsComparedWithEveryInput(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.WriteFile("./the.file", []byte("content"), 0o644),
		os.Symlink("the.file", "sym.link"), os.Link("the.file", "hard.link")); err != nil {
		t.Fatal(err)
	}
	before, pairs := snapshot(t), 0
	forEachCommand(func(c *cobra.Command, use *fileUse, _ bool) {
		roles := rolesOf(use)
		for out, writes := range roles {
			for other, role := range roles {
				if !writes.writes || role.form == "" || out == other ||
					c.Name() == "sign" && (out == "new-key" || other == "new-key") {
					continue // --new-key excludes all other flags
				}
				pairs++
				for _, second := range []string{"./the.file", "./sym.link", "./hard.link"} {
					paths := map[string]string{out: "./the.file", other: second}
					line := commandLine(c.Name(), use, paths)
					exit, stdout, stderr := lm(t, line...)
					rejected := strings.Contains(stderr, "name another file")
					if exit != 64 || stdout != "" || !rejected {
						t.Errorf("lm %q: exit status %d, want 64; %s%s", line, exit, stdout, stderr)
					}
				}
				if after := snapshot(t); after != before {
					t.Fatalf("lm %s with the same file for %s and %s changed the folder from\n%s\n"+
						"to\n%s", c.Name(), out, other, before, after)
				}
			}
		}
	})
	if pairs < 25 {
		t.Errorf("only %d pairs of an output and an input were tried", pairs)
	}
}

// TestOutputIsComparedWithFilesThatAnInputNames has files that a listing or a part of a flag's
// value names.
func TestOutputIsComparedWithFilesThatAnInputNames(t *testing.T) {
	t.Chdir(t.TempDir())
	listing := edu + "main:\n  copy.4 r+0x80 <- file \"data\"\n"
	if err := errors.Join(os.WriteFile("f.lms", []byte(listing), 0o644),
		os.WriteFile("data", make([]byte, 4), 0o644), os.Link("data", "hard")); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t)
	for _, line := range []string{
		"asm f.lms -o data", "asm f.lms -o hard",
		"replay --device playback:data,wormhole --profile data x.lmb",
		"replay --device playback:x,./f.lms --profile f.lms x.lmb",
		"replay --device mock:./f.lms --profile f.lms x.lmb",
		"replay --device ttsim:data --profile hard x.lmb",
	} {
		exit, stdout, stderr := lm(t, strings.Fields(line)...)
		if exit != 64 || stdout != "" || !strings.Contains(stderr, "; name another file") {
			t.Errorf("lm %s: exit status %d, want 64; %s%s", line, exit, stdout, stderr)
		}
		if after := snapshot(t); after != before {
			t.Fatalf("lm %s changed the folder from\n%s\nto\n%s", line, before, after)
		}
	}
}

// TestImageIsWrittenOverOnlyInPlace tries every command that changes an image.
func TestImageIsWrittenOverOnlyInPlace(t *testing.T) {
	t.Chdir(t.TempDir())
	mustRun(t, "", "sign", "--new-key", "k.pem")
	twoop := mustRead(t, testdataPath(t, "images", "wh.twoop.lmb"))
	if err := os.WriteFile("./twoop.lmb", twoop, 0o644); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t)
	lines := map[string]string{"set": "set twoop.lmb a=5", "trim": "trim --golden twoop.lmb",
		"sign": "sign --key k.pem twoop.lmb"}
	forEachCommand(func(c *cobra.Command, _ *fileUse, _ bool) {
		if c.Flags().Lookup("in-place") != nil && lines[c.Name()] == "" {
			t.Errorf("this test does not try lm %s, which has the flag --in-place", c.Name())
		}
	})
	for _, line := range lines {
		for _, more := range []string{"", " --in-place -o x.lmb"} {
			exit, _, stderr := lm(t, strings.Fields(line+more)...)
			if exit != 64 || !strings.Contains(stderr, "--in-place") ||
				!strings.Contains(stderr, "-o FILE") {
				t.Errorf("lm %s%s: exit status %d, want 64; %s", line, more, exit, stderr)
			}
		}
		if exit, _, stderr := lm(t, strings.Fields(line+" -o ./twoop.lmb")...); exit != 64 ||
			!strings.Contains(stderr, "or use --in-place") {
			t.Errorf("lm %s -o ./twoop.lmb: exit status %d, want 64; %s", line, exit, stderr)
		}
		stdin := strings.Replace(line, "twoop.lmb", "-", 1) + " --in-place"
		if exit, _, stderr := lmWithStdin(t, "twoop.lmb", strings.Fields(stdin)...); exit != 64 {
			t.Errorf("lm %s: exit status %d, want 64; %s", stdin, exit, stderr)
		}
		onto := strings.Replace(line, "twoop.lmb", "-", 1) + " -o twoop.lmb"
		if exit, _, stderr := lmWithStdin(t, "twoop.lmb", strings.Fields(onto)...); exit != 64 {
			t.Errorf("lm %s <twoop.lmb: exit status %d, want 64; %s", onto, exit, stderr)
		}
		if after := snapshot(t); after != before {
			t.Fatalf("lm %s: the folder was\n%s\nand is\n%s", line, before, after)
		}
	}
	for _, line := range lines {
		mustRun(t, "", strings.Fields(line+" --in-place")...)
		if after := snapshot(t); after == before {
			t.Errorf("lm %s --in-place changed nothing", line)
		}
		if err := os.WriteFile("./twoop.lmb", twoop, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if exit, _, stderr := lm(t, "set", "--in-place", "twoop.lmb", "a=hard"); exit != 66 {
		t.Errorf("exit status %d, want 66; stderr: %s", exit, stderr)
	}
	if err := os.Link("twoop.lmb", "hard"); err != nil {
		t.Fatal(err)
	}
	if exit, _, stderr := lm(t, "set", "--in-place", "twoop.lmb", "a=hard"); exit != 64 {
		t.Errorf("exit status %d, want 64; stderr: %s", exit, stderr)
	}
}
