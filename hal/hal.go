// Package hal opens a device and gives apertures onto it: loads and stores of
// one, two, four and eight bytes, and block copies, each exactly as wide as it
// was asked for.
//
// There are three lanes. pci: drives a function through sysfs, with nothing
// between it and memory, for bring-up. vfio: puts an IOMMU there, and is for
// production. tt: lives beside Tenstorrent's own driver. All map BARs and host memory,
// so a Fence, MFENCE or DSB SY, is a full barrier on each. Each gives parts to the one type
// that is a Device (device_linux.go); tags backend_pci, backend_vfio, backend_tt pick some.
//
// A BAR is not memory. The Go compiler merges and deletes plain stores, and
// copy uses overlapping unaligned pairs, so every access to mapped device
// memory is one instruction in assembly, all of it in one routine, and no []byte
// of a BAR leaves this package. port.go and oracle.go say what each command
// means, and are what the assembly is tested against.
package hal

import "lightmetal/fbs"

// Identity is what a device says of itself.
type Identity struct {
	Name           string // the name it was opened by
	Address        string // of the function, "0000:01:00.0", equal in all its handles; "": unknown
	Vendor, Device uint16 // PCI ids
	Subsystem      uint32 // as at 0x2c of configuration space, 0: not known
	Bars           [6]uint64
}

// Device is one PCIe function, or a stand-in for one. Map is called while an
// image is loaded; after that nothing is mapped, opened or reserved.
type Device interface {
	Identity() Identity

	// Map makes a window of an image accessible. Until the first Map nothing
	// is stored to a device, nor is it reset: who opened another than was
	// meant learns so from Identity and closes it as it was. The device keeps
	// nothing of w. For a Tlb window it reserves a hardware window of at least w.Size:
	// w.Slot where that is free, else any. For a Bar window the range must lie
	// inside the BAR. For a Host window it reserves zeroed memory that the
	// device reaches at the aperture's Bus.
	Map(w fbs.Window) (Aperture, error)

	// Aim makes c, which points a, which Map made, one for a Walk, where registers
	// aim windows: c.Offset is that of this window's registers from the device's first,
	// c.Width 8 for one register and 4 for three, lowest address first, c.Value and c.Mask
	// what they are to hold, c.Amount the bytes from home, the first of the hardware
	// window, to the aperture's first. The walk's table of windows is to have registers, the
	// address of the device's first, at c.Index, and its table of homes home at c.Window.
	// Where registers is 0, Point does it, and else is not called.
	EncodeWindow(a *Aperture, t fbs.TileRange, address uint64, c *fbs.Command) (registers,
		home uintptr, code Code)

	// Point makes the first byte of a, which Map made from a Tlb window, an
	// address of a tile. The address is a multiple of the window's size; the
	// hardware window may be larger, and is then aimed at what surrounds it.
	ProgramWindow(a *Aperture, t fbs.TileRange, address uint64) Code

	// Reach gives a, a window of device of, which may be this one, an address
	// at which this device reaches it, and leaves that in a.Bus.
	AssignBusAddress(a *Aperture, of Device) error

	// Master lets the device master the bus, which it does by itself only between
	// Master(true) and Master(false). That stops what Master began; then,
	// nothing that it does changes memory when Master returns. Close stops it too.
	// A sealed program, which cannot close anything, has Master(false) for that.
	SetBusMaster(on bool) error

	// Alive tells whether the device still answers: its PCI vendor id reads
	// back and memory decoding is on. Asked where all ones were read.
	Alive() bool

	// Diagnose says what is known of the device after a failure: OK,
	// DeviceGone, MasterOff or DMAFault. It neither allocates nor makes a
	// system call that a sealed program may not.
	Diagnose() Code

	// Now is a monotonic clock in nanoseconds. Sleep lets at least that much
	// of the device's time pass. A stand-in's clock may be virtual.
	Now() int64
	Sleep(nanoseconds int64)

	Close() error
}

// Aperture is a range of a device's address space: mapped memory, whose address
// goes into the table of a Walk, or a port.
type Aperture struct {
	Base uintptr // address of byte 0 where the range is mapped, else 0
	// where it is not mapped; NewAperture makes one that more than Checks go through
	Port Port
	Size uint64
	Slot int // hardware window of a Tlb window, else -1
	// address other devices reach byte 0 at, 0 if they cannot
	Bus    uint64
	isHost bool // host memory, of a Host window
	// carries out any command on the port; nil where it is configuration space
	execute func(w *Walk, lead uint64) Code
}

// MappedAperture is an aperture onto the size bytes at an offset in mapped
// memory. slot is as for NewAperture. The aperture keeps the address alone: the
// caller keeps mem mapped, and reachable where it is memory that Go manages.
func MappedAperture(mem []byte, offset, size uint64, slot int) Aperture {
	return Aperture{Base: AddressOf(mem[offset : offset+size]), Size: size, Slot: slot}
}

// Cleaner is a Device whose driver may put cores back into reset when this process
// ends, however it ends: those that the image, of which the device is a target, lets
// run. note is a line on what will not be done where the driver is too old for that.
type ExitCleaner interface {
	RegisterExitCleanup(view *fbs.View, target int) (note string, err error)
}
