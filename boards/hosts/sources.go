package hosts

// Documents that several hosts cite.
const (
	dts       = "Linux v7.1 arch/arm64/boot/dts/"
	defconfig = "Linux arch/arm64/configs/defconfig"

	// The kernel treats a PCIe controller as coherent only where the device
	// tree says so (drivers/of/address.c, of_dma_is_coherent, on arm64).
	noCoherent = ": no dma-coherent at the PCIe controller"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)
