package hal

// This file opens the sysfs file of a PCI function's configuration space, for the backends `pci`
// and `tt`. The backend `vfio` accesses configuration space through VFIO instead.

import "golang.org/x/sys/unix"

// openConfig opens the file of the device's configuration space. If the user has no write access to
// the file, openConfig opens the file for reading only. Read access is sufficient to replay an
// image without DMA if memory decoding is already on.
func (d *device) openConfig() (err error) {
	path := d.configPath()
	d.config.fd, err = d.cleanups.openFile(path, unix.O_RDWR)
	if err != nil {
		d.config.fd, err = d.cleanups.openFile(path, unix.O_RDONLY)
	}
	if err != nil {
		return syscallFault("open", path, err)
	}
	var stat unix.Stat_t
	_ = unix.Fstat(d.config.fd, &stat) // fstat of an open file does not fail
	d.config.size = uint64(stat.Size)
	return nil
}
