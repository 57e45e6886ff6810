package main

import (
	"os"
	"path/filepath"
	"testing"

	"lightmetal/hal"
)

// TestImagesBreakEachOtherWhereThatWasSaid runs init of an NVMe program whose
// queues lie in the memory of another device, then an image that stores there,
// then frame. What was named does break on QEMU's devices, and nothing does where
// nothing was named.
func TestImagesBreakEachOtherWhereThatWasSaid(t *testing.T) {
	t.Parallel()
	const behind = "lightmetal 1\ntarget ivshmem 1af4:1110 bar2 1MiB\n" +
		"window ram bar2 offset 0x40000 size 64KiB\n" +
		"main:\n  fill.8 ram+0x0 <- 0xffffffffffffffff size 64KiB\n"
	const nvme = "\nimage nvme-p2p.lmb\ndevice pci:1b36:0010\ndevice pci:1af4:1110\nsequence "
	folder := t.TempDir()
	assembled := func(name, source string) string {
		_, image := made(t, "asm", source)
		path := filepath.Join(folder, name)
		if err := os.Rename(written(t, image), path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	frames := assembled("nvme-p2p.lmb", "../../../testdata/listings/nvme-p2p.lms")
	source := filepath.Join(folder, "behind.lms")
	if err := os.WriteFile(source, []byte(behind), 0o644); err != nil {
		t.Fatal(err)
	}
	boot := func(head, other string) booted {
		config := configFile(t, head+nvme+"init\nimage "+filepath.Base(other)+nvme+"frame\n")
		return bootFrom(t, bootImage(t, "--board", "qemu-virt", "--append",
			"initcall_blacklist=nvme_init", "--config", config, frames, other))
	}
	lines := []string{"lminit: /lmrun.conf: images: 3", "lmrun: done: init of nvme-p2p.lmb*"}
	b := boot("", assembled("behind.lmb", source))
	b.says(t, hal.OK, "off", append(lines, "lmrun: done: main of behind.lmb*",
		"lmrun: done: frame of nvme-p2p.lmb*", "lminit: poweroff")...)
	b = boot("collisions allowed\n", assembled("blocks.lmb",
		"../../../testdata/listings/ivshmem-blocks.lms"))
	b.says(t, hal.ExpectFailed, "off", append(lines, "lmrun: done: main of blocks.lmb*",
		"lmrun: expect failed*", "lminit: poweroff")...)
}
