package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
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
