package main

import (
	"debug/elf"
	"os"
	"path/filepath"
	"testing"
)

// libraryDir is the first directory in which the guest's loader searches for libraries.
const libraryDir = "/usr/lib/aarch64-linux-gnu"

// addDebianPrograms adds programs of Debian to the guest, with the loader and all libraries that
// they need. LM_GUEST_PROGRAMS names the directory with Debian's packages.
func (m *machine) addDebianPrograms(t *testing.T, paths ...string) {
	t.Helper()
	root := fromEnv(t, "LM_GUEST_PROGRAMS")
	const loader = "/lib/ld-linux-aarch64.so.1"
	m.addFile(t, loader, root+"/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1")
	for _, path := range paths {
		m.addWithLibraries(t, root, root+path, path)
	}
}

// addWithLibraries adds a program or library to the guest, and all libraries that it needs.
func (m *machine) addWithLibraries(t *testing.T, root, host, guest string) {
	t.Helper()
	if m.files[guest] != nil {
		return
	}
	m.addFile(t, guest, host)
	file, err := elf.Open(host)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	needed, err := file.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range needed {
		m.addWithLibraries(t, root, findLibrary(t, root, name), libraryDir+"/"+name)
	}
}

// findLibrary returns the path of a library in the packages.
func findLibrary(t *testing.T, root, name string) string {
	t.Helper()
	for _, dir := range []string{libraryDir, "/lib/aarch64-linux-gnu", "/usr/lib"} {
		if path, err := filepath.EvalSymlinks(filepath.Join(root, dir, name)); err == nil {
			return path
		}
	}
	matches, _ := filepath.Glob(filepath.Join(root, libraryDir, "*", name))
	if len(matches) == 0 {
		t.Fatalf("no %s among the packages", name)
	}
	return matches[0]
}

// addPlugins adds all files of the packages that match a pattern, at the same paths in the guest.
func (m *machine) addPlugins(t *testing.T, pattern string) {
	t.Helper()
	root := fromEnv(t, "LM_GUEST_PROGRAMS")
	paths, _ := filepath.Glob(root + pattern)
	if len(paths) == 0 {
		t.Fatalf("no file matches %s", pattern)
	}
	for _, path := range paths {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(real); err == nil && info.Mode().IsRegular() {
			m.addWithLibraries(t, root, real, path[len(root):])
		}
	}
}
