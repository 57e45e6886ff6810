package main

import (
	"time"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/args"
	"lightmetal/tools/lmrun/faultlog"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// FAULTS.md describes the file of -faults.

const (
	newFaultFileSlots = 64
	maxFaultSlots     = 4096 // more slots of a large file are not used
)

// faultRecorder writes one entry to the file of -faults if lmrun fails. A regular file or a block
// device consists of slots for one entry each; the new entry replaces the oldest. To a character
// device, such as /dev/pmsg0 or a serial port, it appends the entry.
type faultRecorder struct {
	path         string // empty: record nothing
	fd           int    // positioned at the slot for the new entry
	hasSlots     bool   // false for a character device
	entry        faultlog.Entry
	configSpaces []hal.Port // of each device; nil: cannot be read
}

func (r *faultRecorder) openFile(o args.Options, view *fbs.View) (err error) {
	if o.FaultFile == "" {
		return nil
	}
	// With O_DSYNC, write(2) returns after the entry is on the disk. With O_NONBLOCK, open(2) does
	// not wait for the connection of a serial port.
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_DSYNC | unix.O_NONBLOCK | unix.O_NOCTTY |
		unix.O_CLOEXEC
	r.path = o.FaultFile
	r.entry = faultlog.Entry{
		Magic: faultlog.EntryMagic, ImageVersion: view.Version,
		ImageChecksum: fbs.ReadStruct[fbs.Preamble](view.Envelope).Checksum,
	}
	var status unix.Stat_t
	if r.fd, err = unix.Open(r.path, flags, 0o600); err == nil {
		err = unix.Fstat(r.fd, &status)
	}
	switch {
	case err != nil:
	case status.Mode&unix.S_IFMT == unix.S_IFCHR:
		err = disableOutputProcessing(r.fd)
	default:
		r.hasSlots = true
		err = r.lockAndSeek(o, status.Mode&unix.S_IFMT == unix.S_IFREG)
	}
	return hal.FileFault(r.path, err)
}

// disableOutputProcessing keeps a terminal line from changing the bytes of entries, such as 0x0a.
func disableOutputProcessing(fd int) error {
	settings, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil // not a terminal line
	}
	settings.Oflag &^= unix.OPOST
	return unix.IoctlSetTermios(fd, unix.TCSETS, settings)
}

// lockAndSeek moves the position to the slot for the new entry. A process that may only read the
// file can hold the lock, so the replay does not depend on it.
func (r *faultRecorder) lockAndSeek(o args.Options, isRegular bool) error {
	const attempts = 10 // for 100 ms
	switch err := files.Lock(r.fd, attempts); {
	case err == unix.EAGAIN && o.RequireFaultFile:
		return hal.NewFault(hal.IO, r.path+" is locked by another process (flock); end it, or "+
			"name another file with -faults")
	case err == unix.EAGAIN:
		_ = printLine(2, "lmrun: ", r.path, " is locked by another process (flock): this replay "+
			"records no failure; give each lmrun a -faults file of its own")
		r.path = ""
		return nil
	case err != nil:
		return err
	}
	size, err := unix.Seek(r.fd, 0, unix.SEEK_END)
	if err != nil {
		return err
	}
	slots := size / faultlog.EntryBytes
	if isRegular { // its last slot may be incomplete
		slots = max(newFaultFileSlots, (size+faultlog.EntryBytes-1)/faultlog.EntryBytes)
	}
	slots = min(slots, maxFaultSlots)
	slot, isForeign, err := r.findSlot(slots)
	if err == nil && isForeign && !o.FormatFaultFile {
		return hal.NewFault(hal.Usage, r.path+" has data that -faults did not write; name another "+
			"file, or overwrite the data with -faults-format")
	}
	if err == nil && (isForeign || size == 0) {
		slot, r.entry.EntryNumber = 0, 1
		err = r.writeZeros(slots)
	}
	if err == nil {
		_, err = unix.Seek(r.fd, slot*faultlog.EntryBytes, unix.SEEK_SET)
	}
	return err
}

// findSlot returns the slot after the newest entry, and numbers the new entry. The data are foreign
// if a slot is neither all zeros nor begins with EntryMagic. An entry whose write was interrupted
// still begins with it.
func (r *faultRecorder) findSlot(slots int64) (slot int64, isForeign bool, err error) {
	newest := uint64(0)
	for i := range slots {
		var e faultlog.Entry
		if _, err = unix.Pread(r.fd, e.Bytes(), i*faultlog.EntryBytes); err != nil {
			return 0, false, err
		}
		switch {
		case e.IsComplete() && e.EntryNumber >= newest:
			slot, newest = (i+1)%slots, e.EntryNumber
		case e.Magic != faultlog.EntryMagic && [faultlog.EntryBytes]byte(e.Bytes()) !=
			[faultlog.EntryBytes]byte{}:
			isForeign = true
		}
	}
	r.entry.EntryNumber = newest + 1
	return slot, isForeign, nil
}

// writeZeros fills all slots, so that a disk that becomes full later has room for the entry.
func (r *faultRecorder) writeZeros(slots int64) error {
	_, err := unix.Seek(r.fd, 0, unix.SEEK_SET)
	if err != nil {
		return err
	}
	return files.WriteFull(r.fd, make([]byte, slots*faultlog.EntryBytes))
}

// mapConfigSpaces maps the PCI configuration spaces. It must follow runtime.Load, which rejects
// devices that do not match the image.
func (r *faultRecorder) mapConfigSpaces(devices []hal.Device) {
	if r.path == "" {
		return
	}
	r.configSpaces = make([]hal.Port, len(devices))
	for i, device := range devices {
		a, err := device.Map(fbs.Window{Kind: gen.WindowKindConfig, Size: 4096})
		if err != nil { // a conventional PCI function has 256 bytes
			a, _ = device.Map(fbs.Window{Kind: gen.WindowKindConfig, Size: 256})
		}
		r.configSpaces[i] = a.Port
	}
}

// readErrorRegisters stores the address and error registers of the device of the failed command, or
// of the first device. It must precede the closing of devices.
func (r *faultRecorder) readErrorRegisters(devices []hal.Device, view *fbs.View, end *outcome) {
	if end.err == nil || r.configSpaces == nil {
		return
	}
	e, device := &r.entry, 0
	if end.result.Code != hal.OK && end.result.Command >= 0 {
		window := view.Commands[end.result.Command].Window
		device = int(view.Windows[window].Device)
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

// loadRegisters loads registers of 4 bytes. One that cannot be loaded is 0.
func loadRegisters(config hal.Port, offset uint64, registers []uint32) {
	for i := range registers {
		value, _ := config.Load(offset+4*uint64(i), 4)
		registers[i] = uint32(value)
	}
}

// recordFailure writes the entry if the outcome is a failure. It allocates memory only for a
// warning, because a sealed process cannot map new memory.
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
	data := e.Bytes()
	var err error
	if r.hasSlots { // the magic first: an interrupted write must not look like foreign data
		const magicBytes = 8
		err = files.WriteFull(r.fd, data[:magicBytes])
		data = data[magicBytes:]
	}
	if err == nil {
		err = files.WriteFull(r.fd, data)
	}
	if err != nil {
		_ = printLine(2, "lmrun: -faults: cannot write ", r.path, ": ", err.Error())
	}
}
