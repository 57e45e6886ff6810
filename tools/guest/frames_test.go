package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// factorial is n! in 32 bits, as edu computes it.
func factorial(n uint32) uint32 {
	product := uint32(1)
	for i := uint32(2); i <= n; i++ {
		product *= i
	}
	return product
}

// TestBootImageGivesRightResultsForNewInputs has a boot image run one image
// with several inputs; the results go to drives, where the host finds them.
func TestBootImageGivesRightResultsForNewInputs(t *testing.T) {
	image, _ := made(t, "asm", "../../testdata/listings/edu-factorial.lms")
	dir := t.TempDir()
	args := []string{"-board", "qemu-virt", "-config", ""}
	config, lines := "", []string{"lminit: /lmrun.conf: images: 5"}
	qemu := []string{"-device", "nvme,addr=5,id=out,serial=outputs,use-intel-id=on"}
	drive := func(n int) string { return filepath.Join(dir, fmt.Sprintf("drive%d", n)) }
	inputs := []uint32{0, 5, 10, 12, 13}
	for i, n := range inputs {
		input := filepath.Join(dir, fmt.Sprintf("n%d", i))
		if err := os.WriteFile(input, binary.LittleEndian.AppendUint32(nil, n), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := writeZeros(drive(i), 4096); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-add", fmt.Sprintf("%s=/input/n%d", input, i))
		config += fmt.Sprintf("image %s\nsequence compute\nseal\ninput n=/input/n%d\noutput result=/dev/nvme1n%d\n", filepath.Base(image), i, i+1)
		lines = append(lines, "lmrun: done: compute of *")
		qemu = append(qemu, "-drive", fmt.Sprintf("if=none,id=out%d,format=raw,file=%s", i, escape(drive(i))),
			"-device", fmt.Sprintf("nvme-ns,bus=out,drive=out%d,nsid=%d", i, i+1))
	}
	args[3] = configFile(t, config)
	b := bootFrom(t, bootImage(t, append(args, image)...), qemu...)
	b.says(t, 0, "off", append(lines, "lminit: poweroff")...)
	for i, n := range inputs {
		data, err := os.ReadFile(drive(i))
		if err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint32(data); got != factorial(n) {
			t.Errorf("%d! is %d, the guest gave %d", n, factorial(n), got)
		}
	}
}

// TestGuestComputesFrameAfterFrameFromPipes has a real device compute with new
// data in each of many sealed runs.
func TestGuestComputesFrameAfterFrameFromPipes(t *testing.T) {
	image, _ := made(t, "asm", "../../testdata/listings/edu-factorial.lms")
	inside(t, func(m *machine) { m.add(t, "/factorial.lmb", image) }, "frames")
}
