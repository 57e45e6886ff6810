// Package vfiouser makes a device of this project, a mock or the vendor's simulator, available to
// another process as a PCI function. It is a server of the vfio-user protocol, version 0.0; its
// client is QEMU's vfio-user-pci. The kernel of a virtual machine then finds the device, maps its
// BARs, and assigns it to an IOMMU.
//
// The server offers no file descriptors for mapping regions. Therefore every load and store of the
// guest arrives as a request of its own, with its width and in program order. Sources: QEMU
// docs/interop/vfio-user.rst and include/uapi/linux/vfio.h.
package vfiouser
