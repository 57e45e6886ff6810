package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// factorial returns n! modulo 2^32, as edu computes it.
func factorial(n uint32) uint32 {
	product := uint32(1)
	for i := uint32(2); i <= n; i++ {
		product *= i
	}
	return product
}

// TestBootImageComputesRightResultsForNewInputs boots a boot image that replays one image with
// several inputs. The results are written to drives, where the test reads them on the host.
func TestBootImageComputesRightResultsForNewInputs(t *testing.T) {
	t.Parallel()
	image, _ := makeImage(t, "asm", "../../../testdata/listings/edu-factorial.lms")
	dir := t.TempDir()
	args := []string{"--board", "qemu-virt", "--config", ""}
	config, lines := "", []string{"lminit: /lmrun.conf: images: 5"}
	var drives []string
	inputs := []uint32{0, 5, 10, 12, 13}
	for i, n := range inputs {
		input := filepath.Join(dir, fmt.Sprintf("n%d", i))
		if err := os.WriteFile(input, binary.LittleEndian.AppendUint32(nil, n), 0o600); err != nil {
			t.Fatal(err)
		}
		drives = append(drives, filepath.Join(dir, fmt.Sprintf("drive%d", i)))
		if err := writeZeros(drives[i], 4096); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--add", fmt.Sprintf("%s=/input/n%d", input, i))
		config += fmt.Sprintf("image %s\nsequence compute\nseal\ninput n=/input/n%d\n"+
			"output result=/dev/nvme0n%d\n", filepath.Base(image), i, i+1)
		lines = append(lines, "lmrun: done: compute of *")
	}
	args[3] = writeConfig(t, config)
	b := bootDirWithDrives(t, drives, buildBootImage(t, append(args, image)...))
	b.requireConsole(t, 0, "off", append(lines, "lminit: poweroff")...)
	for i, n := range inputs {
		data, err := os.ReadFile(drives[i])
		if err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint32(data); got != factorial(n) {
			t.Errorf("%d! is %d, the guest computed %d", n, factorial(n), got)
		}
	}
}
