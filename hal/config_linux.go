package hal

// PCI configuration space, which the kernel makes accessible as a range of a file.

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

// Registers of PCI configuration space (PCI Local Bus 3.0, 6.1 and 6.2). The comments contain the
// names of the constants in linux/pci_regs.h.
const (
	configCommand       = 0x04   // PCI_COMMAND: offset of the command register, 2 bytes
	configCommandMemory = 1 << 1 // PCI_COMMAND_MEMORY: the bit that enables memory decoding
	configCommandMaster = 1 << 2 // PCI_COMMAND_MASTER: the bit that enables bus mastering
	configStatus        = 0x06   // PCI_STATUS: offset of the status register; a one clears a bit
	configBars          = 6      // PCI_STD_NUM_BARS: number of BARs

	// configStatusDMA has the bits of the status register that show that a transfer of the device
	// has failed: parity error of data that the device read, target abort, master abort, and
	// poisoned data (PCI_STATUS_PARITY, PCI_STATUS_REC_TARGET_ABORT, PCI_STATUS_REC_MASTER_ABORT,
	// PCI_STATUS_DETECTED_PARITY).
	configStatusDMA = 1<<8 | 1<<12 | 1<<13 | 1<<15
)

// configSpace is a Port onto configuration space. If the program reads or writes one, two or four
// aligned bytes of the file, the kernel makes one access of this width to the device
// (drivers/pci/pci-sysfs.c, pci_read_config; drivers/vfio/pci/vfio_pci_config.c,
// vfio_config_do_rw).
type configSpace struct {
	fd     int     // file descriptor of the file that contains configuration space
	offset int64   // offset of configuration space in the file, in bytes
	size   uint64  // accessible bytes of configuration space
	buffer [8]byte // data of one access; a field, because a local buffer would be allocated
}

// Load implements Port.
func (s *configSpace) Load(offset uint64, width uint8) (uint64, Code) {
	n, err := syscalls.pread(s.fd, s.buffer[:width], s.offset+int64(offset))
	if code := configAccessCode(n, width, err); code != OK {
		return 0, code
	}
	return fbs.ReadStruct[uint64](s.buffer[:width]), OK
}

// Store implements Port. width must be at most 4.
func (s *configSpace) Store(offset uint64, width uint8, value uint64) Code {
	s.buffer = [8]byte{byte(value), byte(value >> 8), byte(value >> 16), byte(value >> 24)}
	n, err := syscalls.pwrite(s.fd, s.buffer[:width], s.offset+int64(offset))
	return configAccessCode(n, width, err)
}

// configAccessCode returns the code of an access of width bytes for which the system call returned
// n and err. The kernel returns ENODEV if the device was removed, EPERM under lockdown, and ESPIPE
// if a file of sysfs is open for reading only (fs/kernfs/file.c, kernfs_fop_open). A user without
// CAP_SYS_ADMIN can read only the first 64 bytes; beyond them n is too small.
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

// readHeader returns the first 8 bytes of configuration space: the PCI ids, the command register
// and the status register. It returns 0 if these bytes cannot be read.
func (s *configSpace) readHeader() uint64 {
	header, _ := s.Load(0, 8)
	return header
}

// setCommandBit sets or clears a bit of the command register and checks that the device accepted
// the new value. Enabling bus mastering requires write access to the register, even if the bit is
// already set.
func (d *device) setCommandBit(bit uint64, on bool) error {
	// Store only if the bit has to change: then a user without write access to configuration space
	// can use a device whose memory decoding is already on.
	before, code := d.config.Load(configCommand, 2)
	want := before &^ bit
	if on {
		want |= bit
	}
	if code == OK && (before != want || on && bit == configCommandMaster) {
		code = d.config.Store(configCommand, 2, want)
	}
	if code != OK {
		return d.fault(code, "cannot write the command register; run as root and without kernel "+
			"lockdown")
	}
	// Read the register back: a device or a hypervisor may ignore the store.
	after, _ := d.config.Load(configCommand, 2)
	switch {
	case after == 0xffff:
		return d.fault(DeviceGone, "configuration space reads all ones")
	case after&bit == want&bit:
		return nil
	case bit == configCommandMemory:
		return d.fault(NoDevice, "memory decoding stays off"+kernelLogAdvice)
	case on:
		return d.fault(MasterOff, "bus mastering stays off: the device cannot reach "+
			"memory"+kernelLogAdvice)
	}
	return d.fault(Internal,
		"bus mastering stays on: the device may still write to memory; reset the device")
}

// kernelLogAdvice is the remedy in messages about a bit that the device or a hypervisor ignores.
const kernelLogAdvice = "; look for the reason in `lspci -vv` and `dmesg`"

// mapConfig returns an aperture onto the first size bytes of configuration space. A verified image
// only loads from this aperture.
func (d *device) mapConfig(size uint64) (*Aperture, error) {
	if d.config.size < size {
		return nil, d.fault(WrongDevice,
			fbs.Text("configuration space has %d bytes, but the window needs %d", d.config.size,
				size))
	}
	return &Aperture{Port: &d.config, Size: size, Slot: -1}, nil
}
