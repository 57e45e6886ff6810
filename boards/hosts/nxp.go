package hosts

const (
	imx8mp    = dts + "freescale/imx8mp.dtsi"
	imx8mpEVK = dts + "freescale/imx8mp-evk.dts"
	s32gPCIe  = "Linux v7.1 Documentation/devicetree/bindings/pci/nxp,s32g-pcie.yaml"
	s32cc     = "nxp-auto-linux/linux a33cbfde arch/arm64/boot/dts/freescale/s32cc.dtsi"
	s32g3RDB3 = dts + "freescale/s32g399a-rdb3.dts"
)

// IMX8MPlus is NXP's i.MX8M Plus, on its evaluation kit.
var IMX8MPlus = Host{
	Name:       "imx8mp",
	Title:      "NXP i.MX8M Plus",
	Compatible: []string{"fsl,imx8mp-evk", "fsl,imx8mp"},
	Ports: []Port{{
		Name:  "pcie0",
		Gen:   Fact[uint8]{3, imx8mp + ": pcie0 fsl,max-link-speed"},
		Lanes: Fact[uint8]{1, imx8mp + ": pcie0 num-lanes"},
		Windows: Fact[[]Window]{[]Window{
			{CPU: 0x18000000, PCI: 0x18000000, Size: 0x07f00000},
		}, imx8mp + ": pcie0 ranges"},
	}},
	Inbound:   Fact[[]Inbound]{nil, imx8mp + ": no dma-ranges at pcie0"},
	Coherence: Fact[Coherence]{NotCoherent, imx8mp + noCoherent},
	IOMMU:     Fact[IOMMU]{NoIOMMU, imx8mp + ": no IOMMU"},
	Options: []Option{
		{"CONFIG_PCI_IMX6_HOST", "the PCIe controller", defconfig},
		{"CONFIG_PHY_FSL_IMX8M_PCIE", "the PHY of the PCIe controller", defconfig},
		{"CONFIG_SERIAL_IMX_CONSOLE", "the console", defconfig},
	},
	Boot:        Fact[Boot]{FIT, "U-Boot v2026.10-rc2 configs/imx8mp_evk_defconfig: CONFIG_FIT"},
	Console:     Fact[string]{"ttymxc1,115200", imx8mpEVK + ": stdout-path uart2, alias serial1"},
	DeviceTree:  Fact[string]{"freescale/imx8mp-evk.dtb", imx8mpEVK},
	LoadAddress: Fact[uint64]{0x40600000, "U-Boot v2026.10-rc2 configs/imx8mp_evk_defconfig: CONFIG_SYS_LOAD_ADDR, kernel_addr_r"},
}

// S32G3 is NXP's S32G3, on its reference design board 3. The windows are those
// of the kernel's binding; its maker's tree has one of 32 GiB from PCI address 0.
var S32G3 = Host{
	Name:       "s32g3",
	Title:      "NXP S32G3",
	Compatible: []string{"nxp,s32g399a-rdb3", "nxp,s32g3"},
	Ports: []Port{{
		Name:  "pcie0",
		Gen:   Fact[uint8]{3, s32cc + ": pcie0 max-link-speed"},
		Lanes: Fact[uint8]{2, s32cc + ": pcie0 num-lanes"},
		Windows: Fact[[]Window]{[]Window{
			{CPU: 0x5800000000, PCI: 0, Size: 2 * gib},
			{CPU: 0x5900000000, PCI: 0x100000000, Size: 0x6fffe0000},
		}, s32gPCIe + ": example, ranges"},
	}, {
		Name:  "pcie1",
		Gen:   Fact[uint8]{3, s32cc + ": pcie1 max-link-speed"},
		Lanes: Fact[uint8]{1, s32cc + ": pcie1 num-lanes"},
		Windows: Fact[[]Window]{[]Window{
			{CPU: 0x4800000000, PCI: 0, Size: 0x7fffe0000},
		}, s32cc + ": pcie1 ranges"},
	}},
	Inbound:   Fact[[]Inbound]{nil, s32gPCIe + ": no dma-ranges"},
	Coherence: Fact[Coherence]{Coherent, s32gPCIe + ": dma-coherent"},
	IOMMU:     Fact[IOMMU]{NoIOMMU, s32cc + " and " + dts + "freescale/s32g3.dtsi: no IOMMU"},
	Faults: []Fact[string]{
		{"the kernel.org device tree has no PCIe controller yet: use the maker's kernel, or add the node of the binding", dts + "freescale/s32g3.dtsi"},
	},
	Options: []Option{
		{"CONFIG_PCIE_NXP_S32G", "the PCIe controller; the maker's kernels have another name for it",
			"Linux patch \"PCI: s32g: Add initial PCIe support (RC)\", 2025-11"},
		{"CONFIG_SERIAL_FSL_LINFLEXUART_CONSOLE", "the console", defconfig},
	},
	Boot:       Fact[Boot]{FIT, "nxp-auto-linux/u-boot 0e53cbc0 configs/s32g399ardb3_defconfig: CONFIG_FIT"},
	Console:    Fact[string]{"ttyLF0,115200", s32g3RDB3 + ": stdout-path serial0, a LINFlexD"},
	DeviceTree: Fact[string]{"freescale/s32g399a-rdb3.dtb", s32g3RDB3},
}
