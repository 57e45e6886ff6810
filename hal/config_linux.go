package hal

// This file accesses the PCI configuration space of a device. The kernel provides configuration
// space as a file (sysfs) or as a range of a file (VFIO).

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

// Registers of PCI configuration space (PCI Local Bus 3.0, 6.1 and 6.2). The comments name the
// constants of linux/pci_regs.h.
const (
	configCommandOffset    = 0x04    // PCI_COMMAND: offset of the command register, 2 bytes
	configCommandMemoryBit = 1 << 1  // PCI_COMMAND_MEMORY: command bit that enables memory decoding
	configCommandMasterBit = 1 << 2  // PCI_COMMAND_MASTER: command bit that enables bus mastering
	configCommandINTxOff   = 1 << 10 // PCI_COMMAND_INTX_DISABLE: command bit that disables INTx
	configStatusOffset     = 0x06    // PCI_STATUS: offset of the status register, 2 bytes
	configBarCount         = 6       // PCI_STD_NUM_BARS: number of BARs
	configBar0Offset       = 0x10    // PCI_BASE_ADDRESS_0: six registers of 4 bytes
	configBarsEnd          = configBar0Offset + 4*configBarCount

	// configStatusDMAErrors is the mask of the status bits that report a failed DMA transfer. Bit
	// 8: the device received or sent poisoned data as a bus master (PCI_STATUS_PARITY). Bit 12:
	// target abort (PCI_STATUS_REC_TARGET_ABORT). Bit 13: master abort
	// (PCI_STATUS_REC_MASTER_ABORT). Bit 15: the device received a poisoned packet
	// (PCI_STATUS_DETECTED_PARITY). Writing 1 to a bit clears it.
	configStatusDMAErrors = 1<<8 | 1<<12 | 1<<13 | 1<<15
)

// configSpace implements Port for configuration space. For a read or write of 1, 2 or 4 aligned
// bytes of the file, the kernel makes one access of the same width to the device (Linux,
// drivers/pci/pci-sysfs.c, pci_read_config; drivers/vfio/pci/vfio_pci_config.c, vfio_config_do_rw).
type configSpace struct {
	fd     int          // of the file that contains configuration space; -1 if closed
	offset int64        // of configuration space in the file, in bytes
	size   uint64       // bytes of configuration space that this program can access
	buffer barRegisters // data of one access; Go would allocate a local variable on the heap
	bars   barRegisters // when the device was acquired
}

type barRegisters [4 * configBarCount]byte

// Load implements Port.
func (s *configSpace) Load(offset uint64, width uint8) (uint64, Code) {
	n, err := syscalls.pread(s.fd, s.buffer[:width], s.offset+int64(offset))
	if code := configAccessCode(n, width, err); code != OK {
		return 0, code
	}
	return fbs.ReadStruct[uint64](s.buffer[:width]), OK
}

// Store implements Port. `width` must be at most 4.
func (s *configSpace) Store(offset uint64, width uint8, value uint64) Code {
	s.buffer = [len(s.buffer)]byte{byte(value), byte(value >> 8), byte(value >> 16),
		byte(value >> 24)}
	n, err := syscalls.pwrite(s.fd, s.buffer[:width], s.offset+int64(offset))
	return configAccessCode(n, width, err)
}

// storeBit replaces a bit of a register of 2 bytes. Errors are ignored: a user who may not write
// configuration space can still use the device.
func (s *configSpace) storeBit(offset, bit, value uint64) {
	now, code := s.Load(offset, 2)
	if code == OK && now&bit != value {
		_ = s.Store(offset, 2, now&^bit|value)
	}
}

// configAccessCode converts the result of a pread or pwrite of `width` bytes to a Code. `count` is
// the number of bytes that were transferred, and `err` is the error. The kernel returns these
// errors:
//   - ENODEV: the device was removed.
//   - EPERM: kernel lockdown denies the access.
//   - ESPIPE: pwrite on a sysfs file that was opened for reading only (Linux, fs/kernfs/file.c,
//     kernfs_fop_open).
//
// A user without CAP_SYS_ADMIN can read only the first 64 bytes. If an access extends beyond them,
// the kernel transfers fewer than `width` bytes.
func configAccessCode(count int, width uint8, err error) Code {
	switch errnoOf(err) {
	case 0:
		if count == int(width) {
			return OK
		}
		return Denied
	case unix.ENODEV:
		return DeviceGone
	case unix.EPERM, unix.ESPIPE:
		return Denied
	}
	return IO
}

// readHeader returns the first 8 bytes of configuration space (ids, command and status register),
// or 0 if they cannot be read, and whether the device answers and decodes memory accesses.
//
// The ids of a virtual function read as all ones, and its memory decoding bit as 0 (SR-IOV 1.1,
// 3.4.1). No command register is all ones, because its upper bits are reserved. A device that has
// reset itself has no addresses in its BARs.
func (d *device) readHeader() (header uint64, alive bool) {
	header, code := d.config.Load(0, 8)
	command := uint16(header >> (8 * configCommandOffset))
	decodes := d.pciFunction.isVirtual ||
		uint16(header) != 0xffff && command&configCommandMemoryBit != 0
	alive = code == OK && command != 0xffff && decodes &&
		(!d.acquired || d.config.readBARs() == d.config.bars)
	return header, alive
}

// readBARs returns the registers of the BARs, or zeros if they cannot be read.
func (s *configSpace) readBARs() barRegisters {
	n, _ := syscalls.pread(s.fd, s.buffer[:], s.offset+configBar0Offset)
	if n != len(s.buffer) {
		return barRegisters{}
	}
	return s.buffer
}

// setCommandRegisterBit sets or clears the bit `mask` of the PCI command register, and checks that
// the device has accepted the new value.
func (d *device) setCommandRegisterBit(mask uint64, on bool) error {
	if mask == configCommandMemoryBit && d.pciFunction.isVirtual {
		return nil // always on; the bit reads as 0
	}
	// If the bit already has the wanted value, do not write the register. A user who may not write
	// configuration space can then use a device whose memory decoding is already on. There is one
	// exception: to enable bus mastering, write the register even if the bit is already set. A user
	// who may not write configuration space must not be able to start DMA.
	before, code := d.config.Load(configCommandOffset, 2)
	want := before &^ mask
	if on {
		want |= mask
	}
	if code == OK && (before != want || on && mask == configCommandMasterBit) {
		code = d.config.Store(configCommandOffset, 2, want)
	}
	if code != OK {
		return d.fault(code, "cannot write the command register; "+
			"run as root and without kernel lockdown")
	}
	// Read the register back, because a device or a hypervisor may ignore the write. If the read
	// fails, assume that the write was ignored.
	after, code := d.config.Load(configCommandOffset, 2)
	if code != OK {
		after = ^want
	}
	switch {
	case after == 0xffff:
		return d.allOnesFault()
	case after&mask == want&mask:
		return nil
	case mask == configCommandMemoryBit:
		return d.fault(NoDevice, "memory decoding stays off"+kernelLogAdvice)
	case on:
		return d.fault(MasterOff,
			"bus mastering stays off: the device cannot reach memory"+kernelLogAdvice)
	}
	return d.fault(Internal,
		"bus mastering stays on: the device may still write to memory; reset the device")
}

// allOnesFault returns the Fault for configuration space that reads as all ones, which means that
// the device does not answer.
func (d *device) allOnesFault() error {
	return d.goneFault("configuration space reads as all ones; reset the device, or")
}

// goneFault returns the Fault for a device that must be found again.
//
//go:noinline
func (d *device) goneFault(text string) error {
	return JoinFault(DeviceGone, d.pciFunction.Name, ": ", text,
		" remove the device with `echo 1 > ", sysfsDevicesDir, "/", d.pciFunction.Address,
		"/remove` and find it again with `echo 1 > /sys/bus/pci/rescan`")
}

// kernelLogAdvice is the end of some error messages. It names two commands whose output may contain
// the reason of the failure.
const kernelLogAdvice = "; see `lspci -vv` and `dmesg`"

// mapConfig returns an aperture of the first `size` bytes of configuration space. The commands of a
// verified image only load from this aperture, and never store to it.
func (d *device) mapConfig(size uint64) (*Aperture, error) {
	if d.config.size < size {
		return nil, d.fault(WrongDevice,
			fbs.Text("configuration space has %d bytes, but the window needs %d bytes",
				d.config.size, size))
	}
	return &Aperture{Port: &d.config, Size: size, TLBWindow: -1}, nil
}
