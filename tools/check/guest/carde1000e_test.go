package main

import "testing"

// The DHCP client of busybox would need a script.
const e1000eWork = `
for i in $(seq 200); do [ -e /sys/class/net/eth0 ] && break; sleep 0.3; done
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
for i in $(seq 100); do [ "$(cat /sys/class/net/eth0/carrier)" = 1 ] && break; sleep 0.3; done
ping -c 3 10.0.2.2 && echo inner: read what was written
cat /proc/interrupts
rmmod e1000e
`

// TestRecordedTrialsOfE1000eDriver is TestRecordedTrialsOfKernelDriver for Linux's e1000e driver.
func TestRecordedTrialsOfE1000eDriver(t *testing.T) {
	skipUnlessTrials(t)
	r := kernelDriverRig{modules: []string{"virtio-iommu", "e1000e"}, work: e1000eWork,
		card: []string{"-netdev", "user,id=n,restrict=on,ipv6=off",
			"-device", "e1000e,netdev=n,addr=8"}}
	// The addresses of a frame from QEMU's network to the card
	r.requireRecorded(t, region{"e1000e-mmio", 0x8086, 0x10d3, 0, 128 << 10},
		"\x52\x54\x00\x12\x34\x56\x52\x55\x0a\x00\x02\x02\x08\x00")
}
