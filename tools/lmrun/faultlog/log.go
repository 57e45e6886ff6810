package faultlog

import (
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// This file finds the place for the next entry when lmrun starts, and writes the entry after a
// failure.

const (
	newSlots = 64   // number of slots of a file that Open creates
	maxSlots = 4096 // largest number of slots that Open uses
)

// Log is a file with entries that is open for one more entry. The caller sets the fields of Entry.
type Log struct {
	Entry
	path string
	fd   int
}

// Open opens the file at path and finds the place for the next entry. The file is a ring of slots
// with one entry each: the next entry replaces the oldest one. A regular file is created if it does
// not exist, and has at least newSlots slots. A device without a size, such as /dev/pmsg0, is not
// read: the entry is appended.
//
// Open reserves everything that Write needs. The error is a *hal.Fault.
func Open(path string) (*Log, error) {
	// O_DSYNC makes the write of an entry return after the entry is stored. With O_NONBLOCK, a
	// FIFO that is named by mistake does not make open(2) wait.
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_DSYNC | unix.O_NONBLOCK | unix.O_NOCTTY |
		unix.O_CLOEXEC
	fd, err := unix.Open(path, flags, 0o644)
	if err != nil {
		return nil, hal.FileFault(path, err)
	}
	l := &Log{path: path, fd: fd}
	if err = l.prepare(); err != nil {
		unix.Close(fd)
		return nil, hal.FileFault(path, err)
	}
	return l, nil
}

// prepare allocates the space of a regular file, locks the file, and moves the file position to the
// slot for the next entry.
func (l *Log) prepare() error {
	var status unix.Stat_t
	err := unix.Fstat(l.fd, &status)
	kind := status.Mode & unix.S_IFMT
	isRegular := kind == unix.S_IFREG
	if err == nil && isRegular {
		// Allocate the space now, so that a full disk does not prevent the write of an entry.
		err = unix.Fallocate(l.fd, 0, 0, newSlots*EntryBytes)
		if err == unix.EOPNOTSUPP {
			err = nil // not every file system can allocate space
		}
	}
	if !isRegular && kind != unix.S_IFBLK && kind != unix.S_IFCHR {
		err = hal.NewFault(hal.BadImage, l.path+" must be a regular file or a device")
	}
	if err != nil {
		return err
	}
	size, err := unix.Seek(l.fd, 0, unix.SEEK_END)
	if isRegular {
		size = max(size, newSlots*EntryBytes)
	}
	if err != nil || size < EntryBytes { // a device without a size: append entries
		return err
	}
	if unix.Flock(l.fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return hal.NewFault(hal.IO, l.path+" is in use by another lmrun; name another file")
	}
	slot, err := l.findSlot(min(size/EntryBytes, maxSlots))
	if err == nil {
		_, err = unix.Seek(l.fd, slot*EntryBytes, unix.SEEK_SET)
	}
	return err
}

// findSlot returns the index of the slot after the newest entry, and sets l.Number to the number of
// the next entry. It returns an error if the file begins with other data than an entry or zeros:
// such a file was named by mistake, and may be a disk.
func (l *Log) findSlot(slots int64) (slot int64, err error) {
	var data [EntryBytes]byte
	for i := range slots {
		n, err := unix.Pread(l.fd, data[:], i*EntryBytes)
		if err != nil {
			return 0, err
		}
		if i == 0 && !mayBeginLog(data[:len(Magic)]) {
			return 0, hal.NewFault(hal.BadImage, l.path+" contains other data than entries of "+
				"-faults; name another file, or fill it with zeros")
		}
		e, isComplete := Decode(data[:n])
		if isComplete && e.Number >= l.Number {
			slot, l.Number = (i+1)%slots, e.Number
		}
	}
	l.Number++
	return slot, nil
}

// mayBeginLog reports whether a file of entries can begin with these bytes: Magic, or Magic of
// which some bytes are zero because its write was interrupted.
func mayBeginLog(start []byte) bool {
	for i, b := range start {
		if b != 0 && b != Magic[i] {
			return false
		}
	}
	return true
}

// Write writes l.Entry with one system call, and allocates no memory.
func (l *Log) Write() error {
	copy(l.Magic[:], Magic)
	l.Checksum = fbs.Checksum(l.bytes()[:checksumOffset])
	return files.WriteFull(l.fd, l.bytes())
}
