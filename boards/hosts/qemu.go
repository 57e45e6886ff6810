package hosts

const qemuTree = "device tree of QEMU 7.2 (-M virt,dumpdtb=), hw/arm/virt.c"

// QEMUVirt is QEMU's board without a real counterpart.
var QEMUVirt = Host{
	Name:       "qemu-virt",
	Title:      "QEMU virt",
	Compatible: []string{"linux,dummy-virt"},
	RootPorts:  []ID{{0x1b36, 0x0008}}, // the host bridge, which is there with ACPI too: `info pci` of QEMU 7.2
	Ports: []Port{{
		Name: "pcie@10000000",
		Windows: Fact[[]Window]{[]Window{
			{CPU: 0x10000000, PCI: 0x10000000, Size: 0x2eff0000},
			{CPU: 0x8000000000, PCI: 0x8000000000, Size: 0x8000000000},
		}, qemuTree},
	}},
	Inbound:        Fact[[]Inbound]{nil, qemuTree},
	Coherence:      Fact[Coherence]{Coherent, qemuTree + ": dma-coherent"},
	IOMMU:          Fact[IOMMU]{NoIOMMU, qemuTree + "; -M virt,iommu=smmuv3,gic-version=3 adds one"},
	WriteCombining: Fact[Health]{Works, "measured on QEMU 7.2 with ivshmem-plain, stores of 1 to 16 bytes at every alignment"},
	Wide:           Fact[Health]{Works, "measured on QEMU 7.2 with ivshmem-plain and nvme"},
	Faults: []Fact[string]{
		{"an emulated processor does not fault on unaligned accesses to device memory, a real one does: what passes here may still fail on hardware",
			"measured on QEMU 7.2 (TCG)"},
		{"with the default GICv2 a VFIO container refuses its IOMMU type (EPERM): start it with gic-version=3", "measured on QEMU 7.2"},
	},
	Options: []Option{
		{"CONFIG_PCI_HOST_GENERIC", "the PCIe controller", defconfig},
		{"CONFIG_SERIAL_AMBA_PL011_CONSOLE", "the console", defconfig},
	},
	Boot:    Fact[Boot]{Pair, "QEMU 7.2, options -kernel and -initrd"},
	Console: Fact[string]{"ttyAMA0", qemuTree + ": stdout-path /pl011@9000000"},
}
