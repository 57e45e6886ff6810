package hal

import "golang.org/x/sys/unix"

// openConfig is for the backends `pci` and `tt`. A user without write access opens the file for
// reading only, which suffices for an image without DMA if memory decoding is already on.
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
