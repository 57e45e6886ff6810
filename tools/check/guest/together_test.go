package main

import (
	"os"
	"path/filepath"
	"testing"

	"lightmetal/hal"
)

// TestConflictingImagesOfABootImageBreakEachOther runs the sequence init of an NVMe image whose
// queues are in the memory of another device, then an image that stores to that memory, and then
// the sequence frame. If bootimage reports a collision of the images, frame must fail on QEMU's
// devices. If it reports none, frame must succeed.
func TestConflictingImagesOfABootImageBreakEachOther(t *testing.T) {
	t.Parallel()
	const storingListing = "lightmetal 1\ntarget ivshmem 1af4:1110 bar2 1MiB\n" +
		"window ram bar2 offset 0x40000 size 64KiB\n" +
		"main:\n  fill.8 ram+0x0 <- 0xffffffffffffffff size 64KiB\n"
	const nvmeConfig = "\nimage nvme-p2p.lmb\ndevice pci:1b36:0010\ndevice pci:1af4:1110\nsequence "
	dir := t.TempDir()
	assemble := func(name, source string) string {
		_, image := makeImage(t, "asm", source)
		path := filepath.Join(dir, name)
		if err := os.Rename(writeImage(t, image), path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	nvmeImage := assemble("nvme-p2p.lmb", "../../../testdata/listings/nvme-p2p.lms")
	source := filepath.Join(dir, "behind.lms")
	if err := os.WriteFile(source, []byte(storingListing), 0o644); err != nil {
		t.Fatal(err)
	}
	boot := func(configStart, otherImage string) imageBoot {
		config := writeConfig(t, configStart+nvmeConfig+"init\nimage "+filepath.Base(otherImage)+
			nvmeConfig+"frame\n")
		return bootDir(t, buildBootImage(t, "--board", "qemu-virt", "--append",
			"initcall_blacklist=nvme_init", "--config", config, nvmeImage, otherImage))
	}
	lines := []string{"lminit: /lmrun.conf: images: 3", "lmrun: done: init of nvme-p2p.lmb*"}
	b := boot("", assemble("behind.lmb", source))
	b.requireConsole(t, hal.OK, "off", append(lines, "lmrun: done: main of behind.lmb*",
		"lmrun: done: frame of nvme-p2p.lmb*", "lminit: poweroff")...)
	b = boot("collisions allowed\n", assemble("blocks.lmb",
		"../../../testdata/listings/ivshmem-blocks.lms"))
	b.requireConsole(t, hal.ExpectFailed, "off", append(lines, "lmrun: done: main of blocks.lmb*",
		"lmrun: expect failed*", "lminit: poweroff")...)
}
