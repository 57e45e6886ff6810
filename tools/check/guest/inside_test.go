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

// inside boots the machine with the program of tools/check/guest/inside as PID 1, which runs
// steps, one a line (inside/steps.go); none may fail. Set up may add to the machine, which has
// /lmrun, and kernel modules only where addModules puts them.
func inside(t *testing.T, setUp func(*machine), backend, steps string) (*machine, string) {
	t.Helper()
	m, console, exit, err := insideRun(t, setUp, backend, steps)
	if err != nil {
		t.Fatal(err)
	}
	if exit != 0 {
		t.Fatalf("exit status %d; the console says:\n%sthe servers: %v", exit, console, m.served)
	}
	return m, console
}

// insideRun is inside with any end, a machine that is reset among them.
func insideRun(t *testing.T, setUp func(*machine), backend, steps string) (*machine, string, int,
	error) {
	t.Helper()
	return insideScenarios(t, func(m *machine) {
		m.files["/scenarios/test.txt"] = []byte("scenario Test on any\n" + steps)
		setUp(m)
	}, "any", backend)
}

// addSteps adds steps after those of inside.
func (m *machine) addSteps(steps string) {
	m.files["/scenarios/test.txt"] = append(m.files["/scenarios/test.txt"], steps...)
}

// insideScenarios runs the scenarios in /scenarios for a kind of machine.
func insideScenarios(t *testing.T, setUp func(*machine), kind, backend string) (*machine, string,
	int, error) {
	t.Helper()
	var console bytes.Buffer
	m := &machine{
		kernel: tool(t, "LM_GUEST_KERNEL"), lmrun: tool(t, "LM_GUEST_LMRUN"),
		init:  static(t, "lightmetal/tools/check/guest/inside", "-ldflags", "-s -w "+elsewhere),
		files: map[string][]byte{}, args: []string{"scenarios", kind, backend}, dir: t.TempDir(),
		timeout: bootLimit, stdout: &console,
	}
	m.add(t, "/lmrun", m.lmrun)
	m.add(t, "/lminit", lminit(m.lmrun))
	setUp(m)
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

// programs holds what goBuild has built: a folder for each combination of architecture and
// flags, in one that TestMain removes. Most machines run the same programs.
var programs struct {
	sync.Mutex
	folder string
	built  map[string]bool // by path
}

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "lightmetal-guest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs.folder, programs.built = folder, map[string]bool{}
	status := m.Run()
	os.RemoveAll(folder)
	os.Exit(status)
}

// static builds a program for the guest, with further flags of go build.
func static(t *testing.T, program string, flags ...string) string {
	t.Helper()
	return goBuild(t, "arm64", program, append([]string{"-ldflags", "-s -w"}, flags...)...)
}

// goBuild builds a Go program for an architecture, once per test process, and returns its
// path. Programs of the same architecture and flags are in one folder.
func goBuild(t *testing.T, arch, program string, flags ...string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	variant := crc32.ChecksumIEEE([]byte(arch + strings.Join(flags, " ")))
	path := filepath.Join(programs.folder, fmt.Sprintf("%08x", variant), filepath.Base(program))
	if programs.built[path] {
		return path
	}
	args := append([]string{"build", "-trimpath", "-o", path}, flags...)
	build := exec.Command("go", append(args, program)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	programs.built[path] = true
	return path
}
