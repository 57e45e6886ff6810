//go:build backend_pci || (backend_tt && !notiles) || !backend_vfio

package hal

// Advice about huge pages, for backends without an IOMMU: pci: and tt:.

import "lightmetal/fbs"

// notContiguous returns the fault of host memory that the device does not see as a single range.
// Huge pages are adjacent if they were reserved before memory was in use.
func (d *device) notContiguous(size uint64, huge bool) error {
	reason := fbs.Text("%x bytes of host memory are not contiguous", size)
	if !huge {
		return d.fault(NoDevice, reason+hugePageAdvice(size))
	}
	return d.fault(NoDevice, reason+fbs.Text(", though they are huge pages; boot the kernel with "+
		"hugepages=%d, use windows of at most 2 MiB, or use vfio:", hugePagesAdvised(size)))
}

// hugePageAdvice returns the end of a message: how to reserve huge pages for size bytes.
func hugePageAdvice(size uint64) string {
	return fbs.Text("; reserve huge pages soon after boot with "+
		"`echo %d > /proc/sys/vm/nr_hugepages`, or use vfio:", hugePagesAdvised(size))
}

// hugePagesAdvised returns twice the pages that size needs, as advice in error messages.
func hugePagesAdvised(size uint64) uint64 { return 2 * fbs.RoundUp(size, hugePage) / hugePage }
