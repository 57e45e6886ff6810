package main

import (
	"cmp"
	"fmt"
	"math/bits"
	"strconv"

	"lightmetal/boards"
	"lightmetal/tools/image/lmb"
)

// checkAnswers reports whether the device answers, or may answer because its configuration space
// cannot be read.
func (r *boardReport) checkAnswers(name string, d *pciDevice) bool {
	const memory, master = 1 << 1, 1 << 2
	decoding, mastering := "off (lightmetal switches it on)",
		"off (lightmetal switches it on if the image uses DMA)"
	if d.command&memory != 0 {
		decoding = "on"
	}
	if d.command&master != 0 {
		mastering = "on"
	}
	if d.physicalFunction != "" { // SR-IOV 1.1, 3.4.1.3: its own bit reads as 0
		decoding = "that of its physical function " + d.physicalFunction
	}
	answers := d.command != 0xffff
	r.judge(name, []verdict{
		{!d.configKnown, notChecked, "its configuration space cannot be read",
			"the device may not answer, or may have lost the addresses of its BARs",
			"run `lspci -xxx -s " + d.address + "` on the target as root"},
		{!answers, missing, "does not answer: its configuration space reads all ones",
			"the device hangs, has no power, or lost its link", d.rescanAdvice()},
		fineIf(true, fmt.Sprintf("answers; memory decoding %s, bus mastering %s", decoding,
			mastering)),
	})
	return answers
}

// rescanAdvice is for a device that does not answer.
func (d *pciDevice) rescanAdvice() string {
	return "run `echo 1 > " + pciFolder + d.address + "/remove; echo 1 > /sys/bus/pci/rescan`; " +
		"if the device still does not answer, switch the machine off and on"
}

func (r *boardReport) checkBars(name string, m *machine, d *pciDevice) {
	for i, usual := range d.board.BarSizes {
		if usual == 0 {
			continue
		}
		b, size := d.bars[i], lmb.SizeText(d.bars[i].size)
		combining := map[bool]string{true: ", write-combining possible"}[b.hasWCFile]
		const noRoom = "the kernel found no room for this BAR in the host's PCIe windows, " +
			"so the device cannot be enabled"
		const widen = "see `dmesg | grep BAR`; widen the PCIe ranges in the device tree, " +
			"switch on above-4G decoding in the firmware, or boot with pci=realloc"
		r.judge(fmt.Sprintf("%s BAR %d", name, i), []verdict{
			{b.size == 0 && b.register != 0, missing, "not assigned", noRoom, widen},
			{b.size == 0, missing, "not there, or not assigned",
				"images for this device use this BAR",
				"this may be another device with the same ids; see lspci -vv -s " + d.address +
					"; or " + noRoom + ": " + widen},
			{!b.assigned, missing, size + ", not assigned", noRoom, widen},
			{d.configKnown && !d.hidesAddresses && b.register&^barTypeBits == 0, missing,
				fmt.Sprintf("the device has lost its address, which is 0x%x", b.address),
				"the device was reset or without power, and the kernel does not know it",
				d.rescanAdvice()},
			{b.size < usual && !acceptsAnySize(d.board, i), warning,
				size + ", but usually " + lmb.SizeText(usual),
				"images made for the usual size may not fit", m.resizeAdvice(d, i, usual)},
			{b.prefetchable && !b.hasWCFile, warning,
				size + ", without the file resource" + strconv.Itoa(i) + "_wc",
				"stores are not combined: bulk copies take several times as long",
				"use a kernel for arm64 or x86: other kernels do not make this file"},
			fineIf(true, fmt.Sprintf("%s at 0x%x%s", size, b.address, combining)),
		})
	}
}

// acceptsAnySize reports whether a BAR may have any size: its rules go beyond its usual size.
func acceptsAnySize(board *boards.Board, bar int) bool {
	for _, rule := range board.Rules {
		if int(rule.Bar) == bar && rule.Last >= board.BarSizes[bar] {
			return true
		}
	}
	return false
}

// resizeAdvice returns the advice that makes a BAR as large as usual.
func (m *machine) resizeAdvice(d *pciDevice, bar int, size uint64) string {
	file := fmt.Sprintf("%s%s/resource%d_resize", pciFolder, d.address, bar)
	if !m.exists(file) {
		return "the firmware of the device or of the machine must set the BAR's size"
	}
	return fmt.Sprintf("unbind the device's driver, "+
		"then: echo %d > %s", bits.Len64(size>>20)-1, file)
}

func (r *boardReport) checkDriver(name string, d *pciDevice, config *kernelConfig) {
	why := "a kernel driver uses the device; " +
		"two drivers would corrupt each other's state, so lightmetal does not open it"
	if config.isEnabled("CONFIG_IO_STRICT_DEVMEM") {
		why += "; with CONFIG_IO_STRICT_DEVMEM the kernel denies access, too"
	}
	opens := d.openName()
	r.judge(name+" driver", []verdict{
		fineIf(opens != "", cmp.Or(d.driver, "none")+"; open the device as "+opens),
		{true, missing, d.driver, why,
			"unbind the driver: echo " + d.address + " > " + pciFolder + d.address +
				"/driver/unbind"},
	})
}

// checkSysfs checks whether lmrun can open the device's files for writing. The backends vfio and tt
// do not open them.
func (r *boardReport) checkSysfs(name string, m *machine, d *pciDevice) {
	mount, readOnly := m.mountOf(pciFolder + d.address)
	r.judge(name+" sysfs", []verdict{
		fineIf(d.usesDriver(), "not used"),
		{mount == "", notChecked, "/proc/self/mountinfo cannot be read",
			"lmrun cannot map BARs if /sys is mounted read-only",
			"copy the target's files again with the script of lm check-board --collect"},
		{readOnly, missing, mount + " is mounted read-only",
			"lmrun opens files in this directory for writing, to map BARs and enable the device",
			"run `mount -o remount,rw " + mount + "`; in a container, mount /sys writable"},
		fineIf(true, mount+" is writable"),
	})
}

// openName returns the name by which lightmetal opens the device. It is empty if the bound driver
// does not let lightmetal use the device.
func (d *pciDevice) openName() string {
	switch d.driver {
	case "":
		return "pci:" + d.address
	case "vfio-pci":
		return "vfio:" + d.address
	case "tenstorrent":
		return "tt:/dev/tenstorrent/N"
	}
	return ""
}

// usesDriver reports whether lightmetal accesses the device through a kernel driver, which then
// also provides bus addresses of host memory.
func (d *pciDevice) usesDriver() bool { return d.driver != "" && d.openName() != "" }

func (r *boardReport) checkLink(name string, m *machine, d *pciDevice) {
	folder := pciFolder + d.address
	speed, best := m.readText(folder+"/current_link_speed"), m.readText(folder+"/max_link_speed")
	width, widest := m.readText(folder+"/current_link_width"), m.readText(folder+"/max_link_width")
	_, err := strconv.ParseUint(widest, 10, 8)
	found := fmt.Sprintf("%s x%s", speed, width)
	r.judge(name+" link", []verdict{
		fineIf(err != nil || widest == "0" || widest == "255",
			"no PCIe link (the device is emulated, or part of the root complex)"),
		fineIf(speed == best && width == widest, found),
		{true, warning, fmt.Sprintf("%s, but the device supports %s x%s", found, best, widest),
			"the link is slower than the device allows, so copies take longer",
			"if the slot is faster than the link (see lm check-board BOARD), reseat the card, " +
				"then look at LnkSta in `lspci -vv -s " + d.address + "`"},
	})
}

// checkIOMMU reports how the device accesses host memory.
func (r *boardReport) checkIOMMU(name string, m *machine, d *pciDevice, n *requirements) {
	group, noIOMMU := "group "+d.group, "/dev/vfio/noiommu-"+d.group
	isIdentity := m.readText("/sys/kernel/iommu_groups/"+d.group+"/type") == "identity"
	r.judge(name+" IOMMU", []verdict{
		{m.exists(noIOMMU), missing, group + " is in VFIO's no-IOMMU mode (" + noIOMMU + ")",
			"the device could reach all memory; lmrun does not support this mode with vfio:",
			"switch an IOMMU on (firmware, kernel command line), or unbind vfio-pci and open the " +
				"device as pci:" + d.address},
		fineIf(d.group == "" && !m.hasIOMMUMap(),
			"no IOMMU: the device uses physical addresses of memory"),
		fineIf(isIdentity, group+"; the IOMMU does not translate addresses"),
		fineIf(d.usesDriver(), group+"; lightmetal uses the device through the driver "+d.driver),
		fineIf(n.hostBytes == 0,
			"an IOMMU is on; for images with host memory, bind vfio-pci to the device"),
		{true, missing, "an IOMMU is on, and vfio-pci is not bound to the device",
			"the image has host memory, which the device reaches only through the IOMMU",
			m.loadVFIOCommand() + "echo vfio-pci > " + pciFolder + d.address +
				"/driver_override; echo " + d.address + " > /sys/bus/pci/drivers_probe; " +
				"then name the device vfio:" + d.address},
	})
}

// loadVFIOCommand returns the command that loads the driver vfio-pci, empty if it is loaded.
func (m *machine) loadVFIOCommand() string {
	if m.exists("/sys/bus/pci/drivers/vfio-pci") {
		return ""
	}
	if m.config.known() && !m.config.isEnabled("CONFIG_VFIO_PCI") {
		return "build the kernel with CONFIG_VFIO_PCI and CONFIG_VFIO_IOMMU_TYPE1; "
	}
	return "modprobe vfio-pci; "
}
