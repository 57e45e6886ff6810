//go:build backend_pci || backend_tt || !backend_vfio

package hal

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

// openConfig opens configuration space in the function's folder; a user who may
// not store to it can still load.
func (d *function) openConfig() (err error) {
	path, s := d.sysfsDir()+"/config", &d.config
	if s.fd, err = d.openUntilClose(path, unix.O_RDWR); err != nil {
		s.fd, err = d.openUntilClose(path, unix.O_RDONLY)
	}
	if err != nil {
		return callFault("open", path, err)
	}
	var stat unix.Stat_t
	_ = unix.Fstat(s.fd, &stat) // cannot fail
	s.size = uint64(stat.Size)
	return nil
}

// apartPages is the fault of memory that is no single range for the device.
// Huge pages lie side by side where they were reserved before memory was used.
func notContiguous(name string, size uint64, huge bool) error {
	reason := name + fbs.Text(": %x bytes of host memory do not lie side by side", size)
	if huge {
		return NewFault(NoDevice,
			reason+fbs.Text(", though they are huge pages; reserve those at boot (`hugepages=%d` "+
				"on the kernel's command line), use windows of at most 2 MiB, or open the device "+
				"as vfio:", hugePagesAdvised(size)))
	}
	return NewFault(NoDevice, reason+hugePageAdvice(size))
}

// reserveHuge is what to do where there are no huge pages for size bytes.
func hugePageAdvice(size uint64) string {
	return fbs.Text("; reserve huge pages with `echo %d > /proc/sys/vm/nr_hugepages`, soon after "+
		"boot, or open the device as vfio:", hugePagesAdvised(size))
}

// hugePages is how many huge pages to reserve for size bytes and about as many
// beside them.
func hugePagesAdvised(size uint64) uint64 { return 2 * fbs.RoundUp(size, hugePage) / hugePage }
