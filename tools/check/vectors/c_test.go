package main

// This file runs all vectors with the C player.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/tools/check/effort"
	"lightmetal/tools/check/vectors/reader"
)

// compiled has the programs of compileC, by their sources and options, in compiledFolder.
var (
	compiled       = map[string]string{}
	compiledFolder string
)

func TestMain(m *testing.M) {
	var err error
	if compiledFolder, err = os.MkdirTemp("", "lightmetal-vectors-"); err != nil {
		panic(err)
	}
	status := m.Run()
	os.RemoveAll(compiledFolder)
	os.Exit(status)
}

// compileC builds a program of testdata/vectors/c with the C player, once for all tests, with the
// address and undefined-behaviour sanitizers. Options of the compiler, such as -DLMPLAY_TEXT=0, may
// follow the sources.
func compileC(t testing.TB, sources ...string) (program string) {
	t.Helper()
	effort.SkipShort(t)
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatal("gcc is not installed")
		}
		t.Skip("gcc is not installed, so the C player is not tested (LM_TEST_REQUIRED=1 makes " +
			"this a failure)")
	}
	key := strings.Join(sources, " ")
	if compiled[key] != "" {
		return compiled[key]
	}
	program = filepath.Join(compiledFolder, fmt.Sprint(len(compiled)))
	arguments := []string{"-std=c11", "-D_GNU_SOURCE", "-O0", "-g", "-Wall", "-Wextra", "-Wshadow",
		"-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", program,
		"../../../runtime/c/lmplay.c"}
	if sources[0] == "check.c" {
		headers := filepath.Join(folder, "c")
		arguments = append(arguments, `-DLMPLAY_CONFIG="config.h"`, "-I", headers)
	}
	for _, source := range sources {
		if !strings.HasPrefix(source, "-") {
			source = filepath.Join(folder, "c", source)
		}
		arguments = append(arguments, source)
	}
	if out, err := exec.Command("gcc", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	compiled[key] = program
	return program
}

// TestCPlayerAgreesWithVectors runs the C player with lmplay_run and in steps, with accesses
// through hooks and with accesses of the player itself to mapped memory.
func TestCPlayerAgreesWithVectors(t *testing.T) {
	program := compileC(t, "check.c", "port.c", "vector.c")
	paths, err := filepath.Glob(filepath.Join(folder, "*.vec"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s has no vectors, or error %v", folder, err)
	}
	for _, setting := range []string{"STEPS=0", "STEPS=1", "STEPS=7", "MAPPED=1"} {
		t.Run(setting, func(t *testing.T) {
			c := exec.Command(program, append([]string{folder}, paths...)...)
			c.Env = append(os.Environ(), setting)
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("check.c: %v\n%s", err, out)
			}
			t.Logf("evidence: %s", strings.TrimSpace(string(out)))
		})
	}
}

// TestCPlayerHandlesValidAndInvalidCalls runs calls.c, which calls each function and checks the
// results: wrong arguments, loads that fail, faults, stops, inputs, and accesses to mapped memory.
func TestCPlayerHandlesValidAndInvalidCalls(t *testing.T) {
	var paths []string
	for _, name := range []string{"images/edu-factorial", "images/wh.twoop", "images/edu-dma",
		"vectors/wormhole-host", "vectors/fixed", "vectors/commands"} {
		paths = append(paths, filepath.Join(folder, "..", name+".lmb"))
	}
	if out, err := exec.Command(compileC(t, "calls.c"), paths...).CombinedOutput(); err != nil {
		t.Fatalf("calls.c: %v\n%s", err, out)
	}
}

// TestEveryReaderFindsAChangedVector changes the steps and the verdict of vectors. The oracle, the
// runtime and the C player must each detect the change.
func TestEveryReaderFindsAChangedVector(t *testing.T) {
	changes := []struct{ name, vector, old, changed string }{
		{"value of a store", "write", "0x1 1 0xa1", "0x1 1 0xa2"},
		{"width of a load", "expect", "load device0.bar0 0x2 2 ", "load device0.bar0 0x2 4 "},
		{"one access more", "write", "end done", "store device0.bar0 0x0 4 0x0\nend done"},
		{"one access less", "write", "store device0.bar0 0x800 4 0x1\n", ""},
		{"byte of a copy", "copy-in-bulk", "bar0 0x801 0102", "bar0 0x801 0103"},
		{"code", "expect-fails", "end expect-failed", "end compare-failed"},
		{"command", "expect-fails", "command 1", "command 2"},
		{"value seen", "expect-fails", "seen 0x4", "seen 0x5"},
		{"code of safe", "expect-fails", "safe done", "safe bus-fault"},
		{"ignored failures", "ignored-failures", "ignored 2", "ignored 1"},
		{"output", "copy-out-exact", "output 1 11", "output 1 12"},
		{"elapsed time", "delay", "elapsed 10000001000", "elapsed 10000001001"},
		{"space", "write", "host4", "host3"},
		{"place of an error", "opcode-0", "bad-image command 0", "bad-image command 1"},
		{"code of an error", "other-vendor", "reject wrong-device", "reject no-device"},
		{"image that is good", "opcode-0", "reject bad-image command 0", "run 0"},
		{"image that is bad", "unchanged", "run 2", "reject bad-image command 0"},
		{"query", "device-gone-before-expect", "query 0\n", "query 0\nquery 0\n"},
	}
	c := compileC(t, "check.c", "port.c", "vector.c")
	texts := map[string]string{}
	for _, vectors := range reader.Vectors(t, folder) {
		for _, v := range vectors {
			texts[v.Name] = v.String()
		}
	}
	for _, change := range changes {
		t.Run(change.name, func(t *testing.T) {
			text := strings.Replace(texts[change.vector], change.old, change.changed, 1)
			if text == texts[change.vector] {
				t.Fatalf("vector %s has no %q", change.vector, change.old)
			}
			path := filepath.Join(t.TempDir(), "changed.vec")
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(c, folder, path).CombinedOutput()
			exit, isExit := err.(*exec.ExitError)
			if !isExit || exit.ExitCode() != 1 || !strings.Contains(string(out), "1 differ") {
				t.Errorf("C player: %v, output %s; want exit status 1 and \"1 differ\"", err, out)
			}
			for name, agrees := range map[string]bool{
				"the oracle":  agreesWith(t, text, &reader.Oracle{}),
				"the runtime": agreesWith(t, text, &reader.Runtime{}),
			} {
				if agrees {
					t.Errorf("%s detects no difference", name)
				}
			}
		})
	}
	t.Run("fence", func(t *testing.T) {
		const fenceThenStore = "fence\nstore"
		text := strings.Replace(texts["fence"], fenceThenStore, "fence\nfence\nstore", 1)
		if text == texts["fence"] {
			t.Fatalf("vector fence has no %q", fenceThenStore)
		}
		if agreesWith(t, text, &reader.Oracle{}) {
			t.Error("the oracle detects no difference")
		}
	})
}
