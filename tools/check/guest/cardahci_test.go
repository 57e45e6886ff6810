package main

import (
	"path/filepath"
	"testing"
)

// ahciReplay begins with the driver's reset of the controller, so that the image does not depend
// on what was before. It runs twice.
const ahciReplay = `
reset=$(zcat card.record | grep -n '^W 0 4 4 01000080' | head -1 | cut -d: -f1)
flags="--board generic --part $reset..read"
` + sectorReplay + `
lm replay --device vfio:$CARD --input x=x.bin card.lmb && echo outer: replayed again
`

// TestRecordedTrialsOfAHCIDriver is TestRecordedTrialsOfKernelDriver for Linux's ahci driver.
func TestRecordedTrialsOfAHCIDriver(t *testing.T) {
	skipUnlessTrials(t)
	disk := filepath.Join(t.TempDir(), "disk")
	r := kernelDriverRig{modules: []string{"virtio-iommu", "scsi_common", "scsi_mod", "sd_mod",
		"libata", "libahci", "ahci"}, work: "disk=/dev/sda" + sectorWork, after: ahciReplay,
		disk: disk,
		card: []string{"-drive", "if=none,id=d,format=raw,file=" + disk,
			"-device", "ahci,id=card,addr=8", "-device", "ide-hd,drive=d,bus=card.0"}}
	r.requireRecorded(t, region{"ahci", 0x8086, 0x2922, 5, 4096}, "EQUMH RADDSI",
		"main of card.lmb, 1 run of", "outer: replayed again")
	requireNewData(t, disk)
}
