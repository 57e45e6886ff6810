package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lightmetal/tools/image/lmb"
)

func TestVFIOFunctionsAreReadFromFlags(t *testing.T) {
	t.Parallel()
	flags := []string{"-seal", "-device", "vfio:1e52:401e", "--device=vfio:0000:00:04.0", "-device",
		"pci:1234:11e8", "-output", "y=vfio:1:2", "-device"}
	if got := vfioFunctions(flags); !slices.Equal(got, []string{"1e52:401e", "0000:00:04.0"}) {
		t.Errorf("functions %v, want 1e52:401e and 0000:00:04.0", got)
	}
}

func TestVFIOModulesAndBindingsAreConfigured(t *testing.T) {
	t.Parallel()
	m := &machine{files: map[string][]byte{}, moduleDir: t.TempDir()}
	if err := m.setUpVFIO([]string{"1e52:401e"}, "/image.lmb"); err == nil {
		t.Error("setUpVFIO accepted a directory without modules")
	}
	for _, name := range vfioModules {
		if err := os.WriteFile(filepath.Join(m.moduleDir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.setUpVFIO([]string{"1e52:401e", "0000:00:04.0", "1e52:b140"},
		"/image.lmb"); err != nil {
		t.Fatal(err)
	}
	want := `module /modules/virtio-iommu.ko
module /modules/vfio.ko
module /modules/vfio_iommu_type1.ko
module /modules/vfio-pci-core.ko
module /modules/vfio-pci.ko ids=1e52:401e,1e52:b140
bind vfio-pci 0000:00:04.0
image /image.lmb
`
	if got := string(m.files["/lmrun.conf"]); got != want ||
		string(m.files["/modules/vfio.ko"]) != "vfio.ko" {
		t.Errorf("the configuration is\n%s\nwant\n%s\nor vfio.ko is wrong", got, want)
	}
}

// newTwoopInput returns a new input a for the program twoop, and the expected output d for a and
// the default input b. The program computes max(a + b - 100, 0).
func newTwoopInput(image *lmb.Image) (input, want []byte) {
	var defaultB []byte
	for i := range image.Tensors {
		if image.Tensors[i].Name == "b" {
			defaultB = image.Tensors[i].Data
		}
	}
	for i := range uint32(256) {
		a, b := int32(i*i)-1000, int32(littleEndianValue(defaultB[4*i:4*i+4]))
		input = binary.LittleEndian.AppendUint32(input, uint32(a))
		want = binary.LittleEndian.AppendUint32(want, uint32(max(a+b-100, 0)))
	}
	return input, want
}

// TestReplayOnServedMockWithEachBackend replays twoop with a new input on a served mock, with each
// backend, as `./build.sh qemu IMAGE --with` does.
func TestReplayOnServedMockWithEachBackend(t *testing.T) {
	t.Parallel()
	path, image := makeImage(t, append([]string{"import"}, twoopImport("wh", "1,1")...)...)
	input, want := newTwoopInput(image)
	for _, device := range []string{"pci:1e52:401e", "vfio:1e52:401e", "vfio:0000:00:08.0"} {
		t.Run(device, func(t *testing.T) {
			dir := t.TempDir()
			a, d := filepath.Join(dir, "a"), filepath.Join(dir, "d")
			if err := os.WriteFile(a, input, 0o600); err != nil {
				t.Fatal(err)
			}
			var console bytes.Buffer
			m := &machine{kernel: fromEnv(t, "LM_GUEST_NEW_KERNEL"),
				moduleDir: fromEnv(t, "LM_GUEST_NEW_MODULES"), lmrun: fromEnv(t, "LM_GUEST_LMRUN"),
				files: map[string][]byte{},
				dir:   dir, timeout: bootTimeout, stdout: &console}
			m.addServed(t, "mock:wormhole")
			exit, err := m.replay(path, []string{"-device", device, "-input", "a=" + a, "-output",
				"d=" + d})
			if exit != 0 || err != nil || m.serversErr != nil {
				t.Fatalf("exit status %d, error %v, the server: %v; the console:\n%s", exit, err,
					m.serversErr, &console)
			}
			if got, err := os.ReadFile(d); err != nil || !bytes.Equal(got, want) {
				t.Errorf("output d has other values than expected, or error %v; the console:\n%s",
					err, &console)
			}
		})
	}
}
