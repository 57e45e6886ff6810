package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/tools/image/lmb/lmbtest"
)

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
