package hosts

const (
	j721e   = dts + "ti/k3-j721e-main.dtsi"
	j721eSK = dts + "ti/k3-j721e-sk.dts"
)

// J721E is TI's TDA4VM (J721E), on the SK board. The evaluation module has the
// same controllers, and a third port whose window is 128 MiB.
var J721E = Host{
	Name:       "j721e",
	Title:      "TI TDA4VM (J721E)",
	Compatible: []string{"ti,j721e-sk", "ti,j721e-evm", "ti,j721e"},
	Ports: []Port{{
		Name: "pcie1", Where: "M.2 key M",
		Gen:   Fact[uint8]{3, j721e + ": pcie1_rc max-link-speed"},
		Lanes: Fact[uint8]{2, j721eSK + ": pcie1_rc num-lanes"},
		Windows: Fact[[]Window]{[]Window{
			{CPU: 0x4100101000, PCI: 0x101000, Size: 0xffeff000},
		}, j721e + ": pcie1_rc ranges"},
	}, {
		Name: "pcie0", Where: "M.2 key E",
		Gen:   Fact[uint8]{3, j721e + ": pcie0_rc max-link-speed"},
		Lanes: Fact[uint8]{1, j721eSK + ": pcie0_rc num-lanes"},
		Windows: Fact[[]Window]{[]Window{
			{CPU: 0x4000101000, PCI: 0x101000, Size: 0xffeff000},
		}, j721e + ": pcie0_rc ranges"},
	}},
	Inbound:   Fact[[]Inbound]{[]Inbound{{PCI: 0, CPU: 0, Size: 1 << 48}}, j721e + ": dma-ranges"},
	Coherence: Fact[Coherence]{Coherent, j721e + ": dma-coherent"},
	IOMMU:     Fact[IOMMU]{NoIOMMU, j721e + ": no iommu-map at the PCIe controllers, though the chip has an SMMUv3"},
	Faults: []Fact[string]{
		{"links above 2.5 GT/s may not train at first on silicon revision 1.0: the kernel retrains them (erratum i2085)",
			"TI SPRZ455C; Linux commit 0e12f8302369"},
	},
	Options: []Option{
		{"CONFIG_PCI_J721E_HOST", "the PCIe controller", defconfig},
		{"CONFIG_PHY_CADENCE_SIERRA", "the PHY of the PCIe controller", defconfig},
		{"CONFIG_PHY_J721E_WIZ", "the wrapper of that PHY", defconfig},
		{"CONFIG_SERIAL_8250_OMAP", "the console", defconfig},
	},
	Boot:        Fact[Boot]{FIT, "U-Boot v2026.10-rc2 arch/arm/Kconfig: ARCH_K3 selects FIT"},
	Console:     Fact[string]{"ttyS2,115200", j721eSK + ": stdout-path serial2"},
	DeviceTree:  Fact[string]{"ti/k3-j721e-sk.dtb", j721eSK},
	LoadAddress: Fact[uint64]{0x82000000, "U-Boot v2026.10-rc2 include/env/ti/ti_common.env: kernel_addr_r"},
}
