//go:build backend_pci || (backend_tt && !notiles) || !backend_vfio

package hal

// This file opens configuration space as a file of sysfs, for the backends of pci: and tt:. The
// file is in the directory of the PCI function.

import "golang.org/x/sys/unix"

// openConfig opens the file of configuration space. If the user has no write access to the file,
// openConfig opens it for reading only.
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
	_ = unix.Fstat(d.config.fd, &stat) // fstat of an open file does not fail
	d.config.size = uint64(stat.Size)
	return nil
}
