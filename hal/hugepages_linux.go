//go:build backend_pci || (backend_tt && !notiles) || !backend_vfio

package hal

// This file advises on huge pages in messages, for the backends without an IOMMU: pci: and tt:.

import "lightmetal/fbs"

// notContiguousFault returns the fault of size bytes of host memory that are not contiguous in
// physical memory. huge is true if the memory consists of huge pages. For those the fault advises
// to reserve them at boot, since free memory is contiguous at that time.
func (d *device) notContiguousFault(size uint64, huge bool) error {
	reason := fbs.Text("%x bytes of host memory are not physically contiguous", size)
	if !huge {
		return d.fault(NoDevice, reason+hugePageAdvice(size))
	}
	return d.fault(NoDevice, reason+fbs.Text(", although they are huge pages; boot Linux with "+
		"`hugepages=%d`, use windows of at most 2 MiB, or use `vfio:`", advisedHugePages(size)))
}

// hugePageAdvice returns the end of a message: how to reserve huge pages for size bytes.
func hugePageAdvice(size uint64) string {
	return fbs.Text("; reserve huge pages soon after boot with "+
		"`echo %d > /proc/sys/vm/nr_hugepages`, or use `vfio:`", advisedHugePages(size))
}

// advisedHugePages returns the number of huge pages that messages advise to reserve: twice as many
// as size bytes need.
func advisedHugePages(size uint64) uint64 { return 2 * fbs.RoundUp(size, hugePageSize) / hugePageSize }
