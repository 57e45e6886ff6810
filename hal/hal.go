// Package hal opens a PCIe device and maps its address ranges. An Aperture is one
// such range: loads and stores of one, two, four and eight bytes, and block copies,
// each exactly as wide as the command requires.
//
// There are three backends. pci: uses sysfs; nothing restricts which memory the
// device reaches, so it is for bring-up. vfio: puts the device behind an IOMMU and
// is for production. tt: shares the device with Tenstorrent's own driver. All three
// map BARs and host memory, so that a Fence (MFENCE or DSB SY) is a full barrier on
// each. Every backend supplies its part of the one type that implements Device
// (device_linux.go). The build tags backend_pci, backend_vfio and backend_tt
// select some of them.
//
// A BAR is not memory. The Go compiler merges and deletes plain stores, and copy
// uses overlapping unaligned pairs. Therefore every access to mapped device memory
// is one instruction of one assembly routine (walk_amd64.s, walk_arm64.s), and no
// []byte of a BAR leaves this package. port.go and oracle.go define what each
// command does; the assembly is tested against them.
package hal

import "lightmetal/fbs"

// Identity describes a device that has been opened.
type Identity struct {
	Name           string // the name that it was opened by
	Address        string // "0000:01:00.0", the same in all its handles; "" if unknown
	Vendor, Device uint16 // PCI ids
	Subsystem      uint32 // the register at 0x2c of configuration space; 0 if unknown
	Bars           [6]uint64
}

// Device is one PCIe function, or a mock of one. Map is called while an image is
// loaded; after that nothing is mapped, opened or reserved.
type Device interface {
	// Identity returns the name, ids and BAR sizes of the device.
	Identity() Identity

	// Map makes a window of an image accessible. The device keeps no reference to w.
	//
	// Before the first Map nothing is stored to the device, and it is not reset: a
	// caller that has opened the wrong device sees that in Identity and can close it
	// unchanged.
	//
	// For a Tlb window, Map reserves a TLB window of at least w.Size: number w.Slot
	// if that is free, else any. For a Bar window, the range must lie inside the BAR.
	// For a Host window, Map reserves zeroed memory, which the device reaches at the
	// aperture's Bus.
	Map(w fbs.Window) (Aperture, error)

	// EncodeWindow turns the Point command c into register stores that a Walk
	// executes directly, on devices that program windows through registers. a is the
	// aperture that Map returned for the window. EncodeWindow sets these fields of c:
	//
	//	Offset  the window's registers, in bytes from the address registers
	//	Width   8 for one register of 8 bytes, 4 for three of 4 bytes, the lowest first
	//	Value   the first 8 bytes of the registers
	//	Mask    the last 4 bytes, if there are three registers
	//	Amount  bytes from home to the aperture's first byte
	//
	// registers is the address of the device's first such register: the caller puts it
	// into Walk.Windows, at c.Index. home is the address of the first byte of the TLB
	// window: the caller puts it into Walk.TLBWindows, at c.Window. If registers is 0,
	// c is unchanged, and ProgramWindow must be called instead.
	EncodeWindow(a *Aperture, t fbs.TileRange, address uint64, c *fbs.Command) (
		registers, home uintptr, code Code)

	// ProgramWindow makes the first byte of a, which Map returned for a Tlb window, show
	// the byte at address of a tile. The address is a multiple of the window's size. If
	// the TLB window is larger, it shows the surrounding range, and a moves within it.
	ProgramWindow(a *Aperture, t fbs.TileRange, address uint64) Code

	// AssignBusAddress sets a.Bus to an address at which this device reaches a, which is
	// a window of the device of. Both devices may be the same.
	AssignBusAddress(a *Aperture, of Device) error

	// SetBusMaster switches bus mastering on or off. When SetBusMaster(false) has
	// returned, the device no longer changes memory. Close does the same. A sealed
	// program cannot close anything and calls SetBusMaster(false) instead.
	SetBusMaster(on bool) error

	// Alive reports whether the device still answers: its PCI vendor id reads back, and
	// memory decoding is on. It is called after a load has returned all ones.
	Alive() bool

	// Diagnose returns the cause of a failure as far as the device shows it: OK,
	// DeviceGone, MasterOff or DMAFault. It does not allocate, and makes only system
	// calls that a sealed program may make.
	Diagnose() Code

	// Now returns the time of a monotonic clock in nanoseconds. Sleep waits until at
	// least that much of the device's time has passed. A mock may use virtual time.
	Now() int64
	Sleep(nanoseconds int64)

	// Close stops bus mastering and releases the device.
	Close() error
}

// Aperture is a range of a device's address space. It is either mapped memory, whose
// address is an entry of Walk.Windows, or a port.
type Aperture struct {
	Base uintptr // address of the first byte if the range is mapped, else 0
	Port Port    // accesses the range if it is not mapped
	Size uint64  // bytes
	Slot int     // number of the TLB window, -1 for other kinds of windows
	Bus  uint64  // address at which other devices reach the first byte, 0 if they cannot

	isHost bool // host memory of a Host window

	// execute executes any command on the port. It is nil for configuration space,
	// which accepts only loads.
	execute func(w *Walk, lead uint64) Code
}

// MappedAperture returns an aperture onto size bytes at an offset in mapped memory.
// The aperture keeps only the address: the caller keeps mem mapped and, if Go manages
// that memory, reachable.
func MappedAperture(mem []byte, offset, size uint64, slot int) Aperture {
	return Aperture{Base: AddressOf(mem[offset : offset+size]), Size: size, Slot: slot}
}

// ExitCleaner is a Device whose driver can put cores back into reset when this process
// ends, however it ends.
type ExitCleaner interface {
	// RegisterExitCleanup asks the driver to reset the cores that the image starts.
	// target is the number of the device in the image. note is a line for the user that
	// says what an old driver will not do.
	RegisterExitCleanup(view *fbs.View, target int) (note string, err error)
}
