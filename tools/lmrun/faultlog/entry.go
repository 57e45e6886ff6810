// Package faultlog defines the entries that lmrun -faults writes after a failure and `lm faults`
// prints. tools/lmrun/FAULTS.md specifies the file.
package faultlog

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/runtime"
)

// EntryMagic contains the first 8 bytes of every entry as a little-endian number: "LMFAULT1".
const EntryMagic = 0x31544c5541464d4c

// EntryBytes is the size of an entry, which is the size of a disk sector. A disk writes a sector
// completely or not at all. Therefore an interrupted write damages no other entry.
const EntryBytes = 512

const checksumOffset = EntryBytes - 4 // offset of Entry.Checksum in an entry

// Entry describes one failure. It has the same layout as the bytes in the file.
type Entry struct {
	Magic           uint64 // must equal the constant EntryMagic
	EntryNumber     uint64 // 1 for the first entry of a file; 0 on a device without a size
	TimeNs          uint64 // time of the failure, in nanoseconds since 1970
	Runs            uint64 // number of runs that were completed before the failure
	Result          runtime.Result
	ImageChecksum   uint32     // from the preamble of the image
	ImageVersion    uint32     // from the signature of the image
	ConfigRegisters [2]uint32  // first 8 bytes of PCI configuration space; 0: not read
	AERRegisters    [11]uint32 // PCI capability Advanced Error Reporting (AER); 0: not read
	DeviceAddress   [40]byte   // PCI address of the device, padded with zeros
	Reason          [328]byte  // error text without the code, padded with zeros
	Checksum        uint32     // CRC-32C of all fields above
}

// The compiler rejects these declarations if an Entry does not have the layout of FAULTS.md.
var (
	_ [48]byte             = [unsafe.Sizeof(runtime.Result{})]byte{}
	_ [checksumOffset]byte = [unsafe.Offsetof(Entry{}.Checksum)]byte{}
	_ [EntryBytes]byte     = [unsafe.Sizeof(Entry{})]byte{}
)

// Bytes returns the memory of the entry.
func (e *Entry) Bytes() []byte { return (*[EntryBytes]byte)(unsafe.Pointer(e))[:] }

// ComputeChecksum returns the value that Checksum must have.
func (e *Entry) ComputeChecksum() uint32 { return fbs.Checksum(e.Bytes()[:checksumOffset]) }

// IsComplete reports whether the entry was written completely and has not been changed since.
func (e *Entry) IsComplete() bool {
	return e.Magic == EntryMagic && e.Checksum == e.ComputeChecksum()
}
