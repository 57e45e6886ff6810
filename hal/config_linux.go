package hal

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

// Registers of PCI configuration space (PCI Local Bus 3.0, 6.1 and 6.2).
const (
	configCommand       = 0x04 // R/W u16
	configCommandMemory = 1 << 1
	configCommandMaster = 1 << 2
	configStatus        = 0x06 // R/W1C u16
	configBars          = 6

	// A transfer of the device's own went wrong: parity error of data it asked
	// for, target abort, master abort, poisoned data.
	configStatusDMA = 1<<8 | 1<<12 | 1<<13 | 1<<15
)

// command sets or clears a bit of the command register and sees that it stays. Who
// may not store to it may not let the device master the bus, though it does already.
func (d *function) setCommandBit(bit uint64, on bool) error {
	was, code := d.config.Load(configCommand, 2)
	want := was &^ bit
	if on {
		want |= bit
	}
	if code == OK && (was != want || on && bit == configCommandMaster) {
		code = d.config.Store(configCommand, 2, want)
	}
	if code != OK {
		return NewFault(code, d.identity.Name+
			": the command register in configuration space cannot be stored to (only root may, "+
			"and not under kernel lockdown)")
	}
	is, _ := d.config.Load(configCommand, 2)
	switch {
	case is == 0xffff:
		return NewFault(DeviceGone, d.identity.Name+": configuration space reads all ones")
	case is&bit == want&bit:
		return nil
	case bit == configCommandMemory:
		return NewFault(NoDevice, d.identity.Name+
			": memory decoding stays off; `lspci -vv` and `dmesg` may say why")
	case on:
		return NewFault(MasterOff, d.identity.Name+
			": bus mastering stays off, so that the device cannot reach memory; `lspci -vv` and "+
			"`dmesg` may say why")
	}
	return NewFault(Internal, d.identity.Name+
		": bus mastering stays on, so that the device may still write to memory; reset it")
}

// mapConfig opens configuration space, to which an image stores nothing.
func (d *function) mapConfig(size uint64) (Aperture, error) {
	if d.config.size < size {
		return Aperture{}, NewFault(WrongDevice,
			d.identity.Name+fbs.Text(": configuration space has %d bytes, the window needs %d",
				d.config.size, size))
	}
	return Aperture{Port: &d.config, Size: size, Slot: -1}, nil
}

// configSpace carries accesses to configuration space, which is a part of a
// file. The kernel makes one access of one, two or four aligned bytes as wide
// as it is asked for (drivers/pci/pci-sysfs.c, pci_read_config;
// drivers/vfio/pci/vfio_pci_config.c, vfio_config_do_rw).
type configSpace struct {
	fd     int
	offset int64 // in the file
	size   uint64
	buffer [8]byte // here, so that no access allocates
}

func (s *configSpace) Load(offset uint64, width uint8) (uint64, Code) {
	n, err := syscalls.pread(s.fd, s.buffer[:width], s.offset+int64(offset))
	if code := configAccessCode(n, width, err); code != OK {
		return 0, code
	}
	return fbs.ReadStruct[uint64](s.buffer[:width]), OK
}

func (s *configSpace) Store(offset uint64, width uint8, value uint64) Code {
	// of a store here, of 4 bytes at most
	s.buffer = [8]byte{byte(value), byte(value >> 8), byte(value >> 16), byte(value >> 24)}
	n, err := syscalls.pwrite(s.fd, s.buffer[:width], s.offset+int64(offset))
	return configAccessCode(n, width, err)
}

// configCode is the code of an access: a device that was removed answers ENODEV,
// lockdown EPERM, a file of sysfs that is open for loads alone ESPIPE (fs/kernfs/file.c,
// kernfs_fop_open), and a user without CAP_SYS_ADMIN gets the first 64 bytes only.
func configAccessCode(n int, width uint8, err error) Code {
	switch {
	case err == unix.ENODEV:
		return DeviceGone
	case err == unix.EPERM || err == unix.ESPIPE:
		return Denied
	case err != nil:
		return IO
	case n != int(width):
		return Denied
	}
	return OK
}
