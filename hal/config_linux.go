package hal

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

// PCI Local Bus 3.0, 6.1 and 6.2; names of linux/pci_regs.h
const (
	configCommandOffset    = 0x04    // PCI_COMMAND: register of 2 bytes
	configCommandMemoryBit = 1 << 1  // PCI_COMMAND_MEMORY: enables memory decoding
	configCommandMasterBit = 1 << 2  // PCI_COMMAND_MASTER: enables bus mastering
	configCommandINTxOff   = 1 << 10 // PCI_COMMAND_INTX_DISABLE
	configStatusOffset     = 0x06    // PCI_STATUS: register of 2 bytes
	configBarCount         = 6       // PCI_STD_NUM_BARS
	configBar0Offset       = 0x10    // PCI_BASE_ADDRESS_0: six registers of 4 bytes
	configBarsEnd          = configBar0Offset + 4*configBarCount

	// Failed DMA. Bit 8: poisoned data received or sent as bus master (PCI_STATUS_PARITY); 12:
	// target abort (PCI_STATUS_REC_TARGET_ABORT); 13: master abort (PCI_STATUS_REC_MASTER_ABORT);
	// 15: a poisoned packet (PCI_STATUS_DETECTED_PARITY). Writing 1 clears a bit.
	configStatusDMAErrors = 1<<8 | 1<<12 | 1<<13 | 1<<15
)

// configSpace implements Port. For 1, 2 or 4 aligned bytes of the file, the kernel makes one access
// of this width (Linux, drivers/pci/pci-sysfs.c, pci_read_config;
// drivers/vfio/pci/vfio_pci_config.c, vfio_config_do_rw).
type configSpace struct {
	fd     int          // of the file that contains configuration space; -1: closed
	offset int64        // of configuration space in the file, in bytes
	size   uint64       // bytes that this program can access
	buffer barRegisters // data of one access; Go would allocate a local variable on the heap
	bars   barRegisters // contents when the device was acquired
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

// Store implements Port, for at most 4 bytes.
func (s *configSpace) Store(offset uint64, width uint8, value uint64) Code {
	s.buffer = [len(s.buffer)]byte{byte(value), byte(value >> 8), byte(value >> 16),
		byte(value >> 24)}
	n, err := syscalls.pwrite(s.fd, s.buffer[:width], s.offset+int64(offset))
	return configAccessCode(n, width, err)
}

// storeBit stores to a register of 2 bytes, and ignores errors: a user who may not write
// configuration space can still use the device.
func (s *configSpace) storeBit(offset, bit, value uint64) {
	now, code := s.Load(offset, 2)
	if code == OK && now&bit != value {
		_ = s.Store(offset, 2, now&^bit|value)
	}
}

// configAccessCode converts the result of pread or pwrite. ENODEV: the device was removed. EPERM:
// kernel lockdown. ESPIPE: the file is open for reading only (Linux, fs/kernfs/file.c,
// kernfs_fop_open). Too few bytes: a user without CAP_SYS_ADMIN may read only the first 64.
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

// readHeader returns the first 8 bytes (ids, command, status), or 0 after an error.
//
// A virtual function's ids read as all ones, and its memory decoding bit as 0 (SR-IOV 1.1, 3.4.1).
// No command register is all ones: its upper bits are reserved. A device that has reset itself has
// no addresses in its BARs.
func (d *device) readHeader() (header uint64, alive bool) {
	header, code := d.config.Load(0, 8)
	command := uint16(header >> (8 * configCommandOffset))
	decodes := d.pciFunction.isVirtual ||
		uint16(header) != 0xffff && command&configCommandMemoryBit != 0
	alive = code == OK && command != 0xffff && decodes &&
		(!d.acquired || d.config.readBARs() == d.config.bars)
	return header, alive
}

// readBARs returns zeros after an error.
func (s *configSpace) readBARs() barRegisters {
	n, _ := syscalls.pread(s.fd, s.buffer[:], s.offset+configBar0Offset)
	if n != len(s.buffer) {
		return barRegisters{}
	}
	return s.buffer
}

// setCommandRegisterBit also checks that the device has accepted the value.
func (d *device) setCommandRegisterBit(mask uint64, on bool) error {
	if mask == configCommandMemoryBit && d.pciFunction.isVirtual {
		return nil // always on; the bit reads as 0
	}
	// A bit that is set already is not written, so that a user without write access can use a
	// device whose memory decoding is on. Such a user must not start DMA: bus mastering on is
	// always written.
	before, code := d.config.Load(configCommandOffset, 2)
	want := before &^ mask
	if on {
		want |= mask
	}
	if code == OK && (before != want || on && mask == configCommandMasterBit) {
		code = d.config.Store(configCommandOffset, 2, want)
	}
	if code != OK {
		return d.fault(code, "cannot access the command register; "+
			"run as root and without kernel lockdown")
	}
	// A device or a hypervisor may ignore the write.
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

func (d *device) allOnesFault() error {
	return d.goneFault("configuration space reads as all ones; reset the device, or")
}

// goneFault is for a device that must be found again. Inlined copies would enlarge programs.
//
//go:noinline
func (d *device) goneFault(text string) error {
	return JoinFault(DeviceGone, d.pciFunction.Name, ": ", text,
		" remove the device with `echo 1 > ", sysfsDevicesDir, "/", d.pciFunction.Address,
		"/remove` and find it again with `echo 1 > /sys/bus/pci/rescan`")
}

const kernelLogAdvice = "; see `lspci -vv` and `dmesg`"

// mapConfig maps nothing: images only load from configuration space, through a Port.
func (d *device) mapConfig(size uint64) (*Aperture, error) {
	if d.config.size < size {
		return nil, d.fault(WrongDevice,
			fbs.Text("configuration space has %d bytes, but the window needs %d bytes",
				d.config.size, size))
	}
	return &Aperture{Port: &d.config, Size: size, TLBWindow: -1}, nil
}
