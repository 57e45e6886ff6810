//go:build backend_pci || (backend_tt && !notiles) || !backend_vfio

package hal

// Configuration space as a file in the function's directory in sysfs: for pci: and tt:.

import "golang.org/x/sys/unix"

// openConfig opens configuration space. A user who may not store to it can still load.
func (d *device) openConfig() (err error) {
	path := d.function.dir() + "/config"
	d.config.fd, err = d.cleanups.openFile(path, unix.O_RDWR)
	if err != nil {
		d.config.fd, err = d.cleanups.openFile(path, unix.O_RDONLY)
	}
	if err != nil {
		return callFault("open", path, err)
	}
	var stat unix.Stat_t
	_ = unix.Fstat(d.config.fd, &stat) // cannot fail on an open file
	d.config.size = uint64(stat.Size)
	return nil
}
