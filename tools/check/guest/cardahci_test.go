package main

import "testing"

const ahciWork = `
for i in $(seq 200); do [ -e /dev/sda ] && break; sleep 0.3; done
head -c 4096 /dev/zero | tr '\0' A >/tmp/a
dd if=/tmp/a of=/dev/sda bs=4096 seek=25 count=1 oflag=direct
dd if=/dev/sda of=/tmp/b bs=4096 skip=25 count=1 iflag=direct
cmp /tmp/a /tmp/b && echo inner: read what was written
`

// TestRecordedTrialsOfAHCIDriver is TestRecordedTrialsOfKernelDriver for Linux's ahci driver.
func TestRecordedTrialsOfAHCIDriver(t *testing.T) {
	skipUnlessTrials(t)
	r := kernelDriverRig{modules: []string{"virtio-iommu", "scsi_common", "scsi_mod", "sd_mod",
		"libata", "libahci", "ahci"}, work: ahciWork,
		card: []string{"-drive", "if=none,id=d,format=raw,file=" + emptyDisk(t),
			"-device", "ahci,id=card,addr=8", "-device", "ide-hd,drive=d,bus=card.0"}}
	r.requireRecorded(t, region{"ahci", 0x8086, 0x2922, 5, 4096}, "EQUMH RADDSI")
}
