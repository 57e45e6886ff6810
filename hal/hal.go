// Package hal opens a PCIe device and maps its address ranges. An Aperture is one
// such range: loads and stores of one, two, four and eight bytes, and block copies,
// each exactly as wide as the command requires.
//
// There are three backends. pci: uses sysfs; nothing restricts which memory the
// device reaches, so it is for bring-up. vfio: puts the device behind an IOMMU and
// is for production. tt: shares the device with Tenstorrent's own driver. All three
// map BARs and host memory; therefore a Fence (MFENCE or DSB SY) is a full barrier
// with each backend. One type, device in device_linux.go, implements Device with the
// help of a backend. The build tags backend_pci, backend_vfio and backend_tt select
// the backends that a program contains; without a tag it contains all three.
//
// A BAR is not memory. The Go compiler merges and deletes plain stores, and copy
// uses overlapping unaligned pairs. Therefore every access to mapped device memory
// is one instruction of one assembly routine (walk_amd64.s, walk_arm64.s), and this
// package returns no []byte that covers a BAR. port.go and oracle.go define what each
// command does; tests compare the assembly with them.
package hal

import "lightmetal/fbs"

// Identity describes a device that has been opened.
type Identity struct {
	Name           string    // name by which the program opened the device
	Address        string    // PCI address, such as "0000:01:00.0"; "" if unknown
	Vendor, Device uint16    // PCI vendor id and device id
	Subsystem      uint32    // register at 0x2c of configuration space; 0 if unknown
	Bars           [6]uint64 // sizes of the BARs in bytes; 0: no such memory BAR
}

// Device is one PCIe function, or a mock of a PCIe function. Map may be called only
// while an image is being loaded; after that nothing is mapped, opened or reserved.
type Device interface {
	// Identity returns the name, ids and BAR sizes of the device.
	Identity() Identity

	// Map makes a window of an image accessible. The device keeps no reference to w.
	//
	// Before the first Map nothing is stored to the device, and the device is not
	// reset. Therefore a caller that has opened the wrong device can compare Identity
	// and close the device unchanged.
	//
	// For a Tlb window, Map reserves a hardware window of at least w.Size bytes: the
	// hardware window with the number w.Slot if that one is free, else any free one.
	// For a Bar window, the range must lie inside the BAR. For a Host window, Map
	// reserves zeroed host memory, which the device reaches at the returned
	// Aperture.Bus.
	Map(w fbs.Window) (Aperture, error)

	// EncodeWindow turns the Point command c into register stores that a Walk
	// executes directly, on devices that program windows through registers. a is the
	// aperture that Map returned for the window. EncodeWindow sets these fields of c:
	//
	//	Offset  bytes from the returned address to the registers of this TLB window
	//	Width   8 for one register of 8 bytes; 4 for three registers of 4 bytes each
	//	Value   first 8 bytes of the registers' contents, lowest address first
	//	Mask    last 4 bytes of the contents, if there are three registers
	//	Amount  bytes from windowBase to the first byte of the aperture
	//
	// The returned registers is the address of the device's first TLB window register;
	// the caller must store it at index c.Index of Walk.Windows. windowBase is the
	// address of the first byte of the mapped TLB window; the caller must store it at
	// index c.Window of Walk.TLBWindows. If registers is 0, c is unchanged, and the
	// caller must call ProgramWindow instead.
	EncodeWindow(a *Aperture, t fbs.TileRange, address uint64, c *fbs.Command) (
		registers, windowBase uintptr, code Code)

	// ProgramWindow makes the first byte of a show the byte at the given address of the
	// tiles t. Map must have returned a for a Tlb window, and address must be a multiple
	// of the size of a. If the TLB window of the hardware is larger than a, the TLB
	// window shows the surrounding range, and a.Base moves inside the TLB window.
	ProgramWindow(a *Aperture, t fbs.TileRange, address uint64) Code

	// AssignBusAddress sets a.Bus to an address at which this device reaches a. The
	// aperture a must be a window of owner, which may be this device.
	AssignBusAddress(a *Aperture, owner Device) error

	// SetBusMaster switches bus mastering on or off. After SetBusMaster(false) the
	// device changes no memory. Close also switches bus mastering off, but a sealed
	// program cannot close a device and must call SetBusMaster(false) instead.
	SetBusMaster(on bool) error

	// Alive reports whether the device still answers: its PCI vendor id reads back, and
	// memory decoding is on. The runtime calls Alive after a load has returned all ones,
	// because a load from a missing device does that too.
	Alive() bool

	// Diagnose returns the cause of a failure if the device shows one: DeviceGone,
	// MasterOff or DMAFault. Otherwise it returns OK. Diagnose does not allocate, and
	// makes only system calls that a sealed program may make.
	Diagnose() Code

	// Now returns the time of a monotonic clock in nanoseconds. Sleep waits until this
	// clock has advanced by at least the given nanoseconds. The clock of a mock may be
	// virtual.
	Now() int64
	Sleep(nanoseconds int64)

	// Close stops bus mastering and releases the device.
	Close() error
}

// Aperture is a range of a device's address space. The range is either mapped memory,
// which the program accesses at Base, or the program accesses it through Port.
type Aperture struct {
	Base uintptr // address of the first byte; 0 if the range is not mapped
	Port Port    // makes the accesses if the range is not mapped, else nil
	Size uint64  // size of the range in bytes
	Slot int     // number of the hardware's TLB window; -1 for other kinds of windows
	Bus  uint64  // address at which a device reaches the first byte by DMA; 0 if none does

	isHost bool // the aperture is the host memory of a Host window

	// execute executes Next of w on Port and accepts every opcode that accesses a window.
	// It is nil for configuration space, which accepts only loads.
	execute func(w *Walk, barOffset uint64) Code
}

// MappedAperture returns an aperture onto size bytes at an offset in mapped memory.
// The aperture keeps only the address. Therefore the caller must keep mem mapped and,
// if Go manages that memory, reachable.
func MappedAperture(mem []byte, offset, size uint64, slot int) Aperture {
	return Aperture{Base: AddressOf(mem[offset : offset+size]), Size: size, Slot: slot}
}

// ExitCleaner is a Device whose driver can put cores back into reset when this process
// ends, even if the process is killed.
type ExitCleaner interface {
	// RegisterExitCleanup requests from the driver that, when this process ends, it resets
	// the cores that the image has started. deviceIndex is the index of this device in the
	// image. note is one line that warns the user of the cores that an old driver will not
	// reset; "" if no warning is needed.
	RegisterExitCleanup(view *fbs.View, deviceIndex int) (note string, err error)
}
