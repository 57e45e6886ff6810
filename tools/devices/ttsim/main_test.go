package ttsim

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lightmetal/hal"
)

func TestMain(m *testing.M) {
	ChildMain()
	// Otherwise each child process takes a second to end under -race.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	dir, err := os.MkdirTemp("", "ttsim")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	libraryDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var libraryDir string

// compileLibrary compiles source to a shared library with gcc, unless an earlier call has done so,
// and returns its path.
func compileLibrary(t *testing.T, name, source string, flags ...string) string {
	t.Helper()
	if !built {
		t.Skip("skipped: built without cgo")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("skipped: no gcc to build the fake simulator with")
	}
	library := filepath.Join(libraryDir, name+".so")
	if _, err := os.Stat(library); err == nil {
		return library
	}
	flags = append(flags, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl")
	if out, err := exec.Command("gcc", flags...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return library
}

const fakeSource = "../../capture/record/testdata/fakesim.c"

// fakeLibraries returns the path of a fake simulator for each board.
func fakeLibraries(t *testing.T) map[string]string {
	return map[string]string{
		"wormhole":  compileLibrary(t, "wormhole", fakeSource),
		"blackhole": compileLibrary(t, "blackhole", fakeSource, "-DBLACKHOLE"),
	}
}

// vendorLibrary returns the path of the vendor's simulator of a board. If the environment names
// none, the test is skipped.
func vendorLibrary(t *testing.T, board string) string {
	t.Helper()
	variable := map[string]string{"wormhole": "LM_TTSIM_WH", "blackhole": "LM_TTSIM_BH"}[board]
	library := os.Getenv(variable)
	if library == "" || !built {
		t.Skipf("skipped: %s names no simulator, or there is no cgo", variable)
	}
	return library
}

// openDevice opens a simulator's library until the end of the test.
func openDevice(t *testing.T, library string) *Device {
	t.Helper()
	d, err := Open(Prefix + library)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// requireOK ends the test if a step failed.
func requireOK(t *testing.T, d *Device, step string, code hal.Code) {
	t.Helper()
	if code != hal.OK {
		t.Fatalf("%s: code %v, refusal %q", step, code, d.Refusal())
	}
}
