package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestKernelPackagesMayLackModules unpacks kernel packages like build.sh. A package must have the
// kernel and uio.ko. Other modules may be missing, because other kernels have these drivers built
// in. A damaged package must be rejected.
func TestKernelPackagesMayLackModules(t *testing.T) {
	for _, tool := range []string{"dpkg-deb", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	const drivers = "usr/lib/modules/6.12/kernel/drivers/"
	for _, test := range []struct {
		name    string
		files   []string
		damaged bool
		want    bool
	}{
		{"all", []string{drivers + "uio/uio.ko", drivers + "dax/dax.ko"}, false, true},
		{"dax built in", []string{drivers + "uio/uio.ko"}, false, true},
		{"no uio", []string{drivers + "dax/dax.ko"}, false, false},
		{"damaged", []string{drivers + "uio/uio.ko"}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			tree := filepath.Join(dir, "tree")
			writeFile(t, filepath.Join(tree, "DEBIAN/control"), "Package: kernel\nVersion: 1\n"+
				"Architecture: all\nMaintainer: nobody\nDescription: a kernel\n")
			writeFile(t, filepath.Join(tree, "boot/vmlinuz-6.12"), "kernel")
			for _, name := range test.files {
				writeFile(t, filepath.Join(tree, name), "module")
			}
			deb := filepath.Join(dir, "apt/linux/linux.deb")
			writeFile(t, deb, "")
			runShell(t, dir, "dpkg-deb --root-owner-group -b tree "+deb)
			if test.damaged {
				info, err := os.Stat(deb)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Truncate(deb, info.Size()-40); err != nil {
					t.Fatal(err)
				}
			}
			unpack := exec.Command("bash", "-c", "set -euo pipefail; cache=$PWD; source "+
				absolutePath(t, buildParts+"/fetch.sh")+"; unpack_kernel linux kernel modules")
			unpack.Dir = dir
			out, err := unpack.CombinedOutput()
			if got := err == nil; got != test.want {
				t.Fatalf("unpacked: %t, want %t: %v\n%s", got, test.want, err, out)
			}
			_, err = os.Stat(filepath.Join(dir, "modules/uio.ko"))
			if got := err == nil; got != test.want {
				t.Errorf("modules/uio.ko exists: %t, want %t", got, test.want)
			}
		})
	}
}

// writeFile writes a file and creates its folders.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
