package hosts

const (
	bcm2712 = dts + "broadcom/bcm2712.dtsi"
	pi5Tree = dts + "broadcom/bcm2712-rpi-5-b-base.dtsi"
	pi4Tree = "raspberrypi/linux 0172c431 arch/arm/boot/dts/broadcom/bcm2711-rpi-ds.dtsi"
	bcm2711 = "Linux v7.1 arch/arm/boot/dts/broadcom/bcm2711.dtsi"
)

// RaspberryPi5 is the Raspberry Pi 5, with BCM2712. Its other PCIe controllers
// are not routed (0) or belong to the board's own I/O chip (2).
var RaspberryPi5 = Host{
	Name:       "rpi5",
	Title:      "Raspberry Pi 5",
	Compatible: []string{"raspberrypi,5-model-b", "brcm,bcm2712"},
	Ports: []Port{{
		Name: "pcie1", Where: "the flat cable connector",
		Gen:   Fact[uint8]{2, bcm2712 + ": pcie1 max-link-speed"},
		Lanes: Fact[uint8]{1, bcm2712 + ": pcie1 num-lanes"},
		Windows: Fact[[]Window]{[]Window{
			{CPU: 0x1b00000000, PCI: 0, Size: 0xfffffffc},
			{CPU: 0x1800000000, PCI: 0x400000000, Size: 12 * gib, Prefetchable: true},
		}, bcm2712 + ": pcie1 ranges"},
	}},
	Inbound:   Fact[[]Inbound]{[]Inbound{{PCI: 0x1000000000, CPU: 0, Size: 64 * gib}}, bcm2712 + ": pcie1 dma-ranges"},
	Coherence: Fact[Coherence]{NotCoherent, bcm2712 + noCoherent},
	IOMMU:     Fact[IOMMU]{NoIOMMU, bcm2712 + ": no iommu-map at pcie1"},
	WriteCombining: Fact[Health]{Works, "report: github.com/geerlingguy/raspberry-pi-pcie-devices issue 6, 2023-11-09, unaligned accesses are " +
		"accepted where a BAR is mapped write-combining"},
	PageSize: Fact[uint64]{16 * kib, "raspberrypi/linux 00527380 arch/arm64/configs/bcm2712_defconfig: CONFIG_ARM64_16K_PAGES"},
	Faults: []Fact[string]{
		{"5 GT/s is what the link is certified for; dtparam=pciex1_gen=3 in config.txt forces 8 GT/s, which may be unstable",
			"raspberrypi/documentation computers/raspberry-pi/pcie.adoc"},
	},
	Options: []Option{
		{"CONFIG_PCIE_BRCMSTB", "the PCIe controller", defconfig},
		{"CONFIG_SERIAL_AMBA_PL011_CONSOLE", "the console", defconfig},
	},
	Boot:       Fact[Boot]{Pair, "raspberrypi/documentation computers/config_txt/boot.adoc: kernel, initramfs"},
	Console:    Fact[string]{"ttyAMA10,115200", pi5Tree + ": stdout-path serial10, a PL011"},
	DeviceTree: Fact[string]{"broadcom/bcm2712-rpi-5-b.dtb", dts + "broadcom/bcm2712-rpi-5-b.dts"},
}

// ComputeModule4 is the Raspberry Pi Compute Module 4, with BCM2711, as the
// device tree of its maker's kernel has it.
var ComputeModule4 = Host{
	Name:       "cm4",
	Title:      "Raspberry Pi Compute Module 4",
	Compatible: []string{"raspberrypi,4-compute-module", "brcm,bcm2711"},
	Ports: []Port{{
		Name: "pcie0",
		Windows: Fact[[]Window]{[]Window{
			{CPU: 0x600000000, PCI: 0xc0000000, Size: 1 * gib},
		}, pi4Tree + ": pcie0 ranges"},
	}},
	Inbound: Fact[[]Inbound]{[]Inbound{{PCI: 0, CPU: 0, Size: 3 * gib}}, bcm2711 +
		": pcie0 dma-ranges, the PCIe wrapper does not reach beyond 3 GB"},
	Coherence: Fact[Coherence]{NotCoherent, bcm2711 + noCoherent},
	IOMMU:     Fact[IOMMU]{NoIOMMU, bcm2711 + ": no iommu-map at pcie0"},
	WriteCombining: Fact[Health]{Faulty,
		"report: github.com/raspberrypi/linux issue 4928, more than about 256 bytes in a row stored to a BAR mapped as normal memory stop the chip"},
	Wide: Fact[Health]{Faulty, "report: github.com/google-coral/edgetpu issue 280, an 8-byte load gives one half twice"},
	Faults: []Fact[string]{
		{"the kernel.org device tree gives PCIe 64 MiB only: use the maker's, or widen pcie0 ranges with an overlay", bcm2711 + ": pcie0 ranges"},
	},
	Options: []Option{
		{"CONFIG_PCIE_BRCMSTB", "the PCIe controller", defconfig},
		{"CONFIG_SERIAL_8250_BCM2835AUX", "the console", defconfig},
	},
	Boot:       Fact[Boot]{Pair, "raspberrypi/documentation computers/config_txt/boot.adoc: kernel, initramfs"},
	Console:    Fact[string]{"ttyS0,115200", pi4Tree + ": stdout-path serial0, the auxiliary UART"},
	DeviceTree: Fact[string]{"broadcom/bcm2711-rpi-cm4-io.dtb", dts + "broadcom/bcm2711-rpi-cm4-io.dts"},
}
