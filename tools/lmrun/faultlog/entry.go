// Package faultlog keeps records of failures in a file or a memory region that survives a restart
// of the machine. lmrun writes one entry when it fails; `lm faults` prints the entries.
package faultlog

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"
)

// This file defines the bytes of an entry. tools/lmrun/FAULTS.md specifies them.

// Magic contains the first bytes of every entry. The last character is the version of the format.
const Magic = "LMFAULT1"

// EntryBytes is the size of an entry. It is the size of a disk sector, which a disk writes
// completely or not at all, so that an interrupted write does not damage the neighbors of an entry.
const EntryBytes = 512

const checksumOffset = EntryBytes - 4 // offset of Entry.Checksum in an entry

// Entry describes one failure. It has the same layout as the bytes in the file.
type Entry struct {
	Magic  [8]byte // must equal Magic
	Number uint64  // counts the entries of a file from 1; 0 if the file cannot be read back
	TimeNs uint64  // time of the machine's clock, in nanoseconds since 1970
	Runs   uint64  // number of runs that were completed before the failure
	// Fields of runtime.Result with the same names.
	Got, Want, Mask, Element uint64
	CommandStatus            uint32 // PCI command register, and PCI status in the upper half
	Uncorrectable            uint32 // AER uncorrectable error status
	Correctable              uint32 // AER correctable error status
	HeaderLog                [4]uint32
	ImageChecksum            uint32 // checksum in the preamble of the image
	ImageVersion             uint32 // version in the signature of the image; 0: none
	Command                  int32  // index in the image of the command that failed; -1: none
	Code, Safe               hal.Code
	Flags                    uint16    // Flag constants
	Device                   [40]byte  // PCI address of the device, padded with zeros
	Reason                   [360]byte // error text of lmrun without the code, padded with zeros
	Checksum                 uint32    // CRC-32C of all fields above
}

// These declarations check the size of an entry and the offset of the checksum.
var (
	_ [EntryBytes]byte     = [unsafe.Sizeof(Entry{})]byte{}
	_ [checksumOffset]byte = [unsafe.Offsetof(Entry{}.Checksum)]byte{}
)

// Flags of an entry. They state which fields have a meaning.
const (
	FlagSafeRan = 1 << iota // the sequence `safe` ran; Safe is its result
	FlagStatus              // CommandStatus was read from the device
	FlagAER                 // Uncorrectable, Correctable and HeaderLog were read from the device
)

// bytes returns the memory of the entry.
func (e *Entry) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(e)), EntryBytes)
}

// Decode returns the entry in the first EntryBytes of data. isComplete is false if data is shorter
// or has no entry, or an entry that was written only in part or was changed.
func Decode(data []byte) (e Entry, isComplete bool) {
	if len(data) < EntryBytes {
		return e, false
	}
	e = fbs.ReadStruct[Entry](data)
	sum := fbs.Checksum(data[:checksumOffset])
	return e, string(e.Magic[:]) == Magic && e.Checksum == sum
}
