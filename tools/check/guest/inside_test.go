package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// inside boots the machine with the program of tools/check/guest/inside as process
// 1, which carries out one scenario and must end with 0. Set up may add to the
// machine, which has /lmrun and the kernel modules only where addModules puts them.
func inside(t *testing.T, setUp func(*machine), scenario string, args ...string) (*machine,
	string) {
	t.Helper()
	m, console, exit := insideExit(t, setUp, scenario, args...)
	if exit != 0 {
		t.Fatalf("scenario %s: exit status %d; the console says:\n%sthe servers: %v", scenario,
			exit, console, m.served)
	}
	return m, console
}

// insideExit is inside with any exit status.
func insideExit(t *testing.T, setUp func(*machine), scenario string, args ...string) (*machine,
	string, int) {
	t.Helper()
	m, console, exit, err := insideRun(t, setUp, scenario, args...)
	if err != nil {
		t.Fatal(err)
	}
	return m, console, exit
}

// insideRun is inside with any end, a machine that is reset among them.
func insideRun(t *testing.T, setUp func(*machine), scenario string, args ...string) (*machine,
	string, int, error) {
	t.Helper()
	var console bytes.Buffer
	dir := t.TempDir()
	m := &machine{
		kernel: tool(t, "LM_GUEST_KERNEL"), lmrun: tool(t, "LM_GUEST_LMRUN"),
		init:  static(t, "lightmetal/tools/check/guest/inside", "-ldflags", "-s -w "+elsewhere),
		files: map[string][]byte{}, args: append([]string{scenario}, args...), dir: dir,
		timeout: bootLimit, stdout: &console,
	}
	m.add(t, "/lmrun", m.lmrun)
	m.add(t, "/lminit", lminit(m.lmrun))
	if setUp != nil {
		setUp(m)
	}
	exit, err := m.boot()
	return m, console.String(), exit, err
}

// add puts a host file into the guest.
func (m *machine) add(t *testing.T, guest, host string) {
	t.Helper()
	data, err := os.ReadFile(host)
	if err != nil {
		t.Fatal(err)
	}
	m.files[guest] = data
}

// addModules puts all kernel modules of the folder that a variable names into
// /modules.
func (m *machine) addModules(t *testing.T, variable string) {
	t.Helper()
	modules, err := filepath.Glob(filepath.Join(tool(t, variable), "*.ko"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("no kernel modules in %s: %v", variable, err)
	}
	for _, path := range modules {
		m.add(t, "/modules/"+filepath.Base(path), path)
	}
}

// static builds a program for the guest, with further flags of go build.
func static(t *testing.T, program string, flags ...string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), filepath.Base(program))
	build := exec.Command("go",
		append(append([]string{"build", "-trimpath", "-ldflags", "-s -w"}, flags...), "-o", binary,
			program)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}
