package hosts

const (
	tegra234 = dts + "nvidia/tegra234.dtsi"
	orinAGX  = dts + "nvidia/tegra234-p3737-0000+p3701.dtsi"
	orinNX   = dts + "nvidia/tegra234-p3768-0000+p3767.dtsi"
	agxGen   = "NVIDIA developer forum 259456: the module's PCIe is Gen4, from the Orin TRM"
	nxGen    = "NVIDIA Jetson Orin NX data sheet DS-10712-001 v1.1 (GEN3 to GEN4)"
)

// orinPort is a controller of Tegra234: each has a prefetchable window that
// keeps its addresses, and 128 MiB at PCI address 1 GiB.
func orinPort(name, where string, gen Fact[uint8], lanes uint8, board string, prefetchable, size, narrow uint64) Port {
	return Port{
		Name: name, Where: where, Gen: gen,
		Lanes: Fact[uint8]{lanes, board + ": " + name},
		Windows: Fact[[]Window]{[]Window{
			{CPU: prefetchable, PCI: prefetchable, Size: size, Prefetchable: true},
			{CPU: narrow, PCI: 0x40000000, Size: 128 * mib},
		}, tegra234 + ": " + name + " ranges"},
	}
}

// orinOptions are what both Orin boards need.
var orinOptions = []Option{
	{"CONFIG_PCIE_TEGRA194_HOST", "the PCIe controller", defconfig},
	{"CONFIG_ARM_SMMU", "the IOMMU in front of PCIe", defconfig},
	{"CONFIG_SERIAL_TEGRA_TCU_CONSOLE", "the console", defconfig},
}

// orinUEFI is how the Orin boards start.
var orinUEFI = Fact[Boot]{UEFI, "NVIDIA Jetson Linux Developer Guide r36.4, Boot Architecture: UEFI"}

// OrinAGX is NVIDIA's Jetson AGX Orin developer kit.
var OrinAGX = Host{
	Name:       "orin-agx",
	Title:      "NVIDIA Jetson AGX Orin developer kit",
	Compatible: []string{"nvidia,p3737-0000+p3701-0000", "nvidia,p3701-0000", "nvidia,p3701"},
	Ports: []Port{
		orinPort("pcie@141a0000", "the card slot (C5)", Fact[uint8]{4, agxGen}, 8, orinAGX, 0x2800000000, 12928*mib, 0x2b28000000),
		orinPort("pcie@14160000", "C4", Fact[uint8]{4, agxGen}, 4, orinAGX, 0x2140000000, 11904*mib, 0x2428000000),
		orinPort("pcie@14100000", "C1", Fact[uint8]{}, 1, orinAGX, 0x2080000000, 640*mib, 0x20a8000000),
	},
	Coherence:  Fact[Coherence]{Coherent, tegra234 + ": dma-coherent"},
	IOMMU:      Fact[IOMMU]{SMMUv2, tegra234 + ": iommu-map to an nvidia,smmu-500"},
	Options:    orinOptions,
	Boot:       orinUEFI,
	Console:    Fact[string]{"ttyTCU0,115200", orinAGX + ": stdout-path serial0, the combined UART"},
	DeviceTree: Fact[string]{"nvidia/tegra234-p3737-0000+p3701-0000.dtb", dts + "nvidia/tegra234-p3737-0000+p3701-0000.dts"},
}

// OrinNX is NVIDIA's Jetson Orin NX module on its reference carrier.
var OrinNX = Host{
	Name:       "orin-nx",
	Title:      "NVIDIA Jetson Orin NX on the P3768 carrier",
	Compatible: []string{"nvidia,p3768-0000+p3767-0000", "nvidia,p3767-0000", "nvidia,p3767"},
	Ports: []Port{
		orinPort("pcie@14160000", "M.2 key M, C4", Fact[uint8]{4, nxGen}, 4, orinNX, 0x2140000000, 11904*mib, 0x2428000000),
		orinPort("pcie@141e0000", "M.2 key M, C7", Fact[uint8]{4, nxGen}, 2, orinNX, 0x3000000000, 8832*mib, 0x3228000000),
		orinPort("pcie@14100000", "M.2 key E, C1", Fact[uint8]{}, 1, orinNX, 0x2080000000, 640*mib, 0x20a8000000),
	},
	Coherence:  Fact[Coherence]{Coherent, tegra234 + ": dma-coherent"},
	IOMMU:      Fact[IOMMU]{SMMUv2, tegra234 + ": iommu-map to an nvidia,smmu-500"},
	Options:    orinOptions,
	Boot:       orinUEFI,
	Console:    Fact[string]{"ttyTCU0,115200", orinNX + ": stdout-path serial0, the combined UART"},
	DeviceTree: Fact[string]{"nvidia/tegra234-p3768-0000+p3767-0000.dtb", dts + "nvidia/tegra234-p3768-0000+p3767-0000.dts"},
}
