package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/tools/image/lmb/lmbtest"
)

// This file tests programs from which build tags leave out what a product does not need.

// omittableOptions are options of a build with the tag signed, and the build tags that omit them.
var omittableOptions = []struct {
	tag   string
	flags []string // rejected with a message that names the tag
	help  string   // text of -help that the tag removes
}{
	{"norings", []string{"-input a=ring:NONE", "-output d=ring:NONE"}, "ring:FILE"},
	{"nowatchdog", []string{"-watchdog /nowhere/watchdog"}, "-watchdog"},
	{"nolock", []string{"-lock"}, "-lock"},
	{"nofaults", []string{"-faults /nowhere/faults"}, "-faults"},
	{"nojson", []string{"-json"}, "-json"},
	{"nocounter", []string{"-key /nowhere/keys -version-counter /nowhere/counter"},
		"-version-counter"},
}

// buildRunner builds lmrun with build tags and the mock devices.
func buildRunner(t *testing.T, tags string) string {
	t.Helper()
	runner := filepath.Join(t.TempDir(), "lmrun")
	build := exec.Command("go", "build", "-tags", "mock,"+tags, "-o", runner, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build -tags mock,%s: %v\n%s", tags, err, out)
	}
	return runner
}

func TestOmittedOptionErrorNamesTheTag(t *testing.T) {
	all := []string{}
	for _, o := range omittableOptions {
		all = append(all, o.tag)
	}
	dir := t.TempDir()
	image, input := filepath.Join(dir, "image.lmb"), filepath.Join(dir, "a")
	inputs, results := frameData(1)
	if err := os.WriteFile(image, lmbtest.File(t, concatListing), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(input, inputs, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tags := range append([]string{strings.Join(all, ",")}, all...) {
		t.Run(tags, func(t *testing.T) {
			runner := buildRunner(t, "signed,"+tags)
			help, err := exec.Command(runner, "-help").Output()
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range omittableOptions {
				if isLeftOut := strings.Contains(tags, o.tag); isLeftOut {
					checkRejected(t, runner, image, o.tag, o.flags)
				}
				hasHelp := strings.Contains(string(help), o.help)
				if hasHelp == strings.Contains(tags, o.tag) {
					t.Errorf("-help contains %q: %v, want %v", o.help, hasHelp, !hasHelp)
				}
			}
			// A replay on a mock device still works.
			output := filepath.Join(t.TempDir(), "d")
			out, err := exec.Command(runner, "-device", "mock:ivshmem", "-input", "a="+input,
				"-output", "d="+output, image).CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), "lmrun: done: main") {
				t.Errorf("lmrun: %v, want \"lmrun: done: main\"; output: %s", err, out)
			}
			if got, err := os.ReadFile(output); string(got) != string(results) {
				t.Errorf("output: %x, %v; want %x", got, err, results)
			}
		})
	}
}

// checkRejected runs lmrun with each flag. It must end with status 64 and name the tag.
func checkRejected(t *testing.T, runner, image, tag string, flags []string) {
	t.Helper()
	for _, flag := range flags {
		c := exec.Command(runner, append(strings.Fields(flag), "-check", image)...)
		out, _ := c.CombinedOutput()
		want := "built with the tag `" + tag
		if c.ProcessState.ExitCode() != 64 || !strings.Contains(string(out), want) {
			t.Errorf("lmrun %s: %v, %s; want exit status 64 and %q", flag, c.ProcessState, out,
				want)
		}
	}
}

// TestDefaultDeviceIsOfABackendThatIsBuiltIn uses ids that no device of a machine has.
func TestDefaultDeviceIsOfABackendThatIsBuiltIn(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image.lmb")
	data := lmbtest.File(t, "lightmetal 1\ndevice acc abcd:0555 bar0 4KiB\n"+
		"rule r bar0 widths 4\nwindow regs bar0 offset 0 size 4KiB\nmain:\n"+
		"  write.4 regs+0x10 0x1\n")
	if err := os.WriteFile(image, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for tags, names := range map[string][2]string{
		"backend_pci":              {"pci:abcd:0555", "`pci:1234:11e8`"},
		"backend_vfio":             {"vfio:abcd:0555", "`vfio:0000:01:00.0`"},
		"backend_tt":               {"tt:/dev/tenstorrent/0", "`tt:/dev/tenstorrent/0`"},
		"backend_pci,backend_vfio": {"pci:abcd:0555", "`pci:1234:11e8` `vfio:0000:01:00.0`"},
	} {
		t.Run(tags, func(t *testing.T) {
			runner := buildRunner(t, tags)
			c := exec.Command(runner, image)
			out, _ := c.CombinedOutput()
			want := "lmrun: uses -device " + names[0] + "\n"
			if c.ProcessState.ExitCode() != 69 || !strings.HasPrefix(string(out), want) {
				t.Errorf("lmrun: %v, %s; want exit status 69 and %q", c.ProcessState, out, want)
			}
			out, _ = exec.Command(runner, "-device", "none:1", image).CombinedOutput()
			want = "unknown device \"none:1\"; this program opens for example " + names[1] + "\n"
			if !strings.HasSuffix(string(out), want) {
				t.Errorf("lmrun -device none:1: %s; want %q", out, want)
			}
		})
	}
}
