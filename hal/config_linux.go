package hal

// PCI configuration space, which the kernel offers as a part of a file.

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

// Registers of PCI configuration space (PCI Local Bus 3.0, 6.1 and 6.2), with the names of
// linux/pci_regs.h.
const (
	configCommand       = 0x04   // PCI_COMMAND, R/W u16
	configCommandMemory = 1 << 1 // PCI_COMMAND_MEMORY
	configCommandMaster = 1 << 2 // PCI_COMMAND_MASTER
	configStatus        = 0x06   // PCI_STATUS, R/W1C u16
	configBars          = 6      // PCI_STD_NUM_BARS

	// A transfer of the device's own failed: parity error of data that it read, target abort,
	// master abort, poisoned data (PCI_STATUS_PARITY, _REC_TARGET_ABORT, _REC_MASTER_ABORT,
	// _DETECTED_PARITY).
	configStatusDMA = 1<<8 | 1<<12 | 1<<13 | 1<<15
)

// configSpace is a Port onto configuration space. The kernel makes one access of one, two or four
// aligned bytes as wide as it is asked for (drivers/pci/pci-sysfs.c, pci_read_config;
// drivers/vfio/pci/vfio_pci_config.c, vfio_config_do_rw).
type configSpace struct {
	fd     int
	offset int64 // of configuration space in the file
	size   uint64
	buffer [8]byte // here, so that no access allocates
}

// Load implements Port.
func (s *configSpace) Load(offset uint64, width uint8) (uint64, Code) {
	n, err := syscalls.pread(s.fd, s.buffer[:width], s.offset+int64(offset))
	if code := configAccessCode(n, width, err); code != OK {
		return 0, code
	}
	return fbs.ReadStruct[uint64](s.buffer[:width]), OK
}

// Store implements Port. It stores at most 4 bytes.
func (s *configSpace) Store(offset uint64, width uint8, value uint64) Code {
	s.buffer = [8]byte{byte(value), byte(value >> 8), byte(value >> 16), byte(value >> 24)}
	n, err := syscalls.pwrite(s.fd, s.buffer[:width], s.offset+int64(offset))
	return configAccessCode(n, width, err)
}

// configAccessCode returns the code of an access. The kernel answers ENODEV for a device that was
// removed, EPERM under lockdown, and ESPIPE for a file of sysfs that is open for loads only
// (fs/kernfs/file.c, kernfs_fop_open). A user without CAP_SYS_ADMIN can read the first 64 bytes
// only.
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

// readHeader returns the first 8 bytes: ids, command and status register. It returns 0 if they
// cannot be read.
func (s *configSpace) readHeader() uint64 {
	header, _ := s.Load(0, 8)
	return header
}

// setCommandBit sets or clears a bit of the command register and checks that the device accepted
// it. Enabling bus mastering requires write access to the register, even if the bit is already
// set.
func (d *device) setCommandBit(bit uint64, on bool) error {
	// Store only if the bit has to change: a user who may not store can use an enabled device.
	was, code := d.config.Load(configCommand, 2)
	want := was &^ bit
	if on {
		want |= bit
	}
	if code == OK && (was != want || on && bit == configCommandMaster) {
		code = d.config.Store(configCommand, 2, want)
	}
	if code != OK {
		return d.fault(code, "the command register cannot be written; only root may, and not "+
			"under kernel lockdown")
	}
	// Read the register back: a device or a hypervisor may ignore the store.
	is, _ := d.config.Load(configCommand, 2)
	switch {
	case is == 0xffff:
		return d.fault(DeviceGone, "configuration space reads all ones")
	case is&bit == want&bit:
		return nil
	case bit == configCommandMemory:
		return d.fault(NoDevice, "memory decoding stays off"+seeKernelLog)
	case on:
		return d.fault(MasterOff, "bus mastering stays off, so that the device cannot reach "+
			"memory"+seeKernelLog)
	}
	return d.fault(Internal,
		"bus mastering stays on, so that the device may still write to memory; reset it")
}

const seeKernelLog = "; `lspci -vv` and `dmesg` may say why"

// mapConfig returns an aperture onto configuration space. Verified images store nothing there.
func (d *device) mapConfig(size uint64) (*Aperture, error) {
	if d.config.size < size {
		return nil, d.fault(WrongDevice,
			fbs.Text("configuration space has %d bytes, the window needs %d", d.config.size, size))
	}
	return &Aperture{Port: &d.config, Size: size, Slot: -1}, nil
}
