//go:build !nofaults

package main

import (
	"time"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/faultlog"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// This file records a failure in the file that -faults names. FAULTS.md describes the file. In
// builds with the tag nofaults, the file faults_none.go replaces this file.

const (
	hasFaultRecorder = true
	faultsUsage      = faultsHelp
)

const (
	newFaultFileBytes = 64 * faultlog.EntryBytes // size of a file that lmrun creates
	maxFaultSlots     = 4096                     // largest number of slots that lmrun uses
)

// faultRecorder writes one entry to the file of -faults if lmrun fails. A regular file or a block
// device consists of slots for one entry each, and the new entry replaces the oldest entry. To a
// device without a size, such as /dev/pmsg0, faultRecorder appends the entry.
type faultRecorder struct {
	path         string // path of the file; empty: -faults is not given
	fd           int    // file descriptor, positioned at the slot for the new entry
	entry        faultlog.Entry
	imageView    *fbs.View
	configSpaces []hal.Port // for each device, its configuration space; nil if it cannot be read
}

// openFile opens the file at path and prepares the entry. If path is empty, openFile does nothing.
func (r *faultRecorder) openFile(path string, view *fbs.View) (err error) {
	if path == "" {
		return nil
	}
	// With O_DSYNC, write(2) returns after the entry is on the disk. With O_NONBLOCK, open(2)
	// returns at once even if the path is that of a serial port without a connection.
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_DSYNC | unix.O_NONBLOCK | unix.O_NOCTTY |
		unix.O_CLOEXEC
	r.path, r.imageView = path, view
	r.entry = faultlog.Entry{
		Magic: faultlog.EntryMagic, ImageVersion: view.Version,
		ImageChecksum: fbs.ReadStruct[fbs.Preamble](view.Envelope).Checksum,
	}
	if r.fd, err = unix.Open(path, flags, 0o644); err == nil {
		err = r.seekToNextSlot()
	}
	return hal.FileFault(path, err)
}

// seekToNextSlot moves the position of the file to the slot after the newest entry, and sets the
// number of the new entry. It extends a regular file to newFaultFileBytes, because the disk could
// be full later, when the entry must be written. For a device without a size, seekToNextSlot does
// nothing, and the entry has the number 0.
func (r *faultRecorder) seekToNextSlot() error {
	size, err := unix.Seek(r.fd, 0, unix.SEEK_END)
	var status unix.Stat_t
	_ = unix.Fstat(r.fd, &status) // cannot fail, because the file is open
	missing := int64(0)
	if status.Mode&unix.S_IFMT == unix.S_IFREG {
		missing = max(0, newFaultFileBytes-size)
	}
	if size+missing == 0 || err != nil {
		return err
	}
	if unix.Flock(r.fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return hal.NewFault(hal.IO, r.path+" is in use by another lmrun; name another file")
	}
	var e faultlog.Entry
	slot, newest, isForeign := int64(0), uint64(0), false
	slots := min((size+missing)/faultlog.EntryBytes, maxFaultSlots)
	for i := range slots {
		e.Magic = 0 // so that e is no entry if Pread fails
		_, _ = unix.Pread(r.fd, e.Bytes(), i*faultlog.EntryBytes)
		if e.IsComplete() && e.EntryNumber >= newest {
			slot, newest = (i+1)%slots, e.EntryNumber
		}
		// If a write was interrupted, only the first bytes of EntryMagic are in the file, followed
		// by zeros. A slot with any other bytes was not written by lmrun.
		isForeign = isForeign || e.Magic&^faultlog.EntryMagic != 0
	}
	if isForeign && newest == 0 {
		// The path may be that of a disk with data, given by mistake.
		return hal.NewFault(hal.Usage, r.path+" has data that -faults did not write; name "+
			"another file, or zero this one")
	}
	r.entry.EntryNumber = newest + 1
	if err = files.WriteFull(r.fd, make([]byte, missing)); err != nil {
		return err
	}
	_, err = unix.Seek(r.fd, slot*faultlog.EntryBytes, unix.SEEK_SET)
	return err
}

// mapConfigSpaces opens the PCI configuration space of every device. The caller must call
// mapConfigSpaces after runtime.Load, which rejects devices that do not match the image.
func (r *faultRecorder) mapConfigSpaces(devices []hal.Device) {
	if r.path == "" {
		return
	}
	r.configSpaces = make([]hal.Port, len(devices))
	for i, device := range devices {
		a, err := device.Map(fbs.Window{Kind: gen.WindowKindConfig, Size: 4096})
		if err != nil { // the configuration space of a conventional PCI function has 256 bytes
			a, _ = device.Map(fbs.Window{Kind: gen.WindowKindConfig, Size: 256})
		}
		r.configSpaces[i] = a.Port
	}
}

// readErrorRegisters stores the PCI address and the error registers of one device in the entry. It
// chooses the device of the failed command, or the first device if no command has failed. After
// success, it does nothing. The caller must call readErrorRegisters before it closes the devices.
func (r *faultRecorder) readErrorRegisters(devices []hal.Device, end *outcome) {
	if end.err == nil || r.configSpaces == nil {
		return
	}
	e, device := &r.entry, 0
	if end.result.Code != hal.OK && end.result.Command >= 0 {
		window := r.imageView.Commands[end.result.Command].Window
		device = int(r.imageView.Windows[window].Device)
	}
	copy(e.DeviceAddress[:], devices[device].Identity().Address)
	config := r.configSpaces[device]
	if config == nil {
		return
	}
	loadRegisters(config, 0, e.ConfigRegisters[:])
	if offset := findAER(config); offset != 0 {
		loadRegisters(config, offset, e.AERRegisters[:])
	}
}

// findAER returns the offset of the capability Advanced Error Reporting in configuration space. It
// returns 0 if the device has no such capability, or if this user may not read it.
func findAER(config hal.Port) (offset uint64) {
	const first, aerID, maxCapabilities = 0x100, 1, 48
	offset = first
	for range maxCapabilities {
		header, _ := config.Load(offset, 4)
		if uint16(header) == aerID {
			return offset
		}
		if offset = header >> 20; offset < first {
			break
		}
	}
	return 0
}

// loadRegisters loads registers of 4 bytes from configuration space, starting at the given offset.
// A register that cannot be loaded is 0.
func loadRegisters(config hal.Port, offset uint64, registers []uint32) {
	for i := range registers {
		value, _ := config.Load(offset+4*uint64(i), 4)
		registers[i] = uint32(value)
	}
}

// recordFailure writes the entry if the outcome is a failure. If the write fails, recordFailure
// prints a warning. It allocates memory only for this warning, because a sealed process cannot map
// new memory.
func (r *faultRecorder) recordFailure(end *outcome) {
	if end.err == nil || r.path == "" {
		return
	}
	e := &r.entry
	e.TimeNs, e.Runs, e.Result = uint64(time.Now().UnixNano()), end.runs, end.result
	if end.result.Code == hal.OK { // no command has failed, so record the code of end.err
		e.Result.Code, e.Result.Command = hal.CodeOf(end.err), -1
	}
	if fault, ok := end.err.(*hal.Fault); ok {
		copy(e.Reason[:], fault.Reason)
	}
	e.Checksum = e.ComputeChecksum()
	if err := files.WriteFull(r.fd, e.Bytes()); err != nil {
		_ = printLine(2, "lmrun: -faults: cannot write ", r.path, ": ", err.Error())
	}
}
