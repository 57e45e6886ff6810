package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// runInside boots a machine with the program tools/check/guest/inside as PID 1, which runs the
// steps, one in each line (inside/steps.go). No step may fail. The function setUp changes the
// machine before the boot. The machine has /lmrun, and no kernel modules unless setUp calls
// addModules. runInside returns the machine and the text of its console.
func runInside(t *testing.T, setUp func(*machine), backend, steps string) (*machine, string) {
	t.Helper()
	m, console, exit, err := tryRunInside(t, setUp, backend, steps)
	if err != nil {
		t.Fatal(err)
	}
	if exit != 0 {
		t.Fatalf("exit status %d; the console:\n%sthe servers: %v", exit, console, m.serversErr)
	}
	return m, console
}

// tryRunInside is like runInside, but steps may fail, and the machine may be reset. It also
// returns the exit status and the error of the boot.
func tryRunInside(t *testing.T, setUp func(*machine), backend, steps string) (*machine, string, int,
	error) {
	t.Helper()
	return runScenariosInside(t, func(m *machine) {
		m.files["/scenarios/test.txt"] = []byte("scenario Test on any\n" + steps)
		setUp(m)
	}, "any", backend)
}

// addSteps adds steps after those that runInside was called with.
func (m *machine) addSteps(steps string) {
	m.files["/scenarios/test.txt"] = append(m.files["/scenarios/test.txt"], steps...)
}

// runScenariosInside boots a machine that runs the scenarios in /scenarios for a kind of machine.
func runScenariosInside(t *testing.T, setUp func(*machine), kind, backend string) (*machine, string,
	int, error) {
	t.Helper()
	var console bytes.Buffer
	m := &machine{
		kernel: fromEnv(t, "LM_GUEST_KERNEL"), lmrun: fromEnv(t, "LM_GUEST_LMRUN"),
		initProgram: buildForGuest(t, "lightmetal/tools/check/guest/inside",
			"-ldflags", "-s -w "+linkElsewhere),
		files: map[string][]byte{}, args: []string{"scenarios", kind, backend},
		dir: t.TempDir(), timeout: bootTimeout(), stdout: &console,
	}
	m.addFile(t, "/lmrun", m.lmrun)
	m.addFile(t, "/lminit", lminitPath(m.lmrun))
	setUp(m)
	exit, err := m.boot()
	return m, console.String(), exit, err
}

// addFile adds a file of the host to the guest, at the path `guest`.
func (m *machine) addFile(t *testing.T, guest, host string) {
	t.Helper()
	data, err := os.ReadFile(host)
	if err != nil {
		t.Fatal(err)
	}
	m.files[guest] = data
}

// addModules adds all kernel modules of a directory to /modules. An environment variable names the
// directory.
func (m *machine) addModules(t *testing.T, variable string) {
	t.Helper()
	modules, err := filepath.Glob(filepath.Join(fromEnv(t, variable), "*.ko"))
	if err != nil || len(modules) == 0 {
		t.Fatalf("no kernel modules in %s: %v", variable, err)
	}
	for _, path := range modules {
		m.addFile(t, "/modules/"+filepath.Base(path), path)
	}
}

// builtPrograms are the programs that goBuild has built, for reuse by later tests. dir has a
// directory for each combination of architecture and flags. TestMain creates and removes dir.
var builtPrograms struct {
	sync.Mutex
	dir     string
	isBuilt map[string]bool // by path
}

// TestMain creates the directory of builtPrograms, and removes it after the tests.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lightmetal-guest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	builtPrograms.dir, builtPrograms.isBuilt = dir, map[string]bool{}
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// buildForGuest builds a Go program for the guest, with further flags of go build, and returns its
// path.
func buildForGuest(t *testing.T, program string, flags ...string) string {
	t.Helper()
	return goBuild(t, "arm64", program, append([]string{"-ldflags", "-s -w"}, flags...)...)
}

// goBuild builds a Go program for an architecture, once per test process, and returns its path.
// Programs with the same architecture and flags are in one directory.
func goBuild(t *testing.T, arch, program string, flags ...string) string {
	t.Helper()
	builtPrograms.Lock()
	defer builtPrograms.Unlock()
	variant := crc32.ChecksumIEEE([]byte(arch + strings.Join(flags, " ")))
	path := filepath.Join(builtPrograms.dir, fmt.Sprintf("%08x", variant), filepath.Base(program))
	if builtPrograms.isBuilt[path] {
		return path
	}
	args := append([]string{"build", "-trimpath", "-o", path}, flags...)
	build := exec.Command("go", append(args, program)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", program, err, out)
	}
	builtPrograms.isBuilt[path] = true
	return path
}
