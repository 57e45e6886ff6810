package hosts

const (
	altraMap   = "edk2-platforms 9ef9bcef Silicon/Ampere/AmpereAltraPkg/Include/Platform/Ac01.h"
	altraRC    = "edk2-platforms 9ef9bcef Silicon/Ampere/AmpereAltraPkg/Drivers/PcieInitPei/RootComplexNVParam.c"
	altraACPI  = "edk2-platforms 9ef9bcef Platform/Ampere/JadePkg"
	altra82288 = "Ampere Altra erratum 82288 (PCIE_65); kernel patch \"ampere/arm64: Work around Ampere Altra erratum #82288 PCIE_65\", 2024-08-27"
)

// altraPort is a root complex of a machine with one socket. RCA ones have 16
// lanes, RCB ones 8, unless the board splits them.
func altraPort(name string, lanes uint8, narrow, narrowSize, wide uint64) Port {
	return Port{
		Name:  name,
		Gen:   Fact[uint8]{4, altraRC + ": MaxSpeedGen"},
		Lanes: Fact[uint8]{lanes, altraRC + ": MaxWidth without bifurcation"},
		Windows: Fact[[]Window]{[]Window{
			{CPU: narrow, PCI: narrow, Size: narrowSize},
			{CPU: wide, PCI: wide, Size: 0x3ffe0000000},
		}, altraMap + ": AC01_PCIE_MMIO_BASE_LIST, AC01_PCIE_MMIO32_BASE_1P_LIST"},
	}
}

// Altra is a server with one Ampere Altra or Altra Max.
var Altra = Host{
	Name:      "altra",
	Title:     "Ampere Altra server",
	RootPorts: []ID{{0x1def, 0xe100}}, // where the kernel patch for erratum 82288 hooks in
	Ports: []Port{
		altraPort("RCA2", 16, 0x60000000, 0x10000000, 0x380000000000),
		altraPort("RCA3", 16, 0x70000000, 0x10000000, 0x3c0000000000),
		altraPort("RCB0", 8, 0x08000000, 0x08000000, 0x200000000000),
		altraPort("RCB1", 8, 0x10000000, 0x10000000, 0x240000000000),
		altraPort("RCB2", 8, 0x20000000, 0x10000000, 0x280000000000),
		altraPort("RCB3", 8, 0x30000000, 0x10000000, 0x2c0000000000),
	},
	Inbound:        Fact[[]Inbound]{nil, altraACPI + "/Ac02AcpiTables/PCI-S0.asi: no _DMA"},
	Coherence:      Fact[Coherence]{Coherent, altraACPI + "/Ac02AcpiTables/PCI-S0.asi: _CCA"},
	IOMMU:          Fact[IOMMU]{SMMUv3, altraACPI + "/Drivers/AcpiPlatformDxe/AcpiIort.c"},
	WriteCombining: Fact[Health]{Faulty, altra82288 + ": merged stores may go to wrong addresses"},
	Workaround: Fact[string]{"CONFIG_ALTRA_ERRATUM_82288", altra82288 +
		": it maps the BAR as device memory instead, so every access has to be aligned"},
	Faults: []Fact[string]{
		{"an 8-byte access that is not aligned to 8 is a bus error: take widths and alignments from the board, as lightmetal does",
			"report: github.com/tenstorrent/tt-umd issue 1571"},
	},
	Options: []Option{
		{"CONFIG_ACPI", "the PCIe root complexes stand in ACPI tables only", altraACPI},
		{"CONFIG_PCI_QUIRKS", "their configuration space has a quirk", "Linux commit 877c1a5f79c6"},
		{"CONFIG_ARM_SMMU_V3", "the IOMMU in front of PCIe", defconfig},
		{"CONFIG_SERIAL_AMBA_PL011_CONSOLE", "the console", defconfig},
	},
	Boot:    Fact[Boot]{UEFI, altraACPI},
	Console: Fact[string]{"ttyAMA0", "edk2-platforms 9ef9bcef Silicon/Ampere/AmpereAltraPkg/AcpiCommonTables/Spcr.aslc: a PL011"},
}
