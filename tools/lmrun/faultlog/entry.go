// Package faultlog defines the entries of `lmrun -faults`, as tools/lmrun/FAULTS.md specifies them.
package faultlog

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/runtime"
)

const EntryMagic = 0x31544c5541464d4c // "LMFAULT1", little-endian

// EntryBytes is a sector of a disk, so that an interrupted write damages no other entry.
const EntryBytes = 512

const checksumOffset = EntryBytes - 4

// Entry describes one failure, in the layout of the file.
type Entry struct {
	Magic           uint64 // EntryMagic
	EntryNumber     uint64 // from 1; 0 on a device without a size
	TimeNs          uint64 // since 1970
	Runs            uint64 // completed before the failure
	Result          runtime.Result
	ImageChecksum   uint32     // from the preamble
	ImageVersion    uint32     // from the signature
	ConfigRegisters [2]uint32  // PCI ids, command, status; 0: not read
	AERRegisters    [11]uint32 // Advanced Error Reporting; 0: not read
	DeviceAddress   [40]byte   // padded with zeros
	Reason          [328]byte  // without the code, padded with zeros
	Checksum        uint32     // CRC-32C of the rest
}

// The compiler rejects another layout.
var (
	_ [48]byte             = [unsafe.Sizeof(runtime.Result{})]byte{}
	_ [checksumOffset]byte = [unsafe.Offsetof(Entry{}.Checksum)]byte{}
	_ [EntryBytes]byte     = [unsafe.Sizeof(Entry{})]byte{}
)

// Bytes returns the entry's memory, not a copy.
func (e *Entry) Bytes() []byte { return (*[EntryBytes]byte)(unsafe.Pointer(e))[:] }

// ComputeChecksum returns what Checksum must be.
func (e *Entry) ComputeChecksum() uint32 { return fbs.Checksum(e.Bytes()[:checksumOffset]) }

// IsComplete reports whether the entry was written completely.
func (e *Entry) IsComplete() bool {
	return e.Magic == EntryMagic && e.Checksum == e.ComputeChecksum()
}
