package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb/lmbtest"
	"lightmetal/tools/ship/bootimage/initramfs"
)

// assembleListing writes the image of a listing to a file with the given name, and returns its
// path.
func assembleListing(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, lmbtest.File(t, text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConfigurationWithCollidingImagesIsRejected checks images that can break each other if they
// run in the order of the configuration, including restarts. With `collisions allowed`, the
// configuration must be accepted.
func TestConfigurationWithCollidingImagesIsRejected(t *testing.T) {
	const head = "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0 size 1MiB\n"
	a := assembleListing(t, "a.lmb",
		head+"init:\n  write.4 r+0x20 0x80\ncompute:\n  write.4 r+0x8 5\n"+
			"  poll.4 r+0x20 & 0x1 == 0 within 1s\n")
	b := assembleListing(t, "b.lmb", head+"main:\n  write.4 r+0x8 3\n  write.4 r+0x20 0\n")
	const (
		initA    = "image a.lmb\nsequence init\n"
		computeA = "image a.lmb\nsequence compute\n"
		mainB    = "image b.lmb\n"
		wholeA   = "image a.lmb\nbefore init\nsequence compute\n"
	)
	on := func(step, device string) string { return step + "device " + device + "\n" }
	for _, test := range []struct {
		config string
		broken bool
	}{
		{initA + mainB + computeA, true},
		{initA + computeA + mainB, false},
		{wholeA + mainB + wholeA, false},
		{mainB + initA + computeA, false},
		{computeA + mainB, false},
		{"on-success restart forever\n" + computeA + mainB, true},
		{"on-failure restart 3 reboot\n" + computeA + mainB, true},
		{"on-failure rescan 1, reboot\n" + computeA + mainB, true},
		{"on-success restart forever\n" + wholeA + mainB, false},
		{initA + mainB + initA + computeA, false},
		{"collisions allowed\n" + initA + mainB + computeA, false},
		{on(initA, "pci:0000:00:02.0") + on(mainB, "pci:0000:00:03.0") +
			on(computeA, "pci:0000:00:02.0"), false},
		{on(initA, "pci:0000:00:02.0") + on(mainB, "vfio:0000:00:02.0") +
			on(computeA, "pci:0000:00:02.0"), true},
		{on(initA, "pci:1234:11e8") + on(mainB, "pci:0000:00:03.0") + on(computeA, "pci:1234:11e8"),
			true},
	} {
		parts := []initramfs.File{{Path: "/a.lmb", Data: []byte(readFile(t, a))},
			{Path: "/b.lmb", Data: []byte(readFile(t, b))},
			{Path: "/" + configName, Data: []byte(test.config)}}
		err := fail.Try(func() { new(request).checkConfiguration(parts) })
		named := err != nil && strings.Contains(err.Error(), "/a.lmb: ") &&
			strings.Contains(err.Error(), "compute") &&
			strings.Contains(err.Error(),
				"command 1 of main in /b.lmb stores to the same place: edu 1234:11e8, BAR 0 0x20 "+
					"to 0x23")
		if test.broken != named || !test.broken && err != nil {
			t.Errorf("%s: error %v, want a collision: %v", test.config, err, test.broken)
		}
	}
	if _, err := buildImage(t, "--board", "qemu-virt", "--config",
		writeTempFile(t, "c.conf", initA+mainB+computeA), a, b); err == nil ||
		!strings.Contains(err.Error(), "one image can break another") {
		t.Errorf("error %v, want \"one image can break another\"", err)
	}
	if _, err := buildImage(t, "--board", "qemu-virt", "--config",
		writeTempFile(t, "c.conf", "collisions allowed\non-success restart forever\n"+initA+mainB+
			computeA),
		a, b); err != nil {
		t.Error(err) // the check must also end for a configuration that always restarts
	}
	if _, err := buildImage(t, "--board", "qemu-virt", "--config",
		writeTempFile(t, "c.conf", "collisions no\n"+mainB), b); err == nil ||
		!strings.Contains(err.Error(), "lmrun.conf:1: write `collisions allowed`, "+
			"not `collisions no`") {
		t.Errorf("collisions no: error %v, want \"write `collisions allowed`\"", err)
	}
}

func TestImageOnAMountedFileSystemIsReportedAsUnchecked(t *testing.T) {
	var out strings.Builder
	config := writeTempFile(t, "c.conf",
		"mount /dev/mmcblk0p3 /data ext4 ro\nimage edu.lmb\nimage /data/model.lmb\n")
	err := run([]string{"image", "--lmrun", verifierPath, "--lminit", verifierPath, "--verifier",
		verifierPath, "--out", filepath.Join(t.TempDir(), "image"), "--board", "qemu-virt",
		"--config", config, edu}, &out)
	if want := "warning: /edu.lmb: the image has no sequence safe"; !strings.Contains(out.String(),
		want) {
		t.Errorf("output %s, want %q", &out, want)
	}
	if err != nil || !strings.Contains(out.String(),
		"/data/model.lmb is on a file system that the board mounts, so the image was not") {
		t.Errorf("error %v; output %s, want a line about /data/model.lmb", err, &out)
	}
}
