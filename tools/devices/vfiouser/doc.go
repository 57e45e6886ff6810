// Package vfiouser shows a device of this project, a mock or the vendor's
// simulator, to another process as a PCI function: it is a server of the
// vfio-user protocol, version 0.0, whose client is QEMU's vfio-user-pci. A real
// kernel then finds the device, maps its BARs and puts it behind an IOMMU.
//
// No region offers a descriptor to map: every load and store of the guest
// arrives here by itself, with its width, in program order. Sources: QEMU
// docs/interop/vfio-user.rst and include/uapi/linux/vfio.h.
package vfiouser
