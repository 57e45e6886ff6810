//go:build backend_pci || (backend_tt && !notiles) || !backend_vfio

package hal

// This file contains error messages that advise the user to reserve huge pages. The backends `pci`
// and `tt` need huge pages, because without an IOMMU the memory of a Host window must be physically
// contiguous.

import "lightmetal/fbs"

// notContiguousFault returns the Fault for a Host window whose memory of `size` bytes is not
// physically contiguous. If the memory consists of huge pages (`huge`), the message advises the
// user to reserve huge pages at boot, when contiguous memory is still free.
func (d *device) notContiguousFault(size uint64, huge bool) error {
	reason := fbs.Text("%x bytes of host memory are not physically contiguous", size)
	if !huge {
		return d.fault(NoDevice, reason+hugePageAdvice(size))
	}
	const advice = ", even in huge pages; boot Linux with `hugepages=%d`, " +
		"use windows of at most 2 MiB, or use `vfio:`"
	return d.fault(NoDevice, reason+fbs.Text(advice, advisedHugePageCount(size)))
}

// hugePageAdvice returns the end of an error message, which says how to reserve huge pages for
// `size` bytes.
func hugePageAdvice(size uint64) string {
	const advice = "; reserve huge pages soon after boot with " +
		"`echo %d > /proc/sys/vm/nr_hugepages`, or use `vfio:`"
	return fbs.Text(advice, advisedHugePageCount(size))
}

// advisedHugePageCount returns the number of huge pages that messages advise the user to reserve
// for `size` bytes. This number is twice the number of huge pages that `size` bytes need.
func advisedHugePageCount(size uint64) uint64 {
	return 2 * fbs.RoundUp(size, hugePageSize) / hugePageSize
}
