package main

import (
	"debug/elf"
	"os"
	"path/filepath"
	"testing"
)

// libraries is where the guest's loader looks first.
const libraries = "/usr/lib/aarch64-linux-gnu"

// addDebian puts programs of LM_GUEST_PROGRAMS into the guest, with the loader
// and all libraries that they are linked to.
func (m *machine) addDebian(t *testing.T, paths ...string) {
	t.Helper()
	root := tool(t, "LM_GUEST_PROGRAMS")
	const loader = "/lib/ld-linux-aarch64.so.1"
	m.add(t, loader, root+"/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1")
	for _, path := range paths {
		m.addLinked(t, root, root+path, path)
	}
}

// addLinked adds a file at a path, and what it needs.
func (m *machine) addLinked(t *testing.T, root, host, guest string) {
	t.Helper()
	if m.files[guest] != nil {
		return
	}
	m.add(t, guest, host)
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
		m.addLinked(t, root, library(t, root, name), libraries+"/"+name)
	}
}

// library finds a library of the packages.
func library(t *testing.T, root, name string) string {
	t.Helper()
	for _, folder := range []string{libraries, "/lib/aarch64-linux-gnu", "/usr/lib"} {
		if path, err := filepath.EvalSymlinks(filepath.Join(root, folder, name)); err == nil {
			return path
		}
	}
	matches, _ := filepath.Glob(filepath.Join(root, libraries, "*", name))
	if len(matches) == 0 {
		t.Fatalf("no %s among the packages", name)
	}
	return matches[0]
}

// addPlugins adds what matches a pattern in the packages, where it is there.
func (m *machine) addPlugins(t *testing.T, pattern string) {
	t.Helper()
	root := tool(t, "LM_GUEST_PROGRAMS")
	paths, _ := filepath.Glob(root + pattern)
	if len(paths) == 0 {
		t.Fatalf("nothing is %s", pattern)
	}
	for _, path := range paths {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(real); err == nil && info.Mode().IsRegular() {
			m.addLinked(t, root, real, path[len(root):])
		}
	}
}
