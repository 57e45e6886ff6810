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
	// or each child takes a second to end under -race
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	dir, err := os.MkdirTemp("", "ttsim")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	scratch = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var scratch string // for compiled libraries

// compiled gives the shared library that gcc makes of source.
func compiled(t *testing.T, name, source string, flags ...string) string {
	t.Helper()
	if !built {
		t.Skip("skipped: built without cgo")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("skipped: no gcc to build the fake simulator with")
	}
	library := filepath.Join(scratch, name+".so")
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

// fakes gives a fake simulator of each board.
func fakes(t *testing.T) map[string]string {
	return map[string]string{
		"wormhole":  compiled(t, "wormhole", fakeSource),
		"blackhole": compiled(t, "blackhole", fakeSource, "-DBLACKHOLE"),
	}
}

// vendors gives the vendor's simulator of a board, if the environment names one.
func vendors(t *testing.T, board string) string {
	t.Helper()
	variable := map[string]string{"wormhole": "LM_TTSIM_WH", "blackhole": "LM_TTSIM_BH"}[board]
	library := os.Getenv(variable)
	if library == "" || !built {
		t.Skipf("skipped: %s names no simulator, or there is no cgo", variable)
	}
	return library
}

func opened(t *testing.T, library string) *Device {
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

func check(t *testing.T, d *Device, what string, code hal.Code) {
	t.Helper()
	if code != hal.OK {
		t.Fatalf("%s: %v: %s", what, code, d.Refusal())
	}
}
