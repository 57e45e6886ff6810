package hal

// The backends `pci` and `tt` need huge pages, because without an IOMMU the memory of a Host window
// must be physically contiguous.

import "lightmetal/fbs"

// If the memory has huge pages already, notContiguousFault advises to reserve them at boot, while
// contiguous memory is free.
func (d *device) notContiguousFault(size uint64, huge bool) error {
	reason := fbs.Text("%x bytes of host memory are not physically contiguous", size)
	if !huge {
		return d.fault(NoDevice, reason+hugePageAdvice(size))
	}
	const advice = ", even in huge pages; boot Linux with `hugepagesz=2M hugepages=%d`, " +
		"use windows of at most 2 MiB, or use `vfio:`"
	return d.fault(NoDevice, reason+fbs.Text(advice, advisedHugePageCount(size)))
}

// hugePageAdvice ends a message. It names the pool of huge pages of 2 MiB: /proc/sys/vm is for the
// default size, which is larger if the kernel's pages have 16 or 64 KiB.
func hugePageAdvice(size uint64) string {
	const advice = "; reserve huge pages soon after boot with " +
		"`echo %d > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages`, or use `vfio:`"
	return fbs.Text(advice, advisedHugePageCount(size))
}

func advisedHugePageCount(size uint64) uint64 {
	return 2 * fbs.RoundUp(size, hugePageSize) / hugePageSize
}
